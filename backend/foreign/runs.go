package foreign

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/backend/session"
)

// run is an execution of an agent loop.
type run struct {
	runName
	rec   *record   // its own span
	recs  []*record // that, log records that begin it, and the spans of runs around it that were folded into it
	call  *record   // the tool call that began it
	notes []*record
	turns []*call
	tools []*call
	first int64 // times of its records; 0: none yet
	last  int64
	isRun bool // it is one even without turns
}

// runName names a run. The id is that of the run in the tree: a key of a prompt, the id of an agent or of the tool call
// that it is below, that of a span or of the log record that begins it, else that of its trace or session.
type runName struct {
	key   session.Key
	id    string
	trace session.TraceID // in which the id names something; zero: in the session
}

// compareRuns orders those of a span first.
func compareRuns(a, b *run) int {
	return cmp.Or(cmp.Compare(bit(a.rec == nil), bit(b.rec == nil)), slices.Compare(a.trace[:], b.trace[:]),
		cmp.Compare(a.id, b.id))
}

// run returns the run of a name.
func (m *mapper) run(name runName) *run {
	if m.runs[name] == nil {
		m.runs[name] = &run{runName: name}
	}
	return m.runs[name]
}

// keyName returns the name of the run that a key names to a record. A session that is resumed may use its key again:
// where several log records say that a run of the key begins, it is the one that began last.
func (m *mapper) keyName(r *record, key string) runName {
	name := runName{key: r.key, id: key}
	if n, _ := slices.BinarySearch(m.begins[name], max(r.start, r.end)+1); n > 1 {
		name.id += "#" + strconv.Itoa(n)
	}
	return name
}

// callRun returns the run of what is below a tool call without a run of its own.
func (m *mapper) callRun(key session.Key, call *record) *run {
	name := runName{key: key, id: call.id}
	if call.id == "" {
		name.id, name.trace = call.row.Span.String(), call.row.Trace
	}
	n := m.run(name)
	n.call = cmp.Or(n.call, call)
	return n
}

// parent returns the run that a run belongs to, nil if it has none or that is not known.
func (n *run) parent() *run {
	in := n.call
	if (in == nil || in.run == nil) && n.rec != nil {
		in = n.rec.in
	}
	if in == nil || in.run == n {
		return nil
	}
	return in.run
}

// root returns the outermost run of the session around a run.
func (n *run) root() *run {
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
	if r.run = in; r.role == roleNote {
		return
	}
	if in.first == 0 || r.start != 0 && r.start < in.first {
		in.first = r.start
	}
	in.last = max(in.last, r.start, r.end)
}

// place finds the run of each record: of spans by what is around them, of log records by span, key, trace or order.
func (m *mapper) place() {
	m.nameRuns()
	var late [2][]*record // those that begin runs, and others
	logs := slices.IndexFunc(m.all, func(r *record) bool { return r.log })
	for i, r := range m.all {
		if i == logs {
			m.meet()
		}
		key, agent := cmp.Or(r.text("run"), r.inKey), r.text("agent")
		inTool := r.in != nil && r.in.role == roleTool
		switch {
		case r.run != nil: // its own
		case r.role == roleLink || r.role == roleContent:
		case agent != "" && !r.log && r.same == nil:
			m.put(r, m.run(runName{key: r.key, id: agent}))
			if inTool && r.role != rolePermission {
				r.run.call = cmp.Or(r.run.call, r.in)
			}
		case inTool && (r.log || r.same != nil || r.role == rolePermission || r.role == roleNote): // with the call, below
		case inTool:
			m.put(r, m.callRun(r.key, r.in))
		case r.in != nil && r.in.key == r.key:
			m.put(r, r.in.run)
		case key != "":
			m.put(r, m.run(m.keyName(r, key)))
		case r.role == roleTurn && !r.log:
			m.put(r, m.run(runName{r.key, r.row.Trace.String(), r.row.Trace}))
		default: // also tool calls that have a trace to themselves
			late[bit(r.role != roleStart)] = append(late[bit(r.role != roleStart)], r)
		}
	}
	for _, l := range late { // what comes before its run in time finds it
		m.placeLate(l)
	}
	for _, r := range m.all {
		if r.run == nil && r.in != nil && r.in.run != nil && r.role != roleLink && r.role != roleContent {
			m.put(r, r.in.run)
		}
	}
}

// nameRuns makes the runs that have a span, and notes when those begin that log records name by a key.
func (m *mapper) nameRuns() {
	for _, r := range m.all {
		if key := r.text("run"); r.role == roleStart && r.in == nil && key != "" {
			m.begins[runName{key: r.key, id: key}] = append(m.begins[runName{key: r.key, id: key}], r.start)
		}
	}
	for _, times := range m.begins {
		slices.Sort(times)
	}
	for _, r := range m.all {
		if !r.isRun() {
			continue
		}
		id := r.row.Span
		if r.role == roleWrapper && r.lost() { // several whose one parent never arrived are parts of that
			id = r.row.Parent
		}
		n := m.run(runName{r.key, id.String(), r.row.Trace})
		if n.rec = cmp.Or(n.rec, r); r.in != nil && r.in.role == roleTool {
			n.call = cmp.Or(n.call, r.in)
		}
		m.alias(m.keyName(r, r.text("run")), n)
		m.put(r, n)
	}
}

// alias makes a name that no run has that of a run. A later run that uses a key again is one of its own.
func (m *mapper) alias(name runName, n *run) {
	if name.id != "" && m.runs[name] == nil {
		m.runs[name], n.runName = n, name
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

// placeLate places log records without a key: in the only run of their trace, else in the last run of the session that
// began before them. A record that begins a run without a key begins one of its own, unless a span does so by then.
func (m *mapper) placeLate(late []*record) {
	slices.SortFunc(late, compareRecords)
	ofTrace, inSession, seen := only[runName]{}, map[session.Key][]*run{}, map[*run]bool{}
	for _, r := range m.all {
		if r.run == nil || len(late) == 0 {
			continue
		}
		root := r.run.root()
		ofTrace.add(runName{key: r.key, trace: r.row.Trace}, root)
		if !seen[root] && root.first > 0 {
			seen[root], inSession[r.key] = true, append(inSession[r.key], root)
		}
	}
	for _, l := range inSession {
		slices.SortFunc(l, func(a, b *run) int { return cmp.Or(cmp.Compare(a.first, b.first), compareRuns(a, b)) })
	}
	for _, r := range late {
		n, at := ofTrace[runName{key: r.key, trace: r.row.Trace}], r.end
		if r.role == roleStart {
			at += 1e9
		}
		l := inSession[r.key]
		l = l[:before(l, at, func(n *run) int64 { return n.first })]
		if n == nil && len(l) > 0 && (r.role != roleStart || l[len(l)-1].rec != nil && l[len(l)-1].rec.end > r.start) {
			n = l[len(l)-1]
		}
		switch {
		case n != nil:
		case r.role == roleStart:
			n = m.run(runName{r.key, r.row.Span.String(), r.row.Trace})
		case len(inSession[r.key]) > 0:
			n = inSession[r.key][0]
		default:
			n = m.run(runName{r.key, r.key.ID, TraceOf(r.key)})
		}
		m.put(r, n)
	}
}

// meet gives the names by which log records know a run to the run of the span that they are on, or to the one run
// whose spans report the same call or reply: other records of the prompt may be on no span.
func (m *mapper) meet() {
	type report struct {
		key  session.Key
		turn bool
		id   string
	}
	of := func(r *record) report { return report{r.key, r.role == roleTurn || r.role == roleContent, r.id} }
	runs := only[report]{}
	for _, r := range m.all {
		if !r.log && r.id != "" && r.run != nil {
			runs.add(of(r), r.run.root())
		}
	}
	for _, r := range m.all { // in an order of the set
		n := runs[of(r)]
		if r.in != nil && r.in.isRun() && r.in.in == nil && r.in.key == r.key {
			n = r.in.run
		}
		if r.log && n != nil {
			m.alias(m.keyName(r, r.text("run")), n)
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
