//go:build linux

package soak

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelagent/otelagent/internal/must"
)

// impatient is the recommended pipeline with short waits.
const impatient = "testdata/impatient.yaml"

// until waits for something that must come about.
func until(t *testing.T, what string, within time.Duration, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("within %v not seen: %s", within, what)
		}
	}
}

// needRoot skips what only root can bring about; CI is root. What covers it elsewhere is named.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system: see TestStoreFails/files_cannot_grow (RLIMIT_FSIZE) and " +
			"sqlitestore.TestDiskFull")
	}
}

// smallDisk mounts a file system of some MiB.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", mib)); err != nil {
		t.Skipf("no file system can be mounted here (%v): see TestStoreFails/files_cannot_grow (RLIMIT_FSIZE) and "+
			"sqlitestore.TestDiskFull", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// limitFiles makes writes of a process beyond n bytes of a file fail; unlimited with n < 0.
func limitFiles(t *testing.T, p *process, n int64) {
	t.Helper()
	limit := unix.Rlimit{Cur: uint64(n), Max: unix.RLIM_INFINITY}
	if n < 0 {
		limit.Cur = unix.RLIM_INFINITY
	}
	must.Do(t, unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// A store that fails while spans come, and is mended later: what it cannot take is not acknowledged, senders get a
// retryable answer, memory does not grow, and all goes on once it is mended, in the same process.
func TestStoreFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		disk  int // MiB of a file system of its own
		fails func(t *testing.T, c *collector, p *process) (mend func())
	}{
		{name: "disk full", disk: 24, fails: func(t *testing.T, c *collector, _ *process) func() {
			filler := filepath.Join(filepath.Dir(c.db), "filler")
			fill(t, filler)
			return func() {
				if err := os.Remove(filler); err != nil {
					t.Error(err)
				}
			}
		}},
		{name: "files cannot grow", fails: func(t *testing.T, _ *collector, p *process) func() {
			limitFiles(t, p, 64<<10)
			return func() { limitFiles(t, p, -1) }
		}},
		{name: "locked by another program", fails: func(t *testing.T, c *collector,
			_ *process) func() {
			return lock(t, c.db)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			c := newCollector(t, impatient)
			if tt.disk > 0 {
				needRoot(t)
				c.db = filepath.Join(smallDisk(t, tt.disk), "sessions.db")
			}
			t.Parallel()
			p := c.up()
			l := newLoad(t, script{Turns: 12, Bytes: 2000})
			l.wait = 5 * time.Millisecond // so that what comes fits on a small disk
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
			until(t, "spans are acknowledged", 20*time.Second, func() bool { return l.ledger.spans() > 100 })

			mend := sync.OnceFunc(tt.fails(t, c, p))
			defer mend()
			until(t, "both senders get a retryable answer", 30*time.Second, func() bool {
				return l.ledger.countOf("HTTP 503") > 1 && l.ledger.countOf("gRPC Unavailable") > 1
			})
			before := l.ledger.spans()
			time.Sleep(lasting(time.Second, 1))
			during := l.ledger.spans() - before
			p.alive()
			now, _ := p.memory()
			mend()
			until(t, "spans are acknowledged again", 20*time.Second, func() bool { return l.ledger.spans() > before+during+100 })
			took := l.finish(time.Minute)
			p.alive()
			_, peak := p.memory()
			p.stop()
			f := check(t, c.db, l.ledger, nil)
			figure(t, "seed %d: %v, %d while it failed, %.0f spans/s, memory %d MiB while it failed, peak %d MiB; answers "+
				"to senders: %s",
				seed, f, during, float64(f.acked)/took.Seconds(), now, peak, l.ledger.answers())
			if during > 0 && tt.name != "disk full" { // what fits into the room that a log has already may still be written
				t.Errorf("%d spans were acknowledged while the store could not be written", during)
			}
			if peak > 300 {
				t.Errorf("the collector took %d MiB", peak)
			}
			if l.ledger.refusals() > 0 {
				t.Errorf("%d spans got a permanent failure: %s", l.ledger.refusals(), l.ledger.answers())
			}
		})
	}
}

// A store that has reached limits::store_mib: senders get a retryable answer, and are served once something was erased.
func TestStoreFull(t *testing.T) {
	rng := begin(t)
	t.Parallel()
	c := newCollector(t, impatient)
	c.edits = []string{"    storage: ", "    limits: {store_mib: 2}\n    storage: "}
	p := c.up()
	old := newLoad(t, script{Turns: 12, Bytes: 4000})
	old.name = "old"
	old.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
	until(t, "both senders get a retryable answer", time.Minute, func() bool {
		return old.ledger.countOf("HTTP 503") > 2 && old.ledger.countOf("gRPC Unavailable") > 2
	})
	old.giveUp() // these senders never get rid of their last batch
	old.stop()
	old.wg.Wait()
	full := sizeOf(t, c.db) + sizeOf(t, c.db+"-wal")
	if have := old.ledger.spans(); storedSpans(t, c.db) < have {
		t.Errorf("%d of %d acknowledged spans are there", storedSpans(t, c.db), have)
	}

	l := newLoad(t, script{Turns: 5, Bytes: 200})
	l.sessions = 8 // more would fill the store again: its log grows to 16 MiB before SQLite uses it anew
	l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
	until(t, "others get a retryable answer too", time.Minute, func() bool {
		return l.ledger.countOf("HTTP 503") > 1 &&
			l.ledger.countOf("gRPC Unavailable") > 1
	})
	if n := l.ledger.spans(); n > 0 {
		t.Errorf("%d spans were acknowledged by a store that is full", n)
	}
	for _, id := range ids(t, c.db) {
		if out, err := exec.Command(bin, "rm", id, "--yes", "--db", c.db).CombinedOutput(); err != nil {
			t.Errorf("rm %s: %v\n%s", id, err, out)
		}
	}
	until(t, "spans are acknowledged again", time.Minute, func() bool { return l.ledger.spans() > 20 })
	l.finish(time.Minute)
	p.alive()
	p.stop()
	f := check(t, c.db, l.ledger, nil)
	figure(t, "seed %d: full at %.1f MiB of 2 allowed, the log counted in, after %d spans; %v; answers to senders: %s",
		seed, float64(full)/(1<<20), old.ledger.spans(), f, l.ledger.answers())
	if full > 6<<20 {
		t.Errorf("the store takes %d bytes, 2 MiB are allowed", full)
	}
}

// The store is away for longer than a persistent queue can hold: senders get a retryable answer from a full queue, at
// once, and nothing of what it acknowledged is lost.
func TestStoreAwayForLongerThanTheQueue(t *testing.T) {
	rng := begin(t)
	t.Parallel()
	c := newCollector(t, queuePersistent)
	const room = 3 << 20
	c.edits = []string{"queue_size: 268435456", fmt.Sprint("queue_size: ", room), "max_size: 8388608",
		"max_size: 1048576", "min_size: 1048576", "min_size: 262144"}
	p := c.up()
	l := newLoad(t, script{Turns: 12, Bytes: 4000})
	l.patient = time.Second
	unlock := lock(t, c.db)
	defer unlock()
	l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)}, []wire{newHTTPWire(c.addr.http)})
	until(t, "both senders get a retryable answer from a full queue", 30*time.Second, func() bool {
		return l.ledger.countOf("HTTP 503") > 2 && l.ledger.countOf("gRPC Unavailable") > 2
	})
	held := l.ledger.spans()
	time.Sleep(lasting(2*time.Second, 2))
	more := l.ledger.spans() - held
	now, _ := p.memory()
	p.alive()
	onDisk := int64(0)
	files, err := os.ReadDir(c.queue())
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		onDisk += sizeOf(t, filepath.Join(c.queue(), f.Name()))
	}
	if n := storedSpans(t, c.db); n != 0 {
		t.Errorf("%d spans were stored while the store was away", n)
	}
	unlock()
	until(t, "spans are acknowledged again", 30*time.Second, func() bool { return l.ledger.spans() > held+more+500 })
	l.finish(time.Minute)
	settle(t, c.db, l.ledger, time.Minute)
	_, peak := p.memory()
	p.stop()
	f := check(t, c.db, l.ledger, nil)
	figure(t, "seed %d: a queue of %d MiB held %d spans, then %d more, in a file of %.1f MiB; %v; memory %d MiB "+
		"while it was full, peak %d MiB; answers to senders: %s",
		seed, room>>20, held, more, float64(onDisk)/(1<<20), f, now, peak, l.ledger.answers())
	if held == 0 {
		t.Error("the queue took nothing")
	}
	if n := l.ledger.refusals(); n > 0 {
		t.Errorf("%d spans got a permanent failure: %s", n, l.ledger.answers())
	}
	if peak > 300 {
		t.Errorf("the collector took %d MiB", peak)
	}
}

// A store that is away when the collector starts: the collector starts, answers senders that they may retry, and opens
// the store as soon as that is possible.
func TestStoreAwayAtStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		disk int // MiB of a file system of its own
		away func(t *testing.T, c *collector) (back func())
	}{
		{name: "folder not mounted yet", away: func(t *testing.T, c *collector) func() {
			dir := filepath.Dir(c.db)
			c.db = filepath.Join(dir, "mnt", "sessions.db")
			must.Do(t, os.Symlink(filepath.Join(dir, "volume"), filepath.Dir(c.db)))
			return func() {
				if err := os.Mkdir(filepath.Join(dir, "volume"), 0o700); err != nil {
					t.Error(err)
				}
			}
		}},
		{name: "locked by another program", away: func(t *testing.T, c *collector) func() {
			writeFile(t, c.db, nil, 0o600)
			db := look(t, c.db)
			db.SetMaxOpenConns(1)
			must.Get(db.ExecContext(t.Context(), "BEGIN EXCLUSIVE"))(t)
			return func() { _ = db.Close() }
		}},
		{name: "disk full", disk: 8, away: func(t *testing.T, c *collector) func() {
			filler := filepath.Join(filepath.Dir(c.db), "filler")
			fill(t, filler)
			return func() {
				if err := os.Remove(filler); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			c := newCollector(t, impatient)
			if tt.disk > 0 {
				needRoot(t)
				c.db = filepath.Join(smallDisk(t, tt.disk), "sessions.db")
			}
			t.Parallel()
			back := sync.OnceFunc(tt.away(t, c))
			defer back()
			p := c.up()
			l := newLoad(t, script{Turns: 12, Bytes: 400})
			l.wait = 5 * time.Millisecond
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
			until(t, "both senders get a retryable answer", 30*time.Second, func() bool {
				return l.ledger.countOf("HTTP 503") > 1 && l.ledger.countOf("gRPC Unavailable") > 1
			})
			if n := l.ledger.spans(); n > 0 {
				t.Errorf("%d spans were acknowledged while there was no store", n)
			}
			back()
			start := time.Now()
			until(t, "spans are acknowledged", time.Minute, func() bool { return l.ledger.spans() > 100 })
			took := time.Since(start)
			l.finish(time.Minute)
			p.stop()
			f := check(t, c.db, l.ledger, nil)
			figure(t, "seed %d: served %v after the store was back; %v; answers to senders: %s", seed,
				took.Round(10*time.Millisecond), f, l.ledger.answers())
		})
	}
}

// A file that may not be written, and one that is no database: the collector says so and does not start, and the file
// is as it was.
func TestUnusableAtStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		as   *syscall.Credential
		says string
	}{
		{name: "no database", make: func(t *testing.T, path string) {
			writeFile(t, path, bytes.Repeat([]byte("some letter of mine "), 1000), 0o600)
		}, says: "not a database"},
		{name: "a header of noise", make: func(t *testing.T, path string) {
			seedDatabase(t, path)
			overwrite(t, path, 0, bytes.Repeat([]byte{0x5a}, 100))
		}, says: "not a database"},
		{name: "read-only file", as: &syscall.Credential{Uid: 65534, Gid: 65534}, make: func(t *testing.T, path string) {
			seedDatabase(t, path)
			for _, err := range []error{os.Chmod(path, 0o444), os.Chmod(filepath.Dir(path), 0o555)} {
				must.Do(t, err)
			}
		}, says: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin(t)
			t.Parallel()
			c := newCollector(t, "")
			if tt.as != nil { // root may write everything
				if os.Getuid() == 0 {
					c.launch.as = tt.as
				}
				c.db = filepath.Join(publicDir(t), "sessions.db")
			}
			tt.make(t, c.db)
			before := readFile(t, c.db)
			p := c.run()
			if code := p.exit(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(p.log(), "the collector does not start") && !strings.Contains(p.log(), "may not be") &&
				!strings.Contains(p.log(), tt.says) {
				t.Errorf("it does not say why: %s", p.log())
			}
			if !bytes.Equal(before, readFile(t, c.db)) {
				t.Error("the file was changed")
			}
			figure(t, "exit 1: %s", strings.TrimSpace(p.log()))
		})
	}
}

// seedDatabase makes a database with some sessions in it, by a collector of its own.
func seedDatabase(t *testing.T, path string) *ledger {
	t.Helper()
	c := newCollector(t, "")
	c.db = path
	p := c.up()
	l := newLoad(t, script{Turns: 12, Bytes: 2000})
	l.name = "old"
	l.start(rand.New(rand.NewPCG(seed, 7)), []wire{newHTTPWire(c.addr.http)})
	until(t, "spans are acknowledged", 20*time.Second, func() bool { return l.ledger.spans() > 400 })
	l.finish(time.Minute)
	p.stop()
	return l.ledger
}

// Bytes of the file change, before a collector starts and while it runs. It neither dies nor panics, and whatever can
// still be read of any session, no request comes back with a wrong byte.
func TestDamagedFile(t *testing.T) {
	for _, tt := range []struct {
		name    string
		running bool
		every   int // of how many pages one is damaged
	}{
		{"a few pages before the start", false, 20},
		{"a few pages while it runs", true, 20},
		{"every page while it runs", true, 1},
		{"every page before the start", false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := begin(t)
			t.Parallel()
			c := newCollector(t, impatient)
			old := seedDatabase(t, c.db)
			damage := func() {
				pages := int(sizeOf(t, c.db) / pageSize)
				for page := 1; page < pages; page++ { // without the first, which the next test destroys
					if rng.IntN(tt.every) == 0 {
						overwrite(t, c.db, int64(page*pageSize+rng.IntN(pageSize-64)), []byte(noise(rng, 64)))
					}
				}
			}
			if !tt.running {
				damage()
			}
			p := c.run()
			if !p.ready() {
				if code := p.exit(); tt.running || code != 1 || !strings.Contains(p.log(), "does not start") {
					t.Errorf("exit code %d: %s", code, p.log())
				}
				figure(t, "seed %d: it does not start: %.200s", seed, p.log())
				return
			}
			l := newLoad(t, script{Turns: 12, Bytes: 2000})
			l.wait = 5 * time.Millisecond
			l.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
			time.Sleep(500 * time.Millisecond)
			if tt.running {
				damage()
			}
			time.Sleep(lasting(1500*time.Millisecond, 1))
			p.alive()
			// Spans that cannot be written any more cannot be delivered: the senders get a permanent failure and give up.
			l.stop()
			time.Sleep(time.Second)
			l.giveUp()
			l.wg.Wait()
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			p.exit()
			if strings.Contains(p.log(), "panic") || strings.Contains(p.log(), "goroutine ") {
				t.Errorf("the collector panicked:\n%s", p.log())
			}

			all := newLedger()
			all.scripts = append(append([]script{}, old.scripts...), l.ledger.scripts...)
			whole, wrong, unreadable := readRequests(t, c.db, all)
			if wrong > 0 {
				t.Errorf("%d requests come back with wrong bytes", wrong)
			}
			check := integrity(t, c.db)
			// What docs/reliability.md says to do: what can be read is copied, and the rest is named.
			rescued := filepath.Join(filepath.Dir(c.db), "rescued.db")
			out, err := exec.Command(bin, "copy", c.db, rescued).CombinedOutput()
			kept, wrong, _ := readRequests(t, rescued, all)
			// else not even the list of sessions can be read
			listed := err == nil || strings.Contains(string(out), "not copied whole")
			if wrong > 0 || kept > whole || listed && kept < whole/2 {
				t.Errorf("the copy gives %d requests with wrong bytes, and %d whole ones of %d: %v\n%s", wrong, kept, whole,
					err, out)
			}
			if unreadable > 0 && err == nil {
				t.Errorf("the copy does not say that something is missing:\n%s", out)
			}
			if got := integrity(t, rescued); got != "ok" && kept > 0 {
				t.Errorf("integrity_check of the copy: %.300s", got)
			}
			figure(t, "seed %d: integrity_check says %.50q; of the requests %d whole, %d wrong, %d not readable; a copy "+
				"has %d; answers to senders: %s",
				seed, check, whole, wrong, unreadable, kept, l.ledger.answers())
		})
	}
}

// pageSize is that of our files.
const pageSize = 8192

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info := must.Get(os.Stat(path))(t)
	return info.Size()
}

func writeFile(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, text, mode))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return text
}

// overwrite changes bytes of a file in place.
func overwrite(t *testing.T, path string, at int64, text []byte) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	defer f.Close()
	must.Get(f.WriteAt(text, at))(t)
}

// publicDir is a folder that another user reaches; those of the test are root's alone.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "otelagent-soak-public-"))(t)
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700); _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}
