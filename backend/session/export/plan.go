package export

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file plans the message rows: each message that is not the model's, each stretch of turns between two of
// these, and each summary that replaced messages. Roles are part of the content, so the plan makes the parts as well.

// runPlan holds the facts about a run that the plan found.
type runPlan struct {
	turns []*session.Turn // as they ran
	// outside are messages that came in no turn, by the turn before them: -1, before the first.
	outside map[int][]session.Ref
	// rest is the usage of the run that none of its turns states, apart that of its utility turns, cost what these cost
	// in the currency of the first.
	rest, apart session.Usage
	cost        *float64
	currency    string
	// reverted are nodes and messages that a rewind inside the run abandoned, and when.
	reverted map[string]int64
}

type unitKind uint8

const (
	unitMessage    unitKind = iota // not the model's
	unitReply                      // a stretch of turns
	unitCompaction                 // a summary
)

// unit is one planned message row.
type unit struct {
	kind unitKind
	run  *session.Run
	at   int64 // created_at
	id   string
	role string
	own  string // the id that the message has itself
	// address, within the run, gives the id.
	address string
	hidden  int64 // since when it is rewound; 0: it is not
	full    bool  // has the usage of its run outside of the turns: the first reply, else the first row
	// starts: the run starts with this row. begins: the turn of this message does. ends: the runs that end with it.
	starts, begins bool
	ends           []*session.Run

	ref        session.Ref // of a message
	node       string
	turn       *session.Turn // in which it came; nil: in none
	parts      []builtPart   // of a message
	steps      []*step       // of a reply
	compaction *session.Compaction
}

// step is a turn, a reply whose turn is not there, or the tool calls of a run that belong to no turn.
type step struct {
	at    time.Time     // of a lone reply: the start of the turn that it came with; zero: it came with none
	turn  *session.Turn // nil for the other two
	lone  *session.Ref  // the reply whose turn is not there
	parts []builtPart
	// begins: the turn begins with this row.
	begins bool
	node   string
	hidden int64
}

// plan finds out which message rows there are.
func (g *Guide) plan() {
	for _, r := range g.s.Runs {
		g.planRun(r)
	}
	slices.SortStableFunc(g.units, func(a, b *unit) int { return cmp.Compare(a.at, b.at) })
	var names namer
	full := map[*session.Run]bool{}
	for _, u := range g.units {
		u.id, u.at = names.name(u.at, u.own, addressOf(g.s, u.run, u.address))
		if u.id != u.own {
			u.own = "" // that of an earlier message
		}
		if u.kind == unitReply && !full[u.run] {
			full[u.run], u.full = true, true
		}
	}
	for _, u := range g.units {
		if !full[u.run] {
			full[u.run], u.full = true, true
		}
		g.hide(u)
	}
	g.placeEvents()
}

// hide finds out since when a row is rewound.
func (g *Guide) hide(u *unit) {
	own := g.runs[u.run].reverted
	u.hidden = own[u.node]
	for _, p := range g.runs {
		if u.hidden == 0 && u.own != "" {
			u.hidden = p.reverted[u.own]
		}
	}
	last, all := int64(0), true
	for _, st := range u.steps {
		st.hidden = own[st.node]
		last, all = max(last, st.hidden), all && st.hidden > 0
	}
	if all && u.hidden == 0 {
		u.hidden = last
	}
	if at, known := g.timeFact(u, "hidden_at"); known {
		u.hidden = at
	}
}

// runUnits makes the rows of one run.
type runUnits struct {
	g       *Guide
	r       *session.Run
	p       *runPlan
	units   []*unit
	stretch *unit // the reply that goes on; nil: none
	results map[resultKey][]*toolResult
	arrived map[int][]*toolResult // by turn
	called  map[string]bool       // ids of calls that have a part
	last    int64
	n       int
}

// place returns the created_at of a row: never before its run, nor before the row before it there.
func (b *runUnits) place(t time.Time) int64 {
	if len(b.units) == 0 {
		b.last = b.r.Start.UnixMilli()
	}
	b.last = max(b.last, t.UnixMilli())
	return b.last
}

func (g *Guide) planRun(r *session.Run) {
	p := &runPlan{turns: byStart(r.Conversation()), rest: r.Usage, reverted: map[string]int64{}}
	for _, t := range r.Turns {
		p.rest.LowerBound = p.rest.LowerBound && !t.Usage.LowerBound
		if t.Utility() {
			p.apart.Add(t.Usage)
			switch {
			case t.Cost == nil:
			case p.cost == nil:
				p.cost, p.currency = new(*t.Cost), t.Currency
			case p.currency == t.Currency:
				*p.cost += *t.Cost
			}
		}
		p.rest.Input -= t.Usage.Input
		p.rest.Output -= t.Usage.Output
		p.rest.Reasoning -= t.Usage.Reasoning
		p.rest.CacheRead -= t.Usage.CacheRead
		p.rest.CacheWrite -= t.Usage.CacheWrite
	}
	p.outside = g.outside(r, p)
	g.runs[r] = p
	b := &runUnits{g: g, r: r, p: p, called: map[string]bool{}, results: map[resultKey][]*toolResult{},
		arrived: map[int][]*toolResult{}}
	b.collect()
	if len(r.Turns) == 0 && !isCaptured(r.Capture) {
		g.uncaptured[r] = r.Capture
	}
	g.runValue(r, spans.ListMetadata, r.Metadata) // notes whether it is missing
	g.runValue(r, spans.ListRules, r.Rules)
	b.between(-1, r.Start)
	if len(r.ToolCalls) > 0 && r.Foreign() {
		b.step(r.Start, &step{parts: b.callParts()}, "", "calls")
	}
	for i, t := range p.turns {
		if !isCaptured(t.Capture) {
			g.uncaptured[r] = t.Capture
		}
		g.requestTexts(r, t)
		b.turn(i)
		b.compactions(t.Compactions)
		b.between(i, latest(t.Start, t.End))
	}
	b.compactions(r.Compactions)
	replies := slices.ContainsFunc(b.units, func(u *unit) bool { return u.kind == unitReply })
	if len(b.units) == 0 || !replies && (p.rest != session.Usage{} || p.apart != session.Usage{}) {
		// A run of which nothing else is known, or whose usage has no other place.
		b.units = append(b.units, &unit{kind: unitReply, run: r, at: b.place(r.Start), role: "assistant", address: "run"})
	}
	g.units = append(g.units, b.units...)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// byStart returns turns in the order in which they ran; an index can be used twice.
func byStart(l []*session.Turn) []*session.Turn {
	return slices.SortedStableFunc(slices.Values(l), func(a, b *session.Turn) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Seq, b.Seq))
	})
}

// outside finds the messages of a run that came in none of its turns: those that it lists as such, and those of its
// last message list that nothing else holds.
func (g *Guide) outside(r *session.Run, p *runPlan) map[int][]session.Ref {
	if r.Messages.Len() == 0 && r.Outside.Len() == 0 {
		return nil
	}
	in := map[string]int{}
	for i, t := range p.turns {
		for _, l := range []*session.Refs{t.Input, t.Output, t.Results} {
			for _, ref := range l.Items() {
				if _, ok := in[g.same(ref)]; !ok {
					in[g.same(ref)] = i
				}
			}
		}
	}
	out := map[int][]session.Ref{}
	at := -1
	for _, ref := range r.Messages.Items() {
		i, ok := in[g.same(ref)]
		if ok {
			at = max(at, i)
			continue
		}
		in[g.same(ref)] = at // once
		out[at] = append(out[at], ref)
	}
	var first []session.Ref
	for _, ref := range r.Outside.Items() {
		if _, ok := in[g.same(ref)]; !ok {
			in[g.same(ref)] = -1
			first = append(first, ref)
		}
	}
	out[-1] = append(first, out[-1]...)
	return out
}

// between appends the messages that came outside of turns, after turn i.
func (b *runUnits) between(i int, at time.Time) {
	for _, in := range b.g.read(b.r, nil, spans.ListMessages, session.NewRefs(b.p.outside[i]...)) {
		m := readMessage(in.body)
		elsewhere := func(p messagePart) bool { return p.Type != partResult || !b.called[p.ID] }
		switch {
		case m.userSide():
			b.message(nil, at, in.ref, &m)
		case m.role != "tool" || slices.ContainsFunc(m.parts, elsewhere): // else the part of their call has them
			b.lone(i, at, in.ref, &m)
		}
	}
}

// message appends the row of a message.
func (b *runUnits) message(t *session.Turn, at time.Time, ref session.Ref, m *chatMessage) {
	b.stretch = nil
	role := "user"
	if m.role == "system" {
		role = "system"
	}
	u := &unit{
		kind: unitMessage, run: b.r, at: b.place(at), role: role, own: m.id, ref: ref, node: b.g.nodeOf(ref), turn: t,
		address: "message " + strconv.Itoa(b.n) + " " + b.g.same(ref),
	}
	parts := partBuilder{runUnits: b, turn: t, index: len(b.p.turns), at: u.at, updated: u.at} // no results
	parts.message(m)
	u.parts = parts.parts
	b.units = append(b.units, u)
	b.n++
}

// step appends a step to the reply that goes on, or begins one.
func (b *runUnits) step(at time.Time, st *step, own, address string) {
	if b.stretch == nil {
		b.stretch = &unit{kind: unitReply, run: b.r, at: b.place(at), role: "assistant", own: own, address: address}
		b.units = append(b.units, b.stretch)
	}
	b.stretch.steps = append(b.stretch.steps, st)
	for _, p := range st.parts {
		b.called[p.callID] = p.callID != ""
	}
}

// lone appends a reply whose turn is not there. i is the turn that it came with.
func (b *runUnits) lone(i int, at time.Time, ref session.Ref, m *chatMessage) {
	st := &step{lone: &ref, node: b.g.nodeOf(ref)}
	if i >= 0 {
		st.at = b.p.turns[i].Start
	}
	st.parts = b.loneParts(i, cmp.Or(st.at, b.r.Start), m)
	b.step(at, st, m.id, "reply "+b.g.same(ref))
}

// turn appends the messages that came with a turn, and the turn.
func (b *runUnits) turn(i int) {
	t := b.p.turns[i]
	name, input := b.g.input(b.r, t)
	for _, in := range b.g.read(b.r, t, name, input) {
		m := readMessage(in.body)
		switch {
		case m.userSide():
			b.message(t, t.Start, in.ref, &m)
		case m.role == "assistant": // an input of the run, or of a turn that is not there
			b.lone(i, t.Start, in.ref, &m)
		}
	}
	st := &step{turn: t}
	var own string
	st.parts, own, st.node = b.turnParts(i)
	b.step(t.Start, st, own, fmt.Sprintf("turn %d %d", t.Index, t.Start.UnixNano()))
}

func (b *runUnits) compactions(l []*session.Compaction) {
	for _, c := range l {
		at := latest(c.Start, c.End)
		switch {
		case c.Applied != nil && !*c.Applied:
		case c.Kind == spans.CompactionKindSummary: // it does not end a reply that goes on after it
			b.g.read(b.r, nil, spans.ListSummary, c.Summary) // notes whether it is missing
			b.units = append(b.units, &unit{
				kind: unitCompaction, run: b.r, at: b.place(at), role: "assistant", compaction: c,
				address: fmt.Sprintf("compaction %s %d %d", c.Kind, c.Start.UnixNano(), c.Seq),
			})
		case c.Kind == spans.CompactionKindRevert:
			for _, id := range c.Removed {
				if id != "" {
					b.p.reverted[id] = at.UnixMilli()
				}
			}
		}
	}
}

// nodeOf returns the node of phi-core that a message belongs to, as it is spelled.
func (g *Guide) nodeOf(ref session.Ref) string {
	if body, ok := g.body(ref); ok && strings.Contains(body, "nodeId") {
		return string(parse([]byte(body)).Spelled("nodeId"))
	}
	return ""
}
