// Package mapped reads sessions as people see them. Stores keep records of other programs as they came, and a record
// that names no session is kept in a session of its trace (foreign.TraceSession). This package finds what belongs to a
// session, and maps it. Programs that copy, count or erase read the store itself.
package mapped

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

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
	// Parts are the sessions whose records belong to it, Named others that hold records of its traces. Marks has the
	// revisions of all, from before their rows were read.
	Parts, Named []session.Summary
	Marks        map[session.Key]store.Revision
}

// Open reads a session. It asks the store for nothing more than its revision and rows where none of them is of another
// program.
func Open(ctx context.Context, st store.Store, k session.Key) (*Session, error) {
	s := &Session{Marks: map[session.Key]store.Revision{}}
	if _, err := s.mark(ctx, st, []session.Summary{{Key: k}}); err != nil {
		return nil, err
	}
	rows, err := readRows(ctx, st, k, nil, nil)
	if err != nil {
		return nil, err
	}
	s.Rows, s.Raw = rows, rows
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
		s.Rows = foreign.Join(rows)
		return s, nil
	}
	parts, named, err := linked(ctx, st, k, s.Links.Traces)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(parts, named)
	revision, err := s.mark(ctx, st, all)
	if err != nil {
		return nil, err
	}
	s.Parts, s.Named, s.Links.Revision = parts, named, int64(s.Marks[k]+revision)
	for _, p := range all {
		if s.Raw, err = readRows(ctx, st, p.Key, in, s.Raw); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		s.Links.Parts = append(s.Links.Parts, p.Key)
	}
	s.Rows = foreign.Default().Map(s.Raw, k)
	return s, nil
}

// mark notes the revisions of sessions, and returns a number that changes with each.
func (s *Session) mark(ctx context.Context, st store.Store, all []session.Summary) (store.Revision, error) {
	h := fnv.New32a()
	for _, p := range all {
		at, err := st.Revision(ctx, p.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
		s.Marks[p.Key] = at
		fmt.Fprintf(h, "%q %d ", p.ID, at)
	}
	return store.Revision(h.Sum32()), nil
}

// Revision returns the state of a session at one moment. It also changes with the sessions that hold records of its
// traces: links are those of its tree when that was read last, nil if it never was. The Revision in the links of a tree
// is that of the time before it was read.
func Revision(ctx context.Context, st store.Store, k session.Key, links *session.Links) (store.Revision, error) {
	own, err := st.Revision(ctx, k)
	if err != nil || links == nil {
		return own, err
	}
	parts, named, err := linked(ctx, st, k, links.Traces)
	if err != nil {
		return 0, err
	}
	s := &Session{Marks: map[session.Key]store.Revision{}}
	revision, err := s.mark(ctx, st, slices.Concat(parts, named))
	return own + revision, err
}

// Tree returns the tree of a session.
func Tree(ctx context.Context, st store.Store, k session.Key) (*session.Session, error) {
	s, err := Open(ctx, st, k)
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
			for b, err := range st.Blocks(ctx, key) {
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

// Owner returns the session that records of s belong to where none belongs to s itself; the zero Key where they belong
// to no other.
func (s *Session) Owner() session.Key {
	others := slices.Concat(s.Named, s.Parts)
	if len(s.Rows) > 0 || len(s.Raw) == 0 || len(others) == 0 {
		return session.Key{}
	}
	for _, p := range others {
		if len(others) > 1 && len(foreign.Default().Map(s.Raw, p.Key)) > 0 {
			return p.Key
		}
	}
	return others[0].Key
}

// linked returns the other sessions that hold rows of traces: those of one trace each and those without records of
// their own, and those that records name.
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
			case ofTrace[s.ID], s.Part && s.Parent == k.ID:
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
		if in != nil && !in[r.Trace] {
			continue
		}
		if len(rows) == cap(rows) {
			rows = slices.Grow(rows, len(rows)+64) // append alone copies a long list nine times
		}
		rows = append(rows, r)
	}
	return rows, nil
}
