package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A field is one comparable value of a run, a turn or a tool call. Either value holds it, or refs name the blocks that
// do: those are read only where two sides do not name the same blocks.
type field struct {
	part Part
	path string
	kind kind
	// why is the reason that the field is not there; empty where it is, or is known to be empty.
	why  Why
	json string
	refs []session.Ref
	// digest is the SHA-256 of the content, where the turn says it.
	digest   string
	optional bool   // it is compared only where both sides have it
	unit     string // of a cost

	of      *side
	capture spans.Capture
	noReply bool          // without what the model said
	except  []session.Ref // without what these messages say
}

// kind selects how two fields are compared.
type kind uint8

const (
	ofJSON     kind = iota // by members, long strings in it by lines; text that is no JSON by lines
	ofResult               // as JSON, without ids and times
	ofMessages             // by what they say
)

// fieldList collects the fields of one pair's side.
type fieldList struct {
	of      *side
	capture spans.Capture
	list    []field
}

func (l *fieldList) add(f field) *field {
	f.of, f.capture = l.of, l.capture
	l.list = append(l.list, f)
	return &l.list[len(l.list)-1]
}

// value adds a string, number or bool. An empty string or nil pointer is the same as none.
func (l *fieldList) value(part Part, path string, v any) *field {
	f := field{part: part, path: path}
	if b, err := json.Marshal(v); err == nil && string(b) != "null" && string(b) != `""` {
		f.json = string(b)
	}
	return l.add(f)
}

// Marks before a path: of a value that is compared only where both sides know it, and where both sides have it.
const (
	ifKnown = "!"
	ifThere = "?"
)

// values adds values by their paths below a path.
func (l *fieldList) values(part Part, below string, pathsAndValues ...any) {
	for i := 0; i < len(pathsAndValues); i += 2 {
		path, _ := pathsAndValues[i].(string)
		name := strings.TrimLeft(path, ifKnown+ifThere)
		f := l.value(part, below+name, pathsAndValues[i+1])
		if f.optional = name != path; strings.HasPrefix(path, ifThere) && f.json == "" {
			l.list = l.list[:len(l.list)-1]
		}
	}
}

// content adds what a list refers to. Where the loop reports no list, it is empty if content was captured.
func (l *fieldList) content(part Part, path string, k kind, refs *session.Refs) *field {
	f := field{part: part, path: path, kind: k}
	switch {
	case refs != nil && refs.Complete:
		f.refs = refs.Items()
	case refs != nil:
		f.why = Missing
	case untold(l.capture) == NotCaptured:
		f.why = NotCaptured
	}
	return l.add(f)
}

// untold returns why there is nothing to compare where the loop reports nothing.
func untold(capture spans.Capture) Why {
	if capture == spans.CaptureNone || capture == "" {
		return NotCaptured
	}
	return NotReported
}

// runFields lists what is compared of a run besides its turns and calls.
func (s *side) runFields(r *session.Run) []field {
	if r == nil {
		return nil
	}
	l := fieldList{of: s, capture: r.Capture}
	if f := l.content(Input, "input", ofMessages, r.Outside); f.why == NotCaptured {
		f.why = NotReported // most loops have none
	}
	l.values(Params, "", "agent", r.Agent, "model", r.Model, "provider", r.Provider, "rules_digest", r.RulesDigest)
	if r.Config != "" {
		l.add(field{part: Params, path: "config", json: string(r.Config), optional: true})
	}
	l.compactions(r.Compactions)
	l.values(Outcome, "", "status", r.Status, ifThere+"status_word", r.StatusWord) // events have none
	if r.Capture == spans.CaptureContent {
		l.values(Outcome, "", ifKnown+"error", r.Error, ifKnown+"rejection", r.Rejection)
	}
	l.value(Outcome, "error_type", r.ErrorType)
	return l.list
}

// turnFields lists what is compared of a turn besides its calls. Of a turn of which only calls arrived nothing is
// known.
func (d *differ) turnFields(s *side, r *session.Run, t *session.Turn) []field {
	if t == nil || t.Missing {
		return nil
	}
	l := fieldList{of: s, capture: t.Capture, list: make([]field, 0, 24)}
	if s.Request != nil {
		l.request(s.Request, t)
		return l.list
	}
	news, reported := s.news(r, t)
	l.content(Input, "input", ofMessages, news).noReply = !reported
	l.others(r, t, news.Items())
	output := Reply
	if d.ignored[Reply] {
		output = Thinking
	}
	l.content(output, "output", ofMessages, t.Output)

	q := t.LastRequest()
	l.values(Params, "params.", "model", t.Model, ifThere+"answered_model", t.Answered, "provider", t.Provider)
	asked := ifThere
	if q != nil || t.RequestBytes != 0 || t.RequestMessages != 0 {
		asked = ifKnown
	}
	l.values(Params, "params.", asked+"variant", t.Variant, asked+"reasoning_level", t.Level, asked+"format", t.Format,
		asked+"max_tokens", t.MaxTokens, asked+"temperature", t.Temperature)
	l.request(q, t)
	l.compactions(t.Compactions)

	l.values(Outcome, "outcome.", "trigger", t.Trigger, "state", cmp.Or(t.EndState(), "ended"),
		"stop_reason", t.StopReason, "failed", t.Failed, "error_type", t.ErrorType)
	if t.Capture == spans.CaptureContent {
		l.values(Outcome, "outcome.", ifKnown+"error", t.Error)
	}
	l.values(Outcome, "outcome.", "attempts", max(1, t.Attempts), "discarded_attempts", t.DiscardedAttempts)

	if f := l.value(Usage, "usage", t.Usage); !t.UsageReported() {
		f.why = NotReported
	}
	if f := l.value(Cost, "cost", t.Cost); t.Cost == nil {
		f.why = NotReported
	} else {
		f.unit = t.Currency
	}
	return l.list
}

// others adds the messages of the request that are neither input nor said by turns before.
func (l *fieldList) others(r *session.Run, t *session.Turn, input []session.Ref) {
	f := field{part: Request, path: "request", kind: ofMessages, except: input, noReply: l.of.Turn == nil}
	switch q := messagesOf(t); {
	case q == nil:
		f.why = untold(l.capture)
	case !q.Complete:
		f.why = Missing
	case l.of.Turn != nil: // two turns are compared with all that is before
		f.refs = q.Items()
	default:
		before := l.of.before(r, t)
		f.refs = q.Without(before)
		l.values(Request, "request.", ifKnown+"left_out", len(before.Without(q)))
	}
	l.add(f)
}

// request adds system prompt, catalogue of tools and all other parameters. The turn holds digests of the first two of
// its last request.
func (l *fieldList) request(q *session.Request, t *session.Turn) {
	digests := map[Part]string{}
	if q == t.LastRequest() {
		digests = map[Part]string{System: t.PromptDigest, Tools: t.ToolsDigest()}
	}
	for part, provenance := range map[Part]spans.ProvenanceKind{
		System: spans.ProvenanceSystem, Tools: spans.ProvenanceTools, Params: spans.ProvenanceRest,
	} {
		f := l.add(field{part: part, path: string(part), digest: digests[part]})
		if q == nil || q.Params == nil || !q.Params.Complete {
			f.why = untold(l.capture)
			continue
		}
		if ref := q.Param(provenance); ref.Block != "" {
			f.refs = []session.Ref{ref}
		}
	}
}

func (l *fieldList) compactions(list []*session.Compaction) {
	for i, c := range list {
		in := fmt.Sprintf("compaction[%d].", i)
		l.values(Compaction, in, "kind", c.Kind, "trigger", c.Trigger, "messages_before", c.MessagesBefore,
			"messages_after", c.MessagesAfter, "messages_summarized", c.MessagesSummarized,
			"tokens_before", c.InputTokens, "tokens_after", c.OutputTokens, "applied", c.Applied == nil || *c.Applied)
		l.content(Compaction, in+"summary", ofMessages, c.Summary)
	}
}

// A call is a tool call of one side: one that ran, or one that only a reply asks for.
type call struct {
	*session.ToolCall
	capture spans.Capture
	asked   bool
	args    string // of a call that was only asked for
	result  string // what a message says that the tool returned, where the call itself says nothing
}

// calls returns the tool calls of a turn, those that only its reply asks for last.
func (s *side) calls(r *session.Run, t *session.Turn) []*call {
	if t == nil {
		return nil
	}
	list := callsOf(t.ToolCalls, t.Capture)
	if t.Capture != spans.CaptureContent || s.Blocks == nil {
		return list
	}
	left := slices.Clone(t.ToolCalls)
	visit := func(refs *session.Refs, do func(session.MessagePart)) {
		for _, ref := range refs.Items() {
			if body, ok := s.Blocks.Body(ref); ok && strings.Contains(body, "ool") { // tool_use, toolCall, tool_calls
				for _, said := range session.MessageParts(body) {
					do(said)
				}
			}
		}
	}
	visit(t.Output, func(said session.MessagePart) {
		if said.Kind != session.PartCall {
			return
		}
		c := session.CallOf(left, said.ID, said.Name)
		switch {
		case c == nil:
			tool := &session.ToolCall{ID: said.ID, Name: said.Name}
			list = append(list, &call{ToolCall: tool, capture: t.Capture, asked: true, args: string(said.Content)})
		case c.ID != said.ID: // a reply in several blocks may have an id again
			left = slices.DeleteFunc(left, func(o *session.ToolCall) bool { return o == c })
		}
	})
	if !slices.ContainsFunc(list, func(c *call) bool { return c.Result == nil }) {
		return list
	}
	results := map[string]string{}
	result := func(said session.MessagePart) {
		if said.Kind == session.PartResult {
			results[said.ID] = string(said.Content)
		}
	}
	visit(t.Results, result)
	if i := s.positions[t] + 1; i < len(r.Turns) && r.Turns[i].Index == t.Index+1 {
		visit(r.Turns[i].Input, result)
	}
	for _, c := range list {
		if c.Result == nil && c.ID != "" {
			c.result = results[c.ID]
		}
	}
	return list
}

func callsOf(l []*session.ToolCall, capture spans.Capture) (out []*call) {
	for _, c := range l {
		out = append(out, &call{ToolCall: c, capture: capture})
	}
	return out
}

// callFields lists what is compared of a tool call.
func (s *side) callFields(c *call) []field {
	l := fieldList{of: s, capture: c.capture}
	if c.asked {
		l.add(field{part: Calls, path: "args", json: c.args})
	} else if f := l.content(Calls, "args", ofJSON, c.Args); c.Missing {
		f.why = Missing
	}
	result := l.content(Results, "result", ofResult, c.Result)
	switch {
	case c.result != "":
		result.json = c.result
	case c.Missing:
		result.why = Missing
	case c.Result == nil && c.capture == spans.CaptureDigests:
		result.why = NotReported // a message may hold it, which cannot be read
	}
	failure := c.Error
	if text, _, _ := result.text(); strings.Contains(text, strings.Trim(marshal(failure), `"`)) {
		failure = "" // it is the result once more
	}
	l.value(Calls, "outcome", c.Outcome)
	if c.asked {
		return l.list
	}
	if c.capture == spans.CaptureContent {
		l.values(Calls, "", ifKnown+"error", failure)
	}
	l.values(Calls, "", ifKnown+"state", cmp.Or(c.EndState(), "ended"), "error_type", c.ErrorType,
		"truncated", c.Truncated != nil && *c.Truncated)
	var decided []string
	for _, p := range c.Permissions {
		text := string(p.Action)
		if p.Source != "" {
			text += " by " + string(p.Source)
		}
		decided = append(decided, text)
	}
	l.value(Calls, "permission", strings.Join(decided, ", "))
	return l.list
}

// read returns what the blocks of a field hold, or why that is not here.
func (f *field) read() (bodies []string, why Why) {
	for _, ref := range f.refs {
		body, ok := f.of.Blocks.Body(ref)
		if !ok {
			if f.capture == spans.CaptureDigests {
				return nil, DigestsOnly
			}
			if _, _, cut := f.of.Blocks.Cut(ref); cut {
				return nil, Withheld
			}
			return nil, Missing
		}
		bodies = append(bodies, body)
	}
	return bodies, ""
}

// text returns what the field holds as one text; why says why that is not here.
func (f *field) text() (text string, there bool, why Why) {
	if f.refs == nil {
		return f.json, f.json != "", f.why
	}
	bodies, why := f.read()
	return strings.Join(bodies, "\n"), why == "", why
}

// values returns what the field holds, and as a value where it is JSON, or why that is not here.
func (f *field) values() (list []leaf, v any, why Why) {
	if f.kind == ofMessages {
		list, why = f.texts()
		return list, nil, cmp.Or(f.why, why)
	}
	text, there, why := f.text()
	if !there {
		return nil, nil, why
	}
	v, ok := decode(text)
	if !ok {
		return []leaf{{f.path, text, text, true}}, nil, ""
	}
	if f.kind == ofResult {
		v = result(v)
	}
	return flatten(nil, f.path, v), v, ""
}

// texts returns what the messages of a field say, or why that is not known.
func (f *field) texts() (out []leaf, why Why) {
	said := map[leaf]bool{}
	for _, ref := range f.except {
		body, _ := f.of.Blocks.Body(ref)
		for _, t := range read(body) {
			said[t] = true
		}
	}
	bodies, why := f.read()
	for _, body := range bodies {
		for _, t := range read(body) {
			isUser := t.path == session.ByUser
			if said[t] || f.noReply && (t.path == session.ByModel || t.path == string(session.PartThinking)) {
				continue
			}
			t.path = f.path + "." + t.path
			if n := len(out) - 1; n >= 0 && out[n].path == t.path && !isUser {
				t.text = out[n].text + "\n" + t.text // a reply in several blocks
				out = out[:n]
			}
			t.raw = t.text
			out = append(out, t)
		}
	}
	return out, why
}

// unlike returns both fields without the messages at the beginning and the end that they share.
func (f *field) unlike(o *field) (*field, *field) {
	a, b := *f, *o
	for len(a.refs) > 0 && len(b.refs) > 0 && a.refs[0].Block == b.refs[0].Block {
		a.refs, b.refs = a.refs[1:], b.refs[1:]
	}
	for i, j := len(a.refs), len(b.refs); i > 0 && j > 0 && a.refs[i-1].Block == b.refs[j-1].Block; i, j = i-1, j-1 {
		a.refs, b.refs = a.refs[:i-1], b.refs[:j-1]
	}
	return &a, &b
}

// name returns the digest of what the field holds, as a side names it that captured only digests; nothing where that is
// not known.
func (f *field) name() string {
	var names []string
	for _, ref := range f.refs {
		name := ref.Block
		if body, ok := f.of.Blocks.Body(ref); ok {
			name = spans.BlockOfString(body).Short().String()
		}
		names = append(names, name)
	}
	return cmp.Or(strings.Join(names, " "), f.digest)
}

// same reports whether both fields hold the same without reading blocks.
func (f *field) same(o *field) bool {
	if f.digest != "" && f.digest == o.digest {
		return true
	}
	same := func(x, y session.Ref) bool { return x.Block == y.Block }
	return f.json == o.json && f.unit == o.unit && slices.EqualFunc(f.refs, o.refs, same)
}
