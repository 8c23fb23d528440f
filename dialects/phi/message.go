package phi

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// messageList returns list as messages. The slice is used again for the next line.
func (d *Decoder) messageList(list []message) []otelagent.Message {
	out := d.out.messages[:0]
	if out == nil {
		out = make([]otelagent.Message, 0, len(list))
	}
	for i := range list {
		out = append(out, d.messageOf(&list[i]))
	}
	d.out.messages = out
	return out
}

func (d *Decoder) messageOf(m *message) otelagent.Message {
	if k := m.same; k != nil {
		return otelagent.Message{Raw: m.raw, Envelope: envelope, Role: k.role, ToolCallID: k.callID, Time: k.time}
	}
	out := otelagent.Message{Raw: m.raw, Envelope: envelope, Role: d.lenient(m.role)}
	if !m.llm() {
		return out
	}
	out.ToolCallID = d.lenient(m.toolCallID)
	if ms, ok := parseCount(m.timestamp); ok && m.timestamp != nil {
		if t := time.UnixMilli(ms).UTC(); inNanoseconds(t) {
			out.Time = t
		}
	}
	return out
}

// llm reports whether m is a message for a model; else it is an extension message, or none that we know.
func (m *message) llm() bool {
	if m.content == nil || m.content[0] != '[' {
		return false
	}
	switch string(m.role) {
	case `"user"`, `"assistant"`, `"toolResult"`:
		return true
	}
	return false
}

func (m *message) reply() bool { return string(m.role) == `"assistant"` && m.llm() }

func (d *Decoder) messageStart(m otelagent.Meta) {
	d.in(&m)
	d.emitKept(m, "MessageStart")
}

func (d *Decoder) messageUpdate(m otelagent.Meta) {
	r := d.in(&m)
	e := &d.out.replyDelta
	e.Meta = m
	delta := d.get(kDelta)
	setPiece(e, delta)
	if len(d.ev.others) == 0 && d.ev.has&^variants[vMessageUpdate].keys == 0 {
		d.update.keep(d.ev.raw, delta, r)
	}
	d.emit(e)
}

// updateHead is a MessageUpdate line up to its delta. The lines of one reply begin alike, with the same empty message.
type updateHead struct {
	head []byte
	run  *run
}

// keep remembers a line whose delta comes last, as phi-core writes it.
func (u *updateHead) keep(raw, delta []byte, r *run) {
	u.head = u.head[:0]
	if at := len(raw) - 1 - len(delta); len(delta) > 0 && at > 0 && &raw[at] == &delta[0] {
		u.head, u.run = append(u.head, raw[:at]...), r
	}
}

// updated hands out the event of a line that differs from a MessageUpdate line before only in its delta, and reports
// whether it did.
func (d *Decoder) updated(raw []byte) bool {
	u := &d.update
	if len(u.head) == 0 || !bytes.HasPrefix(raw, u.head) || !u.run.open || d.runs.find(u.run.id) != u.run {
		return false
	}
	rest := raw[len(u.head):]
	c := rawjson.NewCursor(rest, maxDepth-1)
	delta := c.Value()
	if delta == nil || len(rest) != len(delta)+1 || rest[len(delta)] != '}' || !utf8.Valid(delta) {
		return false
	}
	d.stats.Events++
	d.out.replyDelta = otelagent.ReplyDelta{
		Meta: otelagent.Meta{Session: u.run.session, Run: u.run.id, Seq: d.seq, Arrived: d.arrived},
	}
	setPiece(&d.out.replyDelta, delta)
	d.emit(&d.out.replyDelta)
	return true
}

// setPiece sets what a delta brings.
func setPiece(e *otelagent.ReplyDelta, delta []byte) {
	e.Kind, e.Text = pieceOf(delta)
	e.Bytes = 0
	if e.Text != nil {
		e.Bytes = rawjson.StringLen(e.Text)
	}
}

// pieceOf returns the piece of a reply in {"Kind":{"delta":"text"}}, nil when there is none.
func pieceOf(raw []byte) (kind otelagent.PartialKind, text []byte) {
	c := rawjson.NewCursor(raw, maxDepth)
	if !c.Open('{') || !c.More('}') {
		return "", nil
	}
	switch string(c.RawKey()) {
	case `"Thinking"`:
		kind = otelagent.PartialReasoning
	case `"ToolCallDelta"`:
		kind = otelagent.PartialToolInput
	default:
		kind = otelagent.PartialText
	}
	if !c.Open('{') {
		return "", nil
	}
	for c.More('}') {
		key, value := c.RawKey(), c.Value()
		if string(key) == `"delta"` && value[0] == '"' {
			return kind, value
		}
	}
	return "", nil
}

func (d *Decoder) messageEnd(f *fields, m otelagent.Meta) {
	raw := d.get(kMessage)
	f.required("message", raw, "an object")
	if f.wrong == nil && raw[0] != '{' {
		f.mismatch("message", raw, "an object")
	}
	msg := &d.ev.message
	if f.wrong == nil {
		f.required("message.role", msg.role, "a string")
		f.id("message.role", msg.role)
	}
	if f.wrong != nil {
		return
	}
	r := d.in(&m)
	if msg.reply() {
		if r.turn {
			d.noteCalls(r, msg.content)
		}
		e := &d.out.replyReceived
		*e = otelagent.ReplyReceived{Meta: m, Message: d.messageOf(msg), Model: d.lenient(msg.model), Provider: d.lenient(msg.provider),
			StopReason: d.lenient(msg.stopReason)}
		if e.Provider == unknownProvider {
			e.Provider = ""
		}
		d.out.usage = otelagent.Usage{Rule: d.usageRule(r, e.Provider)}
		if soundUsage(msg.usage, &d.out.usage) {
			e.Usage = &d.out.usage
		}
		d.emit(e)
		d.emitKept(m, "MessageEnd")
		return
	}
	e := &d.out.messageAdded
	*e = otelagent.MessageAdded{Meta: m, Message: d.messageOf(msg)}
	if e.ToolCallID != "" && msg.isError != nil && msg.isError[0] == 't' {
		if c := r.calls[e.ToolCallID]; c != nil && c.asked && !c.started && !c.denied {
			c.denied = true
			d.deny(m, e.ToolCallID, c, contentText(msg.content))
		}
	}
	d.emit(e)
	d.emitKept(m, "MessageEnd")
}

// contentText returns the text blocks of a content array, one a line.
func contentText(content []byte) string {
	var parts []string
	c := rawjson.NewCursor(content, maxDepth)
	for c.Open('['); c.More(']'); {
		if c.Peek() != '{' {
			c.Value()
			continue
		}
		var typ, text []byte
		for c.Open('{'); c.More('}'); {
			switch key, value := c.RawKey(), c.Value(); string(key) {
			case `"type"`:
				typ = value
			case `"text"`:
				text = value
			}
		}
		if string(typ) == `"text"` && text != nil {
			if s, ok := rawjson.String(text); ok {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, "\n")
}
