package acp

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

var (
	kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
	// callMembers are the members of an update that a call keeps.
	callMembers = []string{"title", "name", "kind", "content", "locations", "rawInput", "rawOutput"}
)

// call is one tool call.
type call struct {
	id string
	// The name that it goes by. Its title is free text of a model, which is content and never a name.
	name    string
	status  string
	members map[string][]byte // callMembers by the last updates, until the turn ends
	run     *run
	first   event.Meta // of its first update
	started bool       // its start was emitted
	ended   bool
	option  string // kind of the permission option chosen last, cancelled when the request was
}

// text returns a member that is a string.
func (c *call) text(key string) string {
	s, _ := rawjson.String(c.members[key])
	return s
}

// meet returns the call of that id, which begins in the open prompt when it was not met before; nil when no prompt
// is open.
func (d *Decoder) meet(r *run, at event.Meta, id string) *call {
	if r == nil {
		return nil
	}
	if c := r.calls[id]; c != nil {
		return c
	}
	c := &call{id: id, status: "pending", members: map[string][]byte{}, run: r, first: r.at(at)}
	d.hold(&r.held, entry+len(id))
	r.calls[id] = c
	t := &r.turn
	if t.ended > 0 && !t.serial {
		t.serial = true
		d.Other(c.first, "acp.model_calls_unknown",
			[]byte(`{"because":"a tool call after another had ended, without a reply between them"}`))
	}
	t.items = append(t.items, item{call: c})
	t.open++
	return c
}

// merge takes an update of a call that has not ended. Members that it lacks stay, and the others replace. Terminals
// that its content names are of the call.
func (d *Decoder) merge(c *call, update *object.Object) {
	for key, value := range update.All() {
		if slices.Contains(callMembers, key) && update.Has(key) {
			d.hold(&c.run.turn.held, len(value)-len(c.members[key]))
			c.members[key] = bytes.Clone(value)
		}
	}
	if c.name = c.text("name"); c.name == "" {
		if c.name = c.text("kind"); !slices.Contains(kinds, c.name) {
			c.name = "other"
		}
	}
	c.status = cmp.Or(update.String("status"), c.status)
	for _, o := range elements(update.Raw("content")) {
		t := c.run.terms[o.String("terminalId")]
		if o.String("type") == "terminal" && t != nil && !t.settled {
			t.call, t.settled = c, true
			d.flush(c.run, false)
		}
	}
}

// start emits the start of a call, when it is no longer only pending: arguments may come in pieces until then.
func (d *Decoder) start(c *call) {
	if c.started {
		return
	}
	c.started = true
	info := event.ToolCall{ID: c.id, Name: c.name, Args: c.members["rawInput"]}
	d.Emit(&event.ToolStarted{Meta: c.first, ToolCall: info})
}

// toolUpdate takes tool_call and tool_call_update. It reports false without an open prompt.
func (d *Decoder) toolUpdate(f *frame, r *run, typ string, o *object.Object, raw []byte) bool {
	c, more := d.meet(r, f.meta, o.String("toolCallId")), o.Rest()
	if c == nil {
		return false
	}
	m := r.at(f.meta)
	if c.ended {
		d.progress(c, m, typ, raw)
		return true
	}
	if d.merge(c, o); c.status != "pending" {
		d.start(c)
	}
	over := c.status == "completed" || c.status == "failed"
	switch now := o.String("status"); {
	case over || c.first.Seq == m.Seq || !c.started:
		d.progress(c, m, typ+input.UnknownKeys, more)
	case now == "pending" || now == "in_progress":
		// The type has the status, so that the time at which execution began is known also where no content is captured.
		d.progress(c, m, typ+"."+now, raw)
	default:
		d.progress(c, m, typ, raw)
	}
	if over {
		d.end(c, m)
	}
	return true
}

// progress records what happens during a call; nothing when body is nil.
func (d *Decoder) progress(c *call, m event.Meta, typ string, body []byte) {
	switch {
	case !c.started:
		d.Other(m, typ, body)
	case body != nil:
		d.Emit(&event.ToolProgressed{Meta: m, CallID: c.id, Name: c.name, Type: typ, Body: body})
	}
}

func (d *Decoder) end(c *call, m event.Meta) {
	c.ended = true
	c.run.turn.open--
	c.run.turn.ended++
	res := event.ToolResult{Outcome: spans.OutcomeOK, Result: input.Members("content", c.members["content"],
		"rawOutput", c.members["rawOutput"], "locations", c.members["locations"])}
	if c.status == "failed" {
		var texts []string // of the content, else the raw output if that is a text
		for _, o := range elements(c.members["content"]) {
			if s := o.Object("content").String("text"); o.String("type") == "content" && s != "" {
				texts = append(texts, s)
			}
		}
		res.Error = cmp.Or(strings.Join(texts, "\n"), c.text("rawOutput"))
		switch c.option {
		case "reject_once", "reject_always":
			res.Outcome = spans.OutcomeDenied
		case "cancelled":
			res.Outcome = spans.OutcomeCancelled
		default:
			res.Outcome = spans.OutcomeError
		}
	}
	d.Emit(&event.ToolEnded{Meta: m, CallID: c.id, Name: c.name, ToolResult: res})
}

// decisions are the actions and sources of permission options by their kind.
var decisions = map[string]event.PermissionEvaluation{
	"allow_once":    {Action: spans.ActionAllow, Source: "once"},
	"allow_always":  {Action: spans.ActionAllow, Source: spans.PermissionSourceSession},
	"reject_once":   {Action: spans.ActionDeny, Source: "once"},
	"reject_always": {Action: spans.ActionDeny, Source: spans.PermissionSourceSession},
}

// permission takes session/request_permission.
func (d *Decoder) permission(f *frame, p *pending) {
	options, toolCall := f.in.Raw("options"), f.in.Object("toolCall")
	if input.Check(toolCall, callShape); f.bad() {
		return
	}
	r := p.s.prompt()
	c, more := d.meet(r, f.meta, toolCall.String("toolCallId")), toolCall.Rest()
	if c == nil {
		d.keep(p.s, f.meta, f.method, f.params)
		return
	}
	if !c.ended {
		d.merge(c, toolCall)
		d.start(c)
	}
	e := event.PermissionEvaluation{CallID: c.id, Tool: c.name, Action: spans.ActionAsk, Options: bytes.Clone(options)}
	d.hold(&p.held, len(options))
	d.Emit(&event.PermissionAsked{Meta: r.at(f.meta), PermissionEvaluation: e})
	d.progress(c, r.last, mPermission+".toolCall"+input.UnknownKeys, more)
	d.Other(r.last, mPermission+input.UnknownKeys, f.in.Rest())
	p.run = r
	p.end = func(at event.Meta) {
		e.Tool = c.name
		d.Emit(&event.PermissionEvaluated{Meta: r.at(at), PermissionEvaluation: e})
	}
	p.then = func(f *frame) {
		var result *object.Object
		if e.Outcome = "error"; f.err != nil {
			e.Reason = loose(f.err).String("message")
		} else {
			result = f.answer("outcome:object!")
			o := result.Object("outcome")
			if input.Check(o, "outcome!"); string(o.Raw("outcome")) == `"selected"` {
				input.Check(o, "optionId!")
			}
			if f.bad() {
				return
			}
			if e.Outcome = o.String("outcome"); e.Outcome == "selected" {
				e.Option = o.String("optionId")
			}
		}
		c.option = e.Outcome
		for _, o := range elements(e.Options) {
			if e.Option != "" && o.String("optionId") == e.Option {
				c.option = o.String("kind")
				e.Action, e.Source = cmp.Or(decisions[c.option].Action, e.Action), decisions[c.option].Source
				break
			}
		}
		p.end(f.meta)
		d.Other(r.last, mPermission+input.UnknownKeys, result.Rest())
	}
}

// work is one request of an agent for a file or a terminal, or the response to it.
type work struct {
	at    event.Meta
	typ   string
	body  []byte
	owner *owner
}

// owner is the tool call that asks for a file or a terminal.
type owner struct {
	call    *call // the only one in progress at the request, unless the content of another names the terminal
	settled bool  // it does not change any more
}

// work takes a request for a file or a terminal, which an agent sends while it executes a tool call. Request and
// response are recorded with their times on the tool call that they are certainly part of, else on the turn.
func (d *Decoder) work(f *frame, p *pending) {
	var o *owner
	r := p.s.prompt()
	if r != nil {
		if o = r.terms[f.in.String("terminalId")]; o == nil {
			o = &owner{settled: p.method != mTermCreate}
			working := slices.Collect(maps.Values(r.calls))
			working = slices.DeleteFunc(working, func(c *call) bool { return c.ended || c.status != "in_progress" })
			if len(working) == 1 {
				o.call = working[0]
			}
		}
	}
	record := func(f *frame, typ string) {
		body := input.Members("id", []byte(f.id), "params", f.params, "result", f.result, "error", f.err)
		if r == nil || r.over {
			d.keep(p.s, f.meta, typ, body)
			return
		}
		r.cut()
		r.turn.waiting = append(r.turn.waiting, work{r.at(f.meta), typ, body, o})
		if d.flush(r, false); !o.settled {
			d.hold(&r.turn.held, entry+len(body))
		}
	}
	record(f, p.method)
	p.then = func(f *frame) {
		id := loose(f.result).String("terminalId")
		if p.method == mTermCreate && id != "" && r != nil && !r.over {
			d.hold(&r.held, entry+len(id))
			r.terms[id] = o
		}
		record(f, p.method+".response")
	}
}

// flush records the work of owners that are settled, and with all, at the end of a turn, the rest.
func (d *Decoder) flush(r *run, all bool) {
	r.turn.waiting = slices.DeleteFunc(r.turn.waiting, func(w work) bool {
		if !all && !w.owner.settled {
			return false
		}
		if c := w.owner.call; c != nil {
			d.start(c)
			d.progress(c, w.at, w.typ, w.body)
		} else {
			d.Other(w.at, w.typ, w.body)
		}
		return true
	})
}
