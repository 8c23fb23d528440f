package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
)

// view is everything that a user sees of a store: the tree of every session, and its export.
type view map[string]string

// look reads a store with otelagent.
func look(t *testing.T, dsn string) (view, error) {
	t.Helper()
	list, err := run(t, "ls", "--db", dsn, "-n", "0", "--output", "json")
	if err != nil {
		return nil, err
	}
	v := view{}
	v["ls"] = list
	var sessions struct {
		Sessions []struct {
			ID string `json:"id"`
		} `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(list), &sessions); err != nil {
		return nil, fmt.Errorf("ls --output json: %w", err)
	}
	if len(sessions.Sessions) == 0 {
		return nil, errors.New("ls --output json: no sessions")
	}
	for _, s := range sessions.Sessions {
		if v["show "+s.ID], err = run(t, "show", s.ID, "--db", dsn, "--output", "json"); err != nil {
			return nil, err
		}
	}
	dir := t.TempDir()
	if _, err := run(t, "export", "--all", "--partial", "--db", dsn, "--format", "jsonl", "-o", dir); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		v["export "+filepath.Base(f)] = string(b)
	}
	return v, nil
}

// settled reads a store until it is as wanted: summaries follow some seconds behind the spans, and replicas behind
// each other.
func settled(t *testing.T, dsn string, want view) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		got, err := look(t, dsn)
		diff := ""
		if err == nil {
			diff = cmp.Diff(want, got)
		}
		if err == nil && diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v\n(-sqlite +clickhouse):\n%.4000s", dsn, err, diff)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// sentToSQLite returns the spans of the recordings, each in a request of its own, and what one collector with SQLite
// makes of them.
func sentToSQLite(t *testing.T) (spans [][]byte, want view) {
	t.Helper()
	spans = spansOf(t, recordings(t))
	lite := filepath.Join(t.TempDir(), "sessions.db")
	one := newCollector(t, lite)
	for req := range slices.Chunk(spans, 100) {
		must.Do(t, one.post(t.Context(), slices.Concat(req...)))
	}
	one.stop()
	want = must.Get(look(t, lite))(t)
	return spans, want
}

// TestThreeCollectors sends real sessions to three collectors in front of one ClickHouse: no request goes to the
// collector of the one before it, spans come in any order, many twice, and one collector is killed in the middle.
// What is rebuilt is to the byte what one collector with SQLite makes of the same spans.
func TestThreeCollectors(t *testing.T) {
	spans, want := sentToSQLite(t)
	r := start(t)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	reqs, twice := requests(rng, spans)
	var cs [3]*collector
	for i := range cs {
		cs[i] = newCollector(t, database(r, "collectors"))
	}
	begin := time.Now()
	var next, resent atomic.Int64
	killed := make(chan struct{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(reqs) {
					return
				}
				if i == len(reqs)/3 {
					go func() {
						defer close(killed)
						cs[1].kill()
						time.Sleep(time.Second)
						cs[1].start()
					}()
				}
				if err := send(t, cs[:], i, reqs[i], &resent); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	<-killed
	took := time.Since(begin)
	t.Logf("seed %d: %d spans, %d of them twice, in %d requests to three collectors; %d requests sent again; %.1f s",
		seed, len(spans), twice, len(reqs), resent.Load(), took.Seconds())
	settled(t, database(r, "collectors"), want)
}

// send delivers request i as senders do: to the next collector until one has taken it.
func send(t *testing.T, cs []*collector, i int, req []byte, resent *atomic.Int64) error {
	for try := range 100 {
		err := cs[(i+try)%len(cs)].post(t.Context(), req)
		if err == nil {
			return nil
		}
		resent.Add(1)
		if try == 99 || t.Context().Err() != nil {
			return fmt.Errorf("request %d was not taken by any collector: %w", i, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
