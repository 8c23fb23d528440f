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

// runName names a run by what is known of it. The id is that of the run in the tree.
type runName struct {
	kind  kind
	key   session.Key
	id    string
	trace session.TraceID // in which the id names something; zero: in the session
}

// kind is what a run is known by. Of two pieces of one run the lower kind names it.
type kind uint8

const (
	byKey     kind = iota // of a prompt
	byAgent               // the id of a sub-agent
	bySpan                // its own span
	byCall                // the tool call that it stands below
	byStart               // the log record that begins it
	byTrace               // a trace without runs
	bySession             // a session without any
)

func compareRuns(a, b *run) int {
	x, y := a.name, b.name
	return cmp.Or(cmp.Compare(x.kind, y.kind), slices.Compare(x.trace[:], y.trace[:]), cmp.Compare(x.id, y.id))
}

// find returns the whole that a run is a part of.
func (n *run) find() *run {
	for n.into != nil {
		if n.into.into != nil {
			n.into = n.into.into
		}
		n = n.into
	}
	return n
}

func (m *mapper) run(n runName) *run {
	r := m.runs[n]
	if r == nil {
		r = &run{name: n, key: n.key}
		m.runs[n] = r
	}
	return r.find()
}

func (r *record) at() spanKey { return spanKey{r.row.Trace, r.row.Span} }

// spanRun returns the run of a span. Several wrappers whose one parent never arrived are parts of that.
func (m *mapper) spanRun(r *record) *run {
	id := r.row.Span
	if r.role == roleWrapper && r.lost() {
		id = r.row.Parent
	}
	n := m.run(runName{bySpan, r.key, id.String(), r.row.Trace})
	n.rec = cmp.Or(n.rec, r)
	return n
}

// keyRun returns the run that a key names to a record. A session that is resumed may use its key again: where several
// log records say that a run of the key begins, it is the one that began last.
func (m *mapper) keyRun(r *record, text string) *run {
	name, at := runName{kind: byKey, key: r.key, id: text}, r.start
	if r.log {
		at = r.end
	}
	if n := before(m.begins[name], at, func(at int64) int64 { return at }); n > 1 {
		name.id += "#" + strconv.Itoa(n)
	}
	return m.run(name)
}

// begin notes when runs of a key begin that have no span of their own.
func (m *mapper) begin() {
	spanned := map[runName]bool{}
	for _, r := range m.ordered { // those of spans first
		name := runName{kind: byKey, key: r.key, id: r.text("run")}
		if spanned[name] = spanned[name] || r.isRun() || r.in != nil; r.role == roleStart && name.id != "" && !spanned[name] {
			m.begins[name] = append(m.begins[name], r.start)
		}
	}
}

// callRun returns the run of what stands below a tool call without a run of its own.
func (m *mapper) callRun(key session.Key, call *record) *run {
	n := runName{kind: byCall, key: key, id: call.id}
	if n.id == "" {
		n.id, n.trace = call.row.Span.String(), call.row.Trace
	}
	r := m.run(n)
	r.call = cmp.Or(r.call, call)
	return r
}

// join makes two runs one. Which of them is the whole changes no result but the name.
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
	a.include(b.first, b.last)
	return a
}

func (n *run) include(first, last int64) {
	if n.first == 0 || first != 0 && first < n.first {
		n.first = first
	}
	n.last = max(n.last, last)
}

// parent returns the run that a run belongs to, nil if it has none or that is not known.
func (n *run) parent() (p *run) {
	switch n = n.find(); {
	case n.call != nil && n.call.run != nil:
		p = n.call.run.find()
	case n.rec != nil && n.rec.in != nil && n.rec.in.run != nil:
		p = n.rec.in.run.find()
	}
	if p == n {
		return nil
	}
	return p
}

// root returns the outermost run of the session around a run.
func (n *run) root() *run {
	n = n.find()
	for range 64 { // agents that start each other end somewhere
		p := n.parent()
		if p == nil || p.key != n.key {
			break
		}
		n = p
	}
	return n
}

// put places a record in a run.
func (m *mapper) put(r *record, in *run) {
	if r.run = in; !r.bound && r.role != roleNote {
		in.find().include(r.start, max(r.start, r.end))
	}
}

// place finds the run of each record: of spans by what is around them, of log records by span, key, trace or order.
func (m *mapper) place() {
	m.begin()
	var late, with []*record // with are in the run of the tool call around them
	for _, r := range m.all {
		key, agent := r.text("run"), r.text("agent")
		inTool := r.in != nil && r.in.role == roleTool
		switch {
		case r.role == roleLink || r.role == roleContent:
			if r.log && r.up == nil && key != "" {
				r.run = m.keyRun(r, key)
			}
		case r.isRun():
			n := m.spanRun(r)
			if inTool {
				n.call = cmp.Or(n.call, r.in)
			}
			if key != "" && m.keyRun(r, key).rec == nil { // a later run that uses the key again is one of its own
				n = m.join(m.keyRun(r, key), n)
			}
			m.put(r, n)
		case r.same != nil:
			with = append(with, r)
		case agent != "" && !r.log:
			n := m.run(runName{kind: byAgent, key: r.key, id: agent})
			if inTool && r.role != rolePermission {
				n = m.join(n, m.callRun(r.key, r.in))
			}
			m.put(r, n)
		case inTool && (r.log || r.role == rolePermission || r.role == roleNote):
			with = append(with, r)
		case inTool:
			m.put(r, m.callRun(r.key, r.in))
		case r.in != nil && r.in.key == r.key:
			n := m.spanRun(r.in)
			if r.log && key != "" && r.in.in == nil { // other records of the prompt may stand on no span
				n = m.join(m.keyRun(r, key), n)
			}
			m.put(r, n)
		case cmp.Or(key, r.inKey) != "":
			m.put(r, m.keyRun(r, cmp.Or(key, r.inKey)))
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
		if !r.log && talk[r.row.Trace] {
			m.put(r, m.run(runName{byTrace, r.key, r.row.Trace.String(), r.row.Trace}))
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
	m.meet()
	for _, r := range m.all {
		if r.run != nil {
			r.run = r.run.find()
		}
	}
}

// before returns how many elements of a list that is sorted by a time have one that is not after at.
func before[T any](l []T, at int64, timeOf func(T) int64) int {
	n, _ := slices.BinarySearchFunc(l, at, func(e T, at int64) int { return cmp.Compare(timeOf(e), at+1) })
	return n
}

// only has the one run of a key, nil where there are several.
type only[K comparable] map[K]*run

func (o only[K]) add(key K, n *run) {
	if old, ok := o[key]; ok && old != n {
		n = nil
	}
	o[key] = n
}

// placeLogs places log records without a key: in the only run of their trace, else in the last run of the session that
// began before them.
func (m *mapper) placeLogs(logs []*record) {
	if len(logs) == 0 {
		return
	}
	ofTrace, inSession := only[runName]{}, map[session.Key][]*run{}
	nameOf := func(r *record) runName { return runName{key: r.key, trace: r.row.Trace} }
	index := func() {
		for _, r := range m.all {
			if r.run == nil {
				continue
			}
			root := r.run.root()
			if ofTrace.add(nameOf(r), root); root.first > 0 {
				inSession[r.key] = append(inSession[r.key], root)
			}
		}
		for key, l := range inSession {
			slices.SortFunc(l, func(a, b *run) int { return cmp.Or(cmp.Compare(a.first, b.first), compareRuns(a, b)) })
			inSession[key] = slices.Compact(l)
		}
	}
	last := func(key session.Key, at int64) *run {
		l := inSession[key]
		if n := before(l, at, func(r *run) int64 { return r.first }); n > 0 {
			return l[n-1]
		}
		return nil
	}
	index()
	var rest []*record
	for _, r := range logs { // runs begin first, so that what comes before its run in time finds it
		if n := ofTrace[nameOf(r)]; n != nil {
			m.put(r, n)
		} else if r.role != roleStart {
			rest = append(rest, r)
		} else if n := last(r.key, r.start+1e9); n != nil && n.rec != nil && n.rec.end > r.start {
			m.put(r, n)
		} else {
			m.put(r, m.run(runName{byStart, r.key, r.row.Span.String(), r.row.Trace}))
		}
	}
	index()
	for _, r := range rest {
		n := last(r.key, r.end)
		if l := inSession[r.key]; n == nil && len(l) > 0 {
			n = l[0]
		}
		m.put(r, cmp.Or(n, m.run(runName{kind: bySession, key: r.key, id: r.key.ID})))
	}
}

// meet joins the runs of log records and of spans that report one call or reply, where only one of each does.
func (m *mapper) meet() {
	type shared struct {
		key       session.Key
		log, turn bool
		id        string
	}
	runs := only[shared]{}
	idOf := func(r *record, log bool) shared {
		return shared{r.key, log, r.role == roleTurn || r.role == roleContent, r.id}
	}
	for _, r := range m.all {
		if r.id != "" && r.run != nil {
			runs.add(idOf(r, r.log), r.run.root())
		}
	}
	for _, r := range m.all { // in an order of the set
		a, b := runs[idOf(r, true)], runs[idOf(r, false)]
		if a != nil && b != nil {
			m.join(a.root(), b.root())
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
