package phi

import (
	"cmp"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/spans"
)

var continuations = map[string]spans.Continuation{
	"": spans.ContinuationInitial, "Initial": spans.ContinuationInitial, "Default": spans.ContinuationDefault,
	"Rerun": spans.ContinuationRerun, "Branch": spans.ContinuationBranch, "Compaction": spans.ContinuationCompaction,
}

func (d *Decoder) agentStart(l *line) {
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
		return
	}
	e.SessionID = cmp.Or(e.SessionID, d.runs.home(l.m.Run))
	r := d.runs.start(l.m.Run, e.SessionID)
	r.begun = true
	if e.API != "" || e.Provider != "" {
		r.fixed, r.rule = e.API != "", d.runs.ruleOf(e.API, e.Provider)
	}
	if s := d.runs.sessionOf(e.ParentID, ""); e.ParentID != "" && s != e.SessionID {
		e.ParentSessionID = s
	}
	l.m.Session = e.SessionID
	e.Meta = l.m
	l.add(e)
}

// denial returns a decision that follows from another event.
func denial(m event.Meta, p event.PermissionEvaluation) event.Event {
	p.Action, p.Derived = spans.ActionDeny, true
	return &event.PermissionEvaluated{Meta: m, PermissionEvaluation: p}
}

// newCompaction returns the end of a compaction of which only the kind is known.
func newCompaction(m event.Meta, kind spans.CompactionKind) *event.CompactionEnded {
	return &event.CompactionEnded{Meta: m, Compaction: event.Compaction{Kind: kind}}
}
