package viewer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/spans"
)

// Format is the version of the JSON of this package's own answers. Later versions add fields and never change one.
const Format = 1

// About is what the viewer says of itself.
type About struct {
	Format   int    `json:"format"`
	Version  string `json:"version,omitempty"`
	Database string `json:"database,omitempty"`
	// Tenant is the one that is shown unless another is asked for, Tenants those that have sessions.
	Tenant  string            `json:"tenant"`
	Tenants []string          `json:"tenants"`
	Links   map[string]string `json:"links"`
	// Live says that pages may listen at events.
	Live bool `json:"live"`
}

func (h *Handler) about(r *http.Request) (*answer, error) {
	const most = 1000
	a := About{Format: Format, Version: h.o.Version, Database: h.o.Name, Tenant: h.o.Tenant, Tenants: []string{}, Links: map[string]string{}, Live: true}
	for t, err := range h.o.Store.Tenants(r.Context()) {
		if err != nil {
			return nil, err
		}
		if len(a.Tenants) < most && (!h.o.Fixed || t == h.o.Tenant) {
			a.Tenants = append(a.Tenants, t)
		}
	}
	for name, link := range h.o.Links {
		a.Links[name] = link
	}
	return asJSON("", func() (any, error) { return a, nil }), nil
}

// maxList bounds the sessions of one answer.
const maxList = 1000

func (h *Handler) ls(r *http.Request) (*answer, error) {
	rd, err := h.reader(r)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	query := store.Query{Archived: store.ArchivedNot}
	for name, values := range r.URL.Query() {
		if name == "tenant" {
			continue
		}
		switch err := query.Filter(name, values[0], now); {
		case errors.Is(err, store.ErrFilter):
			return nil, bad("%v; there are %s", err, strings.Join(store.Filters(), ", "))
		case err != nil:
			return nil, bad("%s: %v", name, err)
		}
	}
	if query.Limit == 0 {
		query.Limit = 100
	}
	query.Limit = min(query.Limit, maxList)
	l, err := rd.List(r.Context(), &query, now)
	if err != nil {
		return nil, err
	}
	return asJSON("", func() (any, error) { return l, nil }), nil
}

func (h *Handler) status(r *http.Request) (*answer, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, err
	}
	t, _, err := h.bare(r.Context(), rd, key)
	if err != nil {
		return nil, err
	}
	return asJSON("", func() (any, error) { return inspect.StatusOf(t.Session, time.Now()), nil }), nil
}

func (h *Handler) show(r *http.Request) (*answer, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, err
	}
	t, mark, _, err := h.tree(r.Context(), rd, key)
	if err != nil {
		return nil, err
	}
	run, turn, err := reader.Address{Session: key.ID, Run: part(r, "run"), Turn: part(r, "turn")}.Pick(t.Session)
	if err != nil {
		return nil, err
	}
	now := time.Now() // by which the status changes while nothing comes in
	return asJSON(h.etag(key, fmt.Sprint(mark, t.StatusAt(now))), func() (any, error) { return reader.Narrow(t.Session, run, turn, now), nil }), nil
}

func (h *Handler) outline(r *http.Request) (*answer, error) {
	v, rd, err := h.viewOf(r)
	if err != nil {
		return nil, err
	}
	var children []session.Summary
	for _, q := range []store.Query{{Parent: v.key.ID}, {ForkedFrom: v.key.ID}} {
		q.Tenant, q.Limit = rd.Tenant, maxList
		for s, err := range h.o.Store.Sessions(r.Context(), q) {
			if err != nil {
				return nil, err
			}
			children = append(children, s)
		}
	}
	now := time.Now()
	state := v.stateAt(now)
	for _, c := range children {
		state += fmt.Sprintf(" %q %s", c.ID, c.StatusAt(now))
	}
	a := asCompact(h.etag(v.key, state), func() (any, error) { return v.Outline(int64(v.mark), children, now), nil })
	return h.kept(r.Context(), cacheKey{v.key, "outline"}, state, a)
}

// Turns are some turns of a session.
type Turns struct {
	Format int   `json:"format"`
	Mark   int64 `json:"mark"`
	// From is the position of the first of them among all Total turns.
	From  int                 `json:"from"`
	Total int                 `json:"total"`
	Turns []*inspect.TurnView `json:"turns"`
}

// Bounds of turns.
const (
	maxTurns = 200      // of one answer
	maxText  = 64 << 10 // bytes of a body
)

func (h *Handler) turns(r *http.Request) (*answer, error) {
	q := r.URL.Query()
	from, err1 := intParam(q, "from", 0, 0, 1<<31-1)
	count, err2 := intParam(q, "count", 50, 1, maxTurns)
	text, err3 := intParam(q, "text", 4<<10, 0, maxText)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, err
		}
	}
	v, _, err := h.viewOf(r)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return asCompact(h.etag(v.key, v.stateAt(now)), func() (any, error) {
		return Turns{Format, int64(v.mark), from, v.Len(), v.Turns(from, count, text, now)}, nil
	}), nil
}

func (h *Handler) turn(r *http.Request) (*answer, error) {
	v, _, err := h.viewOf(r)
	if err != nil {
		return nil, err
	}
	t := v.Tree()
	_, turn, err := reader.Address{Session: t.ID, Run: part(r, "run"), Turn: part(r, "turn")}.Pick(t.Session)
	if err != nil {
		return nil, err
	}
	if turn == nil {
		return nil, bad("want RUN and TURN")
	}
	now := time.Now()
	return asCompact(h.etag(v.key, v.stateAt(now)), func() (any, error) { return v.Turn(v.Position(turn), maxText, now), nil }), nil
}

func (h *Handler) request(r *http.Request) (*answer, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, err
	}
	t, mark, _, err := h.tree(r.Context(), rd, key)
	if err != nil {
		return nil, err
	}
	addr := reader.RequestAddress{Session: key.ID, Run: part(r, "run"), Turn: part(r, "turn"), Attempt: part(r, "attempt")}
	if err := addr.Numbers(); err != nil {
		return nil, err
	}
	run, turn, q, err := reader.PickRequest(t.Session, addr)
	if err != nil {
		return nil, err
	}
	etag := h.etag(key, fmt.Sprint(mark))
	// A request may be as long as a session: it is put together where the answer is made, of which few are at once.
	this := func() *inspect.Request { return inspect.NewRequest(t, run, turn, q) }
	switch {
	case r.URL.Query().Has("diff"):
		from := r.URL.Query().Get("diff")
		oldRun, oldTurn, old, err := earlierRequest(t.Session, from)
		if err != nil {
			return nil, err
		}
		return asJSON(etag+hex.EncodeToString([]byte(from)), func() (any, error) {
			return diff.Compare(diff.Target{Session: t.Session, Blocks: t.Blocks, Run: oldRun, Turn: oldTurn, Request: old},
				diff.Target{Session: t.Session, Blocks: t.Blocks, Run: run, Turn: turn, Request: q})
		}), nil
	case flag(r.URL.Query(), "raw"):
		return &answer{etag: etag, kind: "application/octet-stream", head: map[string]string{"Content-Disposition": `attachment; filename="request.json"`},
			write: func(b *bounded) error {
				payload := q.Payload(t.Blocks)
				if payload.Bytes == nil {
					return &failure{http.StatusNotFound, "the request is not whole: without raw its JSON says what is missing"}
				}
				_, err := b.Write(payload.Bytes)
				return err
			}}, nil
	}
	return asJSON(etag, func() (any, error) { return this(), nil }), nil
}

// earlierRequest returns the request of a session that RUN/TURN or RUN/TURN/ATTEMPT names. The id of a run may have slashes in it: it is
// taken as it stands, from the right.
func earlierRequest(s *session.Session, text string) (*session.Run, *session.Turn, *session.Request, error) {
	rest, last, ok := cutLast(text)
	if !ok {
		return nil, nil, nil, bad("diff: want RUN/TURN or RUN/TURN/ATTEMPT")
	}
	run, turn, q, err := reader.PickRequest(s, reader.RequestAddress{Session: s.ID, Run: rest, Turn: last})
	id, middle, ok := cutLast(rest)
	if !ok {
		return run, turn, q, err
	}
	run2, turn2, q2, err2 := reader.PickRequest(s, reader.RequestAddress{Session: s.ID, Run: id, Turn: middle, Attempt: last})
	switch {
	case err == nil && err2 == nil:
		n, n2 := 1+slices.Index(s.Runs, run), 1+slices.Index(s.Runs, run2)
		return nil, nil, nil, bad("diff: that is a turn of run @%d and an attempt of run @%d: say @%d/%s or @%d/%s/%s", n, n2, n, last, n2, middle, last)
	case err == nil, err2 != nil && slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.ID == rest }):
		return run, turn, q, err
	}
	return run2, turn2, q2, err2
}

// cutLast parts text at its last slash.
func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func (h *Handler) block(r *http.Request) (*answer, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, err
	}
	t, _, _, err := h.tree(r.Context(), rd, key)
	if err != nil {
		return nil, err
	}
	ref := session.Ref{Block: part(r, "block")}
	if _, err := spans.ParseShortID(ref.Block); err != nil {
		return nil, bad("that is no id of a block")
	}
	state := "whole"
	body, ok := t.Blocks.Body(ref)
	if !ok {
		if body, _, ok = t.Blocks.Cut(ref); !ok {
			return nil, &failure{http.StatusNotFound, "the session has no such block"}
		}
		if state = inspect.StateCut; body == "" {
			state = inspect.StateWithheld
		}
	}
	return &answer{etag: h.etag(key, ref.Block+state), kind: "text/plain; charset=utf-8", head: map[string]string{"Otelagent-State": state},
		write: func(b *bounded) error { _, err := b.Write([]byte(body)); return err }}, nil
}

func (h *Handler) stats(r *http.Request) (*answer, error) {
	rd, err := h.reader(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	o := stats.Options{By: stats.By(q.Get("by")), Query: store.FigureQuery{Tenant: rd.Tenant, Agent: q.Get("agent"), Model: q.Get("model"), Provider: q.Get("provider")}}
	if o.By != "" && !slices.Contains(stats.Bys, o.By) {
		return nil, bad("by: want model, agent, tool, session or provider")
	}
	if o.Query.Since, err = timeParam(q, "since"); err != nil {
		return nil, err
	}
	if err := h.refresh(r.Context()); err != nil {
		return nil, err
	}
	if ref := q.Get("session"); ref != "" {
		key, err := rd.Resolve(r.Context(), ref)
		if err != nil {
			return nil, err
		}
		o.Query.Session = key.ID
	}
	done, err := h.admit(r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	report, err := stats.Collect(r.Context(), h.o.Store, o)
	if err != nil {
		return nil, err
	}
	return asJSON("", func() (any, error) { return report, nil }), nil
}

// part returns a part of a path. Browsers take "." and ".." for folders, escaped too, so such a part has a "~" before it, and one that
// has those already one more.
func part(r *http.Request, name string) string {
	p := r.PathValue(name)
	if rest, ok := strings.CutPrefix(p, "~"); ok {
		if dots := strings.TrimLeft(rest, "~"); dots == "." || dots == ".." {
			return rest
		}
	}
	return p
}

// session returns the session that a path names.
func (h *Handler) session(r *http.Request) (*reader.Reader, session.Key, error) {
	rd, err := h.reader(r)
	if err != nil {
		return nil, session.Key{}, err
	}
	for _, name := range []string{"session", "run", "turn", "attempt", "block"} {
		if len(part(r, name)) > maxParam {
			return nil, session.Key{}, bad("an id of more than %d bytes", maxParam)
		}
	}
	key, err := h.find(r.Context(), rd, part(r, "session"))
	return rd, key, err
}

// find returns the session that ref names. Summaries need be current only where ref is no id.
func (h *Handler) find(ctx context.Context, rd *reader.Reader, ref string) (session.Key, error) {
	key := session.Key{Tenant: rd.Tenant, ID: ref}
	if ref != "" {
		if _, err := h.o.Store.Revision(ctx, key); err == nil {
			return key, nil
		}
	}
	return rd.Find(ctx, ref)
}

func (h *Handler) viewOf(r *http.Request) (*view, *reader.Reader, error) {
	rd, key, err := h.session(r)
	if err != nil {
		return nil, nil, err
	}
	v, err := h.view(r.Context(), rd, key)
	return v, rd, err
}

// etag names a state of a session. Another program may say the same in other words.
func (h *Handler) etag(key session.Key, state string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s", h.o.Version, key.Tenant, key.ID, state))
	return hex.EncodeToString(sum[:12])
}

func intParam(q url.Values, name string, unset, least, most int) (int, error) {
	if !q.Has(name) {
		return unset, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most {
		return 0, bad("%s: want a number from %d to %d", name, least, most)
	}
	return n, nil
}

// timeParam reads a time as the command line does; zero where none is given.
func timeParam(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := store.ParseTime(text, time.Now())
	if err != nil {
		return t, bad("%s: want a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d", name)
	}
	return t, nil
}

func flag(q url.Values, name string) bool {
	switch q.Get(name) {
	case "", "0", "false":
		return false
	}
	return true
}
