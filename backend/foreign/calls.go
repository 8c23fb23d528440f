package foreign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// call is a turn or a tool call, as one or several records report it.
type call struct {
	role        role // roleTurn or roleTool
	run         *run
	recs        []*record // of the call itself, outer before inner
	permissions []*record // of a tool call
	contents    []*record
	start, end  int64
	index       int64   // of a turn
	usage       *record // of a turn: the one that reports it best
	turn        *call   // of a tool call
}

// add adds a record to a call.
func (c *call) add(r *record) {
	if r.call = c; r.role == rolePermission {
		c.permissions = append(c.permissions, r)
	} else {
		c.recs = append(c.recs, r)
	}
}

// all returns all records of the call, those of the call itself first.
func (c *call) all() []*record { return slices.Concat(c.recs, c.permissions) }

// main returns the record that the call is named after.
func (c *call) main() *record { return c.all()[0] }

// findCalls makes calls of the records of turns and tool calls, and of permissions that name a tool call. A turn that
// contains another one is the same call, unless it contains several that report usage.
func (m *mapper) findCalls() {
	within := map[*record]int{} // turns with usage, in a turn record
	for _, r := range slices.Backward(m.all) {
		if r.role == roleTurn && r.inTurn != nil {
			n := within[r]
			if n == 0 && r.usage != nil {
				n = 1
			}
			within[r.inTurn] += n
		}
	}
	for _, r := range m.all {
		kind := roleTool
		switch r.role {
		case roleTurn:
			if kind = roleTurn; within[r] > 1 {
				r.role = roleLink
				continue
			}
		case roleTool:
		case rolePermission:
			if r.action() == "" {
				continue
			}
		default:
			continue
		}
		switch {
		case r.run == nil:
		case r.role == roleTurn && r.inTurn != nil && r.inTurn.call != nil:
			r.inTurn.call.add(r)
		case r.role == rolePermission && r.in != nil && r.in.call != nil:
			r.in.call.add(r)
		case r.same != nil && r.same.call != nil:
			r.same.call.add(r)
		default:
			c := &call{role: kind, run: r.run}
			c.add(r)
			m.calls = append(m.calls, c)
		}
	}
	m.sameIDs()
	m.pairs()
	m.calls = slices.DeleteFunc(m.calls, func(c *call) bool { return c.run == nil })
	for _, c := range m.calls {
		if c.role == roleTurn {
			c.settleTurn()
		} else {
			c.settleTool()
		}
	}
}

// merge makes one call of two. Its run is that of a span: a log record knows less of what is around it.
func merge(into, from *call) {
	if len(into.recs) == 0 || into.recs[0].log && len(from.recs) > 0 && !from.recs[0].log {
		into.run = from.run
	}
	for _, r := range from.all() {
		into.add(r)
	}
	from.run, from.recs, from.permissions = nil, nil, nil
}

// callID returns the id that a record has of its call: of a turn that of the reply.
func (r *record) callID() string {
	if r.role == roleTurn || r.role == roleContent {
		return r.text(fieldResponse)
	}
	return r.text(fieldCall)
}

// sameIDs merges what records of several reporters with one id report in one session: the first of each, the second of
// each, and so on.
func (m *mapper) sameIDs() {
	type shared struct {
		run  *run
		role role
		id   string
	}
	type report struct {
		shared
		by reporter
	}
	firsts, counts, seen := map[shared][]*call{}, map[report]int{}, map[report]map[*call]bool{}
	for _, r := range m.ordered {
		in := r.call
		if in == nil || r.callID() == "" {
			continue
		}
		k := shared{r.run.root(), in.role, r.callID()}
		by := report{k, r.reporter()}
		if seen[by][in] {
			continue
		}
		if n := counts[by]; n == len(firsts[k]) {
			firsts[k] = append(firsts[k], in)
		} else if into := firsts[k][n]; into != in {
			merge(into, in)
			in = into
		}
		counts[by]++
		if seen[by] == nil {
			seen[by] = map[*call]bool{}
		}
		seen[by][in] = true
	}
}

// alone returns the record that represents a call that only spans or only log records report; nil for any other, and for
// a tool call of a log record with an id, which no pair needs.
func (c *call) alone() (found *record) {
	for _, r := range c.recs {
		if r.log != c.recs[0].log || r.log && r.role == roleTool && r.text(fieldCall) != "" {
			return nil
		}
		if found == nil || c.role == roleTurn && r.usage != nil {
			found = r
		}
	}
	return found
}

// near is how far the times of one call may be apart in a span and a log record.
const near = 5e9

func overlap(a, b *record) bool { return a.start <= b.end+1e8 && b.start <= a.end+1e8 }

// isPair reports whether a log record and a span of one run report the same call.
func isPair(log, span *record) bool {
	x, y := log.usage, span.usage
	switch {
	case log.src != span.src:
		return false
	case log.role == roleTool:
		return log.text(fieldTool) == span.text(fieldTool) && overlap(log, span)
	case x == nil || y == nil:
		return overlap(log, span)
	}
	return x.Input == y.Input && (x.Output == y.Output || x.Output-x.Reasoning == y.Output-y.Reasoning)
}

// pairs merges what only a log record reports with what only a span of the same run reports and is the same: of those
// that are free, the one that ends nearest.
func (m *mapper) pairs() {
	type place struct {
		run  *run
		role role
	}
	bySpan := map[place][]*record{}
	var logs []*record
	for _, c := range m.calls {
		if r := c.alone(); c.run == nil || r == nil {
			continue
		} else if r.log {
			logs = append(logs, r)
		} else {
			k := place{c.run.root(), c.role}
			bySpan[k] = append(bySpan[k], r)
		}
	}
	if len(logs) == 0 || len(bySpan) == 0 {
		return
	}
	slices.SortFunc(logs, compareRecords)
	for _, l := range bySpan {
		slices.SortFunc(l, func(a, b *record) int { return cmp.Or(cmp.Compare(a.end, b.end), compareRecords(a, b)) })
	}
	taken := map[*record]bool{}
	for _, log := range logs {
		l := bySpan[place{log.run.root(), log.role}]
		from, _ := slices.BinarySearchFunc(l, log.end-near, func(r *record, at int64) int { return cmp.Compare(r.end, at) })
		var best *record
		for _, span := range l[from:] {
			if span.end > log.end+near {
				break
			}
			if !taken[span] && isPair(log, span) &&
				(best == nil || distance(span.end, log.end) < distance(best.end, log.end)) {
				best = span
			}
		}
		if best != nil {
			taken[best] = true
			merge(best.call, log.call)
		}
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// settleTurn sets times and usage. It takes the start of the outermost record and the end of the innermost: an outer one
// may contain the tools. Usage is that of the innermost span that reports it, or of a log record that reports more.
func (c *call) settleTurn() {
	last := c.recs[0]
	for _, r := range c.recs {
		switch old := c.usage; {
		case r.usage == nil:
		case old == nil, old.log == r.log && r.depth >= old.depth, old.log != r.log && r.counted() > old.counted(),
			old.log && !r.log && r.counted() >= old.counted():
			c.usage = r
		}
		if c.start == 0 || c.recs[0].log && !r.log {
			c.start = r.start
		}
		if last.log && !r.log || last.log == r.log && r.depth >= last.depth {
			last = r
		}
	}
	if c.usage != nil && !c.usage.log && c.usage.end > 0 {
		last = c.usage
	}
	c.end = max(last.end, c.start)
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

// settleTool sorts the records of a tool call, spans first, and sets its times.
func (c *call) settleTool() {
	order := func(a, b *record) int {
		return cmp.Or(cmp.Compare(bit(a.log), bit(b.log)), cmp.Compare(a.depth, b.depth), compareRecords(a, b))
	}
	slices.SortFunc(c.recs, order)
	slices.SortFunc(c.permissions, order)
	if c.start = c.main().start; len(c.recs) > 0 {
		c.end = c.main().end
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// name returns the longest name that a record has: some name tools of MCP servers all alike.
func (c *call) name() (name string) {
	for _, r := range c.all() {
		if s := r.text(fieldTool); len(s) > len(name) || len(s) == len(name) && s > name {
			name = s
		}
	}
	return name
}

// outcome returns how a tool call ended; "" where no record says so.
func (c *call) outcome() spans.Outcome {
	var failed, ended bool
	for _, r := range c.recs {
		ok, known := r.success()
		if ok && r.text(fieldSuccess) != "" {
			return spans.OutcomeOK
		}
		failed, ended = failed || known && !ok, ended || ok
	}
	for _, r := range c.all() {
		if r.action() == spans.ActionDeny {
			return spans.OutcomeDenied
		}
	}
	switch {
	case failed:
		return spans.OutcomeError
	case ended: // a status of OK alone, which Gemini CLI also gives to calls that fail
		return spans.OutcomeOK
	}
	return ""
}

// agents moves calls of log records that name an agent to a run below the tool call that started it, if exactly one was
// open.
func (m *mapper) agents() {
	starters := map[*run][]*call{}
	for _, c := range m.calls {
		if c.role == roleTool && len(c.recs) > 0 && slices.Contains(c.main().src.AgentTools, c.name()) {
			starters[c.run.find()] = append(starters[c.run.find()], c)
		}
	}
	for _, c := range m.calls {
		r := c.main()
		name := r.text(fieldAgentName)
		if kind, rest, ok := strings.Cut(r.text(fieldPurpose), ":"); ok && kind == "agent" {
			name = cmp.Or(name, rest)
		}
		l := starters[c.run.find()]
		if len(l) == 0 || name == "" || slices.ContainsFunc(c.recs, func(r *record) bool { return !r.log }) {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(l), func(t *call) bool {
			return t == c || c.start < t.start || c.start > t.end
		})
		if len(open) == 1 {
			c.run = m.callRun(r.key, open[0].main())
			m.put(r, c.run)
		}
	}
}

// attach gives records of content to the call that they belong to: that of the span that has them, of the reply that
// they name, else the nearest turn in time.
func (m *mapper) attach() {
	type reply struct {
		key session.Key
		id  string
	}
	byID := map[reply]*call{}
	bySession := map[session.Key][]*call{}
	identified := map[session.Key]bool{} // sessions of which log records have ids of replies
	for _, c := range m.calls {
		if c.role != roleTurn {
			continue
		}
		key := c.recs[0].key
		bySession[key] = append(bySession[key], c)
		for _, r := range c.recs {
			if id := r.callID(); id != "" {
				identified[key] = identified[key] || r.log
				byID[reply{key, id}] = c
			}
		}
	}
	for _, l := range bySession {
		slices.SortFunc(l, compareCalls)
	}
	for _, r := range m.ordered {
		if r.role != roleContent {
			continue
		}
		id := r.callID()
		switch named := byID[reply{r.key, id}]; {
		case r.up != nil && (r.up.call != nil || r.event):
			r.call = r.up.call
		case id != "" && named != nil:
			r.call = named
		case id == "" || !identified[r.key]:
			r.call = nearest(bySession[r.key], r)
		}
		if r.call != nil {
			r.call.contents = append(r.call.contents, r)
		}
	}
}

func compareCalls(a, b *call) int {
	return cmp.Or(cmp.Compare(a.start, b.start), compareRecords(a.main(), b.main()))
}

// nearest returns the turn that was open at the time of a record, or ended or began within a second; the last of those
// that are equally near.
func nearest(l []*call, r *record) (best *call) {
	from, _ := slices.BinarySearchFunc(l, r.start+1e9, func(c *call, at int64) int { return cmp.Compare(c.start, at+1) })
	least := int64(1e9)
	for i := from - 1; i >= 0 && i >= from-64; i-- {
		if c := l[i]; r.run == nil || c.run.find() == r.run.find() {
			if d := max(c.start-r.start, r.start-c.end, 0); d < least {
				best, least = c, d
			}
		}
	}
	return best
}
