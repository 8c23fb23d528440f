package viewer

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// How often the store is asked what is new.
const (
	pollSession = 200 * time.Millisecond
	pollList    = time.Second
	pingEvery   = 15 * time.Second
)

// events tells a browser that something changed, as server-sent events: of one session "mark", of all "list".
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	if err := checkParams(r); err != nil {
		h.fail(w, r, err)
		return
	}
	select {
	case h.listeners <- struct{}{}:
		defer func() { <-h.listeners }()
	default:
		refuse(w, r, &failure{http.StatusTooManyRequests, "too many pages listen already"})
		return
	}
	rd, err := h.reader(r)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	s := &stream{h: h, w: w, r: r, rd: rd, out: http.NewResponseController(w)}
	poll := s.list
	if ref := r.URL.Query().Get("session"); ref != "" {
		if s.key, err = h.find(r.Context(), rd, ref); err != nil {
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
	h   *Handler
	w   http.ResponseWriter
	r   *http.Request
	rd  *reader.Reader
	out *http.ResponseController

	key    session.Key
	mark   store.Revision
	status spans.SessionStatus
	sum    uint64
}

// send writes to the listener; false when it is gone.
func (s *stream) send(text string) bool {
	_ = s.out.SetReadDeadline(time.Time{}) // the server's are for answers that end
	_ = s.out.SetWriteDeadline(time.Now().Add(pingEvery))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.out.Flush() == nil
}

// session tells of one session when anything of it arrived, and when its status changed by nothing but time. A session that takes long to
// read is looked at less often.
func (s *stream) session() (string, time.Duration, error) {
	t, mark, e, err := s.h.tree(s.r.Context(), s.rd, s.key)
	if err != nil {
		return "", 0, err
	}
	wait := max(pollSession, 2*e.took)
	status := t.StatusAt(time.Now())
	if mark == s.mark && status == s.status {
		return "", wait, nil
	}
	s.mark, s.status = mark, status
	data, _ := json.Marshal(struct {
		Mark   int64               `json:"mark"`
		Status spans.SessionStatus `json:"status"`
	}{int64(mark), status}) // never fails for these
	return fmt.Sprintf("event: mark\ndata: %s\n\n", data), wait, nil
}

var listSeed = maphash.MakeSeed()

// list tells that the list of sessions changed, as far as its first hundred tell.
func (s *stream) list() (string, time.Duration, error) {
	const looked = 100
	ctx := s.r.Context()
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
		fmt.Fprintf(&hash, "%q %d %s %d %d %d;", sum.ID, sum.Last.UnixNano(), sum.StatusAt(now), sum.Turns, sum.ToolCalls, sum.Usage.All())
	}
	if x := hash.Sum64(); x != s.sum {
		first := s.sum == 0
		if s.sum = x; !first {
			return "event: list\ndata: {}\n\n", pollList, nil
		}
	}
	return "", pollList, nil
}
