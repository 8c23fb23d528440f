package phi

import (
	"cmp"
	"maps"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/spans"
)

// run is what is remembered of a run, open or ended.
type run struct {
	session     string
	open, begun bool // begun: its AgentStart was read
	// rule says how usage of the run is to be read; fixed says that its configuration names the protocol.
	rule  spans.UsageRule
	fixed bool

	inTurn bool
	turn   *int64           // the index of the open turn; nil where it is not known
	calls  map[string]*call // of the open turn, by id
}

// call is a tool call of the open turn.
type call struct {
	name    string
	args    []byte // as the assistant message has them, a copy; nil when it was not read
	asked   bool   // an assistant message of the turn asks for it, and no denial was emitted
	started bool   // its ToolExecutionStart was read
	null    bool   // its ToolExecutionStart has null arguments
}

// maxCalls is the number of tool calls of one turn that are remembered. A denial of a later one is not recognised.
const maxCalls = 1024

// call returns what is remembered of a call of the open turn. Beyond maxCalls nothing of it is kept.
func (r *run) call(id string) *call {
	c := r.calls[id]
	if c == nil {
		if c = new(call); len(r.calls) < maxCalls {
			r.calls[id] = c
		}
	}
	return c
}

// close ends the run.
func (r *run) close() { r.open, r.inTurn, r.calls = false, false, nil }

// maxRuns is the number of runs, and of sessions, that are remembered.
const maxRuns = 1 << 15

// maxSession is the length of sessions that are found at the beginning of the id of a run.
const maxSession = 1 << 10

// runs are the runs met. When they are too many, it forgets those that have ended.
type runs struct {
	settings input.Settings
	byID     map[string]*run
	sessions map[string]bool
	ended    *run // the one that ended last: of a parallel group that is its judge
}

// start begins a run, in place of an earlier one of its id.
func (rs *runs) start(id, session string) *run {
	if len(rs.byID) >= maxRuns {
		maps.DeleteFunc(rs.byID, func(_ string, r *run) bool { return !r.open })
		if len(rs.byID) > maxRuns/2 {
			clear(rs.byID)
		}
	}
	r := &run{session: session, open: true, rule: rs.ruleOf("", "")}
	rs.byID[id] = r
	rs.meet(session)
	return r
}

// meet remembers a session.
func (rs *runs) meet(session string) {
	if session != "" {
		input.Put(rs.sessions, maxRuns, session, true)
	}
}

// in returns the run of m, also when it has ended, and sets the session of m. A run whose start was not read begins
// here.
func (rs *runs) in(m *event.Meta) *run {
	r := rs.byID[m.Run]
	if r == nil {
		r = rs.start(m.Run, rs.home(m.Run))
	}
	m.Session = r.session
	return r
}

// sessionOf returns the session of a run that another run names: that of the run of this id, else the longest session
// met whose id and a dot begin the run's id, else otherwise, else the text before the first dot, if there is one.
func (rs *runs) sessionOf(id, otherwise string) string {
	if r := rs.byID[id]; r != nil {
		return r.session
	}
	for i := strings.LastIndexByte(id[:min(len(id), maxSession)], '.'); i > 0; i = strings.LastIndexByte(id[:i], '.') {
		if rs.sessions[id[:i]] {
			return id[:i]
		}
	}
	if otherwise != "" {
		return otherwise
	}
	session, _, dotted := strings.Cut(id, ".")
	if !dotted {
		return ""
	}
	return session
}

// home is sessionOf for a run of the input itself: the session of the settings counts more than the first dot.
func (rs *runs) home(id string) string { return rs.sessionOf(id, rs.settings.Session) }

// ruleOf returns the usage rule that follows from the name of a protocol, or of a provider where there is none.
func (rs *runs) ruleOf(api, provider string) spans.UsageRule {
	switch {
	case api == "anthropic_messages", api == "" && provider == "anthropic":
		return spans.UsageRuleExcludesCache
	case api != "":
		return spans.UsageRuleIncludesCache
	}
	return cmp.Or(rs.settings.Rule, spans.UsageRuleIncludesCache)
}

// replyRule returns the rule of the usage that a provider reports of a reply in run r.
func (rs *runs) replyRule(r *run, provider string) spans.UsageRule {
	if provider != "" && !r.fixed {
		return rs.ruleOf("", provider)
	}
	return r.rule
}
