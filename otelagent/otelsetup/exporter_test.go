package otelsetup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// connect returns a receiver, and an exporter to it as a program without Setup makes it.
func connect(t *testing.T) (*receiver, sdktrace.SpanExporter) {
	t.Helper()
	r, addr := startGRPC(t)
	e := must.Get(otlptracegrpc.New(t.Context(), otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(addr)))(t)
	return r, e
}

// end ends a span of a session with these bodies on it, and anything else.
func end(p trace.TracerProvider, session string, bodies []string, more ...attribute.KeyValue) {
	_, span := p.Tracer("host").Start(context.Background(), spans.SpanTurn)
	span.SetAttributes(spans.SessionIDKey.String(session))
	if bodies != nil {
		more = append(more, spans.BlockBodiesKey.StringSlice(bodies))
	}
	span.AddEvent(spans.EventBlocks, trace.WithAttributes(more...))
	span.End()
}

// body is a text of its own of that size.
func body(i, size int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("b", size)) }

// With the SDK's own batcher 20 turns with 1 MiB of content are one batch, which no stock receiver accepts. The wrapped
// exporter delivers every byte.
func TestWrappedExporterBringsWhatIsLostWithoutIt(t *testing.T) {
	const n = 20
	want := map[string]int{}
	send := func(e sdktrace.SpanExporter) error {
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
		for i := range n {
			b := body(i, 1<<20)
			end(p, "s", []string{b})
			want[b] = 1
		}
		return errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context()))
	}
	r, e := connect(t)
	if err := send(e); err == nil || len(r.bodies()) != 0 {
		t.Errorf("without the wrapper %d of %d bodies arrived, error %v", len(r.bodies()), n, err)
	}
	r, e = connect(t)
	w := otelsetup.WrapExporter(e)
	if err := send(w); err != nil {
		t.Error(err)
	}
	if got := r.bodies(); !cmp.Equal(want, got) {
		t.Errorf("%d bodies arrived, not all as they were sent", len(got))
	}
	if s := w.Stats(); s != (otelsetup.Stats{Ended: n, Exported: n}) {
		t.Errorf("stats %+v", s)
	}
}

// lostSessions collects the calls of OnLost.
type lostSessions struct {
	mu    sync.Mutex
	calls []string
}

func (l *lostSessions) add(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, session)
}

// waitFor waits until there are n calls, and returns the sessions, sorted.
func (l *lostSessions) waitFor(t *testing.T, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		got := slices.Sorted(slices.Values(l.calls))
		l.mu.Unlock()
		if len(got) >= n || time.Now().After(deadline) {
			if len(got) != n {
				t.Fatalf("OnLost was called %d times, want %d", len(got), n)
			}
			return got
		}
	}
}

// A receiver that refuses some requests, wholly or in part: exactly the sessions of those are reported, once each, and
// spans without a session are passed over.
func TestOnLostNamesWhatTheReceiverRefused(t *testing.T) {
	for _, partial := range []bool{false, true} {
		t.Run(fmt.Sprint("in part: ", partial), func(t *testing.T) {
			r, e := connect(t)
			r.answer = func(req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTracePartialSuccess, error) {
				refused := slices.ContainsFunc(bodiesOf(req), func(b string) bool { return strings.HasPrefix(b, "3 ") })
				switch {
				case refused && partial:
					return &coltracepb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "no"}, nil
				case refused:
					return nil, status.Error(codes.InvalidArgument, "no")
				}
				return nil, nil
			}
			w := otelsetup.WrapExporter(e)
			var got, second lostSessions
			w.OnLost(got.add)
			w.OnLost(second.add)
			w.OnLost(nil)
			p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
			for i := range 6 { // two fill a request
				end(p, fmt.Sprint("s", i), []string{body(i, 1_500_000), "same"})
				if i == 2 {
					end(p, "s2", nil)
					_, noSession := p.Tracer("host").Start(t.Context(), "GET /")
					noSession.End()
				}
			}
			err := p.ForceFlush(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "otelsetup: 4 of 8 spans were not delivered: ") {
				t.Errorf("ForceFlush: %v", err)
			}
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			for _, l := range []*lostSessions{&got, &second} {
				if d := cmp.Diff([]string{"s2", "s3"}, l.waitFor(t, 2)); d != "" {
					t.Error(d)
				}
			}
			if s := w.Stats(); s.Ended != 8 || s.Exported != 4 || s.Failed != 4 || s.Lost() != 4 || s.LastError == nil {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

var errAway = errors.New("away")

func away(context.Context, []byte) error { return errAway }

// A span that is larger than a request goes alone, and takes nothing else with it.
func TestSpanLargerThanARequestGoesAlone(t *testing.T) {
	r, e := connect(t)
	w := otelsetup.WrapExporter(e)
	var got lostSessions
	w.OnLost(got.add)
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
	for i, size := range []int{10, 5_000_000, 10} {
		end(p, "s", []string{body(i, size)})
	}
	_ = p.Shutdown(t.Context())
	if d := cmp.Diff(map[string]int{body(0, 10): 1, body(2, 10): 1}, r.bodies()); d != "" {
		t.Error(d)
	}
	got.waitFor(t, 1)
}

// A span of the host with an attribute that is not UTF-8, which no request can hold, takes nothing else with it.
func TestSpanThatIsNotUTF8GoesAlone(t *testing.T) {
	_, grpc := startGRPC(t)
	_, url := startHTTP(t)
	for _, c := range []struct{ protocol, to string }{{"grpc", grpc}, {"http/protobuf", url}} {
		p := setup(t, otelsetup.WithProtocol(otelsetup.Protocol(c.protocol)), otelsetup.WithEndpoint(c.to))
		for _, text := range []string{"before", "half of an é: \xc3", "after"} {
			end(p.TracerProvider(), "s", nil, attribute.String("text", text))
		}
		_ = p.Shutdown(t.Context())
		if s := p.Stats(); s.Exported != 2 || s.Failed != 1 {
			t.Errorf("%s: stats %+v", c.protocol, s)
		}
	}
}

// hanging is an exporter that accepts nothing until its context ends.
type hanging struct{}

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hanging) Shutdown(context.Context) error { return nil }

// The time that the batcher allows is for all requests of a batch. Requests for which it does not suffice are not
// tried, and reported.
func TestExportEndsWithItsContext(t *testing.T) {
	w := otelsetup.WrapExporter(hanging{})
	var got lostSessions
	w.OnLost(got.add)
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w, sdktrace.WithExportTimeout(20*time.Millisecond)))
	for i := range 10 {
		end(p, fmt.Sprint("s", i), []string{body(i, 2_000_000)})
	}
	start := time.Now()
	if err := p.ForceFlush(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("ForceFlush: %v after %v", err, time.Since(start))
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	got.waitFor(t, 10)
}
