package acp

import (
	"bytes"
	"slices"

	"github.com/otelagent/otelagent/dialects/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// conn is what is remembered of the connection between a client and an agent.
type conn struct {
	pending []*pending // by time
	// The params and the result of initialize as JSON, nil before that.
	initParams, initResult []byte
	agent                  string // agentInfo.name
	later                  bool   // it speaks a later version than 1, which is only kept
}

// pending is a request without a response.
type pending struct {
	at     otelagent.Meta // of the request
	dir    Direction
	id     string // as it is spelled
	method string
	s      *session
	params []byte // a copy, where the response needs them; of a permission request its options
	held   int    // bytes
	run    *run   // the prompt that it is, or that was open when an agent asked
	call   *call  // the tool call that it is about
	term   *terminal
}

// met begins the connection anew: what the one before it did not answer never will be.
func (d *Decoder) met() {
	for _, p := range d.conn.pending {
		d.release(&p.held)
		if p.method == mPrompt && p.run != nil {
			d.abandon(p.run)
		}
	}
	d.conn = conn{}
}

// copied keeps a copy of the params of a request until its response, if there is room.
func (d *Decoder) copied(p *pending, params []byte) {
	if d.hold(&p.held, len(params)) {
		p.params = bytes.Clone(params)
	}
}

// ask remembers a request. A prompt is forgotten only when all others are.
func (d *Decoder) ask(p *pending) {
	c := &d.conn
	if len(c.pending) == maxPending {
		i := max(slices.IndexFunc(c.pending, func(p *pending) bool { return p.method != mPrompt }), 0)
		oldest := c.pending[i]
		c.pending = slices.Delete(c.pending, i, i+1)
		d.unanswered(oldest, p.at)
	}
	c.pending = append(c.pending, p)
}

// answered finds the request that a response answers, and forgets it. Both sides number from 0, so where the direction
// is not known two requests may have that id: then it is the one that the result can belong to, and else the one that
// was sent last, and sure is false.
func (c *conn) answered(f *frame) (p *pending, sure bool) {
	var all, fit []*pending
	result := loose(f.result)
	for _, p := range c.pending {
		if p.id != f.id || !p.dir.opposite(f.dir) {
			continue
		}
		all = append(all, p)
		lacks := func(key string) bool { return result.Spelled(key) == nil }
		if f.err == nil && !slices.ContainsFunc(methods[p.method].wants, lacks) {
			fit = append(fit, p)
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	sure = len(all) == 1 || f.err == nil && (f.dir != Unknown || len(fit) == 1)
	p = all[len(all)-1]
	if len(fit) > 0 {
		p = fit[len(fit)-1]
	}
	c.pending = slices.DeleteFunc(c.pending, func(x *pending) bool { return x == p })
	return p, sure
}

// message takes one JSON-RPC message.
func (d *Decoder) message(f *frame) {
	if !f.response {
		d.asked(f)
		return
	}
	p, sure := d.conn.answered(f)
	if p == nil {
		if !f.hops {
			d.keep(nil, f.meta, "response", f.raw)
		}
		return
	}
	f.method = p.method
	if !sure {
		m := f.meta
		if p.s != nil {
			m.Session = p.s.id
		}
		d.sh.Emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectRunsMixed,
			Detail: "a response without a direction fits requests of both sides; it is taken for that of the later one"})
	}
	if f.more != nil && p.s != nil {
		d.keep(p.s, f.meta, p.method+".response.unknown_keys", f.more)
	}
	d.response(f, p)
	d.release(&p.held)
}

// sessionOf returns the session that the params of a message name; nil when they name none.
func (d *Decoder) sessionOf(f *frame, must bool) *session {
	if name := d.sh.Settings.Session; name != "" && !f.in.Has("sessionId") {
		return d.session(name)
	}
	if v := f.in.Raw("sessionId"); !must && (v == nil || v[0] != '"') {
		return nil
	}
	if name := identifier(f.in, "sessionId"); name != "" {
		return d.session(name)
	}
	return nil
}

// asked takes a request or notification.
func (d *Decoder) asked(f *frame) {
	m, known := methods[f.method]
	if m.addressed {
		f.o.Require("params")
	}
	if f.in = loose(f.params); known {
		f.in = f.o.Object("params")
	}
	if f.bad() {
		return
	}
	if f.method == mInitialize || f.method == mProxyInitialize {
		d.met()
		d.conn.initParams = info(f.params)
	}
	s := d.sessionOf(f, m.addressed && !d.conn.later)
	if f.bad() {
		return
	}
	p := &pending{at: f.meta, dir: f.dir, id: f.id, method: f.method, s: s}
	if d.conn.later {
		d.keepLater(s, f)
	} else {
		d.request(f, s, p)
	}
	if f.id != "" && !f.bad() {
		d.ask(p)
	} else {
		d.release(&p.held)
	}
}

// info returns a copy of what a side says of itself.
func info(raw []byte) []byte {
	if len(raw) > maxInfo {
		return nil
	}
	return bytes.Clone(raw)
}

// request takes a request or notification of version 1.
func (d *Decoder) request(f *frame, s *session, p *pending) {
	switch f.method {
	case mUpdate:
		d.update(f, s)
	case mPrompt:
		d.prompt(f, p, s)
	case mPermission:
		d.askPermission(f, p, s)
	case mReadFile, mWriteFile, mTermCreate, mTermOutput, mTermWait, mTermKill, mTermRelease:
		d.work(f, p, s)
	case mLoad:
		d.copied(p, f.params)
		s.loads++
	case mNew, mResume, mFork, mClose, mSetMode, mSetModel, mSetConfig:
		d.copied(p, f.params) // it is emitted with the response
		return
	case mInitialize, mProxyInitialize:
		return
	default:
		d.otherRequest(f, s, p)
		return
	}
	if f.more != nil && !f.bad() {
		d.keep(s, f.meta, f.method+".unknown_keys", f.more)
	}
}

// otherRequest takes a request or notification that is only kept.
func (d *Decoder) otherRequest(f *frame, s *session, p *pending) {
	if f.method == mCancelRequest {
		id := string(f.in.Spelled("requestId"))
		for _, other := range d.conn.pending {
			if other.id == id && other.s != nil && (f.dir == Unknown || other.dir == f.dir) {
				s, p.s = other.s, other.s
			}
		}
	}
	params := f.params
	if params == nil {
		params = []byte("{}")
	}
	d.keep(s, f.meta, f.method, params)
	if f.method == mElicit && f.id != "" && s != nil {
		if p.run = s.prompt(); p.run != nil {
			d.sh.Emit(&otelagent.UserAsked{Meta: p.run.at(f.meta)})
		}
	}
}

// keepLater keeps a message of a connection that speaks a later version.
func (d *Decoder) keepLater(s *session, f *frame) {
	typ := f.method
	if f.response {
		typ += ".response"
	}
	m := f.meta
	if s != nil {
		m = s.in(m)
	}
	d.sh.Emit(&otelagent.Other{Meta: m, Type: typ, Body: f.raw})
}

// response takes the response to a request.
func (d *Decoder) response(f *frame, p *pending) {
	s := p.s
	if d.conn.later && p.method != mInitialize {
		d.keepLater(s, f)
		return
	}
	result := loose(f.result)
	switch {
	case p.method == mInitialize || p.method == mProxyInitialize:
		if f.err == nil {
			d.initialized(f)
		}
	case p.method == mPrompt:
		switch r := p.run; {
		case r == nil:
		case f.err == nil && !result.Has("stopReason") && result.Has("messageId"):
			// In version 2 the response says only that the agent took the prompt, and does not end the run.
			d.conn.later = true
			d.keep(s, f.meta, mPrompt+".response", f.result)
			d.abandon(r)
		default:
			d.answer(f, r)
		}
	case p.method == mPermission && p.call != nil && p.run.isOpen():
		d.permitted(f, p)
	case p.method == mNew || p.method == mFork:
		if f.err != nil {
			d.keep(s, f.meta, p.method, exchange(p.params, nil, f.err))
		} else if id := identifier(need(f.o, f.resultKey), "sessionId"); id != "" {
			of := d.session(id)
			facts := append(of.opened(&d.conn, p, result), fact("acp."+p.method, exchange(p.params, f.result, nil)))
			d.state(of, f.meta, facts...)
		}
	case slices.Contains([]string{mLoad, mResume, mClose, mSetMode, mSetModel, mSetConfig}, p.method):
		if s != nil {
			d.settled(s, f, p, result)
		}
	case methods[p.method].work:
		d.workDone(f, p)
	default:
		d.keep(s, f.meta, p.method+".response", exchange(nil, f.result, f.err))
		if r := p.run; p.method == mElicit && r != nil && r.isOpen() {
			d.sh.Emit(&otelagent.UserAnswered{Meta: r.at(f.meta)})
		}
	}
}

// initialized takes the response to initialize, which decides about the version.
func (d *Decoder) initialized(f *frame) {
	result := need(f.o, f.resultKey)
	if f.bad() {
		return
	}
	c := &d.conn
	c.initResult = info(f.result)
	c.agent = loose(result.Raw("agentInfo")).String("name")
	if v := loose(f.result).Int("protocolVersion"); v != nil && *v > 1 {
		c.later = true
		d.sh.Emit(&otelagent.Other{Meta: f.meta, Type: mInitialize + ".response", Body: f.raw})
	}
}

// settled takes the response to a request about a session that is there.
func (d *Decoder) settled(s *session, f *frame, p *pending, result *object.Object) {
	if p.method == mLoad {
		if s.loads = max(s.loads-1, 0); s.loads == 0 {
			d.loaded(s, f.meta)
		}
	}
	var facts []otelagent.Fact
	params := loose(p.params)
	switch {
	case f.err != nil:
	case p.method == mLoad || p.method == mResume:
		facts = s.opened(&d.conn, p, result)
	case p.method == mSetMode:
		if mode := params.String("modeId"); mode != "" {
			s.mode = mode
			facts = append(facts, fact("mode", quoted(mode)))
		}
	case p.method == mSetModel:
		if model := params.String("modelId"); model != "" {
			s.model = model
		}
	case p.method == mSetConfig:
		if options := array(result, "configOptions"); options != nil {
			s.options(result)
			facts = append(facts, fact("config_options", options))
		}
	}
	d.state(s, f.meta, append(facts, fact("acp."+p.method, exchange(p.params, f.result, f.err)))...)
}
