package phi

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// askedCall is a tool call as an assistant message asks for it, as it is spelled; nil where it is not there.
type askedCall struct{ id, name, args []byte }

// eachCall calls fn for each tool call that the content of an assistant message asks for by an id.
func (d *Decoder) eachCall(content []byte, fn func(id string, c askedCall)) {
	c := rawjson.NewCursor(content, maxDepth)
	for c.Open('['); c.More(']'); {
		if c.Peek() != '{' {
			c.Value()
			continue
		}
		var typ []byte
		var call askedCall
		for c.Open('{'); c.More('}'); {
			switch key, value := c.RawKey(), c.Value(); string(key) {
			case `"type"`:
				typ = value
			case `"id"`:
				call.id = value
			case `"name"`:
				call.name = value
			case `"arguments"`:
				call.args = value
			}
		}
		if string(typ) != `"toolCall"` {
			continue
		}
		if id := d.lenient(call.id); id != "" {
			fn(id, call)
		}
	}
}

// noteCalls remembers the tool calls of an assistant message of the open turn.
func (d *Decoder) noteCalls(r *run, content []byte) {
	d.eachCall(content, func(id string, asked askedCall) {
		if call := r.call(id); call != nil {
			call.asked, call.name, call.args = true, d.lenient(asked.name), bytes.Clone(asked.args)
		}
	})
}

// deny tells of a tool call that was refused before it began, of which phi-core only writes the result.
func (d *Decoder) deny(m otelagent.Meta, id string, c *call, reason string) {
	d.out.toolStarted = otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: c.name, Args: c.args}}
	d.emit(&d.out.toolStarted)
	d.emitPermission(m, otelagent.PermissionEvaluation{Tool: c.name, CallID: id, Source: sourceHook, Reason: reason})
	d.out.toolEnded = otelagent.ToolEnded{Meta: m, CallID: id, Name: c.name,
		ToolResult: otelagent.ToolResult{Outcome: spans.OutcomeDenied, Error: reason}}
	d.emit(&d.out.toolEnded)
}

// emitPermission tells of a denial that follows from another event.
func (d *Decoder) emitPermission(m otelagent.Meta, p otelagent.PermissionEvaluation) {
	p.Action, p.Derived = spans.ActionDeny, true
	d.out.permission = otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p}
	d.emit(&d.out.permission)
}

// toolHead reads what all events of a tool call begin with.
func (d *Decoder) toolHead(f *fields) (id, name string) {
	f.required("tool_call_id", d.get(kToolCallID), "a string")
	return f.id("tool_call_id", d.get(kToolCallID)), f.id("tool_name", d.get(kToolName))
}

func (d *Decoder) toolStart(f *fields, m otelagent.Meta) {
	id, name := d.toolHead(f)
	if f.wrong != nil {
		return
	}
	args := d.get(kArgs)
	r := d.opened(&m)
	if r.turn {
		if c := r.call(id); c != nil {
			c.started, c.nullStart = true, args != nil && args[0] == 'n'
		}
	}
	d.out.toolStarted = otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: name, Args: args}}
	d.emit(&d.out.toolStarted)
	d.emitKept(m, "ToolExecutionStart")
}

func (d *Decoder) toolProgress(f *fields, m otelagent.Meta, name string) {
	id, tool := d.toolHead(f)
	if f.wrong != nil {
		return
	}
	if m.Run == "" {
		m.Session, m.Run = d.runs.place()
		d.emitOther(m, name, d.ev.raw)
		return
	}
	d.in(&m)
	d.out.toolProgressed = otelagent.ToolProgressed{Meta: m, CallID: id, Name: tool, Type: name, Body: d.ev.raw}
	d.emit(&d.out.toolProgressed)
	// Unknown keys are in the body.
}

func (d *Decoder) toolEnd(f *fields, m otelagent.Meta) {
	id, name := d.toolHead(f)
	result := d.get(kResult)
	isError := f.flag("is_error", d.get(kIsError))
	child := f.id("child_loop_id", d.get(kChildLoopID))
	var content []byte
	var inner string
	if result != nil && result[0] == '{' {
		f.object("result", result, func(key, value []byte) {
			switch string(key) {
			case "content":
				content = value
			case "child_loop_id":
				inner = d.lenient(value)
			}
		})
	}
	if f.wrong != nil {
		return
	}
	if inner != "" {
		if child != "" && child != inner {
			d.keep(kChildLoopID)
		}
		child = inner // the one that phi-core's recorder reads
	}
	r := d.in(&m)
	e := &d.out.toolEnded
	*e = otelagent.ToolEnded{CallID: id, Name: name}
	e.Result, e.ChildRunID, e.Outcome = result, child, spans.OutcomeOK
	if child != "" {
		e.ChildSessionID = d.runs.sessionOf(child)
		d.runs.last = r
	}
	d.emitKept(m, "ToolExecutionEnd")
	c := r.calls[id]
	if isError != nil && *isError {
		e.Outcome = spans.OutcomeError
		e.Error = contentText(content)
		switch {
		case e.Error == textSkipped && (c == nil || !c.started || c.nullStart):
			e.Outcome = spans.OutcomeSkipped
		case e.Error == textCancelled:
			e.Outcome = spans.OutcomeCancelled
		case name == bashTool && strings.HasPrefix(e.Error, textDenyPattern):
			e.Outcome = spans.OutcomeDenied
			_, pattern, _ := strings.Cut(e.Error, "'")
			pattern, _, _ = strings.Cut(pattern, "'. This pattern is denied")
			d.emitPermission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Source: sourceDenyPattern, Pattern: pattern,
				Reason: e.Error})
		case name == bashTool && strings.HasPrefix(e.Error, textNotConfirmed):
			e.Outcome = spans.OutcomeDenied
			d.emitPermission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Source: sourceConfirm, Reason: e.Error})
		}
	}
	if c != nil {
		c.started = true // its start may be on a line that could not be read
	}
	e.Meta = m
	d.emit(e)
}

func (d *Decoder) inputRejected(f *fields, m otelagent.Meta) {
	reason := f.text("reason", d.get(kReason))
	if f.wrong != nil {
		return
	}
	d.in(&m)
	d.emitPermission(m, otelagent.PermissionEvaluation{Target: spans.PermissionTargetInput, Source: sourceInputFilter, Reason: reason})
	d.emitKept(m, "InputRejected")
}
