package guide

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// This file tells of the run that a stretch of messages makes.

// run is one run while it is told.
type run struct {
	id, session string
	start       time.Time
	seq         int64
	last        time.Time // the latest time told
}

func (r *run) meta(t time.Time, seq int64) otelagent.Meta {
	r.last = later(r.last, t)
	return otelagent.Meta{Session: r.session, Run: r.id, Time: t, Seq: seq}
}

// bound is a moment that is only known not to be earlier, or later, than t.
func bound(t time.Time) otelagent.Moment {
	if t.IsZero() {
		return otelagent.Moment{}
	}
	return otelagent.Moment{Time: t, Source: spans.TimeSourceBound}
}

// stamped is a moment that a row states as its own.
func stamped(t time.Time) otelagent.Moment {
	if t.IsZero() {
		return otelagent.Moment{}
	}
	return otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
}

// step is one turn of a message of the assistant: the parts from a step-start up to the next.
type step struct {
	parts []*part
}

// stepsOf divides the parts of a message. Those before the first step-start belong to the first step.
func (m *message) stepsOf() (steps []step) {
	started := false
	for i, p := range m.parts {
		begins := p.kind == "step-start"
		if i == 0 || begins && started {
			steps = append(steps, step{})
		}
		started = started || begins
		s := &steps[len(steps)-1]
		s.parts = append(s.parts, p)
	}
	return steps
}

// tellRun tells of the run that the messages of the stretch and the assistant's, if there is one, make. Over says that another run
// follows, so that one without an assistant's message has ended too.
func (d *Decoder) tellRun(a *message, over bool) {
	users := d.stretch
	d.stretch, d.size, d.joined = nil, 0, 0
	first := a
	if len(users) > 0 {
		first = users[0]
	}
	r := &run{id: first.id, session: d.session.id, start: first.created, seq: first.seq}
	info := d.runInfo(first, append(users[:len(users):len(users)], a))
	d.emit(&otelagent.RunStarted{Meta: r.meta(first.created, first.seq), RunInfo: info})
	d.remember(r.id, first)
	for _, m := range users {
		if m.marker() {
			d.tellCompactions(r, m)
		}
	}
	of := a
	if a == nil {
		of = first
	}
	d.emit(&otelagent.TurnStarted{Meta: r.meta(first.created, first.seq), TurnInfo: otelagent.TurnInfo{
		Trigger: d.triggerOf(first, info), Model: of.meta.model.id, Provider: of.meta.model.provider, Variant: of.meta.model.variant,
		Start: bound(first.created),
	}})
	for _, m := range users {
		if !m.marker() {
			d.tellMessage(r, m)
		}
		d.tellLines(m, 0, m.all())
	}
	if a == nil {
		if over {
			d.emit(&otelagent.RunEnded{Meta: r.meta(r.last, first.seq), RunResult: otelagent.RunResult{
				End: bound(r.last), Status: spans.RunStatusAborted}})
		}
		return
	}
	steps := a.stepsOf()
	usage := a.meta.usage
	for i := range steps {
		s := &steps[i]
		if i > 0 {
			d.emit(&otelagent.TurnStarted{Meta: r.meta(s.start(), s.parts[0].seq), TurnInfo: otelagent.TurnInfo{
				Index: int64(i), Trigger: spans.TriggerContinuation, Model: a.meta.model.id, Provider: a.meta.model.provider,
				Variant: a.meta.model.variant, Start: bound(s.start()),
			}})
		}
		d.tellParts(r, a, s.parts, nil)
		end := otelagent.TurnResult{Output: a.output(s.parts)}
		at := s.end()
		if at.IsZero() { // else not: that of a message which grows is later than a turn of it that is not the last any more
			at = a.updated
		}
		end.End = bound(at)
		if len(steps) == 1 && !s.calls() { // nothing makes the loop go on: usage of the message is that of this one call
			end.Usage, usage = usage, nil
		}
		d.emit(&otelagent.TurnEnded{Meta: r.meta(at, a.endSeq(s.parts)), TurnResult: end})
	}
	if len(steps) == 0 {
		d.tellLines(a, 0, a.all())
	}
	at := later(r.last, a.updated)
	d.emit(&otelagent.RunEnded{Meta: r.meta(at, a.endSeq(a.parts)), RunResult: otelagent.RunResult{End: bound(at), Status: a.status(), Usage: usage}})
}

// endSeq is the position of the last of the parts, else that of the message.
func (m *message) endSeq(parts []*part) (seq int64) {
	seq = m.seq
	for _, p := range parts {
		seq = max(seq, p.seq)
	}
	return seq
}

// runInfo says what is known of the run that begins with first. Messages may hold nil.
func (d *Decoder) runInfo(first *message, messages []*message) otelagent.RunInfo {
	s := d.session
	info := otelagent.RunInfo{SessionID: s.id, ID: first.id, Agent: s.agent, Dialect: Dialect, Start: stamped(first.created),
		Recording: spans.RecordingLedger, Copied: s.copied(first.created), Rules: s.rulesAt(first.created)}
	m := s.model
	for _, of := range messages {
		if of == nil {
			continue
		}
		if of.meta.agent != "" {
			info.Agent = of.meta.agent
		}
		if of.meta.model.id != "" {
			m = of.meta.model
		}
		if of.meta.trigger != nil && info.Metadata == nil {
			info.Metadata = append(append([]byte(`{"trigger":`), of.meta.trigger...), '}')
		}
	}
	info.Model, info.Provider = m.id, m.provider
	d.placeUnderParent(&info)
	return info
}

// placeUnderParent says how the session hangs together with its parent. A session that a task call named, or that says so of itself, is a
// sub-agent's; one that holds messages of before its own time is a fork; of another one only the parent is known.
func (d *Decoder) placeUnderParent(info *otelagent.RunInfo) {
	s := d.session
	if s.parent == "" {
		return
	}
	l, named := d.children.links[s.id]
	switch {
	case named && l.session == s.parent:
		info.ParentSessionID, info.ParentID, info.ParentToolCallID = l.session, l.run, l.call
	case s.child:
		info.ParentSessionID, info.ParentID = s.parent, s.parentAt
	case s.copied(s.first):
		info.ForkParentID = s.parent
	default:
		info.ParentSessionID = s.parent
	}
}

// triggerOf says what made the first turn of a run begin.
func (d *Decoder) triggerOf(first *message, info otelagent.RunInfo) spans.Trigger {
	switch {
	case first.meta.source != "":
		return spans.Trigger(first.meta.source)
	case info.ParentID != "":
		return spans.TriggerSubAgent
	case first.role == "user":
		return spans.TriggerUser
	}
	return ""
}

// start is the earliest time of the parts of a step, end the latest.
func (s *step) start() time.Time { return s.parts[0].created }

func (s *step) end() (t time.Time) {
	for _, p := range s.parts {
		t = later(t, p.latest)
	}
	return t
}

// calls reports whether a step has tool calls, after which a loop goes on.
func (s *step) calls() bool {
	for _, p := range s.parts {
		if p.tool() {
			return true
		}
	}
	return false
}

// status says how the run of a message of the assistant ended, as far as its parts tell: text or a call that is not finished stands
// frozen as it was last seen.
func (m *message) status() spans.RunStatus {
	waits := false
	for _, p := range m.parts {
		switch {
		case p.tool():
			t := p.call()
			switch {
			case t.state == "approval-requested" || t.state == "approval-responded":
				waits = true // the turn is suspended, and resumed on this very message
			case !t.over():
				return spans.RunStatusAborted
			}
		case p.kind == "text" || p.kind == "reasoning":
			if p.streams() {
				return spans.RunStatusAborted
			}
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

// streams reports whether a text or reasoning part was not finished.
func (p *part) streams() bool {
	c := rawjson.NewCursor(p.data, maxDepth)
	if p.data == nil || !c.Open('{') {
		return false
	}
	for c.More('}') {
		if key, value := string(c.Key()), c.Value(); key == "state" {
			return string(value) == `"streaming"`
		}
	}
	return false
}

// tellMessage tells of a message of user or system.
func (d *Decoder) tellMessage(r *run, m *message) {
	d.emit(&otelagent.MessageAdded{Meta: r.meta(m.created, m.seq), Message: m.message(m.parts)})
}

func (m *message) message(parts []*part) otelagent.Message {
	raw := append(rawjson.Quote([]byte(`{"id":`), m.id), `,"role":`...)
	raw = rawjson.Quote(raw, m.role)
	if !m.created.IsZero() {
		raw = strconv.AppendInt(append(raw, `,"createdAt":`...), m.created.UnixMilli(), 10)
	}
	raw = append(raw, `,"parts":[`...)
	n := 0
	for _, p := range parts {
		if p.data == nil {
			continue
		}
		if n++; n > 1 {
			raw = append(raw, ',')
		}
		raw = append(raw, p.data...)
	}
	return otelagent.Message{Raw: append(raw, "]}"...), Role: m.role, Time: m.created}
}

func (m *message) output(parts []*part) *otelagent.Message {
	out := m.message(parts)
	return &out
}

// all says that all lines of a message are meant that stand behind the last of its parts, too.
func (m *message) all() int { return len(m.parts) + 1 }

// tellLines tells of the lines of package ndjson that came behind from up to to parts of m.
func (d *Decoder) tellLines(m *message, from, to int) {
	for _, l := range m.lines {
		if l.behind >= from && l.behind < to {
			d.tellOwn(l)
		}
	}
}

// tellParts tells of what happened in a turn, part by part. Own is what otelagent says of the turn; nil when it says nothing.
func (d *Decoder) tellParts(r *run, m *message, parts []*part, own *ownTurn) {
	for _, p := range parts {
		if p == m.parts[0] {
			d.tellLines(m, 0, 1)
		}
		switch {
		case p.tool():
			d.tellCall(r, p, own)
		case p.kind == "data-compaction":
			d.tellCompaction(r, m, p)
		default:
			r.last = later(r.last, p.latest)
		}
		d.tellLines(m, p.position+1, p.position+2)
	}
}

// marker reports whether a message stands for a compaction and for nothing else. The usage of such a one is no model's.
func (m *message) marker() bool {
	for _, p := range m.parts {
		if p.kind != "data-compaction" && p.kind != "step-start" {
			return false
		}
	}
	return m.role == "assistant" && (m.meta.compaction || len(m.parts) > 0 && m.parts[len(m.parts)-1].kind == "data-compaction")
}

// tellCompactionRun tells of a compaction between two runs, as a run that does nothing else.
func (d *Decoder) tellCompactionRun(m *message) {
	r := &run{id: m.id, session: d.session.id, start: m.created, seq: m.seq}
	info := d.runInfo(m, []*message{m})
	if info.ParentID == "" && info.ForkParentID == "" && info.ParentSessionID == "" {
		info.ParentID = d.before(m.created)
	}
	info.Continuation = spans.ContinuationCompaction
	d.emit(&otelagent.RunStarted{Meta: r.meta(m.created, m.seq), RunInfo: info})
	d.tellCompactions(r, m)
	d.tellLines(m, 0, m.all())
	at := later(r.last, m.updated)
	d.emit(&otelagent.RunEnded{Meta: r.meta(at, m.endSeq(m.parts)), RunResult: otelagent.RunResult{End: bound(at), Status: spans.RunStatusCompleted}})
}

func (d *Decoder) tellCompactions(r *run, m *message) {
	for _, p := range m.parts {
		if p.kind == "data-compaction" {
			d.tellCompaction(r, m, p)
		}
	}
}

// tellCompaction tells of a data-compaction part: its fields stand in it, or in its data as the AI SDK has it.
func (d *Decoder) tellCompaction(r *run, m *message, p *part) {
	at := p.created
	if at.IsZero() {
		at = m.created
	}
	ev := &otelagent.CompactionEnded{Meta: r.meta(at, p.seq),
		Compaction: otelagent.Compaction{Kind: spans.CompactionKindSummary, MessagesBefore: -1, InputTokens: -1, Start: stamped(at)},
		CompactionResult: otelagent.CompactionResult{End: bound(later(at, p.latest)), MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1,
			OutputTokens: -1, MessagesSummarized: -1, TokensGone: -1, Runs: -1},
	}
	c := columns{d: d, typ: "part"}
	f := c.fieldsOf("data", p.data)
	if inner := f.get("data"); len(inner) > 0 && inner[0] == '{' {
		f = c.fieldsOf("data.data", inner)
	}
	if v := f.get("summary"); v != nil {
		ev.Summary = v
	}
	if v := f.get("tail_start_id"); v != nil {
		ev.Target, _ = rawjson.String(v)
	}
	switch string(f.get("auto")) {
	case "true":
		ev.Trigger = "auto"
	case "false":
		ev.Trigger = "manual"
	}
	if n, ok := count(f.get("summary_tokens")); ok {
		ev.OutputTokens = n
	}
	if m.meta.own != nil {
		m.meta.own.compaction.tell(ev)
	}
	d.emit(ev)
	r.last = later(r.last, p.latest)
}

// recentRun is a run that a compaction may continue.
type recentRun struct {
	id     string
	hidden time.Time
}

// mostRecent bounds the runs among which the one is looked for that a compaction follows.
const mostRecent = 64

func (d *Decoder) remember(id string, first *message) {
	if len(d.recent) == mostRecent {
		d.recent = d.recent[1:]
	}
	d.recent = append(d.recent, recentRun{id, first.hidden})
}

// before returns the last run that was not rewound at t.
func (d *Decoder) before(t time.Time) string {
	for i := len(d.recent) - 1; i >= 0; i-- {
		if r := d.recent[i]; r.hidden.IsZero() || r.hidden.After(t) {
			return r.id
		}
	}
	return ""
}
