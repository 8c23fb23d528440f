package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// Format is the version of the JSON of this package's own answers. Later versions add fields and never change one.
const Format = 1

// maxList bounds the sessions of one answer.
const maxList = 1000

func (h *Handler) ls(q *query) (any, error) {
	now := time.Now()
	list := store.Query{Archived: store.ArchivedNot}
	for name, values := range q.URL.Query() {
		if name == "tenant" {
			continue
		}
		switch err := list.Filter(name, values[0], now); {
		case errors.Is(err, store.ErrFilter):
			return nil, bad("%v; there are %s", err, strings.Join(store.Filters(), ", "))
		case err != nil:
			return nil, bad("%s: %v", name, err)
		}
	}
	if list.Limit == 0 {
		list.Limit = 100
	}
	list.Limit = min(list.Limit, maxList)
	return q.rd.List(q.Context(), &list, now)
}

func (h *Handler) status(q *query) (any, error) {
	key, err := q.session()
	if err != nil {
		return nil, err
	}
	t, _, err := q.read(q.Context(), key, false)
	if err != nil {
		return nil, err
	}
	return inspect.StatusOf(t.Session, time.Now()), nil
}

func (h *Handler) show(q *query) (any, error) {
	t, err := q.target("")
	if err != nil {
		return nil, err
	}
	run, turn, err := t.addr.Pick(t.Session)
	if err != nil {
		return nil, err
	}
	now := time.Now() // changes the status while no data arrives
	if err := q.fresh(t.key, t.revision, statuses(t.Session, now)); err != nil {
		return nil, err
	}
	return reader.Narrow(t.Session, run, turn, now), nil
}

func (h *Handler) outline(q *query) (any, error) {
	v, err := q.view()
	if err != nil {
		return nil, err
	}
	var children []session.Summary
	for _, list := range []store.Query{{Parent: v.key.ID}, {ForkedFrom: v.key.ID}} {
		list.Tenant, list.Limit = q.rd.Tenant, maxList
		for s, err := range h.o.Store.Sessions(q.Context(), list) {
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
	if err := q.fresh(v.key, state); err != nil {
		return nil, err
	}
	return h.cache.get(q.Context(), cacheKey{v.key, "outline"}, state, func(context.Context) (any, int64, error) {
		body, err := encoded(compact{v.Outline(int64(v.revision), children, now)})
		return body, int64(cap(body.body)), err
	})
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

func (h *Handler) turns(q *query) (any, error) {
	from, err1 := q.number("from", 0, 0, 1<<31-1)
	count, err2 := q.number("count", 50, 1, maxTurns)
	text, err3 := q.number("text", 4<<10, 0, maxText)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	v, err := q.view()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := q.fresh(v.key, v.stateAt(now)); err != nil {
		return nil, err
	}
	return compact{Turns{Format, int64(v.revision), from, v.Len(), v.Turns(from, count, text, now)}}, nil
}

func (h *Handler) turn(q *query) (any, error) {
	v, err := q.view()
	if err != nil {
		return nil, err
	}
	s := v.Tree().Session
	_, turn, err := reader.Address{Session: s.ID, Run: q.part("run"), Turn: q.part("turn")}.Pick(s)
	if err != nil {
		return nil, err
	}
	if turn == nil {
		return nil, bad("want RUN and TURN")
	}
	now := time.Now()
	if err := q.fresh(v.key, v.stateAt(now)); err != nil {
		return nil, err
	}
	return compact{v.Turn(turn, maxText, now)}, nil
}

// target is the attempt of a turn that a path names.
type target struct {
	session.Tree
	key      session.Key
	revision store.Revision
	addr     reader.Address
}

// target reads the session. The attempt may be empty.
func (q *query) target(attempt string) (t target, err error) {
	if t.key, err = q.session(); err != nil {
		return t, err
	}
	if t.Tree, t.revision, err = q.tree(t.key); err != nil {
		return t, err
	}
	t.addr = reader.Address{Session: t.key.ID, Run: q.part("run"), Turn: q.part("turn"), Attempt: attempt}
	return t, nil
}

// request answers a request, its bytes, or its difference from an earlier one. It makes them after fresh, since a
// request may be as long as a session.
func (h *Handler) request(q *query) (any, error) {
	t, err := q.target(q.part("attempt"))
	if err != nil {
		return nil, err
	}
	this := diff.Target{Session: t.Session, Blocks: t.Blocks}
	if this.Run, this.Turn, this.Request, err = reader.PickRequest(t.Session, t.addr); err != nil {
		return nil, err
	}
	before, from := this, q.param("diff")
	if q.URL.Query().Has("diff") {
		addr, err := reader.ParseRequestAddress("SESSION/" + from)
		if err != nil {
			return nil, err
		}
		addr.Session = t.ID
		if before.Run, before.Turn, before.Request, err = reader.PickRequest(t.Session, addr); err != nil {
			return nil, err
		}
	}
	if err := q.fresh(t.key, t.revision, from); err != nil {
		return nil, err
	}
	switch {
	case q.URL.Query().Has("diff"):
		return diff.Compare(before, this)
	case !q.flag("raw"):
		return inspect.NewRequest(t.Tree, this.Run, this.Turn, this.Request), nil
	}
	payload := this.Request.Payload(t.Blocks)
	switch {
	case payload.Bytes == nil:
		return nil, &failure{http.StatusNotFound, "the request is not whole: without raw its JSON says what is missing"}
	case len(payload.Bytes) > maxBody:
		return nil, errTooLarge
	}
	head := map[string]string{"Content-Disposition": `attachment; filename="request.json"`}
	return raw{"application/octet-stream", head, payload.Bytes}, nil
}

func (h *Handler) block(q *query) (any, error) {
	t, err := q.target("")
	if err != nil {
		return nil, err
	}
	ref := session.Ref{Block: q.part("block")}
	if _, err := spans.ParseShortID(ref.Block); err != nil {
		return nil, bad("that is no id of a block")
	}
	body, _, state := inspect.Content(t.Blocks, ref)
	if state == inspect.StateMissing {
		return nil, &failure{http.StatusNotFound, "the session has no such block"}
	}
	state = cmp.Or(state, "whole")
	if len(body) > maxBody {
		return nil, errTooLarge
	}
	if err := q.fresh(t.key, ref.Block, state); err != nil {
		return nil, err
	}
	return raw{"text/plain; charset=utf-8", map[string]string{"Otelagent-State": state}, []byte(body)}, nil
}

// replay checks whether a turn can be sent again, and converts its request. It sends nothing.
func (h *Handler) replay(q *query) (any, error) {
	var o replay.Options
	if form := q.param("form"); form != "" {
		var err error
		if o.API, err = replay.ParseAPI(form); err != nil {
			return nil, bad("form: want one of anthropic, openai-chat, openai-responses, as-sent")
		}
	}
	t, err := q.target(q.param("attempt"))
	if err != nil {
		return nil, err
	}
	run, turn, err := t.addr.PickTurn(t.Session)
	if err != nil {
		return nil, err
	}
	request, err := reader.PickAttempt(run, turn, t.addr.Attempt)
	if err != nil {
		return nil, err
	}
	if err := q.fresh(t.key, t.revision); err != nil {
		return nil, err
	}
	x, err := inspect.NewReplay(t.Tree, run, turn, request, o)
	if err != nil {
		return nil, bad("%s", inspect.Clean(err.Error()))
	}
	return x, nil
}
