package acp

import (
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// message takes one JSON-RPC message.
func (d *Decoder) message(f *frame) *input.LineError {
	c := d.connOf(f.conn)
	if f.hasMethod {
		return d.asked(c, f)
	}
	p, sure := d.answered(c, f)
	if p == nil {
		if !f.hops {
			d.keep(nil, f.meta, "response", f.raw)
		}
		return nil
	}
	f.method = p.method
	if !sure {
		m := f.meta
		m.Session = p.session
		d.emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectRunsMixed,
			Detail: "a response without a direction fits requests of both sides; it is taken for that of the later one"})
	}
	defer d.free(p)
	if f.more != nil && p.session != "" {
		body, _ := f.more.without()
		d.keep(d.session(p.session), f.meta, p.method+".response.unknown_keys", body)
	}
	return d.response(c, f, p)
}

// sessionOf returns the session that the params of a message name; nil when they name none.
func (d *Decoder) sessionOf(w *fields, params object, must bool) *session {
	v := params.get("sessionId")
	if v == nil && d.settings.Session != "" {
		return d.session(d.settings.Session)
	}
	if !must && (v == nil || v[0] != '"') {
		return nil
	}
	id := w.id("params.sessionId", v)
	if w.wrong != nil {
		return nil
	}
	return d.session(id)
}

// asked takes a request or notification.
func (d *Decoder) asked(c *conn, f *frame) *input.LineError {
	w := &fields{}
	m, known := methods[f.method]
	if known && m.dir != Unknown {
		f.dir = m.dir
	}
	params, isObject := members(f.params)
	if known && f.params != nil && !isObject {
		w.problem("params", "want an object, got "+rawjson.KindOf(f.params))
		return w.wrong
	}
	if f.method == mInitialize || f.method == mProxyInitialize {
		d.met(c)
		if len(f.params) <= maxInfo {
			c.initParams = append([]byte(nil), f.params...)
		}
	}
	p := &pending{}
	defer func() {
		if f.id != nil && w.wrong == nil {
			d.ask(c, f, p)
		} else {
			d.free(p)
		}
	}()
	if c.later {
		s := d.sessionOf(w, params, false)
		if w.wrong == nil {
			d.keepLater(s, f)
		}
		return w.wrong
	}
	switch f.method {
	case mPrompt, mUpdate, mPermission, mReadFile, mWriteFile, mTermCreate, mTermOutput, mTermWait, mTermKill, mTermRelease, mCancel, mLoad:
	default:
		d.otherMethod(c, f, w, p, params)
		return w.wrong
	}
	s := d.sessionOf(w, params, true)
	if w.wrong != nil {
		return w.wrong
	}
	p.session = s.id
	switch {
	case f.method == mUpdate:
		w = d.update(f, s, params)
	case (f.method == mPrompt || f.method == mPermission) && f.id == nil:
		w.problem("id", "missing, want a number or a string")
	case f.method == mPrompt:
		w = d.prompt(c, f, p, params, s)
	case f.method == mPermission:
		w = d.askPermission(s, f, p, params)
		if w.wrong == nil && p.call == nil {
			d.keep(s, f.meta, f.method, f.params)
		}
	case isWork(f.method):
		w = d.work(s, f, p, params)
	case f.method == mCancel:
		d.keep(s, f.meta, f.method, orEmpty(f.params))
	case f.method == mLoad:
		p.params = d.copied(f.params)
		s.loads++
	}
	if w.wrong == nil && f.more != nil {
		body, _ := f.more.without()
		d.keep(s, f.meta, f.method+".unknown_keys", body)
	}
	return w.wrong
}

// otherMethod takes a request or notification that changes nothing by itself.
func (d *Decoder) otherMethod(c *conn, f *frame, w *fields, p *pending, params object) {
	s := d.sessionOf(w, params, false)
	if w.wrong != nil {
		return
	}
	if f.method == mCancelRequest {
		for _, other := range c.pending {
			if other.id == string(params.raw("requestId")) && other.session != "" && (f.dir == Unknown || other.dir == f.dir) {
				s = d.session(other.session)
			}
		}
	}
	if s != nil {
		p.session = s.id
	}
	switch f.method {
	case mNew, mResume, mFork, mClose, mSetMode, mSetModel, mSetConfig:
		p.params = d.copied(f.params) // told with the response
		return
	case mInitialize, mProxyInitialize:
		return
	}
	d.keep(s, f.meta, f.method, orEmpty(f.params))
	if f.method == mElicit && f.id != nil && s != nil {
		if p.run = s.prompt(); p.run != nil {
			d.emit(&otelagent.UserAsked{Meta: p.run.at(f.meta)})
		}
	}
}

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("{}")
	}
	return params
}

// keepLater keeps a message of a connection that speaks a later version.
func (d *Decoder) keepLater(s *session, f *frame) {
	typ := f.method
	if !f.hasMethod {
		typ += ".response"
	}
	m := f.meta
	if s != nil {
		m = s.in(m)
	}
	d.emit(&otelagent.Other{Meta: m, Type: typ, Body: f.raw})
}

// response takes the response to a request.
func (d *Decoder) response(c *conn, f *frame, p *pending) *input.LineError {
	w := &fields{}
	var s *session
	if p.session != "" {
		s = d.session(p.session)
	}
	if c.later && p.method != mInitialize {
		d.keepLater(s, f)
		return nil
	}
	result, _ := members(f.result)
	switch p.method {
	case mInitialize, mProxyInitialize:
		if f.err == nil {
			d.initialized(w, c, f)
		}
	case mPrompt:
		if r := p.run; r != nil && f.err == nil && result.get("stopReason") == nil && result.get("messageId") != nil {
			// Version 2 only says that it took the prompt. That run is none of ours.
			c.later = true
			d.keep(s, f.meta, mPrompt+".response", f.result)
			d.abandon(r)
		} else if r != nil {
			w = d.answer(f, r)
		}
	case mPermission:
		if p.call == nil {
			d.keep(s, f.meta, mPermission+".response", exchange(nil, f.result, f.err))
		} else if r := p.run; !r.isOpen() {
			d.keep(r.s, f.meta, mPermission+".response", exchange(nil, f.result, f.err))
		} else {
			w = d.permitted(f, p)
		}
	case mNew, mFork:
		if f.err != nil {
			d.keep(s, f.meta, p.method, exchange(p.params, nil, f.err))
			break
		}
		w.mustObject("result", f.result)
		id := w.id("result.sessionId", result.get("sessionId"))
		if w.wrong != nil {
			break
		}
		of := d.session(id)
		facts := of.opened(c, p, result)
		d.state(of, f.meta, append(facts, fact("acp."+p.method, exchange(p.params, f.result, nil)))...)
	case mLoad, mResume, mClose, mSetMode, mSetModel, mSetConfig:
		if s != nil {
			d.settled(c, s, f, p, result)
		}
	default:
		if isWork(p.method) {
			d.workDone(s, f, p)
		} else {
			d.keep(s, f.meta, p.method+".response", exchange(nil, f.result, f.err))
			if r := p.run; p.method == mElicit && r != nil && r.isOpen() {
				d.emit(&otelagent.UserAnswered{Meta: r.at(f.meta)})
			}
		}
	}
	return w.wrong
}

// isOpen reports whether no response to the prompt was seen.
func (r *run) isOpen() bool { return slices.Contains(r.s.open, r) }

// initialized takes the response to initialize, which decides about the version.
func (d *Decoder) initialized(w *fields, c *conn, f *frame) {
	result := w.mustObject("result", f.result)
	if w.wrong != nil {
		return
	}
	if len(f.result) <= maxInfo {
		c.initResult = append([]byte(nil), f.result...)
	}
	c.agent = result.object("agentInfo").word("name")
	if v, err := strconv.ParseInt(string(result.get("protocolVersion")), 10, 64); err == nil && v > 1 {
		c.later = true
		d.emit(&otelagent.Other{Meta: f.meta, Type: mInitialize + ".response", Body: f.raw})
	}
}

// settled takes the response to a request about a session that is there.
func (d *Decoder) settled(c *conn, s *session, f *frame, p *pending, result object) {
	params, _ := members(p.params)
	if p.method == mLoad {
		if s.loads = max(s.loads-1, 0); s.loads == 0 {
			d.loaded(s, f.meta)
		}
	}
	var facts []otelagent.Fact
	if f.err == nil {
		switch p.method {
		case mLoad, mResume:
			facts = s.opened(c, p, result)
		case mSetMode:
			if mode := params.word("modeId"); mode != "" {
				s.mode = mode
				facts = append(facts, factText("mode", mode))
			}
		case mSetModel:
			if model := params.word("modelId"); model != "" {
				s.model = model
			}
		case mSetConfig:
			if options := result.get("configOptions"); options != nil && options[0] == '[' {
				s.options(options)
				facts = append(facts, fact("config_options", options))
			}
		}
	}
	d.state(s, f.meta, append(facts, fact("acp."+p.method, exchange(p.params, f.result, f.err)))...)
}
