package acp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Statuses of tool calls, and outcomes of permission requests.
const (
	statusPending    = "pending"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
	outcomeSelected  = "selected"
	outcomeCancelled = "cancelled"
)

var kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// call is one tool call, or an update of one.
type call struct {
	id, title, name, kind, status           string
	rawInput, content, locations, rawOutput []byte
	more                                    []byte // of an update: the members that are not read, as an object

	run     *run
	first   otelagent.Meta // of its first update
	started bool           // its start was handed out
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

// item is the call as a piece of a reply.
func (c *call) item() []byte {
	return joined(str("type", "toolCall"), str("id", c.id), str("name", c.toolName()),
		part{"arguments", c.rawInput}, some("title", c.title), some("kind", c.kind))
}

// result is the end of a call: its content, raw output and locations by the last updates.
func (c *call) result() []byte {
	return joined(part{"content", c.content}, part{"rawOutput", c.rawOutput}, part{"locations", c.locations})
}

func readCall(o *object.Object) (u call) {
	u.id, u.title, u.name = identifier(o, "toolCallId"), o.String("title"), o.String("name")
	u.kind, u.status = o.String("kind"), o.String("status")
	u.content, u.locations = array(o, "content"), array(o, "locations")
	u.rawInput, u.rawOutput = o.Raw("rawInput"), o.Raw("rawOutput")
	u.more = o.Rest()
	return u
}

// merge takes an update. What it does not have stays; lists replace.
func (d *Decoder) merge(c *call, u call) {
	c.title, c.name = cmp.Or(u.title, c.title), cmp.Or(u.name, c.name)
	c.kind, c.status = cmp.Or(u.kind, c.kind), cmp.Or(u.status, c.status)
	replace := func(to *[]byte, raw []byte) {
		if raw != nil && d.hold(&c.run.held, len(raw)-len(*to)) {
			*to = bytes.Clone(raw)
		}
	}
	replace(&c.rawInput, u.rawInput)
	replace(&c.content, u.content)
	replace(&c.locations, u.locations)
	replace(&c.rawOutput, u.rawOutput)
}

// meet returns the call of that id, which begins in the open prompt when it was not met before.
func (d *Decoder) meet(r *run, at otelagent.Meta, id string) *call {
	s := r.s
	for _, c := range slices.Backward(s.calls) {
		if c.id == id {
			return c
		}
	}
	if len(s.calls) == maxCalls {
		d.start(s.calls[0])
		s.calls = slices.Delete(s.calls, 0, 1)
	}
	c := &call{id: id, status: statusPending, run: r, first: r.at(at)}
	s.calls = append(s.calls, c)
	r.cut()
	t := &r.turn
	t.open++
	if len(t.items) < maxItems {
		t.items = append(t.items, item{call: c})
	} else if !t.cut {
		d.cutShort(r, c.first)
	}
	return c
}

// start hands out the start of a call, when it is no longer only pending: arguments may come in pieces until then.
func (d *Decoder) start(c *call) {
	if c.started {
		return
	}
	c.started = true
	t := &c.run.turn
	if t.ended > 0 && !t.serial {
		t.serial = true
		d.sh.Emit(&otelagent.Other{Meta: c.first, Type: "acp.model_calls_unknown",
			Body: []byte(`{"because":"a tool call after another had ended, without a reply between them"}`)})
	}
	info := otelagent.ToolCall{ID: c.id, Name: c.toolName(), Args: c.rawInput}
	d.sh.Emit(&otelagent.ToolStarted{Meta: c.first, ToolCall: info})
}

// toolUpdate takes tool_call and tool_call_update.
func (d *Decoder) toolUpdate(r *run, at otelagent.Meta, typ string, u call, raw []byte) {
	c := d.meet(r, at, u.id)
	m := r.at(at)
	if c.run != r || c.ended {
		d.progress(c, m, typ, raw)
		return
	}
	d.merge(c, u)
	terminals := d.link(c, raw)
	if c.status != statusPending || terminals {
		d.start(c)
	}
	if terminals {
		d.settleTerminals(r.s, false)
	}
	over := c.status == statusCompleted || c.status == statusFailed
	switch {
	case over || c.first.Seq == at.Seq || !c.started:
		d.moreOf(c, m, typ, u)
	case u.status == statusPending || u.status == statusInProgress:
		// The type has the status, so that the time at which execution began is known also where no content is captured.
		d.progress(c, m, typ+"."+u.status, raw)
	default:
		d.progress(c, m, typ, raw)
	}
	if over {
		d.end(c, m)
	}
}

func (d *Decoder) progress(c *call, m otelagent.Meta, typ string, body []byte) {
	d.sh.Emit(&otelagent.ToolProgressed{Meta: m, CallID: c.id, Name: c.toolName(), Type: typ, Body: body})
}

// moreOf keeps the members of an update that are not read.
func (d *Decoder) moreOf(c *call, m otelagent.Meta, typ string, u call) {
	switch typ += ".unknown_keys"; {
	case u.more == nil:
	case c.started:
		d.progress(c, m, typ, u.more)
	default:
		d.sh.Emit(&otelagent.Other{Meta: m, Type: typ, Body: u.more})
	}
}

func (d *Decoder) end(c *call, m otelagent.Meta) {
	c.ended = true
	c.run.turn.open--
	c.run.turn.ended++
	res := otelagent.ToolResult{Outcome: spans.OutcomeOK, Result: c.result()}
	if c.status == statusFailed {
		res.Error = c.errorText()
		switch c.option {
		case "reject_once", "reject_always":
			res.Outcome = spans.OutcomeDenied
		case outcomeCancelled:
			res.Outcome = spans.OutcomeCancelled
		default:
			res.Outcome = spans.OutcomeError
		}
	}
	d.sh.Emit(&otelagent.ToolEnded{Meta: m, CallID: c.id, Name: c.toolName(), ToolResult: res})
}

// errorText is what a failed call says: the texts of its content, else its raw output if that is a text.
func (c *call) errorText() string {
	var texts []string
	for _, item := range loose(c.result()).Objects("content") {
		if s := item.Object("content").String("text"); item.String("type") == "content" && s != "" {
			texts = append(texts, s)
		}
	}
	if texts == nil {
		text, _ := rawjson.String(c.rawOutput)
		return text
	}
	return strings.Join(texts, "\n")
}

// inProgress returns the only call of the run that is being executed, nil when there is none or more than one.
func (r *run) inProgress() (only *call) {
	for _, c := range r.s.calls {
		if c.run != r || c.status != statusInProgress || c.ended {
			continue
		}
		if only != nil {
			return nil
		}
		only = c
	}
	return only
}

// askPermission takes session/request_permission.
func (d *Decoder) askPermission(f *frame, p *pending, s *session) {
	f.o.Require("id")
	toolCall := need(f.in, "toolCall")
	f.in.Require("options")
	options := array(f.in, "options")
	u := readCall(toolCall)
	if f.bad() {
		return
	}
	r := s.prompt()
	if r == nil {
		d.keep(s, f.meta, f.method, f.params)
		return
	}
	p.run = r
	if d.hold(&p.held, len(options)) {
		p.params = bytes.Clone(options)
	}
	c := d.meet(r, f.meta, u.id)
	if c.run == r && !c.ended {
		d.merge(c, u)
		d.link(c, f.in.Raw("toolCall"))
		d.start(c)
	}
	p.call = c
	m := r.at(f.meta)
	d.sh.Emit(&otelagent.PermissionAsked{Meta: m, PermissionEvaluation: otelagent.PermissionEvaluation{
		Tool: c.toolName(), CallID: c.id, Action: spans.ActionAsk, Options: p.params,
	}})
	d.moreOf(c, m, mPermission+".toolCall", u)
	if rest := f.in.Rest(); rest != nil {
		d.sh.Emit(&otelagent.Other{Meta: m, Type: mPermission + ".unknown_keys", Body: rest})
	}
}

// decisions are the actions and sources of permission options by their kind.
var decisions = map[string]otelagent.PermissionEvaluation{
	"allow_once":    {Action: spans.ActionAllow, Source: "once"},
	"allow_always":  {Action: spans.ActionAllow, Source: spans.PermissionSourceSession},
	"reject_once":   {Action: spans.ActionDeny, Source: "once"},
	"reject_always": {Action: spans.ActionDeny, Source: spans.PermissionSourceSession},
}

// permitted takes the response to session/request_permission.
func (d *Decoder) permitted(f *frame, p *pending) {
	e := otelagent.PermissionEvaluation{Action: spans.ActionAsk}
	var result *object.Object
	outcome, option := "error", ""
	if f.err != nil {
		e.Reason = loose(f.err).String("message")
	} else if result = need(f.o, f.resultKey); result != nil {
		o := need(result, "outcome")
		if outcome = identifier(o, "outcome"); outcome == outcomeSelected {
			option = identifier(o, "optionId")
		}
	}
	if f.bad() {
		return
	}
	kind := outcome
	for _, o := range loose(joined(part{"options", p.params})).Objects("options") {
		if option != "" && o.String("optionId") == option {
			if kind = o.String("kind"); decisions[kind].Action != "" {
				e = decisions[kind]
			}
			break
		}
	}
	p.call.option, e.Outcome, e.Option = kind, outcome, option
	m := p.run.last
	m.Time, m.Arrived, m.Seq = f.meta.Time, f.meta.Arrived, f.meta.Seq
	d.permission(p, p.run.at(m), e)
	if rest := result.Rest(); rest != nil {
		d.sh.Emit(&otelagent.Other{Meta: m, Type: mPermission + ".unknown_keys", Body: rest})
	}
}

// permission hands out the end of a permission request at m.
func (d *Decoder) permission(p *pending, m otelagent.Meta, e otelagent.PermissionEvaluation) {
	e.Tool, e.CallID, e.Options, e.Wait = p.call.toolName(), p.call.id, p.params, between(p.at, m)
	d.sh.Emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: e})
}

// unanswered takes a request that no response is expected for any more.
func (d *Decoder) unanswered(p *pending, at otelagent.Meta) {
	if p.method == mPermission && p.call != nil && p.run.isOpen() {
		d.permission(p, p.run.at(at), otelagent.PermissionEvaluation{Action: spans.ActionAsk})
	}
	d.release(&p.held)
}

// An agent asks its client for files and terminals while a tool call is executed. Request and response are kept with
// their times on the tool call that they are certainly part of, else on the turn.

// terminal is a terminal of a session.
type terminal struct {
	id   string // empty until it is created
	call *call  // that it is part of, nil while that is not known
	only *call  // the one call that was in progress when the terminal was asked for
	run  *run
	held []work // what is not emitted yet, because the call is not known
	gone bool
}

// work is one request of an agent, or the response to it.
type work struct {
	at   otelagent.Meta
	typ  string
	body []byte
}

func workBody(f *frame) []byte {
	return joined(part{"id", []byte(f.id)}, part{"params", f.params}, part{"result", f.result}, part{"error", f.err})
}

// terminal returns the terminal of that id, the last of several; nil when none is known.
func (s *session) terminal(id string) *terminal {
	for _, t := range slices.Backward(s.terms) {
		if t.id == id && id != "" {
			return t
		}
	}
	return nil
}

// work takes a request about files or terminals.
func (d *Decoder) work(f *frame, p *pending, s *session) {
	key := methods[f.method].work
	f.in.Require(key)
	if name := f.in.String(key); key == "terminalId" {
		p.term = s.terminal(name)
	}
	if f.bad() {
		return
	}
	r := s.prompt()
	if p.run = r; r == nil {
		d.keep(s, f.meta, f.method, workBody(f))
		return
	}
	r.cut()
	if f.method == mTermCreate {
		p.term = &terminal{run: r, only: r.inProgress()}
		if len(s.terms) == maxCalls {
			d.settle(s.terms[0])
			s.terms = slices.Delete(s.terms, 0, 1)
		}
		s.terms = append(s.terms, p.term)
	}
	if p.term == nil {
		p.call = r.inProgress()
	}
	d.worked(p, work{r.at(f.meta), f.method, workBody(f)})
}

// workDone takes the response to a request about files or terminals.
func (d *Decoder) workDone(f *frame, p *pending) {
	typ := p.method + ".response"
	if p.run == nil || !p.run.isOpen() {
		d.keep(p.s, f.meta, typ, workBody(f))
		return
	}
	p.run.cut()
	t := p.term
	if p.method == mTermCreate {
		t.id = loose(f.result).String("terminalId")
	}
	d.worked(p, work{p.run.at(f.meta), typ, workBody(f)})
	if t != nil && (p.method == mTermRelease || t.id == "") {
		t.gone = true
	}
}

// worked emits work, or holds it until the call of its terminal is known.
func (d *Decoder) worked(p *pending, w work) {
	t, c := p.term, p.call
	if t != nil {
		waits := t.call == nil && t.run == p.run && slices.Contains(p.run.s.terms, t)
		if waits && len(t.held) < maxCalls && d.hold(&t.run.held, len(w.body)) {
			t.held = append(t.held, w)
			return
		}
		c = t.call
	}
	d.emitWork(c, p.run, w)
}

func (d *Decoder) emitWork(c *call, r *run, w work) {
	if c == nil || c.run != r {
		d.sh.Emit(&otelagent.Other{Meta: w.at, Type: w.typ, Body: w.body})
		return
	}
	d.start(c)
	d.progress(c, w.at, w.typ, w.body)
}

// link takes the terminals that the content of an update of a call names, and reports whether it names any that was not
// known to be of it.
func (d *Decoder) link(c *call, update []byte) (linked bool) {
	if !bytes.Contains(update, []byte("terminalId")) {
		return false
	}
	for _, o := range loose(update).Objects("content") {
		t := c.run.s.terminal(o.String("terminalId"))
		if o.String("type") == "terminal" && t != nil && t.call == nil {
			t.call = c
			linked = true
		}
	}
	return linked
}

// settleTerminals emits what was held for terminals whose call is known now, and with all, at the end of a turn, for
// every one.
func (d *Decoder) settleTerminals(s *session, all bool) {
	for _, t := range s.terms {
		if all || t.call != nil {
			d.settle(t)
		}
	}
	s.terms = slices.DeleteFunc(s.terms, func(t *terminal) bool { return t.gone && t.held == nil })
}

func (d *Decoder) settle(t *terminal) {
	for _, w := range t.held {
		d.emitWork(cmp.Or(t.call, t.only), t.run, w)
	}
	t.held = nil
}
