//go:build linux

package soak

import (
	"testing"
	"time"
)

// The same accident in every configuration: the store is locked by another program for a while, and the collector is killed
// meanwhile. What is recommended loses nothing of what it acknowledged. What the documents warn of does lose it, and must,
// or this test could not tell.
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
					t.Errorf("nothing of %d acknowledged spans was lost in %d kills: what the documents say of this pipeline is wrong, or the test is blind", f.acked, kills)
				}
			} else {
				f = check(t, c.db, l.ledger, nil)
			}
			figure(t, "seed %d: %d kills, acked %d, lost %d, counted twice %d, %.0f spans/s; senders were told: %s",
				seed, kills, f.acked, f.lost, f.twice, float64(f.acked)/took.Seconds(), l.ledger.answers())
		})
	}
}
