package acp

import (
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

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

	agent, forkOf, cwd, mode, model string
	used                            int64 // tokens in the context by the last update, -1 before
	cost                            money // cumulative, by the last update
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
	items   []byte // those for which there was room, an array without its end
	held    int    // bytes
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
		part{"agentInfo", result.Raw("agentInfo")}, part{"cwd", optional(s.cwd)}, part{"mode", optional(s.mode)},
		part{"model", optional(s.model)})
}

// replayed takes one update of a history.
func (d *Decoder) replayed(s *session, update []byte) {
	h := &s.history
	if h.updates++; h.held+len(update)+1 > maxHistory || !d.hold(&h.held, len(update)+1) {
		return
	}
	separator := byte('[')
	if len(h.items) > 0 {
		separator = ','
	}
	h.items = append(append(h.items, separator), update...)
}

// loaded states what was replayed, as one fact: how many updates there were, and as many of them as there was room for.
func (d *Decoder) loaded(s *session, at otelagent.Meta) {
	h := &s.history
	if h.updates == 0 {
		return
	}
	b := strconv.AppendInt([]byte(`{"updates":`), h.updates, 10)
	if len(h.items) > 0 {
		b = append(append(append(b, `,"items":`...), h.items...), ']')
	}
	d.state(s, at, fact("acp.history", append(b, '}')))
	d.release(&h.held)
	*h = history{}
}
