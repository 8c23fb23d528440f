package otelllmhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// dropped is the processor under the benchmarks: it takes spans and does nothing.
type dropped struct{}

func (dropped) OnStart(context.Context, trace.ReadWriteSpan) {}
func (dropped) OnEnd(trace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error               { return nil }
func (dropped) ForceFlush(context.Context) error             { return nil }

// transports calls f with the bare transport, and with one that records all content in one run.
func transports(b *testing.B, f func(b *testing.B, ctx context.Context, rt http.RoundTripper)) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	b.Cleanup(base.CloseIdleConnections)
	b.Run("bare", func(b *testing.B) { f(b, b.Context(), base) })
	b.Run("recorded", func(b *testing.B) {
		tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent),
			otelagent.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{}))))
		t := otelllmhttp.NewTransport(tracer, otelllmhttp.WithBase(base))
		defer t.Close()
		ctx, run := tracer.StartRun(b.Context(), otelagent.RunInfo{})
		defer run.End(otelagent.RunResult{})
		f(b, ctx, t)
	})
}

// chunks is how many events the stream of BenchmarkStream has.
const chunks = 500

// BenchmarkStream reads a stream of 500 events that the server sends one by one. docs/hotpaths.md has its bound.
func BenchmarkStream(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range chunks {
			fmt.Fprintf(w, `data: {"id":"r","object":"chat.completion.chunk","created":1764000000,"model":"m","choices":`+
				`[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}`+"\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, `data: {"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	b.Cleanup(s.Close)
	transports(b, func(b *testing.B, ctx context.Context, rt http.RoundTripper) {
		ask(ctx, b, rt, s.URL, func(i int) string {
			return fmt.Sprintf(`{"stream":true,"messages":[{"role":"user","content":"%d"}]}`, i)
		})
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
	})
}

// BenchmarkRequest sends a request with a history of 100 KB, of which 1 KB is new, and reads a reply of 1 KB.
func BenchmarkRequest(b *testing.B) {
	reply := `{"id":"r","model":"m","choices":[{"index":0,"finish_reason":"stop",` +
		`"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) +
		`"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	b.Cleanup(s.Close)
	text := strings.Repeat("history ", 128)
	var history strings.Builder
	for i := range 50 {
		fmt.Fprintf(&history, `{"role":"user","content":"%d %s"},{"role":"assistant","content":"%d %s"},`, i, text, i, text)
	}
	transports(b, func(b *testing.B, ctx context.Context, rt http.RoundTripper) {
		ask(ctx, b, rt, s.URL, func(i int) string {
			return fmt.Sprintf(`{"messages":[%s{"role":"user","content":"%d %s"}]}`, history.String(), i, text)
		})
	})
}

// ask sends requests and reads their responses. The bodies are made beforehand.
func ask(ctx context.Context, b *testing.B, rt http.RoundTripper, url string, body func(i int) string) {
	bodies := make([]string, 64)
	for i := range bodies {
		bodies[i] = body(i)
	}
	client, p, i := &http.Client{Transport: rt}, make([]byte, 32<<10), 0
	b.ReportAllocs()
	before := cpu(b)
	defer func() { b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		i++
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
			strings.NewReader(bodies[i%len(bodies)]))
		must.Do(b, err)
		res, err := client.Do(req)
		must.Do(b, err)
		for err == nil {
			_, err = res.Body.Read(p)
		}
		_ = res.Body.Close()
	}
}

// cpu returns the CPU time of the process, in nanoseconds, that of the server included.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
