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

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// Assemble in three files: assemble.go puts rows in their places, things.go builds one thing of one row, whole.go does what
// needs all runs.

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
	prefixed bool   // some list has a prefix
	index    *listIndex
	resolved int64 // items shown beyond those on the wire
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
	twice    int     // rows of one address beyond the first, of the run at hand
	telling  TraceID // what the run at hand is told by, where several tell of it
	sink     Run     // takes header attributes that are not needed
	made     bool    // session id made up
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
	if a.prefixed {
		a.index = newListIndex(a.entries)
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

// facts takes the facts of the session, and takes the rows that state them out of the entries: they belong to no run.
func (a *assembler) facts() {
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool {
		r := e.row
		for i := range r.Facts {
			f := &r.Facts[i]
			a.now = max(a.now, f.Time)
			fact := Fact{Subject: f.Subject, Key: f.Key, At: nsTime(f.Time), Seq: f.Seq}
			if f.Value != "" {
				fact.Value = &Ref{Block: f.Value}
			}
			a.s.Facts = append(a.s.Facts, fact)
		}
		return r.Kind == KindPayload && r.Run == "" && r.RunStart == 0
	})
	value := func(f *Fact) string {
		if f.Value == nil {
			return ""
		}
		return f.Value.Block
	}
	slices.SortFunc(a.s.Facts, func(x, y Fact) int {
		return cmp.Or(strings.Compare(x.Subject, y.Subject), strings.Compare(x.Key, y.Key), x.At.Compare(y.At), cmp.Compare(x.Seq, y.Seq),
			strings.Compare(value(&x), value(&y)))
	})
	// The same fact from several spans, or stated again, is one.
	a.s.Facts = slices.CompactFunc(a.s.Facts, func(x, y Fact) bool {
		return x.Subject == y.Subject && x.Key == y.Key && x.At.Equal(y.At) && value(&x) == value(&y)
	})
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
	a.fold(seen)
	clear(seen)
	a.facts()

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
			a.prefixed = a.prefixed || r.Lists[j].Prefix != ""
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
	case preferred(x, y):
		return -1
	case preferred(y, x):
		return 1
	}
	return 0
}

// preferred reports whether x is the row that a thing is made of where both tell of it: as Supersedes says, but of two whose ends are
// known alike the one that is told from events.
func preferred(x, y *Row) bool {
	if knownRank(x.Known) == knownRank(y.Known) {
		if a, b := saved(x), saved(y); a != b {
			return b
		}
	}
	return Supersedes(x, y)
}

// saved reports whether the row tells what a loop or host saved, rather than the events.
func saved(r *Row) bool { return !r.Attr(spans.RecordingKindKey).IsZero() }

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

// fill adds to the thing what only other rows of the same address tell, the preferred one first: lists, and attributes that say nothing of
// its end. A ledger without requests is completed by the events of a run that was cut off, and the other way round.
func (a *assembler) fill(e *entry, others []entry) {
	r := e.row
	if partial(r) && slices.ContainsFunc(others, func(o entry) bool { return !partial(o.row) && hasOutput(o.row) }) {
		r = a.withoutPartial(r)
	}
	type name struct {
		list    string
		attempt int64
	}
	var (
		attrs []Attr
		lists []*List
		told  map[name]bool // lists that an earlier row has
	)
	for i := range others {
		other := others[i].row
		for j := range other.Attrs {
			at := &other.Attrs[j]
			if r.Attr(attribute.Key(at.Key)).IsZero() && !ofOneTelling[at.Key] {
				attrs = append(attrs, *at)
			}
		}
		if told == nil && len(other.Lists) > 0 {
			told = make(map[name]bool, len(r.Lists)+len(other.Lists))
			for j := range r.Lists {
				told[name{r.Lists[j].Name, r.Lists[j].Attempt}] = true
			}
		}
		before := len(lists)
		for j := range other.Lists {
			l := &other.Lists[j]
			if told[name{l.Name, l.Attempt}] || l.Name == spans.ListOutput && partial(other) && !partial(r) {
				continue
			}
			lists = append(lists, l)
		}
		for _, l := range lists[before:] {
			told[name{l.Name, l.Attempt}] = true
		}
	}
	if len(attrs) == 0 && len(lists) == 0 {
		e.row = r
		return
	}
	whole := *r
	if len(attrs) > 0 {
		slices.SortStableFunc(attrs, func(x, y Attr) int { return strings.Compare(x.Key, y.Key) })
		attrs = slices.CompactFunc(attrs, func(x, y Attr) bool { return x.Key == y.Key })
		whole.Attrs = slices.Concat(r.Attrs, attrs)
		slices.SortFunc(whole.Attrs, func(x, y Attr) int { return strings.Compare(x.Key, y.Key) })
	}
	if len(lists) > 0 {
		whole.Lists = append(make([]List, 0, len(r.Lists)+len(lists)), r.Lists...)
		for _, l := range lists {
			whole.Lists = append(whole.Lists, *l)
		}
		for i := range whole.Lists { // the index knows lists by where they are
			if i < len(r.Lists) {
				a.index.same(&whole.Lists[i], &r.Lists[i])
			} else {
				a.index.same(&whole.Lists[i], lists[i-len(r.Lists)])
			}
		}
	}
	e.row = &whole
}

// partial reports whether the row is of a turn whose output is only what had come of it by then.
func partial(r *Row) bool {
	p, _ := r.Attr(spans.PartialKey).Bool()
	return p && r.Kind == KindTurn
}

func hasOutput(r *Row) bool {
	return slices.ContainsFunc(r.Lists, func(l List) bool { return l.Name == spans.ListOutput })
}

// withoutPartial returns r without the output that it has a part of.
func (a *assembler) withoutPartial(r *Row) *Row {
	rest := *r
	rest.Attrs = slices.DeleteFunc(slices.Clone(r.Attrs), func(a Attr) bool { return a.Key == string(spans.PartialKey) || a.Key == PartialOutputKey })
	rest.Lists = make([]List, 0, len(r.Lists))
	for i := range r.Lists {
		if r.Lists[i].Name != spans.ListOutput {
			rest.Lists = append(rest.Lists, r.Lists[i])
			a.index.same(&rest.Lists[len(rest.Lists)-1], &r.Lists[i])
		}
	}
	return &rest
}

// ofOneTelling are attributes that belong to how a row tells of a thing, or to the end that it saw: they are not taken from others.
var ofOneTelling = func() map[string]bool {
	m := map[string]bool{}
	for _, k := range []attribute.Key{
		spans.StartTimeKey, spans.EndTimeKey, spans.RecordingKindKey, spans.RunInferredKey, spans.RunCopiedKey,
		spans.RunOrdinalKey, spans.RunOrdinalFromKey, spans.EventsDroppedKey, spans.RunDefectsKey,
		spans.ErrorTypeKeyKey, spans.ErrorMessageKey, spans.RunStatusKeyKey, spans.RunStatusWordKey, spans.RunRejectedKey, spans.RunRejectionKey,
		spans.CountTurnsKey, spans.CountToolCallsKey, spans.CountCompactionsKey, spans.CountPermissionsKey,
		spans.CaptureLevelKey, spans.CaptureWithheldKey, spans.RedactedKey,
		spans.LiveHeartbeatKey, spans.PartialKey, spans.WaitingForKey, spans.RepliedKey,
		PartialOutputKey,
	} {
		m[string(k)] = true
	}
	return m
}()

// alike reports whether the rows of turns with two starts tell of one turn, once from events and once from what was saved. Each of a kind
// has one start then.
func alike(own []entry) bool {
	starts := map[bool]int64{}
	for i := range own {
		r := own[i].row
		if start, ok := starts[saved(r)]; ok && start != r.Start {
			return false
		}
		starts[saved(r)] = r.Start
	}
	if len(starts) != 2 {
		return false
	}
	for i := range own {
		if r := own[i].row; saved(r) {
			moved := *r
			moved.Start = starts[false]
			if r.End >= r.Start { // saved times are coarser: the end of a short turn may be said to be before its start in the events
				moved.End = max(r.End, moved.Start)
			}
			own[i].row = &moved
		}
	}
	slices.SortFunc(own, compareEntries)
	return true
}

// things returns the preferred row of each address in l, which is of one kind, sorted. Payload rows are all kept.
func (a *assembler) things(l []entry) []entry {
	out := l[:0]
	for i := 0; i < len(l); {
		first, n := l[i], 1
		for first.row.Kind != KindPayload && i+n < len(l) && compareThings(&first, &l[i+n]) == 0 {
			n++
		}
		if n > 1 {
			a.twice += n - 1
			a.preferTelling(l[i : i+n])
			first = l[i]
			a.fill(&first, l[i+1:i+n])
		}
		out = append(out, first)
		i += n
	}
	return out
}

// preferTelling moves the row of a thing that is of the run's telling to the front, unless another knows better how the thing ended. The
// times of two tellings are of two clocks: things taken from both would stand in the order of neither.
func (a *assembler) preferTelling(same []entry) {
	best := same[0].row
	for i := range same {
		r := same[i].row
		if knownRank(r.Known) != knownRank(best.Known) || saved(r) != saved(best) {
			return // and so are those behind
		}
		if r.Trace == a.telling {
			e := same[i]
			copy(same[1:i+1], same[:i])
			same[0] = e
			return
		}
	}
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
	// A run row has no turn, so run rows come first; of several the preferred one.
	a.telling = l[0].row.Trace
	own, rest := take(l, KindRun)
	var run *Run
	var group *Group
	var f aside
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
	a.sum(run)
	if want := f.counts[countTurns]; f.counted && want > int64(len(run.Turns)) {
		run.Defects = append(run.Defects, Defect{Code: spans.DefectTurnsMissing, Detail: turnsMissing(run, want)})
	}
	if a.twice > 0 {
		run.Defects = append(run.Defects, twiceDefect(a.twice))
	}
}

// sum adds up the usage of a run's turns. Where none reports any the loop's own sum is all that is known.
func (a *assembler) sum(run *Run) {
	reported := false
	for _, t := range run.Turns {
		run.Usage.Add(t.Usage)
		reported = reported || t.Reported != nil || t.Usage != Usage{}
		if t.Discarded != nil {
			need(&run.Discarded).Add(*t.Discarded)
		}
	}
	if !reported && run.RollUp != nil {
		run.Usage = *run.RollUp
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
	if starts == 2 && alike(own) {
		starts = 1
	}
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
	var f aside
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
		// Of what went ahead twice the later counts: a request that was told again for its attempt.
		a.turnLists(t, c.payloads[len(c.payloads)-1-i].row)
		t.Events = a.notes(t.Events, c.payloads[i].row)
	}
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
	f.check(&t.Defects, &c)
	run.Turns = append(run.Turns, t)
}
