package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
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
		if s.key, err = q.find(ref); err != nil {
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
	for sent := time.Now(); ; {
		text, wait, err := poll()
		if err != nil {
			if r.Context().Err() == nil && !errors.Is(err, store.ErrNotFound) {
				h.log(err)
			}
			if errors.Is(err, store.ErrNotFound) {
				s.send("event: gone\ndata: {}\n\n")
			}
			return
		}
		if text == "" && time.Since(sent) >= pingEvery {
			text = ": ping\n\n"
		}
		if text != "" {
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

	key      session.Key
	revision store.Revision
	status   spans.SessionStatus
	sum      uint64
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

// session returns an event when data of the session arrived, and when time changed its status. It polls a session that
// takes long to read less often.
func (s *stream) session() (string, time.Duration, error) {
	from := time.Now()
	t, revision, err := s.tree(s.key)
	if err != nil {
		return "", 0, err
	}
	now := time.Now()
	wait := max(pollSession, 2*now.Sub(from))
	status := t.StatusAt(now)
	if revision == s.revision && status == s.status {
		return "", wait, nil
	}
	s.revision, s.status = revision, status
	data, _ := json.Marshal(struct {
		Mark   int64               `json:"mark"`
		Status spans.SessionStatus `json:"status"`
	}{int64(revision), status}) // never fails for these
	return fmt.Sprintf("event: mark\ndata: %s\n\n", data), wait, nil
}

var listSeed = maphash.MakeSeed()

// list returns an event when one of the first hundred sessions changed.
func (s *stream) list() (string, time.Duration, error) {
	const looked = 100
	ctx := s.Context()
	if err := s.h.refresh(ctx); err != nil {
		return "", 0, err
	}
	var hash maphash.Hash
	hash.SetSeed(listSeed)
	now := time.Now()
	for sum, err := range s.h.o.Store.Sessions(ctx, store.Query{Tenant: s.rd.Tenant, Limit: looked}) {
		if err != nil {
			return "", 0, err
		}
		fmt.Fprintf(&hash, "%q %d %s %d %d %d;", sum.ID, sum.Last.UnixNano(), sum.StatusAt(now), sum.Turns, sum.ToolCalls,
			sum.Usage.All())
	}
	if x := hash.Sum64(); x != s.sum {
		first := s.sum == 0
		if s.sum = x; !first {
			return "event: list\ndata: {}\n\n", pollList, nil
		}
	}
	return "", pollList, nil
}
