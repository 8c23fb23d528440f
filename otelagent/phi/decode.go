package phi

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	messages []otelagent.Message
	ids      []string
	rest     []byte
	body     []byte
	kept     []member // members that the event itself does not carry whole
}

// decode hands out what the parsed line tells. It decides about errors before it hands out anything.
func (d *Decoder) decode() *LineError {
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
		d.unknown(d.words.of(d.get(kType)))
		return nil
	}
	name, known := variants[v].name, variants[v].keys
	if l.twice != "" {
		return &LineError{Type: name, Field: l.twice, Reason: "stands there twice"}
	}
	d.out.kept = d.out.kept[:0]
	extra := l.has &^ known
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
	m := otelagent.Meta{Run: id, Seq: d.stats.Lines, Arrived: d.arrived}
	if known&(1<<kTimestamp) != 0 {
		m.Time = f.time("timestamp", d.get(kTimestamp))
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
	m := otelagent.Meta{Seq: d.stats.Lines, Arrived: d.arrived}
	if v := d.get(kTimestamp); v != nil && v[0] == '"' {
		m.Time, _ = parseTime(v)
	}
	m.Run = d.lenient(d.get(kLoopID))
	m.Session = d.lenient(d.get(kSessionID))
	if m.Run != "" && (m.Session == "" || d.runs.find(m.Run) != nil) {
		m.Session = d.runs.sessionOf(m.Run)
	}
	d.emitOther(m, name, d.ev.raw)
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
		e.SessionID = d.runs.sessionOf(m.Run)
	}
	r := d.runs.started(m.Run, e.SessionID)
	if e.API != "" || e.Provider != "" {
		r.fixed = e.API != ""
		r.rule = ruleOf(e.API == "anthropic_messages" || e.API == "" && e.Provider == "anthropic")
	}
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

func ruleOf(anthropic bool) spans.UsageRule {
	if anthropic {
		return spans.UsageRuleExcludesCache
	}
	return spans.UsageRuleIncludesCache
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
	rule := spans.UsageRuleIncludesCache
	switch {
	case r != nil && (r.open || r.fixed):
		rule = r.rule
	default:
		for i := range d.ev.messages {
			if p := d.ev.messages[i].provider; messages != nil && p != nil {
				rule = ruleOf(string(p) == `"anthropic"`)
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
	m.Session = d.runs.sessionOf(m.Run)
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
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "TurnStart")
}

func (d *Decoder) turnRequest(f *fields, m otelagent.Meta) {
	index := f.count("turn_index", d.get(kTurnIndex), -1)
	raw := d.get(kPayload)
	f.required("payload", raw, "an object")
	if f.wrong == nil && raw[0] != '{' {
		f.mismatch("payload", raw, "an object")
	}
	if f.wrong == nil {
		f.list("payload.messages", d.ev.payload.messages)
	}
	if f.wrong != nil {
		return
	}
	p := &d.ev.payload
	e := &d.out.requestPrepared
	*e = otelagent.RequestPrepared{}
	e.Bytes = int64(len(raw))
	e.System, e.Tools = p.system, p.tools
	e.Model, e.Level = d.lenient(p.model), d.lenient(p.level)
	e.Format = d.format(p.format)
	if n, ok := parseCount(p.maxTokens); ok && p.maxTokens != nil {
		e.MaxTokens = &n
	}
	if p.temperature != nil {
		if t, err := strconv.ParseFloat(string(p.temperature), 64); err == nil {
			e.Temperature = &t
		}
	}
	if p.messages != nil {
		e.Messages = d.messageList(p.messageList)
		d.ev.history.keep(p.messageList, e.Messages)
	}
	aligned := p.provenance != nil && p.provenance[0] == '[' && len(p.provenanceList) == len(e.Messages)
	if aligned {
		for i, raw := range p.provenanceList {
			e.Messages[i].Provenance = d.provenanceAt(i, raw)
		}
	}
	e.Rest = d.rest(p.all, aligned)
	r := d.opened(&m)
	switch {
	case !r.turn && index >= 0: // a turn whose start was not seen
		d.turnUnderWay(m, r, index)
	case index >= 0 && index != r.turnIndex:
		d.keep(kTurnIndex)
	}
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "TurnRequest")
}

// turnUnderWay tells of a turn whose start was not seen: it is known from m that it had started.
func (d *Decoder) turnUnderWay(m otelagent.Meta, r *run, index int64) {
	r.turn, r.turnIndex = true, index
	e := &d.out.turnStarted
	*e = otelagent.TurnStarted{Meta: m, TurnInfo: otelagent.TurnInfo{Index: index}}
	if !m.Time.IsZero() {
		e.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
	}
	d.emit(e)
}

// format returns the kind of a response format.
func (d *Decoder) format(raw []byte) (kind string) {
	if raw == nil || raw[0] != '{' {
		return d.lenient(raw)
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		name, value := c.Key(), c.Value()
		if string(name) == "kind" {
			kind = d.lenient(value)
		}
	}
	return kind
}

// rest returns a payload without what stands elsewhere in a Request.
func (d *Decoder) rest(all []member, aligned bool) []byte {
	rest := append(d.out.rest[:0], '{')
	for _, m := range all {
		switch string(d.ev.unescaped(m.key)) {
		case "system_prompt", "tools", "messages":
			continue
		case "provenance":
			if aligned {
				continue
			}
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, m.key...), ':'), m.value...)
	}
	d.out.rest = append(rest, '}')
	return d.out.rest
}

// knownProvenance is where a message of the request before came from.
type knownProvenance struct {
	raw   []byte // a copy
	value spans.Provenance
}

// provenanceAt is provenance for the i-th message of a request, which mostly came from where it did in the request before.
func (d *Decoder) provenanceAt(i int, raw []byte) spans.Provenance {
	if i == len(d.provenances) {
		d.provenances = append(d.provenances, knownProvenance{})
	}
	known := &d.provenances[i]
	if !bytes.Equal(known.raw, raw) {
		known.raw, known.value = append(known.raw[:0], raw...), d.provenance(raw)
	}
	return known.value
}

// provenance reads where a message came from. What it does not know whole is kept as it came, so that the JSON value can
// always be given back.
func (d *Decoder) provenance(raw []byte) spans.Provenance {
	p := spans.Provenance{}
	bad := raw[0] != '{'
	const kind, name, order, tier, record, turn, role, message = 1, 2, 4, 8, 16, 32, 64, 128
	seen := 0
	text := func(bit int, value []byte) string {
		s := d.lenient(value)
		// What is not kept letter by letter (a lone surrogate) is kept raw.
		bad = bad || seen&bit != 0 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 && strings.ContainsRune(s, '\uFFFD')
		seen |= bit
		return s
	}
	number := func(bit int, value []byte) int64 {
		n, ok := parseCount(value)
		bad = bad || seen&bit != 0 || !ok
		seen |= bit
		return n
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		switch key, value := c.Key(), c.Value(); string(key) {
		case "kind":
			p.Kind = spans.ProvenanceKind(text(kind, value))
		case "name":
			p.Name = text(name, value)
		case "order":
			p.Order = number(order, value)
		case "tier":
			p.Tier = text(tier, value)
		case "record_id":
			p.RecordID = text(record, value)
		case "turn_index":
			p.TurnIndex = number(turn, value)
		case "role":
			p.Role = text(role, value)
		case "message_index":
			p.MessageIndex = number(message, value)
		default:
			bad = true
		}
	}
	want := -1
	switch p.Kind {
	case spans.ProvenanceSystemPrompt, spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown:
		want = kind
	case spans.ProvenanceIdentityBlock:
		want = kind | name | order
	case spans.ProvenanceMemoryTier:
		want = kind | tier | record
	case spans.ProvenanceLoopTurn:
		want = kind | turn | role | message
	}
	if bad || seen != want {
		return spans.Provenance{Raw: string(raw)}
	}
	return p
}

// messageList returns list as messages. The slice is used again for the next line.
func (d *Decoder) messageList(list []message) []otelagent.Message {
	out := d.out.messages[:0]
	if out == nil {
		out = make([]otelagent.Message, 0, len(list))
	}
	for i := range list {
		out = append(out, d.messageOf(&list[i]))
	}
	d.out.messages = out
	return out
}

func (d *Decoder) messageOf(m *message) otelagent.Message {
	if k := m.same; k != nil {
		return otelagent.Message{Raw: m.raw, Envelope: envelope, Role: k.role, ToolCallID: k.callID, Time: k.time}
	}
	out := otelagent.Message{Raw: m.raw, Envelope: envelope, Role: d.lenient(m.role)}
	if !m.llm() {
		return out
	}
	out.ToolCallID = d.lenient(m.toolCallID)
	if ms, ok := parseCount(m.timestamp); ok && m.timestamp != nil {
		if t := time.UnixMilli(ms).UTC(); inNanoseconds(t) {
			out.Time = t
		}
	}
	return out
}

// llm reports whether m is a message for a model; else it is an extension message, or none that we know.
func (m *message) llm() bool {
	if m.content == nil || m.content[0] != '[' {
		return false
	}
	switch string(m.role) {
	case `"user"`, `"assistant"`, `"toolResult"`:
		return true
	}
	return false
}

func (m *message) reply() bool { return string(m.role) == `"assistant"` && m.llm() }

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
	rule := spans.UsageRuleIncludesCache
	if r != nil && r.open {
		rule = r.rule
	}
	if !(r != nil && r.open && r.fixed) && e.Provider != "" {
		rule = ruleOf(e.Provider == "anthropic")
	}
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

func (d *Decoder) messageStart(m otelagent.Meta) {
	d.in(&m)
	d.emitKept(m, "MessageStart")
}

func (d *Decoder) messageUpdate(m otelagent.Meta) {
	r := d.in(&m)
	e := &d.out.replyDelta
	e.Meta = m
	delta := d.get(kDelta)
	e.Bytes = deltaLen(delta)
	if len(d.ev.others) == 0 && d.ev.has&^variants[vMessageUpdate].keys == 0 {
		d.update.keep(d.ev.raw, delta, r)
	}
	d.emit(e)
}

// updateHead is a MessageUpdate line up to its delta. The lines of one reply begin alike, with the same empty message.
type updateHead struct {
	head []byte
	run  *run
}

// keep remembers a line whose delta comes last, as phi-core writes it.
func (u *updateHead) keep(raw, delta []byte, r *run) {
	u.head = u.head[:0]
	if at := len(raw) - 1 - len(delta); len(delta) > 0 && at > 0 && &raw[at] == &delta[0] {
		u.head, u.run = append(u.head, raw[:at]...), r
	}
}

// updated hands out the event of a line that differs from a MessageUpdate line before only in its delta, and reports
// whether it did.
func (d *Decoder) updated(raw []byte) bool {
	u := &d.update
	if len(u.head) == 0 || !bytes.HasPrefix(raw, u.head) || !u.run.open || d.runs.find(u.run.id) != u.run {
		return false
	}
	rest := raw[len(u.head):]
	c := rawjson.NewCursor(rest, maxDepth-1)
	delta := c.Value()
	if delta == nil || len(rest) != len(delta)+1 || rest[len(delta)] != '}' || !utf8.Valid(delta) {
		return false
	}
	d.stats.Events++
	d.out.replyDelta = otelagent.ReplyDelta{
		Meta:  otelagent.Meta{Session: u.run.session, Run: u.run.id, Seq: d.stats.Lines, Arrived: d.arrived},
		Bytes: deltaLen(delta),
	}
	d.emit(&d.out.replyDelta)
	return true
}

// deltaLen returns the length of the text in {"Kind":{"delta":"text"}}, or 0.
func deltaLen(raw []byte) int {
	c := rawjson.NewCursor(raw, maxDepth)
	if !c.Open('{') || !c.More('}') {
		return 0
	}
	if c.RawKey(); !c.Open('{') {
		return 0
	}
	for c.More('}') {
		key, value := c.RawKey(), c.Value()
		if string(key) == `"delta"` && value[0] == '"' {
			return rawjson.StringLen(value)
		}
	}
	return 0
}

func (d *Decoder) messageEnd(f *fields, m otelagent.Meta) {
	raw := d.get(kMessage)
	f.required("message", raw, "an object")
	if f.wrong == nil && raw[0] != '{' {
		f.mismatch("message", raw, "an object")
	}
	msg := &d.ev.message
	if f.wrong == nil {
		f.required("message.role", msg.role, "a string")
		f.id("message.role", msg.role)
	}
	if f.wrong != nil {
		return
	}
	r := d.in(&m)
	if msg.reply() {
		if r.turn {
			d.noteCalls(r, msg.content)
		}
		e := &d.out.replyReceived
		*e = otelagent.ReplyReceived{Meta: m, Message: d.messageOf(msg)}
		d.emit(e)
		d.emitKept(m, "MessageEnd")
		return
	}
	e := &d.out.messageAdded
	*e = otelagent.MessageAdded{Meta: m, Message: d.messageOf(msg)}
	if e.ToolCallID != "" && msg.isError != nil && msg.isError[0] == 't' {
		if c := r.calls[e.ToolCallID]; c != nil && c.asked && !c.started && !c.denied {
			c.denied = true
			d.deny(m, e.ToolCallID, c, contentText(msg.content))
		}
	}
	d.emit(e)
	d.emitKept(m, "MessageEnd")
}

// noteCalls remembers the tool calls of an assistant message of the open turn.
func (d *Decoder) noteCalls(r *run, content []byte) {
	c := rawjson.NewCursor(content, maxDepth)
	for c.Open('['); c.More(']'); {
		if c.Peek() != '{' {
			c.Value()
			continue
		}
		var typ, id, name, args []byte
		for c.Open('{'); c.More('}'); {
			switch key, value := c.RawKey(), c.Value(); string(key) {
			case `"type"`:
				typ = value
			case `"id"`:
				id = value
			case `"name"`:
				name = value
			case `"arguments"`:
				args = value
			}
		}
		if string(typ) != `"toolCall"` {
			continue
		}
		if id := d.lenient(id); id != "" {
			if call := r.call(id); call != nil {
				call.asked, call.name, call.args = true, d.lenient(name), bytes.Clone(args)
			}
		}
	}
}

// deny tells of a tool call that was refused before it began, of which phi-core only writes the result.
func (d *Decoder) deny(m otelagent.Meta, id string, c *call, reason string) {
	d.out.toolStarted = otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: c.name, Args: c.args}}
	d.emit(&d.out.toolStarted)
	d.emitPermission(m, otelagent.PermissionEvaluation{Tool: c.name, CallID: id, Source: sourceHook, Reason: reason})
	d.out.toolEnded = otelagent.ToolEnded{Meta: m, CallID: id, Name: c.name,
		ToolResult: otelagent.ToolResult{Outcome: spans.OutcomeDenied, Error: reason}}
	d.emit(&d.out.toolEnded)
}

// emitPermission tells of a denial that follows from another event.
func (d *Decoder) emitPermission(m otelagent.Meta, p otelagent.PermissionEvaluation) {
	p.Action, p.Derived = spans.ActionDeny, true
	d.out.permission = otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p}
	d.emit(&d.out.permission)
}

// contentText returns the text blocks of a content array, one a line.
func contentText(content []byte) string {
	var parts []string
	c := rawjson.NewCursor(content, maxDepth)
	for c.Open('['); c.More(']'); {
		if c.Peek() != '{' {
			c.Value()
			continue
		}
		var typ, text []byte
		for c.Open('{'); c.More('}'); {
			switch key, value := c.RawKey(), c.Value(); string(key) {
			case `"type"`:
				typ = value
			case `"text"`:
				text = value
			}
		}
		if string(typ) == `"text"` && text != nil {
			if s, ok := rawjson.String(text); ok {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, "\n")
}

// toolHead reads what all events of a tool call begin with.
func (d *Decoder) toolHead(f *fields) (id, name string) {
	f.required("tool_call_id", d.get(kToolCallID), "a string")
	return f.id("tool_call_id", d.get(kToolCallID)), f.id("tool_name", d.get(kToolName))
}

func (d *Decoder) toolStart(f *fields, m otelagent.Meta) {
	id, name := d.toolHead(f)
	if f.wrong != nil {
		return
	}
	args := d.get(kArgs)
	r := d.opened(&m)
	if r.turn {
		if c := r.call(id); c != nil {
			c.started, c.nullStart = true, args != nil && args[0] == 'n'
		}
	}
	d.out.toolStarted = otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: name, Args: args}}
	d.emit(&d.out.toolStarted)
	d.emitKept(m, "ToolExecutionStart")
}

func (d *Decoder) toolProgress(f *fields, m otelagent.Meta, name string) {
	id, tool := d.toolHead(f)
	if f.wrong != nil {
		return
	}
	if m.Run == "" {
		m.Session, m.Run = d.runs.place()
		d.emitOther(m, name, d.ev.raw)
		return
	}
	d.in(&m)
	d.out.toolProgressed = otelagent.ToolProgressed{Meta: m, CallID: id, Name: tool, Type: name, Body: d.ev.raw}
	d.emit(&d.out.toolProgressed)
	// Unknown keys are in the body.
}

func (d *Decoder) toolEnd(f *fields, m otelagent.Meta) {
	id, name := d.toolHead(f)
	result := d.get(kResult)
	isError := f.flag("is_error", d.get(kIsError))
	child := f.id("child_loop_id", d.get(kChildLoopID))
	var content []byte
	var inner string
	if result != nil && result[0] == '{' {
		f.object("result", result, func(key, value []byte) {
			switch string(key) {
			case "content":
				content = value
			case "child_loop_id":
				inner = d.lenient(value)
			}
		})
	}
	if f.wrong != nil {
		return
	}
	if inner != "" {
		if child != "" && child != inner {
			d.keep(kChildLoopID)
		}
		child = inner // the one that phi-core's recorder reads
	}
	r := d.in(&m)
	e := &d.out.toolEnded
	*e = otelagent.ToolEnded{CallID: id, Name: name}
	e.Result, e.ChildRunID, e.Outcome = result, child, spans.OutcomeOK
	if child != "" {
		e.ChildSessionID = d.runs.sessionOf(child)
		d.runs.last = r
	}
	d.emitKept(m, "ToolExecutionEnd")
	c := r.calls[id]
	if isError != nil && *isError {
		e.Outcome = spans.OutcomeError
		e.Error = contentText(content)
		switch {
		case e.Error == textSkipped && (c == nil || !c.started || c.nullStart):
			e.Outcome = spans.OutcomeSkipped
		case e.Error == textCancelled:
			e.Outcome = spans.OutcomeCancelled
		case name == bashTool && strings.HasPrefix(e.Error, textDenyPattern):
			e.Outcome = spans.OutcomeDenied
			_, pattern, _ := strings.Cut(e.Error, "'")
			pattern, _, _ = strings.Cut(pattern, "'. This pattern is denied")
			d.emitPermission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Source: sourceDenyPattern, Pattern: pattern,
				Reason: e.Error})
		case name == bashTool && strings.HasPrefix(e.Error, textNotConfirmed):
			e.Outcome = spans.OutcomeDenied
			d.emitPermission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Source: sourceConfirm, Reason: e.Error})
		}
	}
	if c != nil {
		c.started = true // its start may be on a line that could not be read
	}
	e.Meta = m
	d.emit(e)
}

func (d *Decoder) inputRejected(f *fields, m otelagent.Meta) {
	reason := f.text("reason", d.get(kReason))
	if f.wrong != nil {
		return
	}
	d.in(&m)
	d.emitPermission(m, otelagent.PermissionEvaluation{Target: spans.PermissionTargetInput, Source: sourceInputFilter, Reason: reason})
	d.emitKept(m, "InputRejected")
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
		e.SessionID = d.runs.sessionOf(e.Members[0])
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
		m.Session = d.runs.sessionOf(e.SelectedID)
	}
	rule := spans.UsageRuleIncludesCache
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
