package foreign

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// call is a turn or a tool call, as one or several records report it.
type call struct {
	role       role // roleTurn or roleTool
	run        *run
	recs       []*record // outer before inner, after those of the call itself the permissions of a tool call
	itself     int       // how many are of the call itself
	contents   []*record
	start, end int64
	index      int64   // of a turn
	usage      *record // of a turn: the one that reports it best
	turn       *call   // of a tool call
	child      *run    // that a tool call began
}

// add adds a record to a call.
func (c *call) add(r *record) {
	r.call, c.recs = c, append(c.recs, r)
	c.itself += bit(r.role != rolePermission)
}

// own returns the records of the call itself.
func (c *call) own() []*record { return c.recs[:c.itself] }

func compareCalls(a, b *call) int {
	return cmp.Or(cmp.Compare(a.start, b.start), compareRecords(a.recs[0], b.recs[0]))
}

// findCalls makes calls of the records of turns and tool calls, and of permissions that name a tool call. A turn that
// contains another one is the same call, unless it contains several that report usage.
func (m *mapper) findCalls() {
	within := map[*record]int{} // turns with usage, in a turn record
	for _, r := range slices.Backward(m.all) {
		if r.role == roleTurn && r.inTurn != nil {
			within[r.inTurn] += max(within[r], bit(r.usage != nil))
		}
	}
	for _, r := range m.all {
		c := &call{role: roleTool, run: r.run}
		switch {
		case within[r] > 1:
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
		if c.add(r); len(c.recs) == 1 {
			m.calls = append(m.calls, c)
		}
	}
	m.unite()
}

// report is what calls have in common that may be one.
type report struct {
	run  *run
	role role
	id   string
}

// unite makes one call of those of a run that have one id: of each rule the one nearest in time. A call that only log
// records report, and of which no other has the id, is the nearest that only spans report.
func (m *mapper) unite() {
	byID, spans := map[report][]*call{}, map[report][]*call{}
	all := m.calls
	m.calls = nil
	for _, c := range all {
		c.settle()
	}
	slices.SortFunc(all, func(a, b *call) int {
		return cmp.Or(spansFirst(a.recs[0], b.recs[0]), compareCalls(a, b))
	})
	for _, c := range all {
		at, any := report{c.run.root(), c.role, c.recordID()}, report{run: c.run.root(), role: c.role}
		into := nearest(byID[at], c.end, 1<<61, c.apart)
		if !c.recs[0].log {
			spans[any] = append(spans[any], c)
		} else if into == nil {
			into = nearest(spans[any], c.end, near, c.apart)
		}
		if into == nil {
			into, m.calls = c, append(m.calls, c)
		} else {
			for _, r := range c.recs {
				into.add(r)
			}
			into.settle()
		}
		if at.id != "" && !slices.Contains(byID[at], into) {
			byID[at] = append(byID[at], into)
		}
	}
	slices.SortFunc(m.calls, compareCalls)
}

// near is how far the times of one call may be apart in a span and a log record without its id.
const near = int64(5e9)

// apart returns how far the ends of two calls are apart, if both may be the same: if they have one id and no rule
// reports both, or log records report this one, and spans alone the other.
func (c *call) apart(o *call) int64 {
	alike := !slices.ContainsFunc(o.recs, func(r *record) bool {
		return slices.ContainsFunc(c.recs, func(own *record) bool { return own.rule == r.rule })
	})
	if id := c.recordID(); id == "" || id != o.recordID() {
		alike = c.recs[0].src.Name == o.recs[0].src.Name && (id == "" || o.recordID() == "") &&
			!slices.ContainsFunc(o.own(), func(r *record) bool { return r.log })
		switch {
		case c.role == roleTool:
			alike = alike && c.itself > 0 && c.name() == o.name()
		case c.usage != nil && o.usage != nil:
			x, y := c.usage.usage, o.usage.usage
			alike = alike && x.Input == y.Input && (x.Output == y.Output || x.Output-x.Reasoning == y.Output-y.Reasoning)
		}
	}
	if !alike {
		return math.MaxInt64
	}
	return max(o.end-c.end, c.end-o.end)
}

// nearest returns the call of a list by start that is the least apart, by less than most; of those that are equally
// near the last. It looks at the 64 that began last before a time.
func nearest(l []*call, at, most int64, apart func(*call) int64) (best *call) {
	n := before(l, at+most, func(c *call) int64 { return c.start })
	for _, c := range slices.Backward(l[max(n-64, 0):n]) {
		if d := apart(c); d < most {
			best, most = c, d
		}
	}
	return best
}

// settle sorts the records of a call, spans first and outer before inner, and sets its times. A turn takes the start of
// the outermost record and the end of the innermost: an outer one may contain the tools. Its usage is that of a log
// record, else of the innermost span that reports it.
func (c *call) settle() {
	slices.SortFunc(c.recs, func(a, b *record) int {
		return cmp.Or(cmp.Compare(bit(a.role == rolePermission), bit(b.role == rolePermission)), spansFirst(a, b),
			cmp.Compare(a.depth, b.depth), compareRecords(a, b))
	})
	if c.start = c.recs[0].start; c.itself > 0 {
		c.end = c.recs[0].end
	}
	if c.role == roleTool {
		return
	}
	for _, r := range c.recs {
		if r.log == c.recs[0].log {
			c.end = r.end
		}
		if r.usage != nil {
			c.usage = r
		}
	}
}

// name returns the longest name that a record has: some name tools of MCP servers all alike.
func (c *call) name() (name string) {
	for _, r := range c.recs {
		if s := r.text("tool"); len(s) > len(name) || len(s) == len(name) && s > name {
			name = s
		}
	}
	return name
}

// recordID returns the first id that a record has, "" if none has any.
func (c *call) recordID() (id string) {
	for _, r := range c.recs {
		id = cmp.Or(id, r.id)
	}
	return id
}

// id returns the id of a tool call, else its name.
func (c *call) id() string { return cmp.Or(c.recordID(), c.name()) }

// outcome returns how a tool call ended; "" where no record says so.
func (c *call) outcome() spans.Outcome {
	var failed, ended bool
	for _, r := range c.own() {
		ok, known := r.success()
		failed, ended = failed || known && !ok, ended || ok
	}
	switch {
	case slices.ContainsFunc(c.recs, func(r *record) bool { return r.action() == spans.ActionDeny }):
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
		if c.role == roleTool && c.itself > 0 && slices.Contains(c.recs[0].src.AgentTools, c.name()) {
			starters[c.run] = append(starters[c.run], c)
		}
	}
	for _, c := range m.calls {
		r := c.recs[0]
		_, named, _ := strings.Cut(r.text("purpose"), "agent:")
		if !r.log || cmp.Or(r.text("agent_name"), named) == "" {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(starters[c.run]), func(t *call) bool {
			return t == c || c.start < t.start || c.start > t.end
		})
		if len(open) == 1 {
			c.run = m.callRun(r.key, open[0].recs[0])
			m.put(r, c.run)
		}
	}
}

// attach gives records of content to the call that they belong to: that of the span that has them, of the reply that
// they name, else the turn that was open at their time, or ended or began within a second.
func (m *mapper) attach() {
	type reply struct {
		key session.Key
		id  string
	}
	byID, turns := map[reply]*call{}, map[session.Key][]*call{}
	for _, c := range m.calls {
		if c.role != roleTurn {
			continue
		}
		key := c.recs[0].key
		turns[key] = append(turns[key], c)
		for _, r := range c.recs {
			byID[reply{key, r.id}] = c
		}
	}
	contents := slices.DeleteFunc(slices.Clone(m.all), func(r *record) bool { return r.role != roleContent })
	slices.SortFunc(contents, compareRecords)
	for _, r := range contents {
		if named := byID[reply{r.key, r.id}]; r.up != nil && (r.up.call != nil || r.sig == SpanEvent) {
			r.call = r.up.call
		} else if r.id != "" && named != nil {
			r.call = named
		} else {
			r.call = nearest(turns[r.key], r.start, 1e9, func(c *call) int64 {
				if r.id != "" && c.recordID() != "" {
					return math.MaxInt64
				}
				return max(c.start-r.start, r.start-c.end, 0)
			})
		}
		if r.call != nil {
			r.call.contents = append(r.call.contents, r)
		}
	}
}
