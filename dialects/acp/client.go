package acp

import (
	"slices"

	"github.com/otelagent/otelagent/otelagent"
)

// What an agent asks of its client while a tool call is executed: files and terminals. Request and response are kept with their times on the
// tool call that they are certainly part of, else on the turn.

// terminal is a terminal of a session.
type terminal struct {
	id   string // empty until it is created
	call *call  // that it is part of, nil while that is not known
	held []work // what is not told yet, because the call is not known
	// only is the one call that was in progress when the terminal was asked for.
	only *call
	run  *run
	gone bool
}

// work is one request of an agent, or the response to it.
type work struct {
	at   otelagent.Meta
	typ  string
	body []byte // a copy
}

// workType is the type under which a request is kept, and its response.
func workType(method string, response bool) string {
	if response {
		return method + ".response"
	}
	return method
}

func workBody(f *frame) []byte {
	o := object{{"id", f.id}}
	for _, m := range []member{{"params", f.params}, {"result", f.result}, {"error", f.err}} {
		if m.value != nil {
			o = append(o, m)
		}
	}
	body, _ := o.without()
	return body
}

// isWork reports whether a method is about files or terminals.
func isWork(method string) bool {
	switch method {
	case mReadFile, mWriteFile, mTermCreate, mTermOutput, mTermWait, mTermKill, mTermRelease:
		return true
	}
	return false
}

// work takes a request about files or terminals.
func (d *Decoder) work(s *session, f *frame, p *pending, params object) *fields {
	w := &fields{}
	switch f.method {
	case mReadFile, mWriteFile:
		w.mustText("params.path", params.get("path"))
	case mTermCreate:
		w.mustText("params.command", params.get("command"))
	default:
		p.term = s.terminal(w.id("params.terminalId", params.get("terminalId")))
	}
	r := s.prompt()
	p.run = r
	if w.wrong != nil || r == nil {
		if w.wrong == nil {
			d.keep(s, f.meta, f.method, workBody(f))
		}
		return w
	}
	r.cut()
	if f.method == mTermCreate {
		p.term = d.newTerminal(s, r)
	}
	if p.term == nil {
		p.call = r.inProgress()
	}
	d.worked(p, work{r.at(f.meta), f.method, workBody(f)})
	return w
}

// workDone takes the response to a request about files or terminals.
func (d *Decoder) workDone(s *session, f *frame, p *pending) {
	body := workBody(f)
	if p.run == nil || !p.run.isOpen() {
		d.keep(s, f.meta, workType(p.method, true), body)
		return
	}
	p.run.cut()
	at := p.run.at(f.meta)
	if p.term != nil && p.method == mTermCreate {
		result, _ := members(f.result)
		p.term.id = result.word("terminalId")
	}
	d.worked(p, work{at, workType(p.method, true), body})
	if p.term != nil && (p.method == mTermRelease || p.method == mTermCreate && p.term.id == "") {
		p.term.gone = true
	}
}

// worked tells of work, or holds it until the call of its terminal is known.
func (d *Decoder) worked(p *pending, w work) {
	if p.term != nil && p.term.call == nil && p.term.run == p.run && slices.Contains(p.run.s.terms, p.term) && d.held+len(w.body) <= maxHeld && len(p.term.held) < maxTerms {
		d.held += len(w.body)
		p.term.held = append(p.term.held, w)
		return
	}
	c := p.call
	if p.term != nil {
		c = p.term.call
	}
	d.tell(c, p.run, w)
}

func (d *Decoder) tell(c *call, r *run, w work) {
	if c == nil || c.run != r {
		d.emit(&otelagent.Other{Meta: w.at, Type: w.typ, Body: w.body})
		return
	}
	d.start(c)
	d.emit(&otelagent.ToolProgressed{Meta: w.at, CallID: c.id, Name: c.toolName(), Type: w.typ, Body: w.body})
}

func (d *Decoder) newTerminal(s *session, r *run) *terminal {
	if len(s.terms) == maxTerms {
		d.settle(s.terms[0])
		s.terms = slices.Delete(s.terms, 0, 1)
	}
	t := &terminal{run: r, only: r.inProgress()}
	s.terms = append(s.terms, t)
	return t
}

// terminal returns the terminal of that id, the last of several, nil when none is known.
func (s *session) terminal(id string) *terminal {
	for _, t := range slices.Backward(s.terms) {
		if t.id == id && id != "" {
			return t
		}
	}
	return nil
}

// link takes the terminals that the content of a call names, and reports whether it names any that was not known to be of it.
func (d *Decoder) link(c *call, content []byte) (linked bool) {
	for _, item := range elements(content) {
		o, _ := members(item)
		if o.word("type") != "terminal" {
			continue
		}
		if t := c.run.s.terminal(o.word("terminalId")); t != nil && t.call == nil {
			t.call = c
			linked = true
		}
	}
	return linked
}

// settleTerminals tells of what was held for terminals whose call is known now, and with all, at the end of a turn, for every one.
func (d *Decoder) settleTerminals(s *session, all bool) {
	for _, t := range s.terms {
		if all || t.call != nil {
			d.settle(t)
		}
	}
	s.terms = slices.DeleteFunc(s.terms, func(t *terminal) bool { return t.gone && t.held == nil })
}

func (d *Decoder) settle(t *terminal) {
	c := t.call
	if c == nil {
		c = t.only
	}
	held := t.held
	t.forget(d)
	for _, w := range held {
		d.tell(c, t.run, w)
	}
}

func (t *terminal) forget(d *Decoder) {
	for _, w := range t.held {
		d.held -= len(w.body)
	}
	t.held = nil
}
