//go:build linux

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// spanKey names a span: trace id and span id.
type spanKey [24]byte

// ledger is what collectors answered senders: each span that was acknowledged, and why others were not at first.
type ledger struct {
	mu      sync.Mutex
	acked   map[spanKey]struct{}
	again   int            // acknowledged more than once
	counts  map[string]int // answers that were no success
	refused map[spanKey]struct{}
	took    []time.Duration // of requests that were acknowledged
	scripts []script        // of sessions that were begun
}

func newLedger() *ledger {
	return &ledger{acked: map[spanKey]struct{}{}, counts: map[string]int{}, refused: map[spanKey]struct{}{}}
}

// keysOf returns the spans of a request.
func keysOf(otlp []byte) ([]spanKey, error) {
	r := ptraceotlp.NewExportRequest()
	if err := r.UnmarshalProto(otlp); err != nil {
		return nil, err
	}
	var keys []spanKey
	for _, rs := range r.Traces().ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				trace, span := s.TraceID(), s.SpanID()
				keys = append(keys, spanKey(slices.Concat(trace[:], span[:])))
			}
		}
	}
	return keys, nil
}

func (l *ledger) ack(keys []spanKey, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if _, ok := l.acked[k]; ok {
			l.again++
		}
		l.acked[k] = struct{}{}
	}
	l.took = append(l.took, took)
}

func (l *ledger) note(answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[answer]++
}

// refuse notes spans of a request that got a permanent failure.
func (l *ledger) refuse(keys []spanKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		l.refused[k] = struct{}{}
	}
}

func (l *ledger) begin(s script) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scripts = append(l.scripts, s)
}

// spans returns how many were acknowledged.
func (l *ledger) spans() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func (l *ledger) refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.refused)
}

// answers says in a line what senders got other than success.
func (l *ledger) answers() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l.counts)) {
		out = append(out, fmt.Sprintf("%s %d", k, l.counts[k]))
	}
	if len(out) == 0 {
		return "nothing but success"
	}
	return strings.Join(out, ", ")
}

// countOf returns how many answers contain text.
func (l *ledger) countOf(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, v := range l.counts {
		if strings.Contains(k, text) {
			n += v
		}
	}
	return n
}

// latency returns the median, the 99th percentile and the longest of the times to an acknowledgement.
func (l *ledger) latency() (p50, p99, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return percentiles(l.took)
}

func percentiles(all []time.Duration) (p50, p99, longest time.Duration) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2], s[len(s)*99/100], s[len(s)-1]
}

// wire sends one OTLP request. The answer says how it failed; a permanent one must not be sent again.
type wire interface {
	send(ctx context.Context, otlp []byte) (answer string, permanent bool, err error)
	close()
}

type httpWire struct {
	url    string
	client *http.Client
}

func newHTTPWire(addr string) *httpWire {
	return &httpWire{"http://" + addr + "/v1/traces", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}}}
}

func (w *httpWire) close() { w.client.CloseIdleConnections() }

func (w *httpWire) send(ctx context.Context, otlp []byte) (string, bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(otlp))
	if err != nil {
		return "no request", true, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := w.client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return "no answer in time", false, err
		}
		return "no connection", false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "connection cut", false, err
	}
	if resp.StatusCode != http.StatusOK {
		// The protocol: these are tried again, all others are not.
		again := slices.Contains([]int{429, 502, 503, 504}, resp.StatusCode)
		return fmt.Sprint("HTTP ", resp.StatusCode), !again, fmt.Errorf("%s: %.200q", resp.Status, body)
	}
	return complete(body)
}

// complete looks whether a success is one of all spans.
func complete(body []byte) (string, bool, error) {
	r := ptraceotlp.NewExportResponse()
	if err := r.UnmarshalProto(body); err != nil {
		return "answer unreadable", false, err
	}
	if n := r.PartialSuccess().RejectedSpans(); n > 0 {
		return "partial success", true, fmt.Errorf("%d spans rejected", n)
	}
	return "", false, nil
}

type grpcWire struct {
	conn   *grpc.ClientConn
	client ptraceotlp.GRPCClient
}

func newGRPCWire(t *testing.T, addr string) *grpcWire {
	t.Helper()
	conn := must.Get(grpc.NewClient(
		addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(
			grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay:  20 * time.Millisecond,
					Multiplier: 1.5,
					MaxDelay:   200 * time.Millisecond,
				},
				MinConnectTimeout: time.Second,
			},
		),
	))(t)
	return &grpcWire{conn, ptraceotlp.NewGRPCClient(conn)}
}

func (w *grpcWire) close() { _ = w.conn.Close() }

func (w *grpcWire) send(ctx context.Context, otlp []byte) (string, bool, error) {
	r := ptraceotlp.NewExportRequest()
	if err := r.UnmarshalProto(otlp); err != nil {
		return "no request", true, err
	}
	resp, err := w.client.Export(ctx, r)
	if err != nil {
		code := status.Code(err)
		again := slices.Contains(
			[]codes.Code{
				codes.Canceled,
				codes.DeadlineExceeded,
				codes.Aborted,
				codes.OutOfRange,
				codes.Unavailable,
				codes.DataLoss,
				codes.ResourceExhausted,
			},
			code,
		)
		return "gRPC " + code.String(), !again, err
	}
	if n := resp.PartialSuccess().RejectedSpans(); n > 0 {
		return "partial success", true, fmt.Errorf("%d spans rejected", n)
	}
	return "", false, nil
}

// load is a number of senders that play sessions until they are stopped.
type load struct {
	t       *testing.T
	ledger  *ledger
	shape   script        // what sessions are like; id and seed are made
	wait    time.Duration // after each turn
	patient time.Duration // how long a request may take; 10 s, as SDKs do, unless set
	name    string        // sessions' ids begin with it
	exact   bool          // sessions have as many turns as shape says, not at most as many

	sessions int // of each sender; 0: until it is stopped

	stopping context.Context
	stop     context.CancelFunc
	giveUp   context.CancelFunc
	wg       sync.WaitGroup
	began    time.Time
	sent     atomic.Int64 // requests that were tried
}

func newLoad(t *testing.T, shape script) *load {
	return &load{t: t, ledger: newLedger(), shape: shape, patient: 10 * time.Second, name: "s"}
}

// start starts a sender for each wire. They share them by turns when several are given to one.
func (l *load) start(rng *rand.Rand, senders ...[]wire) {
	quiet()
	l.began = time.Now()
	l.stopping, l.stop = context.WithCancel(l.t.Context())
	var lives context.Context
	lives, l.giveUp = context.WithCancel(context.WithoutCancel(l.t.Context()))
	for i, wires := range senders {
		own := rng.Uint64()
		l.wg.Go(func() { l.sender(lives, i, own, wires) })
	}
	l.t.Cleanup(func() { l.giveUp(); l.stop(); l.wg.Wait() })
}

// sender plays sessions, and ends the current one when it is stopped.
func (l *load) sender(ctx context.Context, number int, own uint64, wires []wire) {
	rng := rand.New(rand.NewPCG(own, 0))
	defer func() {
		for _, w := range wires {
			w.close()
		}
	}()
	deliver := func(_ context.Context, otlp []byte) error { return l.deliver(ctx, rng, wires, otlp) }
	providers, err := otelsetup.Setup(
		ctx,
		otelsetup.WithoutGlobal(),
		otelsetup.WithBlocking(),
		otelsetup.WithServiceName("soak"),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(deliver)),
	)
	if err != nil {
		l.t.Error(err)
		return
	}
	tracer := (*writer.Tracer)(
		otelagent.NewTracer(
			otelagent.WithTracerProvider(providers.TracerProvider()),
			otelagent.WithCapture(otelagent.CaptureContent),
		),
	)
	for n := 0; l.stopping.Err() == nil && (l.sessions == 0 || n < l.sessions); n++ {
		s := script{
			ID:    fmt.Sprintf("%s-%d-%d", l.name, number, n),
			Turns: 1 + rng.IntN(l.shape.Turns),
			Bytes: l.shape.Bytes,
			Seed:  rng.Uint64(),
		}
		if l.exact {
			s.Turns = l.shape.Turns
		}
		l.ledger.begin(s)
		s.play(l.stopping, tracer, l.wait)
		_ = providers.ForceFlush(ctx) // fails only when the test gives up
	}
	_ = providers.Shutdown(ctx)
}

// deliver sends a request until it is acknowledged or refused for good: a sender with retries that never end. What was
// acknowledged is not sent again.
func (l *load) deliver(ctx context.Context, rng *rand.Rand, wires []wire, otlp []byte) error {
	keys, err := keysOf(otlp)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		l.sent.Add(1)
		one, cancel := context.WithTimeout(ctx, l.patient)
		start := time.Now()
		answer, permanent, err := wires[i%len(wires)].send(one, otlp)
		cancel()
		switch {
		case err == nil:
			l.ledger.ack(keys, time.Since(start))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case permanent:
			l.ledger.note(answer)
			l.ledger.refuse(keys)
			return err
		}
		l.ledger.note(answer)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(20+rng.IntN(80)) * time.Millisecond):
		}
	}
}

// finish lets the senders end their sessions and deliver the rest. Whoever does not get rid of it within the time fails
// the test. It returns how long the load was on.
func (l *load) finish(within time.Duration) time.Duration {
	l.t.Helper()
	l.stop()
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		l.giveUp()
		<-done
		l.t.Errorf("senders could not deliver the rest within %v; answers: %s", within, l.ledger.answers())
	}
	return time.Since(l.began)
}

// quiet keeps the SDK from writing about what the tests do to it.
func quiet() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	otel.SetLogger(logr.Discard())
}

// relay is between senders that do not report answers, and a collector: it notes what was acknowledged before the
// sender gets the answer.
type relay struct {
	*httptest.Server
	ledger *ledger
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	r := &relay{ledger: newLedger()}
	w := newHTTPWire(to)
	r.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path != "/v1/traces" { // metrics, which the collector behind it does not take either
			http.NotFound(out, in)
			return
		}
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return // the sender was killed
		}
		keys, err := keysOf(body)
		if err != nil {
			t.Errorf("a sender's request: %v", err)
			http.Error(out, "", http.StatusBadRequest)
			return
		}
		start := time.Now()
		answer, permanent, err := w.send(context.WithoutCancel(in.Context()), body)
		switch {
		case err == nil:
			r.ledger.ack(keys, time.Since(start))
		case permanent:
			r.ledger.note(answer)
			http.Error(out, "", http.StatusBadRequest)
		default:
			r.ledger.note(answer)
			http.Error(out, "", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(func() { r.Close(); w.close() })
	return r
}

// programEnv makes this test program an agent with the SDK instead: its value is the seed, the name of its sessions and
// the URL of a collector.
const programEnv = "OTELAGENT_SOAK_PROGRAM"

// runProgram plays sessions until it is killed. Retries are the SDK's own.
func runProgram(spec string) {
	quiet()
	var seed uint64
	var name, endpoint string
	if _, err := fmt.Sscan(spec, &seed, &name, &endpoint); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	providers, err := otelsetup.Setup(
		context.Background(),
		otelsetup.WithBlocking(),
		otelsetup.WithProtocol(otelsetup.HTTP),
		otelsetup.WithEndpoint(endpoint),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)))
	for n := range programScripts {
		programScript(seed, name, n).play(context.Background(), tracer, 3*time.Millisecond)
		_ = providers.ForceFlush(context.Background())
	}
}

// programScripts is more sessions than a program lives to play.
const programScripts = 1000

func programScript(seed uint64, name string, n int) script {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	return script{ID: fmt.Sprintf("%s-%d", name, n), Turns: 1 + rng.IntN(30), Bytes: 200, Seed: rng.Uint64()}
}
