package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/clickhousestore"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

const (
	faultSessions = 8
	putRows       = 100 // of one Put
)

// open opens the database by server i, for the test.
func open(t *testing.T, dsn string) store.Store {
	t.Helper()
	s, err := clickhousestore.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// load is several writers, each with a store of its own, that put until they are told to stop and put again what was
// refused.
type load struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	acked    []session.Batch
	attempts int
	refused  map[string]int // by what was said
	wrong    []error        // refused for good
	longest  time.Duration  // that a batch had to wait
	last     time.Time      // of an acknowledgement
}

func startLoad(t *testing.T, stores []store.Store) *load {
	t.Helper()
	l := &load{stop: make(chan struct{}), refused: map[string]int{}}
	ctx := context.WithoutCancel(t.Context())
	for w, s := range stores {
		l.wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.put(ctx, s, batch(w, n))
			}
		})
	}
	return l
}

// batch is the n-th of writer w: rows of all sessions, a large block and one that all writers have.
func batch(w, n int) session.Batch {
	var b session.Batch
	for i := range putRows {
		k := session.Key{ID: fmt.Sprintf("session-%d", (n+i)%faultSessions)}
		b.Rows = append(b.Rows, storetest.Row(k, (w*100_000+n)*putRows+i))
		if i < 4 {
			body := fmt.Sprintf("writer %d batch %d part %d %s", w, n, i, strings.Repeat("text ", 200))
			b.Blocks = append(b.Blocks, storetest.Block(k, body), storetest.Block(k, "what everybody says"))
		}
	}
	return b
}

// put puts until it is acknowledged, then once more in one of eight cases, as a sender does whose answer got lost.
func (l *load) put(ctx context.Context, s store.Store, b session.Batch) {
	begin := time.Now()
	for {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.Put(try, b)
		cancel()
		l.mu.Lock()
		l.attempts++
		if err == nil {
			l.acked = append(l.acked, b)
			l.longest = max(l.longest, time.Since(begin))
			l.last = time.Now()
			l.mu.Unlock()
			break
		}
		l.refused[err.Error()]++
		if errors.Is(err, store.ErrData) || errors.Is(err, store.ErrUnusable) || len(l.wrong) > 0 {
			l.wrong = append(l.wrong, err)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
	if rand.IntN(8) == 0 {
		_ = s.Put(ctx, b) // whatever becomes of it
	}
}

// count returns how many Puts were acknowledged.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// progress waits until n more Puts were acknowledged and returns how long that took.
func (l *load) progress(t *testing.T, n int) time.Duration {
	t.Helper()
	begin, want := time.Now(), l.count()+n
	for l.count() < want {
		if time.Since(begin) > time.Minute {
			t.Fatalf("no %d Puts in a minute; refused: %v", n, l.said())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}

func (l *load) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for text, n := range l.refused {
		lines = append(lines, fmt.Sprintf("%d times %s", n, text))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// end stops the writers once everything of theirs is acknowledged.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	for _, err := range l.wrong {
		t.Errorf("refused for good: %v", err)
	}
	refused := 0
	for _, n := range l.refused {
		refused += n
	}
	t.Logf("%d Puts of %d rows acknowledged, %d refused and sent again; one waited up to %.1f s", len(l.acked), putRows,
		refused, l.longest.Seconds())
	if refused > 0 {
		t.Log(l.said())
	}
}

// sessionOf is all that a store has of a session, as text: its rows, its blocks, and the tree.
func sessionOf(ctx context.Context, s store.Store, k session.Key) (map[string]string, error) {
	out := map[string]string{}
	var rows []session.Row
	for r, err := range s.Rows(ctx, k) {
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("row %x %x", r.Trace, r.Span)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		out[name] = string(r.AppendCanonical(nil))
		rows = append(rows, r)
	}
	for b, err := range s.Blocks(ctx, k, nil) {
		if err != nil {
			return nil, err
		}
		name := "block " + b.ID.String()
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		out[name] = b.Body
	}
	tree, err := json.Marshal(session.Assemble(rows))
	out["tree"] = string(tree)
	return out, err
}

// settle holds the sessions that every store shows to what was acknowledged. It returns how long it took until they
// were equal.
func (l *load) settle(t *testing.T, stores []store.Store) time.Duration {
	t.Helper()
	begin := time.Now()
	memory := memstore.New()
	for _, b := range l.acked {
		if err := memory.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	reference := time.Since(begin)
	rows := 0
	for i := range faultSessions {
		k := session.Key{ID: fmt.Sprintf("session-%d", i)}
		want, err := sessionOf(t.Context(), memory, k)
		if err != nil {
			t.Fatal(err)
		}
		rows += len(want)
		for j, s := range stores {
			for deadline := time.Now().Add(45 * time.Second); ; time.Sleep(200 * time.Millisecond) {
				got, err := sessionOf(t.Context(), s, k)
				if err == nil && cmp.Equal(want, got) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s by server %d: %v; %d of %d rows and blocks\n%.2000s", k.ID, j, err, len(got), len(want),
						cmp.Diff(want, got))
				}
			}
		}
	}
	t.Logf("%d rows and blocks of %d sessions: nothing lost, nothing twice, the same tree by each of %d servers", rows,
		faultSessions, len(stores))
	return time.Since(begin) - reference
}

// TestChdbKilled kills a current engine in the middle of inserts, several times. What it acknowledged is in its files.
func TestChdbKilled(t *testing.T) {
	r := start(t)
	s := open(t, database(r, "chdb_killed"))
	l := startLoad(t, []store.Store{s, s, s})
	for range 3 {
		l.progress(t, 15)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		r.Server.Kill()
		if err := r.Server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.progress(t, 15)
	l.end(t)
	l.settle(t, []store.Store{s})
}
