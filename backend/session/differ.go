package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// ErrDiffKinds is returned where a session, run or turn is to be compared with something of another kind.
var ErrDiffKinds = errors.New("only two sessions, two runs or two turns can be compared")

// DiffSessions compares two sessions, two runs or two turns. Runs are aligned by their order and by what was asked of them, those of
// parallel groups and sub-agents within the group or run that they belong to; turns by their index. It costs what the two hold, and what is
// told is bounded: see DiffOptions. Turned round, it tells the same the other way. It is safe for concurrent use while nobody changes
// what is compared.
func DiffSessions(a, b DiffTarget, o DiffOptions) (*Diff, error) {
	if a.Kind() != b.Kind() {
		return nil, ErrDiffKinds
	}
	if o.Text <= 0 {
		o.Text = 64 << 10
	}
	if o.Total <= 0 {
		o.Total = 16 << 20
	}
	d := differ{
		a: newDiffed(a), b: newDiffed(b), text: o.Text, room: o.Total, ignored: map[DiffPart]bool{}, repeats: map[DiffPart]string{}, requests: newRequests(),
		out: &Diff{Format: DiffFormat, Kind: a.Kind(), Runs: []RunDiff{}},
	}
	for _, p := range DiffParts {
		if slices.Contains(o.Ignore, p) {
			d.ignored[p] = true
			d.out.Ignored = append(d.out.Ignored, p)
		}
	}
	d.out.A, d.out.B = d.a.side(), d.b.side()
	for _, p := range d.alignRuns() {
		d.out.Runs = append(d.out.Runs, d.run(p.of(d.a.runs, d.b.runs)))
	}
	d.sumUp()
	return d.out, nil
}

// diffed is one side.
type diffed struct {
	DiffTarget
	history *History
	runs    []*Run // that are compared
	numbers map[*Run]int
	byID    map[string][]*Run
}

func newDiffed(t DiffTarget) *diffed {
	s := &diffed{DiffTarget: t, history: HistoryOf(t.Session, t.Blocks), runs: t.Session.Runs, numbers: map[*Run]int{}, byID: map[string][]*Run{}}
	for i, r := range t.Session.Runs {
		s.numbers[r] = i + 1
		s.byID[r.ID] = append(s.byID[r.ID], r)
	}
	if t.Run != nil {
		s.runs = []*Run{t.Run}
	}
	return s
}

func (s *diffed) turns(r *Run) []*Turn {
	switch {
	case r == nil:
		return nil
	case s.Turn != nil:
		return []*Turn{s.Turn}
	}
	return r.Turns
}

func (s *diffed) runAddress(r *Run) string {
	return RunAddress(s.Session.ID, s.numbers[r])
}

func (s *diffed) turnAddress(r *Run, t *Turn) string {
	return TurnAddress(s.Session.ID, s.numbers[r], t.Index)
}

func (s *diffed) side() DiffSide {
	d := DiffSide{
		Address: s.Session.ID, Source: s.Source, Tenant: s.Session.Tenant, Session: s.Session.ID, Agent: cmp.Or(s.Session.Agent, s.Session.AgentID),
		Status: string(s.Session.Status), Start: s.Session.Start, Runs: len(s.runs),
	}
	last := s.Session.Last
	var models []string
	for _, r := range s.runs {
		if !slices.Contains(models, r.Model) && r.Model != "" {
			models = append(models, r.Model)
		}
		turns := s.turns(r)
		d.Turns += len(turns)
		if s.Turn == nil {
			d.Calls += len(r.ToolCalls)
		}
		for _, t := range turns {
			d.Usage.Add(t.Usage)
			d.Calls += len(t.ToolCalls)
			if t.Cost != nil {
				if d.Cost == nil {
					d.Cost = map[string]float64{}
				}
				d.Cost[t.Currency] += *t.Cost
			}
		}
	}
	if len(models) == 1 {
		d.Model = models[0]
	}
	if r := s.Run; r != nil {
		d.Address, d.Agent, d.Status = s.runAddress(r), cmp.Or(r.Agent, r.AgentID, d.Agent), string(r.Status)
		d.Start, last = r.Start, r.End
		if t := s.Turn; t != nil {
			d.Address, d.Model, d.Status = s.turnAddress(r, t), cmp.Or(t.Answered, t.Model, d.Model), ""
			d.Start, last = t.Start, t.End
		}
	}
	d.TookNS = between(d.Start, last)
	return d
}

// between returns the time from one to the other in ns, 0 when one is not known.
func between(from, to time.Time) int64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return int64(to.Sub(from))
}

// differ is one comparison.
type differ struct {
	a, b    *diffed
	text    int // bytes of one text
	room    int // bytes of all
	ignored map[DiffPart]bool
	// repeats are the differences last told of system, tools and params.
	repeats  map[DiffPart]string
	requests *requests
	out      *Diff
}

// compare is diffText within the room.
func (d *differ) compare(name, before, after string) TextDiff {
	t := diffText(name, before, after, min(d.text, d.room))
	for _, h := range t.Hunks {
		for _, l := range h.Lines {
			d.room -= len(l.Text) + 1
		}
	}
	d.room = max(0, d.room)
	return t
}

// pair is what stands beside each other, by index; -1: none.
type pair struct{ a, b int }

func (p pair) of(a, b []*Run) (x, y *Run) {
	if p.a >= 0 {
		x = a[p.a]
	}
	if p.b >= 0 {
		y = b[p.b]
	}
	return x, y
}

// ordered completes pairs by those of one side only and orders them: as a has them, and what only b has before the next pair of it.
func ordered(pairs []pair, n, m int) []pair {
	ofB := make([]int, m) // the a of each b
	for i := range ofB {
		ofB[i] = -1
	}
	ofA := make([]bool, n)
	for _, p := range pairs {
		ofB[p.b], ofA[p.a] = p.a, true
	}
	type place struct{ at, order, b int }
	places := map[pair]place{}
	out := slices.Clone(pairs)
	for i, paired := range ofA {
		if !paired {
			out = append(out, pair{i, -1})
		}
	}
	next := n
	for j := m - 1; j >= 0; j-- {
		if ofB[j] >= 0 {
			next = ofB[j]
			continue
		}
		p := pair{-1, j}
		places[p] = place{next, 0, j}
		out = append(out, p)
	}
	at := func(p pair) place {
		if p.a < 0 {
			return places[p]
		}
		return place{p.a, 1, 0}
	}
	slices.SortFunc(out, func(x, y pair) int {
		p, q := at(x), at(y)
		return cmp.Or(p.at-q.at, p.order-q.order, p.b-q.b)
	})
	return out
}

// match pairs things whose keys are the same, the first of one key with the first, level by level of keys, of which the first tells
// them apart best.
func match(n, m int, levels ...func(side, i int) string) []pair {
	var pairs []pair
	usedA, usedB := make([]bool, n), make([]bool, m)
	for _, key := range levels {
		waiting := map[string][]int{}
		for i := range n {
			if !usedA[i] {
				k := key(0, i)
				waiting[k] = append(waiting[k], i)
			}
		}
		for j := range m {
			if usedB[j] {
				continue
			}
			k := key(1, j)
			if l := waiting[k]; len(l) > 0 {
				pairs = append(pairs, pair{l[0], j})
				usedA[l[0]], usedB[j] = true, true
				waiting[k] = l[1:]
			}
		}
	}
	return pairs
}

// alignRuns pairs the runs of both sides.
func (d *differ) alignRuns() []pair {
	a, b := d.a.runs, d.b.runs
	if d.out.Kind != DiffOfSessions {
		return []pair{{0, 0}}
	}
	x, y := newAligned(d.a), newAligned(d.b)
	pairs := x.inOrder(y)
	for g := range min(len(x.groups), len(y.groups)) {
		m, n := x.groups[g], y.groups[g]
		pairs = append(pairs, x.within(y, m, n, func(s *aligned, i int) string { return string(s.runs[i].GroupRole) + "\x00" + s.runs[i].Model })...)
	}
	for todo := pairs; len(todo) > 0; todo = todo[1:] { // sub-agents below those that are paired
		kids := x.within(y, x.kids[todo[0].a], y.kids[todo[0].b], (*aligned).spawnedAt)
		pairs, todo = append(pairs, kids...), append(todo, kids...)
	}
	return ordered(pairs, len(a), len(b))
}

// aligned are the runs of one side by how they are aligned: those of sequence by their order, the rest within groups and below the run that
// spawned them.
type aligned struct {
	*diffed
	sequence []int
	groups   [][]int
	kids     map[int][]int // sub-agents by their parent
	asked    []string      // of each run, as far as it is looked at; empty: not yet
}

func newAligned(s *diffed) *aligned {
	x := &aligned{diffed: s, kids: map[int][]int{}, asked: make([]string, len(s.runs))}
	groups := map[time.Time]int{}
	for i, r := range s.runs {
		st := s.history.Run(r)
		switch {
		case st.Relation == RelationSubAgent && st.Parent != nil:
			p := s.numbers[st.Parent] - 1
			x.kids[p] = append(x.kids[p], i)
		case !r.GroupStart.IsZero():
			g, ok := groups[r.GroupStart.UTC()]
			if !ok {
				g = len(x.groups)
				groups[r.GroupStart.UTC()] = g
				x.groups = append(x.groups, nil)
			}
			x.groups[g] = append(x.groups[g], i)
		default:
			x.sequence = append(x.sequence, i)
		}
	}
	return x
}

// kind tells runs apart that are never aligned with each other in order: what goes on stands beside what begins.
func (x *aligned) kind(i int) string {
	r := x.history.Run(x.runs[i]).Relation
	if r == RelationContinues {
		r = ""
	}
	return string(r)
}

// question is what was asked of a run, with its agent: enough to find it again.
func (x *aligned) question(i int) string {
	if x.asked[i] == "" {
		r := x.runs[i]
		var said []string
		refs := r.Outside
		if len(r.Turns) > 0 {
			refs = x.told(r, r.Turns[0]).refs
		}
		for _, ref := range refs.From(0) {
			if body, ok := x.Blocks.Body(ref); ok {
				texts, _ := readSaid(body)
				for _, t := range texts {
					said = append(said, t.name+"\x00"+t.text)
				}
			}
		}
		x.asked[i] = spans.BlockOfString(strings.Join(append(said, cmp.Or(r.Agent, r.AgentID), x.kind(i)), "\x00")).String()
	}
	return x.asked[i]
}

// spawnedAt is where a sub-agent was spawned, in its parent, and which agent it is.
func (x *aligned) spawnedAt(i int) string {
	r := x.runs[i]
	at := int64(-1)
	if p := x.history.Run(r).Parent; p != nil {
		for _, t := range p.Turns {
			if slices.ContainsFunc(t.ToolCalls, func(c *ToolCall) bool { return c.ID == r.ParentToolCallID }) {
				at = t.Index
			}
		}
	}
	return fmt.Sprintf("%d %s", at, cmp.Or(r.Agent, r.AgentID))
}

// inOrder pairs runs that follow each other: those that were asked the same where they come in the same order, and between these
// those of one kind, one by one.
func (x *aligned) inOrder(y *aligned) []pair {
	questions := func(s *aligned) []string {
		out := make([]string, len(s.sequence))
		for n, i := range s.sequence {
			out[n] = s.question(i)
		}
		return out
	}
	var pairs []pair
	i, j := 0, 0
	same := func(end int) {
		for ; i < end; i, j = i+1, j+1 {
			pairs = append(pairs, pair{x.sequence[i], y.sequence[j]})
		}
	}
	type gap struct{ a, b []int }
	var gaps []gap
	var aloneA, aloneB []int
	for _, e := range diffStrings(questions(x), questions(y)) {
		same(e.Start)
		g := gap{x.sequence[i:e.End], y.sequence[j:e.ReplEnd]}
		gaps, aloneA, aloneB = append(gaps, g), append(aloneA, g.a...), append(aloneB, g.b...)
		i, j = e.End, e.ReplEnd
	}
	same(len(x.sequence))
	// What was asked in another order, as of branches.
	moved := x.matched(y, aloneA, aloneB, (*aligned).question)
	takenA, takenB := map[int]bool{}, map[int]bool{}
	for _, p := range moved {
		takenA[p.a], takenB[p.b] = true, true
	}
	pairs = append(pairs, moved...)
	for _, g := range gaps {
		left := func(l []int, taken map[int]bool) []int {
			return slices.DeleteFunc(slices.Clone(l), func(i int) bool { return taken[i] })
		}
		pairs = append(pairs, x.matched(y, left(g.a, takenA), left(g.b, takenB), (*aligned).kind)...)
	}
	return pairs
}

// within pairs runs that need not come in one order: where says more about where they stand.
func (x *aligned) within(y *aligned, a, b []int, where func(*aligned, int) string) []pair {
	return x.matched(y, a, b,
		func(s *aligned, i int) string { return where(s, i) + "\x00" + s.question(i) },
		func(s *aligned, i int) string { return where(s, i) },
		(*aligned).question,
		func(s *aligned, i int) string { return cmp.Or(s.runs[i].Agent, s.runs[i].AgentID) },
		func(*aligned, int) string { return "" },
	)
}

// matched is match of the runs with these numbers.
func (x *aligned) matched(y *aligned, a, b []int, levels ...func(*aligned, int) string) []pair {
	var keys []func(side, i int) string
	for _, key := range levels {
		keys = append(keys, func(side, i int) string {
			if side == 0 {
				return key(x, a[i])
			}
			return key(y, b[i])
		})
	}
	pairs := match(len(a), len(b), keys...)
	for i, p := range pairs {
		pairs[i] = pair{a[p.a], b[p.b]}
	}
	return pairs
}

// run compares two runs, either of which may be nil.
func (d *differ) run(a, b *Run) RunDiff {
	out := RunDiff{A: d.a.run(a), B: d.b.run(b)}
	if d.out.Kind != DiffOfTurns {
		switch {
		case a == nil:
			out.State = DiffOnlyB
		case b == nil:
			out.State = DiffOnlyA
		default:
			d.runFields(&out, a, b)
		}
		d.outside(&out, a, b)
	}
	x, y := d.a.turns(a), d.b.turns(b)
	for _, p := range alignTurns(x, y, d.out.Kind == DiffOfTurns) {
		var s, t *Turn
		if p.a >= 0 {
			s = x[p.a]
		}
		if p.b >= 0 {
			t = y[p.b]
		}
		out.Turns = append(out.Turns, d.turn(a, b, s, t))
	}
	if out.State != "" {
		return out
	}
	out.State = stateOf(out.Parts, out.NotCompared)
	for i := range out.Turns {
		switch st := out.Turns[i].State; {
		case st != DiffSame && st != DiffUnknownState:
			out.State = DiffChanged
		case st == DiffUnknownState && out.State == DiffSame:
			out.State = st
		}
	}
	return out
}

// stateOf returns how two things compare of which these parts differ and those could not be compared.
func stateOf(parts []DiffPart, unknown []DiffUnknown) DiffState {
	switch {
	case len(parts) > 0:
		return DiffChanged
	case len(unknown) > 0:
		return DiffUnknownState
	}
	return DiffSame
}

// alignTurns pairs turns by their indexes, those of one index in their order. Two runs that have no index in common count
// from other numbers: they are aligned by place.
func alignTurns(a, b []*Turn, pairAnyway bool) []pair {
	var pairs []pair
	common := false
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i].Index < b[j].Index:
			pairs = append(pairs, pair{i, -1})
			i++
		case i == len(a) || b[j].Index < a[i].Index:
			pairs = append(pairs, pair{-1, j})
			j++
		default:
			common = true
			pairs = append(pairs, pair{i, j})
			i, j = i+1, j+1
		}
	}
	if len(a) == 0 || len(b) == 0 || common && !pairAnyway {
		return pairs
	}
	pairs = pairs[:0]
	for i := range max(len(a), len(b)) {
		p := pair{i, i}
		if i >= len(a) {
			p.a = -1
		}
		if i >= len(b) {
			p.b = -1
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func (s *diffed) run(r *Run) *DiffRun {
	if r == nil {
		return nil
	}
	relation := string(s.history.Run(r).Relation)
	if relation == "" && !r.GroupStart.IsZero() {
		relation = "parallel"
	}
	return &DiffRun{
		Address: s.runAddress(r), ID: r.ID, Number: s.numbers[r], Relation: relation, Agent: cmp.Or(r.Agent, r.AgentID), Model: r.Model, Status: r.Status,
		Usage: r.Usage,
	}
}

// runFields compares what is said of runs themselves.
func (d *differ) runFields(out *RunDiff, a, b *Run) {
	params := changes{}
	params.text("agent", a.Agent, b.Agent)
	params.text("model", a.Model, b.Model)
	params.text("provider", a.Provider, b.Provider)
	params.text("rules_digest", a.RulesDigest, b.RulesDigest)
	if a.Config != "" && b.Config != "" {
		if config, ok := diffValues("config", string(a.Config), string(b.Config), d.compare); ok {
			params.list = append(params.list, config...)
		}
	}
	outcome := changes{}
	outcome.text("status", string(a.Status), string(b.Status))
	if a.StatusWord != "" && b.StatusWord != "" { // events have none where a saved session has one
		outcome.text("status_word", a.StatusWord, b.StatusWord)
	}
	if a.Capture == spans.CaptureContent && b.Capture == spans.CaptureContent {
		outcome.text("error", a.Error, b.Error)
		outcome.text("rejection", a.Rejection, b.Rejection)
	}
	outcome.text("error_type", string(a.ErrorType), string(b.ErrorType))
	add := func(part DiffPart, c changes) {
		if len(c.list) > 0 && !d.ignored[part] {
			out.Parts = append(out.Parts, part)
			out.Fields = append(out.Fields, c.list...)
		}
	}
	add(DiffParams, params)
	compactions, unknown := d.compactions(a.Compactions, b.Compactions, a.Capture, b.Capture)
	for i := range compactions {
		compactions[i].Path = "compaction." + compactions[i].Path
	}
	add(DiffCompaction, changes{compactions})
	out.NotCompared = append(out.NotCompared, unknown...)
	add(DiffOutcome, outcome)
}

// outside compares what belongs to no turn.
func (d *differ) outside(out *RunDiff, a, b *Run) {
	var x, y texts
	var callsA, callsB []toolCall
	if a != nil {
		x = d.a.texts(a.Outside, a.Capture)
		callsA = d.a.calls(a.ToolCalls, a.Capture, nil)
	}
	if b != nil {
		y = d.b.texts(b.Outside, b.Capture)
		callsB = d.b.calls(b.ToolCalls, b.Capture, nil)
	}
	one := a == nil || b == nil
	if !d.ignored[DiffInput] {
		l, unknown := d.texts(x, y)
		out.Input = l
		switch {
		case len(l) > 0 && !one:
			out.Parts = append(out.Parts, DiffInput)
		case unknown != nil && !one && x.refs.Len()+y.refs.Len() > 0:
			out.NotCompared = append(out.NotCompared, unknown.of(DiffInput)...)
		}
	}
	calls := d.calls(callsA, callsB)
	out.Calls = calls.told
	if !one {
		out.Parts = append(out.Parts, calls.parts...)
		out.NotCompared = append(out.NotCompared, calls.unknown...)
	}
}

// changes collects values of ours that differ.
type changes struct{ list []ValueChange }

func (c *changes) text(name, before, after string) {
	if before != after {
		c.list = append(c.list, ValueChange{Path: name, Before: quoted(before), After: quoted(after)})
	}
}

func quoted(text string) RawJSON {
	if text == "" {
		return ""
	}
	return RawJSON(rawjson.Quote(nil, text))
}

func (c *changes) number(name string, before, after int64) {
	if before != after {
		c.list = append(c.list, ValueChange{Path: name, Before: RawJSON(strconv.FormatInt(before, 10)), After: RawJSON(strconv.FormatInt(after, 10))})
	}
}

func (c *changes) optional(name string, before, after string) {
	if before != after {
		c.list = append(c.list, ValueChange{Path: name, Before: RawJSON(before), After: RawJSON(after)})
	}
}

func (c *changes) flag(name string, before, after bool) {
	if before != after {
		c.list = append(c.list, ValueChange{Path: name, Before: RawJSON(strconv.FormatBool(before)), After: RawJSON(strconv.FormatBool(after))})
	}
}

// sumUp fills in what is told of the whole.
func (d *differ) sumUp() {
	out := d.out
	type key struct {
		part DiffPart
		why  DiffWhy
		side string
	}
	unknown := map[key]int{}
	differs := false
	var first *DiffFirst
	sameA, sameB, unbroken := "", "", true
	found := func(f DiffFirst) {
		differs = true
		if first == nil {
			f.SameA, f.SameB = sameA, sameB
			first = &f
		}
	}
	for i := range out.Runs {
		r := &out.Runs[i]
		for _, u := range r.NotCompared {
			unknown[key{u.Part, u.Why, u.Side}] += 0
		}
		at := DiffFirst{}
		if r.A != nil {
			at.A = r.A.Address
		}
		if r.B != nil {
			at.B = r.B.Address
		}
		early, late := []DiffPart{}, []DiffPart{}
		for _, p := range r.Parts {
			if p == DiffOutcome {
				late = append(late, p)
			} else {
				early = append(early, p)
			}
		}
		if one := r.State == DiffOnlyA || r.State == DiffOnlyB; one && len(r.Turns) == 0 || len(early) > 0 {
			f := at
			f.Parts = early
			found(f)
		}
		for j := range r.Turns {
			t := &r.Turns[j]
			for _, u := range t.NotCompared {
				unknown[key{u.Part, u.Why, u.Side}]++
			}
			f := DiffFirst{Parts: t.Parts}
			if t.A != nil {
				f.A = t.A.Address
			}
			if t.B != nil {
				f.B = t.B.Address
			}
			switch t.State {
			case DiffSame:
				out.Counts.Same++
				if unbroken && first == nil {
					sameA, sameB = f.A, f.B
				}
			case DiffUnknownState:
				out.Counts.Unknown++
				unbroken = false
			case DiffOnlyA:
				out.Counts.OnlyA++
				found(f)
			case DiffOnlyB:
				out.Counts.OnlyB++
				found(f)
			default:
				out.Counts.Changed++
				if len(t.Repeats) == len(t.Parts) {
					out.Counts.Repeats++
				}
				found(f)
			}
		}
		if len(late) > 0 {
			f := at
			f.Parts = late
			found(f)
		}
	}
	for k, n := range unknown {
		out.NotCompared = append(out.NotCompared, DiffUnknown{Part: k.part, Why: k.why, Side: k.side, Turns: n})
	}
	slices.SortFunc(out.NotCompared, func(x, y DiffUnknown) int {
		return cmp.Or(slices.Index(DiffParts, x.Part)-slices.Index(DiffParts, y.Part), strings.Compare(string(x.Why), string(y.Why)), strings.Compare(x.Side, y.Side))
	})
	out.First = first
	out.Equal = !differs && len(out.NotCompared) == 0
}
