package clark

import (
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/object"
	"github.com/otelagent/otelagent/dialects/shell"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// A field is a key of a variant. One that is not needed may be absent or null.
type field struct {
	key    string
	holds  string // as rawjson.KindOf names it; empty for any value
	needed bool
}

// A shape is what an event of one variant has. Record is the kind of its TrajectoryRecord, which has the keys of more as well.
type shape struct {
	fields []field
	record string
	more   []field
}

const (
	anObject, anArray   = "an object", "an array"
	aString, aNumber    = "a string", "a number"
	aBoolean, iteration = "a boolean", "iteration"
)

var (
	callFields = []field{{"tool_call_id", aString, true}, {"tool_name", aString, false}}
	conflict   = []field{
		{iteration, aNumber, false}, {"plugins", anArray, false}, {"chosen_plugin", aString, false}, {"allow", anArray, false},
		{"reason", aString, false},
	}
	request = []field{
		{iteration, aNumber, false}, {"model_id", aString, false}, {"system_prompt", aString, false}, {"messages", anArray, false},
		{"tools", anArray, false}, {"temperature", aNumber, false}, {"max_output_tokens", aNumber, false},
	}
	requestCounts = []field{{"system_prompt_chars", aNumber, false}, {"message_count", aNumber, false}, {"tool_count", aNumber, false}}
	transform     = []field{{iteration, aNumber, false}, {"plugin", aString, false}, {"before", anArray, false}, {"after", anArray, false}}
)

// shapes are the variants by the type of their event.
var shapes = map[string]shape{
	"agent_start":    {},
	"run_identified": {[]field{{"identity", anObject, true}}, "run_started", nil},
	"agent_end": {[]field{{"messages", anArray, false}}, "run_ended",
		[]field{{"new_messages", anArray, false}, {"outcome", aString, false}}},
	"turn_start": {record: "turn_started"},
	"turn_end": {[]field{{"message", anObject, false}, {"tool_results", anArray, false}}, "turn_ended",
		[]field{{"assistant", anObject, false}}},
	"message_start":  {fields: []field{{"message", anObject, false}}},
	"message_update": {fields: []field{{"partial", anObject, false}, {"chunk", anObject, false}}},
	"message_end":    {[]field{{"message", anObject, true}}, "message_appended", nil},

	"tool_execution_start":  {append(callFields[:2:2], field{"args", "", false}), "tool_started", nil},
	"tool_execution_update": {append(callFields[:2:2], field{"partial", "", false}), "", nil},
	"tool_execution_end":    {append(callFields[:2:2], field{"result", anObject, false}, field{"is_error", aBoolean, false}), "tool_ended", nil},

	"output_tokens_escalation": {[]field{{"attempt", aNumber, false}, {"prev_cap", aNumber, false}, {"new_cap", aNumber, false}},
		"output_tokens_escalation", nil},
	"context_transform_applied": {transform, "context_transform_applied",
		[]field{{"before_count", aNumber, false}, {"after_count", aNumber, false}}},
	"tool_gate_applied": {[]field{{iteration, aNumber, false}, {"plugin", aString, false}, {"allow", anArray, false}},
		"tool_gate_applied", nil},
	"tool_gate_conflict_resolved": {conflict, "tool_gate_conflict_resolved", nil},
	"provider_request_prepared":   {request, "provider_request_prepared", requestCounts},
}

// variantOf returns the type of the event that a record of a kind stands for.
var variantOf = func() map[string]string {
	kinds := map[string]string{}
	for variant, s := range shapes {
		if s.record != "" {
			kinds[s.record] = variant
		}
	}
	return kinds
}()

// envelopeKeys may stand around an event, or at its top.
var envelopeKeys = []string{"ts", "time", "timestamp", "seq", "sequence", "run_id", "run", "stream"}

// line is one line: an Object of the event, or of the payload of a record.
type line struct {
	*object.Object
	outer   *object.Object // the envelope or record; the event itself where it is bare
	raw     []byte         // the event as it is spelled
	text    []byte         // the line
	variant string         // type of the event; empty where it is unknown
	name    string         // type of the event, or kind of the record
	record  bool
	payload []byte // of a request

	number, seq int64
	arrived     time.Time

	// The envelope or record has these.
	time     time.Time
	sequence int64  // -1: none
	stream   string // by which name the envelope calls the run or stream; the run of a record
	named    bool   // stream is the id of a run
	parent   string // of a record

	msg    message // of the event, where it has one
	msgKey string
}

// parse reads a line of s. It returns nil when it rejects it. Problems of the line that it returns concern parts that are left out.
func parse(s *shell.Shell, in input.Line) *line {
	o := s.Object(in)
	if o == nil {
		return nil
	}
	l := &line{Object: o, outer: o, raw: in.Text, text: in.Text, number: s.Number, seq: s.Seq, arrived: s.Arrived, sequence: -1}
	ok := l.open()
	if ok {
		l.readEnvelope()
		ok = l.check()
	}
	if !ok {
		s.RejectProblems(l.known(), o)
		return nil
	}
	if l.msgKey = "message"; l.record && l.Has("assistant") {
		l.msgKey = "assistant"
	}
	if _, has := shapes[l.variant]; has {
		l.msg = messageOf(l.Raw(l.msgKey))
	}
	return l
}

// known is name where that is one of clark-agent's: any other is the producer's, and no part of an error.
func (l *line) known() string {
	if l.variant == "" {
		return ""
	}
	return l.name
}

// open finds the event.
func (l *line) open() bool {
	if l.Has("type") {
		l.name = l.String("type")
		l.variant = known(l.name)
		return l.Failed() == 0
	}
	for _, key := range []string{"event", "payload", "data"} {
		raw := l.outer.Raw(key)
		if raw == nil || raw[0] != '{' {
			continue
		}
		inside := l.outer.Object(key)
		if name, ok := rawjson.String(inside.Raw("type")); ok {
			l.Object, l.raw, l.name, l.variant = inside, raw, name, known(name)
			return true
		}
		if kind, ok := rawjson.String(inside.Raw("kind")); ok && key == "payload" {
			l.Object, l.raw, l.name, l.variant, l.record = inside, raw, kind, variantOf[kind], true
			return true
		}
	}
	l.Fail("type", "missing, want a string, here or in event, payload or data")
	return false
}

// known returns the type of an event if it is one of clark-agent's.
func known(name string) string {
	if _, ok := shapes[name]; ok {
		return name
	}
	return ""
}

// check reads all members that the variant has, so that the rest are those it does not have, and reports whether they have the right types.
func (l *line) check() bool {
	s := shapes[l.variant]
	if l.variant == "" {
		return true
	}
	if l.variant == "provider_request_prepared" && !l.record {
		l.Use(append([]string{"type", iteration}, envelopeKeys...)...)
		if l.payload = l.Rest(); l.payload == nil {
			l.payload = []byte("{}")
		}
	}
	fields := s.fields
	if l.record {
		fields = append(fields[:len(fields):len(fields)], s.more...)
	}
	ok := true
	fail := func(key, reason string) { l.Fail(key, reason); ok = false }
	twice := l.Twice()
	for _, f := range fields {
		value := l.Raw(f.key)
		switch {
		case twice == f.key:
			fail(f.key, "stands there twice")
		case value == nil && f.needed:
			fail(f.key, "missing")
		case value != nil && f.holds != "" && rawjson.KindOf(value) != f.holds:
			fail(f.key, "want "+f.holds+", got "+rawjson.KindOf(value))
		}
	}
	return ok
}

// readEnvelope reads what an envelope or record has beside the event.
func (l *line) readEnvelope() {
	if l.record {
		l.readTime(l.outer, "recorded_at_unix_ms")
		l.parent = l.outer.String("parent_run_id")
	}
	for _, key := range envelopeKeys[:3] {
		l.readTime(l.outer, key)
	}
	l.readTime(l.Object, "ts")
	for _, key := range envelopeKeys[3:5] {
		if n := l.outer.Count(key); n != nil && l.sequence < 0 {
			l.sequence = *n
		}
	}
	for _, key := range envelopeKeys[5:] {
		if s := l.outer.String(key); s != "" && l.stream == "" {
			l.stream, l.named = s, key != "stream"
		}
	}
}

func (l *line) readTime(o *object.Object, key string) {
	v := o.Raw(key)
	if v == nil || !l.time.IsZero() {
		return
	}
	t, ok := input.Time(v)
	if !ok {
		o.Fail(key, "want a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970")
		return
	}
	l.time = t
}

// recordable reports whether the trajectory has a record of such a line.
func (l *line) recordable() bool { return shapes[l.variant].record != "" }

// hint is a time that a line has for its run: that of its first message, or, where the run continues earlier messages, the latest of
// those, which it did not begin before.
func (l *line) hint() (at time.Time, bound bool) {
	if t := l.msg.time(); !t.IsZero() || l.variant != "provider_request_prepared" || l.record {
		return t, false
	}
	for _, raw := range l.List("messages") {
		if t := messageOf(raw).time(); t.After(at) {
			at = t
		}
	}
	return at, true
}
