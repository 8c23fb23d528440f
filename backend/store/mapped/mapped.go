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
	own, err := st.Revision(ctx, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	s := &Session{Marks: map[session.Key]store.Revision{k: own}}
	if s.Raw, err = readRows(ctx, st, k, nil, nil); err != nil {
		return nil, err
	}
	in := map[session.TraceID]bool{}
	var traces []session.TraceID
	for i := range s.Raw {
		if r := &s.Raw[i]; r.Kind == session.KindForeign && !in[r.Trace] {
			in[r.Trace], traces = true, append(traces, r.Trace)
		}
	}
	if traces == nil {
		s.Rows = foreign.Join(s.Raw)
		return s, nil
	}
	others, err := s.find(ctx, st, k, traces)
	if err != nil {
		return nil, err
	}
	s.Links = &session.Links{Traces: traces, Revision: int64(own + others)}
	for _, p := range slices.Concat(s.Parts, s.Named) {
		if s.Raw, err = readRows(ctx, st, p.Key, in, s.Raw); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Parts {
		s.Links.Parts = append(s.Links.Parts, p.Key)
	}
	s.Rows = foreign.Default().Map(s.Raw, k)
	return s, nil
}

// Revision returns the state of a session at one moment. It also changes with the sessions that hold records of its
// traces: links are those of its tree when that was read last, nil if it never was. The Revision in the links of a tree
// is that of the time before it was read.
func Revision(ctx context.Context, st store.Store, k session.Key, links *session.Links) (store.Revision, error) {
	own, err := st.Revision(ctx, k)
	if err != nil || links == nil {
		return own, err
	}
	others, err := (&Session{Marks: map[session.Key]store.Revision{}}).find(ctx, st, k, links.Traces)
	return own + others, err
}

// find finds the other sessions that hold rows of traces: Parts, which are those of one trace each and those without
// records of their own, and Named. It notes their revisions, and returns a number that changes with each.
func (s *Session) find(ctx context.Context, st store.Store, k session.Key, traces []session.TraceID,
) (store.Revision, error) {
	seen := map[string]bool{k.ID: true}
	for some := range slices.Chunk(traces, tracesAtOnce) {
		q := store.Query{Tenant: k.Tenant, Traces: some, Parts: true, Limit: len(some) + maxNamed + 2}
		for other, err := range st.Sessions(ctx, q) {
			if err != nil {
				return 0, err
			}
			trace, ofTrace := foreign.ParseTraceSession(other.ID)
			switch {
			case seen[other.ID]:
			case ofTrace && slices.Contains(some, trace), other.Part && other.Parent == k.ID:
				s.Parts = append(s.Parts, other)
			default:
				s.Named = append(s.Named, other)
			}
			seen[other.ID] = true
		}
		if len(s.Named) > maxNamed || len(traces) > maxTraces {
			s.Parts, s.Named = nil, nil
			break
		}
	}
	byID := func(a, b session.Summary) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(s.Parts, byID)
	slices.SortFunc(s.Named, byID)
	h := fnv.New32a()
	for _, p := range slices.Concat(s.Parts, s.Named) {
		at, err := st.Revision(ctx, p.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
		s.Marks[p.Key] = at
		fmt.Fprintf(h, "%q %d ", p.ID, at)
	}
	return store.Revision(h.Sum32()), nil
}

// Tree returns the tree of a session.
func Tree(ctx context.Context, st store.Store, k session.Key) (*session.Session, error) {
	s, err := Open(ctx, st, k)
	if err != nil {
		return nil, err
	}
	return s.Tree(), nil
}

// Tree returns the tree of the session.
func (s *Session) Tree() *session.Session {
	t := session.Assemble(s.Rows)
	t.Links = s.Links
	return t
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
	s := &Session{Marks: map[session.Key]store.Revision{}}
	_, err := s.find(ctx, st, k, []session.TraceID{trace})
	return s.Named, err
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
