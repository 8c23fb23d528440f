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
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// transport is a way to a receiver as a program without Setup builds it.
type transport struct {
	name  string
	start func(*testing.T) (*receiver, string)
	open  func(ctx context.Context, addr string) (sdktrace.SpanExporter, error)
}

var transports = []transport{
	{"grpc", startGRPC, func(ctx context.Context, addr string) (sdktrace.SpanExporter, error) {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(addr))
	}},
	{"http", startHTTP, func(ctx context.Context, url string) (sdktrace.SpanExporter, error) {
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	}},
}

func (tr transport) connect(t *testing.T) (*receiver, sdktrace.SpanExporter) {
	t.Helper()
	r, addr := tr.start(t)
	e, err := tr.open(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	return r, e
}

// end ends a span of a session with these bodies on it, and anything else.
func end(p trace.TracerProvider, session string, bodies []string, more ...attribute.KeyValue) {
	_, span := p.Tracer("host").Start(context.Background(), "session.turn", trace.WithAttributes(spans.SessionIDKey.String(session)))
	if bodies != nil {
		more = append(more, spans.BlockBodiesKey.StringSlice(bodies))
	}
	span.AddEvent(spans.EventBlocks, trace.WithAttributes(more...))
	span.End()
}

// body is a text of its own of that size.
func body(i, size int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("b", size)) }

// With the SDK's own batcher 20 turns with 1 MiB of content are one batch, which no stock receiver takes. This is the
// trap; the wrapped exporter brings every byte.
func TestWrappedExporterBringsWhatIsLostWithoutIt(t *testing.T) {
	const n, size = 20, 1 << 20
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			send := func(e sdktrace.SpanExporter) error {
				p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
				for i := range n {
					end(p, "s", []string{body(i, size)})
				}
				return errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context()))
			}

			r, e := tr.connect(t)
			err := send(e)
			if got := r.bodies(); err == nil || len(got) != 0 {
				t.Errorf("without the wrapper %d of %d bodies arrived, error %v: where is the trap?", len(got), n, err)
			}
			t.Logf("without: %.120s", err)

			r, e = tr.connect(t)
			w := otelsetup.WrapExporter(e)
			if err := send(w); err != nil {
				t.Error(err)
			}
			want := map[string]int{}
			for i := range n {
				want[body(i, size)] = 1
			}
			if got := r.bodies(); !cmp.Equal(want, got) {
				t.Errorf("%d bodies arrived, not all as they were sent", len(got))
			}
			if s := w.Stats(); s != (otelsetup.Stats{Ended: n, Exported: n}) {
				t.Errorf("stats %+v", s)
			}
			t.Logf("with: %d requests", len(r.requests))
		})
	}
}

// lostSessions collects what OnLost is called with.
type lostSessions struct {
	mu    sync.Mutex
	calls []string
}

func (l *lostSessions) add(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, session)
}

// all returns the sessions so far, sorted.
func (l *lostSessions) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.calls))
}

// waitFor waits until there are n calls.
func (l *lostSessions) waitFor(t *testing.T, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if got := l.all(); len(got) >= n || time.Now().After(deadline) {
			if len(got) != n {
				t.Fatalf("OnLost was called %d times, want %d", len(got), n)
			}
			return got
		}
	}
}

// A receiver that refuses some requests, wholly or in part: exactly the sessions of those are reported, once each.
func TestOnLostNamesWhatTheReceiverRefused(t *testing.T) {
	for _, tr := range transports {
		for _, partial := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in part: %t", tr.name, partial), func(t *testing.T) {
				r, e := tr.connect(t)
				r.answer = func(req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTracePartialSuccess, error) {
					for _, b := range bodiesOf(req) {
						if strings.HasPrefix(b, "3 ") {
							if partial {
								return &coltracepb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "no"}, nil
							}
							return nil, status.Error(codes.InvalidArgument, "no")
						}
					}
					return nil, nil
				}
				w := otelsetup.WrapExporter(e)
				var got, second lostSessions
				w.OnLost(got.add)
				w.OnLost(second.add)
				w.OnLost(nil)
				p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
				const size = 1_500_000 // two a request
				for i := range 6 {
					end(p, fmt.Sprint("s", i), []string{body(i, size), "same"})
				}
				err := p.ForceFlush(t.Context())
				if err == nil || !strings.HasPrefix(err.Error(), "otelsetup: 2 of 6 spans were not delivered: ") {
					t.Errorf("ForceFlush: %v", err)
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				want := []string{"s2", "s3"}
				if d := cmp.Diff(want, got.all()); d != "" {
					t.Error(d)
				}
				if d := cmp.Diff(want, second.all()); d != "" {
					t.Error(d)
				}
				if s := w.Stats(); s.Ended != 6 || s.Exported != 4 || s.Failed != 2 || s.Lost() != 2 || s.LastError == nil {
					t.Errorf("stats %+v", s)
				}
			})
		}
	}
}

var errAway = errors.New("away")

func away(context.Context, []byte) error { return errAway }

// A loss is reported once for all spans of a session in a request; spans without a session are passed over.
func TestOnLostNamesEachSessionOnce(t *testing.T) {
	var got lostSessions
	w := otelsetup.WrapExporter(otelsetup.NewFuncExporter(away))
	w.OnLost(got.add)
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
	for range 3 {
		end(p, "a", []string{"x"})
		end(p, "b", nil)
	}
	_, noSession := p.Tracer("host").Start(t.Context(), "GET /")
	noSession.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b"}, got.all()); d != "" {
		t.Error(d)
	}
	if s := w.Stats(); s.Failed != 7 || !errors.Is(s.LastError, errAway) {
		t.Errorf("stats %+v", s)
	}
}

// One exporter may serve several providers at the same time.
func TestExporterServesSeveralProviders(t *testing.T) {
	const providers, spansEach = 4, 20
	r, e := transports[0].connect(t)
	w := otelsetup.WrapExporter(e)
	var wg sync.WaitGroup
	for i := range providers {
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
		defer p.Shutdown(context.Background()) // the first one shuts the exporter down
		wg.Go(func() {
			for j := range spansEach {
				end(p, "s", []string{body(i*spansEach+j, 300_000)})
			}
			if err := p.ForceFlush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := w.Stats(); len(r.bodies()) != providers*spansEach || s.Exported != providers*spansEach || s.Lost() != 0 {
		t.Errorf("%d bodies arrived, stats %+v", len(r.bodies()), s)
	}
}

// A span that is larger than a request goes alone, and takes nothing else with it.
func TestSpanLargerThanARequestGoesAlone(t *testing.T) {
	r, e := transports[0].connect(t)
	w := otelsetup.WrapExporter(e)
	var got lostSessions
	w.OnLost(got.add)
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
	end(p, "s", []string{body(0, 10)})
	end(p, "s", []string{body(1, 5_000_000)})
	end(p, "s", []string{body(2, 10)})
	_ = p.Shutdown(t.Context())
	if d := cmp.Diff(map[string]int{body(0, 10): 1, body(2, 10): 1}, r.bodies()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"s"}, got.all()); d != "" {
		t.Error(d)
	}
}

// The time that the batcher allows is for all requests of a batch. What it does not suffice for is not tried, and
// reported.
func TestExportEndsWithItsContext(t *testing.T) {
	w := otelsetup.WrapExporter(hanging{})
	var got lostSessions
	w.OnLost(got.add)
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w, sdktrace.WithExportTimeout(20*time.Millisecond)))
	for i := range 10 {
		end(p, fmt.Sprint("s", i), []string{body(i, 2_000_000)})
	}
	start := time.Now()
	if err := p.ForceFlush(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ForceFlush: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(got.all()); n != 10 {
		t.Errorf("%d reported", n)
	}
}

func TestWrapExporterOfNothing(t *testing.T) {
	w := otelsetup.WrapExporter(nil)
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(w))
	end(p, "s", []string{"a"})
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if s := w.Stats(); s.Failed != 1 || s.LastError == nil {
		t.Errorf("stats %+v", s)
	}
}
