package guide

import (
	"cmp"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// This file makes a run of a stretch of messages.

// run is one run while its events are emitted, and while a compaction may continue it.
type run struct {
	id, session string
	last        time.Time // the latest time of its events
	hidden      time.Time // since when it is rewound; zero when it is not
}

func (r *run) meta(t time.Time, seq int64) event.Meta {
	r.last = input.Later(r.last, t)
	return event.Meta{Session: r.session, Run: r.id, Time: t, Seq: seq}
}

// stamped is a moment that a row states as its own.
func stamped(t time.Time) event.Moment {
	if t.IsZero() {
		return event.Moment{}
	}
	return event.Moment{Time: t, Source: spans.TimeSourceMessage}
}

// steps divides the parts of a message of the assistant into turns, which step-start parts begin. Those before the
// first belong to the first turn.
func (m *message) steps() (steps [][]*part) {
	started := false
	for i, p := range m.parts {
		begins := p.kind == "step-start"
		if i == 0 || begins && started {
			steps = append(steps, nil)
		}
		started = started || begins
		last := &steps[len(steps)-1]
		*last = append(*last, p)
	}
	return steps
}

// emitRun emits the run that the messages of the stretch and the assistant's, if there is one, make. Over says that
// another run follows, so that one without an assistant's message has ended too. A stretch that begins with the marker
// of a compaction is nothing else: a compaction between two runs is a run of its own.
func (d *Decoder) emitRun(a *message, over bool) {
	users := d.stretch
	d.stretch, d.joined = nil, 0
	all := users
	if a != nil {
		all = append(users[:len(users):len(users)], a)
	}
	first := all[0]
	r := &run{id: first.id, session: d.session.id, hidden: first.hidden}
	info, compacts := d.runInfo(all), a == nil && first.marker()
	if compacts {
		info.Continuation = spans.ContinuationCompaction
		if info.ParentID == "" && info.ForkParentID == "" && info.ParentSessionID == "" {
			info.ParentID = d.before(first.created)
		}
	} else {
		d.recent = append(d.recent[max(0, len(d.recent)-63):], r)
	}
	d.Emit(&event.RunStarted{Meta: r.meta(first.created, first.seq), RunInfo: info})
	for _, m := range users {
		if m.marker() {
			d.emitHeld(m.lines)
			d.emitParts(r, m, m.parts)
		}
	}
	if compacts {
		at := input.Later(r.last, first.updated)
		d.Emit(&event.RunEnded{Meta: r.meta(at, first.endSeq(first.parts)), RunResult: event.RunResult{
			End: event.Bound(at), Status: spans.RunStatusCompleted}})
		return
	}
	trigger := spans.Trigger(first.source)
	switch {
	case trigger != "":
	case info.ParentID != "":
		trigger = spans.TriggerSubAgent
	case first.role == "user":
		trigger = spans.TriggerUser
	}
	d.emitTurnStart(r, cmp.Or(a, first), first.created, first.seq, event.TurnInfo{Index: new(int64(0)), Trigger: trigger})
	for _, m := range users {
		if !m.marker() {
			d.Emit(&event.MessageAdded{Meta: r.meta(m.created, m.seq), Message: m.message(m.parts)})
			d.emitLines(m)
		}
	}
	if a == nil {
		if over {
			d.Emit(&event.RunEnded{Meta: r.meta(r.last, first.seq), RunResult: event.RunResult{
				End: event.Bound(r.last), Status: spans.RunStatusAborted}})
		}
		return
	}
	steps, usage := a.steps(), a.usage
	d.emitHeld(a.lines)
	for i, s := range steps {
		if i > 0 {
			d.emitTurnStart(r, a, s[0].created, s[0].seq, event.TurnInfo{Index: new(int64(i)),
				Trigger: spans.TriggerContinuation})
		}
		d.emitParts(r, a, s)
		at, calls := time.Time{}, false
		for _, p := range s {
			at, calls = input.Later(at, p.latest), calls || p.tool()
		}
		// The time of a message which grows is later than a turn of it that is not the last any more.
		at = cmp.Or(at, a.updated)
		end := event.TurnResult{End: event.Bound(at), Output: new(a.message(s))}
		if len(steps) == 1 && !calls { // nothing makes the loop go on: usage of the message is that of this one call
			end.Usage, usage = usage, nil
		}
		d.Emit(&event.TurnEnded{Meta: r.meta(at, a.endSeq(s)), TurnResult: end})
	}
	at := input.Later(r.last, a.updated)
	d.Emit(&event.RunEnded{Meta: r.meta(at, a.endSeq(a.parts)), RunResult: event.RunResult{End: event.Bound(at),
		Status: a.status(), Usage: usage}})
}

// emitTurnStart emits the start of a turn in which the model of m is asked.
func (d *Decoder) emitTurnStart(r *run, m *message, at time.Time, seq int64, info event.TurnInfo) {
	info.Model, info.Provider, info.Variant, info.Start = m.model.id, m.model.provider, m.model.variant, event.Bound(at)
	d.Emit(&event.TurnStarted{Meta: r.meta(at, seq), TurnInfo: info})
}

// endSeq is the position of the last of the parts, else that of the message.
func (m *message) endSeq(parts []*part) (seq int64) {
	seq = m.seq
	for _, p := range parts {
		seq = max(seq, p.seq)
	}
	return seq
}

// runInfo describes the run that the messages make.
func (d *Decoder) runInfo(messages []*message) event.RunInfo {
	s, first := d.session, messages[0]
	info := event.RunInfo{SessionID: s.id, ID: first.id, Agent: s.agent, Dialect: Dialect,
		Start:     stamped(first.created),
		Recording: spans.RecordingLedger, Copied: s.copied(first.created)}
	var held [][]byte // the rules that held when it began
	for i, rule := range s.rules {
		if !s.added[i].After(first.created) {
			held = append(held, rule)
		}
	}
	if held != nil {
		info.Rules = input.Array(held)
	}
	m := s.model
	for _, of := range messages {
		info.Agent = cmp.Or(of.agent, info.Agent)
		if of.model.id != "" {
			m = of.model
		}
		if of.trigger != nil && info.Metadata == nil {
			info.Metadata = input.Members("trigger", of.trigger)
		}
	}
	info.Model, info.Provider = m.id, m.provider
	// A session that a task call named, or that says so of itself, is a sub-agent's; one that holds messages of before
	// its own time is a fork; of another one only the parent is known.
	switch l, named := d.children[s.id]; {
	case s.parent == "":
	case named && l.session == s.parent:
		info.ParentSessionID, info.ParentID, info.ParentToolCallID = l.session, l.run, l.call
	case s.child:
		info.ParentSessionID, info.ParentID = s.parent, s.parentAt
	case s.copied(s.first):
		info.ForkParentID = s.parent
	default:
		info.ParentSessionID = s.parent
	}
	return info
}

// status returns how the run of a message of the assistant ended, as far as its parts show: text or a call that is not
// finished is frozen as it was last seen.
func (m *message) status() spans.RunStatus {
	waits := false
	for _, p := range m.parts {
		state := p.callState()
		switch {
		case p.tool() && (state == "approval-requested" || state == "approval-responded"):
			waits = true // the turn is suspended, and resumed on this very message
		case p.tool() && !p.over(), (p.kind == "text" || p.kind == "reasoning") && p.ai.String("state") == "streaming":
			return spans.RunStatusAborted
		}
	}
	n := len(m.parts)
	switch {
	case waits:
		return spans.RunStatusOpen
	case n == 0 || m.parts[n-1].kind == "step-start": // the model was asked, and nothing came
		return spans.RunStatusAborted
	}
	return spans.RunStatusCompleted
}

// message returns the message of the given parts in the form of the AI SDK.
func (m *message) message(parts []*part) event.Message {
	var data [][]byte
	for _, p := range parts {
		if p.data != nil {
			data = append(data, p.data)
		}
	}
	var created []byte
	if !m.created.IsZero() {
		created = strconv.AppendInt(nil, m.created.UnixMilli(), 10)
	}
	raw := input.Members("id", m.id, "role", rawjson.Quote(nil, m.role), "createdAt", created, "parts", input.Array(data))
	return event.Message{Raw: raw, Role: m.role, Time: m.created}
}

// emitParts emits the parts of a turn.
func (d *Decoder) emitParts(r *run, m *message, parts []*part) {
	for _, p := range parts {
		switch {
		case p.tool():
			d.emitCall(r, p)
		case p.kind == "data-compaction":
			d.emitCompaction(r, m, p)
		default:
			r.last = input.Later(r.last, p.latest)
		}
		d.emitHeld(p.lines)
	}
}

// marker reports whether a message stands for a compaction and for nothing else. The usage of such a one is no model's.
func (m *message) marker() bool {
	for _, p := range m.parts {
		if p.kind != "data-compaction" && p.kind != "step-start" {
			return false
		}
	}
	return m.role == "assistant" && (m.compaction || len(m.parts) > 0 && m.parts[len(m.parts)-1].kind == "data-compaction")
}

// compaction returns the fields of a data-compaction part: they are in it, or in its data as the AI SDK has it.
func (p *part) compaction() *object.Object {
	if inner := object.Of("", p.ai.Raw("data")); inner != nil {
		return inner
	}
	return p.ai
}

func (d *Decoder) emitCompaction(r *run, m *message, p *part) {
	at := cmp.Or(p.created, m.created)
	ev := &event.CompactionEnded{Meta: r.meta(at, p.seq),
		Compaction:       event.Compaction{Kind: spans.CompactionKindSummary, Start: stamped(at)},
		CompactionResult: event.CompactionResult{End: event.Bound(input.Later(at, p.latest))},
	}
	o := p.compaction()
	ev.Summary, ev.Target = o.Raw("summary"), o.String("tail_start_id")
	if auto := o.Bool("auto"); auto != nil && *auto {
		ev.Trigger = "auto"
	} else if auto != nil {
		ev.Trigger = "manual"
	}
	ev.OutputTokens = o.Count("summary_tokens")
	d.Emit(ev)
	r.last = input.Later(r.last, p.latest)
}
