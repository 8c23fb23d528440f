package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// failure is an error with a status. Clients see its text, so it holds no content and no internals.
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
	errTooLarge = &failure{http.StatusInternalServerError,
		"the answer is larger than 64 MiB: ask for a part, such as one run or turn"}
	errBusy    = &failure{http.StatusTooManyRequests, "too much is being read at once: try again"}
	errSending = &failure{http.StatusTooManyRequests, "too many answers wait for their clients to read them: try again"}

	errNotModified = errors.New("the client has this state")
)

// query is a request of the API. Its handler calls fresh before it makes what takes time or memory.
type query struct {
	*http.Request
	h    *Handler
	rd   *reader.Reader
	etag string
}

// raw is an answer that is no document.
type raw struct {
	kind string
	head map[string]string
	body []byte
}

// compact is a document on one line: the command line does not print it.
type compact struct{ doc any }

// api makes a handler of a function that returns a document, a compact one or raw.
func (h *Handler) api(f func(*query) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private") // a client revalidates with its ETag
		q, err := h.query(r)
		var body raw
		if err == nil {
			body, err = q.answer(f)
		}
		if q.etag != "" && (err == nil || errors.Is(err, errNotModified)) {
			w.Header().Set("ETag", q.etag)
		}
		budget, size := h.small, int64(cap(body.body))
		if size > smallBody {
			budget = h.large
		}
		switch {
		case errors.Is(err, errNotModified):
			w.WriteHeader(http.StatusNotModified)
		case err != nil:
			h.fail(w, r, err)
		case !budget.TryAcquire(size):
			w.Header().Del("ETag")
			h.fail(w, r, errSending)
		default:
			defer budget.Release(size)
			w.Header().Set("Content-Type", body.kind)
			for k, v := range body.head {
				w.Header().Set(k, v)
			}
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.sendTime)) // where there is a connection
			_, _ = w.Write(body.body)
		}
	}
}

// query checks the parameters of a request.
func (h *Handler) query(r *http.Request) (*query, error) {
	q := &query{Request: r, h: h}
	tenant, params := h.o.Tenant, r.URL.Query()
	for name, values := range params {
		switch {
		case len(params) > 64 || len(name) > maxParam || len(values[0]) > maxParam:
			return q, bad("too many parameters, or one of more than %d bytes", maxParam)
		case len(values) > 1:
			return q, bad("%s: given %d times, want one", inspect.Clean(name), len(values))
		}
	}
	if params.Has("tenant") {
		if tenant = params.Get("tenant"); h.o.Fixed && tenant != h.o.Tenant {
			return q, &failure{http.StatusForbidden, "this viewer shows another tenant"}
		}
	}
	q.rd = &reader.Reader{Store: h.o.Store, Tenant: tenant, Name: "the database", Refresh: h.refresh}
	return q, nil
}

// answer calls f and encodes the document. It waits for a place among the answers that are made.
func (q *query) answer(f func(*query) (any, error)) (raw, error) {
	done, err := place(q.Context(), q.h.making)
	if err != nil {
		return raw{}, err
	}
	defer done()
	doc, err := f(q)
	if body, ok := doc.(raw); ok || err != nil {
		return body, err
	}
	return encoded(doc)
}

// encoded returns a document as the command line prints it.
func encoded(doc any) (raw, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the content type and nosniff keep it from being a page
	if c, ok := doc.(compact); ok {
		doc = c.doc
	} else {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(doc); err != nil {
		return raw{}, err
	}
	if b.Len() > maxBody {
		return raw{}, errTooLarge
	}
	return raw{kind: "application/json", body: b.Bytes()}, nil
}

// fresh sets the ETag of a state of a session, and fails with errNotModified when the client has it. Another version of
// the program may write the same state differently.
func (q *query) fresh(key session.Key, state ...any) error {
	of := fmt.Appendf(nil, "%q %q %q %s", q.h.o.Version, key.Tenant, key.ID, fmt.Sprint(state...))
	sum := sha256.Sum256(of)
	q.etag = `W/"` + hex.EncodeToString(sum[:12]) + `"`
	for have := range strings.SplitSeq(q.Header.Get("If-None-Match"), ",") {
		if strings.TrimSpace(have) == q.etag {
			return errNotModified
		}
	}
	return nil
}

// part returns a part of the path. Browsers take "." and ".." for folders, also when they are escaped, so such a part
// has a "~" in front, and one that has it already one more.
func (q *query) part(name string) string {
	p := q.PathValue(name)
	if rest, ok := strings.CutPrefix(p, "~"); ok {
		if dots := strings.TrimLeft(rest, "~"); dots == "." || dots == ".." {
			return rest
		}
	}
	return p
}

// session returns the session that the path names.
func (q *query) session() (session.Key, error) {
	for _, name := range []string{"session", "run", "turn", "attempt", "block"} {
		if len(q.part(name)) > maxParam {
			return session.Key{}, bad("an id of more than %d bytes", maxParam)
		}
	}
	return q.rd.Resolve(q.Context(), q.part("session"))
}

func (q *query) param(name string) string { return q.URL.Query().Get(name) }

func (q *query) flag(name string) bool {
	v := q.param(name)
	return v != "" && v != "0" && v != "false"
}

func (q *query) number(name string, unset, least, most int) (int, error) {
	if !q.URL.Query().Has(name) {
		return unset, nil
	}
	n, err := strconv.Atoi(q.param(name))
	if err != nil || n < least || n > most {
		return 0, bad("%s: want a number from %d to %d", name, least, most)
	}
	return n, nil
}

// fail answers an error. It logs an internal one, and the client reads that the log has it.
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
		return // the client is gone
	default:
		h.log(err)
		f = &failure{http.StatusInternalServerError, "the database could not be read; the server's log says why"}
	}
	refuse(w, r, f)
}

// refuse answers a failure: JSON to a client of the API, a line of text to a browser.
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

// place waits for one of the places of a semaphore. The function that it returns gives it back.
func place(ctx context.Context, places *semaphore.Weighted) (func(), error) {
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch {
	case places.Acquire(wait, 1) == nil:
		return func() { places.Release(1) }, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errBusy
}
