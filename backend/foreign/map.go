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
	m := &mapper{want: want, spans: map[spanKey]*record{}, traces: map[session.TraceID]*trace{}, runs: map[runName]*run{}}
	out := m.read(t, rows)
	if len(m.all) == 0 {
		return out
	}
	m.link()
	m.names()
	m.around()
	m.place()
	m.findCalls()
	m.agents()
	m.attach()
	m.fold()
	return join(out, m.rows())
}

// mapper is one call of Map.
type mapper struct {
	want session.Key
	all  []*record // in an order that depends on the set alone; after link parents come first
	// ordered are all records by time, those of spans first.
	ordered []*record
	spans   map[spanKey]*record
	traces  map[session.TraceID]*trace
	runs    map[runName]*run
	calls   []*call
}

// trace is what the records of one trace have in common.
type trace struct {
	names     map[session.Key]int // sessions that records name, and how many do
	calls     int                 // runs, turns and tool calls
	responses map[string]bool     // ids of replies
	ours      []interval          // of turns and tool calls of this format, by start and apart
	kinds     map[session.SpanID]session.Kind
	runs      []*record // run records, by start
}

type interval struct{ start, end int64 }

// covers reports whether a turn or tool call of this format was open at a time.
func (t *trace) covers(at int64) bool {
	n, _ := slices.BinarySearchFunc(t.ours, at, func(i interval, at int64) int { return cmp.Compare(i.start, at+1) })
	return n > 0 && at < t.ours[n-1].end
}

func (m *mapper) trace(id session.TraceID) *trace {
	t := m.traces[id]
	if t == nil {
		t = &trace{names: map[session.Key]int{}, responses: map[string]bool{}}
		m.traces[id] = t
	}
	return t
}

// read makes records of foreign rows, and returns the other rows of the session. Of foreign rows of one span it takes
// the one that supersedes the others.
func (m *mapper) read(table *Table, rows []session.Row) (own []session.Row) {
	best := make(map[spanKey]*session.Row, len(rows))
	for i := range rows {
		row := &rows[i]
		if row.Kind != session.KindForeign {
			if row.Session == m.want {
				own = append(own, *row)
			}
			continue
		}
		k := spanKey{row.Trace, row.Span}
		if old := best[k]; old == nil || session.Supersedes(row, old) {
			best[k] = row
		}
	}
	if len(best) == 0 {
		return own
	}
	for _, row := range best {
		if r := table.newRecord(row); r != nil {
			m.all = append(m.all, r)
			if !r.log {
				m.spans[spanKey{row.Trace, row.Span}] = r
			}
		}
	}
	slices.SortFunc(m.all, compareRecords)
	m.ordered = slices.Clone(m.all)
	slices.SortStableFunc(m.ordered, func(a, b *record) int { return cmp.Compare(bit(a.log), bit(b.log)) })
	for i := range rows {
		if row := &rows[i]; row.Kind != session.KindForeign {
			t := m.trace(row.Trace)
			if t.kinds == nil {
				t.kinds = map[session.SpanID]session.Kind{}
			}
			t.kinds[row.Span] = row.Kind
			t.names[row.Session]++
			if row.Kind == session.KindTurn || row.Kind == session.KindToolCall {
				end := row.End
				if end == 0 { // it is open
					end = math.MaxInt64
				}
				t.ours = append(t.ours, interval{row.Start, end})
			}
		}
	}
	for _, t := range m.traces {
		slices.SortFunc(t.ours, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
		apart := t.ours[:0]
		for _, i := range t.ours {
			if n := len(apart); n > 0 && i.start <= apart[n-1].end {
				apart[n-1].end = max(apart[n-1].end, i.end)
			} else {
				apart = append(apart, i)
			}
		}
		t.ours = apart
	}
	return own
}

// link finds the record around each one, cuts rings, and sorts parents before children.
func (m *mapper) link() {
	for _, r := range m.all {
		if up := m.spans[spanKey{r.row.Trace, r.row.Parent}]; up != nil && up != r && r.row.Parent != (session.SpanID{}) {
			r.up = up
		}
	}
	m.contain()
	const walking, done = 1, 2
	state := make(map[*record]int, len(m.all))
	sorted := make([]*record, 0, len(m.all))
	var path []*record
	for _, r := range m.all { // the order of m.all decides which link of a ring is cut
		path = path[:0]
		var cut *record
		for at := r; at != nil && state[at] != done; at = at.up {
			if state[at] == walking {
				cut = slices.MinFunc(path[slices.Index(path, at):], compareRecords)
				cut.up = nil
				break
			}
			state[at] = walking
			path = append(path, at)
		}
		top := len(path)
		if cut != nil {
			top = slices.Index(path, cut) + 1
		}
		for _, piece := range [2][]*record{path[:top], path[top:]} { // each from its top down
			for _, at := range slices.Backward(piece) {
				state[at] = done
				sorted = append(sorted, at)
			}
		}
	}
	m.all = sorted
	for _, r := range m.all {
		if r.rule.Leaf && r.kids > 0 {
			r.role = roleLink
		}
	}
}

// contain finds what is around records whose parent was not kept, or never arrived, by time:
//
//   - around a run the only run or tool call of the trace that lasts as long and that has nothing below it
//   - around a turn the only turn of another reporter that lasts as long, if not both have counts that differ
//
// Several wrappers of one such parent are parts of one run.
func (m *mapper) contain() {
	const most = 256 // of one trace
	type place struct {
		trace session.TraceID
		role  role
	}
	outer := map[place][]*record{}
	siblings := map[spanKey]int{}
	for _, r := range m.all {
		if r.up != nil && !r.log {
			r.up.kids++
		}
	}
	isRun := func(r *record) bool { return r.role == roleRun || r.role == roleWrapper }
	lost := func(r *record) bool { return !r.log && r.up == nil && r.row.Parent != (session.SpanID{}) }
	for _, r := range m.all {
		p := place{r.row.Trace, roleTurn}
		switch {
		case r.log || r.end == 0:
			continue
		case (isRun(r) || r.role == roleTool) && r.kids == 0:
			p.role = roleRun
		case r.role != roleTurn:
			p.role = roleNone
		}
		if p.role != roleNone && len(outer[p]) <= most {
			outer[p] = append(outer[p], r)
		}
		if r.role == roleWrapper && lost(r) {
			siblings[spanKey{r.row.Trace, r.row.Parent}]++
		}
	}
	for _, r := range m.all {
		p := place{r.row.Trace, roleTurn}
		switch {
		case !lost(r) || r.end == 0:
			continue
		case isRun(r) && r.kids > 0:
			p.role = roleRun
		case r.role != roleTurn:
			continue
		}
		var around []*record
		for _, o := range outer[p] {
			if o != r && o.start <= r.start && o.end >= r.end && o.row.Parent != r.row.Parent &&
				(p.role == roleRun || o.reporter() != r.reporter() && (o.usage == nil || r.usage == nil || *o.usage == *r.usage)) {
				around = append(around, o)
			}
		}
		if len(around) == 1 && len(outer[p]) <= most {
			r.up = around[0]
		}
	}
	for _, r := range m.all {
		if r.role == roleWrapper && r.up == nil && siblings[spanKey{r.row.Trace, r.row.Parent}] > 1 {
			r.role = roleLink
		}
	}
}

// conversationID is a name of a session that many programs write on one call alone, or with the id of a reply.
const conversationID = "gen_ai.conversation.id"

// names gives each record its session.
func (m *mapper) names() {
	for _, r := range m.all {
		t := m.trace(r.row.Trace)
		if r.named {
			t.names[r.key]++
		}
		switch r.role {
		case roleTurn, roleRun, roleTool, roleWrapper:
			t.calls++
			if id := r.value(fieldResponse).Str(); id != "" {
				t.responses[id] = true
			}
		}
	}
	for _, r := range m.all {
		t := m.trace(r.row.Trace)
		if id := r.row.Attr(conversationID).Str(); r.named && id == r.key.ID &&
			(t.responses[id] || r.role == roleTurn && t.names[r.key] == 1 && t.calls > 1 && !r.log) {
			r.named = false
			delete(t.names, r.key)
		}
	}
	for _, r := range m.all {
		if r.named {
			r.near = &r.key
			continue
		}
		if r.up != nil {
			r.near = r.up.near
		}
		r.key = session.Key{Tenant: r.key.Tenant, ID: TraceSession(r.row.Trace)}
		if names := m.trace(r.row.Trace).names; r.near != nil {
			r.key = *r.near
		} else if len(names) == 1 {
			for key := range names {
				r.key = key
			}
		}
	}
}

// around notes what is around each record: the run or tool call, and the turn within that.
func (m *mapper) around() {
	for _, r := range m.all {
		t := m.trace(r.row.Trace)
		if up := r.up; up != nil {
			r.in, r.inTurn, r.inKey, r.utility, r.depth = up.in, up.inTurn, up.inKey, up.utility, up.depth+1
			r.hidden = up.hidden
			switch up.role {
			case roleRun, roleWrapper:
				r.in, r.inTurn, r.inKey, r.utility = up, nil, "", false
			case roleTool:
				r.in, r.inTurn, r.inKey, r.utility = up.first(), nil, "", false
			case roleTurn:
				r.inTurn = up
			}
			r.utility = r.utility || up.rule.Utility
			r.inKey = cmp.Or(r.inKey, up.text(fieldRun))
		}
		kind := t.kinds[r.row.Parent]
		r.hidden = r.hidden || kind == session.KindTurn || kind == session.KindToolCall || t.covers(r.start)
		switch {
		case r.hidden:
			r.role = roleLink
		case r.role == roleWrapper && r.in != nil && r.in.role != roleTool:
			r.role = roleLink
		case r.role == roleTool && r.in != nil && r.in.role == roleTool && r.isSameCall(r.in):
			r.same = r.in
		}
		if r.role == roleRun || r.role == roleWrapper {
			t.runs = append(t.runs, r)
		}
	}
}

// first returns the outermost record of the tool call.
func (r *record) first() *record {
	if r.same != nil {
		return r.same
	}
	return r
}

// isSameCall reports whether a tool record right below another one reports the same call.
func (r *record) isSameCall(outer *record) bool {
	if r.inTurn != nil {
		return false
	}
	id, outerID := r.text(fieldCall), outer.text(fieldCall)
	if id != "" && outerID != "" {
		return id == outerID
	}
	name, outerName := r.text(fieldTool), outer.text(fieldTool)
	return name == outerName || name == "" || outerName == ""
}
