package guide

import (
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// taskTool is the guide's own name for the tool that runs a sub-agent.
const taskTool = "task"

// tool reports whether a part is a tool call.
func (p *part) tool() bool { return p.kind == "dynamic-tool" || strings.HasPrefix(p.kind, "tool-") }

// call is a tool part of the AI SDK.
type call struct {
	id, name, state string
	input, output   []byte
	errorText       string
	preliminary     bool
	approval        []byte // the object
}

// call reads a tool part; columns say what its data does not.
func (p *part) call() call {
	t := call{id: p.callID, state: p.state}
	name := ""
	c := rawjson.NewCursor(p.data, maxDepth)
	if p.data != nil && c.Open('{') {
		for c.More('}') {
			key, value := string(c.Key()), c.Value()
			text, isText := rawjson.String(value)
			switch key {
			case "toolCallId":
				if isText {
					t.id = text
				}
			case "state":
				if isText {
					t.state = text
				}
			case "toolName":
				name = text
			case "input":
				t.input = value
			case "output":
				t.output = value
			case "errorText":
				t.errorText = text
			case "preliminary":
				t.preliminary = string(value) == "true"
			case "approval":
				if value[0] == '{' {
					t.approval = value
				}
			}
		}
	}
	if t.name = name; p.kind != "dynamic-tool" {
		t.name = strings.TrimPrefix(p.kind, "tool-") // everything behind the first dash
	}
	return t
}

// over reports whether a call has ended.
func (t *call) over() bool {
	switch t.state {
	case "output-available":
		return !t.preliminary
	case "output-error", "output-denied":
		return true
	}
	return false
}

// result is the uniform envelope of a tool result.
type result struct {
	failed    bool
	error     string
	truncated *bool
	took      time.Duration
}

// resultOf looks into {type: output|error, data|error_text, metadata: {duration_ms, truncated}}; any other output says nothing.
func resultOf(output []byte) (r result) {
	c := rawjson.NewCursor(output, maxDepth)
	if output == nil || !c.Open('{') {
		return r
	}
	kind := ""
	for c.More('}') {
		switch key, value := string(c.Key()), c.Value(); key {
		case "type":
			kind, _ = rawjson.String(value)
		case "error_text":
			r.error, _ = rawjson.String(value)
		case "metadata":
			r.measured(value)
		}
	}
	switch kind {
	case "error":
		r.failed = true
	case "output":
		r.error = ""
	default: // no envelope, whatever its keys are
		return result{}
	}
	return r
}

func (r *result) measured(metadata []byte) {
	c := rawjson.NewCursor(metadata, maxDepth)
	if !c.Open('{') {
		return
	}
	for c.More('}') {
		switch key, value := string(c.Key()), c.Value(); key {
		case "duration_ms":
			if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms > 0 && ms < 1e10 {
				r.took = time.Duration(ms * float64(time.Millisecond))
			}
		case "truncated":
			if s := string(value); s == "true" || s == "false" {
				r.truncated = new(s == "true")
			}
		}
	}
}

// tellCall tells of a tool part: the call, what was decided about it, and its end if it has one.
func (d *Decoder) tellCall(r *run, p *part, turn *ownTurn) {
	t := p.call()
	res := resultOf(t.output)
	start, end := bound(p.created), bound(p.latest)
	own := turn.callOf(t.id, t.name)
	switch {
	case own != nil:
		start, end = exactly(own.Start), exactly(own.End)
		if own.Truncated != nil {
			res.truncated = own.Truncated
		}
	case t.over() && res.took > 0 && !p.latest.IsZero():
		// The duration is stated, so it counts; the row was written when the call was over.
		start, end = stamped(p.latest.Add(-res.took)), stamped(p.latest)
	}
	began := start.Time
	d.emit(&otelagent.ToolStarted{Meta: r.meta(began, p.seq), ToolCall: otelagent.ToolCall{ID: t.id, Name: t.name, Args: t.input, Start: start}})
	d.tellDecision(r, p, &t)
	if t.state == "output-available" && t.preliminary {
		d.emit(&otelagent.ToolProgressed{Meta: r.meta(p.latest, p.seq), CallID: t.id, Name: t.name, Type: "preliminary", Body: t.output})
		return
	}
	if !t.over() || own != nil && own.Outcome == "" {
		r.last = later(r.last, p.latest)
		return
	}
	ev := &otelagent.ToolEnded{Meta: r.meta(end.Time, p.seq), CallID: t.id, Name: t.name,
		ToolResult: otelagent.ToolResult{End: end, Outcome: spans.OutcomeOK, Result: t.output, Truncated: res.truncated}}
	switch {
	case t.state == "output-denied":
		ev.Outcome = spans.OutcomeDenied
	case t.state == "output-error":
		ev.Outcome, ev.ToolResult.Error = spans.OutcomeError, t.errorText
	case res.failed:
		ev.Outcome, ev.ToolResult.Error = spans.OutcomeError, res.error
	}
	if own != nil {
		ev.Outcome, ev.ChildRunID, ev.ChildSessionID = spans.Outcome(own.Outcome), own.ChildRunID, own.ChildSessionID
	}
	if t.name == taskTool {
		if child := childOf(t.output); child != "" && child != d.session.id {
			ev.ChildSessionID = child
			d.children.put(child, link{session: d.session.id, run: r.id, call: t.id})
		}
	}
	d.emit(ev)
}

// tellDecision tells what was decided about a call: approval is {id, approved, reason}, without approved as long as nobody answered.
func (d *Decoder) tellDecision(r *run, p *part, t *call) {
	if t.approval == nil && t.state != "output-denied" && t.state != "approval-requested" && t.state != "approval-responded" {
		return
	}
	e := otelagent.PermissionEvaluation{Tool: t.name, CallID: t.id, Action: spans.ActionAsk, Derived: t.approval == nil,
		Start: bound(p.created), End: bound(p.latest)}
	c := rawjson.NewCursor(t.approval, maxDepth)
	approved := ""
	if t.approval != nil && c.Open('{') {
		for c.More('}') {
			switch key, value := string(c.Key()), c.Value(); key {
			case "approved":
				approved = string(value)
			case "reason":
				e.Reason, _ = rawjson.String(value)
			case "isAutomatic":
				if string(value) == "true" {
					e.DecidedBy = "automatic"
				}
			}
		}
	}
	switch {
	case approved == "true":
		e.Action = spans.ActionAllow
	case approved == "false":
		e.Action = spans.ActionDeny
	case t.state == "output-denied": // the AI SDK does not always say it in approval
		e.Action, e.Derived = spans.ActionDeny, true
	case t.over(): // it was asked for, and it ran
		e.Action, e.Derived = spans.ActionAllow, true
	}
	d.emit(&otelagent.PermissionEvaluated{Meta: r.meta(p.latest, p.seq), PermissionEvaluation: e})
}
