package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// builtPart is one part row but for its ids and index.
type builtPart struct {
	typ, callID, state string
	data               []byte
	created, updated   int64
	call               *session.ToolCall // that it is about; nil where its span is not there
}

// toolResult is the result of a tool call in a message of a run.
type toolResult struct {
	messagePart
	turn  int    // that its message came with; -1: before the first
	from  string // the list that its message is from
	taken bool   // a call has it
}

// resultKey is the id of a call, and the turn that a result for it came with.
type resultKey struct {
	id   string
	turn int
}

// collect finds the results in the messages of the run. A message that several lists have is that of the first; a list
// of the results of a turn is complete.
func (b *runUnits) collect() {
	seen := map[string]bool{}
	add := func(turn int, from string, refs []session.Ref) {
		for _, ref := range refs {
			if from != spans.ListResults && seen[b.g.same(ref)] {
				continue
			}
			for _, p := range readMessage(b.g.message(ref)).parts {
				if p.Type == partResult && !p.embedded {
					x := &toolResult{messagePart: p, turn: turn, from: from}
					key := resultKey{p.ID, turn}
					b.results[key], b.arrived[turn] = append(b.results[key], x), append(b.arrived[turn], x)
				}
			}
		}
		for _, ref := range refs {
			seen[b.g.same(ref)] = true
		}
	}
	add(-1, spans.ListOutside, b.p.outside[-1])
	for i, t := range b.p.turns {
		add(i, spans.ListResults, t.Results.Items())
		add(i, spans.ListInput, t.Input.Items())
		add(i, spans.ListOutput, t.Output.Items())
		add(i, spans.ListOutside, b.p.outside[i])
	}
}

// take returns the first result of a call that no call has. It came with the turn of the call, or is an input of the
// next one. A call of a reply whose turn is not there (isLone) may be another one's too.
func (b *runUnits) take(id string, turn int, isLone bool) (found *toolResult) {
	for _, at := range []int{turn, turn + 1} {
		for _, x := range b.results[resultKey{id, at}] {
			switch {
			case at == turn && isLone && x.from == spans.ListResults, at > turn && x.from != spans.ListInput:
			case !x.taken:
				x.taken = true
				return x
			case isLone:
				found = cmp.Or(found, x)
			}
		}
	}
	return found
}

// turnParts makes the parts of the turn i. It returns as well the id of the reply, and its node of phi-core.
func (b *runUnits) turnParts(i int) (parts []builtPart, id, node string) {
	g, r, t := b.g, b.r, b.p.turns[i]
	g.read(r, t, spans.ListResults, t.Results) // notes what is missing
	p := partBuilder{runUnits: b, turn: t, index: i, at: t.Start.UnixMilli(), state: "streaming",
		calls: slices.Clone(t.ToolCalls)}
	if t.Known == spans.KnownObserved {
		p.state = "done"
	}
	p.updated = max(p.at, t.End.UnixMilli())
	output := g.read(r, t, spans.ListOutput, t.Output)
	if len(output) == 0 {
		p.stepStart()
	}
	for k, in := range output {
		m := readMessage(in.body)
		if k == 0 {
			id, node = m.id, g.nodeOf(in.ref)
			if !m.stepStart() {
				p.stepStart()
			}
		}
		p.message(&m)
	}
	for len(p.calls) > 0 { // that the reply does not have
		p.tool(nil, p.calls[0])
	}
	for _, x := range b.arrived[i] { // that no call took and that have no other place
		if x.from != spans.ListOutside && !x.taken {
			p.result(&x.messagePart)
		}
	}
	return p.parts, id, node
}

// loneParts makes the parts of a reply whose turn is not there. It came with the turn i.
func (b *runUnits) loneParts(i int, at time.Time, m *chatMessage) []builtPart {
	p := partBuilder{runUnits: b, index: i, at: at.UnixMilli(), updated: at.UnixMilli(), state: "done"}
	if len(m.parts) == 0 || !m.stepStart() && m.role == "assistant" {
		p.stepStart()
	}
	p.message(m)
	for i := range m.parts { // of which the call is not there
		if m.role == "tool" && m.parts[i].Type == partResult {
			p.result(&m.parts[i])
		}
	}
	return p.parts
}

// callParts makes the parts of the tool calls that belong to no turn.
func (b *runUnits) callParts() []builtPart {
	at := b.r.Start.UnixMilli()
	p := partBuilder{runUnits: b, index: -1, at: at, updated: at, calls: slices.Clone(b.r.ToolCalls)}
	for len(p.calls) > 0 {
		p.tool(nil, p.calls[0])
	}
	return p.parts
}

// stepStart reports whether the message begins with the AI SDK's mark of a step.
func (m *chatMessage) stepStart() bool {
	return len(m.parts) > 0 && m.parts[0].aiType() == "step-start"
}

// partBuilder makes part rows of messages and tool calls.
type partBuilder struct {
	*runUnits
	turn        *session.Turn // nil: not there
	index       int           // of the turn, or of that which a lone reply came with
	at, updated int64
	state       string              // of texts, as the AI SDK has it; empty: they have none
	calls       []*session.ToolCall // without a part yet
	parts       []builtPart
}

func (b *partBuilder) add(typ string, data []byte) {
	b.parts = append(b.parts, builtPart{typ: typ, data: data, created: b.at, updated: b.updated})
}

func (b *partBuilder) stepStart() {
	data := []byte(`{"type":"step-start"}`)
	b.parts = append(b.parts, builtPart{typ: "step-start", data: data, created: b.at, updated: b.at})
}

// message adds the parts of a message. Results of tools are parts of their calls.
func (b *partBuilder) message(m *chatMessage) {
	for i := range m.parts {
		p := &m.parts[i]
		typ := p.aiType()
		switch {
		case p.Type == partResult:
		case p.Type == partCall:
			b.tool(p, session.CallOf(b.calls, p.ID, p.Name))
		case p.block != nil && typ == "": // no object
			b.add("data-unknown", dataPart("unknown", p.block))
		case p.block != nil:
			b.add(typ, p.block)
		default:
			b.add(b.part(p))
		}
	}
}

// dataPart returns a part that the AI SDK has no type for.
func dataPart(name string, data []byte) []byte {
	return fields("type", "data-"+name, "data", data)
}

// part returns the type and data of a part that is neither a call nor a result.
func (b *partBuilder) part(p *messagePart) (string, []byte) {
	s, isText := p.text()
	switch {
	case !isText:
	case p.Type == "text" || p.Type == "reasoning":
		var metadata []byte
		if _, signature := message.Signature(p.Block); p.Type == "reasoning" && signature != "" {
			provider := b.r.Provider
			if b.turn != nil {
				provider = cmp.Or(b.turn.Provider, provider)
			}
			metadata = fields(cmp.Or(provider, "unknown"), fields("signature", signature))
		}
		return p.Type, fields("type", p.Type, "text", &s, "providerMetadata", metadata, "state", b.state)
	case p.Type == "blob" || p.Type == "uri":
		mediaType := p.MIME
		if mediaType == "" {
			mediaType = "application/octet-stream"
			if p.Modality != "document" && p.Modality != "" {
				mediaType = p.Modality + "/*"
			}
		}
		if p.Type == "blob" {
			s = "data:" + mediaType + ";base64," + s
		}
		return "file", fields("type", "file", "mediaType", mediaType, "url", s, "filename", p.Name)
	case p.Type == "error":
		return "data-error", dataPart("error", fields("message", &s))
	}
	name := cmp.Or(p.Type, "unknown")
	return "data-" + name, dataPart(name, p.spelled())
}

// tool adds a call: p in the reply, c its span. One of them may be nil.
func (b *partBuilder) tool(p *messagePart, c *session.ToolCall) {
	t := toolPart{}
	if p != nil {
		t.id, t.name, t.input = p.ID, p.Name, valueOf(p.Content)
	}
	if c != nil {
		b.calls = slices.DeleteFunc(b.calls, func(o *session.ToolCall) bool { return o == c })
		t.call, t.id, t.name = c, cmp.Or(t.id, c.ID), cmp.Or(t.name, c.Name)
		if p == nil {
			t.input = b.value(spans.ListArgs, c.Args)
		}
	}
	result := b.take(t.id, b.index, b.turn == nil)
	if p != nil && p.block != nil {
		b.timed(builtPart{typ: p.aiType(), callID: t.id, state: parse(p.block).Text("state"), data: p.block, call: c})
		return
	}
	if result != nil {
		t.answered, t.failed, t.name = true, result.IsError, cmp.Or(t.name, result.Name)
		t.output = valueOf(result.Content)
	}
	if c != nil {
		t.whole = b.value(spans.ListResult, c.Result)
		if result == nil && t.whole != nil {
			t.answered, t.output = true, t.whole
		}
	}
	b.timed(t.build())
}

// result adds a result whose call is not there.
func (b *partBuilder) result(x *messagePart) {
	t := toolPart{id: x.ID, name: x.Name, answered: true, failed: x.IsError, output: valueOf(x.Content)}
	b.timed(t.build())
}

// timed adds a part with the times of its call.
func (b *partBuilder) timed(p builtPart) {
	p.created, p.updated = b.at, b.updated
	if p.call != nil {
		p.created = p.call.Start.UnixMilli()
		p.updated = max(p.created, latest(p.call.Start, p.call.End).UnixMilli())
	}
	b.parts = append(b.parts, p)
}

// value returns the one body of a list as JSON; nil where it is not there.
func (b *partBuilder) value(name string, refs *session.Refs) json.RawMessage {
	l := b.g.read(b.r, b.turn, name, refs)
	switch {
	case len(l) == 0:
		return nil
	case json.Valid(l[0].body):
		return l[0].body
	}
	return quote(string(l[0].body))
}

// toolPart is a call and its result, as far as they are known.
type toolPart struct {
	id, name      string
	input, output json.RawMessage
	whole         json.RawMessage // the result as the tool returned it; the model may have seen less
	answered      bool            // there is a result
	failed        bool
	call          *session.ToolCall
}

func (t *toolPart) state() string {
	outcome := spans.Outcome("")
	if t.call != nil {
		outcome = t.call.Outcome
	}
	switch {
	case outcome == spans.OutcomeDenied:
		return "output-denied"
	case outcome == spans.OutcomeError, outcome == spans.OutcomeSkipped, outcome == spans.OutcomeCancelled, t.failed:
		return "output-error"
	case outcome == spans.OutcomeOK, t.answered:
		return "output-available"
	}
	return "input-available"
}

// build returns the part. Its keys have the order of the AI SDK.
func (t *toolPart) build() builtPart {
	p := builtPart{typ: "tool-" + t.name, callID: t.id, state: t.state(), call: t.call}
	var name, errorText *string
	if t.name == "" {
		p.typ, name = "dynamic-tool", new(string)
	}
	input := []byte(t.input)
	if input == nil { // the AI SDK demands the key
		input = null
	}
	var output, approval []byte
	switch p.state {
	case "output-available":
		output = t.envelope()
	case "output-error":
		errorText = new(t.errorText())
	case "output-denied":
		approval = fields("id", "ap_"+t.id, "approved", new(bool), "reason", t.reason())
	}
	p.data = fields("type", p.typ, "toolName", name, "toolCallId", &t.id, "state", p.state, "input", input,
		"output", output, "errorText", errorText, "approval", approval)
	return p
}

// envelope returns the guide's envelope of a result.
func (t *toolPart) envelope() []byte {
	var took *int64
	var truncated *bool
	if c := t.call; c != nil {
		truncated = c.Truncated
		if c.Known == spans.KnownObserved && c.End.After(c.Start) {
			took = new(c.End.Sub(c.Start).Round(time.Millisecond).Milliseconds())
		}
	}
	details := parse(t.whole).Raw("details")
	metadata := fields("duration_ms", took, "truncated", truncated, "details", details)
	if string(metadata) == "{}" {
		metadata = nil
	}
	return fields("type", "output", "data", []byte(t.output), "metadata", metadata)
}

// errorText returns the error as the model received it, else as the loop states it, else "".
func (t *toolPart) errorText() string {
	if s, ok := text(t.output); ok {
		return s
	}
	if t.output == nil && t.call != nil {
		return t.call.Error
	}
	return string(t.output)
}

// reason returns why the call was denied: as the model received it, else as the permission evaluation states it.
func (t *toolPart) reason() string {
	if text := t.errorText(); text != "" {
		return text
	}
	for _, p := range t.call.Permissions {
		if p.Action == spans.ActionDeny && p.Reason != "" {
			return p.Reason
		}
	}
	return ""
}
