package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file plans the message rows: each message that is not the model's, each stretch of turns between two of
// these, and each summary that replaced messages. Roles stand in the content, so the plan takes one walk over it.

// runPlan is what is known of a run once its content was looked at.
type runPlan struct {
	n     int             // among the runs of the session
	turns []*session.Turn // as they ran
	// outside are messages that came in no turn, by the turn before them: -1, before the first.
	outside map[int][]session.Ref
	// rest is what the run used that none of its turns says.
	rest session.Usage
	// reverted are nodes and messages that a rewind inside the run abandoned, and when.
	reverted map[string]int64
}

type unitKind uint8

const (
	unitMessage    unitKind = iota // not the model's
	unitReply                      // a stretch of turns
	unitCompaction                 // a summary
)

// unit is one message row to be.
type unit struct {
	kind unitKind
	run  *session.Run
	at   int64 // created_at
	id   string
	role string
	own  string // the id that the message has itself
	// address, within the run, is what the id is made of.
	address string
	hidden  int64 // since when it is rewound; 0: it is not
	full    bool  // has what its run used outside of its turns: the first reply, else the first row
	parts   int   // of a reply
	// starts says that the run starts with this row, begins that the turn of this message does, ends which runs end.
	starts, begins bool
	ends           []*session.Run

	ref        session.Ref // of a message
	node       string
	turn       *session.Turn // in which it came; nil: in none
	position   int           // of that turn in runPlan.turns, or of the one before it
	steps      []step        // of a reply
	compaction *session.Compaction
}

// step is a turn, or a reply whose turn is not there.
type step struct {
	turn  int           // position in runPlan.turns, or of the turn that it came with
	lone  *session.Ref  // the reply whose turn is not there
	pool  []session.Ref // of such a reply: messages that may hold its results
	parts int
	calls []stepCall // of which there are parts
	// begins says that the turn begins with this row.
	begins bool
	// claimed are ids of calls of the turn before, whose results came with this one.
	claimed []string
	node    string
	hidden  int64
}

// plan finds out which message rows there are.
func (g *Guide) plan() error {
	for n, r := range g.s.Runs {
		if err := g.planRun(n, r); err != nil {
			return err
		}
	}
	slices.SortStableFunc(g.units, func(a, b unit) int { return cmp.Compare(a.at, b.at) })
	var names namer
	seen := map[*session.Run]bool{}
	for i := range g.units {
		u := &g.units[i]
		u.id, u.at = names.name(u.at, u.own, addressOf(g.s, u.run, u.address))
		if u.id != u.own {
			u.own = "" // that of an earlier message
		}
		if u.kind == unitReply && !seen[u.run] {
			seen[u.run], u.full = true, true
		}
	}
	for i := range g.units {
		u := &g.units[i]
		if !seen[u.run] {
			seen[u.run], u.full = true, true
		}
		if err := g.hide(u); err != nil {
			return err
		}
	}
	g.placeEvents()
	return nil
}

// hide finds out since when a row is rewound.
func (g *Guide) hide(u *unit) error {
	reverted := func(node, own string) int64 {
		if at := g.runs[u.run].reverted[node]; at > 0 && node != "" {
			return at
		}
		if own != "" {
			for _, p := range g.runs {
				if at := p.reverted[own]; at > 0 {
					return at
				}
			}
		}
		return 0
	}
	u.hidden = reverted(u.node, u.own)
	all := len(u.steps) > 0
	for i := range u.steps {
		st := &u.steps[i]
		st.hidden = reverted(st.node, "")
		all = all && st.hidden > 0
	}
	if all && u.hidden == 0 {
		for i := range u.steps {
			u.hidden = max(u.hidden, u.steps[i].hidden)
		}
	}
	at, known, err := g.timeFact(u, "hidden_at")
	if known {
		u.hidden = at
	}
	return err
}

// runUnits makes the rows of one run.
type runUnits struct {
	g       *Guide
	r       *session.Run
	p       *runPlan
	units   []unit
	stretch int // the reply that goes on; -1: none
	last    int64
	n       int
}

// place returns when a row is said to have been made: never before its run, nor before the row before it there.
func (b *runUnits) place(t time.Time) int64 {
	if len(b.units) == 0 {
		b.last = b.r.Start.UnixMilli()
	}
	b.last = max(b.last, t.UnixMilli())
	return b.last
}

func (g *Guide) planRun(n int, r *session.Run) error {
	p := &runPlan{n: n, turns: byStart(r.Turns), rest: r.Usage}
	for _, t := range p.turns {
		p.rest.Input -= t.Usage.Input
		p.rest.Output -= t.Usage.Output
		p.rest.Reasoning -= t.Usage.Reasoning
		p.rest.CacheRead -= t.Usage.CacheRead
		p.rest.CacheWrite -= t.Usage.CacheWrite
	}
	p.outside = g.outside(r, p)
	g.runs[r] = p
	b := &runUnits{g: g, r: r, p: p, stretch: -1}
	if c := r.Capture; len(r.Turns) == 0 && c != "" && c != spans.CaptureContent {
		g.uncaptured[r] = c
	}
	for _, l := range []struct {
		name string
		refs *session.Refs
	}{{spans.ListMetadata, r.Metadata}, {spans.ListRules, r.Rules}} {
		if _, err := g.runValue(r, l.name, l.refs); err != nil {
			return err
		}
	}
	if err := b.between(-1, r.Start, nil); err != nil {
		return err
	}
	var before []string
	for i, t := range p.turns {
		if err := g.ctx.Err(); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := g.loadTurn(p, i); err != nil {
			return err
		}
		if c := t.Capture; c != "" && c != spans.CaptureContent {
			g.uncaptured[r] = c
		}
		g.requestTexts(r, t)
		made := b.turn(i, before)
		before = made.open
		if err := b.compactions(t.Compactions); err != nil {
			return err
		}
		if err := b.between(i, latest(t.Start, t.End), made.calls); err != nil {
			return err
		}
	}
	if err := b.compactions(r.Compactions); err != nil {
		return err
	}
	replies := slices.ContainsFunc(b.units, func(u unit) bool { return u.kind == unitReply })
	if len(b.units) == 0 || !replies && p.rest != (session.Usage{}) {
		// A run of which nothing else is known, or whose usage has no other place.
		b.units = append(b.units, unit{kind: unitReply, run: r, at: b.place(r.Start), role: "assistant", address: "run"})
	}
	g.units = append(g.units, b.units...)
	return nil
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// outside finds the messages of a run that came in none of its turns: those it says came outside of them, and those of
// its last word that nothing else holds.
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
	said := map[string]bool{}
	for _, ref := range r.Outside.Items() {
		said[g.same(ref)] = true
	}
	var earlier map[string]bool
	out := map[int][]session.Ref{}
	at := -1
	for _, ref := range r.Messages.Items() {
		if i, ok := in[g.same(ref)]; ok {
			at = max(at, i)
			continue
		}
		if !said[g.same(ref)] {
			if earlier == nil {
				earlier = g.earlier(r)
			}
			if earlier[g.same(ref)] {
				continue // a run may give back what it was given
			}
		}
		delete(said, g.same(ref))
		in[g.same(ref)] = at // once
		out[at] = append(out[at], ref)
	}
	var first []session.Ref
	for _, ref := range r.Outside.Items() {
		if said[g.same(ref)] {
			delete(said, g.same(ref))
			first = append(first, ref)
		}
	}
	out[-1] = append(first, out[-1]...)
	return out
}

// earlier returns the messages of the runs before r.
func (g *Guide) earlier(r *session.Run) map[string]bool {
	blocks := map[string]bool{}
	for _, o := range g.s.Runs {
		if o == r {
			break
		}
		lists := []*session.Refs{o.Messages, o.Outside}
		for _, t := range o.Turns {
			lists = append(lists, t.Input, t.Output, t.Results)
		}
		for _, l := range lists {
			for _, ref := range l.Items() {
				blocks[g.same(ref)] = true
			}
		}
	}
	return blocks
}

// between appends what came outside of turns, behind turn i. calls are those of that turn.
func (b *runUnits) between(i int, at time.Time, calls map[string]bool) error {
	refs := b.p.outside[i]
	if len(refs) == 0 {
		return nil
	}
	var ids []spans.ShortID
	for _, ref := range refs {
		ids = appendID(ids, ref)
	}
	if err := b.g.window.load(b.g.ctx, ids, nil); err != nil {
		return err
	}
	if calls = maps.Clone(calls); calls == nil {
		calls = map[string]bool{}
	}
	for _, in := range b.g.read(b.r, nil, spans.ListMessages, session.NewRefs(refs...)) {
		m := readMessage(string(in.body))
		ref := in.ref
		elsewhere := func(p messagePart) bool { return p.kind != partResult || !calls[p.id] }
		switch {
		case m.userSide():
			b.message(nil, i, at, ref, &m)
			continue
		case m.role == "tool" && !slices.ContainsFunc(m.parts, elsewhere):
			continue // they stand in the pool of their call
		}
		for _, p := range m.parts {
			if p.kind == partCall {
				calls[p.id] = true
			}
		}
		b.lone(i, at, &ref, refs, m.id)
	}
	return nil
}

// message appends the row of a message.
func (b *runUnits) message(t *session.Turn, i int, at time.Time, ref session.Ref, m *message) {
	b.stretch = -1
	role := "user"
	if m.role == "system" || m.role == "developer" {
		role = "system"
	}
	b.units = append(b.units, unit{
		kind: unitMessage, run: b.r, at: b.place(at), role: role, own: m.id, ref: ref, node: b.g.nodeOf(ref), turn: t,
		position: i,
		address:  "message " + strconv.Itoa(b.n) + " " + b.g.same(ref),
	})
	b.n++
}

// step appends a step to the reply that goes on, or begins one.
func (b *runUnits) step(at time.Time, st step, own, address string) {
	if b.stretch < 0 {
		b.stretch = len(b.units)
		b.units = append(b.units, unit{kind: unitReply, run: b.r, at: b.place(at), role: "assistant", own: own,
			address: address})
	}
	u := &b.units[b.stretch]
	u.steps = append(u.steps, st)
	u.parts += st.parts
}

// lone appends a reply whose turn is not there.
func (b *runUnits) lone(i int, at time.Time, ref *session.Ref, pool []session.Ref, own string) {
	st := step{turn: i, lone: ref, pool: pool, node: b.g.nodeOf(*ref)}
	parts := b.g.loneParts(b.r, &st)
	st.parts, st.calls = len(parts), callsOf(parts)
	b.step(at, st, own, "reply "+b.g.same(*ref))
}

// turn appends what came in with a turn, and the turn.
func (b *runUnits) turn(i int, before []string) turnParts {
	g, t := b.g, b.p.turns[i]
	st := step{turn: i}
	before = slices.Clone(before)
	results := map[string]bool{}
	for _, ref := range t.Results.Items() {
		results[g.same(ref)] = true
	}
	for _, in := range g.read(b.r, t, spans.ListInput, t.Input) {
		m := readMessage(string(in.body))
		if !results[g.same(in.ref)] {
			for _, p := range m.parts {
				if p.kind != partResult || p.embedded {
					continue
				}
				if at := slices.Index(before, p.id); at >= 0 {
					before = slices.Delete(before, at, at+1)
					st.claimed = append(st.claimed, p.id)
				}
			}
		}
		ref := in.ref
		switch {
		case m.userSide():
			b.message(t, i, t.Start, ref, &m)
		case m.role == "assistant": // given to the run, or of a turn that is not there
			b.lone(i, t.Start, &ref, t.Input.Items(), m.id)
			for _, p := range m.parts {
				if p.kind == partCall {
					st.claimed = append(st.claimed, p.id)
				}
			}
		}
	}
	made := g.turnParts(b.r, b.p, &st)
	st.parts, st.calls, st.node = len(made.parts), callsOf(made.parts), made.node
	b.step(t.Start, st, made.own, fmt.Sprintf("turn %d %d", t.Index, t.Start.UnixNano()))
	return made
}

func (b *runUnits) compactions(l []*session.Compaction) error {
	for _, c := range l {
		if c.Applied != nil && !*c.Applied {
			continue
		}
		at := latest(c.Start, c.End)
		switch c.Kind {
		case spans.CompactionKindSummary: // it does not end a reply that goes on behind it
			if _, err := b.g.readAside(b.r, spans.ListSummary, c.Summary); err != nil { // which notes what is missing
				return err
			}
			b.units = append(b.units, unit{
				kind: unitCompaction, run: b.r, at: b.place(at), role: "assistant", compaction: c,
				address: fmt.Sprintf("compaction %s %d %d", c.Kind, c.Start.UnixNano(), c.Seq),
			})
		case spans.CompactionKindRevert:
			if b.p.reverted == nil {
				b.p.reverted = map[string]int64{}
			}
			for _, id := range c.Removed {
				b.p.reverted[id] = at.UnixMilli()
			}
		}
	}
	return nil
}

// nodeOf returns the node that phi-core put a message into, as it is spelled.
func (g *Guide) nodeOf(ref session.Ref) string {
	body, ok := g.window.set.Body(ref)
	if !ok || !strings.Contains(body, "nodeId") {
		return ""
	}
	return string(find(members([]byte(body)), "nodeId"))
}

// timeFact returns the time, in milliseconds, that a fact about a message states: 0 for one that takes an earlier one
// back. known is false when there is none, or its value is not there.
func (g *Guide) timeFact(u *unit, key string) (ms int64, known bool, err error) {
	if len(g.s.Facts) == 0 {
		return 0, false, nil
	}
	for _, id := range []string{u.id, u.own} {
		if id == "" {
			continue
		}
		f := g.s.Fact("message/"+id, key)
		if f == nil {
			continue
		}
		v, err := g.fact(f)
		if err != nil || v == nil {
			return 0, false, err
		}
		return factTime(v, f.At), true, nil
	}
	return 0, false, nil
}

// fact returns the value of a fact, nil where it is not there.
func (g *Guide) fact(f *session.Fact) (json.RawMessage, error) {
	if f == nil || f.Value == nil {
		return nil, nil
	}
	if err := g.aside.load(g.ctx, appendID(nil, *f.Value), nil); err != nil {
		return nil, err
	}
	if v, ok := g.aside.set.Body(*f.Value); ok && json.Valid([]byte(v)) {
		return json.RawMessage(v), nil
	}
	return nil, nil
}

// factTime is session.FactTime in milliseconds; 0: it is not so.
func factTime(v json.RawMessage, at time.Time) int64 {
	t := session.FactTime(string(v), at)
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
