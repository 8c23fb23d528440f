package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

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

// turnParts are the parts of a turn.
type turnParts struct {
	parts []builtPart
	// calls are the ids of its calls, open those without a result in the messages of the turn itself, one by one.
	calls map[string]bool
	open  []string
	// own is the id of the reply, node that of phi-core.
	own, node string
}

// toolResults are results of tools that wait for their calls.
type toolResults []toolResult

type toolResult struct {
	messagePart
	taken bool
	// own: it has no other place if no call takes it.
	own bool
}

// add adds the results of a message, without those of claims, which it removes there.
func (r *toolResults) add(m *chatMessage, own bool, claims *[]string) {
	for _, p := range m.parts {
		if p.kind != partResult || p.embedded {
			continue
		}
		if claims != nil {
			if i := slices.Index(*claims, p.id); i >= 0 {
				*claims = slices.Delete(*claims, i, i+1)
				continue
			}
		}
		*r = append(*r, toolResult{messagePart: p, own: own})
	}
}

// take returns the first result of a call that was not taken.
func (r *toolResults) take(id string) *toolResult {
	for i := range *r {
		if x := &(*r)[i]; x.id == id && !x.taken {
			x.taken = true
			return x
		}
	}
	return nil
}

// turnParts makes the parts of the turn i of a run. Results of the calls claims in its input are parts of other replies.
func (g *Guide) turnParts(r *session.Run, i int, claims []string) turnParts {
	p := g.runs[r]
	t := p.turns[i]
	var out turnParts
	var results toolResults
	known := map[string]bool{}
	for _, b := range g.read(r, t, spans.ListResults, t.Results) {
		known[g.same(b.ref)] = true
		m := readMessage(b.body)
		results.add(&m, true, nil)
	}
	g.addResults(&results, t.Input.Items(), known, true, &claims)
	own := len(results)
	g.addResults(&results, p.outside[i], known, false, nil)
	if i+1 < len(p.turns) {
		next := p.turns[i+1]
		g.addResults(&results, next.Input.Items(), g.among(next.Results), false, nil) // not those of its own calls
	}

	b := partBuilder{g: g, run: r, turn: t, at: t.Start.UnixMilli(), state: "streaming", results: &results,
		calls: slices.Clone(t.ToolCalls)}
	if t.Known == spans.KnownObserved {
		b.state = "done"
	}
	b.updated = max(b.at, t.End.UnixMilli())
	var replies []chatMessage
	for i, in := range g.read(r, t, spans.ListOutput, t.Output) {
		m := readMessage(in.body)
		if i == 0 {
			out.own, out.node = m.id, g.nodeOf(in.ref)
		}
		results.add(&m, true, nil)
		replies = append(replies, m)
	}
	if len(replies) == 0 || !replies[0].stepStart() {
		b.stepStart()
	}
	for i := range replies {
		b.message(&replies[i])
	}
	for len(b.calls) > 0 { // that the reply does not have
		b.tool(nil, b.calls[0])
	}
	for i := range results { // that no call took and that have no other place
		if results[i].own && !results[i].taken {
			b.result(&results[i].messagePart)
		}
	}
	out.parts, out.calls = b.parts, map[string]bool{}
	for _, part := range b.parts {
		if part.callID != "" {
			out.calls[part.callID] = true
		}
	}
	for i := range replies {
		for _, part := range replies[i].parts {
			answers := func(x toolResult) bool { return x.id == part.id }
			if part.kind == partCall && !slices.ContainsFunc(results[:own], answers) {
				out.open = append(out.open, part.id)
			}
		}
	}
	return out
}

// addResults adds results of messages that are not among those known.
func (g *Guide) addResults(results *toolResults, refs []session.Ref, known map[string]bool, own bool,
	claims *[]string,
) {
	for _, ref := range refs {
		if known[g.same(ref)] {
			continue
		}
		if body := g.message(ref); len(body) > 0 {
			m := readMessage(body)
			results.add(&m, own, claims)
		}
	}
}

// loneParts makes the parts of a reply whose turn is not there. pool holds messages that may have its results.
func (g *Guide) loneParts(r *session.Run, m *chatMessage, at time.Time, pool []session.Ref) []builtPart {
	var results toolResults
	g.addResults(&results, pool, nil, false, nil)
	b := partBuilder{g: g, run: r, at: at.UnixMilli(), updated: at.UnixMilli(), state: "done", results: &results}
	if len(m.parts) == 0 || !m.stepStart() && m.role == "assistant" {
		b.stepStart()
	}
	b.message(m)
	if m.role == "tool" { // whose call is not there
		for i := range m.parts {
			if m.parts[i].kind == partResult {
				b.result(&m.parts[i])
			}
		}
	}
	return b.parts
}

// stepStart reports whether the message begins with the AI SDK's mark of a step.
func (m *chatMessage) stepStart() bool {
	return len(m.parts) > 0 && m.parts[0].verbatim && m.parts[0].name == "step-start"
}

// partBuilder makes part rows of messages and tool calls.
type partBuilder struct {
	g           *Guide
	run         *session.Run
	turn        *session.Turn // nil: not there
	at, updated int64
	state       string // of texts, as the AI SDK has it; empty: they have none
	results     *toolResults
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
		switch {
		case p.kind == partResult:
		case p.kind == partCall:
			at := slices.IndexFunc(b.calls, func(c *session.ToolCall) bool {
				return c.ID == p.id && (p.id != "" || c.Name == p.name)
			})
			if at < 0 {
				b.tool(p, nil)
			} else {
				b.tool(p, b.calls[at])
			}
		case p.verbatim && p.name == "": // no object
			b.add("data-unknown", dataPart("unknown", p.raw))
		case p.verbatim:
			b.add(p.name, p.raw)
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
	switch p.kind {
	case partText, partReasoning:
		typ := "text"
		if p.kind == partReasoning {
			typ = "reasoning"
		}
		var metadata []byte
		if p.signature != "" {
			provider := b.run.Provider
			if b.turn != nil {
				provider = cmp.Or(b.turn.Provider, provider)
			}
			metadata = fields(cmp.Or(provider, "unknown"), fields("signature", p.signature))
		}
		return typ, fields("type", typ, "text", &p.text, "providerMetadata", metadata, "state", b.state)
	case partFile:
		mediaType := p.mediaType
		if mediaType == "" {
			mediaType = "application/octet-stream"
			if p.modality != "document" && p.modality != "" {
				mediaType = p.modality + "/*"
			}
		}
		url := cmp.Or(p.url, "data:"+mediaType+";base64,"+p.data)
		return "file", fields("type", "file", "mediaType", mediaType, "url", url, "filename", p.fileName)
	case partError:
		return "data-error", dataPart("error", fields("message", &p.text))
	}
	name := cmp.Or(p.name, "unknown")
	return "data-" + name, dataPart(name, p.raw)
}

// tool adds a call: p in the reply, c its span. One of them may be nil.
func (b *partBuilder) tool(p *messagePart, c *session.ToolCall) {
	t := toolPart{}
	if p != nil {
		t.id, t.name, t.input = p.id, p.name, p.args
	}
	if c != nil {
		b.calls = slices.DeleteFunc(b.calls, func(o *session.ToolCall) bool { return o == c })
		t.call, t.id, t.name = c, cmp.Or(t.id, c.ID), cmp.Or(t.name, c.Name)
		if p == nil {
			t.input = b.value(spans.ListArgs, c.Args)
		}
	}
	result := b.results.take(t.id)
	if p != nil && p.verbatim {
		a := parse(p.raw)
		b.timed(builtPart{typ: a.text("type"), callID: t.id, state: a.text("state"), data: p.raw, call: c})
		return
	}
	if result != nil {
		t.answered, t.failed, t.name, t.output = true, result.isError, cmp.Or(t.name, result.name), result.content
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
	t := toolPart{id: x.id, name: x.name, answered: true, failed: x.isError, output: x.content}
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
	l := b.g.read(b.run, b.turn, name, refs)
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
	details := valueOf(parse(t.whole).get("details"))
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
