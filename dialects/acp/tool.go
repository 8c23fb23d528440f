package acp

import (
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Statuses and kinds of tool calls, and kinds of permission options.
const (
	statusPending    = "pending"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

var kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// call is one tool call.
type call struct {
	id, title, name, kind, status string
	rawInput                      []byte
	content, locations, rawOutput []byte

	run     *run
	first   otelagent.Meta // when it was first told of
	started bool           // its start was handed out
	ended   bool
	beyond  bool   // it is one too many for its turn: nothing of it is held
	size    int    // bytes held
	option  string // kind of the permission option chosen last, cancelled when the question was
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

// append appends the call as a piece of a reply.
func (c *call) append(b []byte) []byte {
	b = rawjson.Quote(append(b, `{"type":"toolCall","id":`...), c.id)
	b = rawjson.Quote(append(b, `,"name":`...), c.toolName())
	if c.rawInput != nil {
		b = append(append(b, `,"arguments":`...), c.rawInput...)
	}
	if c.title != "" {
		b = rawjson.Quote(append(b, `,"title":`...), c.title)
	}
	if c.kind != "" {
		b = rawjson.Quote(append(b, `,"kind":`...), c.kind)
	}
	return append(b, '}')
}

// result is what a call ended with: its content, raw output and locations as last told.
func (c *call) result() []byte {
	var o object
	for _, m := range []member{{"content", c.content}, {"rawOutput", c.rawOutput}, {"locations", c.locations}} {
		if m.value != nil {
			o = append(o, m)
		}
	}
	body, any := o.without()
	if !any {
		return nil
	}
	return body
}

// callKeys are the members of a tool call that are read.
var callKeys = []string{"sessionUpdate", "toolCallId", "title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput"}

// callUpdate is what a line tells of a call.
type callUpdate struct {
	id, title, name, kind, status           string
	content, locations, rawInput, rawOutput []byte
	more                                    []byte // an object of members that are not read; nil without any
}

func readCall(w *fields, path string, o object) (u callUpdate) {
	u.id = w.id(path+".toolCallId", o.get("toolCallId"))
	u.title = w.text(path+".title", o.get("title"))
	u.name = w.text(path+".name", o.get("name"))
	u.kind = w.text(path+".kind", o.get("kind"))
	u.status = w.text(path+".status", o.get("status"))
	u.content = w.want(path+".content", o.get("content"), "[", "an array")
	u.locations = w.want(path+".locations", o.get("locations"), "[", "an array")
	u.rawInput, u.rawOutput = o.get("rawInput"), o.get("rawOutput")
	if body, more := o.without(callKeys...); more {
		u.more = body
	}
	return u
}

// merge takes what an update tells. What it does not tell stays; lists replace.
func (d *Decoder) merge(c *call, u *callUpdate) {
	for _, f := range []struct {
		to   *string
		text string
	}{{&c.title, u.title}, {&c.name, u.name}, {&c.kind, u.kind}, {&c.status, u.status}} {
		if f.text != "" {
			*f.to = f.text
		}
	}
	for _, f := range []struct {
		to  *[]byte
		raw []byte
	}{{&c.rawInput, u.rawInput}, {&c.content, u.content}, {&c.locations, u.locations}, {&c.rawOutput, u.rawOutput}} {
		if f.raw != nil && !c.beyond && d.held-len(*f.to)+len(f.raw) <= maxHeld {
			d.held += len(f.raw) - len(*f.to)
			c.size += len(f.raw) - len(*f.to)
			*f.to = append([]byte{}, f.raw...)
		}
	}
}

// meet returns the call of that id, which begins in the open prompt when it was not met before.
func (d *Decoder) meet(r *run, at otelagent.Meta, id string) *call {
	s := r.s
	if c := s.calls[id]; c != nil {
		return c
	}
	if len(s.order) == maxCalls {
		d.drop(s, s.order[0])
	}
	if s.calls == nil {
		s.calls = map[string]*call{}
	}
	c := &call{id: id, status: statusPending, run: r, first: r.at(at)}
	s.calls[id] = c
	s.order = append(s.order, c)
	r.cut()
	t := &r.turn
	t.open++
	switch {
	case len(t.calls) < maxCalls && len(t.items) < maxItems:
		t.items = append(t.items, item{call: c})
		t.calls = append(t.calls, c)
	case !t.cut:
		d.cutShort(r, c.first)
		fallthrough
	default:
		c.beyond = true
		d.start(c) // nobody will do it at the turn's end
	}
	return c
}

func (d *Decoder) drop(s *session, c *call) {
	d.held -= c.size
	c.size = 0
	delete(s.calls, c.id)
	s.order = slices.DeleteFunc(s.order, func(x *call) bool { return x == c })
}

// forget forgets the calls that ended before this prompt. Those that did not are known to be no calls of this one.
func (s *session) forget() {
	s.order = slices.DeleteFunc(s.order, func(c *call) bool {
		if c.ended {
			delete(s.calls, c.id)
		}
		return c.ended
	})
}

// start hands out the start of a call. It is told once more is known than that it is pending: arguments may come in pieces until then.
func (d *Decoder) start(c *call) {
	if c.started {
		return
	}
	c.started = true
	t := &c.run.turn
	if t.ended > 0 && !t.serial {
		t.serial = true
		d.emit(&otelagent.Other{Meta: c.first, Type: "acp.model_calls_unknown",
			Body: []byte(`{"because":"a tool call after another had ended, without a reply between them"}`)})
	}
	d.emit(&otelagent.ToolStarted{Meta: c.first, ToolCall: otelagent.ToolCall{ID: c.id, Name: c.toolName(), Args: c.rawInput}})
}

// forgetContent forgets what calls hold, when their turn is over: what is told of them from now on is not collected.
func (d *Decoder) forgetContent(calls []*call) {
	for _, c := range calls {
		d.held -= c.size
		c.size, c.rawInput, c.content, c.locations, c.rawOutput = 0, nil, nil, nil, nil
	}
}

// toolUpdate takes tool_call and tool_call_update.
func (d *Decoder) toolUpdate(r *run, at otelagent.Meta, typ string, u *callUpdate, raw []byte) {
	c := d.meet(r, at, u.id)
	m := r.at(at)
	fresh := c.first.Seq == at.Seq
	if c.run != r || c.ended {
		d.emit(&otelagent.ToolProgressed{Meta: m, CallID: c.id, Name: c.toolName(), Type: typ, Body: raw})
		return
	}
	d.merge(c, u)
	over := c.status == statusCompleted || c.status == statusFailed
	terminals := d.link(c, u.content)
	if c.status != statusPending || terminals {
		d.start(c)
	}
	if terminals {
		d.settleTerminals(r.s, false)
	}
	switch {
	case over:
		d.moreOf(c, m, typ, u)
		d.end(c, m)
	case fresh || !c.started:
		d.moreOf(c, m, typ, u)
	default:
		d.emit(&otelagent.ToolProgressed{Meta: m, CallID: c.id, Name: c.toolName(), Type: progressType(typ, u.status), Body: raw})
	}
}

// progressType names an update by the status that it sets, if it is one of the protocol: so that the time at which a call began to be
// executed is known also where no content is captured.
func progressType(typ, status string) string {
	if status == statusPending || status == statusInProgress {
		return typ + "." + status
	}
	return typ
}

func (d *Decoder) moreOf(c *call, m otelagent.Meta, typ string, u *callUpdate) {
	if u.more == nil {
		return
	}
	if c.started {
		d.emit(&otelagent.ToolProgressed{Meta: m, CallID: c.id, Name: c.toolName(), Type: typ + ".unknown_keys", Body: u.more})
		return
	}
	d.emit(&otelagent.Other{Meta: m, Type: typ + ".unknown_keys", Body: u.more})
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
	d.emit(&otelagent.ToolEnded{Meta: m, CallID: c.id, Name: c.toolName(), ToolResult: res})
}

// errorText is what a failed call says: the texts of its content, else its raw output if that is a text.
func (c *call) errorText() string {
	var text []byte
	for _, item := range elements(c.content) {
		o, _ := members(item)
		if s := o.object("content").word("text"); o.word("type") == "content" && s != "" {
			if text != nil {
				text = append(text, '\n')
			}
			text = append(text, s...)
		}
	}
	if text == nil && c.rawOutput != nil && c.rawOutput[0] == '"' {
		return object{{"text", c.rawOutput}}.word("text")
	}
	return string(text)
}

// inProgress returns the only call of the run that is being executed, nil when there is none or more than one.
func (r *run) inProgress() (only *call) {
	for _, c := range r.turn.calls {
		if c.status != statusInProgress || c.ended {
			continue
		}
		if only != nil {
			return nil
		}
		only = c
	}
	return only
}

// Words of permission requests.
const (
	outcomeSelected  = "selected"
	outcomeCancelled = "cancelled"
)

// askPermission takes session/request_permission.
func (d *Decoder) askPermission(s *session, f *frame, p *pending, params object) *fields {
	w := &fields{}
	toolCall := w.mustObject("params.toolCall", params.get("toolCall"))
	options := w.must("params.options", params.get("options"), "[", "an array")
	if w.wrong != nil {
		return w
	}
	u := readCall(w, "params.toolCall", toolCall)
	r := s.prompt()
	if w.wrong != nil || r == nil {
		return w
	}
	p.run, p.params = r, d.copied(options)
	c := d.meet(r, f.meta, u.id)
	if c.run == r && !c.ended {
		d.merge(c, &u)
		d.link(c, u.content)
		d.start(c)
	}
	p.call = c
	m := r.at(f.meta)
	if len(r.asked) == maxAsked { // told as one without an answer
		oldest := r.asked[0]
		d.permission(oldest, m, otelagent.PermissionEvaluation{Action: spans.ActionAsk})
		oldest.call = nil
		r.asked = r.asked[1:]
	}
	r.asked = append(r.asked, p)
	d.emit(&otelagent.PermissionAsked{Meta: m, PermissionEvaluation: otelagent.PermissionEvaluation{
		Tool: c.toolName(), CallID: c.id, Action: spans.ActionAsk, Options: p.params,
	}})
	d.moreOf(c, m, mPermission+".toolCall", &u)
	if body, more := params.without("sessionId", "toolCall", "options"); more {
		d.emit(&otelagent.Other{Meta: m, Type: mPermission + ".unknown_keys", Body: body})
	}
	return w
}

// permitted takes the response to session/request_permission.
func (d *Decoder) permitted(f *frame, p *pending) *fields {
	w := &fields{}
	e := otelagent.PermissionEvaluation{Action: spans.ActionAsk}
	var result object
	if f.err != nil {
		o, _ := members(f.err)
		e.Outcome, e.Reason = "error", o.word("message")
	} else {
		result = w.mustObject("result", f.result)
		if w.wrong != nil {
			return w
		}
		outcome := w.mustObject("result.outcome", result.get("outcome"))
		if w.wrong != nil {
			return w
		}
		e.Outcome = w.id("result.outcome.outcome", outcome.get("outcome"))
		if e.Outcome == outcomeSelected {
			e.Option = w.id("result.outcome.optionId", outcome.get("optionId"))
		}
	}
	r := p.run
	if w.wrong != nil || r == nil || p.call == nil {
		return w
	}
	word := e.Outcome
	for _, option := range elements(p.params) {
		o, _ := members(option)
		if o.word("optionId") != e.Option || e.Option == "" {
			continue
		}
		switch word = o.word("kind"); word {
		case "allow_once", "allow_always":
			e.Action = spans.ActionAllow
		case "reject_once", "reject_always":
			e.Action = spans.ActionDeny
		}
		switch word {
		case "allow_once", "reject_once":
			e.Source = "once"
		case "allow_always", "reject_always":
			e.Source = spans.PermissionSourceSession
		}
		break
	}
	p.call.option = word
	r.asked = slices.DeleteFunc(r.asked, func(x *pending) bool { return x == p })
	m := r.last
	m.Time, m.Arrived, m.Seq = f.meta.Time, f.meta.Arrived, f.meta.Seq
	d.permission(p, r.at(m), e)
	if body, more := result.without("outcome"); more {
		d.emit(&otelagent.Other{Meta: m, Type: mPermission + ".unknown_keys", Body: body})
	}
	return w
}

// permission hands out what became of a permission request at m.
func (d *Decoder) permission(p *pending, m otelagent.Meta, e otelagent.PermissionEvaluation) {
	e.Tool, e.CallID, e.Options, e.Wait = p.call.toolName(), p.call.id, p.params, between(p.at, m)
	d.emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: e})
	d.free(p)
}
