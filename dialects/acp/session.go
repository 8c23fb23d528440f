package acp

import (
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// sessions are those met.
type sessions struct {
	byID  map[string]*session
	order []*session // by when they were met
}

// session is what is remembered of one ACP session.
type session struct {
	id   string
	open []*run // prompts without a response, by time
	// last is the id of the run that started last; ended are those of runs that have ended, the last maxRunIDs.
	last  string
	ended []string
	taken map[string]bool // the ids in ended, and of open
	again map[string]int  // of an id that was used again, the number given last

	calls map[string]*call
	order []*call // by start
	terms []*terminal

	loads   int      // session/load requests without a response: updates are history
	history *history // of the one that is read
	loose   int      // updates since the last prompt that were kept as facts

	between   *run     // a compaction between two prompts
	compacted []string // ids of compactions, the last maxCompactions

	agent, forkOf, cwd, mode, model string
	used                            int64 // tokens in the context as last told, -1 before
	cost                            money // cumulative, as last told
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
	items   []byte // the first of them, an array without its end; its bytes are held
	full    bool
}

// session returns the session of that id.
func (d *Decoder) session(id string) *session {
	ss := &d.sessions
	if s := ss.byID[id]; s != nil {
		return s
	}
	if ss.byID == nil {
		ss.byID = map[string]*session{}
	}
	if len(ss.order) == maxSessions {
		at := max(slices.IndexFunc(ss.order, func(s *session) bool { return len(s.open) == 0 }), 0)
		d.forgetSession(ss.order[at])
		delete(ss.byID, ss.order[at].id)
		ss.order = slices.Delete(ss.order, at, at+1)
	}
	s := &session{id: id, used: -1}
	ss.byID[id] = s
	ss.order = append(ss.order, s)
	return s
}

func (d *Decoder) forgetSession(s *session) {
	for len(s.open) > 0 {
		d.abandon(s.open[0])
	}
	if s.between != nil {
		d.abandon(s.between)
	}
	if s.history != nil {
		d.held -= len(s.history.items)
	}
	d.forgetContent(s.order)
}

// prompt returns the open prompt that an update of the session belongs to: the oldest, nil when none is open.
func (s *session) prompt() *run {
	if len(s.open) == 0 {
		return nil
	}
	return s.open[0]
}

// left takes a prompt off those that are open.
func (s *session) left(r *run) {
	s.loose = 0
	at := slices.Index(s.open, r)
	if at < 0 {
		return
	}
	s.open = slices.Delete(s.open, at, at+1)
	if len(s.ended) == maxRunIDs {
		delete(s.taken, s.ended[0])
		delete(s.again, s.ended[0])
		s.ended = s.ended[1:]
	}
	s.ended = append(s.ended, r.id)
}

// runID names a prompt by the id of its request. An id that was used before, as it is when an agent starts anew, gets a number.
func (s *session) runID(request string) string {
	if len(request) > 1 && request[0] == '"' {
		request, _ = rawjson.String([]byte(request))
	}
	if s.taken == nil {
		s.taken, s.again = map[string]bool{}, map[string]int{}
	}
	first := "prompt-" + request
	id := first
	for n := max(s.again[first], 1) + 1; s.taken[id]; n++ {
		id = first + "." + strconv.Itoa(n)
		s.again[first] = n
	}
	s.taken[id] = true
	return id
}

// in returns the meta of an event that happened at at in the session, in its open prompt if there is one.
func (s *session) in(at otelagent.Meta) otelagent.Meta {
	at.Session = s.id
	if r := s.prompt(); r != nil {
		at.Run = r.id
	}
	return at
}

// keep keeps what has no other place: on the open prompt of the session, else as a fact about it, else, without a session, as it is.
func (d *Decoder) keep(s *session, at otelagent.Meta, typ string, body []byte) {
	switch {
	case s == nil:
		d.emit(&otelagent.Other{Meta: at, Type: typ, Body: body})
	case s.prompt() != nil:
		r := s.prompt()
		d.emit(&otelagent.Other{Meta: r.at(at), Type: typ, Body: body})
	case s.loose == maxLoose:
		s.loose++
		at.Session = s.id
		d.emit(&otelagent.DefectFound{Meta: at, Code: spans.DefectEventLost,
			Detail: "updates between two prompts beyond " + strconv.Itoa(maxLoose) + " are not kept"})
	case s.loose < maxLoose:
		s.loose++
		d.state(s, at, fact("acp."+typ, body))
	}
}

// keepMore keeps the members of an object that are not read.
func (d *Decoder) keepMore(s *session, at otelagent.Meta, typ string, o object, known ...string) {
	if body, more := o.without(known...); more {
		d.keep(s, at, typ+".unknown_keys", body)
	}
}

// state states facts about the session.
func (d *Decoder) state(s *session, at otelagent.Meta, facts ...otelagent.Fact) {
	if len(facts) == 0 {
		return
	}
	at.Session, at.Run = s.id, ""
	d.emit(&otelagent.FactStated{Meta: at, Dialect: Dialect, Facts: facts})
}

func fact(key string, value []byte) otelagent.Fact {
	return otelagent.Fact{Subject: "session", Key: key, Value: value}
}

func factText(key, value string) otelagent.Fact { return fact(key, rawjson.Quote(nil, value)) }

// opened takes what a session begins with, the result of session/new, load, resume and fork, and returns what is true of it from then on.
func (s *session) opened(c *conn, p *pending, result object) (facts []otelagent.Fact) {
	params, _ := members(p.params)
	s.agent = c.agent
	if cwd := params.word("cwd"); cwd != "" {
		s.cwd = cwd
	}
	switch p.method {
	case mNew:
		s.cost = money{zero: true}
	case mFork:
		s.forkOf = params.word("sessionId")
	}
	if modes := result.object("modes"); modes.word("currentModeId") != "" {
		s.mode = modes.word("currentModeId")
		facts = append(facts, factText("mode", s.mode))
	}
	if id := result.object("models").word("currentModelId"); id != "" { // before models became an option
		s.model = id
	}
	s.options(result.get("configOptions"))
	if c.initParams != nil || c.initResult != nil {
		facts = append(facts, fact("acp."+mInitialize, exchange(c.initParams, c.initResult, nil)))
	}
	return facts
}

// options takes the model from configuration options.
func (s *session) options(list []byte) {
	for _, item := range elements(list) {
		o, _ := members(item)
		if o.word("category") == "model" || o.word("category") == "" && o.word("id") == "model" {
			if model := o.word("currentValue"); model != "" {
				s.model = model
			}
		}
	}
}

// exchange is a request and its response as one object.
func exchange(params, result, err []byte) []byte {
	b := []byte{'{'}
	for _, m := range []member{{"params", params}, {"result", result}, {"error", err}} {
		if m.value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(rawjson.Quote(b, m.key), ':'), m.value...)
	}
	return append(b, '}')
}

// config is what is known of how a run is configured.
func (s *session) config(c *conn) []byte {
	params, _ := members(c.initParams)
	result, _ := members(c.initResult)
	var o object
	add := func(key string, value []byte) {
		if value != nil {
			o = append(o, member{key, value})
		}
	}
	text := func(key, value string) {
		if value != "" {
			add(key, rawjson.Quote(nil, value))
		}
	}
	add("protocolVersion", result.get("protocolVersion"))
	add("clientInfo", params.get("clientInfo"))
	add("agentInfo", result.get("agentInfo"))
	text("cwd", s.cwd)
	text("mode", s.mode)
	text("model", s.model)
	body, any := o.without()
	if !any {
		return nil
	}
	return body
}

// add takes one update of a history.
func (h *history) add(d *Decoder, update []byte) {
	h.updates++
	if h.full = h.full || len(h.items)+len(update) > maxHeld/16 || d.held+len(update)+1 > maxHeld; h.full {
		return
	}
	d.held += len(update) + 1
	if len(h.items) == 0 {
		h.items = append(h.items, '[')
	} else {
		h.items = append(h.items, ',')
	}
	h.items = append(h.items, update...)
}

// loaded tells of what was replayed, as one fact.
func (d *Decoder) loaded(s *session, at otelagent.Meta) {
	if h := s.history; h != nil {
		d.state(s, at, fact("acp.history", h.body()))
		d.held -= len(h.items)
		s.history = nil
	}
}

// body is the history as one value: how many updates there were, and as many of them as there was room for.
func (h *history) body() []byte {
	b := strconv.AppendInt([]byte(`{"updates":`), h.updates, 10)
	if len(h.items) > 0 {
		b = append(append(append(b, `,"items":`...), h.items...), ']')
	}
	return append(b, '}')
}
