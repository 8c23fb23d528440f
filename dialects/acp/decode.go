package acp

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// conn is what is remembered of the connection between a client and an agent.
type conn struct {
	pending                []*pending // by time
	initParams, initResult []byte     // of initialize, nil before that
	later                  bool       // it uses a later version than 1, whose messages are only kept
}

// pending is a request without a response.
type pending struct {
	at         otelagent.Meta // of the request
	dir        Direction
	id, method string // the id as it is spelled
	s          *session
	run        *run           // the prompt that it is, or that was open when an agent asked
	then       func(f *frame) // takes the response; nil for one that is only kept
	void       func(at otelagent.Meta)
	held       int // bytes
}

// connect begins a connection: nobody answers the requests of the one before it any more.
func (d *Decoder) connect() {
	for _, p := range d.conn.pending {
		d.drop(p)
	}
	d.conn = conn{}
}

// drop releases what is held of a request that nobody answers.
func (d *Decoder) drop(p *pending) {
	d.release(&p.held, 0)
	if p.method == mPrompt {
		d.abandon(p.run)
	}
}

// clone returns a copy of the part of a request that its response needs; nil when there is no room.
func (d *Decoder) clone(p *pending, raw []byte) []byte {
	if !d.hold(&p.held, len(raw)) {
		return nil
	}
	return bytes.Clone(raw)
}

// answered returns the request that a response answers, and forgets it. Both sides number from 0, so where the direction
// is not known two requests may have that id. Then it is the last whose result can look like this one, else the last,
// and sure is false.
func (c *conn) answered(f *frame) (p *pending, sure bool) {
	result := loose(f.result)
	lacks := func(key string) bool { return result.Spelled(key) == nil }
	found, all, fit := -1, 0, 0
	for i, p := range c.pending {
		if p.id != f.id || p.dir == f.dir && f.dir != Unknown {
			continue
		}
		all++
		fits := f.err == nil && !slices.ContainsFunc(methods[p.method].wants, lacks)
		if fits {
			fit++
		}
		if fits || fit == 0 {
			found = i
		}
	}
	if found < 0 {
		return nil, false
	}
	p = c.pending[found]
	c.pending = slices.Delete(c.pending, found, found+1)
	return p, all == 1 || f.err == nil && (f.dir != Unknown || fit == 1)
}

// message takes one JSON-RPC message.
func (d *Decoder) message(f *frame) {
	switch {
	case d.conn.later && f.method != mInitialize:
		at := f.meta
		at.Session = loose(f.params).String("sessionId")
		d.other(at, cmp.Or(f.method, "response"), f.raw)
	case f.response:
		d.response(f)
	default:
		d.request(f)
	}
}

// request takes a request or notification.
func (d *Decoder) request(f *frame) {
	m, known := methods[f.method]
	if m.addressed {
		f.o.Require("params")
	}
	if f.in = loose(f.params); known {
		f.in = f.o.Object("params")
	}
	name := d.sh.Settings.Session
	if m.addressed && (name == "" || f.in.Has("sessionId")) {
		name = identifier(f.in, "sessionId")
	} else {
		name = cmp.Or(f.in.String("sessionId"), name)
	}
	if m.needs != "" && !f.bad() {
		f.in.Require(m.needs)
	}
	if f.bad() {
		return
	}
	s := d.session(name)
	p := &pending{at: f.meta, dir: f.dir, id: f.id, method: f.method, s: s}
	switch {
	case f.method == mInitialize:
		d.initialize(f, p)
	case f.method == mUpdate:
		d.update(f, s)
	case f.method == mPrompt:
		d.prompt(f, p)
	case f.method == mPermission:
		d.permission(f, p)
	case m.state:
		d.change(f, p)
	case m.work:
		d.work(f, p)
	default:
		d.keep(s, f.meta, f.method, orEmpty(f.params))
		if r := s.prompt(); f.method == "elicitation/create" && f.id != "" && r != nil {
			d.sh.Emit(&otelagent.UserAsked{Meta: r.at(f.meta)})
			p.then = func(f *frame) {
				d.keep(s, f.meta, p.method+".response", f.outcome())
				if !r.over {
					d.sh.Emit(&otelagent.UserAnswered{Meta: r.at(f.meta)})
				}
			}
		}
	}
	if s != nil && !f.bad() {
		d.keep(s, f.meta, f.method+".unknown_keys", f.more)
	}
	if f.id == "" || f.bad() {
		d.release(&p.held, 0)
		return
	}
	c := &d.conn
	if len(c.pending) == maxPending {
		i := max(slices.IndexFunc(c.pending, func(p *pending) bool { return p.method != mPrompt }), 0)
		oldest := c.pending[i]
		c.pending = slices.Delete(c.pending, i, i+1)
		if oldest.void != nil {
			oldest.void(f.meta)
		}
		d.drop(oldest)
	}
	c.pending = append(c.pending, p)
}

// response takes a response.
func (d *Decoder) response(f *frame) {
	p, sure := d.conn.answered(f)
	if p == nil {
		if !f.conductor { // where it may be of another hop
			d.other(f.meta, "response", f.raw)
		}
		return
	}
	at := f.meta
	if f.method = p.method; p.s != nil {
		at.Session = p.s.id
		d.keep(p.s, f.meta, p.method+".response.unknown_keys", f.more)
	}
	if !sure {
		d.sh.Emit(&otelagent.DefectFound{Meta: at, Code: spans.DefectRunsMixed,
			Detail: "a response without a direction fits requests of both sides; the decoder takes the later request"})
	}
	if p.then != nil {
		p.then(f)
	} else {
		d.keep(p.s, f.meta, p.method+".response", f.outcome())
	}
	d.release(&p.held, 0)
}

// info returns a copy of what a side states about itself.
func info(raw []byte) []byte {
	if len(raw) > maxInfo {
		return nil
	}
	return bytes.Clone(raw)
}

// initialize takes the request that begins a connection. Its response decides about the version.
func (d *Decoder) initialize(f *frame, p *pending) {
	d.connect()
	d.conn.initParams = info(f.params)
	p.then = func(f *frame) {
		if f.err != nil || f.answer() == nil {
			return
		}
		d.conn.initResult = info(f.result)
		if v := loose(f.result).Int("protocolVersion"); v != nil && *v > 1 {
			d.conn.later = true
			d.other(f.meta, mInitialize+".response", f.raw)
		}
	}
}

// change takes a request that opens a session or changes its state. The response states the exchange.
func (d *Decoder) change(f *frame, p *pending) {
	raw := d.clone(p, f.params)
	if p.method == mLoad {
		p.s.loading = true
	}
	p.then = func(f *frame) {
		s, params, result := p.s, loose(raw), loose(f.result)
		if f.err == nil && (p.method == mNew || p.method == mFork) {
			id := identifier(f.answer(), "sessionId")
			if f.bad() {
				return
			}
			if s = d.session(id); p.method == mNew {
				s.cost = money{zero: true}
			} else {
				s.forkOf = params.String("sessionId")
			}
		}
		exchange := orEmpty(joined("params", raw, "result", f.result, "error", f.err))
		if s == nil {
			d.other(f.meta, p.method, exchange)
			return
		}
		if p.method == mLoad {
			d.loaded(s, f.meta)
		}
		var about otelagent.Fact
		mode := result.Object("modes").String("currentModeId")
		switch {
		case f.err != nil:
		case p.method == "session/set_mode":
			mode = params.String("modeId")
		case p.method == "session/set_model":
			s.model = cmp.Or(params.String("modelId"), s.model)
		case p.method == "session/set_config_option":
			s.options(f.result)
			about = fact("config_options", array(result, "configOptions"))
		case p.method != mClose:
			s.cwd = cmp.Or(params.String("cwd"), s.cwd)
			s.model = cmp.Or(result.Object("models").String("currentModelId"), s.model) // before models became an option
			s.options(f.result)
			about = fact("acp."+mInitialize, joined("params", d.conn.initParams, "result", d.conn.initResult))
		}
		s.mode = cmp.Or(mode, s.mode)
		d.state(s, f.meta, fact("mode", quoted(mode)), about, fact("acp."+p.method, exchange))
	}
}
