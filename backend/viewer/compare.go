package viewer

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/backend/store/search"
)

// diff compares what the parameters a and b name: two sessions, two runs or two turns.
func (h *Handler) diff(r *http.Request) (*answer, error) {
	q := r.URL.Query()
	ignore, err := diff.ParseParts(q.Get("ignore"))
	if err != nil {
		return nil, bad("ignore: %v", err)
	}
	rd, err := h.reader(r)
	if err != nil {
		return nil, err
	}
	var sides [2]diff.Target
	state := q.Get("ignore")
	for i, name := range []string{"a", "b"} {
		if q.Get(name) == "" {
			return nil, bad("want a and b, two addresses SESSION[/RUN[/TURN]]")
		}
		key, addr, err := rd.Locate(r.Context(), q.Get(name))
		if err != nil {
			return nil, err
		}
		t, mark, _, err := h.tree(r.Context(), rd, key)
		if err != nil {
			return nil, err
		}
		sides[i] = diff.Target{Source: h.o.Name, Session: t.Session, Blocks: t.Blocks}
		if sides[i].Run, sides[i].Turn, err = addr.Pick(t.Session); err != nil {
			return nil, err
		}
		state += " " + strconv.Quote(key.ID+"/"+addr.Run+"/"+addr.Turn) + strconv.FormatInt(int64(mark), 10)
	}
	if sides[0].Kind() != sides[1].Kind() {
		return nil, bad("a is a %s and b a %s: only two of one kind can be compared", sides[0].Kind(), sides[1].Kind())
	}
	return asJSON(h.etag(session.Key{Tenant: rd.Tenant}, state), func() (any, error) {
		done, err := h.admit(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		return diff.Compare(sides[0], sides[1], ignore...)
	}), nil
}

// replay says whether a turn can be asked again, and with which body. Nothing is sent.
func (h *Handler) replay(r *http.Request) (*answer, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	o := replay.Options{}
	if form := q.Get("form"); form != "" {
		if o.API, err = replay.ParseAPI(form); err != nil {
			return nil, bad("form: want one of anthropic, openai-chat, openai-responses, as-sent")
		}
	}
	t, mark, _, err := h.tree(r.Context(), rd, key)
	if err != nil {
		return nil, err
	}
	addr := reader.RequestAddress{Session: key.ID, Run: part(r, "run"), Turn: part(r, "turn"), Attempt: q.Get("attempt")}
	if err := addr.Numbers(); err != nil {
		return nil, err
	}
	run, turn, err := addr.Pick(t.Session)
	if err != nil {
		return nil, err
	}
	request, err := reader.PickAttempt(run, turn, addr.Attempt)
	if err != nil {
		return nil, err
	}
	return asJSON(h.etag(key, strconv.FormatInt(int64(mark), 10)), func() (any, error) {
		x, err := inspect.NewReplay(t, run, turn, request, o)
		if err != nil {
			return nil, bad("%s", inspect.Clean(err.Error()))
		}
		return x, nil
	}), nil
}

// Bounds of grep.
const (
	grepLimit = 100              // hits, unless asked otherwise
	maxGrep   = 1000             // hits
	grepTime  = 30 * time.Second // afterwards what was found is given, and that there may be more
)

// grep searches what was said.
func (h *Handler) grep(r *http.Request) (*answer, error) {
	rd, err := h.reader(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	o := search.Options{Tenant: rd.Tenant, Text: q.Get("q"), Regexp: flag(q, "regexp"), IgnoreCase: flag(q, "ignore_case")}
	if o.Limit, err = intParam(q, "limit", grepLimit, 1, maxGrep); err != nil {
		return nil, err
	}
	if ref := q.Get("session"); ref != "" {
		key, err := h.find(r.Context(), rd, ref)
		if err != nil {
			return nil, err
		}
		o.Session = key.ID
	} else if err := h.refresh(r.Context()); err != nil {
		return nil, err
	}
	done, err := h.admit(r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), grepTime)
	defer cancel()
	res, err := search.Run(ctx, h.o.Store, o)
	switch {
	case errors.Is(err, search.ErrText):
		return nil, bad("q: %s", strings.TrimSuffix(inspect.Clean(err.Error()), ": "+search.ErrText.Error()))
	case err != nil && r.Context().Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.More = true
	case err != nil:
		return nil, err
	}
	return asJSON("", func() (any, error) { return res, nil }), nil
}
