package acp

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/otelagent"
)

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
	switch f.method {
	case mReadFile, mWriteFile:
		f.in.Require("path")
		f.in.String("path")
	case mTermCreate:
		f.in.Require("command")
		f.in.String("command")
	default:
		p.term = s.terminal(identifier(f.in, "terminalId"))
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
