package transcript

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Run says what begins a run.
type Run struct {
	// RunInfo is what is known of it. Thread.Begin fills session, dialect, start, recording and, where no parent is
	// named, the run that it continues or the call that spawned it. An empty ID is made of the number of the line, an
	// empty Agent is that of the settings, else the name of the dialect.
	event.RunInfo
	// At is when it began, Trigger what its first turn begins with.
	At      time.Time
	Trigger spans.Trigger
	// Taken says that the session took the run over, from ForkParentID as far as that is known. Where that session was
	// not read, the run counts here and has a defect.
	Taken bool
}

// Call is one record of a model call.
type Call struct {
	// ID is the same in all records of the call. An empty id is a call of its own.
	ID string
	// TurnResult is what the record knows of the whole call. Of each count of the usage the greatest is kept; that is a
	// lower bound if it is one in all records. The Thread sets End, Output and Results.
	event.TurnResult
	// At is the time of the record; Start when the call began, zero where that is not known.
	At    time.Time
	Start event.Moment
	// Trigger is what made the call begin; empty takes that of the run for its first call, continuation for others.
	Trigger spans.Trigger
	// Run is the id of the run that begins where none is open. Variant is that of the model.
	Run, Variant string
	// Blocks are further blocks of the reply. Said, if it is not nil, are the blocks that are before them, of a reply
	// that has the ID; they replace those of earlier records. Reply, if set, is the whole reply and replaces them all.
	Blocks, Said [][]byte
	Reply        []byte
	// Tools are tool calls that the record has. The time of the record stands for times that they lack.
	Tools []Tool
}

// Tool is a tool call, and its result if it is over. Block, if set, is a block of the reply that stands for it.
type Tool struct {
	event.ToolCall
	At     time.Time
	Result *Result
	Block  []byte
}

// Result is the end of a tool call.
type Result struct {
	CallID, Name string
	At           time.Time
	event.ToolResult
	// Message is the message that holds the result, as JSON; where it is nil the Thread makes one of the result.
	Message []byte
	// Denied is the permission that was refused, as far as it is known; nil when the call was not refused.
	Denied *event.PermissionEvaluation
	// Done says that the run which the call spawned has ended.
	Done bool
}

// Refusals are the texts by which an agent says in a result that the call was not allowed, and who refused it.
type Refusals []struct {
	Text   *regexp.Regexp
	Source spans.PermissionSource
}

// Find returns the permission that a text says was refused, for the reason that it says; nil of any other text.
func (l Refusals) Find(text string) *event.PermissionEvaluation {
	for _, r := range l {
		if r.Text.MatchString(text) {
			return &event.PermissionEvaluation{Source: r.Source, Reason: text}
		}
	}
	return nil
}

// Thread is one conversation: that of a session, or of a sub-agent. One run of it is open at most.
type Thread struct {
	Session, Name string
	// Parent is the session that spawned this one; empty where it has none, or that is not known.
	Parent string

	d    *Decoder
	run  string // the open one; empty when none is
	prev string // the last one that ended
	fork string // session that this one was forked from
	copy string // a run whose copy was divided from the open one

	copied, skip bool // the open run is a copy; what comes is a duplicate
	taken        bool // the open run may be one that another session had, which was not read
	turns        int64
	trigger      spans.Trigger // of the next call
	last         time.Time     // the latest time of the run
	turn         *turn
	over         event.RunResult // how and when the run ends if no reply follows; without a status that is not known
	messages     []event.Message
	discarded    []event.DiscardedAttempt
	others       []*event.Other // before the run
}

// turn is the open turn.
type turn struct {
	Call
	tools map[string]string // names of calls by id; empty when ended
	size  int               // of reply and results
}

func (t *Thread) meta(at time.Time) event.Meta {
	t.last = input.Later(t.last, at)
	return event.Meta{Session: t.Session, Run: t.run, Time: at, Arrived: t.d.Arrived, Seq: t.d.from.lines + t.d.Number}
}

// bounds is meta for the start and end of a run. Those of a run whose original was not read have the least position, so
// that of equal rows the one counts which knows that it is a copy (session.Supersedes).
func (t *Thread) bounds(at time.Time) event.Meta {
	m := t.meta(at)
	if t.taken {
		m.Seq = min(m.Seq, 1)
	}
	return m
}

// Run returns the id of the open run; empty when none is.
func (t *Thread) Run() string { return t.run }

// final reports whether the open turn has ended and asked for no tool.
func (t *Thread) final() bool {
	return t.turn != nil && t.turn.StopReason != "" && len(t.turn.tools) == 0
}

// Idle reports whether the thread waits for a prompt: no run is open, or its last reply asked for no tool.
func (t *Thread) Idle() bool {
	return t.run == "" || t.over.Status != "" || t.turn != nil && len(t.turn.tools) == 0 && len(t.messages) == 0
}

// RunPrefix precedes the ids of runs where First remembers them: a prompt or call may have the same.
const RunPrefix = "run "

// Begin begins a run and ends the one before it. It reports false for a duplicate, which is dropped with all that
// follows until the next Begin.
func (t *Thread) Begin(r Run) bool {
	made := r.ID == "" // other sessions have other runs of that id
	r.ID = cmp.Or(r.ID, "run-"+strconv.FormatInt(t.d.from.lines+t.d.Number, 10))
	owner, _ := t.d.First(t.Session, RunPrefix+r.ID)
	again := t.run == r.ID
	t.skip = !again && owner != "" && owner == t.Session
	if t.run == "" {
		t.d.Counts.Outside -= int64(len(t.messages) + len(t.others))
		if t.skip {
			t.messages, t.others = nil, nil
		}
	}
	if t.skip || again {
		return false
	}
	t.End(time.Time{}, event.RunResult{})
	r.SessionID, r.Dialect, r.Recording = t.Session, t.d.Name, spans.RecordingLedger
	r.Agent = cmp.Or(r.Agent, t.d.Settings.Agent, t.d.Name)
	r.Provider = cmp.Or(r.Provider, t.d.Settings.Provider)
	if t.copied = owner != "" && !made || r.Copied; t.copied {
		r.Copied, r.ForkParentID = true, cmp.Or(r.ForkParentID, owner)
	}
	t.fork = cmp.Or(r.ForkParentID, t.fork)
	r.ForkParentID = t.fork
	switch l := cmp.Or(t.d.Spawned(t.Session, r.ID), t.d.Spawned("", t.Session), Link{Session: t.Parent}); {
	case t.prev != "" && r.ParentID == "":
		r.ParentID, r.Continuation = t.prev, cmp.Or(r.Continuation, spans.ContinuationDefault)
	case l != Link{}:
		r.ParentID, r.ParentToolCallID = cmp.Or(r.ParentID, l.Run), cmp.Or(r.ParentToolCallID, l.Call)
		if l.Session != t.Session {
			r.ParentSessionID, r.Trigger = l.Session, spans.TriggerSubAgent
		}
	}
	t.run, t.turns, t.trigger = r.ID, 0, r.Trigger
	t.last, t.over, t.taken = time.Time{}, event.RunResult{}, r.Taken && !r.Copied
	t.d.Emit(&event.RunStarted{Meta: t.bounds(r.At), RunInfo: r.RunInfo})
	if t.taken && t.prev == "" {
		t.d.Emit(&event.DefectFound{Meta: t.meta(r.At), Code: spans.DefectEventLost, Detail: "parent missing"})
	}
	for _, ev := range t.d.waiting[t.Session] {
		t.d.Emit(ev)
	}
	t.d.waiting[t.Session] = nil
	for _, o := range t.others {
		o.Run = t.run
		t.d.Emit(o)
	}
	t.others = nil
	return true
}

// Message adds a message that is no reply and no result: a prompt, a steering message, injected context. It belongs to
// the next call.
func (t *Thread) Message(m event.Message) {
	if t.skip || t.run == "" && !t.waits(len(t.messages)) {
		return
	}
	t.goesOn()
	m.Raw = bytes.Clone(m.Raw)
	if t.messages = append(t.messages, m); len(t.messages) >= maxPending && t.run != "" {
		t.flush()
	}
}

// flush emits the messages that belong to the open turn, or to the run.
func (t *Thread) flush() {
	for _, m := range t.messages {
		t.d.Emit(&event.MessageAdded{Meta: t.meta(m.Time), Message: m})
	}
	t.messages = nil
}

// waits counts a record after n others that wait for a run, and reports whether it may wait too.
func (t *Thread) waits(n int) bool {
	t.d.Counts.Outside++
	return n < maxPending
}

// Discard adds an attempt of the next call that failed and was repeated.
func (t *Thread) Discard(d event.DiscardedAttempt) {
	if !t.skip && len(t.discarded) < maxPending {
		t.discarded = append(t.discarded, d)
	}
}

// Call takes a record of a model call. It reports false for one that is dropped: a duplicate, or the copy of a call in
// a run that is no copy.
func (t *Thread) Call(c Call) bool {
	if t.skip {
		return false
	}
	if u := t.turn; u == nil || c.ID == "" || u.ID != c.ID {
		owner, _ := t.d.First(t.Session, c.ID)
		switch {
		case owner != "" && (owner == t.Session || t.run != "" && !t.copied):
			return false
		case t.run == "", t.copied && owner == "" && c.ID != "": // without a prompt; after the copied part of a run
			info := event.RunInfo{ID: cmp.Or(c.Run, c.ID), Model: c.Model, Inferred: t.run == ""}
			t.Split()
			if t.Begin(Run{RunInfo: info, At: c.At}); t.skip {
				return false
			}
		}
		t.close()
		info := event.TurnInfo{Index: new(t.turns), Model: c.Model, Provider: c.Provider, Variant: c.Variant,
			Trigger: cmp.Or(c.Trigger, t.trigger), Start: c.Start}
		t.over, t.turns, t.trigger = event.RunResult{}, t.turns+1, spans.TriggerContinuation
		begun := cmp.Or(c.Start.Time, c.At)
		if begun.After(c.At) {
			begun = c.At
		}
		t.d.Emit(&event.TurnStarted{Meta: t.meta(begun), TurnInfo: info})
		t.flush()
		for i, d := range t.discarded {
			d.Attempt = i
			t.d.Emit(&event.AttemptDiscarded{Meta: t.meta(c.At), DiscardedAttempt: d})
		}
		t.discarded, t.turn = nil, &turn{Call: c, tools: map[string]string{}}
		t.turn.Blocks, t.turn.Tools = nil, nil
	}
	u := t.turn
	u.StopReason, u.Model, u.Cost = cmp.Or(c.StopReason, u.StopReason), cmp.Or(c.Model, u.Model), cmp.Or(c.Cost, u.Cost)
	u.Failed, u.Cancelled, u.Error = c.Failed, c.Cancelled, c.Error
	u.Usage, u.End.Time = Greatest(u.Usage, c.Usage), input.Later(u.End.Time, c.At)
	t.meta(c.At)
	if c.Reply != nil {
		u.Reply = bytes.Clone(c.Reply)
	}
	if c.Said != nil {
		u.Said = c.Said
	}
	for _, b := range c.Blocks {
		t.block(b)
	}
	for _, u := range c.Tools {
		t.Tool(u, c.At)
	}
	return true
}

// block adds a block to the reply of the open turn.
func (t *Thread) block(b []byte) {
	if b != nil && t.holds(len(b)) {
		t.turn.Blocks = append(t.turn.Blocks, bytes.Clone(b))
	}
}

// holds reports whether the open turn may keep n bytes more.
func (t *Thread) holds(n int) bool {
	u := t.turn
	if u.size += n; u.size > maxTurn && u.size-n <= maxTurn {
		t.d.Emit(&event.DefectFound{Meta: t.meta(time.Time{}), Code: spans.DefectEventLost,
			Detail: "a turn longer than 33554432 bytes"})
	}
	return u.size <= maxTurn
}

// Greatest returns the greatest counts of two usages, which may be nil, of one call. It changes a.
func Greatest(a, b *event.Usage) *event.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	a.LowerBound = a.LowerBound && b.LowerBound
	for i, n := range Counts(a) {
		*n = max(*n, *Counts(b)[i])
	}
	return a
}

// Counted returns a usage, nil when all its counts are zero: the reply is not there yet, or failed.
func Counted(u *event.Usage) *event.Usage {
	if u == nil || *u == (event.Usage{Rule: u.Rule}) {
		return nil
	}
	return u
}

// Counts returns the counts of a usage.
func Counts(u *event.Usage) [6]*int64 {
	return [...]*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite, &u.Total}
}

// Tool begins a tool call of the open turn, or of the run without one, and ends it if it is over. At stands for times
// that it lacks. A call that is known is not begun again.
func (t *Thread) Tool(u Tool, at time.Time) {
	if t.skip || t.run == "" {
		return
	}
	t.goesOn()
	if !t.Knows(u.ID) || u.ID == "" {
		if t.turn != nil {
			t.block(u.Block)
			t.turn.tools[u.ID] = cmp.Or(u.Name, "tool")
		}
		t.d.Emit(&event.ToolStarted{Meta: t.meta(cmp.Or(u.At, at)), ToolCall: u.ToolCall})
	}
	if r := u.Result; r != nil {
		r.At = cmp.Or(r.At, at)
		t.Result(*r)
	}
}

// Knows reports whether the open turn has that tool call.
func (t *Thread) Knows(call string) bool {
	if t.turn == nil {
		return false
	}
	_, known := t.turn.tools[call]
	return known
}

// Result ends a tool call of the open turn. It reports false where that turn has no such call open: the record is then
// no result that can be placed.
func (t *Thread) Result(r Result) bool {
	if t.skip || t.turn == nil || t.turn.tools[r.CallID] == "" {
		return t.skip
	}
	u := t.turn
	t.goesOn()
	r.Name = cmp.Or(r.Name, u.tools[r.CallID])
	u.tools[r.CallID] = ""
	u.End.Time = input.Later(u.End.Time, r.At)
	if d := r.Denied; d != nil {
		d.Tool, d.CallID, d.Action, d.Derived = r.Name, r.CallID, spans.ActionDeny, true
		r.Outcome = spans.OutcomeDenied
		t.d.Emit(&event.PermissionEvaluated{Meta: t.meta(r.At), PermissionEvaluation: *d})
	}
	l := Link{Session: t.Session, Run: t.run, Call: r.CallID, Done: r.Done}
	if r.ChildSessionID != "" {
		t.d.Spawn("", r.ChildSessionID, l)
	} else if r.ChildRunID != "" {
		t.d.Spawn(t.Session, r.ChildRunID, l)
	}
	r.End = event.Moment{Time: r.At}
	t.d.Emit(&event.ToolEnded{Meta: t.meta(r.At), CallID: r.CallID, Name: r.Name, ToolResult: r.ToolResult})
	if r.Message == nil && r.ToolResult.Result != nil {
		r.Message = input.Members("role", "tool", "tool_call_id", r.CallID, "name", r.Name, "content", r.ToolResult.Result)
	}
	if r.Message != nil && t.holds(len(r.Message)) {
		u.Results = append(u.Results, event.Message{Raw: bytes.Clone(r.Message), Role: "tool", ToolCallID: r.CallID,
			Time: r.At})
	}
	return true
}

// Progress reports a partial result of a tool call.
func (t *Thread) Progress(call, typ string, body []byte, at time.Time) {
	if t.turn != nil && t.turn.tools[call] != "" && !t.skip {
		t.d.Emit(&event.ToolProgressed{Meta: t.meta(at), CallID: call, Type: typ, Body: body})
		return
	}
	t.Other(typ, body, at)
}

// Compact reports a compaction. The call before it is over, and so is the run if that call asked for nothing more and
// no other follows. Where no run is open the compaction is a run of that id.
func (t *Thread) Compact(id string, at time.Time, c event.Compaction, res event.CompactionResult) {
	if t.skip {
		return
	}
	if t.final() {
		t.Over(time.Time{}, event.RunResult{})
	}
	t.close()
	owner, _ := t.d.First(t.Session, "compaction "+id)
	alone := t.run == "" || t.copied && owner == "" // after the copied part of a run
	if alone && !t.Begin(Run{RunInfo: event.RunInfo{ID: id, Continuation: spans.ContinuationCompaction}, At: at}) {
		return
	}
	t.d.Emit(&event.CompactionEnded{Meta: t.meta(at), Compaction: c, CompactionResult: res})
	if alone {
		t.End(at, event.RunResult{})
	}
}

// Other keeps a record that has no place among the events. Before a run it waits for that.
func (t *Thread) Other(typ string, body []byte, at time.Time) {
	o := &event.Other{Meta: t.meta(at), Type: typ, Body: body}
	switch {
	case t.skip:
	case t.run != "":
		t.d.Emit(o)
	case t.waits(len(t.others)):
		o.Body = bytes.Clone(body)
		t.others = append(t.others, o)
	}
}

// Over says how the open run ends if no reply follows, and when; with the zero time at the last time seen. Without a
// status it has completed if nothing follows, unless an earlier Over says otherwise.
func (t *Thread) Over(at time.Time, res event.RunResult) {
	if res.Status != "" || t.over.Status == "" {
		res.Status = cmp.Or(res.Status, spans.RunStatusCompleted)
		t.over, t.over.End.Time = res, at
	}
}

// goesOn says that something other than a reply followed: the run has not completed.
func (t *Thread) goesOn() {
	if t.over.Status == spans.RunStatusCompleted {
		t.over = event.RunResult{}
	}
}

// Done reports whether Over said how the open run ends.
func (t *Thread) Done() bool { return t.over.Status != "" }

// Split says that the run which begins next is what a fork adds to the open one, a copy. Both end at once: so the copy
// ends no earlier than the run that it is where its original was not read, and takes its place.
func (t *Thread) Split() {
	if t.run != "" && !t.skip {
		t.close()
		t.flush()
		t.copy, t.prev, t.run = t.run, t.run, ""
	}
}

// End ends the open run; with the zero time as Over says, else at the last time seen, as a bound.
func (t *Thread) End(at time.Time, res event.RunResult) {
	if t.run == "" || t.skip {
		return
	}
	t.close()
	t.flush()
	switch o := t.over; {
	case o.Status != "" && at.IsZero():
		at, res = o.End.Time, o
	case res.Status == "" && res.Error != "":
		res.Status = spans.RunStatusError
	case res.Status == "":
		res.Status, res.Error = cmp.Or(o.Status, spans.RunStatusCompleted), o.Error
	}
	res.End = event.Moment{Time: at}
	if at.IsZero() {
		at, res.End = t.last, event.Bound(t.last)
	}
	t.d.Emit(&event.RunEnded{Meta: t.bounds(at), RunResult: res})
	if t.copy != "" {
		m := t.bounds(at)
		m.Run, t.copy = t.copy, ""
		t.d.Emit(&event.RunEnded{Meta: m, RunResult: res})
	}
	t.prev, t.run, t.over, t.discarded = t.run, "", event.RunResult{}, nil
}

// Cut ends the open run as Over says; one that was cut off is aborted.
func (t *Thread) Cut() { t.End(time.Time{}, event.RunResult{Status: spans.RunStatusAborted}) }

// close ends the open turn.
func (t *Thread) close() {
	if u := t.turn; u != nil {
		u.Output = u.reply()
		t.d.Emit(&event.TurnEnded{Meta: t.meta(u.End.Time), TurnResult: u.TurnResult})
		t.turn = nil
	}
}

// reply returns the reply so far; nil when there is none.
func (u *turn) reply() *event.Message {
	raw, id, blocks := u.Reply, "", u.Blocks
	if u.Said != nil {
		id, blocks = u.ID, slices.Concat(u.Said, blocks)
	}
	if raw == nil && (len(blocks) > 0 || u.Said != nil) {
		raw = input.Members("id", id, "role", "assistant", "content", input.Array(blocks))
	}
	if raw == nil || rawjson.Valid(raw, rawjson.MaxDepth) != nil {
		return nil
	}
	return &event.Message{Raw: raw, Role: "assistant", Time: u.At}
}

// finish reports what is known at the end of an input.
func (t *Thread) finish(ends bool) {
	u := t.turn
	if t.run == "" || t.skip {
		return
	}
	if ends && (t.Done() || t.final()) {
		t.End(time.Time{}, event.RunResult{})
		return
	}
	if ends {
		t.flush()
	}
	if u != nil {
		t.d.Emit(&event.ReplyReceived{Meta: t.meta(u.End.Time), Usage: u.Usage, StopReason: u.StopReason, Model: u.Model,
			Provider: u.Provider, ResponseID: u.ResponseID, Message: *cmp.Or(u.reply(), &event.Message{})})
	}
}
