package session

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// AssembleAll returns the tree of every session that rows belong to, by tenant, then id.
func AssembleAll(rows []Row) []*Session {
	bySession := map[Key][]*Row{}
	for i := range rows {
		bySession[rows[i].Session] = append(bySession[rows[i].Session], &rows[i])
	}
	keys := slices.SortedFunc(maps.Keys(bySession), compareKeys)
	out := make([]*Session, len(keys))
	for i, k := range keys {
		out[i] = assemble(k, slices.Values(bySession[k]), len(bySession[k]))
	}
	return out
}

// Assemble returns the tree of one session, whose rows these are. It is a pure function of the set of rows: order and
// duplicates change nothing, and it knows no clock. The rows are only read; the tree shares their strings.
//
// Rows of one key (trace id, span id) count once, the one that Supersedes prefers. Rows of one address (docs/formats.md
// section 1) are one thing, again the preferred row, and add one defect recorded_twice to their run. What is missing and
// can be told so is a Defect at the place where it is missing; nothing is guessed. No rows give an empty session.
//
// Should rows be of several sessions, those of the least key count and the others are left out; see AssembleAll.
func Assemble(rows []Row) *Session {
	if len(rows) == 0 {
		return &Session{Format: TreeFormat, Status: spans.SessionStatusIdle, Runs: []*Run{}}
	}
	key := rows[0].Session
	for i := range rows {
		if compareKeys(rows[i].Session, key) < 0 {
			key = rows[i].Session
		}
	}
	of := func(yield func(*Row) bool) {
		for i := range rows {
			if rows[i].Session == key && !yield(&rows[i]) {
				return
			}
		}
	}
	return assemble(key, of, len(rows))
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
}

// entry is a row with the parts of its address that stand in attributes.
type entry struct {
	row     *Row
	word    string // call id, compaction kind, run kind
	ordinal int64
	// turnStart tells turns of one index apart; 0 unless an index is used twice.
	turnStart int64
	hex       int // index into assembler.hex
}

// ordinal is the number of a run, and the start of the run that has number 1 in its process.
type ordinal struct{ from, n int64 }

// spanKey names a span: senders choose span ids, which are unique in a trace at most.
type spanKey struct {
	trace TraceID
	span  SpanID
}

// assembler holds one Assemble.
type assembler struct {
	s        *Session
	entries  []entry
	hex      string // trace and span id of each entry, 48 characters each
	index    listIndex
	resolved int   // items that prefixes were resolved to
	now      int64 // latest time seen

	turns       []Turn
	tools       []ToolCall
	compactions []Compaction
	permissions []Permission

	toolPermissions int64              // counts.permissions of the tool calls at hand
	requests        map[int64]*Request // of the turn at hand, by attempt

	runByID  map[string][]*Run
	groups   map[int64]*Group
	ordinals []ordinal
	twice    int  // rows of one address beyond the first, of the run at hand
	sink     Run  // takes header attributes that are not needed
	made     bool // session id made up
}

// assemble builds the tree of the session key from its rows, which are at most n.
func assemble(key Key, rows iter.Seq[*Row], n int) *Session {
	a := &assembler{
		s:       &Session{Format: TreeFormat, Tenant: key.Tenant, ID: key.ID, Runs: []*Run{}},
		runByID: map[string][]*Run{},
		groups:  map[int64]*Group{},
	}
	a.collect(rows, n)
	slices.SortFunc(a.entries, compareEntries)
	if a.index != nil {
		for i := range a.entries {
			a.index.add(a.entries[i].row)
		}
	}
	for l := a.entries; len(l) > 0; {
		n := 1
		for n < len(l) && l[n].row.Run == l[0].row.Run && l[n].row.RunStart == l[0].row.RunStart {
			n++
		}
		a.run(l[:n])
		l = l[n:]
	}
	a.finish()
	return a.s
}

// collect keeps one row of each key and reads what their order needs.
func (a *assembler) collect(rows iter.Seq[*Row], n int) {
	seen := make(map[spanKey]int32, n)
	a.entries = make([]entry, 0, n)
	for r := range rows {
		if r.Kind == KindUnknown || r.Kind > KindPayload || r.Kind == KindTurn && r.Turn < 0 {
			continue
		}
		if r.Turn != NoTurn && (r.Kind == KindRun || r.Turn < 0) {
			plain := *r
			plain.Turn = NoTurn
			r = &plain
		}
		k := spanKey{r.Trace, r.Span}
		if at, ok := seen[k]; ok {
			if Supersedes(r, a.entries[at].row) {
				a.entries[at].row = r
			}
			continue
		}
		seen[k] = int32(len(a.entries))
		a.entries = append(a.entries, entry{row: r})
	}
	clear(seen)

	buf := make([]byte, 0, 48*len(a.entries))
	var count [KindPayload + 1]int
	for i := range a.entries {
		e := &a.entries[i]
		r := e.row
		e.hex = i
		buf = hex.AppendEncode(buf, r.Trace[:])
		buf = hex.AppendEncode(buf, r.Span[:])
		count[r.Kind]++
		switch r.Kind {
		case KindRun:
			e.word = r.Attr(spans.RunKindKeyKey).Text()
			a.ordinal(r)
		case KindTurn:
			a.ordinal(r)
		case KindToolCall, KindPermission:
			e.word = r.Attr(spans.ToolCallIDKey).Text()
			e.ordinal = r.Attr(spans.OrdinalKey).IntOr(0)
		case KindCompaction:
			e.word = r.Attr(spans.CompactionKindKeyKey).Text()
			e.ordinal = r.Attr(spans.OrdinalKey).IntOr(0)
		}
		a.now = max(a.now, r.Start, r.End)
		for j := range r.Events {
			a.now = max(a.now, r.Events[j].Time)
		}
		for j := range r.Lists {
			if r.Lists[j].Prefix != "" && a.index == nil {
				a.index = listIndex{}
			}
		}
	}
	a.hex = string(buf)
	a.turns = make([]Turn, 0, count[KindTurn])
	a.tools = make([]ToolCall, 0, count[KindToolCall])
	a.compactions = make([]Compaction, 0, count[KindCompaction])
	a.permissions = make([]Permission, 0, count[KindPermission])
}

func (a *assembler) ordinal(r *Row) {
	o := ordinal{r.Attr(spans.RunOrdinalFromKey).IntOr(0), r.Attr(spans.RunOrdinalKey).IntOr(0)}
	if o.n > 0 && (len(a.ordinals) == 0 || a.ordinals[len(a.ordinals)-1] != o) {
		a.ordinals = append(a.ordinals, o)
	}
}

// compareEntries orders by address; rows of one address stand together, the preferred one first.
func compareEntries(a, b entry) int {
	x, y := a.row, b.row
	if x.Run != y.Run {
		return strings.Compare(x.Run, y.Run)
	}
	if c := cmp.Or(cmp.Compare(x.RunStart, y.RunStart), cmp.Compare(x.Turn, y.Turn), cmp.Compare(a.turnStart, b.turnStart), cmp.Compare(x.Kind, y.Kind)); c != 0 {
		return c
	}
	if c := compareThings(&a, &b); c != 0 {
		return c
	}
	if x.Kind == KindPayload {
		if c := cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.Start, y.Start)); c != 0 {
			return c
		}
	}
	switch {
	case Supersedes(x, y):
		return -1
	case Supersedes(y, x):
		return 1
	}
	return 0
}

// compareThings compares what tells apart things of one kind in one turn or run.
func compareThings(a, b *entry) int {
	switch a.row.Kind {
	case KindRun:
		// A group and a run can only share an address if a producer gives no run ids.
		return cmp.Compare(boolByte(a.isGroup()), boolByte(b.isGroup()))
	case KindTurn:
		return cmp.Compare(a.row.Start, b.row.Start)
	case KindCompaction:
		return cmp.Or(strings.Compare(a.word, b.word), cmp.Compare(a.row.Start, b.row.Start), cmp.Compare(a.ordinal, b.ordinal))
	case KindToolCall, KindPermission:
		return cmp.Or(strings.Compare(a.word, b.word), cmp.Compare(a.ordinal, b.ordinal))
	}
	return 0
}

func (e *entry) isGroup() bool {
	return e.row.Kind == KindRun && e.word == string(spans.RunKindParallel)
}

// things returns the preferred row of each address in l, which is of one kind, sorted. Payload rows are all kept.
func (a *assembler) things(l []entry) []entry {
	out := l[:0]
	for i := range l {
		if i > 0 && l[i].row.Kind != KindPayload && compareThings(&out[len(out)-1], &l[i]) == 0 {
			a.twice++
			continue
		}
		out = append(out, l[i])
	}
	return out
}

// take cuts off the entries of one kind from the front of l.
func take(l []entry, k Kind) (head, rest []entry) {
	n := 0
	for n < len(l) && l[n].row.Kind == k {
		n++
	}
	return l[:n], l[n:]
}

// run builds the run, group or both that l tells of: all rows of one run id and start.
func (a *assembler) run(l []entry) {
	a.twice = 0
	// A run row has no turn, so run rows come first.
	own, rest := take(l, KindRun)
	var run *Run
	var group *Group
	var f facts
	f.reset()
	for _, e := range a.things(own) {
		if e.isGroup() {
			group = a.group(&e)
		} else {
			run = a.ownRun(&e, &f)
		}
	}
	if group != nil && run == nil && len(rest) == 0 {
		if a.twice > 0 {
			group.Defects = append(group.Defects, twiceDefect(a.twice))
		}
		return
	}
	if run == nil {
		run = a.inferRun(l)
	}
	a.s.Runs = append(a.s.Runs, run)

	turn := 0
	for turn < len(rest) && rest[turn].row.Turn == NoTurn {
		turn++
	}
	bucket := a.children(rest[:turn])
	run.ToolCalls, run.Compactions = bucket.tools, bucket.compactions
	run.Permissions = placePermissions(bucket.permissions, run.ToolCalls)
	for i := range bucket.payloads {
		a.runLists(run, bucket.payloads[i].row)
		run.Events = a.notes(run.Events, bucket.payloads[i].row)
	}
	f.check(&run.Defects, &bucket)

	for rest = rest[turn:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].row.Turn == rest[0].row.Turn {
			n++
		}
		a.turnsOfIndex(run, rest[:n])
		rest = rest[n:]
	}
	for _, t := range run.Turns {
		run.Usage.Add(t.Usage)
	}
	if want := f.counts[countTurns]; f.counted && want > int64(len(run.Turns)) {
		run.Defects = append(run.Defects, Defect{Code: spans.DefectTurnsMissing, Detail: turnsMissing(run, want)})
	}
	if a.twice > 0 {
		run.Defects = append(run.Defects, twiceDefect(a.twice))
	}
}

func twiceDefect(n int) Defect {
	return Defect{Code: spans.DefectRecordedTwice, Detail: strconv.Itoa(n) + " spans tell what others tell too"}
}

// turnsMissing says which indices are missing where that follows, else how many.
func turnsMissing(r *Run, want int64) string {
	detail := fmt.Sprintf("%d of %d turns arrived", len(r.Turns), want)
	gaps := ranges{last: -1}
	for _, t := range r.Turns {
		gaps.seen(t.Index)
	}
	if gaps.last < want {
		gaps.seen(want) // as if a turn stood behind the last
	}
	if gaps.total == want-int64(len(r.Turns)) {
		detail += "; missing: " + gaps.String()
	}
	return detail
}

// ownRun builds a run from its own row.
func (a *assembler) ownRun(e *entry, f *facts) *Run {
	r := e.row
	run := &Run{ID: r.Run, Turns: []*Turn{}}
	a.span(&run.Span, e)
	run.Start = nsTime(r.RunStart)
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !run.setHeader(at.Key, at.Value) && !run.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&run.Span, at)
		}
	}
	f.counted = r.Known != spans.KnownLive
	switch r.Known {
	case spans.KnownLive:
		run.Status = spans.RunStatusOpen
	case spans.KnownClosed:
		if run.Status == "" || run.Status == spans.RunStatusOpen {
			run.Status = spans.RunStatusAborted
		}
	default:
		if run.Status == "" {
			run.Status = spans.RunStatusCompleted
		}
	}
	a.runLists(run, r)
	run.Events = a.notes(nil, r)
	if f.inferred {
		run.Defects = append(run.Defects, Defect{Code: spans.DefectStartNotSeen})
	}
	f.schemaDefect(&run.Defects)
	backwards(&run.Defects, &run.Span)
	return run
}

// inferRun builds a run from the rows of its children: from the first turn, which repeats the run's header, as far as one
// arrived.
func (a *assembler) inferRun(l []entry) *Run {
	from := l[0].row
	for i := range l {
		if l[i].row.Kind == KindTurn {
			from = l[i].row
			break
		}
	}
	run := &Run{ID: from.Run, Turns: []*Turn{}, Status: spans.RunStatusOpen}
	run.Missing = true
	run.Start = nsTime(from.RunStart)
	for i := range from.Attrs {
		run.setHeader(from.Attrs[i].Key, from.Attrs[i].Value)
	}
	run.Defects = append(run.Defects, Defect{Code: spans.DefectRunSpanMissing})
	return run
}

func (a *assembler) group(e *entry) *Group {
	r := e.row
	g := &Group{}
	a.span(&g.Span, e)
	g.Start = nsTime(r.RunStart)
	var f facts
	f.reset()
	a.sink = Run{}
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !g.set(at.Key, at.Value) && !f.set(at.Key, at.Value) && !a.sink.setHeader(at.Key, at.Value) {
			a.common(&g.Span, at)
		}
	}
	g.Dialect = a.sink.Dialect
	switch {
	case r.Known == spans.KnownLive:
		g.Status = spans.RunStatusOpen
	case r.Known == spans.KnownClosed && (g.Status == "" || g.Status == spans.RunStatusOpen):
		g.Status = spans.RunStatusAborted
	case g.Status == "":
		g.Status = spans.RunStatusCompleted
	}
	for i := range r.Lists {
		a.unknownList(&g.Span, &g.Defects, &r.Lists[i])
	}
	g.Events = a.notes(nil, r)
	f.schemaDefect(&g.Defects)
	backwards(&g.Defects, &g.Span)
	a.groups[r.RunStart] = g
	a.s.Groups = append(a.s.Groups, g)
	return g
}

// children are what hangs in a turn, or in a run outside any turn.
type children struct {
	tools       []*ToolCall
	compactions []*Compaction
	permissions []*Permission
	payloads    []entry
	// counted is how many permission evaluations the tool calls say they had.
	counted int64
}

// children builds the things that l tells of: rows of one turn, or of a run outside any turn, sorted.
func (a *assembler) children(l []entry) children {
	var c children
	var part []entry
	part, l = take(l, KindCompaction)
	c.compactions = siblings(a.things(part), a.compaction, func(c *Compaction) *Span { return &c.Span })
	part, l = take(l, KindPermission)
	c.permissions = siblings(a.things(part), a.permission, func(p *Permission) *Span { return &p.Span })
	part, l = take(l, KindToolCall)
	c.tools = siblings(a.things(part), a.tool, func(t *ToolCall) *Span { return &t.Span })
	c.counted, a.toolPermissions = a.toolPermissions, 0
	c.payloads, _ = take(l, KindPayload)
	return c
}

// siblings builds one thing of each entry and puts them in order: by start, then seq, then address.
func siblings[T any](l []entry, build func(*entry) *T, span func(*T) *Span) []*T {
	if len(l) == 0 {
		return nil
	}
	out := make([]*T, len(l))
	for i := range l {
		out[i] = build(&l[i])
	}
	slices.SortStableFunc(out, func(x, y *T) int {
		a, b := span(x), span(y)
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

// placePermissions hangs each permission evaluation into the tool call that it names, and returns those that have none.
func placePermissions(l []*Permission, tools []*ToolCall) []*Permission {
	if len(l) == 0 {
		return nil
	}
	find := func(id string) *ToolCall {
		for _, t := range tools {
			if t.ID == id {
				return t
			}
		}
		return nil
	}
	if len(l)*len(tools) > 256 {
		byID := make(map[string]*ToolCall, len(tools))
		for _, t := range slices.Backward(tools) {
			byID[t.ID] = t
		}
		find = func(id string) *ToolCall { return byID[id] }
	}
	var rest []*Permission
	for _, p := range l {
		if t := find(p.CallID); p.CallID != "" && t != nil {
			t.Permissions = append(t.Permissions, p)
		} else {
			rest = append(rest, p)
		}
	}
	return rest
}

// turnsOfIndex builds the turns of one index of a run; there is mostly one.
func (a *assembler) turnsOfIndex(run *Run, l []entry) {
	starts := 0 // different starts
	n := 0
	for i := range l { // rows of kind run with a turn do not exist; turns come first
		if l[i].row.Kind != KindTurn {
			break
		}
		if i == 0 || l[i].row.Start != l[i-1].row.Start {
			starts++
		}
		n++
	}
	own, rest := l[:n], l[n:]
	if starts <= 1 {
		a.turn(run, l[0].row.Turn, own, rest)
		return
	}
	// Whose child a row is follows from its parent, else from its start. A permission can be the child of a tool call.
	turnOf := map[spanKey]int64{} // turns and tool calls -> start of the turn
	for i := range own {
		own[i].turnStart = own[i].row.Start
		turnOf[spanKey{own[i].row.Trace, own[i].row.Span}] = own[i].turnStart
	}
	assign := func(e *entry) {
		if start, ok := turnOf[spanKey{e.row.Trace, e.row.Parent}]; ok {
			e.turnStart = start
			return
		}
		after, _ := slices.BinarySearchFunc(own, e.row.Start, func(turn entry, start int64) int {
			if turn.row.Start <= start {
				return -1
			}
			return 1
		})
		e.turnStart = own[max(0, after-1)].row.Start
	}
	isTool := func(e *entry) bool { return e.row.Kind == KindToolCall }
	for i := range rest {
		if isTool(&rest[i]) {
			assign(&rest[i])
		}
	}
	for i := range rest {
		if isTool(&rest[i]) {
			turnOf[spanKey{rest[i].row.Trace, rest[i].row.Span}] = rest[i].turnStart
		}
	}
	for i := range rest {
		if !isTool(&rest[i]) {
			assign(&rest[i])
		}
	}
	slices.SortFunc(rest, compareEntries)
	for len(own) > 0 {
		start := own[0].turnStart
		i, j := 0, 0
		for i < len(own) && own[i].turnStart == start {
			i++
		}
		for j < len(rest) && rest[j].turnStart == start {
			j++
		}
		a.turn(run, own[0].row.Turn, own[:i], rest[:j])
		own, rest = own[i:], rest[j:]
	}
}

// turn builds one turn from its own rows, of which there may be none, and those of its children.
func (a *assembler) turn(run *Run, index int64, own, rest []entry) {
	var t *Turn
	var f facts
	f.reset()
	a.requests = nil
	if own = a.things(own); len(own) > 0 {
		a.turns = append(a.turns, Turn{Index: index})
		t = &a.turns[len(a.turns)-1]
		a.ownTurn(t, &own[0], &f)
	} else {
		t = &Turn{Index: index}
		t.Missing = true
		first, last, open := rest[0].row.Start, int64(0), false
		for i := range rest {
			first = min(first, rest[i].row.Start)
			last = max(last, rest[i].row.Start, rest[i].row.End)
			open = open || rest[i].row.Known == spans.KnownLive
		}
		t.Start = nsTime(first)
		if !open {
			t.End = nsTime(last)
		}
		if !run.Missing { // else both may still be open
			t.Defects = append(t.Defects, Defect{Code: spans.DefectTurnSpanMissing})
		}
	}
	c := a.children(rest)
	t.ToolCalls, t.Compactions = c.tools, c.compactions
	t.Permissions = placePermissions(c.permissions, t.ToolCalls)
	for i := range c.payloads {
		a.turnLists(t, c.payloads[i].row)
		t.Events = a.notes(t.Events, c.payloads[i].row)
	}
	slices.SortFunc(t.Requests, func(x, y *Request) int { return cmp.Compare(x.Attempt, y.Attempt) })
	f.check(&t.Defects, &c)
	run.Turns = append(run.Turns, t)
}

func (a *assembler) ownTurn(t *Turn, e *entry, f *facts) {
	r := e.row
	a.span(&t.Span, e)
	a.sink = Run{}
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !t.set(at.Key, at.Value) && !f.set(at.Key, at.Value) && !a.sink.setHeader(at.Key, at.Value) {
			a.common(&t.Span, at)
		}
	}
	t.Failed = r.Failed
	f.counted = r.Known != spans.KnownLive
	a.turnLists(t, r)
	t.Events = a.notes(nil, r)
	f.schemaDefect(&t.Defects)
	backwards(&t.Defects, &t.Span)
}

func (a *assembler) tool(e *entry) *ToolCall {
	r := e.row
	a.tools = append(a.tools, ToolCall{ID: e.word, Ordinal: e.ordinal})
	t := &a.tools[len(a.tools)-1]
	a.span(&t.Span, e)
	var f facts
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !t.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&t.Span, at)
		}
	}
	if r.Known != spans.KnownLive {
		a.toolPermissions += max(0, f.counts[countPermissions])
	}
	for i := range r.Lists {
		switch l := &r.Lists[i]; l.Name {
		case spans.ListArgs:
			t.Args = a.refs(l, &t.Defects)
		case spans.ListResult:
			t.Result = a.refs(l, &t.Defects)
		default:
			a.unknownList(&t.Span, &t.Defects, l)
		}
	}
	t.Events = a.notes(nil, r)
	f.schemaDefect(&t.Defects)
	backwards(&t.Defects, &t.Span)
	return t
}

func (a *assembler) compaction(e *entry) *Compaction {
	r := e.row
	a.compactions = append(a.compactions, Compaction{Kind: spans.CompactionKind(e.word)})
	c := &a.compactions[len(a.compactions)-1]
	a.span(&c.Span, e)
	var f facts
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !c.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&c.Span, at)
		}
	}
	for i := range r.Lists {
		switch l := &r.Lists[i]; l.Name {
		case spans.ListSummary:
			c.Summary = a.refs(l, &c.Defects)
		case spans.ListBefore:
			c.Before = a.refs(l, &c.Defects)
		case spans.ListAfter:
			c.After = a.refs(l, &c.Defects)
		default:
			a.unknownList(&c.Span, &c.Defects, l)
		}
	}
	c.Events = a.notes(nil, r)
	f.schemaDefect(&c.Defects)
	backwards(&c.Defects, &c.Span)
	return c
}

func (a *assembler) permission(e *entry) *Permission {
	r := e.row
	a.permissions = append(a.permissions, Permission{CallID: e.word, Ordinal: e.ordinal})
	p := &a.permissions[len(a.permissions)-1]
	a.span(&p.Span, e)
	var f facts
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !p.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&p.Span, at)
		}
	}
	for i := range r.Lists {
		a.unknownList(&p.Span, &p.Defects, &r.Lists[i])
	}
	p.Events = a.notes(nil, r)
	f.schemaDefect(&p.Defects)
	backwards(&p.Defects, &p.Span)
	return p
}

// span sets what every kind of span has.
func (a *assembler) span(s *Span, e *entry) {
	r := e.row
	at := 48 * e.hex
	s.TraceID, s.SpanID = a.hex[at:at+32], a.hex[at+32:at+48]
	s.Known = r.Known
	s.Start = nsTime(r.Start)
	if r.Known != spans.KnownLive && r.End != 0 {
		s.End = nsTime(r.End)
	}
	s.Seq, s.EndSeq = r.Seq, r.EndSeq
}

// common takes an attribute that the kind has no field for.
func (a *assembler) common(s *Span, at *Attr) {
	switch at.Key {
	case string(spans.StartTimeKey):
		s.StartSource = spans.TimeSource(at.Value.Text())
		return
	case string(spans.EndTimeKey):
		s.EndSource = spans.TimeSource(at.Value.Text())
		return
	case string(spans.EventsDroppedKey):
		if n, ok := at.Value.Int(); ok {
			s.EventsDropped = n
			return
		}
	case string(spans.SessionMadeUpKey):
		if b, ok := at.Value.Bool(); ok {
			a.made = a.made || b
			return
		}
	case string(spans.AgentNameKey), string(spans.AgentIDKey), string(spans.OperationNameKey), string(spans.OrdinalKey):
		return // of the run, implied by the kind, part of the address
	}
	if s.Extra == nil {
		s.Extra = map[string]any{}
	}
	s.Extra[at.Key] = at.Value.Any()
}

func backwards(d *[]Defect, s *Span) {
	if !s.End.IsZero() && s.End.Before(s.Start) {
		*d = append(*d, Defect{Code: spans.DefectTimeBackwards, Detail: s.Start.Sub(s.End).String()})
	}
}

func nsTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// finish does what needs all runs.
func (a *assembler) finish() {
	s := a.s
	s.MadeUp = a.made
	slices.SortFunc(s.Runs, compareRuns)
	for _, r := range s.Runs {
		a.runByID[r.ID] = append(a.runByID[r.ID], r)
	}
	for _, r := range s.Runs {
		s.Usage.Add(r.Usage)
		if s.Agent == "" {
			s.Agent = r.Agent
		}
		if s.AgentID == "" {
			s.AgentID = r.AgentID
		}
		if s.Dialect == "" {
			s.Dialect = r.Dialect
		}
		if r.GroupStart.IsZero() {
			continue
		}
		ns := r.GroupStart.UnixNano()
		g := a.groups[ns]
		if g == nil {
			g = &Group{Status: spans.RunStatusOpen}
			g.Missing = true
			g.Start = r.GroupStart
			g.Defects = append(g.Defects, Defect{Code: spans.DefectGroupSpanMissing})
			a.groups[ns] = g
			s.Groups = append(s.Groups, g)
		}
		if g.Missing && r.GroupRole != spans.GroupRoleJudge {
			g.Members = append(g.Members, r.ID)
		}
	}
	slices.SortFunc(s.Groups, func(x, y *Group) int { return x.Start.Compare(y.Start) })
	a.service()
	a.missingRuns()
	a.cutCycles()
	s.CheckChildren(func(sessionID, runID string) bool {
		return sessionID != s.ID || len(a.runByID[runID]) > 0
	})
	switch {
	case len(s.Runs) > 0:
		s.Start = s.Runs[0].Start
	case len(s.Groups) > 0:
		s.Start = s.Groups[0].Start
	}
	if a.now > 0 {
		s.Last = nsTime(a.now)
	}
	s.Status = s.status()
}

func compareRuns(x, y *Run) int {
	return cmp.Or(x.Start.Compare(y.Start), strings.Compare(x.ID, y.ID))
}

// service takes service.name from the earliest row that has one.
func (a *assembler) service() {
	var from *Row
	for i := range a.entries {
		r := a.entries[i].row
		if r.Service == "" {
			continue
		}
		if from == nil || cmp.Or(cmp.Compare(r.RunStart, from.RunStart), cmp.Compare(r.Start, from.Start), strings.Compare(r.Service, from.Service)) < 0 {
			from = r
		}
	}
	if from != nil {
		a.s.Service = from.Service
	}
}

// missingRuns names the gaps among the numbers of runs. Each process counts its own from 1.
func (a *assembler) missingRuns() {
	slices.SortFunc(a.ordinals, func(x, y ordinal) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.n, y.n)) })
	for l := a.ordinals; len(l) > 0; {
		var gaps ranges
		from := l[0].from
		for ; len(l) > 0 && l[0].from == from; l = l[1:] {
			gaps.seen(l[0].n)
		}
		if gaps.total > 0 {
			a.s.Defects = append(a.s.Defects, Defect{Code: spans.DefectRunMissing, Detail: "number " + gaps.String() + " of " + strconv.FormatInt(gaps.last, 10)})
		}
	}
}

// cutCycles cuts, in every ring of runs that name each other as parents, the link of the earliest one.
func (a *assembler) cutCycles() {
	const (
		walking = 1
		done    = 2
	)
	state := map[*Run]int{}
	for _, r := range a.s.Runs {
		var path []*Run
		for at := r; at != nil && state[at] != done; at = a.parent(at) {
			if state[at] == walking {
				from := slices.Index(path, at)
				first := slices.MinFunc(path[from:], compareRuns)
				first.ParentCut = true
				first.Defects = append(first.Defects, Defect{Code: spans.DefectParentCycle, Detail: strconv.Itoa(len(path)-from) + " runs"})
				break
			}
			state[at] = walking
			path = append(path, at)
		}
		for _, p := range path {
			state[p] = done
		}
	}
}

func (a *assembler) parent(r *Run) *Run { return parentOf(a.s.ID, r, a.runByID[r.ParentID]) }

// parentOf picks, among runs of the id that r names as its parent, sorted by start: the last one that started no later
// than r, else the first; never r itself.
func parentOf(sessionID string, r *Run, candidates []*Run) *Run {
	if r.ParentCut || r.ParentID == "" || r.ParentSessionID != "" && r.ParentSessionID != sessionID {
		return nil
	}
	// n is the number of candidates that started no later than r.
	n, _ := slices.BinarySearchFunc(candidates, r.Start, func(c *Run, start time.Time) int {
		if c.Start.After(start) {
			return 1
		}
		return -1
	})
	for i := n - 1; i >= 0; i-- {
		if candidates[i] != r {
			return candidates[i]
		}
	}
	if n < len(candidates) {
		return candidates[n]
	}
	return nil
}

// Parent returns the run of this session that r continues or was spawned by: of the runs with the id that r names, the last
// one that started no later than r, else the first. It returns nil when there is none, when the parent is in another
// session, and where a ring of parents was cut.
func (s *Session) Parent(r *Run) *Run {
	var candidates []*Run
	for _, c := range s.Runs {
		if c.ID == r.ParentID {
			candidates = append(candidates, c)
		}
	}
	return parentOf(s.ID, r, candidates)
}

// CheckChildren adds the observation child_not_seen to each tool call that names a child run for which seen returns false
// and that has none yet. Assemble does so for children in the session itself; for those in other sessions the caller must
// know which there are. An empty child session means the session itself.
func (s *Session) CheckChildren(seen func(sessionID, runID string) bool) {
	check := func(l []*ToolCall) {
		for _, t := range l {
			if t.ChildRunID == "" {
				continue
			}
			in := cmp.Or(t.ChildSessionID, s.ID)
			if !seen(in, t.ChildRunID) && !slices.ContainsFunc(t.Defects, func(d Defect) bool { return d.Code == spans.DefectChildNotSeen }) {
				t.Defects = append(t.Defects, Defect{Code: spans.DefectChildNotSeen, Detail: t.ChildRunID})
			}
		}
	}
	for _, r := range s.Runs {
		check(r.ToolCalls)
		for _, t := range r.Turns {
			check(t.ToolCalls)
		}
	}
}

// status says what the session is doing.
func (s *Session) status() spans.SessionStatus {
	if len(s.Runs) == 0 {
		return spans.SessionStatusIdle
	}
	open := false
	for _, r := range s.Runs {
		if r.Status != spans.RunStatusOpen {
			continue
		}
		open = true
		waits := func(l []*Permission) bool {
			return slices.ContainsFunc(l, func(p *Permission) bool { return p.Known == spans.KnownLive })
		}
		if waits(r.Permissions) {
			return spans.SessionStatusWaitingOnApproval
		}
		for _, t := range r.Turns {
			if waits(t.Permissions) || slices.ContainsFunc(t.ToolCalls, func(c *ToolCall) bool { return waits(c.Permissions) }) {
				return spans.SessionStatusWaitingOnApproval
			}
		}
	}
	last := s.Runs[len(s.Runs)-1]
	switch {
	case open:
		if n := len(last.Turns); last.Status == spans.RunStatusOpen && n > 0 {
			if t := last.Turns[n-1]; t.Known == spans.KnownLive && t.Attempts > 1 {
				return spans.SessionStatusRetrying
			}
		}
		return spans.SessionStatusBusy
	case last.Status == spans.RunStatusError:
		return spans.SessionStatusError
	case last.Status == spans.RunStatusAborted:
		return spans.SessionStatusAborted
	}
	return spans.SessionStatusIdle
}

// ranges says which numbers are missing among those seen, which ascend.
type ranges struct {
	last  int64 // greatest number seen; at first the one before the first that there should be
	text  []byte
	n     int
	total int64 // how many numbers are missing
}

func (r *ranges) seen(n int64) {
	if r.last < n-1 { // n is not negative
		r.add(r.last+1, n-1)
	}
	r.last = max(r.last, n)
}

func (r *ranges) add(from, to int64) {
	r.total += to - from + 1
	r.n++
	switch {
	case r.n > 16:
		if r.n == 17 {
			r.text = append(r.text, ", ..."...)
		}
		return
	case r.n > 1:
		r.text = append(r.text, ", "...)
	}
	r.text = strconv.AppendInt(r.text, from, 10)
	if to > from {
		r.text = append(r.text, '-')
		r.text = strconv.AppendInt(r.text, to, 10)
	}
}

func (r *ranges) String() string { return string(r.text) }
