package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// Intervals at which a stream asks the store for changes.
const (
	pollSession = 200 * time.Millisecond
	pollList    = time.Second
	pingEvery   = 15 * time.Second
)

// events sends server-sent events to a browser: "mark" when a session changed, "list" when the list did.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	q, err := h.query(r)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if !h.listeners.TryAcquire(1) {
		refuse(w, r, &failure{http.StatusTooManyRequests, "too many pages listen already"})
		return
	}
	defer h.listeners.Release(1)
	s := &stream{query: q, w: w, out: http.NewResponseController(w)}
	poll := s.list
	if ref := q.param("session"); ref != "" {
		if s.key, err = q.rd.Resolve(q.Context(), ref); err != nil {
			h.fail(w, r, err)
			return
		}
		poll = s.session
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if !s.send(": connected\n\n") {
		return
	}
	before, sent := "", time.Now()
	for {
		state, text, wait, err := poll()
		if err != nil {
			if errors.Is(err, store.ErrNotFound) {
				s.send("event: gone\ndata: {}\n\n")
			} else if r.Context().Err() == nil {
				h.log(err)
			}
			return
		}
		switch {
		case state != before && (before != "" || s.key.ID != ""): // a page has read the list already
		case time.Since(sent) >= pingEvery:
			text = ": ping\n\n"
		default:
			text = ""
		}
		if before = state; text != "" {
			if !s.send(text) {
				return
			}
			sent = time.Now()
		}
		select {
		case <-time.After(wait):
		case <-h.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream is one listener.
type stream struct {
	*query
	w   http.ResponseWriter
	out *http.ResponseController
	key session.Key
}

// send writes to the listener. It returns false when the listener is gone.
func (s *stream) send(text string) bool {
	_ = s.out.SetReadDeadline(time.Time{}) // that of the server is for answers that end
	_ = s.out.SetWriteDeadline(time.Now().Add(pingEvery))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.out.Flush() == nil
}

// session returns the state of the session, which arriving data and time change, and the event of it. It polls a
// session that takes long to read less often.
func (s *stream) session() (state, event string, wait time.Duration, err error) {
	from := time.Now()
	t, revision, err := s.tree(s.key)
	if err != nil {
		return "", "", 0, err
	}
	now := time.Now()
	data, _ := json.Marshal(struct {
		Mark   int64               `json:"mark"`
		Status spans.SessionStatus `json:"status"`
	}{int64(revision), t.StatusAt(now)}) // never fails for these
	event = fmt.Sprintf("event: mark\ndata: %s\n\n", data)
	return event, event, max(pollSession, 2*now.Sub(from)), nil
}

// list returns the state of the first hundred sessions, and the event of a change.
func (s *stream) list() (state, event string, wait time.Duration, err error) {
	const looked = 100
	ctx := s.Context()
	if err := s.h.refresh(ctx); err != nil {
		return "", "", 0, err
	}
	var b strings.Builder
	now := time.Now()
	for sum, err := range s.h.o.Store.Sessions(ctx, store.Query{Tenant: s.rd.Tenant, Limit: looked}) {
		if err != nil {
			return "", "", 0, err
		}
		fmt.Fprintf(&b, "%q %d %s %d %d %d;", sum.ID, sum.Last.UnixNano(), sum.StatusAt(now), sum.Turns, sum.ToolCalls,
			sum.Usage.All())
	}
	return "list " + b.String(), "event: list\ndata: {}\n\n", pollList, nil
}
