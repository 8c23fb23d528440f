package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/search"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// About describes the server.
type About struct {
	Format   int    `json:"format"`
	Version  string `json:"version,omitempty"`
	Database string `json:"database,omitempty"`
	// Tenant is the default one, Tenants those that have sessions.
	Tenant  string            `json:"tenant"`
	Tenants []string          `json:"tenants"`
	Links   map[string]string `json:"links"`
	// Live says that the server has /events.
	Live bool `json:"live"`
}

func (h *Handler) about(q *query) (any, error) {
	const most = 1000
	a := About{
		Format: Format, Version: h.o.Version, Database: h.o.Name, Tenant: h.o.Tenant, Tenants: []string{}, Live: true,
		Links: map[string]string{},
	}
	for t, err := range h.o.Store.Tenants(q.Context()) {
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
	return a, nil
}

// diff compares the two sessions, runs or turns that the parameters a and b name.
func (h *Handler) diff(q *query) (any, error) {
	ignore, err := diff.ParseParts(q.param("ignore"))
	if err != nil {
		return nil, bad("ignore: %v", err)
	}
	var sides [2]diff.Target
	state := []any{q.param("ignore")}
	for i, name := range []string{"a", "b"} {
		if q.param(name) == "" {
			return nil, bad("want a and b, two addresses SESSION[/RUN[/TURN]]")
		}
		key, addr, err := q.rd.Locate(q.Context(), q.param(name))
		if err != nil {
			return nil, err
		}
		t, revision, err := q.tree(key)
		if err != nil {
			return nil, err
		}
		sides[i] = diff.Target{Source: h.o.Name, Session: t.Session, Blocks: t.Blocks}
		if sides[i].Run, sides[i].Turn, err = addr.Pick(t.Session); err != nil {
			return nil, err
		}
		state = append(state, q.param(name), " ", key.ID, " ", revision, " ")
	}
	if sides[0].Kind() != sides[1].Kind() {
		return nil, bad("a is a %s and b a %s: only two of one kind can be compared", sides[0].Kind(), sides[1].Kind())
	}
	if err := q.fresh(session.Key{Tenant: q.rd.Tenant}, state...); err != nil {
		return nil, err
	}
	return diff.Compare(sides[0], sides[1], ignore...)
}

// only returns the id of the session that a parameter names, empty for all. Summaries are current then.
func (q *query) only() (string, error) {
	err := q.h.refresh(q.Context())
	if ref := q.param("session"); ref != "" && err == nil {
		key, err := q.rd.Resolve(q.Context(), ref)
		return key.ID, err
	}
	return "", err
}

// Bounds of grep.
const (
	grepLimit = 100              // hits, by default
	maxGrep   = 1000             // hits
	grepTime  = 30 * time.Second // afterwards the answer has the hits so far
)

// grep searches content.
func (h *Handler) grep(q *query) (any, error) {
	o := search.Options{
		Tenant: q.rd.Tenant, Text: q.param("q"), Regexp: q.flag("regexp"), IgnoreCase: q.flag("ignore_case"),
	}
	var err error
	if o.Limit, err = q.number("limit", grepLimit, 1, maxGrep); err != nil {
		return nil, err
	}
	if o.Session, err = q.only(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), grepTime)
	defer cancel()
	found, err := search.Run(ctx, h.o.Store, o)
	switch {
	case errors.Is(err, search.ErrText):
		return nil, bad("q: %s", strings.TrimSuffix(inspect.Clean(err.Error()), ": "+search.ErrText.Error()))
	case err != nil && q.Context().Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		found.More = true
	case err != nil:
		return nil, err
	}
	return found, nil
}

func (h *Handler) stats(q *query) (any, error) {
	o := stats.Options{By: stats.By(q.param("by")), Query: store.FigureQuery{
		Tenant: q.rd.Tenant, Agent: q.param("agent"), Model: q.param("model"), Provider: q.param("provider"),
	}}
	if o.By != "" && !slices.Contains(stats.Bys, o.By) {
		return nil, bad("by: want model, agent, tool, session or provider")
	}
	if text := q.param("since"); text != "" {
		since, err := store.ParseTime(text, time.Now())
		if err != nil {
			return nil, bad("since: %v", err)
		}
		o.Query.Since = since
	}
	var err error
	if o.Query.Session, err = q.only(); err != nil {
		return nil, err
	}
	return stats.Collect(q.Context(), h.o.Store, o)
}
