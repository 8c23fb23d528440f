package acp

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// session is what is remembered of one ACP session.
type session struct {
	id    string
	open  []*run         // prompts without a response, by time
	last  string         // the id of the run that started last
	taken map[string]int // ids of runs, and of each the highest number behind it

	calls       map[string]*call
	compactions map[string]*compaction
	between     *run // a compaction between two prompts

	loading bool // session/load has no response: updates are history
	history history

	forkOf, cwd, mode, model string
	used                     int64 // tokens in the context by the last update, -1 before
	cost                     money // cumulative, by the last update
}

// history is what an agent replays while it loads a session.
type history struct {
	updates int64
	items   [][]byte // those for which there was room
	held    int      // bytes
}

// session returns the session of that id; nil when it is empty.
func (d *Decoder) session(id string) *session {
	if id == "" {
		return nil
	}
	for _, s := range slices.Backward(d.sessions) {
		if s.id == id {
			return s
		}
	}
	if len(d.sessions) == maxSessions {
		i := max(slices.IndexFunc(d.sessions, func(s *session) bool { return len(s.open) == 0 }), 0)
		d.forget(d.sessions[i])
		d.sessions = slices.Delete(d.sessions, i, i+1)
	}
	s := &session{id: id, used: -1, taken: map[string]int{}, calls: map[string]*call{},
		compactions: map[string]*compaction{}}
	d.sessions = append(d.sessions, s)
	return s
}

// forget releases all that is held of a session.
func (d *Decoder) forget(s *session) {
	for len(s.open) > 0 {
		d.abandon(s.open[0])
	}
	for _, c := range s.calls {
		d.release(&c.held, 0)
	}
	for _, c := range s.compactions {
		d.release(&c.held, 0)
	}
	d.release(&s.history.held, 0)
}

// prompt returns the open prompt that an update of the session belongs to: the oldest, nil when none is open.
func (s *session) prompt() *run {
	if s == nil || len(s.open) == 0 {
		return nil
	}
	return s.open[0]
}

// abandon forgets a prompt. No later message belongs to it.
func (d *Decoder) abandon(r *run) {
	d.letGo(r)
	d.release(&r.held, 0)
	r.over = true
	s := r.s
	maps.DeleteFunc(s.calls, func(_ string, c *call) bool {
		if c.run != r || !c.ended {
			return false
		}
		d.release(&c.held, 0)
		return true
	})
	for _, c := range s.compactions {
		if c.run == r && !c.over {
			d.endCompaction(c)
		}
	}
	s.open = slices.DeleteFunc(s.open, func(x *run) bool { return x == r })
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
	id := first
	for s.taken[id] > 0 {
		s.taken[first]++
		id = first + "." + strconv.Itoa(s.taken[first])
	}
	s.taken[id] = 1
	return id
}

// keep records what has no other place, if it is not nil: on the open prompt of the session, else as a fact about it,
// else, without a session, as it is.
func (d *Decoder) keep(s *session, at otelagent.Meta, typ string, body []byte) {
	r := s.prompt()
	switch {
	case s == nil:
		d.other(at, typ, body)
	case body == nil:
	case r != nil:
		d.other(r.at(at), typ, body)
	default:
		d.state(s, at, fact("acp."+typ, body))
	}
}

// state states the facts about the session that have a value.
func (d *Decoder) state(s *session, at otelagent.Meta, facts ...otelagent.Fact) {
	facts = slices.DeleteFunc(facts, func(f otelagent.Fact) bool { return f.Value == nil })
	if len(facts) > 0 {
		at.Session, at.Run = s.id, ""
		d.sh.Emit(&otelagent.FactStated{Meta: at, Dialect: Dialect, Facts: facts})
	}
}

func fact(key string, value []byte) otelagent.Fact {
	return otelagent.Fact{Subject: "session", Key: key, Value: value}
}

// options takes the model from configuration options, which are a member of raw.
func (s *session) options(raw []byte) {
	for _, option := range loose(raw).Objects("configOptions") {
		category := option.String("category")
		if category == "model" || category == "" && option.String("id") == "model" {
			if model := option.String("currentValue"); model != "" {
				s.model = model
			}
		}
	}
}

// replayed takes one update of a history.
func (d *Decoder) replayed(s *session, update []byte) {
	h := &s.history
	if h.updates++; d.hold(&h.held, len(update)+1) {
		h.items = append(h.items, bytes.Clone(update))
	}
}

// loaded ends the loading of a session. It states what was replayed as one fact: how many updates there were, and those
// for which there was room.
func (d *Decoder) loaded(s *session, at otelagent.Meta) {
	if h := &s.history; h.updates > 0 {
		updates := strconv.AppendInt(nil, h.updates, 10)
		d.state(s, at, fact("acp.history", joined("updates", updates, "items", listed(h.items))))
		d.release(&h.held, 0)
	}
	s.loading, s.history = false, history{}
}

// money is a sum of money in a currency. Without a currency it is unknown.
type money struct {
	amount   float64
	currency string
	zero     bool // nothing was spent yet, in whatever currency
}

// readMoney reads the cost in an update; unknown without an amount or a currency.
func readMoney(update *object.Object) money {
	o := loose(update.Raw("cost"))
	currency, amount := o.String("currency"), o.Float("amount")
	if amount == nil || currency == "" || *amount < 0 {
		return money{}
	}
	return money{amount: *amount, currency: currency}
}

// spent takes a cost that counts from the beginning of the session, and returns what was spent since the last one, if
// that is known: the first one of a session that began before the capture only begins the count.
func (s *session) spent(now money) (more float64, ok bool) {
	if now.currency == "" {
		return 0, false
	}
	last := s.cost
	s.cost = now
	switch {
	case last.zero:
		return now.amount, true
	case last.currency == now.currency && now.amount >= last.amount:
		return now.amount - last.amount, true
	}
	return 0, false
}
