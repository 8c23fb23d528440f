package phi

import (
	"reflect"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// envelope names the keys of a message that tell of its place and not of itself.
var envelope = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint"}

// Texts that phi-core writes and that tell more than its flags do.
const (
	textSkipped       = "Skipped due to queued user message."
	textCancelled     = "Cancelled"
	textDenyPattern   = "Command blocked by safety policy: contains"
	textNotConfirmed  = "Command was not confirmed by the user."
	bashTool          = "bash"
	sourceHook        = "hook"
	sourceInputFilter = "input_filter"
	sourceDenyPattern = "bash.deny_pattern"
	sourceConfirm     = "bash.confirm"
)

// unknownKeys follows the variant in Other.Type where an event had keys that are not phi-core's.
const unknownKeys = ".unknown_keys"

// unknownProvider stands in the reply of a model call that failed before it began: phi-core knows no provider then.
const unknownProvider = "unknown"

// outbox holds one event of each kind, so that handing one out allocates nothing.
type outbox struct {
	runStarted        otelagent.RunStarted
	runEnded          otelagent.RunEnded
	groupStarted      otelagent.GroupStarted
	groupEnded        otelagent.GroupEnded
	turnStarted       otelagent.TurnStarted
	turnEnded         otelagent.TurnEnded
	requestPrepared   otelagent.RequestPrepared
	messageAdded      otelagent.MessageAdded
	replyReceived     otelagent.ReplyReceived
	replyDelta        otelagent.ReplyDelta
	toolStarted       otelagent.ToolStarted
	toolProgressed    otelagent.ToolProgressed
	toolEnded         otelagent.ToolEnded
	compactionStarted otelagent.CompactionStarted
	compactionEnded   otelagent.CompactionEnded
	permission        otelagent.PermissionEvaluated
	other             otelagent.Other

	output   otelagent.Message
	usage    otelagent.Usage
	messages []otelagent.Message
	ids      []string
	rest     []byte
	body     []byte
	kept     []member // members that the event itself does not carry whole
}

// decode hands out what the parsed line tells. It decides about errors before it hands out anything.
func (d *Decoder) decode() *input.LineError {
	l := &d.ev
	f := fields{words: &d.words}
	if l.raw[0] != '{' {
		f.mismatch("", l.raw, "an object")
		return f.wrong
	}
	f.required("type", d.get(kType), "a string")
	if f.wrong == nil && l.typ == nil {
		f.mismatch("type", d.get(kType), "a string")
	}
	if f.wrong != nil {
		return f.wrong
	}
	v := variantOf(l.typ)
	if v == unknownVariant {
		if d.doc == nil && ndjson.Own(l.raw) {
			d.ownLine(l.raw)
		} else {
			d.unknown(d.words.of(d.get(kType)))
		}
		return nil
	}
	return d.variant(v)
}

// variant hands out what an event of that variant tells.
func (d *Decoder) variant(v variant) *input.LineError {
	l := &d.ev
	f := fields{words: &d.words}
	name, known := variants[v].name, variants[v].keys
	if l.twice != "" {
		return &input.LineError{Type: name, Field: l.twice, Reason: "stands there twice"}
	}
	if l.crowded {
		return &input.LineError{Type: name, Reason: tooMany(maxItems, "messages in a list")}
	}
	d.out.kept = d.out.kept[:0]
	stamp, extra := d.stamp(), l.has&^known
	if !stamp.IsZero() {
		extra &^= 1 << kTS
	}
	if extra != 0 || len(l.others) > 0 {
		d.keepUnknown(name, extra)
	}
	var id string
	if known&(1<<kLoopID) != 0 {
		raw := d.get(kLoopID)
		if last := d.runs.last; last != nil && last.plain && len(raw) == len(last.id)+2 && string(raw[1:len(raw)-1]) == last.id && raw[0] == '"' {
			id = last.id // as nearly always
		} else {
			f.required("loop_id", raw, "a string")
			id = f.id("loop_id", raw)
			if id == "" && f.wrong == nil && v != vProgressMessage {
				f.problem("loop_id", "want a string that is not empty")
			}
		}
	}
	m := otelagent.Meta{Run: id, Seq: d.seq, Arrived: d.arrived}
	if known&(1<<kTimestamp) != 0 {
		m.Time = f.time("timestamp", d.get(kTimestamp))
	}
	if !stamp.IsZero() {
		m.Time = stamp
	}
	if f.wrong == nil {
		switch v {
		case vAgentStart:
			d.agentStart(&f, m)
		case vAgentEnd:
			d.agentEnd(&f, m)
		case vTurnStart:
			d.turnStart(&f, m)
		case vTurnRequest:
			d.turnRequest(&f, m)
		case vTurnEnd:
			d.turnEnd(&f, m)
		case vMessageStart:
			d.messageStart(m)
		case vMessageUpdate:
			d.messageUpdate(m)
		case vMessageEnd:
			d.messageEnd(&f, m)
		case vToolExecutionStart:
			d.toolStart(&f, m)
		case vToolExecutionUpdate, vProgressMessage:
			d.toolProgress(&f, m, name)
		case vToolExecutionEnd:
			d.toolEnd(&f, m)
		case vInputRejected:
			d.inputRejected(&f, m)
		case vParallelLoopStart:
			d.parallelStart(&f, m)
		case vParallelLoopEnd:
			d.parallelEnd(&f, m)
		case vCompactionStarted:
			d.compactionStarted(&f, m)
		case vCompactionEnded:
			d.compactionEnded(&f, m)
		case vPrunApplied:
			d.prunApplied(&f, m)
		case vRevertApplied:
			d.revertApplied(&f, m)
		}
	}
	if f.wrong != nil {
		f.wrong.Type = name
	}
	return f.wrong
}

// get returns the value of a key of the line, or nil.
func (d *Decoder) get(k key) []byte {
	if d.ev.has&(1<<k) == 0 {
		return nil
	}
	return d.ev.values[k]
}

// stamp returns the time that the line says its event happened at, whatever its variant; zero when it says none that we can read.
func (d *Decoder) stamp() time.Time {
	if d.ev.has&(1<<kTS) != 0 {
		if t, ok := input.Time(d.ev.values[kTS]); ok {
			return t
		}
	}
	return d.stamped
}

// in sets the session of m to that of its run.
func (d *Decoder) in(m *otelagent.Meta) *run {
	r := d.runs.in(m.Run)
	m.Session = r.session
	return r
}

// opened is in for an event that begins something: its run is open from now on.
func (d *Decoder) opened(m *otelagent.Meta) *run {
	r := d.runs.opened(m.Run)
	m.Session = r.session
	return r
}

// unknown hands out an event of a type that is not phi-core's, as far as we know it.
func (d *Decoder) unknown(name string) {
	m := otelagent.Meta{Seq: d.seq, Arrived: d.arrived}
	if v := d.get(kTimestamp); v != nil && v[0] == '"' {
		m.Time, _ = parseTime(v)
	}
	if stamp := d.stamp(); !stamp.IsZero() {
		m.Time = stamp
	}
	m.Run = d.lenient(d.get(kLoopID))
	m.Session = d.lenient(d.get(kSessionID))
	if m.Run != "" && (m.Session == "" || d.runs.find(m.Run) != nil) {
		m.Session = d.runs.home(m.Run)
	}
	d.emitOther(m, name, d.ev.raw)
}

// ownLine reads a line of package ndjson, which tells what phi-core has no words for. One that names no run is of the run that is open,
// if that is certain.
func (d *Decoder) ownLine(raw []byte) {
	line := input.Line{Text: raw, Number: d.lineNo, Arrived: d.arrived}
	d.own.Line(line, d.seq, func(ev otelagent.Event, err error) bool {
		if err != nil {
			d.stats.Events--
			d.stats.Rejected++
			d.stopped = !d.yield(nil, err)
			return !d.stopped
		}
		d.place(ev)
		d.emit(ev)
		return !d.stopped
	})
}

// place fills in the run of an event in the middle of a run that names none.
func (d *Decoder) place(ev otelagent.Event) {
	switch ev.(type) {
	case *otelagent.RunStarted, *otelagent.GroupStarted, *otelagent.GroupEnded, *otelagent.FactStated:
		return
	}
	// All events embed their Meta; there is no other way to it from here, and such lines are rare.
	m := reflect.ValueOf(ev).Elem().FieldByName("Meta").Addr().Interface().(*otelagent.Meta)
	r := d.runs.innermost()
	if m.Run == "" && r != nil && (m.Session == "" || m.Session == r.session) {
		m.Run, m.Session = r.id, r.session
	}
}

func (d *Decoder) emitOther(m otelagent.Meta, typ string, body []byte) {
	d.out.other = otelagent.Other{Meta: m, Type: typ, Body: body}
	d.emit(&d.out.other)
}

// keepUnknown notes the members of the line that its variant does not have.
func (d *Decoder) keepUnknown(name string, extra keySet) {
	if name == variants[vMessageUpdate].name {
		for k := range keys {
			if extra&(1<<k) != 0 {
				d.stats.IgnoredKeys++
			}
		}
		d.stats.IgnoredKeys += int64(len(d.ev.others))
		return
	}
	for k := range keys {
		if extra&(1<<k) != 0 {
			d.keep(k)
		}
	}
	d.out.kept = append(d.out.kept, d.ev.others...)
}

// keep notes a member that the event does not carry whole.
func (d *Decoder) keep(k key) {
	for _, kept := range d.out.kept {
		if string(kept.key[1:len(kept.key)-1]) == keyNames[k] {
			return
		}
	}
	d.out.kept = append(d.out.kept, member{append(append([]byte{'"'}, keyNames[k]...), '"'), d.get(k)})
}

// emitKept hands out the members noted, as one object.
func (d *Decoder) emitKept(m otelagent.Meta, name string) {
	if len(d.out.kept) == 0 {
		return
	}
	body := append(d.out.body[:0], '{')
	for i, kept := range d.out.kept {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, kept.key...), ':'), kept.value...)
	}
	d.out.body = append(body, '}')
	d.emitOther(m, name+unknownKeys, d.out.body)
}

// lenient reads a string that is an id, name or word; anything else is no string to it.
func (d *Decoder) lenient(value []byte) string {
	switch string(value) { // the most frequent ones without a map
	case `"user"`:
		return "user"
	case `"assistant"`:
		return "assistant"
	case `"toolResult"`:
		return "toolResult"
	case `"loop-turn"`:
		return "loop-turn"
	case `"tool-call-result"`:
		return "tool-call-result"
	case `"tool-call-request"`:
		return "tool-call-request"
	}
	if value == nil || value[0] != '"' {
		return ""
	}
	return d.words.of(value)
}

// enum reads a word of serde's external tagging: "Word", or {"Word":inner}. An object that says more is kept beside.
func (d *Decoder) enum(f *fields, k key) (word string, inner []byte) {
	v := d.get(k)
	if absent(v) {
		return "", nil
	}
	switch v[0] {
	case '"':
		return d.words.of(v), nil
	case '{':
		n := 0
		f.object(keyNames[k], v, func(name, value []byte) {
			if n == 0 {
				word, inner = string(name), value
			}
			n++
		})
		if n != 1 {
			d.keep(k)
		}
		return word, inner
	default:
		f.mismatch(keyNames[k], v, "a string or an object")
		return "", nil
	}
}

func (d *Decoder) agentStart(f *fields, m otelagent.Meta) {
	e := &d.out.runStarted
	*e = otelagent.RunStarted{RunInfo: otelagent.RunInfo{ID: m.Run, Dialect: Dialect}}
	e.AgentID = f.id("agent_id", d.get(kAgentID))
	e.SessionID = f.id("session_id", d.get(kSessionID))
	e.ParentID = f.id("parent_loop_id", d.get(kParentLoopID))
	e.Continuation, e.ContinuationTag = d.continuation(f)
	if v := d.get(kMetadata); !absent(v) {
		e.Metadata = v
	}
	config := d.get(kConfigSnapshot)
	if absent(config) {
		config = nil
	}
	f.object("config_snapshot", config, func(name, value []byte) {
		switch string(name) {
		case "model":
			e.Model = f.id("config_snapshot.model", value)
		case "provider":
			e.Provider = f.id("config_snapshot.provider", value)
		case "config_id":
			e.ConfigID = f.id("config_snapshot.config_id", value)
		case "api":
			e.API = f.id("config_snapshot.api", value)
		}
	})
	if f.wrong != nil {
		return
	}
	if config != nil {
		e.Config = config
	}
	if e.SessionID == "" {
		e.SessionID = d.runs.home(m.Run)
	}
	r := d.runs.started(m.Run, e.SessionID)
	r.told = true
	if e.API != "" || e.Provider != "" {
		r.fixed = e.API != ""
		r.rule = d.ruleOf(e.API, e.Provider)
	}
	if e.AgentID == "" {
		e.Agent = d.settings.Agent
	}
	if e.Provider == "" {
		e.Provider = d.settings.Provider
	}
	r.parent = e.ParentID
	if e.ParentID != "" {
		if s := d.runs.sessionOf(e.ParentID); s != e.SessionID {
			e.ParentSessionID = s
		}
		d.runs.last = r
	}
	m.Session = e.SessionID
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "AgentStart")
}

// ruleOf returns the usage rule that follows from the name of a protocol, or of a provider where none is told.
func (d *Decoder) ruleOf(api, provider string) spans.UsageRule {
	switch {
	case api == "anthropic_messages" || api == "" && provider == "anthropic":
		return spans.UsageRuleExcludesCache
	case api != "":
		return spans.UsageRuleIncludesCache
	}
	return d.runs.rule
}

func (d *Decoder) continuation(f *fields) (spans.Continuation, string) {
	word, inner := d.enum(f, kContinuationKind)
	var tag string
	if inner != nil {
		more := inner[0] != '{'
		if !more {
			f.object("continuation_kind", inner, func(name, value []byte) {
				if string(name) == "tag" {
					tag = f.id("continuation_kind.tag", value)
				} else {
					more = true
				}
			})
		}
		if more {
			d.keep(kContinuationKind)
		}
	}
	switch word {
	case "", "Initial":
		return spans.ContinuationInitial, tag
	case "Default":
		return spans.ContinuationDefault, tag
	case "Rerun":
		return spans.ContinuationRerun, tag
	case "Branch":
		return spans.ContinuationBranch, tag
	case "Compaction":
		return spans.ContinuationCompaction, tag
	default:
		return spans.Continuation(word), tag
	}
}

func (d *Decoder) agentEnd(f *fields, m otelagent.Meta) {
	e := &d.out.runEnded
	*e = otelagent.RunEnded{}
	messages := d.get(kMessages)
	f.list("messages", messages)
	rejection := d.get(kRejection)
	e.Rejection = f.text("rejection", rejection)
	r := d.runs.find(m.Run)
	rule := d.runs.rule
	switch {
	case r != nil && (r.open || r.fixed):
		rule = r.rule
	default:
		for i := range d.ev.messages {
			if p := d.ev.messages[i].provider; messages != nil && p != nil {
				rule = d.ruleOf("", d.lenient(p))
			}
		}
	}
	e.Usage = f.usage("usage", d.get(kUsage), rule)
	if f.wrong != nil {
		return
	}
	if !absent(messages) {
		e.Messages = d.messageList(d.ev.messages)
	}
	e.Status = spans.RunStatusCompleted
	idle := len(e.Messages) == 0 && (e.Usage == nil || *e.Usage == otelagent.Usage{Rule: rule})
	switch {
	case !absent(rejection):
		e.Status, e.Rejected = spans.RunStatusRejected, true
	case (r == nil || !r.open) && idle:
		// The end of a run that never began and did nothing is what a veto before the loop leaves.
		e.Status = spans.RunStatusVetoed
	}
	m.Session = d.runs.home(m.Run)
	e.Meta = m
	d.emitKept(m, "AgentEnd")
	if r != nil {
		d.runs.close(r)
	}
	d.runs.endedIn, d.runs.endedRule = m.Session, rule
	d.emit(e)
}

func (d *Decoder) turnStart(f *fields, m otelagent.Meta) {
	e := &d.out.turnStarted
	*e = otelagent.TurnStarted{}
	e.Index = f.count("turn_index", d.get(kTurnIndex), -1)
	word, inner := d.enum(f, kTriggeredBy)
	if f.wrong != nil {
		return
	}
	if inner != nil {
		d.keep(kTriggeredBy)
	}
	switch word {
	case "User":
		e.Trigger = spans.TriggerUser
	case "SubAgent":
		e.Trigger = spans.TriggerSubAgent
	case "Continuation", "FollowUp": // FollowUp until 2026-04
		e.Trigger = spans.TriggerContinuation
	case "Branch":
		e.Trigger = spans.TriggerBranch
	default:
		e.Trigger = spans.Trigger(word)
	}
	r := d.opened(&m)
	r.endTurn()
	r.turn, r.turnIndex = true, e.Index
	if !r.told {
		e.Provider = d.settings.Provider
	}
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "TurnStart")
}

func (d *Decoder) turnEnd(f *fields, m otelagent.Meta) {
	e := &d.out.turnEnded
	*e = otelagent.TurnEnded{}
	message := d.get(kMessage)
	results := d.get(kToolResults)
	f.list("tool_results", results)
	msg := &d.ev.message
	reported, path := d.get(kUsage), "usage"
	if !absent(message) {
		if message[0] != '{' {
			f.mismatch("message", message, "an object")
			return
		}
		e.Model, e.Provider = d.lenient(msg.model), d.lenient(msg.provider)
		if e.Provider == unknownProvider {
			e.Provider = ""
		}
		e.StopReason = d.lenient(msg.stopReason)
		if absent(reported) {
			reported, path = msg.usage, "message.usage"
		}
		e.Error = f.text("message.error_message", msg.errorMessage)
	}
	r := d.runs.find(m.Run)
	rule := d.usageRule(r, e.Provider)
	e.Usage = f.usage(path, reported, rule)
	if f.wrong != nil {
		return
	}
	switch e.StopReason {
	case "error":
		e.Failed, e.Cancelled = true, e.Error == textCancelled
	case "aborted":
		e.Failed, e.Cancelled = true, true
	}
	if !absent(message) {
		d.out.output = d.messageOf(msg)
		e.Output = &d.out.output
	}
	if !absent(results) {
		e.Results = d.messageList(d.ev.toolResults)
	}
	r = d.in(&m)
	r.rule = rule
	e.Meta = m
	d.emitKept(m, "TurnEnd")
	r.endTurn()
	d.emit(e)
}

// usageRule is the rule of what a provider reports of a reply in a run, which may be nil.
func (d *Decoder) usageRule(r *run, provider string) spans.UsageRule {
	open := r != nil && r.open
	switch {
	case provider != "" && !(open && r.fixed):
		return d.ruleOf("", provider)
	case open:
		return r.rule
	}
	return d.runs.rule
}

func (d *Decoder) parallelStart(f *fields, m otelagent.Meta) {
	e := &d.out.groupStarted
	*e = otelagent.GroupStarted{GroupInfo: otelagent.GroupInfo{Dialect: Dialect}}
	e.SessionID = f.id("session_id", d.get(kSessionID))
	members := d.get(kLoopIDs)
	f.required("loop_ids", members, "an array")
	f.list("loop_ids", members)
	if f.wrong != nil {
		return
	}
	d.out.ids = d.out.ids[:0]
	c := rawjson.NewCursor(members, maxDepth)
	for c.Open('['); c.More(']'); {
		value := c.Value()
		f.required("loop_ids[]", value, "a string")
		d.out.ids = append(d.out.ids, f.id("loop_ids[]", value))
	}
	if f.wrong != nil {
		return
	}
	e.Members = d.out.ids
	if e.SessionID == "" && len(e.Members) > 0 {
		e.SessionID = d.runs.home(e.Members[0])
	}
	if len(d.runs.groups) < openMost {
		d.runs.groups = append(d.runs.groups, e.SessionID)
	}
	if e.SessionID != "" {
		d.runs.sessions.put(e.SessionID, true)
	}
	m.Session = e.SessionID
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "ParallelLoopStart")
}

func (d *Decoder) parallelEnd(f *fields, m otelagent.Meta) {
	e := &d.out.groupEnded
	*e = otelagent.GroupEnded{}
	m.Session = f.id("session_id", d.get(kSessionID))
	f.required("selected_loop_id", d.get(kSelectedLoopID), "a string")
	e.SelectedID = f.id("selected_loop_id", d.get(kSelectedLoopID))
	e.SelectedIndex = f.count("selected_config_index", d.get(kSelectedConfigIndex), -1)
	if f.wrong != nil {
		return
	}
	if m.Session == "" {
		m.Session = d.runs.home(e.SelectedID)
	}
	rule := d.runs.rule
	if d.runs.endedIn == m.Session && d.runs.endedRule != "" {
		rule = d.runs.endedRule // the judge's, which ends last
	}
	e.Evaluation = f.usage("evaluation_usage", d.get(kEvaluationUsage), rule)
	if f.wrong != nil {
		return
	}
	for i := len(d.runs.groups) - 1; i >= 0; i-- {
		if d.runs.groups[i] == m.Session {
			d.runs.groups = append(d.runs.groups[:i], d.runs.groups[i+1:]...)
			break
		}
	}
	e.Meta = m
	d.emitKept(m, "ParallelLoopEnd")
	d.emit(e)
}

func (d *Decoder) compactionStarted(f *fields, m otelagent.Meta) {
	e := &d.out.compactionStarted
	*e = otelagent.CompactionStarted{Compaction: otelagent.Compaction{
		Kind:           spans.CompactionKindSummary,
		MessagesBefore: f.count("message_count", d.get(kMessageCount), -1),
		InputTokens:    f.count("estimated_tokens", d.get(kEstimatedTokens), -1),
	}}
	if f.wrong != nil {
		return
	}
	d.opened(&m)
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "CompactionStarted")
}

// compaction clears the event that ends a compaction: of a kind, with nothing known.
func (d *Decoder) compaction(kind spans.CompactionKind) *otelagent.CompactionEnded {
	e := &d.out.compactionEnded
	*e = otelagent.CompactionEnded{
		Compaction: otelagent.Compaction{Kind: kind, MessagesBefore: -1, InputTokens: -1},
		CompactionResult: otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1,
			MessagesSummarized: -1, TokensGone: -1, Runs: -1},
	}
	return e
}

func (d *Decoder) emitCompaction(f *fields, m otelagent.Meta, name string) {
	if f.wrong != nil {
		return
	}
	d.in(&m)
	d.out.compactionEnded.Meta = m
	d.emitKept(m, name)
	d.emit(&d.out.compactionEnded)
}

func (d *Decoder) compactionEnded(f *fields, m otelagent.Meta) {
	e := d.compaction(spans.CompactionKindSummary)
	r := &e.CompactionResult
	r.MessagesBefore = f.count("messages_before", d.get(kMessagesBefore), -1)
	r.MessagesAfter = f.count("messages_after", d.get(kMessagesAfter), -1)
	r.InputTokens = f.count("estimated_tokens_before", d.get(kEstimatedTokensBefore), -1)
	r.OutputTokens = f.count("estimated_tokens_after", d.get(kEstimatedTokensAfter), -1)
	r.Runs = f.count("loops_compacted", d.get(kLoopsCompacted), -1)
	e.Compaction.MessagesBefore, e.Compaction.InputTokens = r.MessagesBefore, r.InputTokens
	d.emitCompaction(f, m, "CompactionEnded")
}

func (d *Decoder) prunApplied(f *fields, m otelagent.Meta) {
	e := d.compaction(spans.CompactionKindPrune)
	e.TokensGone = f.count("tokens_removed", d.get(kTokensRemoved), -1)
	e.MessagesSummarized = f.count("messages_removed", d.get(kMessagesRemoved), -1)
	d.out.ids = f.counts("pruned_timestamps", d.get(kPrunedTimestamps), d.out.ids[:0])
	e.Removed = d.out.ids
	if v := d.get(kMemo); !absent(v) {
		e.Summary = v
	}
	d.emitCompaction(f, m, "PrunApplied")
}

func (d *Decoder) revertApplied(f *fields, m otelagent.Meta) {
	e := d.compaction(spans.CompactionKindRevert)
	var inner []byte
	if e.Category, inner = d.enum(f, kCategory); inner != nil {
		d.keep(kCategory)
	}
	if n := f.count("target", d.get(kTarget), -1); n >= 0 {
		e.Target = strconv.FormatInt(n, 10)
	}
	d.out.ids = f.counts("abandoned_node_ids", d.get(kAbandonedNodeIDs), d.out.ids[:0])
	e.Removed = d.out.ids
	if v := d.get(kSummary); !absent(v) {
		e.Summary = v
	}
	e.Applied = f.flag("applied", d.get(kApplied))
	e.Reason = f.text("reason", d.get(kReason))
	d.emitCompaction(f, m, "RevertApplied")
}
