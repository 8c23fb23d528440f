package phi

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// line is one AgentEvent.
type line struct {
	*object.Object
	name   string // its variant
	raw    []byte // as it is spelled
	m      event.Meta
	run    *run          // that the event is of; nil where its reader looks for it
	events []event.Event // that it gives
}

func (l *line) add(events ...event.Event) { l.events = append(l.events, events...) }

// What is known of a variant of AgentEvent before it is read.
const (
	untimed = 1 << iota // it has no timestamp
	noLoop              // it has no loop id
	looks               // its reader looks for its run
	begins              // after the end of a run, another one of that id begins with it
	ends                // it ends a span: unknown keys are kept on that span, so they go before its events
)

var variants = map[string]int{
	"AgentStart":          looks,
	"AgentEnd":            looks | ends,
	"TurnStart":           begins,
	"TurnRequest":         begins,
	"TurnEnd":             ends,
	"MessageStart":        untimed,
	"MessageUpdate":       untimed,
	"MessageEnd":          untimed,
	"ToolExecutionStart":  untimed | begins,
	"ToolExecutionUpdate": untimed,
	"ProgressMessage":     untimed,
	"ToolExecutionEnd":    untimed | ends,
	"InputRejected":       untimed,
	"ParallelLoopStart":   noLoop,
	"ParallelLoopEnd":     noLoop | ends,
	"CompactionStarted":   begins,
	"CompactionEnded":     ends,
	"PrunApplied":         ends,
	"RevertApplied":       ends,
}

// event reads one AgentEvent, which is spelled raw. Stamp is the time that is stated around it.
func (d *Decoder) event(o *object.Object, raw []byte, stamp time.Time) {
	if at := input.Time(o.Raw(input.Key)); !at.IsZero() {
		stamp = at
	} else {
		o.Keep(input.Key)
	}
	o.Require("type")
	l := &line{Object: o, name: o.String("type"), raw: raw, m: d.meta()}
	v, known := variants[l.name]
	if !known {
		if d.RejectProblems("", o) {
			return
		}
		d.Counts.Events++
		o = object.Of("", l.raw) // whatever its members are, they are no problem
		l.m.Run, l.m.Session, l.m.Time = o.String("loop_id"), o.String("session_id"), o.Time("timestamp")
		l.m.Time = cmp.Or(stamp, l.m.Time)
		if l.m.Run != "" && (l.m.Session == "" || d.runs.byID[l.m.Run] != nil) {
			l.m.Session = d.runs.home(l.m.Run)
		}
		d.Other(l.m, l.name, l.raw)
		return
	}
	if once(o); v&noLoop == 0 && o.Require("loop_id") {
		if l.m.Run = o.String("loop_id"); l.m.Run == "" && l.name != "ProgressMessage" {
			o.Fail("loop_id", "want a string that is not empty")
		}
	}
	if v&untimed == 0 {
		l.m.Time = o.Time("timestamp")
	}
	l.m.Time = cmp.Or(stamp, l.m.Time)
	if o.Failed() > 0 { // its other problems are found all the same
		l.run = new(run)
	} else if v&looks == 0 && l.m.Run != "" {
		if l.run = d.runs.in(&l.m); v&begins != 0 && !l.run.open {
			l.run = d.runs.start(l.m.Run, l.run.session)
		}
	}
	if d.read(l); d.RejectProblems(l.name, o) {
		return
	}
	d.Counts.Events++
	rest := l.Rest()
	if rest != nil && l.name == "MessageUpdate" { // one more event for each piece of a reply would be too many
		rest = nil
	}
	if v&ends != 0 {
		d.Other(l.m, l.name+input.UnknownKeys, rest)
		rest = nil
	}
	d.emit(l.events...)
	d.Other(l.m, l.name+input.UnknownKeys, rest)
}

// read reads the members that the variant of l has, and adds the events that it gives.
func (d *Decoder) read(l *line) {
	switch l.name {
	case "AgentStart":
		d.agentStart(l)
	case "AgentEnd":
		e := &event.RunEnded{RunResult: event.RunResult{
			Status: spans.RunStatusCompleted, Rejection: l.String("rejection"), Messages: input.Messages(l.List("messages")),
		}}
		r := d.runs.byID[l.m.Run]
		rule := d.runs.ruleOf("", "")
		if r != nil {
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
			d.runs.ended = r
		}
		e.Meta = l.m
		l.add(e)
	case "TurnStart":
		kind, e := plainEnum(l.Object, "triggered_by"), &event.TurnStarted{Meta: l.m}
		e.Index, e.Trigger = l.Count("turn_index"), cmp.Or(triggers[kind], spans.Trigger(kind))
		if l.Failed() == 0 {
			l.run.inTurn, l.run.turn, l.run.calls = true, e.Index, map[string]*call{}
		}
		if !l.run.begun {
			e.Provider = d.Settings.Provider
		}
		l.add(e)
	case "TurnRequest":
		index := l.Count("turn_index")
		l.Require("payload")
		e := &event.RequestPrepared{Meta: l.m, Request: payload(l.Object)}
		switch {
		case l.Failed() > 0:
		case index == nil:
		case !l.run.inTurn: // a turn whose start was not read: it started before
			l.run.inTurn, l.run.turn, l.run.calls = true, index, map[string]*call{}
			l.add(&event.TurnStarted{Meta: l.m, TurnInfo: event.TurnInfo{Index: index, Start: event.Bound(l.m.Time)}})
		case l.run.turn == nil || *index != *l.run.turn:
			l.Keep("turn_index")
		}
		l.add(e)
	case "TurnEnd":
		l.Object.Object("message")
		reply := messageOf(l.Raw("message"))
		e := &event.TurnEnded{Meta: l.m, TurnResult: event.TurnResult{
			Model: reply.o.Text("model"), Provider: reply.provider(), StopReason: reply.o.Text("stopReason"),
			Error: reply.o.Text("error_message"), Results: input.Messages(l.List("tool_results")),
		}}
		rule := d.runs.replyRule(l.run, e.Provider)
		if e.Usage = usageKeys.Read(l.Object.Object("usage"), rule); !l.Has("usage") {
			e.Usage = reply.usage(rule)
		}
		aborted := e.StopReason == "aborted"
		e.Failed = aborted || e.StopReason == "error"
		e.Cancelled = aborted || e.Failed && e.Error == textCancelled
		if reply.Raw != nil {
			e.Output = &reply.Message
		}
		if l.Failed() == 0 {
			l.run.rule, l.run.inTurn, l.run.calls = rule, false, nil
		}
		l.add(e)
	case "MessageStart": // MessageEnd has the whole message
		l.Use("message")
	case "MessageUpdate":
		l.Use("message")
		e := &event.ReplyDelta{Meta: l.m}
		for kind, fields := range object.Of("", l.Raw("delta")).All() {
			if text := object.Of("", fields).Raw("delta"); text != nil && text[0] == '"' {
				e.Kind, e.Text = cmp.Or(pieces[kind], event.PartialText), text
			}
			break
		}
		l.add(e)
	case "MessageEnd":
		d.messageEnd(l)
	case "ToolExecutionStart":
		l.Require("tool_call_id")
		call := event.ToolCall{ID: l.String("tool_call_id"), Name: l.String("tool_name"), Args: l.Spelled("args")}
		if l.run.inTurn && call.ID != "" {
			c := l.run.call(call.ID)
			c.started, c.null = true, len(call.Args) > 0 && call.Args[0] == 'n'
		}
		l.add(&event.ToolStarted{Meta: l.m, ToolCall: call})
	case "ToolExecutionUpdate", "ProgressMessage":
		l.Require("tool_call_id")
		e := &event.ToolProgressed{Meta: l.m, CallID: l.String("tool_call_id"), Name: l.String("tool_name"), Type: l.name,
			Body: l.raw}
		if l.Use(l.Keys()...); l.m.Run != "" { // the body has them all
			l.add(e)
		} else { // the warning of a judge
			l.add(&event.Other{Meta: l.m, Type: l.name, Body: l.raw})
		}
	case "ToolExecutionEnd":
		d.toolEnd(l)
	case "InputRejected":
		l.add(denial(l.m, event.PermissionEvaluation{Target: spans.PermissionTargetInput, Source: "input_filter",
			Reason: l.String("reason")}))
	case "ParallelLoopStart":
		l.Require("loop_ids")
		members := texts(l.Object, "loop_ids", false)
		if l.m.Session = l.String("session_id"); l.m.Session == "" && len(members) > 0 {
			l.m.Session = d.runs.home(members[0])
		}
		d.runs.meet(l.m.Session)
		l.add(&event.GroupStarted{Meta: l.m,
			GroupInfo: event.GroupInfo{Dialect: Dialect, SessionID: l.m.Session, Members: members}})
	case "ParallelLoopEnd":
		l.Require("selected_loop_id")
		e := &event.GroupEnded{GroupResult: event.GroupResult{
			SelectedID: l.String("selected_loop_id"), SelectedIndex: l.Count("selected_config_index"),
		}}
		l.m.Session = cmp.Or(l.String("session_id"), d.runs.home(e.SelectedID))
		rule := d.runs.ruleOf("", "")
		if judge := d.runs.ended; judge != nil && judge.session == l.m.Session { // it ends last
			rule = judge.rule
		}
		e.Evaluation, e.Meta = usageKeys.Read(l.Object.Object("evaluation_usage"), rule), l.m
		l.add(e)
	case "CompactionStarted":
		l.add(&event.CompactionStarted{Meta: l.m, Compaction: event.Compaction{Kind: spans.CompactionKindSummary,
			MessagesBefore: l.Count("message_count"), InputTokens: l.Count("estimated_tokens")}})
	case "CompactionEnded":
		e := newCompaction(l.m, spans.CompactionKindSummary)
		r := &e.CompactionResult
		r.MessagesBefore, r.MessagesAfter = l.Count("messages_before"), l.Count("messages_after")
		r.InputTokens = l.Count("estimated_tokens_before")
		r.OutputTokens = l.Count("estimated_tokens_after")
		r.Runs = l.Count("loops_compacted")
		e.Compaction.MessagesBefore, e.Compaction.InputTokens = r.MessagesBefore, r.InputTokens
		l.add(e)
	case "PrunApplied":
		e := newCompaction(l.m, spans.CompactionKindPrune)
		e.TokensGone, e.MessagesSummarized = l.Count("tokens_removed"), l.Count("messages_removed")
		e.Removed, e.Summary = texts(l.Object, "pruned_timestamps", true), l.Raw("memo")
		l.add(e)
	case "RevertApplied":
		e := newCompaction(l.m, spans.CompactionKindRevert)
		e.Category = plainEnum(l.Object, "category")
		if n := l.Count("target"); n != nil {
			e.Target = strconv.FormatInt(*n, 10)
		}
		e.Removed, e.Summary = texts(l.Object, "abandoned_node_ids", true), l.Raw("summary")
		e.Applied, e.Reason = l.Bool("applied"), l.String("reason")
		l.add(e)
	}
}

// once notes a problem when a key of o is there twice.
func once(o *object.Object) {
	if twice := o.Twice(); twice != nil {
		o.Fail(twice[0], "stands there twice")
	}
}

// enum reads a value of serde's external tagging: "Name", or {"Name":{fields}}. A member of any other form is kept as
// unknown too.
func enum(o *object.Object, key string) (name string, fields *object.Object) {
	raw := o.Raw(key)
	if raw == nil || raw[0] == '"' {
		return o.String(key), nil
	}
	in := o.Inner(key, raw)
	if in == nil {
		o.Fail(key, "want a string or an object, got "+rawjson.KindOf(raw))
		return "", nil
	}
	for name := range in.All() {
		if fields = in.Inner(name, in.Raw(name)); fields == nil || len(in.Keys()) > 1 {
			o.Keep(key)
		}
		return name, fields
	}
	o.Keep(key)
	return "", nil
}

// plainEnum is enum for a value without fields.
func plainEnum(o *object.Object, key string) string {
	name, fields := enum(o, key)
	if fields != nil {
		o.Keep(key)
	}
	return name
}

var usageKeys = event.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache_read",
	CacheWrite: "cache_write", Total: "total_tokens"}

// texts returns the elements of an array: strings, or integers that are not negative, in decimal.
func texts(o *object.Object, key string, numbers bool) (list []string) {
	raws := o.List(key)
	if raws != nil {
		list = make([]string, len(raws))
	}
	for i, raw := range raws {
		text, ok := rawjson.String(raw)
		want := "a string"
		if numbers {
			n, err := strconv.ParseInt(string(raw), 10, 64)
			text, ok, want = strconv.FormatInt(n, 10), err == nil && n >= 0, "an integer that is not negative"
		}
		if !ok {
			o.Fail(object.Element(key, i), "want "+want+", got "+rawjson.KindOf(raw))
		}
		list[i] = text
	}
	return list
}

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

// Texts by which phi-core says more than by its flags.
const (
	textSkipped      = "Skipped due to queued user message."
	textCancelled    = "Cancelled"
	textDenyPattern  = "Command blocked by safety policy: contains"
	textNotConfirmed = "Command was not confirmed by the user."
	// textHookDenied is the result of a call that a hook refused without a reason. In a ledger without events nothing
	// else shows a refusal: of one with a reason, which 0.11.2 and later have, only the failure is known.
	textHookDenied = "Tool execution skipped by before_tool_execution hook."
)

// pieces are the kinds of a delta that are no text.
var pieces = map[string]event.PartialKind{"Thinking": event.PartialReasoning, "ToolCallDelta": event.PartialToolInput}

func (d *Decoder) messageEnd(l *line) {
	l.Require("message")
	if o := l.Object.Object("message"); o.Require("role") {
		o.String("role")
	}
	if l.Failed() > 0 {
		return
	}
	r, msg := l.run, messageOf(l.Raw("message"))
	if msg.reply() {
		for _, asked := range msg.asks() {
			if id := asked.Text("id"); r.inTurn && id != "" {
				c := r.call(id)
				c.asked, c.name, c.args = true, asked.Text("name"), bytes.Clone(asked.Spelled("arguments"))
			}
		}
		provider := msg.provider()
		l.add(&event.ReplyReceived{Meta: l.m, Message: msg.Message, Model: msg.o.Text("model"), Provider: provider,
			StopReason: msg.o.Text("stopReason"), Usage: msg.usage(d.runs.replyRule(r, provider))})
		return
	}
	c, id := r.calls[msg.ToolCallID], msg.ToolCallID
	if id != "" && msg.failed() && c != nil && c.asked && !c.started {
		// The call was refused before it began: phi-core writes nothing of it but this result.
		c.asked = false
		reason := input.Texts(msg.o.Raw("content"))
		l.add(&event.ToolStarted{Meta: l.m, ToolCall: event.ToolCall{ID: id, Name: c.name, Args: c.args}},
			denial(l.m, event.PermissionEvaluation{Tool: c.name, CallID: id, Source: "hook", Reason: reason}),
			&event.ToolEnded{Meta: l.m, CallID: id, Name: c.name,
				ToolResult: event.ToolResult{Outcome: spans.OutcomeDenied, Error: reason}})
	}
	l.add(&event.MessageAdded{Meta: l.m, Message: msg.Message})
}

func (d *Decoder) toolEnd(l *line) {
	l.Require("tool_call_id")
	e := &event.ToolEnded{CallID: l.String("tool_call_id"), Name: l.String("tool_name")}
	e.Result, e.ChildRunID = l.Spelled("result"), l.String("child_loop_id")
	failed := l.Bool("is_error")
	result := object.Of("", e.Result)
	if inner := result.Text("child_loop_id"); inner != "" { // the one that phi-core's recorder reads
		if e.ChildRunID != "" && e.ChildRunID != inner {
			l.Keep("child_loop_id")
		}
		e.ChildRunID = inner
	}
	e.Meta, e.Outcome = l.m, spans.OutcomeOK
	if e.ChildRunID != "" {
		e.ChildSessionID = d.runs.sessionOf(e.ChildRunID, "")
	}
	c := l.run.calls[e.CallID]
	unstarted := c == nil || !c.started || c.null
	if c != nil {
		c.started = true // its start may be on a line that could not be read
	}
	if failed != nil && *failed {
		e.Outcome, e.Error = spans.OutcomeError, input.Texts(result.Raw("content"))
		var denied event.PermissionEvaluation
		switch {
		case e.Error == textSkipped && unstarted:
			e.Outcome = spans.OutcomeSkipped
		case e.Error == textCancelled:
			e.Outcome = spans.OutcomeCancelled
		case e.Name == "bash" && strings.HasPrefix(e.Error, textDenyPattern):
			denied.Source = "bash.deny_pattern"
			_, denied.Pattern, _ = strings.Cut(e.Error, "'")
			denied.Pattern, _, _ = strings.Cut(denied.Pattern, "'. This pattern is denied")
		case e.Name == "bash" && strings.HasPrefix(e.Error, textNotConfirmed):
			denied.Source = "bash.confirm"
		}
		if denied.Source != "" {
			denied.Tool, denied.CallID, denied.Reason = e.Name, e.CallID, e.Error
			e.Outcome = spans.OutcomeDenied
			l.add(denial(l.m, denied))
		}
	}
	l.add(e)
}
