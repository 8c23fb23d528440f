package acp

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
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
		if p.id != f.id || p.dir == f.dir && f.dir != Unknown {
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
	if d.conn.later && f.method != mInitialize {
		m, typ := f.meta, f.method
		m.Session = loose(f.params).String("sessionId")
		if f.response {
			typ = "response"
		}
		d.sh.Emit(&otelagent.Other{Meta: m, Type: typ, Body: f.raw})
		return
	}
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
	s := d.sessionOf(f, m.addressed)
	if f.bad() {
		return
	}
	p := &pending{at: f.meta, dir: f.dir, id: f.id, method: f.method, s: s}
	switch f.method {
	case mInitialize:
		d.met()
		d.conn.initParams = info(f.params)
	case mUpdate:
		d.update(f, s)
	case mPrompt:
		d.prompt(f, p, s)
	case mPermission:
		d.askPermission(f, p, s)
	case mNew, mLoad, mResume, mFork, mClose, mSetMode, mSetModel, mSetConfig:
		// They are emitted with the response.
		if d.hold(&p.held, len(f.params)) {
			p.params = bytes.Clone(f.params)
		}
		if f.method == mLoad {
			s.loads++
		}
	default:
		if m.work != "" {
			d.work(f, p, s)
			break
		}
		d.keep(s, f.meta, f.method, orEmpty(f.params))
		if f.method == mElicit && f.id != "" && s != nil {
			if p.run = s.prompt(); p.run != nil {
				d.sh.Emit(&otelagent.UserAsked{Meta: p.run.at(f.meta)})
			}
		}
	}
	if f.more != nil && s != nil && !f.bad() {
		d.keep(s, f.meta, f.method+".unknown_keys", f.more)
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

// response takes the response to a request.
func (d *Decoder) response(f *frame, p *pending) {
	result := loose(f.result)
	switch p.method {
	case mInitialize:
		if f.err == nil {
			d.initialized(f)
		}
	case mPrompt:
		switch r := p.run; {
		case r == nil:
		case f.err == nil && !result.Has("stopReason") && result.Has("messageId"):
			// In version 2 the response says only that the agent took the prompt, and does not end the run.
			d.conn.later = true
			d.keep(p.s, f.meta, mPrompt+".response", f.result)
			d.abandon(r)
		default:
			d.answer(f, r)
		}
	case mNew, mLoad, mResume, mFork, mClose, mSetMode, mSetModel, mSetConfig:
		d.settled(f, p, result)
	default:
		switch {
		case p.method == mPermission && p.call != nil && p.run.isOpen():
			d.permitted(f, p)
		case methods[p.method].work != "":
			d.workDone(f, p)
		default:
			d.keep(p.s, f.meta, p.method+".response", exchange(nil, f.result, f.err))
			if r := p.run; p.method == mElicit && r != nil && r.isOpen() {
				d.sh.Emit(&otelagent.UserAnswered{Meta: r.at(f.meta)})
			}
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

// settled takes the response to a request that opens a session or changes its state, and states the exchange.
func (d *Decoder) settled(f *frame, p *pending, result *object.Object) {
	s, c, params := p.s, &d.conn, loose(p.params)
	var facts []otelagent.Fact
	if (p.method == mNew || p.method == mFork) && f.err == nil {
		id := identifier(need(f.o, f.resultKey), "sessionId")
		if f.bad() {
			return
		}
		s = d.session(id)
		if p.method == mNew {
			s.cost = money{zero: true}
		} else {
			s.forkOf = params.String("sessionId")
		}
	}
	if s == nil {
		d.keep(nil, f.meta, p.method, exchange(p.params, f.result, f.err))
		return
	}
	if p.method == mLoad {
		if s.loads = max(s.loads-1, 0); s.loads == 0 {
			d.loaded(s, f.meta)
		}
	}
	mode := result.Object("modes").String("currentModeId")
	switch {
	case f.err != nil:
	case p.method == mSetMode:
		mode = params.String("modeId")
	case p.method == mSetModel:
		s.model = cmp.Or(params.String("modelId"), s.model)
	case p.method == mSetConfig:
		if options := array(result, "configOptions"); options != nil {
			s.options(result)
			facts = append(facts, fact("config_options", options))
		}
	case p.method != mClose:
		s.cwd = cmp.Or(params.String("cwd"), s.cwd)
		s.model = cmp.Or(result.Object("models").String("currentModelId"), s.model) // before models became an option
		s.options(result)
		if c.initParams != nil || c.initResult != nil {
			facts = append(facts, fact("acp."+mInitialize, exchange(c.initParams, c.initResult, nil)))
		}
	}
	if mode != "" {
		s.mode = mode
		facts = slices.Insert(facts, 0, fact("mode", quoted(mode)))
	}
	d.state(s, f.meta, append(facts, fact("acp."+p.method, exchange(p.params, f.result, f.err)))...)
}

// session is what is remembered of one ACP session.
type session struct {
	id    string
	open  []*run         // prompts without a response, by time
	last  string         // the id of the run that started last
	taken map[string]int // ids of runs, and of each the highest number that was put behind it

	calls []*call // by start
	terms []*terminal

	loads   int     // session/load requests without a response: updates are history
	history history // the one that is read
	loose   int     // updates since the last prompt that were kept as facts

	between  *run // a compaction between two prompts
	compacts []*compacting

	forkOf, cwd, mode, model string
	used                     int64 // tokens in the context by the last update, -1 before
	cost                     money // cumulative, by the last update
}

// money is a sum of money in a currency; not known without one.
type money struct {
	amount   float64
	currency string
	zero     bool // nothing was spent yet, in whatever currency
}

// history is what an agent replays while it loads a session.
type history struct {
	updates int64
	items   [][]byte // those for which there was room
	held    int      // bytes
}

// session returns the session of that id.
func (d *Decoder) session(id string) *session {
	for _, s := range slices.Backward(d.sessions) {
		if s.id == id {
			return s
		}
	}
	if len(d.sessions) == maxSessions {
		i := max(slices.IndexFunc(d.sessions, func(s *session) bool { return len(s.open) == 0 }), 0)
		d.forgetSession(d.sessions[i])
		d.sessions = slices.Delete(d.sessions, i, i+1)
	}
	s := &session{id: id, used: -1, taken: map[string]int{}}
	d.sessions = append(d.sessions, s)
	return s
}

func (d *Decoder) forgetSession(s *session) {
	for len(s.open) > 0 {
		d.abandon(s.open[0])
	}
	if s.between != nil {
		d.abandon(s.between)
	}
	d.release(&s.history.held)
}

// prompt returns the open prompt that an update of the session belongs to: the oldest, nil when none is open.
func (s *session) prompt() *run {
	if len(s.open) == 0 {
		return nil
	}
	return s.open[0]
}

// runID names a prompt by the id of its request. An id that was used before, as it is when an agent starts anew, gets a
// number.
func (s *session) runID(request string) string {
	if text, ok := rawjson.String([]byte(request)); ok {
		request = text
	}
	if len(s.taken) > maxRunIDs {
		clear(s.taken)
	}
	first := "prompt-" + request
	id, n := first, s.taken[first]
	for s.taken[id] > 0 {
		n++
		id = first + "." + strconv.Itoa(n)
	}
	s.taken[first] = max(n, 1)
	s.taken[id] = max(s.taken[id], 1)
	return id
}

// keep keeps what has no other place: on the open prompt of the session, else as a fact about it, else, without a
// session, as it is.
func (d *Decoder) keep(s *session, at otelagent.Meta, typ string, body []byte) {
	switch {
	case s == nil:
		d.sh.Emit(&otelagent.Other{Meta: at, Type: typ, Body: body})
	case s.prompt() != nil:
		d.sh.Emit(&otelagent.Other{Meta: s.prompt().at(at), Type: typ, Body: body})
	case s.loose == maxLoose:
		s.loose++
		at.Session = s.id
		d.sh.Emit(&otelagent.DefectFound{Meta: at, Code: spans.DefectEventLost,
			Detail: "updates between two prompts beyond " + strconv.Itoa(maxLoose) + " are not kept"})
	case s.loose < maxLoose:
		s.loose++
		d.state(s, at, fact("acp."+typ, body))
	}
}

// keepRest keeps the members of an object that are not read.
func (d *Decoder) keepRest(s *session, at otelagent.Meta, typ string, o *object.Object) {
	if rest := o.Rest(); rest != nil {
		d.keep(s, at, typ+".unknown_keys", rest)
	}
}

// state states facts about the session.
func (d *Decoder) state(s *session, at otelagent.Meta, facts ...otelagent.Fact) {
	if len(facts) == 0 {
		return
	}
	at.Session, at.Run = s.id, ""
	d.sh.Emit(&otelagent.FactStated{Meta: at, Dialect: Dialect, Facts: facts})
}

func fact(key string, value []byte) otelagent.Fact {
	return otelagent.Fact{Subject: "session", Key: key, Value: value}
}

// options takes the model from the configuration options that a loose object holds.
func (s *session) options(o *object.Object) {
	for _, option := range o.Objects("configOptions") {
		category := option.String("category")
		if category == "model" || category == "" && option.String("id") == "model" {
			if model := option.String("currentValue"); model != "" {
				s.model = model
			}
		}
	}
}

// exchange is a request and its response as one object.
func exchange(params, result, err []byte) []byte {
	return orEmpty(joined(part{"params", params}, part{"result", result}, part{"error", err}))
}

// orEmpty returns b, and an empty object for none.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte("{}")
	}
	return b
}

// config is what is known of how a run is configured.
func (s *session) config(c *conn) []byte {
	params, result := loose(c.initParams), loose(c.initResult)
	return joined(part{"protocolVersion", result.Raw("protocolVersion")}, part{"clientInfo", params.Raw("clientInfo")},
		part{"agentInfo", result.Raw("agentInfo")}, some("cwd", s.cwd), some("mode", s.mode),
		some("model", s.model))
}

// replayed takes one update of a history.
func (d *Decoder) replayed(s *session, update []byte) {
	h := &s.history
	if h.updates++; h.held+len(update)+1 > maxHistory || !d.hold(&h.held, len(update)+1) {
		return
	}
	h.items = append(h.items, bytes.Clone(update))
}

// loaded states what was replayed, as one fact: how many updates there were, and as many of them as there was room for.
func (d *Decoder) loaded(s *session, at otelagent.Meta) {
	h := &s.history
	if h.updates == 0 {
		return
	}
	updates := strconv.AppendInt(nil, h.updates, 10)
	d.state(s, at, fact("acp.history", joined(part{"updates", updates}, part{"items", listed(h.items)})))
	d.release(&h.held)
	*h = history{}
}
