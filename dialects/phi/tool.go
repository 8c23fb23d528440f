package phi

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Texts by which phi-core says more than by its flags.
const (
	textSkipped      = "Skipped due to queued user message."
	textCancelled    = "Cancelled"
	textDenyPattern  = "Command blocked by safety policy: contains"
	textNotConfirmed = "Command was not confirmed by the user."
	// textHookDenied is the result of a call that a hook refused without a reason. In a ledger without events nothing
	// else shows a refusal: of one with a reason, which 0.11.2 and later have, only the failure is known.
	textHookDenied = "Tool execution skipped by before_tool_execution hook."
)

// pieces are the kinds of a delta that are no text.
var pieces = map[string]event.PartialKind{"Thinking": event.PartialReasoning, "ToolCallDelta": event.PartialToolInput}

func (d *Decoder) messageEnd(l *line) {
	l.Require("message")
	if o := l.Object.Object("message"); o.Require("role") {
		o.String("role")
	}
	if l.Failed() > 0 {
		return
	}
	r, msg := l.run, messageOf(l.Raw("message"))
	if msg.reply() {
		for _, asked := range msg.asks() {
			if id := asked.Text("id"); r.inTurn && id != "" {
				c := r.call(id)
				c.asked, c.name, c.args = true, asked.Text("name"), bytes.Clone(asked.Spelled("arguments"))
			}
		}
		provider := msg.provider()
		l.add(&event.ReplyReceived{Meta: l.m, Message: msg.Message, Model: msg.o.Text("model"), Provider: provider,
			StopReason: msg.o.Text("stopReason"), Usage: msg.usage(d.runs.replyRule(r, provider))})
		return
	}
	c, id := r.calls[msg.ToolCallID], msg.ToolCallID
	if id != "" && msg.failed() && c != nil && c.asked && !c.started {
		// The call was refused before it began: phi-core writes nothing of it but this result.
		c.asked = false
		reason := input.Texts(msg.o.Raw("content"))
		l.add(&event.ToolStarted{Meta: l.m, ToolCall: event.ToolCall{ID: id, Name: c.name, Args: c.args}},
			denial(l.m, event.PermissionEvaluation{Tool: c.name, CallID: id, Source: "hook", Reason: reason}),
			&event.ToolEnded{Meta: l.m, CallID: id, Name: c.name,
				ToolResult: event.ToolResult{Outcome: spans.OutcomeDenied, Error: reason}})
	}
	l.add(&event.MessageAdded{Meta: l.m, Message: msg.Message})
}

func (d *Decoder) toolEnd(l *line) {
	l.Require("tool_call_id")
	e := &event.ToolEnded{CallID: l.String("tool_call_id"), Name: l.String("tool_name")}
	e.Result, e.ChildRunID = l.Spelled("result"), l.String("child_loop_id")
	failed := l.Bool("is_error")
	result := object.Of("", e.Result)
	if inner := result.Text("child_loop_id"); inner != "" { // the one that phi-core's recorder reads
		if e.ChildRunID != "" && e.ChildRunID != inner {
			l.Keep("child_loop_id")
		}
		e.ChildRunID = inner
	}
	e.Meta, e.Outcome = l.m, spans.OutcomeOK
	if e.ChildRunID != "" {
		e.ChildSessionID = d.runs.sessionOf(e.ChildRunID, "")
	}
	c := l.run.calls[e.CallID]
	unstarted := c == nil || !c.started || c.null
	if c != nil {
		c.started = true // its start may be on a line that could not be read
	}
	if failed != nil && *failed {
		e.Outcome, e.Error = spans.OutcomeError, input.Texts(result.Raw("content"))
		var denied event.PermissionEvaluation
		switch {
		case e.Error == textSkipped && unstarted:
			e.Outcome = spans.OutcomeSkipped
		case e.Error == textCancelled:
			e.Outcome = spans.OutcomeCancelled
		case e.Name == "bash" && strings.HasPrefix(e.Error, textDenyPattern):
			denied.Source = "bash.deny_pattern"
			_, denied.Pattern, _ = strings.Cut(e.Error, "'")
			denied.Pattern, _, _ = strings.Cut(denied.Pattern, "'. This pattern is denied")
		case e.Name == "bash" && strings.HasPrefix(e.Error, textNotConfirmed):
			denied.Source = "bash.confirm"
		}
		if denied.Source != "" {
			denied.Tool, denied.CallID, denied.Reason = e.Name, e.CallID, e.Error
			e.Outcome = spans.OutcomeDenied
			l.add(denial(l.m, denied))
		}
	}
	l.add(e)
}
