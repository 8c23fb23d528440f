package guide

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// This file gives back the runs and turns that otelagent wrote beside the rows, under the key otelagent of metadata_json.

// extension is that key: of a message of the assistant its run and turns, of one of user or system its run and turn.
type extension struct {
	run        ownInfo
	turn       int64 // noTurn when the message stands outside turns
	envelope   []byte
	turns      []ownTurn
	compaction *ownCompaction
}

// noTurn is the turn of what belongs to none.
const noTurn = -1

// ownInfo is a run. Times are unix nanoseconds; zero is not known.
type ownInfo struct {
	ID               string          `json:"id"`
	Start            int64           `json:"start"`
	End              int64           `json:"end"`
	Known            string          `json:"known"`
	Status           string          `json:"status"`
	Word             string          `json:"word"`
	Rejected         bool            `json:"rejected"`
	Rejection        string          `json:"rejection"`
	Error            string          `json:"error"`
	ParentID         string          `json:"parent_id"`
	ParentSessionID  string          `json:"parent_session_id"`
	ParentToolCallID string          `json:"parent_tool_call_id"`
	ForkParentID     string          `json:"fork_parent_id"`
	Continuation     string          `json:"continuation"`
	Tag              string          `json:"tag"`
	Dialect          string          `json:"dialect"`
	Agent            string          `json:"agent"`
	AgentID          string          `json:"agent_id"`
	Model            string          `json:"model"`
	Provider         string          `json:"provider"`
	ConfigID         string          `json:"config_id"`
	API              string          `json:"api"`
	Config           json.RawMessage `json:"config"`
	Metadata         json.RawMessage `json:"metadata"`
	Rules            json.RawMessage `json:"rules"`
	Usage            *ownUsage       `json:"usage"`
	Copied           bool            `json:"copied"`
	GroupStart       int64           `json:"group_start"`
	GroupRole        string          `json:"group_role"`
}

// ownTurn is a turn; steps are the parts of it, from up to to. Parameters and digests of its request stay in the row: without the
// request there is no event that could tell them.
type ownTurn struct {
	Index        int64     `json:"index"`
	Start        int64     `json:"start"`
	End          int64     `json:"end"`
	Known        string    `json:"known"`
	Trigger      string    `json:"trigger"`
	Model        string    `json:"model"`
	Answered     string    `json:"answered_model"`
	Provider     string    `json:"provider"`
	Variant      string    `json:"variant"`
	StopReason   string    `json:"stop_reason"`
	Failed       bool      `json:"failed"`
	Error        string    `json:"error"`
	Usage        *ownUsage `json:"usage"`
	Discarded    *counts   `json:"discarded"`
	Discards     int64     `json:"discarded_attempts"`
	Cost         *float64  `json:"cost"`
	Currency     string    `json:"currency"`
	ModelCallNS  int64     `json:"model_call_ns"`
	FirstChunkNS int64     `json:"first_chunk_ns"`
	ResponseID   string    `json:"response_id"`
	Temperature  *float64  `json:"temperature"`
	MaxTokens    *int64    `json:"max_tokens"`
	Level        string    `json:"reasoning_level"`
	Format       string    `json:"format"`
	Attempts     int64     `json:"attempts"`
	Steps        [2]int    `json:"steps"`
	Calls        []ownCall `json:"calls"`

	byID map[string][]int // calls that were not told, by id; made when one is asked for
}

// ownCall is what the part of a tool call does not say.
type ownCall struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Start          int64  `json:"start"`
	End            int64  `json:"end"`
	Outcome        string `json:"outcome"`
	Truncated      *bool  `json:"truncated"`
	ChildRunID     string `json:"child_run_id"`
	ChildSessionID string `json:"child_session_id"`
}

// callOf returns what is said of the next call of that id; nil when nothing is.
func (t *ownTurn) callOf(id, name string) *ownCall {
	if t == nil {
		return nil
	}
	if t.byID == nil {
		t.byID = make(map[string][]int, len(t.Calls))
		for i := range t.Calls {
			t.byID[t.Calls[i].ID] = append(t.byID[t.Calls[i].ID], i)
		}
	}
	rest := t.byID[id]
	for k, i := range rest[:min(len(rest), maxSameID)] {
		if c := &t.Calls[i]; c.Name == name || c.Name == "" {
			copy(rest[1:k+1], rest[:k])
			t.byID[id] = rest[1:]
			return c
		}
	}
	return nil
}

// maxSameID bounds the calls of one id among which one of a name is looked for.
const maxSameID = 64

// ownCompaction is what the part of a compaction does not say; nil counts are not known.
type ownCompaction struct {
	Kind               string `json:"kind"`
	Start              int64  `json:"start"`
	End                int64  `json:"end"`
	MessagesBefore     *int64 `json:"messages_before"`
	MessagesAfter      *int64 `json:"messages_after"`
	MessagesSummarized *int64 `json:"messages_summarized"`
	InputTokens        *int64 `json:"input_tokens"`
	OutputTokens       *int64 `json:"output_tokens"`
	RemovedTokens      *int64 `json:"removed_tokens"`
	Trigger            string `json:"trigger"`
	Reason             string `json:"reason"`
}

// tell puts what is said into an event.
func (c *ownCompaction) tell(ev *otelagent.CompactionEnded) {
	if c == nil {
		return
	}
	if string(ev.Summary) == `""` { // the guide has no other word for none
		ev.Summary = nil
	}
	known := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	if c.Start > 0 {
		ev.Compaction.Start, ev.CompactionResult.End = exactly(c.Start), exactly(c.End)
		ev.Time = nanos(c.Start)
	}
	if c.Kind != "" {
		ev.Kind = spans.CompactionKind(c.Kind)
	}
	ev.Trigger, ev.Reason = c.Trigger, c.Reason
	ev.CompactionResult.MessagesBefore, ev.CompactionResult.MessagesAfter = known(c.MessagesBefore), known(c.MessagesAfter)
	ev.CompactionResult.InputTokens, ev.OutputTokens = known(c.InputTokens), known(c.OutputTokens)
	ev.MessagesSummarized, ev.TokensGone = known(c.MessagesSummarized), known(c.RemovedTokens)
}

// ownUsage is usage as it was reported, and the rule that normalises it.
type ownUsage struct {
	Reported counts `json:"reported"`
	Rule     string `json:"rule"`
}

type counts struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Total      int64 `json:"total"`
}

func (u *ownUsage) usage() *otelagent.Usage {
	if u == nil {
		return nil
	}
	return u.Reported.usage(spans.UsageRule(u.Rule))
}

func (c *counts) usage(rule spans.UsageRule) *otelagent.Usage {
	return &otelagent.Usage{Input: c.Input, Output: c.Output, Reasoning: c.Reasoning, CacheRead: c.CacheRead, CacheWrite: c.CacheWrite,
		Total: c.Total, Rule: rule}
}

// extensionOf reads the key otelagent of metadata; nil when it is not as we write it.
func (c *columns) extensionOf(object []byte) *extension {
	var in struct {
		Run        ownInfo         `json:"run"`
		Turn       *int64          `json:"turn"`
		Envelope   json.RawMessage `json:"envelope"`
		Turns      []ownTurn       `json:"turns"`
		Compaction *ownCompaction  `json:"compaction"`
	}
	if err := json.Unmarshal(object, &in); err != nil {
		field := "metadata.otelagent"
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) && typ.Field != "" {
			field += "." + typ.Field
		}
		c.d.reject(c.typ, field, "not as otelagent writes it")
		return nil
	}
	e := &extension{run: in.Run, turn: noTurn, envelope: in.Envelope, turns: in.Turns, compaction: in.Compaction}
	if in.Turn != nil {
		e.turn = *in.Turn
	}
	return e
}

// ownRun is a run of ours while it is told.
type ownRun struct {
	run
	info    ownInfo
	started bool
	waiting []*message // of user and system
	turns   int64      // behind the last that was told
}

// ownRuns are the runs of ours that have not ended, by their first row.
type ownRuns []*ownRun

// maxDiscards bounds the discarded attempts of a turn that are told.
const maxDiscards = 64

// maxOwnRuns bounds them: further ones end the oldest.
const maxOwnRuns = 256

// find returns the run that a message names.
func (rs *ownRuns) find(d *Decoder, m *message) *ownRun {
	info := m.meta.own.run
	for _, r := range *rs {
		if r.id == info.ID && r.info.Start == info.Start {
			return r
		}
	}
	*rs = slices.DeleteFunc(*rs, func(r *ownRun) bool { // a loop that uses an id again has ended the run that had it
		again := r.id == info.ID
		if again {
			d.endOwn(r)
		}
		return again
	})
	if len(*rs) == maxOwnRuns {
		d.endOwn((*rs)[0])
		*rs = (*rs)[1:]
	}
	r := &ownRun{run: run{id: info.ID, session: d.session.id, start: nanos(info.Start), seq: m.seq}, info: info}
	*rs = append(*rs, r)
	return r
}

// endBefore ends the runs that were over before t: rows stand in the order of created_at, so nothing of them can follow.
func (rs *ownRuns) endBefore(d *Decoder, t time.Time) {
	*rs = slices.DeleteFunc(*rs, func(r *ownRun) bool {
		over := r.info.End > 0 && t.UnixMilli() > r.info.End/1e6
		if over {
			d.endOwn(r)
		}
		return over
	})
}

func (rs *ownRuns) endAll(d *Decoder) {
	for _, r := range *rs {
		d.endOwn(r)
	}
	*rs = nil
}

func nanos(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func exactly(ns int64) otelagent.Moment { return otelagent.Moment{Time: nanos(ns)} }

// ownMessage takes a message that says which run of ours it belongs to.
func (d *Decoder) ownMessage(m *message) {
	r := d.runs.find(d, m)
	if info := m.meta.own.run; info.Status != "" { // all that is known of the run
		r.info = info
	}
	if m.role != "assistant" {
		if len(r.waiting) == maxStretch || d.waiting > d.settings.MaxLine {
			d.startOwn(r)
			d.leftOver(r)
		}
		r.waiting = append(r.waiting, m)
		d.waiting += m.bytes()
		return
	}
	d.startOwn(r)
	turns, rest := m.meta.own.turns, 0 // parts from rest on were not told
	for i := range turns {
		t := &turns[i]
		from := min(max(t.Steps[0], rest), len(m.parts)) // turns do not share parts
		to := min(max(t.Steps[1], from), len(m.parts))
		d.tellParts(&r.run, m, m.parts[rest:from], nil)
		d.tellTurn(r, m, t, m.parts[from:to])
		rest = to
	}
	d.tellParts(&r.run, m, m.parts[rest:], nil) // a compaction, or calls outside any turn
	if len(m.parts) == 0 {
		d.tellLines(m, 0, m.all())
	}
}

// startOwn tells that the run starts, once.
func (d *Decoder) startOwn(r *ownRun) {
	if r.started {
		return
	}
	r.started = true
	in, s := &r.info, d.session
	info := otelagent.RunInfo{SessionID: s.id, ID: in.ID, Agent: in.Agent, AgentID: in.AgentID, Model: in.Model, Provider: in.Provider,
		Dialect: in.Dialect, Start: exactly(in.Start), ParentID: in.ParentID, ParentSessionID: in.ParentSessionID,
		ParentToolCallID: in.ParentToolCallID, ForkParentID: in.ForkParentID, Continuation: spans.Continuation(in.Continuation),
		ContinuationTag: in.Tag, ConfigID: in.ConfigID, API: in.API, Config: in.Config, Metadata: in.Metadata, Rules: in.Rules,
		GroupStart: nanos(in.GroupStart), GroupRole: spans.GroupRole(in.GroupRole), Recording: spans.RecordingLedger, Copied: in.Copied}
	if in.Status == "" { // no row that says all of the run is there yet
		info.Agent, info.Model, info.Provider, info.Rules = s.agent, s.model.id, s.model.provider, s.rulesAt(r.start)
	}
	d.emit(&otelagent.RunStarted{Meta: r.meta(r.start, r.seq), RunInfo: info})
}

// tellTurn tells of one turn of ours: the messages that waited for it, its parts, its end.
func (d *Decoder) tellTurn(r *ownRun, m *message, t *ownTurn, parts []*part) {
	d.outsideTurns(r)
	r.turns = max(r.turns, t.Index+1)
	seq := m.seq
	if len(parts) > 0 {
		seq = parts[0].seq
	}
	d.emit(&otelagent.TurnStarted{Meta: r.meta(nanos(t.Start), seq), TurnInfo: otelagent.TurnInfo{Index: t.Index,
		Trigger: spans.Trigger(t.Trigger), Model: t.Model, Provider: t.Provider, Variant: t.Variant, Start: exactly(t.Start)}})
	if t.Temperature != nil || t.MaxTokens != nil || t.Level != "" || t.Format != "" || t.Attempts > 1 { // what was asked for, without the request
		d.emit(&otelagent.RequestPrepared{Meta: r.meta(nanos(t.Start), seq), Request: otelagent.Request{At: otelagent.Moment{Time: nanos(t.Start), Source: spans.TimeSourceBound},
			Attempt: int(min(max(t.Attempts, 1), maxDiscards)) - 1, Model: t.Model, Level: t.Level, Format: t.Format,
			MaxTokens: t.MaxTokens, Temperature: t.Temperature}})
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(w *message) bool {
		if w.meta.own.turn != t.Index {
			return false
		}
		d.tellOwnMessage(r, w)
		return true
	})
	for n := range min(t.Discards, maxDiscards) {
		attempt := otelagent.DiscardedAttempt{At: exactly(t.Start), Attempt: int(n)}
		if n == 0 && t.Discarded != nil { // the sum of all, normalised
			attempt.Usage = t.Discarded.usage(spans.UsageRuleIncludesCache)
		}
		d.emit(&otelagent.AttemptDiscarded{Meta: r.meta(nanos(t.Start), m.seq), DiscardedAttempt: attempt})
	}
	d.tellParts(&r.run, m, parts, t)
	r.seq = m.endSeq(parts)
	if t.Known == string(spans.KnownClosed) { // it had no end
		return
	}
	res := otelagent.TurnResult{End: exactly(t.End), Model: t.Answered, StopReason: t.StopReason, Failed: t.Failed, Error: t.Error,
		Usage: t.Usage.usage(), Cost: t.Cost, Currency: t.Currency, ModelCall: time.Duration(t.ModelCallNS),
		FirstChunk: time.Duration(t.FirstChunkNS), ResponseID: t.ResponseID}
	if len(parts) > 0 {
		res.Output = m.output(parts)
	}
	d.emit(&otelagent.TurnEnded{Meta: r.meta(nanos(t.End), r.seq), TurnResult: res})
}

// outsideTurns tells of the messages that waited and belong to no turn.
func (d *Decoder) outsideTurns(r *ownRun) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *message) bool {
		if w.meta.own.turn != noTurn {
			return false
		}
		d.tellOwnMessage(r, w)
		return true
	})
}

func (d *Decoder) tellOwnMessage(r *ownRun, m *message) {
	d.waiting -= m.bytes()
	msg := m.message(m.parts)
	m.meta.own.wrap(&msg)
	d.emit(&otelagent.MessageAdded{Meta: r.meta(m.created, m.seq), Message: msg})
	d.tellLines(m, 0, m.all())
}

// wrap puts what its source had around a message back around it.
func (e *extension) wrap(msg *otelagent.Message) {
	c := rawjson.NewCursor(e.envelope, maxDepth)
	if e.envelope == nil || !c.Open('{') {
		return
	}
	raw := msg.Raw[:len(msg.Raw)-1]
	for c.More('}') {
		key := string(c.Key())
		value := c.Value()
		switch key {
		case "id", "createdAt", "role", "parts": // it has them
			continue
		}
		raw = append(append(rawjson.Quote(append(raw, ','), key), ':'), value...)
	}
	msg.Raw = append(raw, '}')
}

// leftOver tells of the messages that still wait: in turns of which there is nothing else, or in none.
func (d *Decoder) leftOver(r *ownRun) {
	d.outsideTurns(r)
	for len(r.waiting) > 0 {
		w := r.waiting[0]
		if t := w.meta.own.turn; t >= r.turns {
			r.turns = t + 1
			d.emit(&otelagent.TurnStarted{Meta: r.meta(w.created, w.seq), TurnInfo: otelagent.TurnInfo{Index: t, Start: bound(w.created)}})
		}
		d.tellOwnMessage(r, w)
		r.waiting = r.waiting[1:]
	}
}

// endOwn tells the end of a run of ours, if it had one.
func (d *Decoder) endOwn(r *ownRun) {
	d.startOwn(r)
	d.leftOver(r)
	if r.info.End == 0 || r.info.Known == string(spans.KnownClosed) { // it had none
		return
	}
	in := &r.info
	d.emit(&otelagent.RunEnded{Meta: r.meta(nanos(in.End), r.seq), RunResult: otelagent.RunResult{End: exactly(in.End),
		Status: spans.RunStatus(in.Status), Word: in.Word, Rejected: in.Rejected, Rejection: in.Rejection, Error: in.Error,
		Usage: in.Usage.usage()}})
}
