package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// failure is an error with a status. Its text is for whoever asked: no content, and nothing of how the server works.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func bad(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

var (
	errNoPath   = &failure{http.StatusNotFound, "there is no such path; docs/api.md has all"}
	errTooLarge = &failure{http.StatusInternalServerError, "the answer is larger than 64 MiB: ask for a part, such as one run or turn"}
	errBusy     = &failure{http.StatusTooManyRequests, "too much is being read at once: try again"}
	errSending  = &failure{http.StatusTooManyRequests, "too many answers wait for who asked to read them: try again"}
)

// answer is what an API path gives.
type answer struct {
	// etag names the state that it is made of, empty where there is none.
	etag string
	// kind is the content type; empty is JSON.
	kind string
	head map[string]string
	// write makes the body; it is not called when the client has it.
	write func(*bounded) error
}

// asJSON answers v as the command line prints it.
func asJSON(etag string, v func() (any, error)) *answer { return inJSON(etag, "  ", v) }

// asCompact answers v as JSON of one line: of what the command line does not print.
func asCompact(etag string, v func() (any, error)) *answer { return inJSON(etag, "", v) }

func inJSON(etag, indent string, v func() (any, error)) *answer {
	return &answer{etag: etag, write: func(b *bounded) error {
		x, err := v()
		if err != nil {
			return err
		}
		enc := json.NewEncoder(b)
		// As the command line prints it: the content type and nosniff keep it from being a page
		enc.SetEscapeHTML(false)
		enc.SetIndent("", indent)
		return enc.Encode(x)
	}}
}

// bounded is a body of at most maxBody bytes. It is held in chunks, so that it takes no more memory than it is long, while it grows too.
type bounded struct {
	chunks [][]byte
	size   int
}

// chunkBytes is how long a chunk is at most.
const chunkBytes = 1 << 20

func (b *bounded) Write(p []byte) (int, error) {
	if b.size+len(p) > maxBody {
		return 0, errTooLarge
	}
	for rest := p; len(rest) > 0; {
		last := len(b.chunks) - 1
		if last < 0 || len(b.chunks[last]) == cap(b.chunks[last]) {
			b.chunks = append(b.chunks, make([]byte, 0, min(max(b.size, len(rest), 512), chunkBytes, maxBody-b.size))) // twice as much, first
			last++
		}
		room := b.chunks[last]
		n := copy(room[len(room):cap(room)], rest)
		b.chunks[last] = room[:len(room)+n]
		b.size += n
		rest = rest[n:]
	}
	return len(p), nil
}

// held is how much memory it takes.
func (b *bounded) held() int64 {
	n := 0
	for _, c := range b.chunks {
		n += cap(c)
	}
	return int64(n)
}

// WriteTo writes it to w.
func (b *bounded) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for _, c := range b.chunks {
		m, err := w.Write(c)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, nil
}

// api makes a handler of what answers.
func (h *Handler) api(f func(*http.Request) (*answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private") // asked again each time, with what it has
		if err := checkParams(r); err != nil {
			h.fail(w, r, err)
			return
		}
		a, err := f(r)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		if a.etag != "" {
			etag := `W/"` + a.etag + `"`
			w.Header().Set("ETag", etag)
			for have := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
				if strings.TrimSpace(have) == etag {
					w.WriteHeader(http.StatusNotModified)
					return
				}
			}
		}
		body, sent, err := h.make(r.Context(), a)
		if err != nil {
			w.Header().Del("ETag")
			h.fail(w, r, err)
			return
		}
		defer sent()
		w.Header().Set("Content-Type", "application/json")
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		for k, v := range a.head {
			w.Header().Set(k, v)
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.sendTime)) // where there is a connection
		_, _ = body.WriteTo(w)                                                         // who went away need not be told
	}
}

// make makes the body of an answer. What it returns is to be called when the body was sent: until then its bytes are counted, and when too many
// are on their way there is no answer.
func (h *Handler) make(ctx context.Context, a *answer) (*bounded, func(), error) {
	done, err := place(ctx, h.making)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	body := &bounded{}
	if err := a.write(body); err != nil {
		return nil, nil, err
	}
	budget, size := h.small, body.held()
	if size > smallBody {
		budget = h.large
	}
	if !budget.take(size) {
		return nil, nil, errSending
	}
	return body, func() { budget.give(size) }, nil
}

// budget is how many bytes may still be held.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := &budget{}
	b.left.Store(bytes)
	return b
}

// take holds n bytes; false when there are not so many left.
func (b *budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int64) { b.left.Add(n) }

// checkParams bounds what a request says.
func checkParams(r *http.Request) error {
	n := 0
	for name, values := range r.URL.Query() {
		for _, v := range values {
			if n++; n > 64 || len(name) > maxParam || len(v) > maxParam {
				return bad("too many parameters, or one of more than %d bytes", maxParam)
			}
		}
	}
	return nil
}

// fail answers an error. What is not meant for whoever asked is logged.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	var a *reader.Error
	switch {
	case errors.As(err, &f):
	case errors.As(err, &a):
		status := http.StatusBadRequest
		if errors.Is(err, store.ErrNotFound) {
			status = http.StatusNotFound
		}
		f = &failure{status, strings.TrimSuffix(inspect.Clean(a.Error()), "; 'otelagent ls' lists what is there")}
	case errors.Is(err, store.ErrNotFound):
		f = &failure{http.StatusNotFound, "there is no such session"}
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		return // nobody listens
	default:
		h.log(err)
		f = &failure{http.StatusInternalServerError, "the database could not be read; the server's log says why"}
	}
	refuse(w, r, f)
}

func (h *Handler) log(err error) {
	if h.o.Log != nil {
		h.o.Log(err.Error())
	}
}

// refuse answers an error: JSON, and of pages a line of text.
func refuse(w http.ResponseWriter, r *http.Request, f *failure) {
	w.Header().Set("Cache-Control", "no-store")
	if f.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if isPage(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(f.status)
		_, _ = fmt.Fprintln(w, f.text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]string{"error": f.text})
}

// admit waits for one of the places of requests that read a whole session. What it returns gives the place back.
func (h *Handler) admit(ctx context.Context) (func(), error) { return place(ctx, h.heavy) }

// place waits for one of some places. What it returns gives it back.
func place(ctx context.Context, places chan struct{}) (func(), error) {
	wait := time.NewTimer(10 * time.Second)
	defer wait.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-wait.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
