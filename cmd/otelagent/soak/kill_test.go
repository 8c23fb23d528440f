//go:build linux

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
)

// The configurations under test are those that the documents show.
const (
	noQueue         = "../../../collector-exporter/distribution/config.yaml"
	queueWait       = "testdata/queue-wait.yaml"
	queuePersistent = "testdata/queue-persistent.yaml"
	batchInFront    = "testdata/loses-batch-processor.yaml"
	queueInMemory   = "testdata/loses-memory-queue.yaml"
)

// between returns a time between two, which are in milliseconds.
func between(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+rng.IntN(to-from)) * time.Millisecond
}

// settle waits until everything that was acknowledged is in the database: a persistent queue may still hold some of it.
func settle(t *testing.T, db string, l *ledger, within time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if n := storedSpans(t, db); n >= l.spans() {
			return
		}
	}
	t.Errorf("after %v only %d of %d acknowledged spans are in the database", within, storedSpans(t, db), l.spans())
}

// kill -9 of a collector at random moments, and now and then a clean stop, under load of several senders over both
// protocols, in each configuration that is recommended.
func TestKillCollector(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		queued       bool // acknowledged before it is in the database
		percent      int
	}{
		{"built-in", "", false, 12},
		{"no queue", noQueue, false, 8},
		{"queue that waits", queueWait, false, 8},
		{"persistent queue", queuePersistent, true, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			c := newCollector(t, tt.config)
			l := newLoad(t, script{Turns: 12, Bytes: 400})
			p := c.up()
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)}, []wire{newHTTPWire(c.addr.http)})
			kills, stops := 0, 0
			for end := time.Now().Add(lasting(4*time.Second, tt.percent)); kills < 2 || stops < 1 || time.Now().Before(end); {
				time.Sleep(between(rng, 20, 700))
				p.alive()
				if kills > 0 && rng.IntN(4) == 0 || kills > 3 && stops == 0 {
					p.stop() // with senders at it, as a restart of the service does
					stops++
				} else {
					p.kill()
					kills++
				}
				if kills%4 == 3 && !tt.queued { // else it is the next collector that recovers the log
					if got := integrity(t, c.db); got != "ok" {
						t.Fatalf("after kill %d: %s", kills, got)
					}
				}
				p = c.up()
			}
			took := l.finish(time.Minute)
			if tt.queued {
				settle(t, c.db, l.ledger, time.Minute)
			}
			p.stop()
			f := check(t, c.db, l.ledger, nil)
			figure(t, "seed %d: %d kills, %d stops, %v, %.0f spans/s; answers to senders: %s", seed, kills, stops, f,
				float64(f.acked)/took.Seconds(), l.ledger.answers())
			if kills < 2 || f.acked == 0 ||
				l.ledger.countOf("no connection")+l.ledger.countOf("connection cut")+l.ledger.countOf("gRPC Unavailable") == 0 {
				t.Errorf("%d kills of which senders saw nothing: the test tests nothing", kills)
			}
		})
	}
}

// Two collectors write to one file and are killed in turn; senders go to whichever answers.
func TestKillOneOfTwoCollectors(t *testing.T) {
	rng := begin(t)
	t.Parallel()
	a := newCollector(t, "")
	b := *a
	b.addr = freeAddresses(t)
	both := []*collector{a, &b}
	running := []*process{a.up(), b.up()}
	l := newLoad(t, script{Turns: 12, Bytes: 400})
	l.start(rng, []wire{newHTTPWire(a.addr.http), newHTTPWire(b.addr.http)}, []wire{newHTTPWire(b.addr.http),
		newHTTPWire(a.addr.http)}, []wire{newGRPCWire(t, b.addr.grpc), newGRPCWire(t, a.addr.grpc)})
	kills := 0
	for end := time.Now().Add(lasting(4*time.Second, 8)); time.Now().Before(end); kills++ {
		time.Sleep(between(rng, 20, 700))
		i := kills % 2
		running[i].alive()
		running[i].kill()
		running[i] = both[i].up()
	}
	took := l.finish(time.Minute)
	running[0].stop()
	running[1].stop()
	f := check(t, a.db, l.ledger, nil)
	figure(t, "seed %d: %d kills, %v, %.0f spans/s; answers to senders: %s", seed, kills, f,
		float64(f.acked)/took.Seconds(), l.ledger.answers())
}

// recording is an input of `otelagent send`: sessions of the recorded demo, each under ids of its own.
func recording(t *testing.T, sessions int) (lines, ids []string) {
	t.Helper()
	text := must.Get(os.ReadFile("../demo.ndjson"))(t)
	const one, sub = "0b5cf0a5-", "c41d7b1e-" // how the ids of the two recorded sessions begin
	for i := range sessions {
		copied := strings.NewReplacer(one, fmt.Sprintf("%08x-", i), sub, fmt.Sprintf("%08x-",
			0xa0000000+i)).Replace(string(text))
		for line := range strings.Lines(copied) {
			lines = append(lines, line)
		}
		ids = append(ids, fmt.Sprintf("%08x-6d0e-4f6f-9a51-2f7d8f0f7e11", i),
			fmt.Sprintf("%08x-93a2-4a0e-8f55-6b7a1f0d2c90", 0xa0000000+i))
	}
	return lines, ids
}

// grow appends lines to a file until all are there.
func grow(t *testing.T, path string, lines []string, over time.Duration) (done chan struct{}) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		start := time.Now()
		for i, line := range lines {
			if _, err := f.WriteString(line); err != nil {
				t.Error(err)
				return
			}
			if d := time.Until(start.Add(over * time.Duration(i) / time.Duration(len(lines)))); d > 0 {
				time.Sleep(d)
			}
		}
	}()
	return done
}

// shown returns what `show --output json` says of each session.
func shown(t *testing.T, db string, ids []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, id := range ids {
		text, err := exec.Command(bin, "show", id, "--db", db, "--output", "json").CombinedOutput()
		if err != nil {
			t.Errorf("show %s: %v\n%s", id, err, text)
		}
		out[id] = string(text)
	}
	return out
}

// kill -9 of `send -f` while its file grows, started again each time: over OTLP, and with the store in its own process.
// The sessions are those that one `send` of the finished file gives, to the byte.
func TestKillSend(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store bool // it holds the store itself
	}{{"over OTLP", false}, {"with the store in its process", true}} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			dir := t.TempDir()
			file, want := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "want.db")
			last := lasting(4*time.Second, 6)
			lines, ids := recording(t, 2+int(last.Seconds())/4)

			c := newCollector(t, "")
			args := []string{"send", "--from", "phi-core", "--capture", "content"}
			acked := newLedger()
			var collecting *process
			if tt.store {
				args = append(args, "--db", c.db)
			} else {
				collecting = c.up()
				r := newRelay(t, c.addr.http)
				acked = r.ledger
				args = append(args, "--protocol", "http/protobuf", "--endpoint", r.URL)
			}
			done := grow(t, file, lines, last)
			kills := 0
			for growing := true; growing; kills++ {
				p := launch{env: []string{"OTEL_BSP_SCHEDULE_DELAY=20"}}.run(t, append(args, "-F", file)...)
				time.Sleep(between(rng, 50, 900))
				p.alive()
				p.kill()
				select {
				case <-done:
					growing = false
				default:
				}
			}
			if code := (launch{}).run(t, append(args, file)...).exit(); code != 0 {
				t.Errorf("the last send: exit %d", code)
			}
			if collecting != nil {
				collecting.stop()
			}
			if code := (launch{}).run(t, "send", "--from", "phi-core", "--capture", "content", "--db", want,
				file).exit(); code != 0 {
				t.Errorf("send at once: exit %d", code)
			}
			f := check(t, c.db, acked, nil)
			if d := cmp.Diff(shown(t, want, ids), shown(t, c.db, ids)); d != "" {
				t.Errorf("sessions differ from those sent at once: %s", d)
			}
			if have, whole := storedSpans(t, c.db), storedSpans(t, want); have != whole || whole == 0 {
				t.Errorf("%d spans, want %d", have, whole)
			}
			figure(t, "seed %d: %d kills, %d events, %d spans in %d sessions equal to those of one send, acked %d, of them "+
				"more than once %d, lost %d",
				seed, kills, len(lines), storedSpans(t, c.db), len(ids), f.acked, acked.again, f.lost)
			if kills < 2 || !tt.store && f.acked == 0 {
				t.Errorf("%d kills, %d acked: the test tests nothing", kills, f.acked)
			}
		})
	}
}

// kill -9 of programs that record with the SDK and its retries. Every acknowledged span is there, and nothing of what
// is there is wrong or counted twice.
func TestKillSDKProgram(t *testing.T) {
	rng := begin(t)
	t.Parallel()
	c := newCollector(t, "")
	collecting := c.up()
	r := newRelay(t, c.addr.http)
	self := must.Get(os.Executable())(t)
	kills := 0
	start := time.Now()
	for end := start.Add(lasting(3*time.Second, 6)); time.Now().Before(end); kills++ {
		own, name := rng.Uint64(), fmt.Sprint("p", kills)
		for n := range programScripts {
			r.ledger.begin(programScript(own, name, n))
		}
		p := launch{env: []string{fmt.Sprintf("%s=%d %s %s", programEnv, own, name, r.URL),
			"OTEL_BSP_SCHEDULE_DELAY=10"}}.start(t, exec.Command(self), name)
		time.Sleep(between(rng, 50, 900))
		p.alive()
		p.kill()
	}
	took := time.Since(start)
	collecting.stop()
	f := check(t, c.db, r.ledger, func(string) bool { return true })
	figure(t, "seed %d: %d kills, %v, %.0f spans/s", seed, kills, f, float64(f.acked)/took.Seconds())
	if kills < 2 || f.acked == 0 || f.requests == 0 {
		t.Error("the test tests nothing")
	}
}
