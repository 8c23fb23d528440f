//go:build linux

package soak

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
)

// lockBound is for how long deleting may keep a writer waiting, by docs/reliability.md.
const lockBound = 50 * time.Millisecond

// waits measures, until it is stopped, how long somebody who wants to write has to wait for the database's lock: it is
// what a batch of any other process waits, without the batch's own work.
func waits(t *testing.T, path string) (stop func() []time.Duration) {
	t.Helper()
	db := look(t, path)
	conn := must.Get(db.Conn(t.Context()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		defer db.Close()
		defer conn.Close()
		for ctx.Err() == nil {
			all = append(all, waitOnce(t, conn))
			time.Sleep(2 * time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return func() []time.Duration { cancel(); wg.Wait(); return all }
}

func waitOnce(t *testing.T, conn *sql.Conn) time.Duration {
	ctx := context.WithoutCancel(t.Context())
	start := time.Now()
	for {
		_, err := conn.ExecContext(ctx, "PRAGMA busy_timeout=0; BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if time.Since(start) > 30*time.Second {
			t.Errorf("the database is locked for half a minute: %v", err)
			return time.Since(start)
		}
		time.Sleep(200 * time.Microsecond)
	}
	took := time.Since(start)
	_, _ = conn.ExecContext(ctx, "ROLLBACK")
	return took
}

// ids returns the sessions of a database.
func ids(t *testing.T, path string) (all []string) {
	t.Helper()
	st := must.Get(sqlitestore.OpenReadOnly(t.Context(), path))(t)
	defer func() { _ = st.Close() }()
	for s, err := range st.Sessions(t.Context(), store.Query{}) {
		must.Do(t, err)
		all = append(all, s.ID)
	}
	return all
}

// bigSessions sends sessions of many turns, all with the system prompt that every session has.
func bigSessions(t *testing.T, rng *rand.Rand, c *collector, n, turns int) *ledger {
	t.Helper()
	l := newLoad(t, script{Turns: turns, Bytes: 8000})
	l.name = "big"
	l.exact = true
	l.sessions = (n + 1) / 2
	l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newHTTPWire(c.addr.http)})
	l.wg.Wait()
	return l.ledger
}

// without takes sessions off a ledger that were deleted.
func (l *ledger) without(deleted func(id string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scripts = slices.DeleteFunc(l.scripts, func(s script) bool { return deleted(s.ID) })
}

// `otelagent rm` of large sessions while others are written: no writer waits long for it, and nothing goes that another
// session needs.
func TestEraseDuringLoad(t *testing.T) {
	rng := begin(t)
	c := newCollector(t, "")
	p := c.up()
	const turns = 40
	n := 6 + int(lasting(0, 10).Seconds())
	big := bigSessions(t, rng, c, n, turns)

	l := newLoad(t, script{Turns: 8, Bytes: 400})
	l.wait = 20 * time.Millisecond
	l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
	calm := waits(t, c.db)
	time.Sleep(lasting(500*time.Millisecond, 2))
	before := calm()
	_, _, quietest := l.ledger.latency()

	busy := waits(t, c.db)
	gone := map[string]bool{}
	start := time.Now()
	for i, s := range big.scripts {
		if i%2 == 1 {
			continue // every second one stays
		}
		if out, err := exec.Command(bin, "rm", s.ID, "--yes", "--db", c.db).CombinedOutput(); err != nil {
			t.Errorf("rm %s: %v\n%s", s.ID, err, out)
		}
		gone[s.ID] = true
	}
	took := time.Since(start)
	during := busy()
	p.alive()
	l.finish(time.Minute)
	p.stop()

	report := lockReport(t, before, during)
	p50, p99, longest := l.ledger.latency()
	kept := newLedger()
	kept.scripts = append(slices.Clone(big.scripts), l.ledger.scripts...)
	kept.acked = l.ledger.acked
	kept.without(func(id string) bool { return gone[id] })
	f := check(t, c.db, kept, nil)
	for _, id := range ids(t, c.db) {
		if gone[id] {
			t.Errorf("session %s was erased and is there", id)
		}
	}
	figure(t, "seed %d: %d sessions of %d turns erased in %v, one after the other; %s; OTLP p50 %v, p99 %v, longest "+
		"%v (before: %v); %v",
		seed, len(gone), turns, took.Round(time.Millisecond), report, p50.Round(time.Microsecond),
		p99.Round(time.Microsecond), longest.Round(time.Microsecond), quietest.Round(time.Microsecond), f)
}

// lockReport holds waits to the bound and says what they were. Without -strict a busy machine may take much longer.
func lockReport(t *testing.T, before, during []time.Duration) string {
	t.Helper()
	_, calm99, calmest := percentiles(before)
	_, p99, longest := percentiles(during)
	bound := 2 * time.Second
	if *strict {
		bound = lockBound + calmest // what writers do to each other is not the deleter's
	}
	if longest > bound {
		t.Errorf("a writer waited %v for the lock, at most %v (%v while nothing was deleted)", longest, bound, calmest)
	}
	over := 0
	for _, d := range during {
		if d > lockBound {
			over++
		}
	}
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("wait for the lock p99 %v, longest %v, over %v %d of %d (before: p99 %v, longest %v)",
		round(p99), round(longest), lockBound, over, len(during), round(calm99), round(calmest))
}

// Retention at work under load: it keeps as many sessions as it should, no writer waits long for it, and what is
// kept is whole.
func TestRetentionDuringLoad(t *testing.T) {
	rng := begin(t)
	const keep = 40
	// The same load on a collector that deletes nothing, and on one that does.
	under := func(edits ...string) (c *collector, p *process, l *load, waited []time.Duration) {
		c = newCollector(t, noQueue)
		c.edits = edits
		p = c.up()
		l = newLoad(t, script{Turns: 10, Bytes: 2000})
		l.wait = 5 * time.Millisecond
		l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
		until(t, "there is something to delete", time.Minute, func() bool { return storedSpans(t, c.db) > 100 })
		stop := waits(t, c.db)
		time.Sleep(lasting(2*time.Second, 3))
		waited = stop()
		p.alive()
		l.finish(time.Minute)
		return c, p, l, waited
	}
	_, p, _, before := under()
	p.stop()
	c, p, l, during := under("    storage: ",
		fmt.Sprintf("    retention: {max_sessions: %d, interval: 1s}\n    storage: ", keep))
	until(t, "the last sweep", time.Minute, func() bool { return len(ids(t, c.db)) <= keep })
	p.stop()

	have := ids(t, c.db)
	sent := len(l.ledger.scripts)
	report := lockReport(t, before, during)
	p50, p99, longest := l.ledger.latency()
	kept := newLedger()
	kept.scripts = slices.Clone(l.ledger.scripts)
	kept.without(func(id string) bool { return !slices.Contains(have, id) })
	f := check(t, c.db, kept, nil)
	figure(t, "seed %d: %d sessions sent, %d kept; %s; OTLP p50 %v, p99 %v, longest %v; %v",
		seed, sent, len(have), report, p50.Round(time.Microsecond), p99.Round(time.Microsecond),
		longest.Round(time.Microsecond), f)
	if sent <= keep || len(have) != keep {
		t.Errorf("%d sessions sent, %d kept, want %d", sent, len(have), keep)
	}
	// The newest stay: of each sender its last session is there.
	for sender := range 2 {
		last := ""
		for _, s := range l.ledger.scripts {
			if strings.HasPrefix(s.ID, fmt.Sprintf("s-%d-", sender)) {
				last = s.ID
			}
		}
		if !slices.Contains(have, last) {
			t.Errorf("session %s, the last of its sender, is gone", last)
		}
	}
}

// kill -9 of `otelagent rm` at random moments, while others are written. What was begun is finished by the next one:
// nothing of the erased sessions is left in the file or the log, and all others are whole.
func TestKillErase(t *testing.T) {
	rng := begin(t)
	t.Parallel()
	c := newCollector(t, "")
	p := c.up()
	l := newLoad(t, script{Turns: 8, Bytes: 400})
	l.name = "stays"
	l.wait = 10 * time.Millisecond
	l.start(rng, []wire{newHTTPWire(c.addr.http)})
	kills, begun := 0, 0
	end := time.Now().Add(lasting(2*time.Second, 4))
	for ; begun == 0 || time.Now().Before(end); begun++ {
		big := newLoad(t, script{Turns: 20, Bytes: 4000})
		big.name, big.exact, big.sessions = fmt.Sprint("vanishing", begun), true, 1
		big.start(rng, []wire{newHTTPWire(c.addr.http)})
		big.wg.Wait()
		id := big.ledger.scripts[0].ID
		for range 3 {
			rm := (launch{}).run(t, "rm", id, "--yes", "--db", c.db)
			select {
			case <-rm.done:
			case <-time.After(between(rng, 10, 150)):
				kills++
			}
			rm.kill()
		}
	}
	l.finish(time.Minute)
	for i := range begun { // those of which every rm was killed before it had begun
		if out, err := exec.Command(bin, "rm", fmt.Sprintf("vanishing%d-0-0", i), "--yes", "--db",
			c.db).CombinedOutput(); err != nil && !strings.Contains(string(out), "no session") {
			t.Errorf("rm: %v\n%s", err, out)
		}
	}
	p.stop()
	if out, err := exec.Command(bin, "rm", "--vacuum", "--db", c.db).CombinedOutput(); err != nil {
		t.Errorf("rm --vacuum: %v\n%s", err, out)
	}
	f := check(t, c.db, l.ledger, nil)
	for _, file := range []string{c.db, c.db + "-wal"} {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("vanishing")) {
			t.Errorf("%s still names a session that was erased", filepath.Base(file))
		}
	}
	figure(t, "seed %d: %d sessions erased, %d kills of rm; %v", seed, begun, kills, f)
	if kills == 0 {
		t.Error("no rm was killed: the test tests nothing")
	}
}
