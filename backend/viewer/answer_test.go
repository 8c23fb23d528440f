package viewer

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store/memstore"
)

// sized answers so many bytes, which do not get smaller by compressing.
func sized(n int) func(*http.Request) (*answer, error) {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return func(*http.Request) (*answer, error) {
		return &answer{kind: "text/plain", write: func(b *bounded) error { _, err := b.Write(body); return err }}, nil
	}
}

func handler(t *testing.T) *Handler {
	t.Helper()
	h, err := New(Options{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// An answer of more than 64 MiB is refused, and nothing of it is held.
func TestAnswerTooLarge(t *testing.T) {
	h := handler(t)
	text := strings.Repeat("\x01", maxBody/5) // six characters each
	w := httptest.NewRecorder()
	h.api(func(*http.Request) (*answer, error) {
		return asJSON("x", func() (any, error) { return []string{text}, nil }), nil
	})(w, httptest.NewRequest(http.MethodGet, "/api/v1/x", nil))
	if w.Code != errTooLarge.status || !strings.Contains(w.Body.String(), errTooLarge.text) || w.Header().Get("ETag") != "" {
		t.Errorf("%d %.200s %v", w.Code, w.Body, w.Header())
	}
	if h.large.left.Load() != maxLarge || h.small.left.Load() != maxSmall || len(h.making) != 0 {
		t.Errorf("something is held: %d, %d, %d", h.large.left.Load(), h.small.left.Load(), len(h.making))
	}
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

// What is held for clients that do not read is bounded, and large answers do not keep out small ones.
func TestAnswersOnTheirWay(t *testing.T) {
	h := handler(t)
	h.large = newBudget(10 << 20)
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
	if h.large.left.Load() != 10<<20 || h.small.left.Load() != maxSmall || len(h.making) != 0 {
		t.Errorf("something is held: %d, %d, %d", h.large.left.Load(), h.small.left.Load(), len(h.making))
	}
}

// Few answers are put together at once.
func TestAnswersBeingMade(t *testing.T) {
	h := handler(t)
	var now, most atomic.Int64
	f := h.api(func(*http.Request) (*answer, error) {
		return &answer{write: func(b *bounded) error {
			defer now.Add(-1)
			for n := now.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			time.Sleep(time.Millisecond)
			_, err := b.Write([]byte("{}"))
			return err
		}}, nil
	})
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

// Who does not read an answer loses it after some time, and its bytes are free again; through compression too.
func TestAnswerNobodyReads(t *testing.T) {
	h := handler(t)
	h.sendTime = 200 * time.Millisecond
	zip, err := compressed()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(zip(h.api(sized(32 << 20))))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	held := false
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		free := h.large.left.Load() == maxLarge
		if held && free {
			return
		}
		held = held || !free
	}
	t.Errorf("held: %v, and never given back", held)
}
