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

// turnParts is what a turn comes to.
type turnParts struct {
	parts []builtPart
	// calls are the ids of its calls, open those without a result in the messages of the turn itself, one by one.
	calls map[string]bool
	open  []string
	// own is the id of the reply, node that of phi-core.
	own, node string
}

// States of text, as the AI SDK has them.
const (
	stateDone      = "done"
	stateStreaming = "streaming"
)

// toolResults are results of tools that wait for their calls.
type toolResults []toolResult

type toolResult struct {
	messagePart
	taken bool
	// own says that it stands nowhere else, should no call take it.
	own bool
}

// add adds the results of a message, but for those of claims, which are taken off it.
func (r *toolResults) add(m *message, own bool, claims *[]string) {
	for _, p := range m.parts {
		if p.kind != partResult || p.embedded {
			continue
		}
		if i := slices.Index(*claims, p.id); i >= 0 {
			*claims = slices.Delete(*claims, i, i+1)
			continue
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

// turnParts makes the parts of a turn. Its content is loaded.
func (g *Guide) turnParts(r *session.Run, p *runPlan, st *step) turnParts {
	t := p.turns[st.turn]
	var out turnParts
	var results toolResults
	claims := slices.Clone(st.claimed)
	none := []string{}
	known := map[string]bool{}
	for _, b := range g.read(r, t, spans.ListResults, t.Results) {
		known[g.same(b.ref)] = true
		m := readMessage(string(b.body))
		results.add(&m, true, &none)
	}
	g.addResults(&results, t.Input.Items(), known, true, &claims)
	own := len(results)
	g.addResults(&results, p.outside[st.turn], known, false, &none)
	if st.turn+1 < len(p.turns) {
		next := p.turns[st.turn+1]
		later := map[string]bool{}
		for _, ref := range next.Results.Items() {
			later[g.same(ref)] = true // of its own calls
		}
		g.addResults(&results, next.Input.Items(), later, false, &none)
	}

	b := partBuilder{g: g, run: r, turn: t, at: t.Start.UnixMilli(), state: stateStreaming, results: &results,
		calls: slices.Clone(t.ToolCalls)}
	if t.Known == spans.KnownObserved {
		b.state = stateDone
	}
	b.updated = max(b.at, t.End.UnixMilli())
	var replies []message
	for i, in := range g.read(r, t, spans.ListOutput, t.Output) {
		m := readMessage(string(in.body))
		if i == 0 {
			out.own, out.node = m.id, g.nodeOf(in.ref)
		}
		results.add(&m, true, &none)
		replies = append(replies, m)
	}
	if len(replies) == 0 || len(replies[0].parts) == 0 || !replies[0].parts[0].stepStart() {
		b.stepStart()
	}
	for i := range replies {
		b.message(&replies[i])
	}
	for len(b.calls) > 0 { // that the reply does not have
		b.tool(nil, b.calls[0])
	}
	b.leftOver()
	out.parts = b.parts
	out.calls = map[string]bool{}
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
		body, ok := g.message(ref)
		if !ok {
			continue
		}
		m := readMessage(body)
		results.add(&m, own, claims)
	}
}

// loneParts makes the parts of a reply whose turn is not there. Its content is loaded.
func (g *Guide) loneParts(r *session.Run, st *step) []builtPart {
	body, ok := g.message(*st.lone)
	if !ok {
		return nil
	}
	m := readMessage(body)
	var results toolResults
	none := []string{}
	g.addResults(&results, st.pool, nil, false, &none)
	at := r.Start
	if p := g.runs[r]; st.turn >= 0 {
		at = p.turns[st.turn].Start
	}
	b := partBuilder{g: g, run: r, at: at.UnixMilli(), updated: at.UnixMilli(), state: stateDone, results: &results}
	if len(m.parts) == 0 || !m.parts[0].stepStart() && m.role == "assistant" {
		b.stepStart()
	}
	b.message(&m)
	if m.role == "tool" { // whose call is not there
		for _, p := range m.parts {
			if p.kind == partResult {
				b.result(&toolResult{messagePart: p})
			}
		}
	}
	return b.parts
}

func (p *messagePart) stepStart() bool { return p.verbatim && p.name == "step-start" }

// partBuilder makes part rows of messages and tool calls.
type partBuilder struct {
	g           *Guide
	run         *session.Run
	turn        *session.Turn // nil: not there
	at, updated int64
	state       string // of texts; empty: they have none
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

// message adds the parts of a message; results of tools are parts of their calls.
func (b *partBuilder) message(m *message) {
	for i := range m.parts {
		p := &m.parts[i]
		switch {
		case p.kind == partResult:
		case p.kind == partCall:
			b.tool(p, b.span(p.id, p.name))
		case p.verbatim:
			b.add(cmp.Or(p.name, "data-unknown"), verbatimData(p))
		default:
			b.add(b.part(p))
		}
	}
}

// verbatimData returns a part of the AI SDK as it is; what is no object becomes one.
func verbatimData(p *messagePart) []byte {
	if p.name != "" {
		return p.raw
	}
	return dataPart("unknown", p.raw)
}

// dataPart returns what the AI SDK has no type for.
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
			metadata = fields(b.provider(), fields("signature", p.signature))
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
		url := p.url
		if url == "" {
			url = "data:" + mediaType + ";base64," + p.data
		}
		return "file", fields("type", "file", "mediaType", mediaType, "url", url, "filename", p.fileName)
	case partError:
		return "data-error", dataPart("error", fields("message", &p.text))
	}
	name := cmp.Or(p.name, "unknown")
	return "data-" + name, dataPart(name, p.raw)
}

// provider returns under whose name the metadata of a provider stands.
func (b *partBuilder) provider() string {
	provider := b.run.Provider
	if b.turn != nil {
		provider = cmp.Or(b.turn.Provider, provider)
	}
	return cmp.Or(provider, "unknown")
}

// span takes the tool call of the turn that a call in the reply is.
func (b *partBuilder) span(id, name string) *session.ToolCall {
	i := slices.IndexFunc(b.calls, func(c *session.ToolCall) bool { return c.ID == id && (id != "" || c.Name == name) })
	if i < 0 {
		return nil
	}
	return b.calls[i]
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
		var a aiPart
		_ = json.Unmarshal(p.raw, &a) // it was read before
		b.parts = append(b.parts, b.timed(builtPart{typ: p.typeName(), callID: t.id, state: a.State, data: p.raw, call: c}))
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
	b.parts = append(b.parts, b.timed(t.build()))
}

// typeName returns the type of a tool part as it came.
func (p *messagePart) typeName() string {
	var a aiPart
	if json.Unmarshal(p.raw, &a) == nil && a.Type != nil {
		return *a.Type
	}
	return "tool-" + p.name
}

func (b *partBuilder) timed(p builtPart) builtPart {
	p.created, p.updated = b.at, b.updated
	if p.call != nil {
		p.created = p.call.Start.UnixMilli()
		p.updated = max(p.created, latest(p.call.Start, p.call.End).UnixMilli())
	}
	return p
}

// result adds a result whose call is not there.
func (b *partBuilder) result(x *toolResult) {
	t := toolPart{id: x.id, name: x.name, answered: true, failed: x.isError, output: x.content}
	b.parts = append(b.parts, b.timed(t.build()))
}

// leftOver adds the results that no call took and that stand nowhere else.
func (b *partBuilder) leftOver() {
	for i := range *b.results {
		if x := &(*b.results)[i]; x.own && !x.taken {
			x.taken = true
			b.result(x)
		}
	}
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

// toolPart is a call and what is known of its result.
type toolPart struct {
	id, name      string
	input, output json.RawMessage
	whole         json.RawMessage // the result as the tool gave it; the model may have seen less
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

// build returns the part. Keys stand in the order of the AI SDK.
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
	details := []byte(valueOf(find(members(t.whole), "details")))
	metadata := fields("duration_ms", took, "truncated", truncated, "details", details)
	if string(metadata) == "{}" {
		metadata = nil
	}
	return fields("type", "output", "data", []byte(t.output), "metadata", metadata)
}

// errorText returns what went wrong: what the model received, else what the loop says. Empty where neither is there.
func (t *toolPart) errorText() string {
	if s, ok := text(t.output); ok {
		return s
	}
	if t.output != nil {
		return string(t.output)
	}
	if t.call != nil {
		return t.call.Error
	}
	return ""
}

// reason returns why the call was denied: what the model received, else what the evaluation says.
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
