package guide

import (
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// This file gives back the runs and turns that otelagent wrote beside the rows, under the key otelagent of
// metadata_json: of a message of the assistant its run and turns, of one of user or system its run and turn. Times
// are unix nanoseconds; zero is not known.

// extension is that key.
type extension struct {
	run        otelagent.RunInfo
	end        *otelagent.RunResult // nil when the run had no end, or the row does not say
	over       time.Time            // since when no more rows of the run can follow; zero when that is not known
	whole      bool                 // the row says all of the run
	turn       int64                // noTurn when the message stands outside turns
	envelope   []byte
	turns      []*ownTurn
	compaction *object.Object
}

// noTurn is the turn of what belongs to none.
const noTurn = -1

// ownTurn is a turn; its parts are those from up to to. Digests of its request stay in the row.
type ownTurn struct {
	info      otelagent.TurnInfo
	end       *otelagent.TurnResult // nil when it had no end
	request   *otelagent.Request    // nil when nothing is known of it
	discards  int64                 // attempts
	discarded *otelagent.Usage      // the sum of them, normalised
	from, to  int
	calls     map[string][]*object.Object // not emitted, by id
}

const (
	maxSameID   = 64  // calls of one id among which one of a name is looked for
	maxDiscards = 64  // discarded attempts of a turn that are emitted
	maxOwnRuns  = 256 // open runs; a further one ends the oldest
)

// extensionOf reads the key; nil when it is absent or not as otelagent writes it.
func extensionOf(o *object.Object) *extension {
	if o == nil {
		return nil
	}
	failed := o.Failed()
	r := o.Object("run")
	e := &extension{turn: noTurn, envelope: o.Raw("envelope"), compaction: o.Object("compaction"),
		whole: r.String("status") != ""}
	e.run = otelagent.RunInfo{ID: r.String("id"), Start: exactly(r, "start"), Agent: r.String("agent"),
		AgentID: r.String("agent_id"), Model: r.String("model"), Provider: r.String("provider"),
		Dialect: r.String("dialect"), ParentID: r.String("parent_id"), ParentSessionID: r.String("parent_session_id"),
		ParentToolCallID: r.String("parent_tool_call_id"), ForkParentID: r.String("fork_parent_id"),
		Continuation: spans.Continuation(r.String("continuation")), ContinuationTag: r.String("tag"),
		ConfigID: r.String("config_id"), API: r.String("api"), Config: r.Raw("config"), Metadata: r.Raw("metadata"),
		Rules: r.Raw("rules"), GroupStart: exactly(r, "group_start").Time,
		GroupRole: spans.GroupRole(r.String("group_role")), Recording: spans.RecordingLedger, Copied: flag(r, "copied")}
	end := exactly(r, "end")
	if e.over = end.Time; !e.over.IsZero() && !closed(r) {
		e.end = &otelagent.RunResult{End: end, Status: spans.RunStatus(r.String("status")), Word: r.String("word"),
			Rejected: flag(r, "rejected"), Rejection: r.String("rejection"), Error: r.String("error"), Usage: ownUsage(r)}
	}
	if turn := o.Int("turn"); turn != nil {
		e.turn = *turn
	}
	for _, t := range o.Objects("turns") {
		e.turns = append(e.turns, ownTurnOf(t))
	}
	if o.Failed() > failed {
		return nil
	}
	return e
}

func ownTurnOf(o *object.Object) *ownTurn {
	start := exactly(o, "start")
	t := &ownTurn{discards: number(o, "discarded_attempts"), calls: map[string][]*object.Object{},
		info: otelagent.TurnInfo{Index: number(o, "index"), Trigger: spans.Trigger(o.String("trigger")),
			Model: o.String("model"), Provider: o.String("provider"), Variant: o.String("variant"), Start: start}}
	if discarded := o.Object("discarded"); discarded != nil {
		t.discarded = usageOf(discarded, spans.UsageRuleIncludesCache)
	}
	for i, at := range elements(o.Raw("steps")) {
		switch n, _ := strconv.Atoi(string(at)); i {
		case 0:
			t.from = n
		case 1:
			t.to = n
		}
	}
	for _, call := range o.Objects("calls") {
		id := call.String("id")
		t.calls[id] = append(t.calls[id], call)
	}
	attempts := number(o, "attempts")
	request := otelagent.Request{At: otelagent.Moment{Time: start.Time, Source: spans.TimeSourceBound},
		Attempt: int(min(max(attempts, 1), maxDiscards)) - 1, Model: t.info.Model, Level: o.String("reasoning_level"),
		Format: o.String("format"), MaxTokens: o.Int("max_tokens"), Temperature: o.Float("temperature")}
	if request.Temperature != nil || request.MaxTokens != nil || request.Level != "" || request.Format != "" ||
		attempts > 1 {
		t.request = &request
	}
	if !closed(o) {
		t.end = &otelagent.TurnResult{End: exactly(o, "end"), Model: o.String("answered_model"),
			StopReason: o.String("stop_reason"), Failed: flag(o, "failed"), Error: o.String("error"), Usage: ownUsage(o),
			Cost: o.Float("cost"), Currency: o.String("currency"), ModelCall: time.Duration(number(o, "model_call_ns")),
			FirstChunk: time.Duration(number(o, "first_chunk_ns")), ResponseID: o.String("response_id")}
	}
	return t
}

// exactly reads unix nanoseconds, which are the very time.
func exactly(o *object.Object, key string) otelagent.Moment {
	ns := number(o, key)
	if ns <= 0 {
		return otelagent.Moment{}
	}
	return otelagent.Moment{Time: time.Unix(0, ns).UTC()}
}

func number(o *object.Object, key string) int64 {
	if n := o.Int(key); n != nil {
		return *n
	}
	return 0
}

func flag(o *object.Object, key string) bool {
	b := o.Bool(key)
	return b != nil && *b
}

// closed reports whether a run or turn had no end.
func closed(o *object.Object) bool { return o.String("known") == string(spans.KnownClosed) }

// ownUsage reads usage as it was reported, and the rule that normalises it.
func ownUsage(o *object.Object) *otelagent.Usage {
	in := o.Object("usage")
	if in == nil {
		return nil
	}
	rule := spans.UsageRule(in.String("rule"))
	if u := usageOf(in.Object("reported"), rule); u != nil {
		return u
	}
	return &otelagent.Usage{Rule: rule}
}

// callOf returns the next call of that id; nil when otelagent wrote none.
func (t *ownTurn) callOf(id, name string) *object.Object {
	if t == nil {
		return nil
	}
	rest := t.calls[id]
	for i, c := range rest[:min(len(rest), maxSameID)] {
		if n := c.String("name"); n == name || n == "" {
			copy(rest[1:i+1], rest[:i])
			t.calls[id] = rest[1:]
			return c
		}
	}
	return nil
}

// completeCompaction adds what otelagent wrote of a compaction and its part does not say.
func completeCompaction(ev *otelagent.CompactionEnded, o *object.Object) {
	if o == nil {
		return
	}
	if string(ev.Summary) == `""` { // the guide has no other word for none
		ev.Summary = nil
	}
	if start := exactly(o, "start"); !start.Time.IsZero() {
		ev.Compaction.Start, ev.CompactionResult.End, ev.Time = start, exactly(o, "end"), start.Time
	}
	if kind := o.String("kind"); kind != "" {
		ev.Kind = spans.CompactionKind(kind)
	}
	ev.Trigger, ev.Reason = o.String("trigger"), o.String("reason")
	for key, to := range map[string]*int64{"messages_before": &ev.CompactionResult.MessagesBefore,
		"messages_after": &ev.CompactionResult.MessagesAfter,
		"input_tokens":   &ev.CompactionResult.InputTokens, "output_tokens": &ev.OutputTokens,
		"messages_summarized": &ev.MessagesSummarized,
		"removed_tokens":      &ev.TokensGone} {
		if *to = -1; o.Has(key) {
			*to = number(o, key)
		}
	}
}

// ownRun is a run of otelagent while its events are emitted.
type ownRun struct {
	run
	seq     int64
	own     *extension // the first, or one that says all of the run
	started bool
	waiting []*message // of user and system
	turns   int64      // behind the last that was emitted
}

// ownRunOf returns the run that a message names.
func (d *reader) ownRunOf(m *message) *ownRun {
	info := &m.own.run
	for _, r := range d.runs {
		if r.id == info.ID && r.own.run.Start == info.Start {
			return r
		}
	}
	// a loop that uses an id again has ended the run that had it
	d.endOwnRuns(func(r *ownRun) bool { return r.id == info.ID })
	if len(d.runs) == maxOwnRuns {
		d.endOwn(d.runs[0])
		d.runs = d.runs[1:]
	}
	r := &ownRun{run: run{id: info.ID, session: d.session.id}, seq: m.seq, own: m.own}
	d.runs = append(d.runs, r)
	return r
}

// endOwnRuns ends the open runs that are over.
func (d *reader) endOwnRuns(over func(*ownRun) bool) {
	d.runs = slices.DeleteFunc(d.runs, func(r *ownRun) bool {
		if !over(r) {
			return false
		}
		d.endOwn(r)
		return true
	})
}

// endOwnBefore ends the runs that were over before t: rows stand in the order of created_at, so no more rows of them
// can follow.
func (d *reader) endOwnBefore(t time.Time) {
	d.endOwnRuns(func(r *ownRun) bool {
		return !r.own.over.IsZero() && t.UnixMilli() > r.own.over.UnixMilli()
	})
}

// ownMessage reads a message that names its run.
func (d *reader) ownMessage(m *message) {
	r := d.ownRunOf(m)
	if m.own.whole {
		r.own = m.own
	}
	if m.role != "assistant" {
		if len(r.waiting) == maxStretch || d.waiting > d.Settings.MaxLine {
			d.startOwn(r)
			d.emitWaiting(r)
		}
		r.waiting = append(r.waiting, m)
		d.waiting += m.size
		return
	}
	d.startOwn(r)
	rest := 0 // parts from here on were not emitted
	for _, t := range m.own.turns {
		from := min(max(t.from, rest), len(m.parts)) // turns do not share parts
		to := min(max(t.to, from), len(m.parts))
		d.emitParts(&r.run, m, m.parts[rest:from], nil)
		d.emitOwnTurn(r, m, t, m.parts[from:to])
		rest = to
	}
	d.emitParts(&r.run, m, m.parts[rest:], nil) // a compaction, or calls outside any turn
	if len(m.parts) == 0 {
		d.emitLines(m, 0, m.all())
	}
}

// startOwn emits the start of the run, once.
func (d *reader) startOwn(r *ownRun) {
	if r.started {
		return
	}
	r.started = true
	s, info := d.session, r.own.run
	info.SessionID = s.id
	if !r.own.whole { // no row that says all of the run is there yet
		info.Agent, info.Model, info.Provider, info.Rules = s.agent, s.model.id, s.model.provider, s.rulesAt(info.Start.Time)
	}
	d.Emit(&otelagent.RunStarted{Meta: r.meta(info.Start.Time, r.seq), RunInfo: info})
}

// emitOwnTurn emits one turn: the messages that waited for it, its parts, its end.
func (d *reader) emitOwnTurn(r *ownRun, m *message, t *ownTurn, parts []*part) {
	d.emitOfTurn(r, noTurn)
	start := t.info.Start
	r.turns = max(r.turns, t.info.Index+1)
	seq := m.seq
	if len(parts) > 0 {
		seq = parts[0].seq
	}
	d.Emit(&otelagent.TurnStarted{Meta: r.meta(start.Time, seq), TurnInfo: t.info})
	if t.request != nil {
		d.Emit(&otelagent.RequestPrepared{Meta: r.meta(start.Time, seq), Request: *t.request})
	}
	d.emitOfTurn(r, t.info.Index)
	for n := range min(t.discards, maxDiscards) {
		attempt := otelagent.DiscardedAttempt{At: start, Attempt: int(n)}
		if n == 0 {
			attempt.Usage = t.discarded
		}
		d.Emit(&otelagent.AttemptDiscarded{Meta: r.meta(start.Time, m.seq), DiscardedAttempt: attempt})
	}
	d.emitParts(&r.run, m, parts, t)
	r.seq = m.endSeq(parts)
	if t.end == nil {
		return
	}
	if len(parts) > 0 {
		t.end.Output = m.output(parts)
	}
	d.Emit(&otelagent.TurnEnded{Meta: r.meta(t.end.End.Time, r.seq), TurnResult: *t.end})
}

// emitOfTurn emits the messages that waited for a turn.
func (d *reader) emitOfTurn(r *ownRun, turn int64) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *message) bool {
		if w.own.turn != turn {
			return false
		}
		d.emitOwnMessage(r, w)
		return true
	})
}

func (d *reader) emitOwnMessage(r *ownRun, m *message) {
	d.waiting -= m.size
	msg := m.message(m.parts)
	m.own.wrap(&msg)
	d.Emit(&otelagent.MessageAdded{Meta: r.meta(m.created, m.seq), Message: msg})
	d.emitLines(m, 0, m.all())
}

// wrap puts the members back that the source of a message had around it.
func (e *extension) wrap(msg *otelagent.Message) {
	raw := msg.Raw[:len(msg.Raw)-1]
	names := slices.Clone(msg.Envelope)
	for _, m := range membersOf(object.Of("", e.envelope), "id", "createdAt", "role", "parts") { // it has these four
		raw = append(append(rawjson.Quote(append(raw, ','), m.key), ':'), m.value...)
		names = append(names, m.key)
	}
	msg.Raw, msg.Envelope = append(raw, '}'), names
}

// emitWaiting emits the messages that still wait: in turns of which there is nothing else, or in none.
func (d *reader) emitWaiting(r *ownRun) {
	d.emitOfTurn(r, noTurn)
	for _, w := range r.waiting {
		if t := w.own.turn; t >= r.turns {
			r.turns = t + 1
			d.Emit(&otelagent.TurnStarted{Meta: r.meta(w.created, w.seq), TurnInfo: otelagent.TurnInfo{Index: t,
				Start: bound(w.created)}})
		}
		d.emitOwnMessage(r, w)
	}
	r.waiting = nil
}

// endOwn emits the end of a run, if it had one.
func (d *reader) endOwn(r *ownRun) {
	d.startOwn(r)
	d.emitWaiting(r)
	if end := r.own.end; end != nil {
		d.Emit(&otelagent.RunEnded{Meta: r.meta(end.End.Time, r.seq), RunResult: *end})
	}
}
