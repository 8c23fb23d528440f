package codex

import (
	"bytes"
	"cmp"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// thread is one rollout.
type thread struct {
	*transcript.Thread // nil before session_meta

	d    *family
	file transcript.File

	forked, parent string    // threads that it was forked from, or spawned by
	orphan         bool      // a fork whose parent was not read, until its first run
	own            int64     // ordinal of its first own line
	born           time.Time // when the thread began
	chain          digest    // of the lines so far
	copying        bool      // the last line was a copy
	at             time.Time // of the line at hand

	agent, provider, model, effort string
	context                        []byte // the last turn_context

	task     *transcript.Run // that has begun; it is handed out with its first call, when its settings are known
	open     bool            // a run was handed out
	stated   bool            // by task_started
	prompted bool            // a prompt came since the last call
	asked    time.Time       // when the model was asked last
	call     *call           // that is gathered, or was last
	said     string          // id of the last message of a user
	recent   []recentRun

	records bool         // there are records of usage: totals count nothing
	based   bool         // totals go on from those of another file
	total   *event.Usage // the last total_token_usage
}

// recentRun is a run that a rollback may hide, with the ids of its prompts.
type recentRun struct {
	run      string
	prompted bool
	messages []string
}

// record reads one line.
func (t *thread) record(typ string, p *object.Object, payload []byte) {
	kind := p.String("type")
	switch typ {
	case "session_meta":
	case "turn_context":
		t.turnContext(p, payload)
	case "response_item":
		t.item(kind, p, payload)
	case "token_usage_record":
		t.records = true
		t.usage(p.String("response_id"), t.counts(p.Object("usage")))
	case "compacted":
		t.compacted(p)
	case "event_msg":
		if !t.event(kind, p) {
			t.Other(kind, payload, t.at)
		}
	default:
		t.Other(typ, payload, t.at)
	}
}

// event reads an event. It reports false for one that is kept as it is.
func (t *thread) event(kind string, p *object.Object) bool {
	switch kind {
	case "task_started", "turn_started":
		t.end(time.Time{}, event.RunResult{Status: spans.RunStatusAborted})
		t.start(p.String("turn_id"), p.Object("turn_attribution").String("parent_turn_id"))
		t.stated = true
	case "task_complete", "turn_complete":
		res := event.RunResult{Error: object.Of("", p.Raw("error")).String("message")}
		if res.Error != "" {
			res.Status = spans.RunStatusError
		}
		t.end(t.at, res)
	case "turn_aborted":
		t.end(t.at, event.RunResult{Status: spans.RunStatusCancelled, Word: p.String("reason")})
	case "error":
		t.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: p.String("message")})
		return false
	case "user_message":
		t.prompt()
	case "token_count":
		t.advance(p.Object("info"))
	case "thread_rolled_back":
		t.rollBack(p.Count("num_turns"))
		return false
	case "item_completed":
		return t.completed(p.Object("item"), p.Count("completed_at_ms"))
	case "sub_agent_activity":
		t.spawned(p.String("event_id"), p)
		return false
	default:
		return t.completed(p, nil)
	}
	return true
}

// start begins a task. Without an id it has one of the lines so far.
func (t *thread) start(id, parent string) {
	t.task = &transcript.Run{RunInfo: event.RunInfo{ID: cmp.Or(id, t.chain.short("task")), ParentID: parent}, At: t.at}
	t.stated, t.prompted, t.asked = false, false, t.at
	t.recent = append(t.recent[max(0, len(t.recent)+1-maxRecent):], recentRun{run: t.task.ID})
}

// prompt says that the last message came from a user or another agent. It begins a run where none is open.
func (t *thread) prompt() {
	if !t.open && t.task == nil {
		t.start("", "")
	}
	r := &t.recent[len(t.recent)-1]
	if r.prompted, t.prompted = true, true; t.said != "" && len(r.messages) < maxRecent {
		r.messages = append(r.messages, t.said)
	}
	t.said = ""
}

// begin hands out the run that has begun. Where none has, it infers one.
func (t *thread) begin() {
	if t.open {
		return
	}
	if t.task == nil {
		t.start("", "")
		t.task.Inferred = true
	}
	r := t.task
	r.Model, r.Provider, r.Agent, r.ForkParentID = t.model, t.provider, t.agent, t.forked
	if o := object.Of("", t.context); o != nil && (!o.Has("turn_id") || o.String("turn_id") == r.ID) {
		r.Config = t.context
		r.Rules = input.Members("approval_policy", o.Raw("approval_policy"), "approvals_reviewer",
			o.Raw("approvals_reviewer"), "sandbox_policy", o.Raw("sandbox_policy"), "permission_profile",
			o.Raw("permission_profile"))
	}
	switch {
	case t.parent != "":
		if r.Trigger = spans.TriggerSubAgent; r.ParentID != "" || len(t.recent) == 1 {
			r.ParentSessionID = t.parent
		}
	case t.prompted:
		r.Trigger = spans.TriggerUser
	}
	if t.orphan {
		r.From = t.forked
	}
	t.Begin(*r)
	t.task, t.open = nil, true
}

// end ends the run that has begun, if one has; with the zero time at the last time seen.
func (t *thread) end(at time.Time, res event.RunResult) {
	if t.settle(); t.task == nil && !t.open {
		return
	}
	t.begin()
	t.End(at, res)
	t.open, t.call, t.stated = false, nil, false
}

// split divides the run at hand, a copy, from what the fork adds to it.
func (t *thread) split() {
	if t.settle(); t.open || t.task != nil {
		t.begin()
		t.Split()
		t.open, t.call, t.stated = false, nil, false
	}
}

// atEnd ends what is over at the end of the file, as far as that is known: a run that no task states, when its reply
// asks for no tool. A call that may have made a summary waits for what follows.
func (t *thread) atEnd() {
	c, live := t.call, t.d.Settings.Live
	summary := t.stated && t.task != nil && !t.prompted
	if c != nil && !summary && (!live || c.Usage != nil && (!t.stated || len(c.tools) > 0)) {
		t.settle()
	}
	switch {
	case !live && t.open && !t.stated && c != nil && c.Usage != nil && len(c.tools) == 0:
		t.end(time.Time{}, event.RunResult{})
	case t.task != nil:
		t.begin()
	}
	t.d.Finish()
}

// input adds a message that is no reply.
func (t *thread) input(p *object.Object, payload []byte) {
	if t.settle(); t.call != nil && len(t.call.tools) == 0 && !t.stated { // nothing made the loop go on
		t.end(time.Time{}, event.RunResult{})
	}
	t.asked = t.at
	t.Message(event.Message{Raw: payload, Role: p.String("role"), Time: t.at})
	if p.String("role") == "user" {
		t.said = p.String("id")
	}
}

// turnContext reads the settings of the model calls that follow.
func (t *thread) turnContext(p *object.Object, payload []byte) {
	t.model, t.effort = p.String("model"), p.String("effort")
	if bytes.Equal(payload, t.context) {
		return
	}
	if t.context = bytes.Clone(payload); t.open {
		t.Other("turn_context", payload, t.at)
	}
}

// rollBack hides the runs that a rollback took from the history: the last ones, until n with a prompt are hidden.
func (t *thread) rollBack(n *int64) {
	for ; n != nil && *n > 0 && len(t.recent) > 0; t.recent = t.recent[:len(t.recent)-1] {
		r := t.recent[len(t.recent)-1]
		for _, id := range append(r.messages, r.run) {
			t.d.Hide(t.Session, id, t.at, t.at)
		}
		if r.prompted {
			*n--
		}
	}
}
