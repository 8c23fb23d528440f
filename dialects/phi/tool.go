package phi

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
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

// messageStart gives no event: MessageEnd has the whole message.
func (d *Decoder) messageStart(l *line) []event.Event {
	l.Use("message")
	return nil
}

func (d *Decoder) messageUpdate(l *line) []event.Event {
	l.Use("message")
	e := &event.ReplyDelta{Meta: l.m}
	for kind, fields := range object.Of("", l.Raw("delta")).All() {
		text := object.Of("", fields).Raw("delta")
		if text == nil || text[0] != '"' {
			break
		}
		e.Kind, e.Text, e.Bytes = event.PartialText, text, len(rawjson.AppendString(nil, text))
		switch kind {
		case "Thinking":
			e.Kind = event.PartialReasoning
		case "ToolCallDelta":
			e.Kind = event.PartialToolInput
		}
		break
	}
	return []event.Event{e}
}

func (d *Decoder) messageEnd(l *line) []event.Event {
	l.Require("message")
	if o := l.Object.Object("message"); o.Require("role") {
		o.String("role")
	}
	if l.Failed() > 0 {
		return nil
	}
	r, msg := l.run, messageOf(l.Raw("message"))
	if msg.reply() {
		for _, asked := range blocks(msg.o, "toolCall") {
			if id := asked.Text("id"); r.inTurn && id != "" {
				c := r.call(id)
				c.asked, c.name, c.args = true, asked.Text("name"), bytes.Clone(asked.Spelled("arguments"))
			}
		}
		provider := msg.provider()
		return []event.Event{&event.ReplyReceived{
			Meta: l.m, Message: msg.Message, Model: msg.o.Text("model"), Provider: provider,
			StopReason: msg.o.Text("stopReason"), Usage: msg.usage(d.runs.replyRule(r, provider)),
		}}
	}
	added := &event.MessageAdded{Meta: l.m, Message: msg.Message}
	c, id := r.calls[msg.ToolCallID], msg.ToolCallID
	if id == "" || !msg.failed() || c == nil || !c.asked || c.started || c.denied {
		return []event.Event{added}
	}
	// The call was refused before it began: phi-core writes nothing of it but this result.
	c.denied = true
	reason := text(msg.o)
	return []event.Event{
		&event.ToolStarted{Meta: l.m, ToolCall: event.ToolCall{ID: id, Name: c.name, Args: c.args}},
		denial(l.m, event.PermissionEvaluation{Tool: c.name, CallID: id, Source: "hook", Reason: reason}),
		&event.ToolEnded{Meta: l.m, CallID: id, Name: c.name,
			ToolResult: event.ToolResult{Outcome: spans.OutcomeDenied, Error: reason}},
		added,
	}
}

func (d *Decoder) toolStart(l *line) []event.Event {
	l.Require("tool_call_id")
	call := event.ToolCall{ID: l.String("tool_call_id"), Name: l.String("tool_name"), Args: l.Spelled("args")}
	if l.run.inTurn && call.ID != "" {
		c := l.run.call(call.ID)
		c.started, c.null = true, len(call.Args) > 0 && call.Args[0] == 'n'
	}
	return []event.Event{&event.ToolStarted{Meta: l.m, ToolCall: call}}
}

func (d *Decoder) toolProgress(l *line) []event.Event {
	l.Require("tool_call_id")
	id, name := l.String("tool_call_id"), l.String("tool_name")
	l.Use(l.Keys()...) // the body has them all
	return []event.Event{&event.ToolProgressed{Meta: l.m, CallID: id, Name: name, Type: l.name, Body: l.raw}}
}

// progressMessage is a progress of a tool, or the warning of a judge, which names no run.
func (d *Decoder) progressMessage(l *line) []event.Event {
	if l.m.Run != "" {
		d.runs.in(&l.m)
		return d.toolProgress(l)
	}
	d.toolProgress(l)
	return []event.Event{&event.Other{Meta: l.m, Type: l.name, Body: l.raw}}
}

func (d *Decoder) toolEnd(l *line) []event.Event {
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
	if failed == nil || !*failed {
		return []event.Event{e}
	}
	e.Outcome, e.Error = spans.OutcomeError, text(result)
	denied := func(source spans.PermissionSource, pattern string) []event.Event {
		e.Outcome = spans.OutcomeDenied
		return []event.Event{denial(l.m, event.PermissionEvaluation{
			Tool: e.Name, CallID: e.CallID, Source: source, Pattern: pattern, Reason: e.Error,
		}), e}
	}
	switch {
	case e.Error == textSkipped && unstarted:
		e.Outcome = spans.OutcomeSkipped
	case e.Error == textCancelled:
		e.Outcome = spans.OutcomeCancelled
	case e.Name == "bash" && strings.HasPrefix(e.Error, textDenyPattern):
		_, pattern, _ := strings.Cut(e.Error, "'")
		pattern, _, _ = strings.Cut(pattern, "'. This pattern is denied")
		return denied("bash.deny_pattern", pattern)
	case e.Name == "bash" && strings.HasPrefix(e.Error, textNotConfirmed):
		return denied("bash.confirm", "")
	}
	return []event.Event{e}
}
