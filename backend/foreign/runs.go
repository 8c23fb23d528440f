package foreign

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/backend/session"
)

// run is an execution of an agent loop, or one of several pieces of it: see find.
type run struct {
	name   runName
	into   *run // the run that this one is a part of
	key    session.Key
	rec    *record // its own span
	outer  *record // that of a run around it that was folded into it
	call   *record // the tool call that began it
	starts []*record
	notes  []*record
	turns  []*call
	tools  []*call
	first  int64 // times of its records; 0: none yet
	last   int64
	under  []*run // runs right below it that no tool call began
	isRun  bool   // it is one even without turns
	gone   bool   // it was folded, or is none
}

// runName names a run by what is known of it.
type runName struct {
	kind  string // span, key, agent, call, trace, start or session
	key   session.Key
	trace session.TraceID
	span  session.SpanID
	text  string
}

// find returns the whole that a run is a part of.
func (r *run) find() *run {
	for r.into != nil {
		if r.into.into != nil {
			r.into = r.into.into
		}
		r = r.into
	}
	return r
}

func (m *mapper) run(n runName) *run {
	r := m.runs[n]
	if r == nil {
		r = &run{name: n, key: n.key}
		m.runs[n] = r
	}
	return r.find()
}

func (m *mapper) spanRun(r *record) *run {
	n := m.run(runName{kind: "span", key: r.key, trace: r.row.Trace, span: r.row.Span})
	n.rec = cmp.Or(n.rec, r)
	return n
}

func (m *mapper) keyRun(key session.Key, text string) *run {
	return m.run(runName{kind: "key", key: key, text: text})
}

// callRun returns the run of what stands below a tool call without a run of its own.
func (m *mapper) callRun(key session.Key, call *record) *run {
	n := runName{kind: "call", key: key, text: call.text(fieldCall)}
	if n.text == "" {
		n.trace, n.span = call.row.Trace, call.row.Span
	}
	r := m.run(n)
	r.call = cmp.Or(r.call, call)
	return r
}

// join makes two runs one. Which of them is the whole changes no result but the name: one by key or agent is preferred,
// then one with a span.
func (m *mapper) join(a, b *run) *run {
	a, b = a.find(), b.find()
	if a == b || a.key != b.key {
		return a
	}
	if compareRuns(b, a) < 0 {
		a, b = b, a
	}
	b.into = a
	a.rec, a.call = cmp.Or(a.rec, b.rec), cmp.Or(a.call, b.call)
	a.starts = append(a.starts, b.starts...)
	if a.first == 0 || b.first != 0 && b.first < a.first {
		a.first = b.first
	}
	a.last = max(a.last, b.last)
	return a
}

var runRank = []string{"key", "agent", "span", "call", "start", "trace", "session"}

func compareRuns(a, b *run) int {
	x, y := a.name, b.name
	return cmp.Or(cmp.Compare(slices.Index(runRank, x.kind), slices.Index(runRank, y.kind)),
		cmp.Compare(x.text, y.text), slices.Compare(x.trace[:], y.trace[:]), slices.Compare(x.span[:], y.span[:]))
}

// parent returns the run that a run belongs to, nil if it has none or that is not known.
func (r *run) parent() *run {
	var p *run
	switch r = r.find(); {
	case r.call != nil && r.call.run != nil:
		p = r.call.run.find()
	case r.rec != nil && r.rec.in != nil && r.rec.in.run != nil:
		p = r.rec.in.run.find()
	}
	if p == r {
		return nil
	}
	return p
}

// root returns the outermost run of the session around a run.
func (r *run) root() *run {
	r = r.find()
	for range 64 { // agents that start each other end somewhere
		p := r.parent()
		if p == nil || p.key != r.key {
			break
		}
		r = p
	}
	return r
}

// put places a record in a run.
func (m *mapper) put(r *record, in *run) {
	r.run = in
	if r.bound || r.role == roleNote {
		return
	}
	if in = in.find(); in.first == 0 || r.start < in.first {
		in.first = r.start
	}
	in.last = max(in.last, r.start, r.end)
}

// place finds the run of each record: of spans by what is around them, of log records by span, key, trace or order.
func (m *mapper) place() {
	var late, with []*record // with are in the run of the tool call around them
	for _, r := range m.all {
		key := r.text(fieldRun)
		switch r.role {
		case roleLink, roleContent:
			if r.log && r.up == nil && key != "" {
				r.run = m.keyRun(r.key, key)
			}
			continue
		case roleRun, roleWrapper:
			n := m.spanRun(r)
			if r.in != nil && r.in.role == roleTool {
				n.call = cmp.Or(n.call, r.in)
			}
			if key != "" && m.keyRun(r.key, key).rec == nil { // a later run that uses the key again is one of its own
				n = m.join(m.keyRun(r.key, key), n)
			}
			m.put(r, n)
			continue
		}
		agent := r.text(fieldAgent)
		switch call := r.in; {
		case r.same != nil:
			with = append(with, r)
		case agent != "" && !r.log:
			n := m.run(runName{kind: "agent", key: r.key, text: agent})
			if call != nil && call.role == roleTool && r.role != rolePermission {
				n = m.join(n, m.callRun(r.key, call))
			}
			m.put(r, n)
		case call != nil && call.role == roleTool && (r.log || r.role == rolePermission || r.role == roleNote):
			with = append(with, r)
		case call != nil && call.role == roleTool:
			m.put(r, m.callRun(r.key, call))
		case call != nil && call.key == r.key:
			m.put(r, m.spanRun(call))
		case cmp.Or(key, r.inKey) != "":
			m.put(r, m.keyRun(r.key, cmp.Or(key, r.inKey)))
		default:
			late = append(late, r)
		}
	}
	slices.SortFunc(late, compareRecords)
	var logs []*record
	talk := map[session.TraceID]bool{} // traces with a turn that has no run
	for _, r := range late {
		talk[r.row.Trace] = talk[r.row.Trace] || r.role == roleTurn
	}
	for _, r := range late {
		if n := m.orphan(r); !r.log && (n != nil || talk[r.row.Trace]) {
			m.put(r, cmp.Or(n, m.run(runName{kind: "trace", key: r.key, trace: r.row.Trace})))
		} else {
			logs = append(logs, r) // also tool calls that have a trace to themselves
		}
	}
	m.placeLogs(logs)
	for _, r := range with {
		if r.in.run != nil {
			m.put(r, r.in.run)
		}
	}
	m.keyed()
	m.again()
	m.meet()
}

// keyed joins the runs that log records name by key with those of the spans that they stand on, or of their trace where
// no span has a run.
func (m *mapper) keyed() {
	for _, r := range m.all {
		key := r.text(fieldRun)
		if !r.log || key == "" {
			continue
		}
		n := m.runs[runName{kind: "trace", key: r.key, trace: r.row.Trace}]
		switch {
		case r.run != nil && r.run.find() != m.keyRun(r.key, key):
			m.join(m.keyRun(r.key, key), r.run.root())
		case n != nil && n.find().name.kind == "trace":
			m.join(m.keyRun(r.key, key), n)
		}
	}
}

// again splits runs by key of which several log records say that they begin: a session that is resumed may use its key
// again. What happens later belongs to the last that began before.
func (m *mapper) again() {
	starts := map[*run][]*record{}
	for _, r := range m.ordered {
		if r.role == roleStart && r.run != nil && r.run.find().name.kind == "key" && r.run.find().rec == nil {
			starts[r.run.find()] = append(starts[r.run.find()], r)
		}
	}
	for _, r := range m.all {
		if r.run == nil || len(starts[r.run.find()]) < 2 {
			continue
		}
		whole, at := r.run.find(), r.start
		if r.log {
			at = r.end
		}
		l := starts[whole]
		n, _ := slices.BinarySearchFunc(l, at, func(s *record, at int64) int { return cmp.Compare(s.start, at+1) })
		if n > 1 && whole.name.kind == "key" {
			name := whole.name
			name.text += "#" + strconv.Itoa(n)
			m.put(r, m.run(name))
		}
	}
	for whole, l := range starts {
		if len(l) > 1 { // without the times of what it gave away
			whole.last = l[1].start
		}
	}
}

// orphan returns the innermost run of its trace at the time of a span without a run around it; nil if there is none, or
// one of several.
func (m *mapper) orphan(r *record) *run {
	var in *record
	for _, c := range m.trace(r.row.Trace).runs {
		if c.role == roleLink || c.key != r.key || c.start > r.start || c.end < max(r.end, r.start) {
			continue
		}
		switch {
		case in == nil || in.start <= c.start && c.end <= in.end:
			in = c
		case c.start > in.start || c.end < in.end: // neither is within the other
			return nil
		}
	}
	if in == nil {
		return nil
	}
	return m.spanRun(in)
}

// placeLogs places log records without a key: in the only run of their trace, else in the last run of the session that
// began before them.
func (m *mapper) placeLogs(logs []*record) {
	type traceOf struct {
		key   session.Key
		trace session.TraceID
	}
	byTrace := map[traceOf][]*run{}
	bySession := map[session.Key][]*run{}
	for _, r := range m.all {
		if r.run == nil {
			continue
		}
		k, root := traceOf{r.key, r.row.Trace}, r.run.root()
		if !slices.Contains(byTrace[k], root) && len(byTrace[k]) < 2 {
			byTrace[k] = append(byTrace[k], root)
		}
		if root.first > 0 {
			bySession[r.key] = append(bySession[r.key], root)
		}
	}
	compare := func(a, b *run) int { return cmp.Or(cmp.Compare(a.first, b.first), compareRuns(a, b)) }
	for key, l := range bySession {
		slices.SortFunc(l, compare)
		bySession[key] = slices.Compact(l)
	}
	last := func(key session.Key, at int64) *run {
		l := bySession[key]
		n, _ := slices.BinarySearchFunc(l, at, func(r *run, at int64) int { return cmp.Compare(r.first, at+1) })
		if n > 0 {
			return l[n-1]
		}
		return nil
	}
	var rest []*record
	for _, r := range logs { // runs begin first, so that what comes before its run in time finds it
		if l := byTrace[traceOf{r.key, r.row.Trace}]; len(l) == 1 {
			m.put(r, l[0])
		} else if r.role != roleStart {
			rest = append(rest, r)
		} else if n := last(r.key, r.start+1e9); n != nil && n.rec != nil && n.rec.end > r.start {
			m.put(r, n)
		} else {
			n := m.run(runName{kind: "start", key: r.key, trace: r.row.Trace, span: r.row.Span})
			m.put(r, n)
			if at, _ := slices.BinarySearchFunc(bySession[r.key], n, compare); n.first > 0 {
				bySession[r.key] = slices.Insert(bySession[r.key], at, n)
			}
		}
	}
	for _, r := range rest {
		n := last(r.key, r.end)
		if l := bySession[r.key]; n == nil && len(l) > 0 {
			n = l[0]
		}
		if n == nil {
			n = m.run(runName{kind: "session", key: r.key})
		}
		m.put(r, n)
	}
}

// meet joins the runs of log records and spans that report one call or reply, where only one of each does.
func (m *mapper) meet() {
	type shared struct {
		key  session.Key
		turn bool
		id   string
	}
	type sides struct{ log, span *run }
	found := map[shared]*sides{}
	for _, r := range m.all {
		k := shared{r.key, r.role == roleTurn || r.role == roleContent, r.callID()}
		if k.id == "" || r.run == nil {
			continue
		}
		s := found[k]
		if s == nil {
			s = &sides{}
			found[k] = s
		}
		side := &s.span
		if r.log {
			side = &s.log
		}
		if root := r.run.root(); *side == nil {
			*side = root
		} else if (*side).find() != root {
			*side = &run{} // of several
		}
	}
	for _, r := range m.all { // in an order of the set
		if r.run == nil {
			continue
		}
		s := found[shared{r.key, r.role == roleTurn || r.role == roleContent, r.callID()}]
		if s != nil && s.log != nil && s.span != nil && s.log.key == r.key && s.span.key == r.key {
			m.join(s.log.root(), s.span.root())
		}
	}
}
