package otelcopilot

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// maxReply is the largest reply that is read; of a larger one nothing is.
const maxReply = 64 << 20

// exchange is one request to the model and its reply.
type exchange struct {
	s       *session
	start   time.Time
	payload []byte

	// Guarded by session.mu.
	turn    *turn // nil while the event of its turn did not come
	utility *otelagent.Turn
	attempt int
	done    bool
	ok      bool // the reply is whole
	res     otelagent.TurnResult
}

type transport struct {
	tracing *Tracing
	base    http.RoundTripper
}

var errNoResponse = errors.New("no response")

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := t.exchange(r)
	if x == nil {
		return t.base.RoundTrip(r)
	}
	why := errNoResponse // also where the base panics
	defer func() {
		if why != nil {
			x.s.answer(x, otelagent.TurnResult{Err: why, End: time.Now()}, false)
		}
	}()
	res, err := t.base.RoundTrip(r)
	switch {
	case err != nil:
		why = err
	case res != nil && res.Body != nil:
		why = nil
		res.Body = &reply{ReadCloser: res.Body, x: x, status: res.StatusCode,
			packed:   strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip"),
			streamed: strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")}
	}
	return res, err
}

// exchange records a request to the model; nil for any other request, and of a session that is not watched.
func (t *transport) exchange(r *http.Request) *exchange {
	defer writer.Guard(ScopeName)
	about := copilot.RequestContextFrom(r)
	if about == nil || r.Method != http.MethodPost || r.GetBody == nil {
		return nil
	}
	t.tracing.mu.Lock()
	s := t.tracing.sessions[about.SessionID]
	t.tracing.mu.Unlock()
	if s == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	payload, err := io.ReadAll(body)
	if err != nil {
		return nil
	}
	if req, _ := otelagent.ParseRequest(payload); len(req.Messages) == 0 {
		return nil // it asks no model
	}
	x := &exchange{s: s, start: time.Now(), payload: payload}
	agent := about.AgentID
	if about.ParentAgentID == "" { // the main agent has an id here, and none in events
		agent = ""
	}
	if !s.ask(x, agent, about.InteractionType) {
		return nil
	}
	return x
}

// reply is the body of a reply. It keeps what is read of it.
type reply struct {
	io.ReadCloser
	x                *exchange
	status           int
	packed, streamed bool

	mu    sync.Mutex // a body may be closed while it is read
	first time.Duration
	text  []byte
	large bool // nothing is kept
	over  bool
}

func (r *reply) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.took(p[:n], err)
	return n, err
}

// Close ends a reply that was not read to its end: the runtime wanted no more of it.
func (r *reply) Close() error {
	r.took(nil, context.Canceled)
	return r.ReadCloser.Close()
}

// took takes the next part of the reply, and why there is no more.
func (r *reply) took(part []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if len(part) > 0 && r.first == 0 && r.streamed {
		r.first = time.Since(r.x.start)
	}
	if r.large = r.large || len(r.text)+len(part) > maxReply; r.large {
		r.text = nil
	} else {
		r.text = append(r.text, part...)
	}
	if err != nil {
		r.over = true
		r.finish(err)
		r.text = nil
	}
}

// finish records the reply as far as it was read. The caller holds the lock.
func (r *reply) finish(why error) {
	text := r.text
	if r.packed {
		if z, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, _ = io.ReadAll(io.LimitReader(z, maxReply))
		}
	}
	res, _ := otelagent.ParseReply(text) // what it cannot read is unknown
	res.FirstChunk, res.End = r.first, time.Now()
	switch {
	case !errors.Is(why, io.EOF):
		res.Err = why
	case r.status/100 != 2 && res.Err == nil: // else it has the provider's words
		res.Err = fmt.Errorf("HTTP status %d", r.status)
	}
	r.x.s.answer(r.x, res, res.Err == nil)
}
