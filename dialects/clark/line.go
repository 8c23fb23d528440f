package clark

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// key numbers the keys at the top of events, records and envelopes.
type key uint8

const (
	kType key = iota
	kIdentity
	kMessages
	kMessage
	kToolResults
	kPartial
	kChunk
	kToolCallID
	kToolName
	kArgs
	kResult
	kIsError
	kAttempt
	kPrevCap
	kNewCap
	kIteration
	kPlugin
	kBefore
	kAfter
	kAllow
	kPlugins
	kChosenPlugin
	kReason
	kModelID
	kSystemPrompt
	kTools
	kTemperature
	kMaxOutputTokens

	// of the payload of records only
	kKind
	kOutcome
	kBeforeCount
	kAfterCount
	kSystemPromptChars
	kMessageCount
	kToolCount

	// of envelopes, and of events that carry them beside their own
	kTS
	kTime
	kTimestamp
	kSeq
	kSequence
	kRunID
	kRun
	kStream
	kEvent
	kPayload
	kData

	// of records only
	kSchemaVersion
	kParentRunID
	kDepth
	kRecordedAt
	keys
)

var keyNames = [keys]string{
	"type", "identity", "messages", "message", "tool_results", "partial", "chunk", "tool_call_id", "tool_name", "args", "result", "is_error",
	"attempt", "prev_cap", "new_cap", "iteration", "plugin", "before", "after", "allow", "plugins", "chosen_plugin", "reason", "model_id",
	"system_prompt", "tools", "temperature", "max_output_tokens",
	"kind", "outcome", "before_count", "after_count", "system_prompt_chars", "message_count", "tool_count",
	"ts", "time", "timestamp", "seq", "sequence", "run_id", "run", "stream", "event", "payload", "data",
	"schema_version", "parent_run_id", "depth", "recorded_at_unix_ms",
}

var keyOf = func() map[string]key {
	m := make(map[string]key, keys)
	for k, name := range keyNames {
		m[name] = key(k)
	}
	// Names that records have for what events have too.
	m["assistant"], m["new_messages"] = kMessage, kMessages
	return m
}()

type keySet uint64

func setOf(ks ...key) (s keySet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

// envelopeKeys may stand beside an event or at the top of an event.
var envelopeKeys = setOf(kTS, kTime, kTimestamp, kSeq, kSequence, kRunID, kRun, kStream)

// variant numbers what an event or record tells.
type variant uint8

const (
	unknownVariant variant = iota
	vAgentStart
	vRunIdentified
	vAgentEnd
	vTurnStart
	vTurnEnd
	vMessageStart
	vMessageUpdate
	vMessageEnd
	vToolStart
	vToolUpdate
	vToolEnd
	vEscalation
	vTransform
	vGate
	vConflict
	vRequest
)

// jsonType is what a value must be.
type jsonType uint8

const (
	anything jsonType = iota
	object
	array
	text
	number
	boolean
)

var typeNames = [...]string{anything: "any value", object: "an object", array: "an array", text: "a string", number: "a number", boolean: "a boolean"}

// field is a key of a variant. One that is not needed may be absent or null.
type field struct {
	key    key
	holds  jsonType
	needed bool
}

// variants names each variant and its keys, as an event has them. Record is its name as the payload of a TrajectoryRecord, and more
// are the keys that only that has.
var variants = [...]struct {
	name   string
	fields []field
	record string
	more   []field
}{
	unknownVariant: {},
	vAgentStart:    {name: "agent_start"},
	vRunIdentified: {"run_identified", []field{{kIdentity, object, true}}, "run_started", nil},
	vAgentEnd:      {"agent_end", []field{{kMessages, array, false}}, "run_ended", []field{{kOutcome, text, false}}},
	vTurnStart:     {name: "turn_start", record: "turn_started"},
	vTurnEnd:       {"turn_end", []field{{kMessage, object, false}, {kToolResults, array, false}}, "turn_ended", nil},
	vMessageStart:  {name: "message_start", fields: []field{{kMessage, object, false}}},
	vMessageUpdate: {name: "message_update", fields: []field{{kPartial, object, false}, {kChunk, object, false}}},
	vMessageEnd:    {"message_end", []field{{kMessage, object, true}}, "message_appended", nil},
	vToolStart:     {"tool_execution_start", []field{{kToolCallID, text, true}, {kToolName, text, false}, {kArgs, anything, false}}, "tool_started", nil},
	vToolUpdate:    {name: "tool_execution_update", fields: []field{{kToolCallID, text, true}, {kToolName, text, false}, {kPartial, anything, false}}},
	vToolEnd: {"tool_execution_end", []field{{kToolCallID, text, true}, {kToolName, text, false}, {kResult, object, false}, {kIsError, boolean, false}},
		"tool_ended", nil},
	vEscalation: {"output_tokens_escalation", []field{{kAttempt, number, false}, {kPrevCap, number, false}, {kNewCap, number, false}}, "output_tokens_escalation", nil},
	vTransform: {"context_transform_applied", []field{{kIteration, number, false}, {kPlugin, text, false}, {kBefore, array, false}, {kAfter, array, false}},
		"context_transform_applied", []field{{kBeforeCount, number, false}, {kAfterCount, number, false}}},
	vGate: {"tool_gate_applied", []field{{kIteration, number, false}, {kPlugin, text, false}, {kAllow, array, false}}, "tool_gate_applied", nil},
	vConflict: {"tool_gate_conflict_resolved", []field{{kIteration, number, false}, {kPlugins, array, false}, {kChosenPlugin, text, false}, {kAllow, array, false},
		{kReason, text, false}}, "tool_gate_conflict_resolved", nil},
	vRequest: {"provider_request_prepared", []field{{kIteration, number, false}, {kModelID, text, false}, {kSystemPrompt, text, false}, {kMessages, array, false},
		{kTools, array, false}, {kTemperature, number, false}, {kMaxOutputTokens, number, false}},
		"provider_request_prepared", []field{{kSystemPromptChars, number, false}, {kMessageCount, number, false}, {kToolCount, number, false}}},
}

// byName and byKind find a variant by the name of the event and of the record.
var byName, byKind = func() (events, records map[string]variant) {
	events, records = map[string]variant{}, map[string]variant{}
	for v := range variants[1:] {
		known := &variants[v+1]
		events[known.name] = variant(v + 1)
		if known.record != "" {
			records[known.record] = variant(v + 1)
		}
	}
	return events, records
}()

// member is one member of an object as it is spelled.
type member struct{ key, value []byte }

// members are the members of one object: the known ones by key, the others in order. All of it points into the line.
type members struct {
	raw    []byte
	has    keySet
	twice  string
	values [keys][]byte
	all    []member
}

// parse takes the object raw apart and validates it.
func (m *members) parse(c *rawjson.Cursor, raw []byte) *input.LineError {
	m.raw, m.has, m.twice, m.all = raw, 0, "", m.all[:0]
	c.Reset(raw, maxDepth)
	if !c.Open('{') {
		c.Value()
		if err := c.End(); err != nil {
			return syntax(err)
		}
		return &input.LineError{Reason: "want an object, got " + rawjson.KindOf(raw)}
	}
	for c.More('}') {
		spelled := c.RawKey()
		if spelled == nil {
			break
		}
		k, known := keyOf[string(spelled[1:len(spelled)-1])]
		if !known && !c.Plain() {
			if name, _ := rawjson.String(spelled); name != "" {
				k, known = keyOf[name]
			}
		}
		value := c.Value()
		m.all = append(m.all, member{spelled, value})
		if !known {
			continue
		}
		if m.has&(1<<k) != 0 {
			m.twice = keyNames[k]
		}
		m.has |= 1 << k
		m.values[k] = value
	}
	if err := c.End(); err != nil {
		return syntax(err)
	}
	return nil
}

// get returns the value of a key; nil when it is not there or null.
func (m *members) get(k key) []byte {
	if m.has&(1<<k) == 0 || m.values[k][0] == 'n' {
		return nil
	}
	return m.values[k]
}

// line is one line taken apart. All of it points into the line.
type line struct {
	place
	c       rawjson.Cursor
	outer   members // the envelope or record; not used by bare events
	inner   members // the event, or the payload of a record
	variant variant
	name    string // type of the event, kind of the record

	enveloped, record bool
	matched           bool   // its record was met
	owner             string // run of its record, where that came right behind it

	// What the envelope or record says.
	time     time.Time
	sequence int64  // -1: none
	stream   string // by which name the envelope calls the run or stream; the run of a record
	parent   string // of a record
	named    bool   // stream is the id of a run

	msg   message            // of the event, where it has one
	wrong []*input.LineError // with what could be left out
}

func (l *line) get(k key) []byte { return l.inner.get(k) }

// parse takes raw apart.
func (l *line) parse(raw []byte) *input.LineError {
	l.wrong = l.wrong[:0]
	if err := rawjson.ValidUTF8(raw); err != nil {
		return syntax(err)
	}
	if bad := l.inner.parse(&l.c, raw); bad != nil {
		return bad
	}
	envelope := &l.inner
	l.record, l.enveloped, l.matched, l.owner = false, false, false, ""
	typ := l.inner.get(kType)
	if typ == nil || typ[0] != '"' {
		l.outer, l.inner, l.enveloped = l.inner, l.outer, true
		envelope = &l.outer
		if bad := l.open(typ); bad != nil {
			return bad
		}
	}
	if bad := l.know(); bad != nil {
		return bad
	}
	l.readEnvelope(envelope)
	l.msg = message{}
	if m := l.get(kMessage); m != nil {
		l.msg = messageOf(m)
	}
	return nil
}

// open parses what is inside an envelope or record.
func (l *line) open(typ []byte) *input.LineError {
	if typ != nil {
		return &input.LineError{Field: "type", Reason: "want a string, got " + rawjson.KindOf(typ)}
	}
	for _, k := range []key{kEvent, kPayload, kData} {
		inside := l.outer.get(k)
		if inside == nil || inside[0] != '{' {
			continue
		}
		if bad := l.inner.parse(&l.c, inside); bad != nil {
			return bad
		}
		if t := l.inner.get(kType); t != nil && t[0] == '"' {
			return nil
		}
		if t := l.inner.get(kKind); k == kPayload && t != nil && t[0] == '"' {
			l.record = true
			return nil
		}
	}
	return &input.LineError{Field: "type", Reason: "missing, want a string, here or in event, payload or data"}
}

// know finds the variant and checks the types of its values.
func (l *line) know() *input.LineError {
	kind := kType
	table := byName
	if l.record {
		kind, table = kKind, byKind
	}
	spelled := l.get(kind)
	name, _ := rawjson.String(spelled)
	l.variant = table[name]
	if l.variant == unknownVariant {
		l.name = name
		return nil
	}
	v := &variants[l.variant]
	l.name = v.name
	if l.record {
		l.name = v.record
	}
	if l.inner.twice != "" {
		return &input.LineError{Type: l.name, Field: l.inner.twice, Reason: "stands there twice"}
	}
	for i := range v.fields {
		if bad := l.check(&v.fields[i]); bad != nil {
			return bad
		}
	}
	for i := range v.more {
		if bad := l.check(&v.more[i]); l.record && bad != nil {
			return bad
		}
	}
	return nil
}

func (l *line) check(f *field) *input.LineError {
	value := l.get(f.key)
	switch {
	case value == nil && !f.needed:
		return nil
	case value == nil:
		return &input.LineError{Type: l.name, Field: keyNames[f.key], Reason: "missing, want " + typeNames[f.holds]}
	case f.holds != anything && typeNames[f.holds] != rawjson.KindOf(value):
		return &input.LineError{Type: l.name, Field: keyNames[f.key], Reason: "want " + typeNames[f.holds] + ", got " + rawjson.KindOf(value)}
	}
	return nil
}

// readEnvelope reads what an envelope or record says of the event.
func (l *line) readEnvelope(m *members) {
	l.time, l.sequence, l.stream, l.parent, l.named = time.Time{}, -1, "", "", false
	if m.has&(envelopeKeys|1<<kRecordedAt) == 0 {
		l.readTime(&l.inner, kTS)
		return
	}
	if l.record {
		l.readTime(m, kRecordedAt)
	}
	for _, k := range []key{kTS, kTime, kTimestamp} {
		l.readTime(m, k)
	}
	l.readTime(&l.inner, kTS)
	for _, k := range []key{kSeq, kSequence} {
		if v := m.get(k); v != nil && l.sequence < 0 {
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 0 {
				l.sequence = n
			} else {
				l.miss(keyNames[k], "want an integer that is not negative")
			}
		}
	}
	for _, k := range []key{kRunID, kRun, kStream} {
		v := m.get(k)
		if v == nil || l.stream != "" {
			continue
		}
		if s, ok := rawjson.String(v); ok {
			l.stream, l.named = s, k != kStream
		} else {
			l.miss(keyNames[k], "want a string, got "+rawjson.KindOf(v))
		}
	}
	if v := m.get(kParentRunID); v != nil {
		l.parent, _ = rawjson.String(v)
	}
}

func (l *line) readTime(m *members, k key) {
	v := m.get(k)
	if v == nil || !l.time.IsZero() {
		return
	}
	t, ok := input.Time(v)
	if !ok {
		l.miss(keyNames[k], "want a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970")
		return
	}
	l.time = t
}

// variantName is name where that is one of ours: any other is the producer's, and no part of an error.
func (l *line) variantName() string {
	if l.variant == unknownVariant {
		return ""
	}
	return l.name
}

// miss notes a part of the line that is left out because it is wrong.
func (l *line) miss(path, reason string) {
	l.wrong = append(l.wrong, &input.LineError{Field: path, Reason: reason})
}

// extras returns the members that the variant does not have, and are not the envelope's, as an object; nil without any.
func (l *line) extras() (object []byte) {
	if l.unknown() == 0 {
		return nil
	}
	object = []byte{'{'}
	for _, m := range l.inner.all {
		if l.known(m.key) {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, m.key...), ':'), m.value...)
	}
	return append(object, '}')
}

// unknown returns how many members extras returns.
func (l *line) unknown() (n int64) {
	for _, m := range l.inner.all {
		if !l.known(m.key) {
			n++
		}
	}
	return n
}

// known reports whether the event has a member of that key.
func (l *line) known(spelled []byte) bool {
	k, known := keyOf[string(spelled[1:len(spelled)-1])]
	if !known {
		return false
	}
	switch {
	case k == kTS, k == kType && !l.record, k == kKind && l.record:
		return true
	case !l.enveloped && envelopeKeys&(1<<k) != 0:
		return true
	}
	v := &variants[l.variant]
	return holds(v.fields, k) || l.record && holds(v.more, k)
}

func holds(fields []field, k key) bool {
	for i := range fields {
		if fields[i].key == k {
			return true
		}
	}
	return false
}

// value is get that returns null as it stands there.
func (m *members) value(k key) []byte {
	if m.has&(1<<k) == 0 {
		return nil
	}
	return m.values[k]
}
