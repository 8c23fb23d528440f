package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file converts messages of other dialects to phi-core's.

// turnMessages are the messages of a turn.
type turnMessages struct {
	// input is what arrived during the turn but for the reply, in that order: prompts, and the results of its calls.
	input   [][]byte
	reply   []byte // nil when none is known
	results [][]byte
	// all are the messages of the turn in their order; only of a run of another dialect.
	all [][]byte
}

// foreignTurn converts the messages of a turn. It notes parts that phi-core has no place for: files other than images,
// and parts of an unknown kind.
func (p *phiCore) foreignTurn(where string, r *session.Run, t *session.Turn) turnMessages {
	var f turnMessages
	c := phiConversion{p: p, where: where, names: map[string]string{}, at: cmp.Or(t.End, t.Start)}
	ends := map[string]time.Time{}
	for _, call := range t.ToolCalls {
		c.names[call.ID], ends[call.ID] = call.Name, call.End
	}
	for _, b := range p.listOf(where, spans.ListOutput, t.Output) {
		m := readMessage(b.body)
		f.reply = c.reply(&m, b, r, t)
		f.results = append(f.results, c.results(&m, b)...)
	}
	answered := map[string]bool{}
	for _, m := range f.results {
		answered[callID(m)] = true
	}
	for _, b := range p.listOf(where, spans.ListResults, t.Results) {
		m := readMessage(b.body)
		for _, raw := range c.results(&m, b) {
			if id := callID(raw); !answered[id] {
				answered[id] = true
				f.results = append(f.results, raw)
			}
		}
	}
	for _, call := range t.ToolCalls { // of loops that report results only with the calls
		if answered[call.ID] || call.ID == "" {
			continue
		}
		for _, b := range p.listOf(where, spans.ListResult, call.Result) {
			part := messagePart{kind: partResult, id: call.ID, name: call.Name, content: b.body,
				isError: call.Outcome != spans.OutcomeOK && call.Outcome != ""}
			f.results = append(f.results, c.result(&part, cmp.Or(call.End, c.at).UnixMilli()))
		}
	}
	c.at = t.Start
	for _, b := range p.listOf(where, spans.ListInput, t.Input) {
		if m := readMessage(b.body); m.role != "tool" { // else it is in the results
			f.input = append(f.input, c.prompt(&m, b))
		}
	}
	place := placeOf(r, t) // which phi-core puts on the reply and on the results
	f.all = slices.Clone(f.input)
	if f.reply != nil {
		f.reply = merge(f.reply, place)
		f.all = append(f.all, f.reply)
	}
	for _, m := range f.results {
		f.all = append(f.all, merge(m, place))
	}
	arrived := slices.Clone(f.results)
	slices.SortStableFunc(arrived, func(a, b []byte) int { return ends[callID(a)].Compare(ends[callID(b)]) })
	f.input = append(f.input, arrived...)
	return f
}

// outside returns the messages of a run of another dialect that arrived outside its turns: those before the first turn,
// and the others.
func (p *phiCore) outside(where string, r *session.Run) (before, after [][]byte) {
	first := r.End
	if len(r.Turns) > 0 {
		first = r.Turns[0].Start
	}
	c := phiConversion{p: p, where: where, at: r.Start}
	for _, b := range p.listOf(where, spans.ListOutside, r.Outside) {
		m := readMessage(b.body)
		if raw := c.prompt(&m, b); c.stamp(b) <= first.UnixMilli() {
			before = append(before, raw)
		} else {
			after = append(after, raw)
		}
	}
	return before, after
}

func callID(raw []byte) string { return parse(raw).text("toolCallId") }

// phiConversion converts messages. Keys have the order of the alphabet, as phi-core writes them.
type phiConversion struct {
	p     *phiCore
	where string
	names map[string]string // of tools, by call
	at    time.Time         // of a message that states no time
}

// stamp is the time of a message in milliseconds.
func (c *phiConversion) stamp(b body) int64 {
	o := parse(b.body)
	for _, key := range []string{"timestamp", "createdAt"} {
		if n, err := strconv.ParseInt(strings.Trim(string(o.get(key)), `"`), 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return max(c.at.UnixMilli(), 0)
}

func phiText(text string) []byte { return fields("text", &text, "type", "text") }

// content returns the parts of a message that are not results, as phi-core's content, and the text of an error.
func (c *phiConversion) content(m *chatMessage) (content []byte, failure string) {
	var l [][]byte
	for i := range m.parts {
		switch part := &m.parts[i]; part.kind {
		case partText:
			l = append(l, phiText(part.text))
		case partReasoning:
			l = append(l, fields("signature", part.signature, "thinking", &part.text, "type", "thinking"))
		case partCall:
			args := []byte(part.args)
			if args == nil {
				args = null
			}
			l = append(l, fields("arguments", args, "id", &part.id, "name", &part.name, "type", "toolCall"))
		case partFile:
			if part.data == "" || part.mediaType == "" || part.modality != "image" {
				c.p.miss(c.where, "a file that phi-core has no content for")
				continue
			}
			l = append(l, fields("data", part.data, "mimeType", part.mediaType, "type", "image"))
		case partError:
			failure = part.text
		case partResult:
		default:
			if part.name != "step-start" { // which only marks that the turn began
				c.p.miss(c.where, "a part that phi-core has no content for")
			}
		}
	}
	return list(l), failure
}

// prompt converts an input of the model: a user's message, or one that phi-core only knows as an extension. A host that
// writes phi-core's messages has them as they are.
func (c *phiConversion) prompt(m *chatMessage, b body) []byte {
	if unloadable(b.body, false) == "" {
		return b.body
	}
	content, _ := c.content(m)
	if m.role == "user" || m.role == "" {
		return fields("content", content, "role", "user", "timestamp", new(c.stamp(b)))
	}
	return fields("data", content, "kind", m.role, "role", m.role)
}

// reply converts the reply of a turn.
func (c *phiConversion) reply(m *chatMessage, b body, r *session.Run, t *session.Turn) []byte {
	if unloadable(b.body, false) == "" {
		return b.body
	}
	content, failure := c.content(m)
	return fields("content", content, "error_message", cmp.Or(t.Error, failure),
		"model", new(cmp.Or(t.Answered, t.Model, r.Model)), "provider", new(cmp.Or(t.Provider, r.Provider)),
		"role", "assistant", "stopReason", c.stopReason(t), "timestamp", new(c.stamp(b)),
		"usage", c.p.usage(c.where, t.Reported, t.Usage))
}

// stopReason returns the turn's stop reason as phi-core names it.
func (c *phiConversion) stopReason(t *session.Turn) string {
	if known := stopReasonOf(t.StopReason).phi; known != "" {
		return known
	}
	if t.StopReason != "" {
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

// results converts the results in a message.
func (c *phiConversion) results(m *chatMessage, b body) (l [][]byte) {
	for i := range m.parts {
		if m.parts[i].kind == partResult {
			l = append(l, c.result(&m.parts[i], c.stamp(b)))
		}
	}
	return l
}

func (c *phiConversion) result(part *messagePart, ms int64) []byte {
	return fields("content", c.resultContent(part.content), "isError", &part.isError, "role", "toolResult",
		"timestamp", new(max(ms, 0)), "toolCallId", &part.id, "toolName", new(cmp.Or(part.name, c.names[part.id])))
}

// resultContent converts the content of a result: texts and images as such, any other JSON as a text that holds it.
func (c *phiConversion) resultContent(content json.RawMessage) []byte {
	if content == nil {
		return list[[]byte](nil)
	}
	s, isText := text(content)
	blocks, result := []byte(content), parse(content)
	switch failed, isFailed := text(result.get("error_text")); {
	case isText:
		return list([][]byte{phiText(s)})
	case result.get("content") != nil:
		blocks = result.get("content")
	case result.text("type") == "output" && result.get("data") != nil: // the envelope of the agent guide
		return c.resultContent(result.get("data"))
	case result.text("type") == "error" && isFailed:
		return list([][]byte{phiText(failed)})
	}
	if len(blocks) > 0 && blocks[0] == '[' {
		m := readMessage(fields("content", blocks, "role", "user"))
		foreign := func(p messagePart) bool {
			return p.kind != partText && (p.kind != partFile || p.modality != "image" || p.data == "")
		}
		if len(m.parts) > 0 && !slices.ContainsFunc(m.parts, foreign) {
			all, _ := c.content(&m)
			return all
		}
	}
	return list([][]byte{phiText(string(content))})
}
