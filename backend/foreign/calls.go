package foreign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// turn is a model call, as one or several records report it.
type turn struct {
	run        *run
	recs       []*record // outer before inner
	index      int64
	start, end int64
	contents   []*record
	usage      *record // that reports it best
}

// tool is a tool call, as one or several records report it.
type tool struct {
	run         *run
	recs        []*record // tool records
	permissions []*record
	start, end  int64
	turn        *turn
	contents    []*record
}

// turns makes turns of turn records. One that contains another one is the same call, unless it contains several that
// report usage.
func (m *mapper) turns() {
	calls := map[*record]int{} // with usage, in a turn record
	for _, r := range slices.Backward(m.all) {
		if r.role == roleTurn && r.inTurn != nil {
			n := calls[r]
			if n == 0 && r.usage != nil {
				n = 1
			}
			calls[r.inTurn] += n
		}
	}
	for _, r := range m.all {
		if r.role != roleTurn || r.run == nil {
			continue
		}
		if calls[r] > 1 {
			r.role = roleLink
			continue
		}
		if r.inTurn != nil && r.inTurn.turn != nil {
			r.turn = r.inTurn.turn
			r.turn.recs = append(r.turn.recs, r)
			continue
		}
		r.turn = &turn{run: r.run, recs: []*record{r}}
		m.turnsL = append(m.turnsL, r.turn)
	}
	merge := func(into, from *turn) {
		for _, r := range from.recs {
			r.turn = into
		}
		into.recs = append(into.recs, from.recs...)
		if into.recs[0].log && !from.recs[0].log {
			into.run = from.run
		}
		from.recs = nil
	}
	sameReports(m.ordered, func(r *record) (id string, in *turn) {
		if r.role == roleTurn && r.turn != nil {
			id, in = r.text(fieldResponse), r.turn
		}
		return id, in
	}, merge)
	m.turnsL = slices.DeleteFunc(m.turnsL, func(t *turn) bool { return t.recs == nil })
	pairs(m.turnsL, func(t *turn) (*run, *record) { return t.run, t.only() }, func(log, span *record) bool {
		if log.usage == nil || span.usage == nil {
			return overlap(log, span)
		}
		x, y := log.usage, span.usage
		return x.Input == y.Input && (x.Output == y.Output || x.Output-x.Reasoning == y.Output-y.Reasoning)
	}, func(log, span *record) { merge(span.turn, log.turn) })
	m.turnsL = slices.DeleteFunc(m.turnsL, func(t *turn) bool { return t.recs == nil })
	for _, t := range m.turnsL {
		t.settle()
	}
}

// only returns the record that represents a turn that either spans or a log record report; nil if both do.
func (t *turn) only() *record {
	for _, r := range t.recs {
		if r.log != t.recs[0].log {
			return nil
		}
	}
	for _, r := range slices.Backward(t.recs) {
		if r.usage != nil {
			return r
		}
	}
	return t.recs[0]
}

// settle sets times and usage. It takes the start of the outermost record and the end of the innermost: an outer one
// may contain the tools. Usage is that of the innermost span that reports it, or of a log record that reports more of it.
func (t *turn) settle() {
	for _, r := range t.recs {
		switch old := t.usage; {
		case r.usage == nil:
		case old == nil, old.log == r.log && r.depth >= old.depth, old.log != r.log && r.counted() > old.counted(),
			old.log && !r.log && r.counted() >= old.counted():
			t.usage = r
		}
		if t.start == 0 || t.recs[0].log && !r.log {
			t.start = r.start
		}
	}
	last := t.recs[0]
	for _, r := range t.recs {
		if last.log && !r.log || last.log == r.log && r.depth >= last.depth {
			last = r
		}
	}
	t.end = max(last.end, t.start)
	if t.usage != nil && !t.usage.log && t.usage.end > 0 {
		t.end = max(t.usage.end, t.start)
	}
}

// counted returns how many counts a record reports.
func (r *record) counted() (n int) {
	for f := fieldInput; f <= fieldCacheWrite; f++ {
		if !r.value(f).IsZero() {
			n++
		}
	}
	return n
}

// sameReports merges what records of several reporters with one id report in one session: the first of each, the second
// of each, and so on. Spans come first in all: what they say of parents counts.
func sameReports[T comparable](all []*record, of func(*record) (id string, in T), merge func(into, from T)) {
	type shared struct {
		run *run
		key session.Key
		id  string
	}
	var none T
	type report struct {
		shared
		by reporter
	}
	counts := map[report]int{}
	seen := map[report]map[T]bool{}
	firsts := map[shared][]T{}
	for _, r := range all {
		id, in := of(r)
		if id == "" || in == none {
			continue
		}
		k := shared{r.run.root(), r.key, id}
		by := report{k, r.reporter()}
		if seen[by][in] {
			continue
		}
		if n := counts[by]; n < len(firsts[k]) {
			if into := firsts[k][n]; into != in {
				merge(into, in)
				in = into
			}
		} else {
			firsts[k] = append(firsts[k], in)
		}
		counts[by]++
		if seen[by] == nil {
			seen[by] = map[T]bool{}
		}
		seen[by][in] = true
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pairs finds, for what only a log record reports, what only a span of the same run reports and is the same: of those
// that are free, the one that ends nearest.
func pairs[T any](all []T, of func(T) (*run, *record), same func(log, span *record) bool,
	merge func(log, span *record)) {
	byRun := map[*run][]*record{}
	var logs []*record
	for _, x := range all {
		switch in, r := of(x); {
		case r == nil || in == nil:
		case r.log:
			logs = append(logs, r)
		default:
			byRun[in.root()] = append(byRun[in.root()], r)
		}
	}
	if len(logs) == 0 || len(byRun) == 0 {
		return
	}
	slices.SortFunc(logs, compareRecords)
	for _, l := range byRun {
		slices.SortFunc(l, compareRecords)
	}
	taken := map[*record]bool{}
	for _, log := range logs {
		l := byRun[log.run.root()]
		// Only spans near in time are looked at.
		from, _ := slices.BinarySearchFunc(l, log.end-near, func(r *record, at int64) int { return cmp.Compare(r.end, at) })
		var best *record
		for _, span := range l[from:] {
			if span.start > log.end+near {
				break
			}
			if !taken[span] && span.src == log.src && same(log, span) &&
				(best == nil || distance(span.end, log.end) < distance(best.end, log.end)) {
				best = span
			}
		}
		if best != nil {
			taken[best] = true
			merge(log, best)
		}
	}
}

// near is how far the times of one call may be apart in a span and a log record.
const near = 5e9

func distance(a, b int64) int64 { return max(a-b, b-a) }

func overlap(a, b *record) bool { return a.start <= b.end+1e8 && b.start <= a.end+1e8 }

// tools makes tool calls of tool records and of permissions that name one.
func (m *mapper) tools() {
	for _, r := range m.all {
		if r.run == nil || r.role != roleTool && (r.role != rolePermission || r.action() == "") {
			continue
		}
		if r.role == rolePermission && r.in != nil && r.in.tool != nil {
			r.tool = r.in.tool
			r.tool.permissions = append(r.tool.permissions, r)
			continue
		}
		if r.same != nil && r.same.tool != nil {
			r.tool = r.same.tool
			r.tool.recs = append(r.tool.recs, r)
			continue
		}
		if r.tool = (&tool{run: r.run}); r.role == roleTool {
			r.tool.recs = []*record{r}
		} else {
			r.tool.permissions = []*record{r}
		}
		m.toolsL = append(m.toolsL, r.tool)
	}
	merge := func(into, from *tool) {
		for _, r := range slices.Concat(from.recs, from.permissions) {
			r.tool = into
		}
		if len(into.recs) == 0 || into.recs[0].log && len(from.recs) > 0 && !from.recs[0].log {
			into.run = from.run
		}
		into.recs = append(into.recs, from.recs...)
		into.permissions = append(into.permissions, from.permissions...)
		from.recs, from.permissions, from.run = nil, nil, nil
	}
	sameReports(m.ordered, func(r *record) (string, *tool) {
		if r.tool == nil {
			return "", nil
		}
		return r.text(fieldCall), r.tool
	}, merge)
	gone := func(t *tool) bool { return t.run == nil }
	m.toolsL = slices.DeleteFunc(m.toolsL, gone)
	pairs(m.toolsL, func(t *tool) (*run, *record) {
		for _, r := range t.recs {
			if r.log != t.recs[0].log || r.log && r.text(fieldCall) != "" {
				return nil, nil
			}
		}
		if len(t.recs) == 0 {
			return nil, nil
		}
		return t.run, t.recs[0]
	}, func(log, span *record) bool {
		return log.text(fieldTool) == span.text(fieldTool) && overlap(log, span)
	}, func(log, span *record) { merge(span.tool, log.tool) })
	m.toolsL = slices.DeleteFunc(m.toolsL, gone)
	for _, t := range m.toolsL {
		t.settle()
	}
}

// settle sorts the records of a tool call, spans first, and sets its times.
func (t *tool) settle() {
	order := func(a, b *record) int {
		return cmp.Or(cmp.Compare(bit(a.log), bit(b.log)), cmp.Compare(a.depth, b.depth), compareRecords(a, b))
	}
	slices.SortFunc(t.recs, order)
	slices.SortFunc(t.permissions, order)
	if len(t.recs) > 0 {
		t.start, t.end = t.recs[0].start, t.recs[0].end
		return
	}
	t.start = t.permissions[0].start
}

// main returns the record that the tool call is named after.
func (t *tool) main() *record {
	if len(t.recs) > 0 {
		return t.recs[0]
	}
	return t.permissions[0]
}

// all returns all records of the call, those of the tool first.
func (t *tool) all() []*record { return slices.Concat(t.recs, t.permissions) }

// name returns the longest name that a record has: some name tools of MCP servers all alike.
func (t *tool) name() (name string) {
	for _, r := range t.all() {
		if s := r.text(fieldTool); len(s) > len(name) || len(s) == len(name) && s > name {
			name = s
		}
	}
	return name
}

// outcome returns how the call ended; "" where no record says so.
func (t *tool) outcome() spans.Outcome {
	for _, r := range t.recs {
		if ok, known := r.success(); known && ok {
			return spans.OutcomeOK
		}
	}
	for _, r := range t.all() {
		if r.action() == spans.ActionDeny {
			return spans.OutcomeDenied
		}
	}
	for _, r := range t.recs {
		if _, known := r.success(); known {
			return spans.OutcomeError
		}
	}
	return ""
}

// agents moves turns and tool calls of log records that name an agent to a run below the tool call that started it, if
// exactly one was open.
func (m *mapper) agents() {
	calls := map[*run][]*tool{}
	for _, t := range m.toolsL {
		if r := t.main(); len(t.recs) > 0 && slices.Contains(r.src.AgentTools, t.name()) {
			calls[t.run.find()] = append(calls[t.run.find()], t)
		}
	}
	if len(calls) == 0 {
		return
	}
	move := func(r *record, at int64) *run {
		name := r.text(fieldAgentName)
		if kind, rest, ok := strings.Cut(r.text(fieldPurpose), ":"); ok && kind == "agent" {
			name = cmp.Or(name, rest)
		}
		if name == "" || !r.log {
			return nil
		}
		var in *tool
		for _, t := range calls[r.run.find()] {
			if t.start <= at && at <= t.end && t != r.tool {
				if in != nil {
					return nil
				}
				in = t
			}
		}
		if in == nil {
			return nil
		}
		n := m.callRun(r.key, in.main())
		m.put(r, n)
		return n
	}
	for _, t := range m.turnsL {
		if n := move(t.recs[0], t.start); n != nil && t.only() != nil {
			t.run = n
		}
	}
	for _, t := range m.toolsL {
		if n := move(t.main(), t.start); n != nil {
			t.run = n
		}
	}
}

// contents gives records of content to the turn or tool call that they belong to: that of the span that has them, of
// the reply that they name, else the nearest in time.
func (m *mapper) contents() {
	type reply struct {
		key session.Key
		id  string
	}
	byID := map[reply]*turn{}
	bySession := map[session.Key][]*turn{}
	identified := map[session.Key]bool{} // sessions of which log records have ids of replies
	for _, t := range m.turnsL {
		key := t.recs[0].key
		bySession[key] = append(bySession[key], t)
		for _, r := range t.recs {
			if id := r.text(fieldResponse); id != "" {
				identified[key] = identified[key] || r.log
				byID[reply{key, id}] = t
			}
		}
	}
	for _, l := range bySession {
		slices.SortFunc(l, compareTurns)
	}
	for _, r := range m.all {
		if r.role != roleContent {
			continue
		}
		id := r.text(fieldResponse)
		switch named := byID[reply{r.key, id}]; {
		case r.up != nil && (r.up.turn != nil || r.up.tool != nil || r.event):
			r.turn, r.tool = r.up.turn, r.up.tool
		case id != "" && named != nil:
			r.turn = named
		case id == "" || !identified[r.key]:
			r.turn = nearest(bySession[r.key], r)
		}
		if r.turn != nil {
			r.turn.contents = append(r.turn.contents, r)
		} else if r.tool != nil {
			r.tool.contents = append(r.tool.contents, r)
		}
	}
	for _, t := range m.turnsL {
		slices.SortFunc(t.contents, compareRecords)
	}
	for _, t := range m.toolsL {
		slices.SortFunc(t.contents, compareRecords)
	}
}

func compareTurns(a, b *turn) int {
	return cmp.Or(cmp.Compare(a.start, b.start), compareRecords(a.recs[0], b.recs[0]))
}

// nearest returns the turn that was open at the time of a record, or ended or began within a second; the last of those
// that are equally near.
func nearest(l []*turn, r *record) (best *turn) {
	from, _ := slices.BinarySearchFunc(l, r.start+1e9, func(t *turn, at int64) int { return cmp.Compare(t.start, at+1) })
	least := int64(1e9)
	for i := from - 1; i >= 0 && i >= from-64; i-- {
		t := l[i]
		if r.run != nil && t.run.find() != r.run.find() {
			continue
		}
		if d := max(t.start-r.start, r.start-t.end, 0); d < least {
			best, least = t, d
		}
	}
	return best
}
