//go:build linux

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/internal/must"
)

// spansOf makes a request of n spans, each as shape makes it.
func spansOf(t *testing.T, rng *rand.Rand, n int, shape func(i int, s ptrace.Span)) []byte {
	t.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "flood")
	ss := rs.ScopeSpans().AppendEmpty().Spans()
	now := time.Now()
	for i := range n {
		s := ss.AppendEmpty()
		var trace pcommon.TraceID
		var span pcommon.SpanID
		for j := range trace {
			trace[j] = byte(rng.Uint32())
		}
		for j := range span {
			span[j] = byte(rng.Uint32())
		}
		s.SetTraceID(trace)
		s.SetSpanID(span)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(now))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(now.Add(time.Millisecond)))
		shape(i, s)
	}
	b := must.Get(ptraceotlp.NewExportRequestFromTraces(td).MarshalProto())(t)
	return b
}

// pour sends requests that request makes as fast as they are taken, from several senders at once, for a while, but
// until a few were answered, and returns how many were taken and how many not.
func pour(t *testing.T, rng *rand.Rand, c *collector, senders int, d time.Duration,
	request func(rng *rand.Rand) []byte) (taken, retryable, bytes int64) {
	t.Helper()
	const few = 10
	ctx, cancel := context.WithTimeout(t.Context(), d+time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var ok, bad, size atomic.Int64
	end := time.Now().Add(d)
	wg.Go(func() {
		for ctx.Err() == nil && (time.Now().Before(end) || ok.Load()+bad.Load() < few) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	})
	for i := range senders {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		w := wire(newHTTPWire(c.addr.http))
		if i%2 == 1 {
			w = newGRPCWire(t, c.addr.grpc)
		}
		wg.Go(func() {
			defer w.close()
			for ctx.Err() == nil {
				b := request(own)
				switch answer, permanent, err := w.send(ctx, b); {
				case err == nil:
					ok.Add(1)
					size.Add(int64(len(b)))
				case ctx.Err() != nil:
				case permanent:
					t.Errorf("%s: %v", answer, err)
				default:
					bad.Add(1)
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return ok.Load(), bad.Load(), size.Load()
}

// Many senders push large turns as fast as they can. Memory stays within bounds, every refused sender gets an answer,
// and afterwards all goes on. The bound is what docs/reliability.md says: what memory_limiter allows; the request of
// each sender five times over, as each may be decoded between two looks of memory_limiter, and what is left of those
// before may still lie about; and the queue's file, of which mapped pages count as memory of the process.
func TestFloodOfContent(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		mib          int // memory_limiter's, and the queue's file
	}{
		{"built-in", "", 1024},
		{"no queue", noQueue, 512},
		{"queue that waits", queueWait, 512},
		{"persistent queue", queuePersistent, 512 + 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			c := newCollector(t, tt.config)
			p := c.up()
			senders, turns, each := 12, 16, 256<<10
			if *soakTime > 0 {
				senders, each = 32, 512<<10
			}
			ready := make([][]byte, 12) // made before, so that senders cost little
			for n := range ready {
				body := noise(rng, each)
				ready[n] = spansOf(t, rng, turns, func(i int, s ptrace.Span) {
					s.SetName("session.turn")
					s.Attributes().PutStr("session.id", fmt.Sprint("flood-", n))
					s.Attributes().PutStr("otelagent.run.id", "run")
					s.Attributes().PutInt("otelagent.run.start", 1)
					s.Attributes().PutInt("otelagent.turn.index", int64(i))
					e := s.Events().AppendEmpty()
					e.SetName("otelagent.blocks")
					e.Attributes().PutEmptySlice("otelagent.block.bodies").AppendEmpty().SetStr(fmt.Sprint(i, body))
				})
			}
			start := time.Now()
			taken, retryable, size := pour(t, rng, c, senders, lasting(1500*time.Millisecond, 4),
				func(rng *rand.Rand) []byte { return ready[rng.IntN(len(ready))] })
			took := time.Since(start)
			p.alive()
			now, peak := p.memory()
			// A small sender is served again.
			l := newLoad(t, script{Turns: 5, Bytes: 200})
			l.name = "after"
			l.start(rng, []wire{newHTTPWire(c.addr.http)})
			until(t, "a small sender is served", 2*time.Minute, func() bool { return l.ledger.spans() > 20 })
			l.finish(time.Minute)
			if tt.config == queuePersistent {
				p.kill() // writing the rest of the flood is not what is tested
			} else {
				p.stop()
			}
			figure(t, "seed %d: %d senders, requests of %d MiB, %d taken, %d with a retryable answer, %.0f MiB/s; memory "+
				"%d MiB, peak %d MiB; database %d MiB",
				seed, senders, turns*each>>20, taken, retryable, float64(size)/(1<<20)/took.Seconds(), now, peak,
				sizeOf(t, c.db)>>20)
			if taken+retryable == 0 {
				t.Error("nobody was answered: the test tests nothing")
			}
			if most := tt.mib + 5*senders*(turns*each>>20); peak > most {
				t.Errorf("the collector took %d MiB, more than %d", peak, most)
			}
		})
	}
}

// Floods of what costs little to send: sessions of one span, spans of others, spans that cannot be stored. What is kept
// in memory for each, and what is kept on disk of what is not stored, has a bound.
func TestFloodOfSpans(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape func(n int64, s ptrace.Span)
		rows  bool // they are stored
	}{
		{"sessions", func(n int64, s ptrace.Span) {
			s.SetName("session.run")
			s.Attributes().PutStr("session.id", fmt.Sprint("s", n))
			s.Attributes().PutStr("otelagent.run.id", "r")
			s.Attributes().PutInt("otelagent.run.start", int64(s.StartTimestamp()))
		}, true},
		{"foreign spans", func(n int64, s ptrace.Span) {
			s.SetName(fmt.Sprint("GET /", n))
			s.Attributes().PutStr("http.request.method", "GET")
		}, false},
		{"rejected spans", func(n int64, s ptrace.Span) {
			s.SetName("session.turn") // without a session
			s.Attributes().PutStr("gen_ai.agent.name", fmt.Sprint("agent", n))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			c := newCollector(t, "")
			p := c.up()
			const batch = 500
			var number atomic.Int64
			start := time.Now()
			taken, retryable, _ := pour(t, rng, c, 8, lasting(2*time.Second, 2), func(rng *rand.Rand) []byte {
				return spansOf(t, rng, batch, func(_ int, s ptrace.Span) { tt.shape(number.Add(1), s) })
			})
			took := time.Since(start)
			p.alive()
			now, peak := p.memory()
			stored := int64(storedSpans(t, c.db))
			p.kill() // the summaries of all these sessions are not what is tested
			if got := integrity(t, c.db); got != "ok" {
				t.Errorf("integrity_check: %.300s", got)
			}
			figure(t, "seed %d: %d spans taken, %d requests with a retryable answer, %.0f spans/s; %d stored; memory %d "+
				"MiB, peak %d MiB; database %d MiB",
				seed, taken*batch, retryable, float64(taken*batch)/took.Seconds(), stored, now, peak, sizeOf(t, c.db)>>20)
			if taken == 0 || tt.rows && stored < taken*batch || !tt.rows && stored != 0 {
				t.Errorf("%d spans taken, %d stored", taken*batch, stored)
			}
			if peak > 500 {
				t.Errorf("the collector took %d MiB", peak)
			}
		})
	}
}
