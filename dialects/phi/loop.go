package phi

import (
	"cmp"
	"strconv"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/spans"
)

var continuations = map[string]spans.Continuation{
	"": spans.ContinuationInitial, "Initial": spans.ContinuationInitial, "Default": spans.ContinuationDefault,
	"Rerun": spans.ContinuationRerun, "Branch": spans.ContinuationBranch, "Compaction": spans.ContinuationCompaction,
}

func (d *Decoder) agentStart(l *line) []event.Event {
	e := &event.RunStarted{RunInfo: event.RunInfo{
		ID: l.m.Run, Dialect: Dialect, AgentID: l.String("agent_id"), SessionID: l.String("session_id"),
		ParentID: l.String("parent_loop_id"), Metadata: l.Raw("metadata"), Config: l.Raw("config_snapshot"),
	}}
	config := l.Object.Object("config_snapshot")
	e.Model, e.Provider = config.String("model"), config.String("provider")
	e.ConfigID, e.API = config.String("config_id"), config.String("api")
	kind, fields := enum(l.Object, "continuation_kind")
	e.Continuation = cmp.Or(continuations[kind], spans.Continuation(kind))
	if e.ContinuationTag = fields.String("tag"); fields.Rest() != nil {
		l.Keep("continuation_kind")
	}
	if l.Failed() > 0 { // an open run of this id goes on
		return nil
	}
	e.SessionID = cmp.Or(e.SessionID, d.runs.home(l.m.Run))
	r := d.runs.start(l.m.Run, e.SessionID)
	r.begun = true
	if e.API != "" || e.Provider != "" {
		r.fixed, r.rule = e.API != "", d.runs.ruleOf(e.API, e.Provider)
	}
	if e.AgentID == "" {
		e.Agent = d.Settings.Agent
	}
	e.Provider = cmp.Or(e.Provider, d.Settings.Provider)
	if s := d.runs.sessionOf(e.ParentID, ""); e.ParentID != "" && s != e.SessionID {
		e.ParentSessionID = s
	}
	l.m.Session = e.SessionID
	e.Meta = l.m
	return []event.Event{e}
}

func (d *Decoder) agentEnd(l *line) []event.Event {
	e := &event.RunEnded{RunResult: event.RunResult{
		Status: spans.RunStatusCompleted, Rejection: l.String("rejection"), Messages: messagesOf(l.List("messages")),
	}}
	r := d.runs.byID[l.m.Run]
	rule := d.runs.ruleOf("", "")
	if r != nil && (r.open || r.fixed) {
		rule = r.rule
	}
	e.Usage = usageKeys.Read(l.Object.Object("usage"), rule)
	idle := len(e.Messages) == 0 && (e.Usage == nil || *e.Usage == event.Usage{Rule: rule})
	switch {
	case l.Has("rejection"):
		e.Status, e.Rejected = spans.RunStatusRejected, true
	case (r == nil || !r.open) && idle: // a veto before the loop emits such an end alone
		e.Status = spans.RunStatusVetoed
	}
	l.m.Session = d.runs.home(l.m.Run)
	if r != nil && l.Failed() == 0 {
		r.close()
	}
	d.runs.endedIn, d.runs.endedRule = l.m.Session, rule
	e.Meta = l.m
	return []event.Event{e}
}

func (d *Decoder) groupStart(l *line) []event.Event {
	l.Require("loop_ids")
	members, session := texts(l.Object, "loop_ids", false), l.String("session_id")
	if session == "" && len(members) > 0 {
		session = d.runs.home(members[0])
	}
	d.runs.meet(session)
	l.m.Session = session
	return []event.Event{&event.GroupStarted{
		Meta: l.m, GroupInfo: event.GroupInfo{Dialect: Dialect, SessionID: session, Members: members},
	}}
}

func (d *Decoder) groupEnd(l *line) []event.Event {
	l.Require("selected_loop_id")
	e := &event.GroupEnded{GroupResult: event.GroupResult{
		SelectedID: l.String("selected_loop_id"), SelectedIndex: l.Count("selected_config_index"),
	}}
	if l.m.Session = l.String("session_id"); l.m.Session == "" {
		l.m.Session = d.runs.home(e.SelectedID)
	}
	rule := d.runs.ruleOf("", "")
	if d.runs.endedIn == l.m.Session && d.runs.endedRule != "" {
		rule = d.runs.endedRule // that of the judge, which ends last
	}
	e.Evaluation = usageKeys.Read(l.Object.Object("evaluation_usage"), rule)
	e.Meta = l.m
	return []event.Event{e}
}

// inputRejected reads the decision that refuses the input of a run.
func (d *Decoder) inputRejected(l *line) []event.Event {
	return []event.Event{denial(l.m, event.PermissionEvaluation{
		Target: spans.PermissionTargetInput, Source: "input_filter", Reason: l.String("reason"),
	})}
}

// denial returns a decision that follows from another event.
func denial(m event.Meta, p event.PermissionEvaluation) event.Event {
	p.Action, p.Derived = spans.ActionDeny, true
	return &event.PermissionEvaluated{Meta: m, PermissionEvaluation: p}
}

func (d *Decoder) compactionStarted(l *line) []event.Event {
	return []event.Event{&event.CompactionStarted{Meta: l.m, Compaction: event.Compaction{
		Kind:           spans.CompactionKindSummary,
		MessagesBefore: l.Count("message_count"),
		InputTokens:    l.Count("estimated_tokens"),
	}}}
}

// newCompaction returns the end of a compaction of which only the kind is known.
func newCompaction(m event.Meta, kind spans.CompactionKind) *event.CompactionEnded {
	return &event.CompactionEnded{Meta: m, Compaction: event.Compaction{Kind: kind}}
}

func (d *Decoder) compactionEnded(l *line) []event.Event {
	e := newCompaction(l.m, spans.CompactionKindSummary)
	r := &e.CompactionResult
	r.MessagesBefore, r.MessagesAfter = l.Count("messages_before"), l.Count("messages_after")
	r.InputTokens = l.Count("estimated_tokens_before")
	r.OutputTokens = l.Count("estimated_tokens_after")
	r.Runs = l.Count("loops_compacted")
	e.Compaction.MessagesBefore, e.Compaction.InputTokens = r.MessagesBefore, r.InputTokens
	return []event.Event{e}
}

func (d *Decoder) prunApplied(l *line) []event.Event {
	e := newCompaction(l.m, spans.CompactionKindPrune)
	e.TokensGone, e.MessagesSummarized = l.Count("tokens_removed"), l.Count("messages_removed")
	e.Removed, e.Summary = texts(l.Object, "pruned_timestamps", true), l.Raw("memo")
	return []event.Event{e}
}

func (d *Decoder) revertApplied(l *line) []event.Event {
	e := newCompaction(l.m, spans.CompactionKindRevert)
	e.Category = plainEnum(l.Object, "category")
	if n := l.Count("target"); n != nil {
		e.Target = strconv.FormatInt(*n, 10)
	}
	e.Removed, e.Summary = texts(l.Object, "abandoned_node_ids", true), l.Raw("summary")
	e.Applied, e.Reason = l.Bool("applied"), l.String("reason")
	return []event.Event{e}
}
