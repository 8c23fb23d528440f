package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Verdict says in a word whether a turn can be asked again.
type Verdict string

const (
	// Eligible: all that the model was given is there.
	Eligible Verdict = "eligible"
	// Redacted: all is there, but with marks in the place of what a redactor took out before it left. It can be asked again so.
	Redacted Verdict = "redacted"
	// NotEligible: something is missing or was withheld.
	NotEligible Verdict = "not eligible"
)

// State says of one kind of input whether it is there.
type State string

const (
	// Present: it is there.
	Present State = "present"
	// None: the request is there, and has nothing of the kind.
	None State = "none"
	// Missing: nobody told it, or it did not arrive.
	Missing State = "missing"
	// Withheld: it was cut, or only its size and digest left the source.
	Withheld State = "withheld"
	// Altered: a redactor took something out of it.
	Altered State = "redacted"
)

// Names of inputs, in the order of Check.Inputs.
const (
	InputMessages    = "messages"
	InputAttachments = "attachments"
	InputModel       = "model"
	InputVariant     = "variant"
	InputSystem      = "system"
	InputTools       = "tools"
	InputParameters  = "parameters"
)

// Input is one kind of what a model is given.
type Input struct {
	Input string `json:"input"`
	State State  `json:"state"`
	// Detail says it in plain words; of a request that is there it names roles, numbers, tools and parameters.
	Detail string `json:"detail,omitempty"`
	// Count of messages, attachments and tools.
	Count int `json:"count,omitempty"`
}

// Check says whether a turn can be asked again, and what is missing. Its JSON form is told in docs/replay.md.
type Check struct {
	Verdict  Verdict `json:"verdict"`
	Eligible bool    `json:"eligible"`
	// Inputs are always the seven kinds, in their order.
	Inputs []Input  `json:"inputs"`
	Notes  []string `json:"notes,omitempty"`
	// Spelling is whose words the captured request is in; empty where it is not there or is no JSON.
	Spelling Spelling `json:"spelling,omitempty"`
	// Suggested is the form in which it would be asked again.
	Suggested Form `json:"suggested_form"`
}

// Input returns the input of that name.
func (c *Check) Input(name string) *Input {
	for i := range c.Inputs {
		if c.Inputs[i].Input == name {
			return &c.Inputs[i]
		}
	}
	return nil
}

// Examine says whether a request of a turn can be asked again. q is nil where the turn has none, and payload is what q.Payload returns.
func Examine(turn *session.Turn, q *session.Request, payload session.Payload) *Check {
	c := &Check{}
	for _, name := range []string{InputMessages, InputAttachments, InputModel, InputVariant, InputSystem, InputTools, InputParameters} {
		c.Inputs = append(c.Inputs, Input{Input: name, State: Present})
	}
	var r *request
	if payload.Bytes != nil {
		r, _ = read(payload.Bytes)
	}
	switch {
	case q == nil:
		c.untold(turn)
	case payload.Bytes == nil:
		c.incomplete(turn, q, payload)
	case r == nil:
		c.set(InputMessages, Missing, "the request is there, and is no JSON object with messages")
		for _, name := range []string{InputAttachments, InputSystem, InputTools, InputParameters} {
			c.set(name, Missing, "the request cannot be read")
		}
	default:
		c.whole(r)
		if payload.Redacted {
			c.redacted(r)
		}
		switch {
		case q.Params == nil: // put together of messages alone
			for _, name := range []string{InputSystem, InputTools, InputParameters} {
				c.set(name, Missing, "the loop told the messages only")
			}
		case !hasParam(q, string(spans.ProvenanceRest)):
			r.params.fill(Told(turn))
			c.set(InputParameters, Missing, "the request was kept without them")
			if told := r.told(); len(told) > 0 {
				c.Input(InputParameters).Detail += "; the turn names " + strings.Join(told, ", ")
			}
		}
	}
	model := turn.Model
	if r != nil {
		c.Spelling = r.spelling
		if r.model != "" {
			model = r.model
		}
	}
	c.Suggested = Suggest(c.Spelling, turn.Provider)
	if c.set(InputModel, Present, model); model == "" {
		c.set(InputModel, Missing, "neither the request nor its turn names one")
	}
	c.variant(turn, r)
	c.conclude(q, turn)
	return c
}

func (c *Check) set(name string, s State, detail string) {
	in := c.Input(name)
	in.State, in.Detail = s, detail
}

// untold is about a turn of which there is no request.
func (c *Check) untold(turn *session.Turn) {
	state, why := Missing, "the loop told no request"
	switch turn.Capture {
	case spans.CaptureContent, "":
	case spans.CaptureDigests:
		state, why = Withheld, "captured as digests"
	default:
		state, why = Withheld, "content was not captured"
	}
	c.set(InputMessages, state, why)
	if n := turn.Input.Len(); n > 0 && turn.Capture == spans.CaptureContent {
		c.set(InputMessages, state, fmt.Sprintf("%s: what was new on this turn is there (%s), not what stood before it", why, count(n, "message")))
	}
	for _, name := range []string{InputAttachments, InputTools, InputParameters} {
		c.set(name, state, why)
	}
	c.set(InputSystem, state, why)
	if turn.PromptDigest != "" {
		c.set(InputSystem, Withheld, why+": its digest alone is known")
	}
}

// incomplete is about a request of which something is missing.
func (c *Check) incomplete(turn *session.Turn, q *session.Request, p session.Payload) {
	if turn.Capture == spans.CaptureDigests {
		for _, name := range []string{InputMessages, InputAttachments, InputSystem, InputTools, InputParameters} {
			c.set(name, Withheld, "captured as digests: size and hash are all there is")
		}
		return
	}
	missing := map[string][]session.MissingPart{}
	for _, m := range p.Missing {
		name := InputParameters
		switch m.Part {
		case "message", "provenance":
			name = InputMessages
		case string(spans.ProvenanceSystem):
			name = InputSystem
		case string(spans.ProvenanceTools):
			name = InputTools
		}
		missing[name] = append(missing[name], m)
	}
	for name, l := range missing {
		state, lost := Missing, 0
		for _, m := range l {
			if !m.Withheld {
				lost++
			}
		}
		what := "it did not arrive"
		switch {
		case name == InputMessages && l[0].Position < 0:
			what = "the list of messages did not arrive"
		case name == InputMessages && lost == 0:
			state, what = Withheld, fmt.Sprintf("%d of %s cut or withheld at the source", len(l), messagesOf(q))
		case name == InputMessages:
			what = fmt.Sprintf("%d of %s did not arrive, or not whole", len(l), messagesOf(q))
		case lost == 0:
			state, what = Withheld, "it was cut or withheld at the source"
		}
		c.set(name, state, what)
	}
	for _, d := range p.Defects { // a list is not what was sent, so nothing of it is to be trusted
		if strings.HasPrefix(d.Detail, spans.ListParams) {
			for _, name := range []string{InputSystem, InputTools, InputParameters} {
				c.set(name, Missing, "the list that names it is damaged")
			}
			continue
		}
		c.set(InputMessages, Missing, "the list of messages is damaged")
	}
	for _, name := range []string{InputSystem, InputTools} {
		if in := c.Input(name); in.State == Present && !hasParam(q, name) {
			in.State = None
		}
	}
	m := c.Input(InputMessages)
	if m.State == Present {
		m.Detail = messagesOf(q)
		m.Count = int(q.Messages.Count)
		c.set(InputAttachments, Present, "as far as the messages have any")
		return
	}
	c.set(InputAttachments, m.State, "not known while messages are missing")
}

// hasParam reports whether the parameters of q name a block of that kind.
func hasParam(q *session.Request, kind string) bool {
	return q.Params != nil && slices.ContainsFunc(q.Params.Items(), func(ref session.Ref) bool { return ref.Provenance == kind })
}

func messagesOf(q *session.Request) string {
	if q.Messages == nil {
		return "no messages"
	}
	return count(int(q.Messages.Count), "message")
}

// whole is about a request that is there.
func (c *Check) whole(r *request) {
	roles := map[role]int{}
	inline, linked := map[string]int{}, map[string]int{}
	var look func(parts []part)
	look = func(parts []part) {
		for _, p := range parts {
			switch {
			case p.kind == result:
				look(p.parts)
			case p.kind == media && p.data != "":
				inline[p.media]++
			case p.kind == media:
				linked[p.media]++
			case p.kind == other && (p.typ == "file-ref" || p.typ == "item_reference"):
				linked["file"]++
			}
		}
	}
	for _, m := range r.messages {
		roles[m.role]++
		look(m.parts)
	}
	var words []string
	for _, w := range []struct {
		role role
		name string
	}{{user, "user"}, {assistant, "assistant"}, {results, "tool results"}, {system, "system"}} {
		if n := roles[w.role]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, w.name))
		}
	}
	c.set(InputMessages, Present, strings.Join(words, ", "))
	if c.Input(InputMessages).Count = len(r.messages); len(r.messages) == 0 {
		c.set(InputMessages, None, "the request has none")
	}

	words, n := nil, 0
	for _, name := range []string{"image", "audio", "video", "document", "file"} {
		if k := inline[name]; k > 0 {
			words, n = append(words, count(k, name)), n+k
		}
		if k := linked[name]; k > 0 {
			words, n = append(words, count(k, name)+" by reference"), n+k
		}
	}
	c.set(InputAttachments, Present, strings.Join(words, ", "))
	if c.Input(InputAttachments).Count = n; n == 0 {
		c.set(InputAttachments, None, "")
	}
	if len(linked) > 0 {
		c.Notes = append(c.Notes, "attachments by reference are as good as what they refer to: whoever keeps it must still have it")
	}

	size := 0
	for _, p := range r.system {
		size += len(p.text)
	}
	if c.set(InputSystem, Present, count(size, "byte")); len(r.system) == 0 {
		c.set(InputSystem, None, "")
	}
	var names []string
	for _, t := range r.tools {
		names = append(names, word(t.name))
	}
	if c.set(InputTools, Present, strings.Join(names, ", ")); len(names) == 0 {
		c.set(InputTools, None, "")
	}
	c.Input(InputTools).Count = len(names)
	if c.set(InputParameters, Present, strings.Join(r.told(), ", ")); len(r.told()) == 0 {
		c.set(InputParameters, None, "")
	}
}

// told names the parameters of a request, with their values where these are numbers or words.
func (r *request) told() []string {
	var out []string
	p := &r.params
	for _, n := range []struct {
		name  string
		value []byte
	}{{"max tokens", p.maxTokens}, {"temperature", p.temperature}, {"top_p", p.topP}, {"top_k", p.topK}, {"seed", p.seed}, {"frequency penalty", p.frequency},
		{"presence penalty", p.presence}, {"reasoning tokens", p.budget}, {"parallel tool calls", p.parallel}} {
		if n.value != nil {
			out = append(out, n.name+" "+word(string(n.value)))
		}
	}
	if p.level != "" {
		out = append(out, "reasoning "+word(p.level))
	}
	if len(p.stop) > 0 {
		out = append(out, count(len(p.stop), "stop sequence"))
	}
	if p.choice != "" {
		out = append(out, "tool choice "+p.choice)
	}
	if p.format != "" {
		out = append(out, "answer as "+p.format)
	}
	for _, m := range r.extra {
		if m.key != "provenance" { // where the messages came from: no model is told
			out = append(out, word(m.key))
		}
	}
	return out
}

// redacted says which inputs hold marks of a redactor.
func (c *Check) redacted(r *request) {
	const mark = "[redacted:"
	found := false
	altered := func(name string) {
		found = true
		in := c.Input(name)
		in.State = Altered
	}
	if strings.Contains(textOf(r.system), mark) {
		altered(InputSystem)
	}
	for _, t := range r.tools {
		if strings.Contains(string(t.raw), mark) {
			altered(InputTools)
			break
		}
	}
	for _, m := range r.messages {
		if strings.Contains(string(m.raw), mark) || slices.ContainsFunc(m.parts, func(p part) bool { return strings.Contains(string(p.raw), mark) || strings.Contains(p.text, mark) }) {
			altered(InputMessages)
			break
		}
	}
	for _, m := range r.extra {
		if strings.Contains(string(m.value), mark) {
			altered(InputParameters)
			break
		}
	}
	if !found { // a rule may put in what it likes
		altered(InputMessages)
		c.Notes = append(c.Notes, "a redactor changed the request and left no mark that tells where")
	}
}

// variant says which variant of the model was asked for.
func (c *Check) variant(turn *session.Turn, r *request) {
	var words []string
	add := func(name, value string) {
		if value != "" {
			words = append(words, strings.TrimSpace(name+" "+word(value)))
		}
	}
	add("", turn.Variant)
	level := turn.Level
	if r != nil && level == "" {
		level = r.params.level
	}
	add("reasoning", level)
	if c.set(InputVariant, Present, strings.Join(words, ", ")); len(words) == 0 {
		c.set(InputVariant, None, "")
	}
}

func (c *Check) conclude(q *session.Request, turn *session.Turn) {
	c.Verdict = Eligible
	for _, in := range c.Inputs {
		switch {
		case in.State == Missing || in.State == Withheld:
			c.Verdict = NotEligible
		case in.State == Altered && c.Verdict == Eligible:
			c.Verdict = Redacted
		}
	}
	c.Eligible = c.Verdict == Eligible
	if len(turn.Requests) > 1 && q != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("the turn has %d requests: this is that of attempt %d", len(turn.Requests), q.Attempt))
	}
	if c.Spelling == SpellPhi || c.Spelling == SpellClark {
		c.Notes = append(c.Notes, fmt.Sprintf("%s tells what it hands to its provider's client: headers, cache marks and what that client adds are not in it", c.Spelling))
	}
	if in := c.Input(InputTools); in.State == Present && in.Count > 0 {
		c.Notes = append(c.Notes, "the tools' implementations are the host's: they are offered to the model, and none of them is run")
	}
	if c.Verdict != NotEligible {
		c.Notes = append(c.Notes, "models sample: another answer to the same inputs is no proof that anything changed")
	}
}

// word returns a name or number from outside, bounded for being shown.
func word(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
