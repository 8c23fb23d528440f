package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/reader"
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
func asJSON(etag string, v func() (any, error)) *answer {
	return &answer{etag: etag, write: func(b *bounded) error {
		x, err := v()
		if err != nil {
			return err
		}
		enc := json.NewEncoder(b)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(x)
	}}
}

// asCompact answers v as JSON of one line: of what the command line does not print.
func asCompact(etag string, v func() (any, error)) *answer {
	return &answer{etag: etag, write: func(b *bounded) error {
		x, err := v()
		if err != nil {
			return err
		}
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		return enc.Encode(x)
	}}
}

// bounded is a body of at most maxBody bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBody {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
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
		var body bounded
		if err := a.write(&body); err != nil {
			w.Header().Del("ETag")
			h.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		for k, v := range a.head {
			w.Header().Set(k, v)
		}
		_, _ = w.Write(body.Bytes()) // who went away need not be told
	}
}

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
func (h *Handler) admit(ctx context.Context) (func(), error) {
	wait := time.NewTimer(10 * time.Second)
	defer wait.Stop()
	select {
	case h.heavy <- struct{}{}:
		return func() { <-h.heavy }, nil
	case <-wait.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
