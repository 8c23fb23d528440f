package phi

import (
	"strconv"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var continuations = map[string]spans.Continuation{
	"": spans.ContinuationInitial, "Initial": spans.ContinuationInitial, "Default": spans.ContinuationDefault,
	"Rerun": spans.ContinuationRerun, "Branch": spans.ContinuationBranch, "Compaction": spans.ContinuationCompaction,
}

func (d *Decoder) agentStart(l *line) []otelagent.Event {
	return d.runStarted(l, "config_snapshot", "", "")
}

// runStarted reads the start of a run, whose configuration has the given key, from an AgentStart or a LoopRecord.
// Session and agent count where it names none.
func (d *Decoder) runStarted(l *line, configKey, session, agent string) []otelagent.Event {
	e := &otelagent.RunStarted{RunInfo: otelagent.RunInfo{
		ID: l.m.Run, Dialect: Dialect, AgentID: l.String("agent_id"), SessionID: l.String("session_id"),
		ParentID: l.String("parent_loop_id"), Metadata: l.Raw("metadata"), Config: l.Raw(configKey),
	}}
	config := l.Object.Object(configKey)
	e.Model, e.Provider = config.String("model"), config.String("provider")
	e.ConfigID, e.API = config.String("config_id"), config.String("api")
	kind, fields := enum(l.Object, "continuation_kind")
	var known bool
	if e.Continuation, known = continuations[kind]; !known {
		e.Continuation = spans.Continuation(kind)
	}
	if e.ContinuationTag = fields.String("tag"); fields.Rest() != nil {
		l.Keep("continuation_kind")
	}
	if l.bad() {
		return nil
	}
	if !l.Has("session_id") {
		e.SessionID = session
	}
	if !l.Has("agent_id") {
		e.AgentID = agent
	}
	if e.SessionID == "" {
		e.SessionID = d.runs.home(l.m.Run)
	}
	r := d.runs.start(l.m.Run, e.SessionID)
	r.begun = true
	if e.API != "" || e.Provider != "" {
		r.fixed, r.rule = e.API != "", d.runs.ruleOf(e.API, e.Provider)
	}
	if e.AgentID == "" {
		e.Agent = d.shell.Settings.Agent
	}
	if e.Provider == "" {
		e.Provider = d.shell.Settings.Provider
	}
	if e.ParentID != "" {
		if s := d.runs.sessionOf(e.ParentID); s != e.SessionID {
			e.ParentSessionID = s
		}
	}
	l.m.Session = e.SessionID
	e.Meta = l.m
	return []otelagent.Event{e}
}

// agentEnd reads the end of a run, from an AgentEnd or a LoopRecord.
func (d *Decoder) agentEnd(l *line) []otelagent.Event {
	e := &otelagent.RunEnded{RunResult: otelagent.RunResult{
		Status: spans.RunStatusCompleted, Rejection: l.String("rejection"), Messages: messagesOf(l.List("messages")),
	}}
	r := d.runs.find(l.m.Run)
	rule := d.runs.ruleOf("", "")
	if r != nil && (r.open || r.fixed) {
		rule = r.rule
	} else {
		for _, msg := range e.Messages {
			if provider := object.Of("", msg.Raw).Raw("provider"); provider != nil {
				rule = d.runs.ruleOf("", word(provider))
			}
		}
	}
	e.Usage = usage(l.Object, "usage", rule)
	if l.bad() {
		return nil
	}
	idle := len(e.Messages) == 0 && (e.Usage == nil || *e.Usage == otelagent.Usage{Rule: rule})
	switch {
	case l.Has("rejection"):
		e.Status, e.Rejected = spans.RunStatusRejected, true
	case (r == nil || !r.open) && idle: // a veto before the loop emits such an end alone
		e.Status = spans.RunStatusVetoed
	}
	l.m.Session = d.runs.home(l.m.Run)
	if r != nil {
		r.close()
	}
	d.runs.endedIn, d.runs.endedRule = l.m.Session, rule
	e.Meta = l.m
	return []otelagent.Event{e}
}

func (d *Decoder) parallelStart(l *line) []otelagent.Event {
	l.Require("loop_ids")
	return d.groupStarted(l, l.String("session_id"), texts(l.Object, "loop_ids", false))
}

func (d *Decoder) groupStarted(l *line, session string, members []string) []otelagent.Event {
	if l.bad() {
		return nil
	}
	if session == "" && len(members) > 0 {
		session = d.runs.home(members[0])
	}
	d.runs.meet(session)
	l.m.Session = session
	return []otelagent.Event{&otelagent.GroupStarted{
		Meta: l.m, GroupInfo: otelagent.GroupInfo{Dialect: Dialect, SessionID: session, Members: members},
	}}
}

func (d *Decoder) parallelEnd(l *line) []otelagent.Event {
	return d.groupEnded(l, l.String("session_id"))
}

// groupEnded reads the end of a parallel group, from a ParallelLoopEnd or a ParallelGroupRecord.
func (d *Decoder) groupEnded(l *line, session string) []otelagent.Event {
	l.Require("selected_loop_id")
	e := &otelagent.GroupEnded{GroupResult: otelagent.GroupResult{
		SelectedID: l.String("selected_loop_id"), SelectedIndex: countOr(l.Object, "selected_config_index", -1),
	}}
	if l.m.Session = session; session == "" {
		l.m.Session = d.runs.home(e.SelectedID)
	}
	rule := d.runs.ruleOf("", "")
	if d.runs.endedIn == l.m.Session && d.runs.endedRule != "" {
		rule = d.runs.endedRule // that of the judge, which ends last
	}
	e.Evaluation = usage(l.Object, "evaluation_usage", rule)
	e.Meta = l.m
	return []otelagent.Event{e}
}

func (d *Decoder) inputRejected(l *line) []otelagent.Event {
	return d.refused(l, l.String("reason"))
}

// refused returns the decision that refuses the input of a run.
func (d *Decoder) refused(l *line, reason string) []otelagent.Event {
	if l.bad() {
		return nil
	}
	d.runs.in(&l.m)
	return []otelagent.Event{denial(l.m, otelagent.PermissionEvaluation{
		Target: spans.PermissionTargetInput, Source: "input_filter", Reason: reason,
	})}
}

// denial returns a decision that follows from another event.
func denial(m otelagent.Meta, p otelagent.PermissionEvaluation) otelagent.Event {
	p.Action, p.Derived = spans.ActionDeny, true
	return &otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p}
}

func (d *Decoder) compactionStarted(l *line) []otelagent.Event {
	e := &otelagent.CompactionStarted{Compaction: otelagent.Compaction{
		Kind:           spans.CompactionKindSummary,
		MessagesBefore: countOr(l.Object, "message_count", -1),
		InputTokens:    countOr(l.Object, "estimated_tokens", -1),
	}}
	if l.bad() {
		return nil
	}
	d.runs.opened(&l.m)
	e.Meta = l.m
	return []otelagent.Event{e}
}

// newCompaction returns the end of a compaction of which only the kind is known.
func newCompaction(kind spans.CompactionKind) *otelagent.CompactionEnded {
	return &otelagent.CompactionEnded{
		Compaction: otelagent.Compaction{Kind: kind, MessagesBefore: -1, InputTokens: -1},
		CompactionResult: otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1,
			MessagesSummarized: -1, TokensGone: -1, Runs: -1},
	}
}

// compacted places the end of a compaction in its run.
func (d *Decoder) compacted(l *line, e *otelagent.CompactionEnded) []otelagent.Event {
	if l.bad() {
		return nil
	}
	d.runs.in(&l.m)
	e.Meta = l.m
	return []otelagent.Event{e}
}

func (d *Decoder) compactionEnded(l *line) []otelagent.Event {
	e := newCompaction(spans.CompactionKindSummary)
	r := &e.CompactionResult
	r.MessagesBefore = countOr(l.Object, "messages_before", -1)
	r.MessagesAfter = countOr(l.Object, "messages_after", -1)
	r.InputTokens = countOr(l.Object, "estimated_tokens_before", -1)
	r.OutputTokens = countOr(l.Object, "estimated_tokens_after", -1)
	r.Runs = countOr(l.Object, "loops_compacted", -1)
	e.Compaction.MessagesBefore, e.Compaction.InputTokens = r.MessagesBefore, r.InputTokens
	return d.compacted(l, e)
}

func (d *Decoder) prunApplied(l *line) []otelagent.Event {
	e := newCompaction(spans.CompactionKindPrune)
	e.TokensGone = countOr(l.Object, "tokens_removed", -1)
	e.MessagesSummarized = countOr(l.Object, "messages_removed", -1)
	e.Removed, e.Summary = texts(l.Object, "pruned_timestamps", true), l.Raw("memo")
	return d.compacted(l, e)
}

func (d *Decoder) revertApplied(l *line) []otelagent.Event {
	e := newCompaction(spans.CompactionKindRevert)
	var fields *object.Object
	if e.Category, fields = enum(l.Object, "category"); fields != nil {
		l.Keep("category")
	}
	if n := l.Count("target"); n != nil {
		e.Target = strconv.FormatInt(*n, 10)
	}
	e.Removed, e.Summary = texts(l.Object, "abandoned_node_ids", true), l.Raw("summary")
	e.Applied, e.Reason = l.Bool("applied"), l.String("reason")
	return d.compacted(l, e)
}
