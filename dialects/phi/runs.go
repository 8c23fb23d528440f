package phi

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// run is what is remembered of a run, open or ended.
type run struct {
	id, session string
	plain       bool // id has no backslash: it is spelled as it is
	open        bool
	// rule says how usage of the run is to be read; fixed says that its configuration told, not a message.
	rule  spans.UsageRule
	fixed bool
	told  bool // its AgentStart was seen
	// parent is the id of the run that it names as its parent.
	parent string

	turn      bool // a turn is open, the turnIndex-th
	turnIndex int64
	calls     map[string]*call // of the open turn, by id
}

// call is a tool call of the open turn.
type call struct {
	name      string
	args      []byte // as the assistant message has them, a copy; nil when it was not seen
	asked     bool   // an assistant message of the turn has it
	started   bool   // its ToolExecutionStart was seen
	denied    bool   // a denial was told
	nullStart bool   // its ToolExecutionStart had null arguments
}

// call returns what is remembered of a call of the open turn; nil when there is no room for it.
func (r *run) call(id string) *call {
	c := r.calls[id]
	if c == nil {
		if len(r.calls) == maxCalls {
			return nil
		}
		if r.calls == nil {
			r.calls = make(map[string]*call)
		}
		c = new(call)
		r.calls[id] = c
	}
	return c
}

// endTurn forgets the open turn.
func (r *run) endTurn() {
	r.turn = false
	clear(r.calls)
}

// runs are the runs met. It forgets what lies far back, never a run in use.
type runs struct {
	byID     recent[*run]
	sessions recent[bool]
	last     *run
	open     []*run   // in order of start, the last openMost
	groups   []string // sessions of open parallel groups
	// session is that of runs for which the input names none, rule how their usage is to be read where it does not tell.
	session string
	rule    spans.UsageRule
	// endedIn and endedRule tell of the run that ended last: for a parallel group that is its judge.
	endedIn   string
	endedRule spans.UsageRule
}

const (
	openMost = 1024
	// maxCalls bounds the tool calls of one turn that are remembered; of later ones no denial is told.
	maxCalls = 1024
)

// find returns the run of that id that was met last, or nil.
func (rs *runs) find(id string) *run {
	if rs.last != nil && rs.last.id == id {
		return rs.last
	}
	r, _ := rs.byID.getString(id)
	if r != nil {
		rs.last = r
	}
	return r
}

// started begins a run, in place of an earlier one of its id.
func (rs *runs) started(id, session string) *run {
	if old := rs.find(id); old != nil {
		rs.close(old)
	}
	r := &run{id: id, session: session, plain: strings.IndexByte(id, '\\') < 0, open: true, rule: rs.rule}
	rs.byID.put(id, r)
	if session != "" {
		rs.sessions.put(session, true)
	}
	rs.last = r
	if len(rs.open) == openMost {
		rs.open = slices.Delete(rs.open, 0, 1)
	}
	rs.open = append(rs.open, r)
	return r
}

// in returns the run of that id that was met last, also when it has ended: what comes then is late. One whose start was not
// seen begins here.
func (rs *runs) in(id string) *run {
	if r := rs.find(id); r != nil {
		return r
	}
	return rs.started(id, rs.home(id))
}

// opened is in for what only an open run does: another run of that id began, where one has ended.
func (rs *runs) opened(id string) *run {
	if r := rs.in(id); r.open {
		return r
	}
	return rs.started(id, rs.home(id))
}

// close ends r.
func (rs *runs) close(r *run) {
	r.open = false
	r.endTurn()
	r.calls = nil
	if i := slices.Index(rs.open, r); i >= 0 {
		rs.open = slices.Delete(rs.open, i, i+1)
	}
}

// sessionOf returns the session of a run that another one names: that of a run met under this id, else the longest session met
// whose id and a dot begin the run's id, else what stands before the first dot, else nothing.
func (rs *runs) sessionOf(id string) string {
	if session, met := rs.met(id); met {
		return session
	}
	session, _, dotted := strings.Cut(id, ".")
	if !dotted {
		return ""
	}
	return session
}

// home is sessionOf for a run of the input itself: the session that the settings name goes before what stands before the first dot.
func (rs *runs) home(id string) string {
	if rs.session == "" {
		return rs.sessionOf(id)
	}
	if session, met := rs.met(id); met {
		return session
	}
	return rs.session
}

// met returns the session of a run as far as runs or sessions that were met tell it.
func (rs *runs) met(id string) (session string, met bool) {
	if r := rs.find(id); r != nil {
		return r.session, true
	}
	for i := strings.LastIndexByte(id, '.'); i > 0; i = strings.LastIndexByte(id[:i], '.') {
		if _, met := rs.sessions.getString(id[:i]); met {
			return id[:i], true
		}
	}
	return "", false
}

// place says where an event belongs that names no run: to the session of the only open group; else to the innermost open run,
// if all open runs are of one session; else nowhere.
func (rs *runs) place() (session, id string) {
	if len(rs.groups) == 1 {
		return rs.groups[0], ""
	}
	for _, r := range rs.open {
		if r.session != rs.open[0].session {
			return "", ""
		}
		session, id = r.session, r.id
	}
	return session, id
}

// innermost returns the open run that an event without a run certainly belongs to: the only one, or the last of a chain in which
// each names the one before as its parent.
func (rs *runs) innermost() *run {
	for i, r := range rs.open {
		if i > 0 && r.parent != rs.open[i-1].id {
			return nil
		}
	}
	if len(rs.open) == 0 {
		return nil
	}
	return rs.open[len(rs.open)-1]
}
