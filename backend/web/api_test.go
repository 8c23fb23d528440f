package web

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

// sized answers so many bytes, which compression does not shrink.
func sized(n int) func(*query) (any, error) {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return func(*query) (any, error) { return raw{kind: "text/plain", body: body}, nil }
}

func handler(t *testing.T) *Handler {
	t.Helper()
	h := must.Get(New(Options{Store: memstore.New()}))(t)
	t.Cleanup(h.Close)
	return h
}

// free fails the test when a place or a byte is held.
func free(t *testing.T, h *Handler, large int64) {
	t.Helper()
	if !h.large.TryAcquire(large) || !h.small.TryAcquire(maxSmall) || !h.making.TryAcquire(maxMaking) {
		t.Error("something is held")
	}
}

// An answer of more than 64 MiB is refused, and nothing of it is held.
func TestAnswerTooLarge(t *testing.T) {
	h := handler(t)
	text := strings.Repeat("\x01", maxBody/5) // six characters each
	w := httptest.NewRecorder()
	h.api(
		func(*query) (any, error) { return []string{text}, nil },
	)(
		w,
		httptest.NewRequest(http.MethodGet, "/api/v1/x", nil),
	)
	if w.Code != errTooLarge.status || !strings.Contains(w.Body.String(), errTooLarge.text) ||
		w.Header().Get("ETag") != "" {
		t.Errorf("%d %.200s %v", w.Code, w.Body, w.Header())
	}
	free(t, h, maxLarge)
}

// stuck is a client that reads nothing until it may.
type stuck struct {
	*httptest.ResponseRecorder
	writing chan<- struct{}
	may     <-chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	select {
	case s.writing <- struct{}{}:
		<-s.may
	case <-s.may: // it reads already
	}
	return s.ResponseRecorder.Write(p)
}

// The bytes held for clients that do not read are bounded, and large answers do not keep out small ones.
func TestAnswersOnTheirWay(t *testing.T) {
	h := handler(t)
	h.large = semaphore.NewWeighted(10 << 20)
	large, small := h.api(sized(3<<20)), h.api(sized(1000))
	ask := func(f http.HandlerFunc) int {
		w := httptest.NewRecorder()
		f(w, httptest.NewRequest(http.MethodGet, "/api/v1/x", nil))
		return w.Code
	}
	writing, may := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			large(stuck{httptest.NewRecorder(), writing, may}, httptest.NewRequest(http.MethodGet, "/api/v1/x", nil))
		})
		<-writing
	}
	if got := ask(large); got != http.StatusTooManyRequests {
		t.Errorf("a fourth large one: %d", got)
	}
	if got := ask(small); got != http.StatusOK {
		t.Errorf("a small one: %d", got)
	}
	close(may)
	wait.Wait()
	if got := ask(large); got != http.StatusOK {
		t.Errorf("when they were sent: %d", got)
	}
	free(t, h, 10<<20)
}

// slow is a document whose encoding counts how many are encoded at once.
type slow struct{ now, most *atomic.Int64 }

func (s slow) MarshalJSON() ([]byte, error) {
	defer s.now.Add(-1)
	for n := s.now.Add(1); ; {
		if old := s.most.Load(); n <= old || s.most.CompareAndSwap(old, n) {
			break
		}
	}
	time.Sleep(time.Millisecond)
	return []byte("{}"), nil
}

// Few answers are encoded at once.
func TestAnswersBeingMade(t *testing.T) {
	h := handler(t)
	var now, most atomic.Int64
	f := h.api(func(*query) (any, error) { return slow{&now, &most}, nil })
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			w := httptest.NewRecorder()
			if f(w, httptest.NewRequest(http.MethodGet, "/api/v1/x", nil)); w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	wait.Wait()
	if n := most.Load(); n < 1 || n > maxMaking {
		t.Errorf("%d at once", n)
	}
}

// A client that does not read an answer loses it after some time, and its bytes are free again; also compressed.
func TestAnswerNobodyReads(t *testing.T) {
	h := handler(t)
	h.sendTime = 200 * time.Millisecond
	zip := must.Get(compressed())(t)
	s := httptest.NewServer(zip(h.api(sized(32 << 20))))
	defer s.Close()
	c := must.Get(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer c.Close()
	must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"))(t)
	held := false
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		idle := h.large.TryAcquire(maxLarge)
		if idle {
			h.large.Release(maxLarge)
		}
		if held && idle {
			return
		}
		held = held || !idle
	}
	t.Errorf("held: %v, and never given back", held)
}

// counted counts how often rows are read.
type counted struct {
	store.Store
	reads int
}

func (c *counted) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	c.reads++
	return c.Store.Rows(ctx, k)
}

// What the cache holds of sessions goes with their trees, and a session that is larger than the cache is read once.
func TestCacheHoldsTrees(t *testing.T) {
	for most, want := range map[int64]int{1: 1, 3 << 20: 2} {
		h := handler(t)
		st := &counted{Store: h.o.Store}
		h.o.Store, h.cache = st, newCache(most)
		for i := range 5 {
			k := session.Key{ID: fmt.Sprint("s", i)}
			b := session.Batch{Rows: []session.Row{storetest.Row(k, 100*i)},
				Blocks: []session.Block{storetest.Block(k, strings.Repeat("x", 1<<20))}}
			must.Do(t, st.Put(t.Context(), b))
			for range 3 {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/outline/"+k.ID, nil)
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		}
		if st.reads != 5 {
			t.Errorf("cache of %d bytes: %d readings of 5 sessions", most, st.reads)
		}
		held := map[session.Key]bool{}
		for _, k := range h.cache.values.Keys() {
			held[k.session] = held[k.session] || k.kind == wholeTree || k.kind == treeView
		}
		maps.DeleteFunc(held, func(_ session.Key, tree bool) bool { return !tree })
		if len(held) != want {
			t.Errorf("cache of %d bytes: holds the trees of %d sessions, want %d", most, len(held), want)
		}
	}
}
