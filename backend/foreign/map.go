package foreign

import (
	"cmp"
	"math"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
)

// Map in five files: record.go reads rows, map.go finds parents and sessions, runs.go the run of each record, calls.go
// turns and tool calls, of which several records may report one, and rows.go writes rows.

// Map returns the rows of the session want: rows of the five kinds and payload rows as they are, and what the foreign
// rows among the given ones come to. It is a pure function of the set of rows: order and repeats change nothing.
//
// The rows are those of want, and of every session that has a row in one of their traces (closed under that relation):
// a record that names no session belongs to the one that its nearest ancestor names, else to the only one that its
// trace names, else to the session of its trace. Of a session whose rows all belong to others Map returns nothing.
func (t *Table) Map(rows []session.Row, want session.Key) []session.Row {
	m := &mapper{want: want, spans: map[spanKey]*record{}, traces: map[session.TraceID]*trace{}, runs: map[runName]*run{},
		begins: map[runName][]int64{}}
	out := m.read(t, rows)
	if len(m.all) == 0 {
		return Join(out)
	}
	m.link()
	m.around()
	m.place()
	m.findCalls()
	m.agents()
	m.attach()
	m.fold()
	return Join(out, m.rows()...)
}

// mapper is one call of Map.
type mapper struct {
	want   session.Key
	all    []*record // in an order that depends on the set alone; after link spans come first, parents before children
	spans  map[spanKey]*record
	traces map[session.TraceID]*trace
	runs   map[runName]*run
	begins map[runName][]int64 // by key, several only where none has a span
	calls  []*call
	list   []*run // the innermost first, after fold
	out    []session.Row
}

// trace is what the records of one trace have in common.
type trace struct {
	names   map[session.Key]int     // sessions that records name, and how many do
	unnamed bool                    // some record names none
	calls   int                     // runs, turns and tool calls
	own     int                     // rows of this format
	callIDs map[session.SpanID]bool // of turns and tool calls of this format
	ours    []interval              // of these, by start; each ends as late as those before it
}

type interval struct{ start, end int64 }

func (m *mapper) trace(id session.TraceID) *trace {
	t := m.traces[id]
	if t == nil {
		t = &trace{names: map[session.Key]int{}, callIDs: map[session.SpanID]bool{}}
		m.traces[id] = t
	}
	return t
}

// read makes records of foreign rows, and returns the other rows of the session. Of foreign rows of one span it takes
// the one that supersedes the others.
func (m *mapper) read(table *Table, rows []session.Row) (own []session.Row) {
	var found []*record
	for i := range rows {
		row := &rows[i]
		k := spanKey{row.Trace, row.Span}
		switch old := m.spans[k]; {
		case row.Kind != session.KindForeign:
			t := m.trace(row.Trace)
			t.own++
			t.names[row.Session]++
			if row.Kind == session.KindTurn || row.Kind == session.KindToolCall {
				t.callIDs[row.Span] = true
				t.ours = append(t.ours, interval{row.Start, cmp.Or(row.End, math.MaxInt64)}) // without an end it is open
			}
			if row.Session == m.want {
				own = append(own, *row)
			}
		case old == nil:
			m.spans[k] = &record{row: row}
			found = append(found, m.spans[k])
		case session.Supersedes(row, old.row):
			old.row = row
		}
	}
	for _, r := range found {
		if r.read(table) {
			m.all = append(m.all, r)
		}
		if r.log || r.rule == nil {
			delete(m.spans, spanKey{r.row.Trace, r.row.Span})
		}
	}
	slices.SortFunc(m.all, compareRecords)
	for _, t := range m.traces {
		slices.SortFunc(t.ours, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
		for i := 1; i < len(t.ours); i++ {
			t.ours[i].end = max(t.ours[i].end, t.ours[i-1].end)
		}
	}
	return own
}

// link finds the record around each one, cuts rings, and sorts parents before children.
func (m *mapper) link() {
	for _, r := range m.all {
		if up := m.spans[spanKey{r.row.Trace, r.row.Parent}]; up != r && r.row.Parent != (session.SpanID{}) {
			r.up = up
		}
	}
	m.contain()
	for i, r := range m.all {
		var path []*record
		for p := r; p != nil && p.visit == 0; p = p.up {
			p.visit = i + 1
			if path = append(path, p); p.up != nil && p.up.visit == p.visit {
				p.up = nil // the last of a ring
			}
		}
		for _, p := range slices.Backward(path) {
			if p.up != nil {
				p.depth = p.up.depth + 1
			}
		}
	}
	slices.SortStableFunc(m.all, func(a, b *record) int { return cmp.Or(spansFirst(a, b), cmp.Compare(a.depth, b.depth)) })
	for _, r := range m.all {
		if r.rule.Leaf && r.kids > 0 {
			r.role = roleLink
		}
	}
}

// contain finds by time what is around records without a parent, or whose parent was not kept or never arrived: the
// innermost run of the trace, and around a turn also one of another reporter. What a tool call began is in the only run
// below the call that has nothing below it.
func (m *mapper) contain() {
	for _, r := range m.all {
		if r.up != nil && !r.log {
			r.up.kids++
		}
	}
	open := map[session.TraceID][]*record{} // those that may be around others, the outer before the inner
	for _, r := range slices.SortedStableFunc(slices.Values(m.all), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	}) {
		near := open[r.row.Trace]
		if !r.log && (r.up == nil || r.up.role == roleTool) {
			r.up = cmp.Or(r.innermost(near), r.up)
		}
		if !r.log && r.end > 0 && (r.isRun() || r.role == roleTurn) {
			near = slices.DeleteFunc(near, func(c *record) bool { return c.end < r.start })
			open[r.row.Trace] = append(near[:min(len(near), maxOpen-1)], r)
		}
	}
}

// maxOpen bounds the records that are looked at for one that is around another.
const maxOpen = 512

// lost reports whether a span has a parent that is not there.
func (r *record) lost() bool { return !r.log && r.up == nil && r.row.Parent != (session.SpanID{}) }

// innermost returns the record that may be around r and that is within all others of such; nil if there is none.
func (r *record) innermost(near []*record) (in *record) {
	least := int64(math.MaxInt64) // end of the others
	for _, c := range near {
		if c.end >= max(r.end, r.start) && r.mayBeIn(c) {
			if in != nil {
				least = min(least, in.end)
			}
			in = c
		}
	}
	if in != nil && in.end > least {
		return nil
	}
	return in
}

// mayBeIn reports whether a record whose parent is not there, or a tool call, may be part of another record.
func (r *record) mayBeIn(c *record) bool {
	switch {
	case r.up != nil:
		return c.up == r.up && c.role == roleRun && c.kids == 0
	case c.role == roleTurn:
		return r.role == roleTurn && r.lost() && c.rule != r.rule && c.row.Parent != r.row.Parent
	}
	return !r.isRun() || c.row.Parent != r.row.Parent
}

// conversationID is a name of a session that many programs write on one call alone, or with the id of a reply.
const conversationID = "gen_ai.conversation.id"

// around gives each record its session, and notes what is around it: the run or tool call, and the turn within that. A
// run that names no session is in the one that its turns name.
func (m *mapper) around() {
	for _, r := range m.all {
		t := m.trace(r.row.Trace)
		if t.unnamed = t.unnamed || !r.named; r.named {
			t.names[r.key]++
		}
		if r.role == roleTurn || r.role == roleTool || r.isRun() {
			t.calls++
		}
	}
	for _, r := range m.all {
		t := m.trace(r.row.Trace)
		if id := r.row.Attr(conversationID).Str(); r.named && id == r.key.ID && (t.unnamed || len(t.names) > 1) &&
			r.role == roleTurn && t.names[r.key] == 1 && t.calls > 1 && !r.log {
			r.named = false
			delete(t.names, r.key)
		}
	}
	type naming struct {
		id    session.Key // empty: of several
		inRun bool        // a run within says so, which counts only if nothing nearer does
	}
	below := map[*record]*naming{}
	for _, r := range slices.Backward(m.all) {
		id := below[r]
		if r.named {
			id = &naming{id: r.key}
		}
		if id == nil || r.up == nil || r.log || !r.named && (r.role == roleTurn || r.role == roleTool) {
			continue
		}
		id = &naming{id.id, id.inRun || r.isRun()}
		switch old := below[r.up]; {
		case old == nil || old.inRun && !id.inRun:
			below[r.up] = id
		case old.inRun == id.inRun && old.id != id.id:
			old.id = session.Key{}
		}
	}
	for _, r := range m.all {
		t, up, id := m.trace(r.row.Trace), r.up, below[r]
		switch {
		case r.named:
		case r.isRun() && id != nil && id.id.ID != "":
			r.key, r.named = id.id, true
		case up != nil && up.named:
			r.key, r.named = up.key, true
		default:
			r.key = session.Key{Tenant: r.key.Tenant, ID: TraceSession(r.row.Trace)}
			if len(t.names) == 1 {
				for key := range t.names {
					r.key = key
				}
			}
		}
		if up != nil {
			r.in, r.inTurn, r.inKey, r.utility = up.in, up.inTurn, up.inKey, up.utility
			r.hidden = up.hidden
			switch {
			case up.isRun() || up.role == roleTool:
				r.in, r.inTurn, r.inKey, r.utility = cmp.Or(up.same, up), nil, "", false
			case up.role == roleTurn:
				r.inTurn = up
			}
			r.utility = r.utility || up.rule.Utility
			r.inKey = cmp.Or(r.inKey, up.text("run"))
		}
		open := before(t.ours, r.start, func(i interval) int64 { return i.start })
		r.hidden = r.hidden || t.callIDs[r.row.Parent] || open > 0 && r.start < t.ours[open-1].end
		inTool := r.in != nil && r.in.role == roleTool
		switch {
		case r.hidden, r.role == roleWrapper && r.in != nil && !inTool:
			r.role = roleLink
		case r.role == roleTool && inTool && r.isSameCall(r.in):
			r.same = r.in
		}
	}
}

// isSameCall reports whether a tool record right below another one reports the same call.
func (r *record) isSameCall(outer *record) bool {
	if r.id != "" && outer.id != "" || r.inTurn != nil {
		return r.id == outer.id && r.inTurn == nil
	}
	name, other := r.text("tool"), outer.text("tool")
	return name == other || name == "" || other == ""
}
