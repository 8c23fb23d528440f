package phi

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
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
func messageOf(raw []byte) message {
	o := object.Of("", raw)
	return message{input.Message(o, raw), o}
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

// asks returns the blocks of a reply that ask for tool calls.
func (msg *message) asks() (calls []*object.Object) {
	if !msg.llm() {
		return nil
	}
	for _, raw := range msg.o.List("content") {
		if block := object.Of("", raw); block.Text("type") == "toolCall" {
			calls = append(calls, block)
		}
	}
	return calls
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
		*msg = input.Message(&m, msg.Raw)
	})
	if once(p); req.Messages == nil {
		req.Messages = input.Messages(p.List("messages"))
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
