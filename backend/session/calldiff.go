package session

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

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

// textBlock names a text as spans without content name it: by its own digest, where the block of ref may be a template.
func textBlock(ref Ref, body string, known bool) string {
	if known {
		return spans.BlockOfString(body).Short().String()
	}
	return ref.Block
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
		body, ok := s.Blocks.Body(ref)
		blocks = append(blocks, textBlock(ref, body, ok))
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
