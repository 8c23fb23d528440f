// Package mapped reads sessions as people see them. Stores keep records of other programs as they came, and a record
// that names no session is kept in a session of its trace (foreign.TraceSession). This package finds what belongs to a
// session, and maps it. Programs that copy, count or erase read the store itself.
package mapped

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// Bounds, so that no sender can make reading a session expensive by what it sends to others. Beyond them a session has
// the records that name it, and sessions of traces stay sessions of their own.
const (
	// maxTraces bounds the traces of a session that are looked up.
	maxTraces = 20_000
	// maxNamed bounds the other sessions that records in these traces name.
	maxNamed = 64
	// tracesAtOnce is how many traces one query names.
	tracesAtOnce = 500
)

// Session is what belongs to a session.
type Session struct {
	// Rows are those that session.Assemble takes.
	Rows []session.Row
	// Links is nil for a session without records of other programs.
	Links *session.Links
	// Raw are the rows of the store that Rows were made of: all of the session, and those of other sessions in its traces.
	Raw []session.Row
}

// Open reads a session. It asks the store for nothing more than its rows where none of them is of another program. It
// calls before, unless that is nil, with the sessions of traces that belong to k, before it reads their rows.
func Open(ctx context.Context, st store.Store, k session.Key, before func(parts []session.Summary) error,
) (*Session, error) {
	rows, err := readRows(ctx, st, k, nil, nil)
	if err != nil {
		return nil, err
	}
	s := &Session{Rows: rows, Raw: rows}
	in := map[session.TraceID]bool{}
	for i := range rows {
		if r := &rows[i]; r.Kind == session.KindForeign && !in[r.Trace] {
			in[r.Trace] = true
			if s.Links == nil {
				s.Links = &session.Links{}
			}
			s.Links.Traces = append(s.Links.Traces, r.Trace)
		}
	}
	if s.Links == nil {
		return s, nil
	}
	parts, named, err := linked(ctx, st, k, s.Links.Traces)
	if err == nil && before != nil {
		err = before(parts)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		s.Links.Parts = append(s.Links.Parts, p.Key)
	}
	for _, p := range slices.Concat(parts, named) {
		if s.Raw, err = readRows(ctx, st, p.Key, in, s.Raw); err != nil {
			return nil, err
		}
	}
	s.Rows = Map(s.Raw, k)
	return s, nil
}

// Map is foreign.Table.Map with the rules of this program, and those that rows bring along.
func Map(rows []session.Row, want session.Key) []session.Row {
	newest := map[string]int64{} // by rules
	for i := range rows {
		r := &rows[i]
		if rules := r.Attr(foreign.RulesKey).Str(); r.Kind == session.KindForeign && rules != "" {
			newest[rules] = max(newest[rules], r.Start)
		}
	}
	return tableWith(newest).Map(rows, want)
}

// maxRules bounds the rules of rows of one session that are used: the newest.
const maxRules = 16

// tables are those of rules that rows brought along.
var tables sync.Map

// tableWith returns the table with these rules in front, the newest first.
func tableWith(newest map[string]int64) *foreign.Table {
	if len(newest) == 0 {
		return foreign.Default()
	}
	rules := slices.SortedFunc(maps.Keys(newest), func(a, b string) int {
		return cmp.Or(cmp.Compare(newest[b], newest[a]), strings.Compare(a, b))
	})
	rules = rules[:min(len(rules), maxRules)]
	key := strings.Join(rules, "\n")
	if t, ok := tables.Load(key); ok {
		return t.(*foreign.Table)
	}
	var list []any
	for _, text := range rules {
		var entry any
		if json.Unmarshal([]byte(text), &entry) == nil {
			list = append(list, entry)
		}
	}
	t, err := foreign.Default().With(list)
	if err != nil { // of another version
		t = foreign.Default()
	}
	if n := tablesHeld.Add(1); n > maxTables {
		tables.Clear()
		tablesHeld.Store(1)
	}
	tables.Store(key, t)
	return t
}

// maxTables bounds how many tables are held.
const maxTables = 64

var tablesHeld atomic.Int64

// Tree returns the tree of a session.
func Tree(ctx context.Context, st store.Store, k session.Key) (*session.Session, error) {
	s, err := Open(ctx, st, k, nil)
	if err != nil {
		return nil, err
	}
	t := session.Assemble(s.Rows)
	t.Links = s.Links
	return t, nil
}

// Blocks yields all blocks that the tree of a session may name, links being those of the tree.
func Blocks(ctx context.Context, st store.Store, k session.Key, links *session.Links) iter.Seq2[session.Block, error] {
	return func(yield func(session.Block, error) bool) {
		for _, key := range links.Keys(k) {
			for b, err := range st.Blocks(ctx, key, nil) {
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
}

// Owners returns the sessions that records in the trace of k name, where k is the session of a trace.
func Owners(ctx context.Context, st store.Store, k session.Key) ([]session.Summary, error) {
	trace, ok := foreign.ParseTraceSession(k.ID)
	if !ok {
		return nil, nil
	}
	_, named, err := linked(ctx, st, k, []session.TraceID{trace})
	return named, err
}

// linked returns the other sessions that hold rows of traces: those of one trace each, and those that records name.
func linked(ctx context.Context, st store.Store, k session.Key, traces []session.TraceID,
) (parts, named []session.Summary, err error) {
	if len(traces) > maxTraces {
		return nil, nil, nil
	}
	seen := map[string]bool{k.ID: true}
	for some := range slices.Chunk(traces, tracesAtOnce) {
		ofTrace := map[string]bool{}
		for _, id := range some {
			ofTrace[foreign.TraceSession(id)] = true
		}
		q := store.Query{Tenant: k.Tenant, Traces: some, Parts: true, Limit: len(some) + maxNamed + 2}
		for s, err := range st.Sessions(ctx, q) {
			switch {
			case err != nil:
				return nil, nil, err
			case seen[s.ID]:
				continue
			case ofTrace[s.ID]:
				parts = append(parts, s)
			default:
				named = append(named, s)
			}
			seen[s.ID] = true
		}
		if len(named) > maxNamed {
			return nil, nil, nil
		}
	}
	byID := func(a, b session.Summary) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(parts, byID)
	slices.SortFunc(named, byID)
	return parts, named, nil
}

// readRows appends the rows of a session, in these traces or, where that is nil, all.
func readRows(ctx context.Context, st store.Store, k session.Key, in map[session.TraceID]bool, rows []session.Row,
) ([]session.Row, error) {
	for r, err := range st.Rows(ctx, k) {
		if err != nil {
			return nil, err
		}
		if in == nil || in[r.Trace] {
			rows = append(rows, r)
		}
	}
	return rows, nil
}
