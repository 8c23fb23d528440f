package acp

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// session is what is remembered of one ACP session.
type session struct {
	id          string
	open        []*run                 // prompts without a response, by time
	compactions map[string]*compaction // those that have not ended, of runs that are open
	last        string                 // the id of the run that started last
	taken       map[string]int         // names of runs and compactions, and of each the highest number after it

	loading bool     // session/load has no response: updates are history
	history [][]byte // the updates that were replayed
	held    int      // bytes of them

	forkOf, cwd, mode, model string
	used                     *int64 // tokens in the context by the last update, nil before
	cost                     money  // cumulative, by the last update
}

// money is a sum of money in a currency. Without a currency it is unknown, or zero.
type money struct {
	amount   float64
	currency string
	zero     bool
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
	s := &session{id: id, taken: map[string]int{}, compactions: map[string]*compaction{}}
	d.sessions = append(d.sessions, s)
	d.held += entry + len(id)
	return s
}

// prompt returns the open prompt that an update of the session belongs to: the oldest, nil when none is open.
func (s *session) prompt() *run {
	if s == nil || len(s.open) == 0 {
		return nil
	}
	return s.open[0]
}

// abandon forgets a run. No later message belongs to it.
func (d *Decoder) abandon(r *run) {
	s := r.s
	d.release(&r.turn.held)
	d.release(&r.held)
	r.over, r.turn, r.calls, r.terms = true, turn{}, nil, nil
	s.open = slices.DeleteFunc(s.open, func(x *run) bool { return x == r })
	for id, c := range s.compactions {
		if c.run == r {
			d.release(&c.held)
			delete(s.compactions, id)
		}
	}
}

// name returns a name of a run or compaction that none before it in the session had: first, or that with a number, as
// when an agent starts anew.
func (d *Decoder) name(s *session, first string) string {
	name := first
	for s.taken[name] > 0 {
		s.taken[first]++
		name = first + "." + strconv.Itoa(s.taken[first])
	}
	s.taken[name] = 1
	d.held += len(name) + 64
	return name
}

// begin emits the start of a run that goes on with the one before it in its session.
func (d *Decoder) begin(r *run, at event.Meta, info event.RunInfo) {
	s := r.s
	info.SessionID, info.ID, info.Dialect, info.Model, info.ParentID = s.id, r.id, Dialect, s.model, s.last
	info.Agent = loose(loose(d.initResult).Raw("agentInfo")).String("name")
	d.Emit(&event.RunStarted{Meta: r.at(at), RunInfo: info})
}

// keep records what has no other place, if it is not nil: on the open prompt of the session, else as a fact about it,
// else, without a session, as it is.
func (d *Decoder) keep(s *session, at event.Meta, typ string, body []byte) {
	switch r := s.prompt(); {
	case s == nil:
		d.Other(at, typ, body)
	case r == nil:
		d.state(s, at, fact("acp."+typ, body))
	case body != nil:
		d.Other(r.at(at), typ, body)
	}
}

// state states the facts about the session that have a value.
func (d *Decoder) state(s *session, at event.Meta, facts ...event.Fact) {
	facts = slices.DeleteFunc(facts, func(f event.Fact) bool { return f.Value == nil })
	if len(facts) > 0 {
		at.Session, at.Run = s.id, ""
		d.Emit(&event.FactStated{Meta: at, Dialect: Dialect, Facts: facts})
	}
}

func fact(key string, value []byte) event.Fact {
	return event.Fact{Subject: "session", Key: key, Value: value}
}

// options takes the model from configuration options, which are a member of raw.
func (s *session) options(raw []byte) {
	for _, option := range loose(raw).Objects("configOptions") {
		category := option.String("category")
		if category == "model" || category == "" && option.String("id") == "model" {
			s.model = cmp.Or(option.String("currentValue"), s.model)
		}
	}
}

// loaded ends the loading of a session. It states what was replayed as one fact: how many updates there were, and
// these.
func (d *Decoder) loaded(s *session, at event.Meta) {
	if n := len(s.history); n > 0 {
		updates := strconv.AppendInt(nil, int64(n), 10)
		d.state(s, at, fact("acp.history", input.Members("updates", updates, "items", input.Array(s.history))))
	}
	d.release(&s.held)
	s.loading, s.history = false, nil
}

// spent takes the cost in an update, which counts from the beginning of the session, and returns what was spent since
// the last one. That is unknown of the first one of a session that began before the capture.
func (s *session) spent(update *object.Object) (more float64, ok bool) {
	o, last := loose(update.Raw("cost")), s.cost
	currency, amount := o.String("currency"), o.Float("amount")
	if amount == nil || currency == "" || *amount < 0 {
		return 0, false
	}
	s.cost = money{amount: *amount, currency: currency}
	return *amount - last.amount, last.zero || last.currency == currency && *amount >= last.amount
}

var usageKeys = event.UsageKeys{Input: "inputTokens", Output: "outputTokens", Reasoning: "thoughtTokens",
	CacheRead: "cachedReadTokens", CacheWrite: "cachedWriteTokens", Total: "totalTokens"}

// usage reads the usage of a prompt, which the protocol does not have yet. Its keys do not state whether cached and
// thought tokens are part of input and output, but its total does where it is the sum of one reading only.
func (d *Decoder) usage(o *object.Object) *event.Usage {
	u := usageKeys.Read(o, cmp.Or(d.Settings.Rule, spans.UsageRuleIncludesCache))
	if u == nil {
		return nil
	}
	cached := u.CacheRead + u.CacheWrite
	switch extra := u.Total - u.Input - u.Output; { // counts are below 2^63: nothing overflows
	case cached+u.Reasoning == 0:
	case extra == 0:
		u.Rule = spans.UsageRuleIncludesCache
	case extra == cached:
		u.Rule = spans.UsageRuleExcludesCache
	case extra == cached+u.Reasoning:
		u.Rule = spans.UsageRuleExcludesCacheAndReasoning
	}
	return u
}
