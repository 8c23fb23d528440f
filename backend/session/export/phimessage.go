package export

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/genaijson"
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
	ends, ids := map[string]time.Time{}, map[*session.ToolCall]string{}
	identify := func(call *session.ToolCall, id string) {
		ids[call], c.names[id], ends[id] = id, call.Name, call.End
	}
	for _, call := range t.ToolCalls {
		identify(call, call.ID)
	}
	calls := slices.Clone(t.ToolCalls)
	answered := map[string]bool{}
	add := func(part *messagePart, ms int64) {
		if !answered[part.ID] {
			f.results = append(f.results, c.result(part, ms))
		}
		answered[part.ID] = part.ID != ""
	}
	results := func(m *chatMessage, b body) {
		for i := range m.parts {
			if m.parts[i].Type == partResult {
				add(&m.parts[i], c.stamp(b))
			}
		}
	}
	for _, b := range p.listOf(where, spans.ListOutput, t.Output) {
		m := readMessage(b.body)
		for i := range m.parts {
			part := &m.parts[i]
			if call := session.CallOf(calls, part.ID, part.Name); call != nil && part.Type == partCall {
				part.ID = cmp.Or(part.ID, call.ID)
				identify(call, part.ID)
				calls = slices.DeleteFunc(calls, func(o *session.ToolCall) bool { return o == call })
			}
		}
		f.reply = c.reply(&m, b, r, t)
		results(&m, b)
	}
	for _, b := range p.listOf(where, spans.ListResults, t.Results) {
		m := readMessage(b.body)
		results(&m, b)
	}
	for _, call := range t.ToolCalls { // of loops that report results only with the calls
		id := ids[call]
		if answered[id] || id == "" {
			continue
		}
		for _, b := range p.listOf(where, spans.ListResult, call.Result) {
			part := genaijson.Part{Type: partResult, ID: id, Name: call.Name, Content: b.body,
				IsError: call.Outcome != spans.OutcomeOK && call.Outcome != ""}
			add(&messagePart{Part: part}, cmp.Or(call.End, c.at).UnixMilli())
		}
	}
	c.at = t.Start
	name, input := p.input(r, t)
	for _, b := range p.listOf(where, name, input) {
		if m := readMessage(b.body); m.role != "tool" { // else it is in the results
			f.input = append(f.input, c.prompt(&m, b))
		}
	}
	place := placeOf(r, t) // which phi-core puts on the reply and on the results
	f.all = slices.Clone(f.input)
	if f.reply != nil {
		f.reply = placed(f.reply, place)
		f.all = append(f.all, f.reply)
	}
	for _, m := range f.results {
		f.all = append(f.all, placed(m, place))
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

func callID(raw []byte) string { return parse(raw).Text("toolCallId") }

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
		if n, err := strconv.ParseInt(strings.Trim(string(o.Raw(key)), `"`), 10, 64); err == nil && n >= 0 {
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
		part := &m.parts[i]
		s, isText := part.text()
		switch {
		case part.Type == partResult:
		case part.Type == partCall:
			args := cmp.Or(string(part.Content), "null")
			l = append(l, fields("arguments", []byte(args), "id", &part.ID, "name", &part.Name, "type", "toolCall"))
		case part.Type == "text" && isText:
			l = append(l, phiText(s))
		case part.Type == "reasoning" && isText:
			_, signature := message.Signature(part.Block)
			l = append(l, fields("signature", signature, "thinking", &s, "type", "thinking"))
		case part.isImage():
			l = append(l, fields("data", s, "mimeType", part.MIME, "type", "image"))
		case part.Type == "error" && isText:
			failure = s
		case part.Type == "blob" || part.Type == "uri":
			c.p.miss(c.where, "a file that phi-core has no content for")
		case part.aiType() != "step-start": // which only marks that the turn began
			c.p.miss(c.where, "a part that phi-core has no content for")
		}
	}
	return list(l), failure
}

// isImage reports whether the part is an image that phi-core has a place for.
func (p *messagePart) isImage() bool {
	return p.Type == "blob" && p.Modality == "image" && p.MIME != "" && len(p.Content) > len(`""`)
}

// prompt converts an input of the model: a user's message, or one that phi-core only knows as an extension.
func (c *phiConversion) prompt(m *chatMessage, b body) []byte {
	content, _ := c.content(m)
	if m.role == "user" || m.role == "" {
		return fields("content", content, "role", "user", "timestamp", new(c.stamp(b)))
	}
	return fields("data", content, "kind", m.role, "role", m.role)
}

// reply converts the reply of a turn.
func (c *phiConversion) reply(m *chatMessage, b body, r *session.Run, t *session.Turn) []byte {
	content, failure := c.content(m)
	return fields("content", content, "error_message", cmp.Or(t.Error, failure),
		"model", new(cmp.Or(t.Answered, t.Model, r.Model)), "provider", new(cmp.Or(t.Provider, r.Provider)),
		"role", "assistant", "stopReason", c.stopReason(t), "timestamp", new(c.stamp(b)),
		"usage", phiUsage(t.Reported, t.Usage))
}

// stopReason returns the turn's stop reason as phi-core names it.
func (c *phiConversion) stopReason(t *session.Turn) string {
	word := stopReasonOf(t.StopReason).phi
	switch word = known(c.p, c.where, "stop reason", t.StopReason, map[string]string{t.StopReason: word}); {
	case word != "":
		return word
	case t.Failed && t.ErrorType == spans.ErrorTypeCancelled:
		return "aborted"
	case t.Failed:
		return "error"
	case len(t.ToolCalls) > 0:
		return "toolUse"
	}
	return "stop"
}

func (c *phiConversion) result(part *messagePart, ms int64) []byte {
	return fields("content", c.resultContent(valueOf(part.Content)), "isError", &part.IsError, "role", "toolResult",
		"timestamp", new(max(ms, 0)), "toolCallId", &part.ID, "toolName", new(cmp.Or(part.Name, c.names[part.ID])))
}

// resultContent converts the content of a result: texts and images as such, any other JSON as a text that holds it.
func (c *phiConversion) resultContent(content []byte) []byte {
	if content == nil {
		return list[[]byte](nil)
	}
	s, isText := text(content)
	blocks, result := content, parse(content)
	switch {
	case isText:
		return list([][]byte{phiText(s)})
	case result.Has("content"):
		blocks = result.Raw("content")
	case result.Text("type") == "output" && result.Has("data"): // the envelope of the agent guide
		return c.resultContent(result.Raw("data"))
	}
	if len(blocks) > 0 && blocks[0] == '[' {
		m := readMessage(fields("content", blocks, "role", "user"))
		foreign := func(p messagePart) bool { return p.Type != "text" && !p.isImage() }
		if len(m.parts) > 0 && !slices.ContainsFunc(m.parts, foreign) {
			all, _ := c.content(&m)
			return all
		}
	}
	return list([][]byte{phiText(string(content))})
}
