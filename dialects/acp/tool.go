package acp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// call is one tool call, or an update of one.
type call struct {
	id, title, name, kind, status           string
	rawInput, content, locations, rawOutput []byte
	more                                    []byte // of an update: the members that are not read, as an object

	run     *run
	first   otelagent.Meta // of its first update
	started bool           // its start was emitted
	ended   bool
	option  string // kind of the permission option chosen last, cancelled when the request was
}

// toolName is the name that a call goes by. Its title is free text of a model, which is content and never a name.
func (c *call) toolName() string {
	switch {
	case c.name != "":
		return c.name
	case slices.Contains(kinds, c.kind):
		return c.kind
	default:
		return "other"
	}
}

func readCall(o *object.Object) (u call) {
	u.id, u.title, u.name = identifier(o, "toolCallId"), o.String("title"), o.String("name")
	u.kind, u.status = o.String("kind"), o.String("status")
	u.content, u.locations = array(o, "content"), array(o, "locations")
	u.rawInput, u.rawOutput = o.Raw("rawInput"), o.Raw("rawOutput")
	u.more = o.Rest()
	return u
}

// merge takes an update. What it does not have stays; lists replace. It reports whether the content names a terminal
// that was not known to be of the call.
func (d *Decoder) merge(c *call, u call) (linked bool) {
	c.title, c.name = cmp.Or(u.title, c.title), cmp.Or(u.name, c.name)
	c.kind, c.status = cmp.Or(u.kind, c.kind), cmp.Or(u.status, c.status)
	replace := func(to *[]byte, raw []byte) {
		if raw != nil && d.hold(&c.run.turn.held, len(raw)-len(*to)) {
			*to = bytes.Clone(raw)
		}
	}
	replace(&c.rawInput, u.rawInput)
	replace(&c.content, u.content)
	replace(&c.locations, u.locations)
	replace(&c.rawOutput, u.rawOutput)
	for _, o := range elements(u.content) {
		t := c.run.terms[o.String("terminalId")]
		if o.String("type") == "terminal" && t != nil && t.call == nil {
			t.call, linked = c, true
		}
	}
	return linked
}

// meet returns the call of that id, which begins in the open prompt when it was not met before; nil when there is no
// room for one more.
func (d *Decoder) meet(r *run, at otelagent.Meta, id string) *call {
	if c := r.calls[id]; c != nil {
		return c
	}
	c := &call{id: id, status: "pending", run: r, first: r.at(at)}
	if !d.hold(&r.held, entry) {
		d.overflow(r, c.first)
		return nil
	}
	r.calls[id] = c
	r.turn.items = append(r.turn.items, item{call: c})
	r.turn.open++
	r.cut()
	return c
}

// start emits the start of a call, when it is no longer only pending: arguments may come in pieces until then.
func (d *Decoder) start(c *call) {
	if c.started {
		return
	}
	c.started = true
	if t := &c.run.turn; t.ended > 0 && !t.serial {
		t.serial = true
		d.other(c.first, "acp.model_calls_unknown",
			[]byte(`{"because":"a tool call after another had ended, without a reply between them"}`))
	}
	info := otelagent.ToolCall{ID: c.id, Name: c.toolName(), Args: c.rawInput}
	d.sh.Emit(&otelagent.ToolStarted{Meta: c.first, ToolCall: info})
}

// toolUpdate takes tool_call and tool_call_update. It reports false when there is no room for the call.
func (d *Decoder) toolUpdate(r *run, at otelagent.Meta, typ string, u call, raw []byte) bool {
	c := d.meet(r, at, u.id)
	if c == nil {
		return false
	}
	m := r.at(at)
	if c.ended {
		d.progress(c, m, typ, raw)
		return true
	}
	linked := d.merge(c, u)
	if linked || c.status != "pending" {
		d.start(c)
	}
	if linked {
		d.flush(r, false)
	}
	over := c.status == "completed" || c.status == "failed"
	switch {
	case over || c.first.Seq == at.Seq || !c.started:
		d.progress(c, m, typ+".unknown_keys", u.more)
	case u.status == "pending" || u.status == "in_progress":
		// The type has the status, so that the time at which execution began is known also where no content is captured.
		d.progress(c, m, typ+"."+u.status, raw)
	default:
		d.progress(c, m, typ, raw)
	}
	if over {
		d.end(c, m)
	}
	return true
}

// progress records what happens during a call; nothing when body is nil.
func (d *Decoder) progress(c *call, m otelagent.Meta, typ string, body []byte) {
	switch {
	case !c.started:
		d.other(m, typ, body)
	case body != nil:
		d.sh.Emit(&otelagent.ToolProgressed{Meta: m, CallID: c.id, Name: c.toolName(), Type: typ, Body: body})
	}
}

func (d *Decoder) end(c *call, m otelagent.Meta) {
	c.ended = true
	c.run.turn.open--
	c.run.turn.ended++
	res := otelagent.ToolResult{Outcome: spans.OutcomeOK,
		Result: joined("content", c.content, "rawOutput", c.rawOutput, "locations", c.locations)}
	if c.status == "failed" {
		res.Error = c.errorText()
		switch c.option {
		case "reject_once", "reject_always":
			res.Outcome = spans.OutcomeDenied
		case "cancelled":
			res.Outcome = spans.OutcomeCancelled
		default:
			res.Outcome = spans.OutcomeError
		}
	}
	d.sh.Emit(&otelagent.ToolEnded{Meta: m, CallID: c.id, Name: c.toolName(), ToolResult: res})
}

// errorText is the error of a failed call: the texts of its content, else its raw output if that is a text.
func (c *call) errorText() string {
	var texts []string
	for _, o := range elements(c.content) {
		if s := o.Object("content").String("text"); o.String("type") == "content" && s != "" {
			texts = append(texts, s)
		}
	}
	if texts == nil {
		text, _ := rawjson.String(c.rawOutput)
		return text
	}
	return strings.Join(texts, "\n")
}

// inProgress returns the only call of the run that is executed now, nil when there is none or more than one.
func (r *run) inProgress() (only *call) {
	for _, it := range r.turn.items {
		if c := it.call; c != nil && c.status == "in_progress" && !c.ended {
			if only != nil {
				return nil
			}
			only = c
		}
	}
	return only
}

// decisions are the actions and sources of permission options by their kind.
var decisions = map[string]otelagent.PermissionEvaluation{
	"allow_once":    {Action: spans.ActionAllow, Source: "once"},
	"allow_always":  {Action: spans.ActionAllow, Source: spans.PermissionSourceSession},
	"reject_once":   {Action: spans.ActionDeny, Source: "once"},
	"reject_always": {Action: spans.ActionDeny, Source: spans.PermissionSourceSession},
}

// permission takes session/request_permission.
func (d *Decoder) permission(f *frame, p *pending) {
	f.o.Require("id")
	f.in.Require("options")
	options, u := array(f.in, "options"), readCall(f.in.Object("toolCall"))
	if f.bad() {
		return
	}
	r := p.s.prompt()
	var c *call
	if r != nil {
		c = d.meet(r, f.meta, u.id)
	}
	if c == nil {
		d.keep(p.s, f.meta, f.method, f.params)
		return
	}
	if !c.ended {
		d.merge(c, u)
		d.start(c)
	}
	options = d.clone(&p.held, options)
	m := r.at(f.meta)
	e := otelagent.PermissionEvaluation{Tool: c.toolName(), CallID: c.id, Action: spans.ActionAsk, Options: options}
	d.sh.Emit(&otelagent.PermissionAsked{Meta: m, PermissionEvaluation: e})
	d.progress(c, m, mPermission+".toolCall.unknown_keys", u.more)
	d.other(m, mPermission+".unknown_keys", f.in.Rest())
	evaluated := func(at otelagent.Meta, e otelagent.PermissionEvaluation) {
		e.Tool, e.CallID, e.Options, e.Wait = c.toolName(), c.id, options, elapsed(p.at, at)
		d.sh.Emit(&otelagent.PermissionEvaluated{Meta: r.at(at), PermissionEvaluation: e})
	}
	p.run = r
	p.void = func(at otelagent.Meta) { evaluated(at, otelagent.PermissionEvaluation{Action: spans.ActionAsk}) }
	p.then = func(f *frame) {
		if r.over {
			d.keep(p.s, f.meta, p.method+".response", f.outcome())
			return
		}
		e := otelagent.PermissionEvaluation{Action: spans.ActionAsk, Outcome: "error"}
		var result *object.Object
		if f.err != nil {
			e.Reason = loose(f.err).String("message")
		} else if result = f.answer(); result != nil {
			o := need(result, "outcome")
			if e.Outcome = identifier(o, "outcome"); e.Outcome == "selected" {
				e.Option = identifier(o, "optionId")
			}
		}
		if f.bad() {
			return
		}
		c.option = e.Outcome
		for _, o := range elements(options) {
			if e.Option != "" && o.String("optionId") == e.Option {
				c.option = o.String("kind")
				e.Action, e.Source = cmp.Or(decisions[c.option].Action, e.Action), decisions[c.option].Source
				break
			}
		}
		evaluated(f.meta, e)
		d.other(r.last, mPermission+".unknown_keys", result.Rest())
	}
}

// elapsed returns the time from one event to another, zero when it is not known.
func elapsed(from, to otelagent.Meta) time.Duration {
	a, b := from.Time, to.Time
	if a.IsZero() && b.IsZero() {
		a, b = from.Arrived, to.Arrived
	}
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return max(b.Sub(a), 0)
}

// An agent asks its client for files and terminals while a tool call is executed. Request and response are kept with
// their times on the tool call that they are certainly part of, else on the turn.

// terminal is a terminal of a run.
type terminal struct {
	call *call // whose content names it, nil while none does
	only *call // the one call that was in progress when the agent asked for it
}

// work is one request of an agent for a file or a terminal, or the response to it.
type work struct {
	at   otelagent.Meta
	typ  string
	body []byte
	term *terminal // nil for a file and an unknown terminal
	call *call     // of those: the one call that was in progress
}

// work takes a request for a file or a terminal.
func (d *Decoder) work(f *frame, p *pending) {
	f.in.String("path")
	f.in.String("command")
	id := f.in.String("terminalId")
	if f.bad() {
		return
	}
	body := func(f *frame) []byte {
		return joined("id", []byte(f.id), "params", f.params, "result", f.result, "error", f.err)
	}
	r := p.s.prompt()
	if r == nil {
		d.keep(p.s, f.meta, f.method, body(f))
		p.then = func(f *frame) { d.keep(p.s, f.meta, p.method+".response", body(f)) }
		return
	}
	t, only := r.terms[id], r.inProgress()
	if p.method == mTermCreate {
		t = &terminal{only: only}
	}
	d.worked(r, work{r.at(f.meta), p.method, body(f), t, only})
	p.then = func(f *frame) {
		if r.over {
			d.keep(p.s, f.meta, p.method+".response", body(f))
			return
		}
		id := loose(f.result).String("terminalId")
		if p.method == mTermCreate && id != "" && d.hold(&r.held, entry) {
			r.terms[id] = t
		}
		d.worked(r, work{r.at(f.meta), p.method + ".response", body(f), t, only})
	}
}

// worked emits work, or holds it until the call of its terminal is known.
func (d *Decoder) worked(r *run, w work) {
	r.cut()
	if w.term != nil && w.term.call == nil && d.hold(&r.turn.held, entry+len(w.body)) {
		r.turn.waiting = append(r.turn.waiting, w)
		return
	}
	d.emitWork(r, w)
}

func (d *Decoder) emitWork(r *run, w work) {
	c := w.call
	if w.term != nil {
		c = cmp.Or(w.term.call, w.term.only)
	}
	if c == nil {
		d.other(w.at, w.typ, w.body)
		return
	}
	d.start(c)
	d.progress(c, w.at, w.typ, w.body)
}

// flush emits the work that waits for a terminal whose call is known now, and with all, at the end of a turn, the rest.
func (d *Decoder) flush(r *run, all bool) {
	t := &r.turn
	t.waiting = slices.DeleteFunc(t.waiting, func(w work) bool {
		if !all && w.term.call == nil {
			return false
		}
		d.emitWork(r, w)
		return true
	})
}
