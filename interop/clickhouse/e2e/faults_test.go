package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/clickhousestore"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

const (
	faultSessions = 8
	putRows       = 100 // of one Put
)

// batch is the n-th of writer w: rows of all sessions, large blocks and one that all writers have.
func batch(w, n int) session.Batch {
	var b session.Batch
	for i := range putRows {
		k := session.Key{ID: fmt.Sprintf("session-%d", (n+i)%faultSessions)}
		b.Rows = append(b.Rows, storetest.Row(k, (w*100_000+n)*putRows+i))
		if i < 4 {
			body := fmt.Sprintf("writer %d batch %d part %d %s", w, n, i, strings.Repeat("text ", 200))
			b.Blocks = append(b.Blocks, storetest.Block(k, body), storetest.Block(k, "a block of all writers"))
		}
	}
	return b
}

// put puts until it is acknowledged, then once more in one of eight cases, as a sender does whose answer got lost.
func put(ctx context.Context, s store.Store, b session.Batch) error {
	for {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.Put(try, b)
		cancel()
		switch {
		case err == nil:
			if rand.IntN(8) == 0 {
				_ = s.Put(ctx, b)
			}
			return nil
		case errors.Is(err, store.ErrData), errors.Is(err, store.ErrUnusable), ctx.Err() != nil:
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sessionOf is the content that a store has of a session, as text: its rows, its blocks, and the tree.
func sessionOf(ctx context.Context, s store.Store, k session.Key) (map[string]string, error) {
	out := map[string]string{}
	var rows []session.Row
	for r, err := range s.Rows(ctx, k) {
		name := fmt.Sprintf("row %x %x", r.Trace, r.Span)
		if _, twice := out[name]; err != nil || twice {
			return nil, fmt.Errorf("%s, twice %v: %w", name, twice, err)
		}
		out[name] = string(r.AppendCanonical(nil))
		rows = append(rows, r)
	}
	for b, err := range s.Blocks(ctx, k) {
		name := "block " + b.ID.String()
		if _, twice := out[name]; err != nil || twice {
			return nil, fmt.Errorf("%s, twice %v: %w", name, twice, err)
		}
		out[name] = b.Body
	}
	tree, err := json.Marshal(session.Assemble(rows))
	out["tree"] = string(tree)
	return out, err
}

// TestChdbKilled kills a current engine in the middle of inserts, several times. Its files have what it acknowledged,
// once, and the trees are those of the same batches in memory.
func TestChdbKilled(t *testing.T) {
	r := start(t)
	s := must.Get(clickhousestore.Open(t.Context(), database(r, "chdb_killed")))(t)
	defer s.Close()
	memory := memstore.New()
	var acked atomic.Int64
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				b := batch(w, n)
				if err := errors.Join(put(t.Context(), s, b), memory.Put(t.Context(), b)); err != nil {
					t.Errorf("refused for good: %v", err)
					return
				}
				acked.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for kills := range 4 {
		begin, want := time.Now(), acked.Load()+15
		for acked.Load() < want {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%d Puts of %d in a minute", acked.Load(), want)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if kills < 3 {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			r.kill()
			r.start(t)
		}
	}
	close(stop)
	writers.Wait()
	for i := range faultSessions {
		k := session.Key{ID: fmt.Sprintf("session-%d", i)}
		want := must.Get(sessionOf(t.Context(), memory, k))(t)
		for deadline := time.Now().Add(45 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			got, err := sessionOf(t.Context(), s, k)
			if err == nil && cmp.Equal(want, got) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v; %d of %d rows and blocks\n%.2000s", k.ID, err, len(got), len(want), cmp.Diff(want, got))
			}
		}
	}
}
