package otelsetup_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// closedPort returns an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Thousands of turns with content and nobody there: what waits stays below the bound, every span is counted, every
// session is reported as lost, once, and the error handler hears of it in few words.
func TestReceiverAway(t *testing.T) {
	const bound, n, size = 16 << 20, 4000, 64 << 10
	for _, tt := range []struct {
		protocol otelsetup.Protocol
		messages int // at most: a connection that is refused ends a batch at once over HTTP, and is tried again over gRPC
	}{
		{otelsetup.GRPC, 10},
		{otelsetup.HTTP, n/64 + 10},
	} {
		t.Run(string(tt.protocol), func(t *testing.T) {
			heard := hear(t)
			p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithProtocol(tt.protocol),
				otelsetup.WithEndpoint("http://"+closedPort(t)), otelsetup.WithMaxQueue(0, bound))
			if err != nil {
				t.Fatal(err)
			}
			var lost lostSessions
			p.OnLost(lost.add)

			heap := func() int64 { // the least of some, for what is being sent makes garbage meanwhile
				least := int64(math.MaxInt64)
				for range 3 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					least = min(least, int64(m.HeapAlloc))
				}
				return least
			}
			before, most, longest := heap(), int64(0), time.Duration(0)
			for i := range n {
				b := body(i, size)
				start := time.Now()
				end(p.TracerProvider(), fmt.Sprint("s", i), []string{b})
				longest = max(longest, time.Since(start))
				if i%500 == 499 {
					most = max(most, heap()-before)
				}
			}
			if most > bound+8<<20 { // a request being encoded and sent on top, and the test's own ids
				t.Errorf("the heap grew by %d bytes, the bound is %d", most, bound)
			}
			if longest > time.Second {
				t.Errorf("a span took %v", longest)
			}
			s := p.Stats()
			if s.Ended != n || s.Exported != 0 || tt.protocol == otelsetup.GRPC && s.Dropped < n-bound/size-64 {
				t.Errorf("stats %+v", s)
			}

			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_ = p.Shutdown(ctx)
			if sessions := lost.waitFor(t, n); len(slices.Compact(sessions)) != n {
				t.Fatal("a session was reported twice")
			}
			if s = p.Stats(); s.Dropped+s.Failed != n || s.Lost() != n {
				t.Errorf("stats %+v", s)
			}
			drops, length := 0, 0
			messages := heard()
			for _, m := range messages {
				length = max(length, len(m))
				if strings.HasPrefix(m, "otelsetup: the queue is full") {
					drops++
				}
			}
			if len(messages) > tt.messages || length > 1000 || s.Dropped > 0 && (drops < 1 || drops > 3) {
				t.Errorf("%d messages, %d about drops, the longest of %d bytes: %.300q", len(messages), drops, length, messages)
			}
			t.Logf("heap +%.1f MiB, a span at most %v, %d messages, stats %+v", float64(most)/(1<<20), longest, len(messages), s)
		})
	}
}

// failing fails as an exporter of OTLP over gRPC does whose receiver is away: after its timeout of 10 s.
type failing struct{}

func (failing) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case <-time.After(10 * time.Second):
		return errAway
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (failing) Shutdown(context.Context) error { return nil }

// An hour of it, with ten spans a second: the error handler hears of drops once a minute, and of each batch that
// failed; nothing goes uncounted.
func TestReceiverAwayForAnHour(t *testing.T) {
	heard := hear(t)
	synctest.Test(t, func(t *testing.T) {
		p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithExporter(failing{}))
		if err != nil {
			t.Fatal(err)
		}
		var lost lostSessions
		p.OnLost(lost.add)
		text := []string{body(0, 1<<10)}
		for i := range 60 * 60 * 10 {
			end(p.TracerProvider(), fmt.Sprint("s", i), text)
			time.Sleep(100 * time.Millisecond)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		s := p.Stats()
		if s.Ended != 36000 || s.Lost() != 36000 || s.Dropped+s.Failed != 36000 || len(lost.all()) != 36000 {
			t.Errorf("stats %+v, %d reported", s, len(lost.all()))
		}
		messages := heard()
		drops := slices.DeleteFunc(slices.Clone(messages), func(m string) bool { return !strings.Contains(m, "queue is full") })
		if len(drops) < 30 || len(drops) > 62 || len(messages) > 62+60*60/10+64 {
			t.Errorf("%d messages, %d about drops", len(messages), len(drops))
		}
		if last := drops[len(drops)-1]; !strings.HasSuffix(last, fmt.Sprintf(", %d so far", s.Dropped)) {
			t.Errorf("last message about drops: %s", last)
		}
		t.Logf("%d messages, %d about drops, last %q, stats %+v", len(messages), len(drops), drops[len(drops)-1], s)
	})
}

// The newest span of a queue that is full is dropped: its session is reported although no exporter saw it.
func TestOnLostReportsDroppedSpans(t *testing.T) {
	heard := hear(t)
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithExporter(hanging{}), otelsetup.WithMaxQueue(2, 0))
	if err != nil {
		t.Fatal(err)
	}
	var got lostSessions
	p.OnLost(got.add)
	for i := range 5 {
		end(p.TracerProvider(), fmt.Sprint("s", i), []string{body(i, 10)})
	}
	if d := cmp.Diff([]string{"s2", "s3", "s4"}, got.waitFor(t, 3)); d != "" {
		t.Error(d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = p.Shutdown(ctx)
	got.waitFor(t, 5) // the two that waited
	if s := p.Stats(); s.Dropped != 3 || s.Failed != 2 {
		t.Errorf("stats %+v", s)
	}
	if m := heard(); len(m) < 2 || !strings.HasSuffix(m[0], "dropped as they end, 1 so far") || !strings.HasSuffix(m[1], "3 so far") {
		t.Errorf("heard %q", m)
	}
}

// An error handler that shuts the providers down, as one that ends the program does, is not waited for forever.
func TestErrorHandlerMayShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *otelsetup.Providers
		took := make(chan time.Duration, 2)
		defer silence()
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
			start := time.Now()
			if err := p.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			took <- time.Since(start)
		}))
		var err error
		p, err = otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(),
			otelsetup.WithExporter(tracetest.NewInMemoryExporter()), otelsetup.WithMaxQueue(2, 0))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			end(p.TracerProvider(), fmt.Sprint("s", i), []string{body(i, 10)})
		}
		if d := <-took; d > time.Second {
			t.Errorf("Shutdown took %v", d)
		}
		if s := p.Stats(); s.Exported != 2 || s.Dropped != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}
