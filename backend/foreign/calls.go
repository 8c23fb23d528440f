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
	child       *run    // that a tool call began
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
func (c *call) main() *record {
	if len(c.recs) > 0 {
		return c.recs[0]
	}
	return c.permissions[0]
}

func compareCalls(a, b *call) int {
	return cmp.Or(cmp.Compare(a.start, b.start), compareRecords(a.main(), b.main()))
}

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
		c := &call{role: roleTool, run: r.run}
		switch {
		case r.role == roleTurn && within[r] > 1:
			r.role = roleLink
			continue
		case r.run == nil || r.role != roleTurn && r.role != roleTool && (r.role != rolePermission || r.action() == ""):
			continue
		case r.role == roleTurn:
			if c.role = roleTurn; r.inTurn != nil && r.inTurn.call != nil {
				c = r.inTurn.call
			}
		case r.role == rolePermission && r.in != nil && r.in.call != nil:
			c = r.in.call
		case r.same != nil && r.same.call != nil:
			c = r.same.call
		}
		if c.add(r); len(c.recs)+len(c.permissions) == 1 {
			m.calls = append(m.calls, c)
		}
	}
	m.sameIDs()
	m.pairs()
	m.calls = slices.DeleteFunc(m.calls, func(c *call) bool { return c.run == nil })
	for _, c := range m.calls {
		c.settle()
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

// place is where calls may be one.
type place struct {
	run  *run
	role role
	id   string
}

// sameIDs merges what records of several rules with one id report in one run: the first of each, the second of each,
// and so on.
func (m *mapper) sameIDs() {
	type report struct {
		place
		*rule
	}
	firsts, counts := map[place][]*call{}, map[report]int{}
	calls := slices.SortedFunc(slices.Values(m.calls), func(a, b *call) int {
		return cmp.Or(spansFirst(a.main(), b.main()), compareRecords(a.main(), b.main()))
	})
	for _, c := range calls {
		at := place{c.run.root(), c.role, ""}
		n := 0
		for _, r := range c.all() {
			at.id = cmp.Or(at.id, r.id)
		}
		if at.id == "" {
			continue
		}
		recs := c.all()
		for _, r := range recs {
			n = max(n, counts[report{at, r.rule}])
		}
		if n == len(firsts[at]) {
			firsts[at] = append(firsts[at], c)
		} else if n < len(firsts[at]) {
			merge(firsts[at][n], c)
		}
		for _, r := range recs {
			counts[report{at, r.rule}] = n + 1
		}
	}
}

// alone returns the record that represents a call that only spans or only log records report; nil for any other, and
// for a tool call of a log record with an id, which no pair needs.
func (c *call) alone() (found *record) {
	for _, r := range c.recs {
		if r.log != c.recs[0].log || r.log && r.role == roleTool && r.id != "" {
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

// isPair reports whether a log record and a span of one run report the same call.
func isPair(log, span *record) bool {
	overlap := log.start <= span.end+1e8 && span.start <= log.end+1e8
	x, y := log.usage, span.usage
	switch {
	case log.src != span.src:
		return false
	case log.role == roleTool:
		return log.text("tool") == span.text("tool") && overlap
	case x == nil || y == nil:
		return overlap
	}
	return x.Input == y.Input && (x.Output == y.Output || x.Output-x.Reasoning == y.Output-y.Reasoning)
}

// pairs merges what only a log record reports with what only a span of the same run reports and is the same: of those
// that are free, the one that ends nearest.
func (m *mapper) pairs() {
	bySpan := map[place][]*record{}
	var logs []*record
	for _, c := range m.calls {
		if r := c.alone(); c.run == nil || r == nil {
			continue
		} else if r.log {
			logs = append(logs, r)
		} else {
			k := place{c.run.root(), c.role, ""}
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
		l := bySpan[place{log.run.root(), log.role, ""}]
		apart := func(span *record) int64 { return max(span.end-log.end, log.end-span.end) }
		var best *record
		for _, span := range l[before(l, log.end-near-1, func(r *record) int64 { return r.end }):] {
			if span.end > log.end+near {
				break
			}
			if !taken[span] && isPair(log, span) && (best == nil || apart(span) < apart(best)) {
				best = span
			}
		}
		if best != nil {
			taken[best] = true
			merge(best.call, log.call)
		}
	}
}

// settle sets the times of a call. A turn takes the start of the outermost record and the end of the innermost: an
// outer one may contain the tools. Its usage is that of the innermost span that reports it, or of a log record that
// reports more. The records of a tool call are sorted, spans first.
func (c *call) settle() {
	if c.role == roleTool {
		order := func(a, b *record) int {
			return cmp.Or(spansFirst(a, b), cmp.Compare(a.depth, b.depth), compareRecords(a, b))
		}
		slices.SortFunc(c.recs, order)
		slices.SortFunc(c.permissions, order)
		if c.start = c.main().start; len(c.recs) > 0 {
			c.end = c.main().end
		}
		return
	}
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
	for _, f := range usageFields {
		n += bit(!r.value(f).IsZero())
	}
	return n
}

// name returns the longest name that a record has: some name tools of MCP servers all alike.
func (c *call) name() (name string) {
	for _, r := range c.all() {
		if s := r.text("tool"); len(s) > len(name) || len(s) == len(name) && s > name {
			name = s
		}
	}
	return name
}

// id returns the id of a tool call, else its name.
func (c *call) id() string {
	for _, r := range c.all() {
		if r.id != "" {
			return r.id
		}
	}
	return c.name()
}

// outcome returns how a tool call ended; "" where no record says so.
func (c *call) outcome() spans.Outcome {
	var failed, ended bool
	for _, r := range c.recs {
		ok, known := r.success()
		if ok && r.text("success") != "" {
			return spans.OutcomeOK
		}
		failed, ended = failed || known && !ok, ended || ok
	}
	switch {
	case slices.ContainsFunc(c.all(), func(r *record) bool { return r.action() == spans.ActionDeny }):
		return spans.OutcomeDenied
	case failed:
		return spans.OutcomeError
	case ended: // a status of OK alone, which Gemini CLI also gives to calls that fail
		return spans.OutcomeOK
	}
	return ""
}

// utility reports whether a turn is no part of the conversation, as its source says.
func (c *call) utility() bool {
	return slices.ContainsFunc(c.recs, func(r *record) bool {
		word := r.text("purpose")
		return r.utility || word != "" && r.src.Utility.match(word)
	})
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
		r, l := c.main(), starters[c.run.find()]
		if len(l) == 0 || slices.ContainsFunc(c.recs, func(r *record) bool { return !r.log }) {
			continue
		}
		_, named, _ := strings.Cut(r.text("purpose"), "agent:")
		if cmp.Or(r.text("agent_name"), named) == "" {
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
	turns := map[session.Key][]*call{}
	identified := map[session.Key]bool{} // sessions of which log records have ids of replies
	for _, c := range m.calls {
		if c.role != roleTurn {
			continue
		}
		key := c.recs[0].key
		turns[key] = append(turns[key], c)
		for _, r := range c.recs {
			if r.id != "" {
				identified[key] = identified[key] || r.log
				byID[reply{key, r.id}] = c
			}
		}
	}
	for _, l := range turns {
		slices.SortFunc(l, compareCalls)
	}
	for _, r := range m.ordered {
		if r.role != roleContent {
			continue
		}
		switch named := byID[reply{r.key, r.id}]; {
		case r.up != nil && (r.up.call != nil || r.sig == SpanEvent):
			r.call = r.up.call
		case r.id != "" && named != nil:
			r.call = named
		case r.id == "" || !identified[r.key]:
			r.call = nearest(turns[r.key], r)
		}
		if r.call != nil {
			r.call.contents = append(r.call.contents, r)
		}
	}
}

// nearest returns the turn that was open at the time of a record, or ended or began within a second; the last of those
// that are equally near.
func nearest(l []*call, r *record) (best *call) {
	least := int64(1e9)
	n := before(l, r.start+1e9, func(c *call) int64 { return c.start })
	for _, c := range slices.Backward(l[max(n-64, 0):n]) {
		if r.run == nil || c.run.find() == r.run.find() {
			if d := max(c.start-r.start, r.start-c.end, 0); d < least {
				best, least = c, d
			}
		}
	}
	return best
}
