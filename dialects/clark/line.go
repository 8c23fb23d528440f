package clark

import (
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/shell"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// A shape is which keys an event of one variant has, and those without which it means nothing. Record is the kind of
// its TrajectoryRecord, which has the keys of more as well.
type shape struct{ keys, needed, record, more string }

// shapes are the variants by the type of their event.
var shapes = map[string]shape{
	"agent_start":              {},
	"run_identified":           {"identity", "identity", "run_started", ""},
	"agent_end":                {"messages", "", "run_ended", "new_messages outcome"},
	"turn_start":               {record: "turn_started"},
	"turn_end":                 {"message tool_results", "", "turn_ended", "assistant"},
	"message_start":            {keys: "message"},
	"message_update":           {keys: "partial chunk"},
	"message_end":              {"message", "message", "message_appended", ""},
	"tool_execution_start":     {"tool_call_id tool_name args", "tool_call_id", "tool_started", ""},
	"tool_execution_update":    {keys: "tool_call_id tool_name partial", needed: "tool_call_id"},
	"tool_execution_end":       {"tool_call_id tool_name result is_error", "tool_call_id", "tool_ended", ""},
	"output_tokens_escalation": {"attempt prev_cap new_cap", "", "output_tokens_escalation", ""},
	"context_transform_applied": {"iteration plugin before after", "", "context_transform_applied",
		"before_count after_count"},
	"tool_gate_applied": {"iteration plugin allow", "", "tool_gate_applied", ""},
	"tool_gate_conflict_resolved": {"iteration plugins chosen_plugin allow reason", "", "tool_gate_conflict_resolved",
		""},
	"provider_request_prepared": {"iteration model_id system_prompt messages tools temperature max_output_tokens", "",
		"provider_request_prepared", "system_prompt_chars message_count tool_count"},
}

// holds is the type of the keys of all shapes, as rawjson.KindOf names it; others may have any value.
var holds = func() map[string]string {
	types := map[string]string{}
	for kind, keys := range map[string]string{
		"an object": "identity message assistant chunk result",
		"an array":  "messages new_messages tool_results before after allow plugins tools",
		"a string":  "tool_call_id tool_name plugin chosen_plugin reason model_id system_prompt outcome",
		"a number": "iteration attempt prev_cap new_cap temperature max_output_tokens before_count after_count " +
			"system_prompt_chars message_count tool_count",
		"a boolean": "is_error",
	} {
		for _, key := range strings.Fields(keys) {
			types[key] = kind
		}
	}
	return types
}()

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

// parse reads a line of s. It returns nil when it rejects it. Problems of the line that it returns concern parts that
// are left out.
func parse(s *shell.Shell, in input.Line) *line {
	o := s.Object(in)
	if o == nil {
		return nil
	}
	l := &line{Object: o, outer: o, raw: in.Text, text: in.Text, number: s.Number, seq: s.Seq, arrived: s.Arrived,
		sequence: -1}
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

// check reads all members that the variant has, so that the rest are those it does not have. It reports whether their
// types are right.
func (l *line) check() bool {
	if l.variant == "" {
		return true
	}
	if l.variant == "provider_request_prepared" && !l.record {
		l.Use(append([]string{"type", "iteration"}, envelopeKeys...)...)
		if l.payload = l.Rest(); l.payload == nil {
			l.payload = []byte("{}")
		}
	}
	s := shapes[l.variant]
	keys := strings.Fields(s.keys)
	if l.record {
		keys = append(keys, strings.Fields(s.more)...)
	}
	ok := l.Require(strings.Fields(s.needed)...)
	twice := l.Twice()
	for _, key := range keys {
		value, want := l.Raw(key), holds[key]
		switch {
		case key == twice:
			l.Fail(key, "stands there twice")
			ok = false
		case value != nil && want != "" && rawjson.KindOf(value) != want:
			l.Fail(key, "want "+want+", got "+rawjson.KindOf(value))
			ok = false
		}
	}
	return ok
}

// readEnvelope reads what an envelope or record has around the event.
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

// hint is a time that a line has for its run: that of its first message, or, where the run continues earlier messages,
// the latest of those, which it did not begin before.
func (l *line) hint() otelagent.Moment {
	if t := l.msg.time(); !t.IsZero() {
		return otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
	}
	at := otelagent.Moment{Source: spans.TimeSourceBound}
	if l.payload != nil {
		for _, raw := range l.List("messages") {
			if t := messageOf(raw).time(); t.After(at.Time) {
				at.Time = t
			}
		}
	}
	return at
}
