package session

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// Assemble in four files: assemble.go sorts rows by address and puts what they describe in its place, merge.go picks
// among several rows of one address, build.go builds one part of the tree from one row, and finish.go does what needs
// all runs.

// Assemble returns the tree of one session from its rows. It is a pure function of the set of rows: order and
// duplicates change nothing, and it reads no clock. It only reads the rows; the tree shares their strings.
//
// Rows of one key (trace id, span id) count once: the one that Supersedes prefers. Rows of one address
// (spans/README.md) describe one part of the tree. The preferred row decides, its missing lists come from
// the others, and the run gets one defect recorded_twice. Assemble reports missing rows as a Defect where they are
// missing, and guesses nothing. Without rows the session is empty.
//
// If the rows belong to several sessions, only those of the least key count; see AssembleAll.
func Assemble(rows []Row) *Session {
	if all := AssembleAll(rows); len(all) > 0 {
		return all[0]
	}
	return &Session{Format: TreeFormat, Status: spans.SessionStatusIdle, Runs: []*Run{}}
}

// AssembleAll returns the tree of every session that rows belong to, by tenant, then id.
func AssembleAll(rows []Row) (out []*Session) {
	bySession := map[Key][]*Row{}
	for i, n := 0, 0; i < len(rows); i = n {
		k := rows[i].Session
		l := bySession[k]
		for n = i; n < len(rows) && rows[n].Session == k; n++ {
			l = append(l, &rows[n])
		}
		bySession[k] = l
	}
	for _, k := range slices.SortedFunc(maps.Keys(bySession), func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
	}) {
		out = append(out, assemble(k, bySession[k]))
	}
	return out
}

// entry is a row with the parts of its address that are attributes, and with the rows that add to it.
type entry struct {
	row      *Row
	payloads []*Row // carry more of its lists and events, in their order
	others   []*Row // of the same address, the preferred one first, with their payloads
	word     string // call id, compaction kind, run kind
	ordinal  int64
	// turnStart separates turns of one index; 0 unless an index is used twice.
	turnStart int64
}

// ordinal is the number of a run, and the start of the run that has number 1 in its process.
type ordinal struct{ from, n int64 }

// spanKey names a span: senders choose span ids, which are unique in a trace at most.
type spanKey struct {
	trace TraceID
	span  SpanID
}

// assembler is one call of Assemble.
type assembler struct {
	s        *Session
	entries  []entry
	index    *listIndex
	resolved int64 // items shown beyond those on the wire
	now      int64 // latest time seen

	counters        counters           // of the current part
	toolPermissions int64              // counts.permissions of the current tool calls
	requests        map[int64]*Request // of the current turn, by attempt

	runByID  map[string][]*Run
	groups   map[int64]*Group
	ordinals []ordinal
	twice    int     // rows of one address beyond the first, of the current run
	trace    TraceID // of the preferred row of the run
	madeUp   bool
}

// assemble builds the tree of the session key from its rows.
func assemble(key Key, rows []*Row) *Session {
	a := &assembler{
		s:       &Session{Format: TreeFormat, Tenant: key.Tenant, ID: key.ID, Runs: []*Run{}},
		runByID: map[string][]*Run{},
		groups:  map[int64]*Group{}, requests: map[int64]*Request{},
	}
	a.collect(rows)
	a.facts()
	for i := range a.entries {
		a.address(&a.entries[i])
	}
	slices.SortFunc(a.entries, compareEntries)
	a.index = newListIndex(a.entries)
	for l := range sections(a.entries, func(x, y *entry) bool {
		return x.row.Run == y.row.Run && x.row.RunStart == y.row.RunStart
	}) {
		a.run(l)
	}
	a.finish()
	return a.s
}

// sections yields the stretches of l whose entries belong together.
func sections(l []entry, together func(x, y *entry) bool) iter.Seq[[]entry] {
	return func(yield func([]entry) bool) {
		for len(l) > 0 {
			n := 1
			for n < len(l) && together(&l[0], &l[n]) {
				n++
			}
			if !yield(l[:n]) {
				return
			}
			l = l[n:]
		}
	}
}

// collect keeps one row of each key, and moves payload rows into the entry of their parent.
func (a *assembler) collect(rows []*Row) {
	seen := make(map[spanKey]int, len(rows))
	a.entries = make([]entry, 0, len(rows))
	for _, r := range rows {
		if r.Kind == KindUnknown || r.Kind > KindPayload || r.Kind == KindTurn && r.Turn < 0 {
			continue
		}
		if r.Turn != NoTurn && (r.Kind == KindRun || r.Turn < 0) {
			plain := *r
			plain.Turn = NoTurn
			r = &plain
		}
		k := spanKey{r.Trace, r.Span}
		if at, ok := seen[k]; !ok {
			seen[k] = len(a.entries)
			a.entries = append(a.entries, entry{row: r})
		} else if Supersedes(r, a.entries[at].row) {
			a.entries[at].row = r
		}
	}
	for i := range a.entries {
		r := a.entries[i].row
		at, ok := seen[spanKey{r.Trace, r.Parent}]
		if ok && r.Kind == KindPayload && takesPayload(a.entries[at].row, r) {
			a.entries[at].payloads = append(a.entries[at].payloads, r)
			a.entries[i].row = nil
		}
	}
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.row == nil })
	for i := range a.entries {
		slices.SortFunc(a.entries[i].payloads, comparePayloads)
	}
}

// takesPayload reports whether a payload row adds to its parent r. One of a run or turn has the address of that itself.
func takesPayload(r, payload *Row) bool {
	if r == nil || r.Run != payload.Run || r.RunStart != payload.RunStart {
		return false
	}
	switch r.Kind {
	case KindToolCall, KindCompaction, KindPermission:
		return true
	case KindRun:
		return r.Attr(spans.RunKindKeyKey).Text() == string(spans.RunKindParallel)
	}
	return false
}

// facts takes the facts of the session. Rows that belong to no run have nothing else, and no entry.
func (a *assembler) facts() {
	facts := &a.s.Facts
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool {
		r := e.row
		for _, f := range r.Facts {
			a.now = max(a.now, f.Time)
			*facts = append(*facts, Fact{Subject: f.Subject, Key: f.Key, At: nsTime(f.Time), Value: refOf(f.Value), Seq: f.Seq})
		}
		return r.Kind == KindPayload && r.Run == "" && r.RunStart == 0
	})
	value := func(f Fact) string { return cmp.Or(f.Value, &Ref{}).Block }
	slices.SortFunc(*facts, func(x, y Fact) int {
		return cmp.Or(strings.Compare(x.Subject, y.Subject), strings.Compare(x.Key, y.Key), x.At.Compare(y.At),
			cmp.Compare(x.Seq, y.Seq), strings.Compare(value(x), value(y)))
	})
	// The same fact from several spans, or stated again, is one.
	*facts = slices.CompactFunc(*facts, func(x, y Fact) bool {
		return x.Subject == y.Subject && x.Key == y.Key && x.At.Equal(y.At) && value(x) == value(y)
	})
}

// address reads the parts of an address that are attributes, the number of the run, and the latest time.
func (a *assembler) address(e *entry) {
	r := e.row
	switch r.Kind {
	case KindRun, KindTurn:
		e.word = r.Attr(spans.RunKindKeyKey).Text()
		o := ordinal{r.Attr(spans.RunOrdinalFromKey).IntOr(0), r.Attr(spans.RunOrdinalKey).IntOr(0)}
		if n := len(a.ordinals); o.n > 0 && (n == 0 || a.ordinals[n-1] != o) {
			a.ordinals = append(a.ordinals, o)
		}
	case KindToolCall, KindPermission:
		e.word, e.ordinal = r.Attr(spans.ToolCallIDKey).Text(), r.Attr(spans.OrdinalKey).IntOr(0)
	case KindCompaction:
		e.word, e.ordinal = r.Attr(spans.CompactionKindKeyKey).Text(), r.Attr(spans.OrdinalKey).IntOr(0)
	}
	a.now = max(a.now, r.Start, r.End)
	e.each(func(r *Row) {
		for i := range r.Events {
			a.now = max(a.now, r.Events[i].Time)
		}
	})
}

// each calls f for the row and its payloads.
func (e *entry) each(f func(*Row)) {
	f(e.row)
	for _, r := range e.payloads {
		f(r)
	}
}

// compareEntries orders by address; of rows of one address the preferred one comes first.
func compareEntries(a, b entry) int {
	x, y := a.row, b.row
	if x.Run != y.Run {
		return strings.Compare(x.Run, y.Run)
	}
	// Most rows differ in the first: cmp.Or compares all that it is given.
	if c := cmp.Or(cmp.Compare(x.RunStart, y.RunStart), cmp.Compare(x.Turn, y.Turn)); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(a.turnStart, b.turnStart), cmp.Compare(x.Kind, y.Kind), compareSiblings(&a, &b)); c != 0 {
		return c
	}
	if x.Kind == KindPayload {
		return comparePayloads(x, y)
	}
	return comparePreferred(x, y)
}

func comparePayloads(x, y *Row) int {
	if c := cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.Start, y.Start)); c != 0 {
		return c
	}
	return comparePreferred(x, y)
}

// compareSiblings compares the parts of an address that separate spans of one kind in one turn or run.
func compareSiblings(a, b *entry) int {
	switch a.row.Kind {
	case KindRun:
		// A group and a run share an address only if a producer gives no run ids.
		return cmp.Compare(boolByte(a.isGroup()), boolByte(b.isGroup()))
	case KindTurn:
		return cmp.Compare(a.row.Start, b.row.Start)
	case KindCompaction:
		return cmp.Or(strings.Compare(a.word, b.word), cmp.Compare(a.row.Start, b.row.Start),
			cmp.Compare(a.ordinal, b.ordinal))
	case KindToolCall, KindPermission:
		return cmp.Or(strings.Compare(a.word, b.word), cmp.Compare(a.ordinal, b.ordinal))
	}
	return 0
}

func (e *entry) isGroup() bool {
	return e.row.Kind == KindRun && e.word == string(spans.RunKindParallel)
}

// take cuts off the entries of one kind from the front of l.
func take(l []entry, k Kind) (head, rest []entry) {
	n := 0
	for n < len(l) && l[n].row.Kind == k {
		n++
	}
	return l[:n], l[n:]
}

// run builds the run, the group or both that l describes: all rows of one run id and start.
func (a *assembler) run(l []entry) {
	a.trace = l[0].row.Trace
	a.twice = 0
	own, rest := take(l, KindRun) // first, since they have no turn
	var run *Run
	var group *Group
	var c counters
	for _, e := range a.mergeAll(own) {
		if e.isGroup() {
			group = a.group(&e)
		} else {
			run, c = a.ownRun(&e)
		}
	}
	if group != nil && run == nil && len(rest) == 0 {
		group.twice(a.twice)
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
	got := a.children(rest[:turn])
	run.ToolCalls, run.Compactions, run.Permissions = got.tools, got.compactions, got.outside()
	a.payloads(run, got.payloads)
	c.check(&run.Remarks, &got)
	for l := range sections(rest[turn:], func(x, y *entry) bool { return x.row.Turn == y.row.Turn }) {
		a.turnsOfIndex(run, l)
	}
	run.sum()
	if c.final && c.Turns > int64(len(run.Turns)) {
		run.defect(spans.DefectTurnsMissing, turnsMissing(run, c.Turns))
	}
	run.twice(a.twice)
}

// sum adds up the usage of a run's turns. If none reports any, the loop's own sum is all that is known.
func (r *Run) sum() {
	reported := false
	for _, t := range r.Turns {
		r.Usage.Add(t.Usage)
		reported = reported || t.UsageReported()
		add(&r.Discarded, t.Discarded)
	}
	for n := range r.Walk() {
		if n.Compaction != nil {
			add(&r.CompactionUsage, n.Compaction.Usage)
		}
	}
	if !reported && r.RollUp != nil {
		r.Usage = *r.RollUp
	}
}

// add adds u to *sum; nil is unknown.
func add(sum **Usage, u *Usage) {
	if u != nil {
		need(sum).Add(*u)
	}
}

// turnsMissing names the missing indices if they follow from those that arrived, else their number.
func turnsMissing(r *Run, want int64) string {
	detail := fmt.Sprintf("%d of %d turns arrived", len(r.Turns), want)
	gaps := ranges{last: -1}
	for _, t := range r.Turns {
		gaps.seen(t.Index)
	}
	if gaps.last < want {
		gaps.seen(want) // as if there was a turn after the last
	}
	if gaps.total == want-int64(len(r.Turns)) {
		detail += "; missing: " + string(gaps.text)
	}
	return detail
}

// children are the spans of a turn, or of a run outside any turn.
type children struct {
	tools       []*ToolCall
	compactions []*Compaction
	permissions []*Permission
	payloads    []*Row
	// counted is the number of permission evaluations that the tool calls counted.
	counted int64
}

// children builds the children that l describes: sorted rows of one turn, or of a run outside any turn.
func (a *assembler) children(l []entry) children {
	var c children
	part, l := take(l, KindCompaction)
	c.compactions = siblings(a, part, a.compaction)
	part, l = take(l, KindPermission)
	c.permissions = siblings(a, part, a.permission)
	part, l = take(l, KindToolCall)
	c.tools = siblings(a, part, a.tool)
	c.counted, a.toolPermissions = a.toolPermissions, 0
	part, _ = take(l, KindPayload)
	for i := range part {
		c.payloads = append(c.payloads, part[i].row)
	}
	return c
}

// siblings builds one part of each address in l, in order: by start, then seq, then address.
func siblings[T part](a *assembler, l []entry, build func(*entry) T) []T {
	if len(l) == 0 {
		return nil
	}
	l = a.mergeAll(l)
	out := make([]T, len(l))
	for i := range l {
		out[i] = build(&l[i])
	}
	slices.SortStableFunc(out, func(x, y T) int {
		a, b := x.span(), y.span()
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

// outside puts each permission evaluation into the first tool call that it names, and returns those that name none.
func (c *children) outside() (rest []*Permission) {
	byID := map[string]*ToolCall{}
	if len(c.permissions) > 0 {
		for _, t := range slices.Backward(c.tools) {
			byID[t.ID] = t
		}
	}
	for _, p := range c.permissions {
		if t := byID[p.CallID]; p.CallID != "" && t != nil {
			t.Permissions = append(t.Permissions, p)
		} else {
			rest = append(rest, p)
		}
	}
	return rest
}

// turnsOfIndex builds the turns of one index of a run; mostly there is one.
func (a *assembler) turnsOfIndex(run *Run, l []entry) {
	own, rest := take(l, KindTurn)
	if isOneTurn(own) {
		slices.SortFunc(own, func(x, y entry) int { return comparePreferred(x.row, y.row) })
		a.turn(run, own, rest)
		return
	}
	// A child belongs to the turn of its parent, which may be a tool call, else to the last turn that started before
	// it.
	parents := map[spanKey]*Row{}
	for i := range l {
		if r := l[i].row; r.Kind == KindTurn || r.Kind == KindToolCall {
			parents[spanKey{r.Trace, r.Span}] = r
		}
	}
	starts := make([]int64, len(own))
	for i := range own {
		starts[i] = own[i].row.Start
	}
	turnOf := func(r *Row) int64 {
		parent := parents[spanKey{r.Trace, r.Parent}]
		if parent != nil && parent.Kind == KindToolCall && r.Kind != KindToolCall {
			r = parent
			parent = parents[spanKey{r.Trace, r.Parent}]
		}
		if parent != nil && parent.Kind == KindTurn {
			return parent.Start
		}
		after, _ := slices.BinarySearch(starts, r.Start+1)
		return starts[max(0, after-1)]
	}
	for i := range l {
		if l[i].turnStart = l[i].row.Start; l[i].row.Kind != KindTurn {
			l[i].turnStart = turnOf(l[i].row)
		}
	}
	slices.SortFunc(l, compareEntries)
	for l := range sections(l, func(x, y *entry) bool { return x.turnStart == y.turnStart }) {
		own, rest := take(l, KindTurn)
		a.turn(run, own, rest)
	}
}

// turn builds one turn from its own rows, of which there may be none, and those of its children.
func (a *assembler) turn(run *Run, own, rest []entry) {
	var t *Turn
	var c counters
	clear(a.requests)
	if len(own) > 0 {
		e := a.merge(own)
		t, c = a.ownTurn(&e)
	} else {
		t = a.inferTurn(run, rest)
	}
	got := a.children(rest)
	t.ToolCalls, t.Compactions, t.Permissions = got.tools, got.compactions, got.outside()
	a.payloads(t, got.payloads)
	slices.SortFunc(t.Requests, func(x, y *Request) int { return cmp.Compare(x.Attempt, y.Attempt) })
	for i, q := range t.Requests {
		q.redacted = t.Redacted > 0
		if i == len(t.Requests)-1 {
			q.stated = t.RequestBytes
			if q.Messages != nil && t.RequestMessages == 0 {
				t.RequestMessages = q.Messages.Count
			}
		}
	}
	if t.Capture == "" { // a turn states only what differs from content
		t.Capture = run.Capture
		if t.Input != nil || t.Output != nil || t.Results != nil || len(t.Requests) > 0 {
			t.Capture = spans.CaptureContent
		}
	}
	c.check(&t.Remarks, &got)
	run.Turns = append(run.Turns, t)
}
