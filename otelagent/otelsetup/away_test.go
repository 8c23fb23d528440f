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
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// closedPort returns an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// Thousands of turns with content and no receiver: the queue stays below its bound, the end of a span does not wait,
// every span is counted, every session is reported as lost, once, and the error handler is called a few times.
func TestReceiverAway(t *testing.T) {
	const bound, n, size = 16 << 20, 4000, 64 << 10
	for protocol, most := range map[otelsetup.Protocol]int{
		// Calls of the error handler: a connection that is refused ends a batch at once over HTTP, and is tried again
		// over gRPC.
		otelsetup.GRPC: 10, otelsetup.HTTP: n/64 + 10,
	} {
		t.Run(string(protocol), func(t *testing.T) {
			handled := handledErrors(t)
			p := setup(t, otelsetup.WithProtocol(protocol), otelsetup.WithEndpoint("http://"+closedPort(t)),
				otelsetup.WithMaxQueue(0, bound))
			var lost lostSessions
			p.TracerProvider().OnLost(lost.add)
			heap := func() int64 { // the least of some: sending makes garbage meanwhile
				least := int64(math.MaxInt64)
				for range 3 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					least = min(least, int64(m.HeapAlloc))
				}
				return least
			}
			before := heap()
			for i := range n {
				b, start := body(i, size), time.Now()
				end(p.TracerProvider(), fmt.Sprint("s", i), []string{b})
				if took := time.Since(start); took > time.Second {
					t.Errorf("a span took %v", took)
				}
				if i%500 == 499 {
					// A request that is encoded and sent comes on top, and the ids of the test.
					if grown := heap() - before; grown > bound+8<<20 {
						t.Errorf("the heap grew by %d bytes, the bound is %d", grown, bound)
					}
				}
			}
			if s := p.Stats(); s.Ended != n || s.Exported != 0 || protocol == otelsetup.GRPC && s.Dropped < n-bound/size-64 {
				t.Errorf("stats %+v", s)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_ = p.Shutdown(ctx)
			if sessions := lost.waitFor(t, n); len(slices.Compact(sessions)) != n {
				t.Fatal("a session was reported twice")
			}
			if s := p.Stats(); s.Dropped+s.Failed != n || s.Lost() != n {
				t.Errorf("stats %+v", s)
			}
			if calls := handled(); len(calls) > most || len(strings.Join(calls, "")) > 1000*len(calls) || len(drops(calls)) > 3 {
				t.Errorf("the error handler was called %d times: %.300q", len(calls), calls)
			}
		})
	}
}

// drops returns the calls of the error handler about dropped spans.
func drops(calls []string) []string {
	return slices.DeleteFunc(calls, func(m string) bool { return !strings.HasPrefix(m, "otelsetup: the queue is full") })
}

// The newest spans are dropped when the queue is full: their sessions are reported although no exporter saw them.
func TestOnLostReportsDroppedSpans(t *testing.T) {
	handled := handledErrors(t)
	p := setup(t, otelsetup.WithExporter(hanging{}), otelsetup.WithMaxQueue(2, 0))
	var got lostSessions
	p.TracerProvider().OnLost(got.add)
	for i := range 5 {
		end(p.TracerProvider(), fmt.Sprint("s", i), []string{body(i, 10)})
	}
	if d := cmp.Diff([]string{"s2", "s3", "s4"}, got.waitFor(t, 3)); d != "" {
		t.Error(d)
	}
	for until := time.Now().Add(10 * time.Second); len(drops(handled())) == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // the first drop is reported by a goroutine of its own
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = p.Shutdown(ctx)
	got.waitFor(t, 5) // the two that waited
	if s := p.Stats(); s.Dropped != 3 || s.Failed != 2 {
		t.Errorf("stats %+v", s)
	}
	m := drops(handled())
	if len(m) != 2 || !strings.HasSuffix(m[0], ", 1 so far") || !strings.HasSuffix(m[1], ", 3 so far") {
		t.Errorf("the error handler was called with %q", m)
	}
}

// With WithBlocking the end of a span waits, and none is dropped. Delivered spans make room.
func TestQueueBoundWhenBlocking(t *testing.T) {
	for _, blocking := range []bool{true, false} {
		most := 0
		opts := []otelsetup.Option{otelsetup.WithMaxQueue(5, 1<<20),
			otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, otlp []byte) error {
				most = max(most, len(otlp))
				return nil
			}))}
		if blocking {
			opts = append(opts, otelsetup.WithBlocking())
		}
		p := setup(t, opts...)
		for range 20 {
			recordBodies(p, 2, 400_000)
			if blocking {
				recordBodies(p, 2, 2_000_000)
			} else if err := p.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		must.Do(t, p.Shutdown(t.Context()))
		if s := p.Stats(); s.Lost() != 0 || s.Ended < 40 || most > 2_100_000 {
			t.Errorf("stats %+v, largest request %d", s, most)
		}
	}
}
