package phi

import (
	"bytes"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// envelope names the keys of a message that belong to its place in a conversation.
var envelope = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint"}

// message is a message with its members. Members of an unexpected type are no problem: Raw keeps them.
type message struct {
	event.Message
	o *object.Object // nil when it is no object
}

// messageOf reads a message.
func messageOf(raw []byte) message { return readMessage(object.Of("", raw), raw) }

func readMessage(o *object.Object, raw []byte) message {
	msg := message{event.Message{Raw: raw, Role: o.Text("role")}, o}
	if !msg.llm() {
		return msg
	}
	msg.ToolCallID = o.Text("toolCallId")
	if ms := o.Count("timestamp"); ms != nil {
		if t := time.UnixMilli(*ms).UTC(); t.Year() >= 1678 && t.Year() < 2262 {
			msg.Time = t
		}
	}
	return msg
}

// messagesOf reads a list of messages; nil when there is none.
func messagesOf(raws [][]byte) []event.Message {
	if raws == nil {
		return nil
	}
	list := make([]event.Message, len(raws))
	var o object.Object
	for i, raw := range raws {
		o.Reset("", raw)
		list[i] = readMessage(&o, raw).Message
	}
	return list
}

// llm reports whether msg is a message for a model; else it is an extension message, or none that we know.
func (msg *message) llm() bool {
	content := msg.o.Raw("content")
	known := msg.Role == "user" || msg.Role == "assistant" || msg.Role == "toolResult"
	return known && content != nil && content[0] == '['
}

func (msg *message) reply() bool { return msg.Role == "assistant" && msg.llm() }

// failed reports whether msg is the result of a tool that failed.
func (msg *message) failed() bool {
	raw := msg.o.Raw("isError")
	return raw != nil && raw[0] == 't'
}

// provider returns the provider of a reply. phi-core writes unknown for a model call that failed before it began.
func (msg *message) provider() string {
	if p := msg.o.Text("provider"); p != "unknown" {
		return p
	}
	return ""
}

// usage returns the usage of a reply; nil when it is absent or not sound.
func (msg *message) usage(rule spans.UsageRule) *event.Usage {
	return usageKeys.Read(object.Of("", msg.o.Raw("usage")), rule)
}

// text returns the text blocks of the content of o, one a line.
func text(o *object.Object) string {
	var parts []string
	for _, block := range blocks(o, "text") {
		if text, ok := rawjson.String(block.Raw("text")); ok {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// blocks returns the blocks of a type in the content of o.
func blocks(o *object.Object, typ string) (list []*object.Object) {
	if raw := o.Raw("content"); raw == nil || raw[0] != '[' {
		return nil
	}
	for _, raw := range o.List("content") {
		if block := object.Of("", raw); block.Text("type") == typ {
			list = append(list, block)
		}
	}
	return list
}

var triggers = map[string]spans.Trigger{
	"User": spans.TriggerUser, "SubAgent": spans.TriggerSubAgent, "Continuation": spans.TriggerContinuation,
	"FollowUp": spans.TriggerContinuation, // until 2026-04
	"Branch":   spans.TriggerBranch,
}

// payload reads a request.
func payload(o *object.Object) event.Request {
	p := o.Object("payload")
	var m object.Object
	// What cannot be read is kept as it is spelled.
	req, _ := event.ReadRequest(o.Raw("payload"), func(msg *event.Message) {
		m.Reset("", msg.Raw)
		*msg = readMessage(&m, msg.Raw).Message
	})
	if once(p); req.Messages == nil {
		req.Messages = messagesOf(p.List("messages"))
	}
	if raw := p.Raw("provenance"); raw != nil && raw[0] == '[' {
		if list := p.List("provenance"); len(list) == len(req.Messages) {
			for i, raw := range list {
				p := input.Provenance(raw)
				if !bytes.Equal(p.AppendJSON(nil), raw) { // it is spelled otherwise than phi-core does
					p = spans.Provenance{Raw: string(raw)}
				}
				req.Messages[i].Provenance = p
			}
		}
	}
	return req
}
