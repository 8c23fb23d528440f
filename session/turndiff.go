package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// turn compares two turns of two runs, either of which may be nil.
func (d *differ) turn(runA, runB *Run, a, b *Turn) TurnDiff {
	out := TurnDiff{A: d.a.turn(runA, a), B: d.b.turn(runB, b)}
	t := turnDiffer{differ: d, a: a, b: b, runA: runA, runB: runB, out: &out}
	t.said()
	t.asked()
	t.calls()
	switch {
	case a == nil:
		out.State = DiffOnlyB
	case b == nil:
		out.State = DiffOnlyA
	default:
		t.request()
		t.compaction()
		t.outcome()
		t.usage()
		slices.SortFunc(out.Parts, func(x, y DiffPart) int { return slices.Index(DiffParts, x) - slices.Index(DiffParts, y) })
		out.State = stateOf(out.Parts, out.NotCompared)
		return out
	}
	out.Parts, out.NotCompared = nil, nil
	return out
}

func (s *diffed) turn(r *Run, t *Turn) *DiffTurn {
	if t == nil {
		return nil
	}
	return &DiffTurn{
		Address: s.turnAddress(r, t), Run: s.numbers[r], Index: t.Index, Start: t.Start, TookNS: between(t.Start, t.End), Model: cmp.Or(t.Answered, t.Model),
		StopReason: t.StopReason, Failed: t.Failed, Usage: t.Usage, Cost: t.Cost, Currency: t.Currency, Messages: t.RequestMessages, Calls: len(t.ToolCalls),
		PromptDigest: t.PromptDigest, ToolsDigest: t.ToolsDigest, Capture: t.Capture, Hidden: !s.history.Hidden(t).IsZero(),
	}
}

// turnDiffer compares one pair of turns. a or b may be nil.
type turnDiffer struct {
	*differ
	a, b       *Turn
	runA, runB *Run
	out        *TurnDiff
}

func (t *turnDiffer) differs(part DiffPart) {
	if !slices.Contains(t.out.Parts, part) {
		t.out.Parts = append(t.out.Parts, part)
	}
}

func (t *turnDiffer) unknown(l ...DiffUnknown) {
	for _, u := range l {
		if !t.ignored[u.Part] && !slices.Contains(t.out.NotCompared, u) {
			t.out.NotCompared = append(t.out.NotCompared, u)
		}
	}
}

// lost says of which turns only the children arrived.
func (t *turnDiffer) lost() (DiffUnknown, bool) {
	a, b := t.a != nil && t.a.Missing, t.b != nil && t.b.Missing
	return DiffUnknown{Why: DiffMissing, Side: sides(a, b)}, a || b
}

func sides(a, b bool) string {
	switch {
	case a && b:
		return "both"
	case a:
		return "a"
	}
	return "b"
}

// said compares what was new for the model, and what it said.
func (t *turnDiffer) said() {
	if u, lost := t.lost(); lost {
		u.Part = DiffReply
		t.unknown(u)
		return
	}
	var inA, inB, outA, outB texts
	if t.a != nil {
		inA, outA = t.differ.a.told(t.runA, t.a), t.differ.a.texts(t.a.Output, t.a.Capture)
	}
	if t.b != nil {
		inB, outB = t.differ.b.told(t.runB, t.b), t.differ.b.texts(t.b.Output, t.b.Capture)
	}
	if !t.ignored[DiffInput] {
		l, unknown := t.texts(inA, inB)
		if t.out.Input = l; len(l) > 0 {
			t.differs(DiffInput)
		}
		if unknown != nil {
			t.unknown(unknown.of(DiffInput)...)
		}
	}
	leave := func(x texts, name string) texts {
		x.without = append(x.without, name)
		return x
	}
	switch {
	case t.ignored[DiffReply] && t.ignored[DiffThinking]:
		return
	case t.ignored[DiffThinking]:
		outA, outB = leave(outA, string(SaidThinking)), leave(outB, string(SaidThinking))
	case t.ignored[DiffReply]:
		outA.only, outB.only = string(SaidThinking), string(SaidThinking)
	}
	l, unknown := t.texts(outA, outB)
	t.out.Output = l
	for i := range l {
		if l[i].Name == string(SaidThinking) {
			t.differs(DiffThinking)
		} else {
			t.differs(DiffReply)
		}
	}
	if unknown != nil {
		part := DiffReply
		if t.ignored[part] {
			part = DiffThinking
		}
		t.unknown(unknown.of(part)...)
	}
}

// texts is a list of messages of one side.
type texts struct {
	there   bool // the side has such a turn
	refs    *Refs
	blocks  *BlockSet
	capture spans.Capture
	only    string   // the name of those that count; empty: all
	without []string // names of those that do not
}

func (s *diffed) texts(refs *Refs, capture spans.Capture) texts {
	return texts{there: true, refs: refs, blocks: s.Blocks, capture: capture}
}

// blind says why nothing is known of a list that is not there; empty: there is nothing.
func (x *texts) blind() DiffWhy {
	if x.refs == nil && (x.capture == spans.CaptureNone || x.capture == "") {
		return DiffNotCaptured
	}
	return ""
}

// read returns what the messages say, or why that is not known.
func (x *texts) read(refs []Ref) (said []namedText, why DiffWhy) {
	for _, ref := range refs {
		body, ok := x.blocks.Body(ref)
		if !ok {
			return nil, bodyLost(x.blocks, ref, x.capture)
		}
		l, _ := readSaid(body)
		for _, s := range l {
			if slices.Contains(x.without, s.name) || x.only != "" && s.name != x.only {
				continue
			}
			if n := len(said); n > 0 && said[n-1].name == s.name && s.name != ByUser {
				said[n-1].text += "\n" + s.text // a reply in several parts
				continue
			}
			said = append(said, s)
		}
	}
	return said, ""
}

// bodyLost says why a body is not there.
func bodyLost(blocks *BlockSet, ref Ref, capture spans.Capture) DiffWhy {
	if capture == spans.CaptureDigests {
		return DiffDigestsOnly
	}
	if _, _, cut := blocks.Cut(ref); cut {
		return DiffWithheld
	}
	return DiffMissing
}

// unknownSides says why lists could not be compared, side by side.
type unknownSides struct{ a, b DiffWhy }

// of tells them of a part: once where the reason is the same.
func (u *unknownSides) of(part DiffPart) (l []DiffUnknown) {
	if u.a != "" {
		l = append(l, DiffUnknown{Part: part, Why: u.a, Side: sides(true, u.a == u.b)})
	}
	if u.b != "" && u.a != u.b {
		l = append(l, DiffUnknown{Part: part, Why: u.b, Side: sides(false, true)})
	}
	return l
}

// texts compares two lists of messages by what they say. Ids and times in them do not count.
func (d *differ) texts(x, y texts) ([]TextDiff, *unknownSides) {
	if u := (unknownSides{x.blind(), y.blind()}); x.there && y.there && u != (unknownSides{}) {
		return nil, &u
	}
	a, b := x.refs.From(0), y.refs.From(0)
	whole := func(r *Refs) bool { return r == nil || r.Complete }
	if !whole(x.refs) || !whole(y.refs) {
		u := unknownSides{}
		if !whole(x.refs) {
			u.a = DiffMissing
		}
		if !whole(y.refs) {
			u.b = DiffMissing
		}
		return nil, &u
	}
	// What both have by its digest needs no body.
	for len(a) > 0 && len(b) > 0 && a[0].Block == b[0].Block {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1].Block == b[len(b)-1].Block {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	was, whyA := x.read(a)
	is, whyB := y.read(b)
	if whyA != "" || whyB != "" {
		return nil, &unknownSides{whyA, whyB}
	}
	pairs := match(len(was), len(is),
		func(side, i int) string { // those that say the same first
			l := [][]namedText{was, is}[side]
			return l[i].name + "\x00" + l[i].text
		},
		func(side, i int) string { return [][]namedText{was, is}[side][i].name },
	)
	var out []TextDiff
	for _, p := range ordered(pairs, len(was), len(is)) {
		switch {
		case p.a < 0:
			out = append(out, d.compare(is[p.b].name, "", is[p.b].text))
		case p.b < 0:
			out = append(out, d.compare(was[p.a].name, was[p.a].text, ""))
		case was[p.a].text != is[p.b].text:
			out = append(out, d.compare(was[p.a].name, was[p.a].text, is[p.b].text))
		}
	}
	return out, nil
}

// askedCall is a call of a tool in a message, or what a tool gave back.
type askedCall struct {
	id, name, args, result string
	hasResult              bool
}

// readSaid parts what a message says into texts, under the names that differences have for them, and the calls and results of tools.
func readSaid(body string) (said []namedText, calls []askedCall) {
	for _, s := range Sayings(body) {
		switch s.Kind {
		case SaidCall:
			calls = append(calls, askedCall{id: s.ID, name: s.Name, args: s.JSON})
		case SaidResult:
			calls = append(calls, askedCall{id: s.ID, name: s.Name, result: s.JSON, hasResult: true})
		case SaidThinking:
			if s.Text != "" {
				said = append(said, namedText{s.Label(), s.Text})
			}
		case SaidFile:
			text := s.Text
			if s.Data != "" { // the bytes say nothing to eyes
				text = "[" + strconv.Itoa(len(s.Data)) + " characters of base64, " + spans.BlockOfString(s.Data).Short().String() + "]"
			}
			said = append(said, namedText{string(SaidFile), text})
		case SaidOther:
			said = append(said, namedText{cmp.Or(s.Type, s.By), canonical(s.JSON)})
		default:
			said = append(said, namedText{s.Label(), s.Text})
		}
	}
	return said, calls
}

// request compares system prompt, catalogue, and all other parameters.
func (t *turnDiffer) request() {
	if _, lost := t.lost(); lost {
		return
	}
	x, y := t.differ.a.lastRequest(t.a), t.differ.b.lastRequest(t.b)
	t.named(DiffSystem, spans.ProvenanceSystem, x, y, t.a.PromptDigest, t.b.PromptDigest, func(before, after string) []namedChange {
		return changedSystem(x, y, before, after)
	}, &t.out.System)
	t.named(DiffTools, spans.ProvenanceTools, x, y, t.a.ToolsDigest, t.b.ToolsDigest, changedTools, &t.out.Tools)
	t.params(x, y)
}

// lastRequest returns what was answered; its Request is nil where none was told.
func (s *diffed) lastRequest(t *Turn) heldRequest {
	h := heldRequest{blocks: s.Blocks}
	if n := len(t.Requests); n > 0 {
		h.Request = t.Requests[n-1]
	}
	return h
}

// paramsTold says whether it is known of which parts a request is made.
func (h *heldRequest) paramsTold() bool {
	return h.Request != nil && h.Params != nil && h.Params.Complete
}

// untold says why a part of the request is not known of one side: only the kind of capture tells a loop that says nothing from one of which
// nothing was kept.
func (t *turnDiffer) untold(part DiffPart, a, b bool) {
	why := func(told bool, c spans.Capture) DiffWhy {
		switch {
		case told:
			return ""
		case c == spans.CaptureNone || c == "":
			return DiffNotCaptured
		}
		return DiffNotTold
	}
	u := unknownSides{why(a, t.a.Capture), why(b, t.b.Capture)}
	if u == (unknownSides{DiffNotTold, DiffNotTold}) {
		return
	}
	t.unknown(u.of(part)...)
}

// named compares the system prompt or the catalogue.
func (t *turnDiffer) named(part DiffPart, kind spans.ProvenanceKind, x, y heldRequest, digestA, digestB string, changes func(before, after string) []namedChange, dst *[]TextDiff) {
	if t.ignored[part] {
		return
	}
	if !x.paramsTold() || !y.paramsTold() {
		switch {
		case digestA == "" || digestB == "":
			t.untold(part, digestA != "" || x.paramsTold(), digestB != "" || y.paramsTold())
		case digestA != digestB:
			t.once(part, digestA+" "+digestB, func() { *dst = []TextDiff{{Change: changeChanged, Digests: true, BlockA: digestA, BlockB: digestB}} })
		}
		return
	}
	before, after, changed, known := changedParam(x, y, kind)
	blockA, _, knownA := x.param(x.blocks, kind)
	blockB, _, knownB := y.param(y.blocks, kind)
	switch {
	case !known:
		if t.a.Capture == spans.CaptureContent && !knownA || t.b.Capture == spans.CaptureContent && !knownB { // they differ, and how was lost
			t.lostParam(part, knownA, knownB, x, y, kind)
		}
		t.once(part, blockA+" "+blockB, func() { *dst = []TextDiff{digestDiff(blockA, blockB)} })
	case changed:
		t.once(part, blockA+" "+blockB, func() {
			for _, c := range changes(before, after) {
				l := t.compare(c.name, c.before, c.after)
				l.Change = c.word()
				*dst = append(*dst, l)
			}
		})
	}
}

// lostParam notes that a body is not there.
func (t *turnDiffer) lostParam(part DiffPart, knownA, knownB bool, x, y heldRequest, kind spans.ProvenanceKind) {
	why := func(known bool, h heldRequest, capture spans.Capture) DiffWhy {
		if known {
			return ""
		}
		for _, ref := range h.Params.Items() {
			if ref.Provenance == string(kind) {
				return bodyLost(h.blocks, ref, capture)
			}
		}
		return DiffMissing
	}
	u := unknownSides{why(knownA, x, t.a.Capture), why(knownB, y, t.b.Capture)}
	t.unknown(u.of(part)...)
}

// digestDiff is the difference of two texts of which one is not here; an empty block is none.
func digestDiff(a, b string) TextDiff {
	d := TextDiff{Change: changeChanged, Digests: true, BlockA: a, BlockB: b}
	switch {
	case a == "":
		d.Change = changeAdded
	case b == "":
		d.Change = changeRemoved
	}
	return d
}

// once notes that a part differs, and tells how unless the turn before differed in the same way.
func (t *turnDiffer) once(part DiffPart, how string, tell func()) {
	t.differs(part)
	if t.repeats[part] == how {
		t.out.Repeats = append(t.out.Repeats, part)
		return
	}
	t.repeats[part] = how
	tell()
}

// params compares model, provider and everything else that the request says.
func (t *turnDiffer) params(x, y heldRequest) {
	if t.ignored[DiffParams] {
		return
	}
	a, b := t.a, t.b
	c := changes{}
	c.text("model", a.Model, b.Model)
	if a.Answered != "" && b.Answered != "" {
		c.text("answered_model", a.Answered, b.Answered)
	}
	c.text("provider", a.Provider, b.Provider)
	// What a request says is not known where it was not told, and is known without content where it was.
	untold := func(t *Turn) bool { return len(t.Requests) == 0 && t.RequestBytes == 0 && t.RequestMessages == 0 }
	optional := func(name, before, after string) {
		if before == "" && untold(a) || after == "" && untold(b) {
			return
		}
		c.optional(name, before, after)
	}
	optional("variant", string(quoted(a.Variant)), string(quoted(b.Variant)))
	optional("reasoning_level", string(quoted(a.Level)), string(quoted(b.Level)))
	optional("format", string(quoted(a.Format)), string(quoted(b.Format)))
	optional("max_tokens", decimal(a.MaxTokens), decimal(b.MaxTokens))
	optional("temperature", float(a.Temperature), float(b.Temperature))
	switch {
	case !x.paramsTold() || !y.paramsTold():
		t.untold(DiffParams, x.paramsTold(), y.paramsTold())
	default:
		before, after, changed, known := changedParam(x, y, spans.ProvenanceRest)
		blockA, _, knownA := x.param(x.blocks, spans.ProvenanceRest)
		blockB, _, knownB := y.param(y.blocks, spans.ProvenanceRest)
		switch {
		case !known && len(c.list) == 0:
			if a.Capture != spans.CaptureContent && b.Capture != spans.CaptureContent {
				d := digestDiff(blockA, blockB)
				c.list = append(c.list, ValueChange{Text: &d})
			} else {
				t.lostParam(DiffParams, knownA, knownB, x, y, spans.ProvenanceRest)
			}
		case changed:
			rest, ok := diffValues("", before, after, t.compare)
			if !ok {
				d := t.compare("", before, after)
				rest = []ValueChange{{Text: &d}}
			}
			for _, r := range rest {
				if !slices.ContainsFunc(c.list, func(own ValueChange) bool { return own.Path == sameParam[r.Path] }) {
					c.list = append(c.list, r)
				}
			}
		}
	}
	if len(c.list) > 0 {
		how, _ := json.Marshal(c.list)
		t.once(DiffParams, spans.BlockOfString(string(how)).String(), func() { t.out.Params = c.list })
	}
}

// sameParam are members of requests that say what a field of the turn says.
var sameParam = map[string]string{
	"model": "model", "model_id": "model", "max_tokens": "max_tokens", "max_output_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "temperature": "temperature",
	"thinking_level": "reasoning_level", "reasoning_effort": "reasoning_level", "reasoning.effort": "reasoning_level", "response_format.kind": "format", "response_format.type": "format",
}

func decimal(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func float(f *float64) string {
	if f == nil {
		return ""
	}
	b, err := json.Marshal(*f)
	if err != nil {
		return ""
	}
	return string(b)
}

// outcome compares how the turns ended.
func (t *turnDiffer) outcome() {
	if _, lost := t.lost(); lost || t.ignored[DiffOutcome] {
		return
	}
	a, b := t.a, t.b
	c := changes{}
	c.text("trigger", string(a.Trigger), string(b.Trigger))
	c.text("state", endState(a.Span), endState(b.Span))
	c.text("stop_reason", a.StopReason, b.StopReason)
	c.flag("failed", a.Failed, b.Failed)
	c.text("error_type", string(a.ErrorType), string(b.ErrorType))
	if a.Capture == spans.CaptureContent && b.Capture == spans.CaptureContent {
		c.text("error", a.Error, b.Error)
	}
	c.number("attempts", max(1, a.Attempts), max(1, b.Attempts))
	c.number("discarded_attempts", a.DiscardedAttempts, b.DiscardedAttempts)
	if t.out.Outcome = c.list; len(c.list) > 0 {
		t.differs(DiffOutcome)
	}
}

// endState is how the end of a thing is known, in one word.
func endState(s Span) string {
	switch {
	case s.Missing:
		return "missing"
	case s.Known == spans.KnownClosed:
		return "closed"
	case s.Known == spans.KnownLive || s.End.IsZero():
		return "open"
	}
	return "ended"
}

// usage compares tokens and cost.
func (t *turnDiffer) usage() {
	if _, lost := t.lost(); lost {
		return
	}
	a, b := t.a, t.b
	if knownA, knownB := a.usageTold(), b.usageTold(); !t.ignored[DiffUsage] && (knownA || knownB) {
		if knownA && knownB {
			t.out.Usage = usageChanges(a.Usage, b.Usage)
		} else {
			t.unknown(DiffUnknown{Part: DiffUsage, Why: DiffNotTold, Side: sides(!knownA, !knownB)})
		}
		if len(t.out.Usage) > 0 {
			t.differs(DiffUsage)
		}
	}
	if t.ignored[DiffCost] || a.Cost == nil && b.Cost == nil {
		return
	}
	switch {
	case a.Cost == nil || b.Cost == nil:
		t.unknown(DiffUnknown{Part: DiffCost, Why: DiffNotTold, Side: sides(a.Cost == nil, b.Cost == nil)})
	case a.Currency != b.Currency:
		t.unknown(DiffUnknown{Part: DiffCost, Why: DiffOtherUnit, Side: "both"})
	case *a.Cost != *b.Cost:
		t.out.Cost = []NumberChange{{Name: "cost", Before: *a.Cost, After: *b.Cost, By: *b.Cost - *a.Cost, Unit: a.Currency}}
		t.differs(DiffCost)
	}
}

// usageTold says whether the turn reports its tokens.
func (t *Turn) usageTold() bool { return t.Reported != nil || t.Usage != (Usage{}) }

func usageChanges(a, b Usage) (l []NumberChange) {
	for _, n := range []struct {
		name string
		a, b int64
	}{
		{"input", a.Input, b.Input}, {"output", a.Output, b.Output}, {"reasoning", a.Reasoning, b.Reasoning},
		{"cache_read", a.CacheRead, b.CacheRead}, {"cache_write", a.CacheWrite, b.CacheWrite},
	} {
		if n.a != n.b {
			l = append(l, NumberChange{Name: n.name, Before: float64(n.a), After: float64(n.b), By: float64(n.b) - float64(n.a)})
		}
	}
	return l
}

// calls compares the tool calls of the turns.
func (t *turnDiffer) calls() {
	var a, b []toolCall
	if t.a != nil {
		a = t.differ.a.callsOf(t.runA, t.a)
	}
	if t.b != nil {
		b = t.differ.b.callsOf(t.runB, t.b)
	}
	c := t.differ.calls(a, b)
	t.out.Calls = c.told
	for _, p := range c.parts {
		t.differs(p)
	}
	for _, u := range c.unknown {
		t.unknown(u)
	}
}

// toolCall is a call of one side: an execution, or what a reply asks for where nothing is known of one.
type toolCall struct {
	*ToolCall    // nil of what was only asked for
	id, name     string
	args, result heldText
	children     []string
	fingerprint  string
	// byMessage says that the result is told by a message, mayBe that a message may tell one which cannot be read.
	byMessage, mayBe bool
}

// heldText is the content of a list that is looked at as one text.
type heldText struct {
	text   string
	known  bool
	why    DiffWhy // it is not known; empty where there is none
	blocks string  // names all blocks of it; empty where not all are known
}

// callsOf returns the calls of a turn, those that only its reply tells last.
func (s *diffed) callsOf(r *Run, t *Turn) []toolCall {
	byID := map[string]bool{}
	lacksResult := false
	for _, c := range t.ToolCalls {
		byID[c.ID] = true
		lacksResult = lacksResult || c.Result == nil
	}
	var asked []askedCall
	if t.Capture == spans.CaptureContent && s.Blocks != nil {
		for _, ref := range t.Output.From(0) {
			if body, ok := s.Blocks.Body(ref); ok && strings.Contains(body, "ool") { // tool_use, toolCall, tool_calls
				_, l := readSaid(body)
				for _, c := range l {
					if !c.hasResult && !byID[c.id] {
						asked = append(asked, c)
					}
				}
			}
		}
	}
	results := map[string]string{}
	if (lacksResult || len(asked) > 0) && s.Blocks != nil && t.Capture == spans.CaptureContent {
		read := func(refs *Refs) {
			for _, ref := range refs.From(0) {
				if body, ok := s.Blocks.Body(ref); ok {
					_, l := readSaid(body)
					for _, c := range l {
						if c.hasResult && c.id != "" {
							results[c.id] = c.result
						}
					}
				}
			}
		}
		read(t.Results)
		if i, found := slices.BinarySearchFunc(r.Turns, t.Index+1, func(o *Turn, n int64) int { return cmp.Compare(o.Index, n) }); found {
			read(r.Turns[i].Input)
		}
	}
	l := s.calls(t.ToolCalls, t.Capture, results)
	for _, c := range asked {
		call := toolCall{id: c.id, name: c.name, args: heldText{text: c.args, known: true}}
		call.result.text, call.byMessage = results[c.id]
		call.result.known = true
		l = append(l, call.finished())
	}
	return l
}

func (c toolCall) finished() toolCall {
	c.fingerprint = c.name + "\x00\x00" + c.args.blocks
	if c.args.known {
		c.fingerprint = c.name + "\x00" + canonical(c.args.text)
	}
	return c
}

// calls reads tool calls; results are those that messages tell, by call.
func (s *diffed) calls(calls []*ToolCall, capture spans.Capture, results map[string]string) []toolCall {
	l := make([]toolCall, 0, len(calls))
	for _, c := range calls {
		t := toolCall{ToolCall: c, id: c.ID, name: c.Name, args: s.held(c.Args, capture), result: s.held(c.Result, capture)}
		if told, ok := results[c.ID]; ok && c.Result == nil {
			t.result, t.byMessage = heldText{text: told, known: true}, true
		}
		t.mayBe = c.Result == nil && capture == spans.CaptureDigests
		if c.Missing {
			t.args.why, t.result.why = cmp.Or(t.args.why, DiffMissing), cmp.Or(t.result.why, DiffMissing)
		}
		if c.ChildRunID != "" && (c.ChildSessionID == "" || c.ChildSessionID == s.Session.ID) {
			for _, r := range s.byID[c.ChildRunID] {
				t.children = append(t.children, s.runAddress(r))
			}
		} else if c.ChildSessionID != "" {
			t.children = []string{strings.TrimSuffix(c.ChildSessionID+"/"+c.ChildRunID, "/")}
		}
		l = append(l, t.finished())
	}
	return l
}

// held reads arguments or a result.
func (s *diffed) held(refs *Refs, capture spans.Capture) heldText {
	switch {
	case refs == nil && (capture == spans.CaptureNone || capture == ""):
		return heldText{why: DiffNotCaptured}
	case refs == nil:
		return heldText{known: true}
	case !refs.Complete:
		return heldText{why: DiffMissing}
	}
	h := heldText{known: true}
	var bodies, blocks []string
	for _, ref := range refs.Items() {
		blocks = append(blocks, ref.Block)
		body, ok := s.Blocks.Body(ref)
		if !ok {
			h.known, h.why = false, bodyLost(s.Blocks, ref, capture)
		}
		bodies = append(bodies, body)
	}
	h.blocks = strings.Join(blocks, " ")
	if h.known {
		h.text = strings.Join(bodies, "\n")
	}
	return h
}

// compareHeld says how two of them compare: told reports whether both are known and differ, digests the difference where only these tell it.
func compareHeld(x, y heldText) (told bool, digests *TextDiff, unknown unknownSides) {
	switch {
	case x.blocks != "" && x.blocks == y.blocks:
	case x.known && y.known:
		return x.text != y.text, nil, unknown
	case x.why == DiffNotCaptured || y.why == DiffNotCaptured, x.blocks == "" && !x.known, y.blocks == "" && !y.known:
		for _, s := range []struct {
			of  heldText
			why *DiffWhy
		}{{x, &unknown.a}, {y, &unknown.b}} {
			if s.of.blocks == "" && !s.of.known { // else the other side is what it is for
				*s.why = cmp.Or(s.of.why, DiffMissing)
			}
		}
	default:
		d := digestDiff(x.blocks, y.blocks)
		return false, &d, unknown
	}
	return false, nil, unknown
}

// callsDiff is what the comparison of calls gives.
type callsDiff struct {
	told    []CallDiff
	parts   []DiffPart
	unknown []DiffUnknown
}

// calls compares calls: those of one tool with the same input first, then those of one tool in their order.
func (d *differ) calls(a, b []toolCall) callsDiff {
	var out callsDiff
	if d.ignored[DiffCalls] && d.ignored[DiffResults] {
		return out
	}
	side := func(side, i int) *toolCall {
		if side == 0 {
			return &a[i]
		}
		return &b[i]
	}
	pairs := match(len(a), len(b),
		func(s, i int) string { return side(s, i).fingerprint + "\x00" + side(s, i).outcome() },
		func(s, i int) string { return side(s, i).fingerprint },
		func(s, i int) string { return side(s, i).name },
	)
	differs := false
	for _, p := range ordered(pairs, len(a), len(b)) {
		var x, y *toolCall
		if p.a >= 0 {
			x = &a[p.a]
		}
		if p.b >= 0 {
			y = &b[p.b]
		}
		c := d.call(x, y, &out)
		differs = differs || c.State != DiffSame && c.State != DiffUnknownState
		out.told = append(out.told, c)
	}
	if !differs {
		out.told = nil
	}
	return out
}

func (c *toolCall) outcome() string {
	if c.ToolCall == nil {
		return ""
	}
	return string(c.Outcome)
}

func (c *toolCall) named() *DiffCall {
	if c.ToolCall == nil {
		return &DiffCall{ID: c.id, Asked: true}
	}
	return &DiffCall{ID: c.id, Outcome: c.Outcome, TookNS: between(c.Start, c.End), Children: c.children}
}

// call compares two calls of one tool, either of which may be nil.
func (d *differ) call(x, y *toolCall, all *callsDiff) CallDiff {
	note := func(part DiffPart) {
		if !slices.Contains(all.parts, part) {
			all.parts = append(all.parts, part)
		}
	}
	if x == nil || y == nil {
		one, out := x, CallDiff{State: DiffOnlyA}
		before, after := "", ""
		if x == nil {
			one, out.State = y, DiffOnlyB
			out.B, after = y.named(), y.args.text
		} else {
			out.A, before = x.named(), x.args.text
		}
		out.Name = one.name
		if one.args.known && !d.ignored[DiffCalls] {
			none := func(raw string) string { // so that members are told one by one
				if raw == "" {
					return "{}"
				}
				return raw
			}
			var ok bool
			if strings.HasPrefix(strings.TrimSpace(one.args.text), "{") {
				out.Args, ok = diffValues("", none(before), none(after), d.compare)
			}
			if !ok {
				t := d.compare("", before, after)
				out.ArgsText = &t
			}
		}
		if !d.ignored[DiffCalls] {
			note(DiffCalls)
		} else {
			out.State = DiffSame
		}
		return out
	}
	out := CallDiff{Name: x.name, A: x.named(), B: y.named()}
	unknown := func(part DiffPart, u unknownSides) {
		out.NotCompared = append(out.NotCompared, u.of(part)...)
	}
	if !d.ignored[DiffCalls] {
		d.args(&out, x, y, unknown)
		out.Fields = callFields(x, y)
	}
	if !d.ignored[DiffResults] {
		d.result(&out, x, y, unknown)
		if out.Result != nil || len(out.ResultFields) > 0 {
			note(DiffResults)
		}
	}
	if x.result.known && y.result.known && x.ToolCall != nil && y.ToolCall != nil { // an error is mostly the result once more
		was, _ := resultParts(x.result.text)
		is, _ := resultParts(y.result.text)
		out.Fields = slices.DeleteFunc(out.Fields, func(c ValueChange) bool {
			return c.Path == "error" && (x.Error == "" || x.Error == was) && (y.Error == "" || y.Error == is)
		})
	}
	if len(out.Args)+len(out.Fields) > 0 || out.ArgsText != nil {
		note(DiffCalls)
	}
	for _, u := range out.NotCompared {
		if !slices.Contains(all.unknown, u) {
			all.unknown = append(all.unknown, u)
		}
	}
	changed := len(out.Args)+len(out.Fields)+len(out.ResultFields) > 0 || out.ArgsText != nil || out.Result != nil
	switch {
	case changed:
		out.State = DiffChanged
	case len(out.NotCompared) > 0:
		out.State = DiffUnknownState
	default:
		out.State = DiffSame
	}
	return out
}

func (d *differ) args(out *CallDiff, x, y *toolCall, unknown func(DiffPart, unknownSides)) {
	told, digests, u := compareHeld(x.args, y.args)
	unknown(DiffCalls, u)
	if out.ArgsText = digests; !told {
		return
	}
	var ok bool
	if out.Args, ok = diffValues("", x.args.text, y.args.text, d.compare); !ok {
		t := d.compare("", x.args.text, y.args.text)
		out.ArgsText = &t
	}
}

// callFields compares how two calls ended, and who let them run.
func callFields(x, y *toolCall) []ValueChange {
	c := changes{}
	c.text("outcome", x.outcome(), y.outcome())
	if x.ToolCall == nil || y.ToolCall == nil {
		return c.list
	}
	c.text("state", endState(x.Span), endState(y.Span))
	c.text("error_type", string(x.ErrorType), string(y.ErrorType))
	if x.args.known && y.args.known { // errors are content
		c.text("error", x.Error, y.Error)
	}
	cut := func(b *bool) bool { return b != nil && *b }
	c.flag("truncated", cut(x.Truncated), cut(y.Truncated))
	c.text("permission", decided(x.Permissions), decided(y.Permissions))
	return c.list
}

// decided says what was decided on a call, in the words of closed lists.
func decided(l []*Permission) string {
	var out []string
	for _, p := range l {
		text := string(p.Action)
		if p.Source != "" {
			text += " by " + string(p.Source)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// resultIDs are members of results that name things and times: they differ from run to run.
var resultIDs = []string{"timestamp", "id", "toolCallId", "tool_call_id", "tool_use_id", "messageId", "childLoopId", "child_loop_id", "role", "toolName"}

// result compares what two calls gave back.
func (d *differ) result(out *CallDiff, x, y *toolCall, unknown func(DiffPart, unknownSides)) {
	if x.mayBe && y.byMessage || y.mayBe && x.byMessage {
		u := unknownSides{a: DiffDigestsOnly}
		if y.mayBe {
			u = unknownSides{b: DiffDigestsOnly}
		}
		unknown(DiffResults, u)
		return
	}
	told, digests, u := compareHeld(x.result, y.result)
	unknown(DiffResults, u)
	if out.Result = digests; !told || canonical(x.result.text) == canonical(y.result.text) {
		return
	}
	before, restA := resultParts(x.result.text)
	after, restB := resultParts(y.result.text)
	if before != after {
		t := d.compare("", before, after)
		out.Result = &t
	}
	if restA+restB == "" {
		return
	}
	if l, ok := diffValues("", cmp.Or(restA, "{}"), cmp.Or(restB, "{}"), d.compare); ok {
		out.ResultFields = l
	}
}

// resultParts parts a result into its text and an object of what else it says, empty where there is nothing.
func resultParts(raw string) (text, rest string) {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return raw, ""
	}
	raw = strings.TrimSpace(raw)
	switch raw[0] { // there is one: it is JSON
	case '"', '[':
		return contentText(raw), ""
	case '{':
		var left []byte
		content, found := "", false
		for _, m := range objectMembers(raw) {
			switch {
			case m.name == "content":
				content, found = m.text, true
			case slices.Contains(resultIDs, m.name) || m.text == "null":
			default:
				left = append(append(append(left, ','), rawjson.Quote(nil, m.name)...), ':')
				left = append(left, m.text...)
			}
		}
		if !found {
			return "", raw // an object of its own
		}
		if len(left) == 0 {
			return contentText(content), ""
		}
		left[0] = '{'
		return contentText(content), string(left) + "}"
	}
	return raw, ""
}

// contentText returns the text of a content: a string, or blocks of which those of text say it, and others are told as JSON.
func contentText(raw string) string {
	if text, ok := rawjson.String([]byte(raw)); ok {
		return text
	}
	if !strings.HasPrefix(raw, "[") {
		return raw
	}
	var out []string
	for _, e := range elements(raw) {
		if text, ok := rawjson.String(member([]byte(e), "text")); ok {
			out = append(out, text)
			continue
		}
		out = append(out, canonical(e))
	}
	return strings.Join(out, "\n")
}
