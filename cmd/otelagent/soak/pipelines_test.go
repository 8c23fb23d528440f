//go:build linux

package soak

import (
	"testing"
	"time"
)

// The same accident in every configuration: the store is locked by another program for a while, and the collector is
// killed meanwhile. The recommended ones lose nothing of what they acknowledged. The ones that the documents warn of do
// lose it, and must, or this test could not show a difference.
func TestKillWhileStoreIsAway(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		queued       bool // acknowledged before it is in the database
		loses        bool
	}{
		{"built-in", "", false, false},
		{"no queue", noQueue, false, false},
		{"queue that waits", queueWait, false, false},
		{"persistent queue", queuePersistent, true, false},
		{"batch processor in front", batchInFront, false, true},
		{"queue in memory", queueInMemory, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			c := newCollector(t, tt.config)
			l := newLoad(t, script{Turns: 12, Bytes: 400})
			l.patient = 3 * time.Second
			p := c.up()
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)}, []wire{newHTTPWire(c.addr.http)})
			kills := 0
			for end := time.Now().Add(lasting(time.Second, 2)); kills == 0 || time.Now().Before(end); kills++ {
				time.Sleep(between(rng, 200, 400))
				unlock := lock(t, c.db)
				time.Sleep(between(rng, 300, 800))
				p.alive()
				p.kill()
				unlock()
				p = c.up()
			}
			took := l.finish(time.Minute)
			if tt.queued {
				settle(t, c.db, l.ledger, time.Minute)
			}
			p.stop()
			var f found
			if tt.loses {
				if f, _ = inspectDatabase(t, c.db, l.ledger, nil); f.lost == 0 {
					t.Errorf("nothing of %d acknowledged spans was lost in %d kills: what the documents say of this pipeline is "+
						"wrong, or the test is blind", f.acked, kills)
				}
			} else {
				f = check(t, c.db, l.ledger, nil)
			}
			figure(t, "seed %d: %d kills, acked %d, lost %d, counted twice %d, %.0f spans/s; answers to senders: %s",
				seed, kills, f.acked, f.lost, f.twice, float64(f.acked)/took.Seconds(), l.ledger.answers())
		})
	}
}

// A persistent queue with retries that end loses what it acknowledged without any accident but a store that is away for
// longer than the retries go on: why the recommended one says max_elapsed_time: 0s.
func TestQueueThatGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edits []string
		loses bool
	}{
		{"never", []string{"timeout: 30s", "timeout: 300ms", "initial_interval: 1s", "initial_interval: 200ms"}, false},
		{"after a second", []string{"timeout: 30s", "timeout: 300ms", "initial_interval: 1s", "initial_interval: 200ms",
			"max_elapsed_time: 0s", "max_interval: 500ms\n      max_elapsed_time: 1s"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			c := newCollector(t, queuePersistent)
			c.edits = tt.edits
			p := c.up()
			l := newLoad(t, script{Turns: 12, Bytes: 400})
			l.wait = 5 * time.Millisecond
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
			until(t, "spans are acknowledged", 20*time.Second, func() bool { return l.ledger.spans() > 50 })
			unlock := lock(t, c.db)
			time.Sleep(lasting(4*time.Second, 1))
			unlock()
			l.finish(time.Minute)
			if !tt.loses {
				settle(t, c.db, l.ledger, time.Minute)
			}
			p.alive()
			p.stop()
			var f found
			if tt.loses {
				if f, _ = inspectDatabase(t, c.db, l.ledger, nil); f.lost == 0 {
					t.Errorf("nothing of %d acknowledged spans was lost: what the documents say of this queue is wrong, or the "+
						"test is blind", f.acked)
				}
			} else {
				f = check(t, c.db, l.ledger, nil)
			}
			figure(t, "seed %d: acked %d, lost %d, counted twice %d; answers to senders: %s", seed, f.acked, f.lost, f.twice,
				l.ledger.answers())
		})
	}
}
