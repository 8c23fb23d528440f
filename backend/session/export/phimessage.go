package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// phiDialect is the dialect whose messages stand in a ledger as they are. Those of others are said in phi-core's words.
const phiDialect = "phi-core"

// turnMessages are the messages of a turn.
type turnMessages struct {
	// input is what arrived during the turn but for the reply, in that order: prompts, and the results of its calls.
	input   [][]byte
	reply   []byte // nil when none is known
	results [][]byte
	// all are the messages of the turn in their order; only of a run of another dialect.
	all [][]byte
}

// foreignTurn says a turn of another dialect in phi-core's messages. What these have no place for is noted as missing: files other than
// images, and parts of which nobody here knows what they say.
func (p *phiCore) foreignTurn(where string, r *session.Run, t *session.Turn) turnMessages {
	var f turnMessages
	names := map[string]string{}
	for _, c := range t.ToolCalls {
		names[c.ID] = c.Name
	}
	answered := map[string]bool{}
	c := phiConversion{p: p, where: where, names: names, at: t.Start}
	for _, b := range p.bodies(where, spans.ListOutput, t.Output) {
		c.at = cmp.Or(t.End, t.Start)
		reply, results := c.reply(b, r, t)
		f.reply = reply
		f.results = append(f.results, results...)
	}
	for _, m := range f.results {
		answered[callID(m)] = true
	}
	c.at = t.Start
	for _, b := range p.bodies(where, spans.ListInput, t.Input) {
		m := readMessage(string(b.body))
		if m.role == "tool" {
			continue // in the results
		}
		f.input = append(f.input, c.said(&m, b))
	}
	c.at = cmp.Or(t.End, t.Start)
	for _, b := range p.bodies(where, spans.ListResults, t.Results) {
		m := readMessage(string(b.body))
		for _, raw := range c.results(&m, b) {
			if id := callID(raw); !answered[id] {
				answered[id] = true
				f.results = append(f.results, raw)
			}
		}
	}
	// Loops that tell of results only as those of tool calls.
	for _, call := range t.ToolCalls {
		if answered[call.ID] || call.Result == nil || call.ID == "" {
			continue
		}
		for _, b := range p.bodies(where, spans.ListResult, call.Result) {
			part := messagePart{kind: partResult, id: call.ID, name: call.Name, content: b.body,
				isError: call.Outcome != spans.OutcomeOK && call.Outcome != ""}
			f.results = append(f.results, c.result(&part, cmp.Or(call.End, c.at)))
		}
	}
	// phi-core puts the place of the turn on the reply and on the results.
	id := object{}
	id.str("loopId", r.ID)
	id.int("turnIndex", t.Index)
	place := id.only("turnId")
	f.all = append(f.all, f.input...)
	if f.reply != nil {
		f.reply = merge(f.reply, place)
		f.all = append(f.all, f.reply)
	}
	ends := map[string]time.Time{}
	for _, c := range t.ToolCalls {
		ends[c.ID] = c.End
	}
	for _, m := range f.results {
		f.all = append(f.all, merge(m, place))
	}
	arrived := slices.Clone(f.results)
	slices.SortStableFunc(arrived, func(a, b []byte) int { return ends[callID(a)].Compare(ends[callID(b)]) })
	f.input = append(f.input, arrived...)
	return f
}

// outside returns the messages of a run of another dialect that arrived outside its turns: those before the first turn, and the others.
func (p *phiCore) outside(where string, r *session.Run) (before, after [][]byte) {
	first := r.End
	if len(r.Turns) > 0 {
		first = r.Turns[0].Start
	}
	c := phiConversion{p: p, where: where, at: r.Start}
	for _, b := range p.bodies(where, spans.ListOutside, r.Outside) {
		m := readMessage(string(b.body))
		if raw := c.said(&m, b); c.stamp(b) <= first.UnixMilli() {
			before = append(before, raw)
		} else {
			after = append(after, raw)
		}
	}
	return before, after
}

func callID(raw []byte) string {
	var m struct {
		ID string `json:"toolCallId"`
	}
	_ = json.Unmarshal(raw, &m)
	return m.ID
}

// phiConversion says messages in phi-core's words.
type phiConversion struct {
	p     *phiCore
	where string
	names map[string]string // of tools, by call
	at    time.Time         // when a message was that does not say it itself
}

// stamp is the time of a message in milliseconds.
func (c *phiConversion) stamp(b body) int64 {
	var m struct {
		Timestamp json.Number `json:"timestamp"`
		CreatedAt json.Number `json:"createdAt"`
	}
	if json.Unmarshal(b.body, &m) == nil {
		if n, err := cmp.Or(m.Timestamp, m.CreatedAt).Int64(); err == nil && n >= 0 {
			return n
		}
	}
	return max(c.at.UnixMilli(), 0)
}

// content are the parts of a message that are not results, as phi-core's content. What went wrong comes back apart.
func (c *phiConversion) content(m *message) (content []byte, failure string) {
	var l array
	for i := range m.parts {
		part := &m.parts[i]
		o := object{}
		switch part.kind {
		case partText:
			o.str("text", part.text)
			o.str("type", "text")
		case partReasoning:
			if part.signature != "" {
				o.str("signature", part.signature)
			}
			o.str("thinking", part.text)
			o.str("type", "thinking")
		case partCall:
			args := part.args
			if args == nil {
				args = null
			}
			o.raw("arguments", args)
			o.str("id", part.id)
			o.str("name", part.name)
			o.str("type", "toolCall")
		case partFile:
			if part.data == "" || part.mediaType == "" || part.modality != "image" {
				c.p.miss(c.where, "a file that phi-core has no content for")
				continue
			}
			o.str("data", part.data)
			o.str("mimeType", part.mediaType)
			o.str("type", "image")
		case partError:
			failure = part.text
			continue
		case partResult:
			continue
		default:
			if part.name != "step-start" { // which says no more than that the turn began
				c.p.miss(c.where, "a part that phi-core has no content for")
			}
			continue
		}
		l.raw(o.bytes())
	}
	return l.bytes(), failure
}

// said is a message that was said to the model: a user's, or one that phi-core only knows as an extension.
func (c *phiConversion) said(m *message, b body) []byte {
	if raw := asItIs(b); raw != nil {
		return raw
	}
	content, _ := c.content(m)
	o := object{}
	if m.role == "user" || m.role == "" {
		o.raw("content", content)
		o.str("role", "user")
		o.int("timestamp", c.stamp(b))
		return o.bytes()
	}
	o.raw("data", content)
	o.str("kind", m.role)
	o.str("role", m.role)
	return o.bytes()
}

// asItIs returns the message with its envelope if phi-core would load it, as a host writes them that speaks its words; else nil.
func asItIs(b body) []byte {
	if raw := b.body; unloadable(raw, false) == "" {
		return raw
	}
	return nil
}

// reply is the reply of a turn, and the results that stand inside it.
func (c *phiConversion) reply(b body, r *session.Run, t *session.Turn) (reply []byte, results [][]byte) {
	m := readMessage(string(b.body))
	if raw := asItIs(b); raw != nil {
		return raw, c.results(&m, b)
	}
	content, failure := c.content(&m)
	usage := t.Reported
	if usage == nil {
		usage = reported(t.Usage)
	}
	failure = cmp.Or(t.Error, failure)
	o := object{}
	o.raw("content", content)
	if failure != "" {
		o.str("error_message", failure)
	}
	o.str("model", cmp.Or(t.Answered, t.Model, r.Model))
	o.str("provider", cmp.Or(t.Provider, r.Provider))
	o.str("role", "assistant")
	o.str("stopReason", c.stopReason(t))
	o.int("timestamp", c.stamp(b))
	o.raw("usage", c.p.usage(c.where, usage))
	return o.bytes(), c.results(&m, b)
}

// stopReason is the turn's stop reason in phi-core's words.
func (c *phiConversion) stopReason(t *session.Turn) string {
	switch word := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(t.StopReason)); word {
	case "stop", "endturn", "stopsequence", "completed", "complete":
		return "stop"
	case "tooluse", "toolcalls", "toolcall":
		return "toolUse"
	case "length", "maxtokens", "maxoutputtokens":
		return "length"
	case "maxturnrequests", "maxturns":
		return "maxTurns"
	case "aborted", "abort", "cancelled", "canceled":
		return "aborted"
	case "contentfilter", "refusal":
		return "guardRail"
	case "error":
		return "error"
	case "":
	default:
		c.p.foreign(c.where, "stop reason", t.StopReason)
	}
	switch {
	case t.Failed && t.ErrorType == spans.ErrorTypeCancelled:
		return "aborted"
	case t.Failed:
		return "error"
	case len(t.ToolCalls) > 0:
		return "toolUse"
	}
	return "stop"
}

// results are the results that stand in a message.
func (c *phiConversion) results(m *message, b body) (l [][]byte) {
	at := time.UnixMilli(c.stamp(b))
	for i := range m.parts {
		if m.parts[i].kind == partResult {
			l = append(l, c.result(&m.parts[i], at))
		}
	}
	return l
}

func (c *phiConversion) result(part *messagePart, at time.Time) []byte {
	o := object{}
	o.raw("content", c.resultContent(part.content))
	o.bool("isError", part.isError)
	o.str("role", "toolResult")
	o.int("timestamp", max(at.UnixMilli(), 0))
	o.str("toolCallId", part.id)
	o.str("toolName", cmp.Or(part.name, c.names[part.id]))
	return o.bytes()
}

// resultContent says the content of a result as phi-core's: texts and images as such, any other JSON as a text that holds it.
func (c *phiConversion) resultContent(content json.RawMessage) []byte {
	var l array
	add := func(text string) {
		o := object{}
		o.str("text", text)
		o.str("type", "text")
		l.raw(o.bytes())
	}
	if content == nil {
		return l.bytes()
	}
	if s, ok := text(content); ok {
		add(s)
		return l.bytes()
	}
	blocks := content
	var result struct {
		Content, Data json.RawMessage
		Type          string
		ErrorText     *string `json:"error_text"`
	}
	if json.Unmarshal(content, &result) == nil {
		switch {
		case result.Content != nil:
			blocks = result.Content
		case result.Type == "output" && result.Data != nil: // the envelope of the agent guide
			return c.resultContent(result.Data)
		case result.Type == "error" && result.ErrorText != nil:
			add(*result.ErrorText)
			return l.bytes()
		}
	}
	if len(blocks) > 0 && blocks[0] == '[' {
		wrapped := object{}
		wrapped.raw("content", blocks)
		wrapped.str("role", "user")
		m := readMessage(string(wrapped.bytes()))
		plain := len(m.parts) > 0
		for i := range m.parts {
			k := m.parts[i].kind
			plain = plain && (k == partText || k == partFile && m.parts[i].modality == "image" && m.parts[i].data != "")
		}
		if plain {
			all, _ := c.content(&m)
			return all
		}
	}
	add(string(content))
	return l.bytes()
}
