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

// A shape lists the keys of an event of one variant. Record is the kind of its TrajectoryRecord, which has the keys of
// more as well.
type shape struct{ keys, record, more string }

// shapes are the variants by the type of their event.
var shapes = map[string]shape{
	"agent_start":                 {},
	"run_identified":              {"identity", "run_started", ""},
	"agent_end":                   {"messages", "run_ended", "new_messages outcome"},
	"turn_start":                  {"", "turn_started", ""},
	"turn_end":                    {"message tool_results", "turn_ended", "assistant"},
	"message_start":               {"message", "", ""},
	"message_update":              {"partial chunk", "", ""},
	"message_end":                 {"message", "message_appended", ""},
	"tool_execution_start":        {"tool_call_id tool_name args", "tool_started", ""},
	"tool_execution_update":       {"tool_call_id tool_name partial", "", ""},
	"tool_execution_end":          {"tool_call_id tool_name result is_error", "tool_ended", ""},
	"output_tokens_escalation":    {"attempt prev_cap new_cap", "output_tokens_escalation", ""},
	"context_transform_applied":   {"iteration plugin before after", "context_transform_applied", "before_count after_count"},
	"tool_gate_applied":           {"iteration plugin allow", "tool_gate_applied", ""},
	"tool_gate_conflict_resolved": {"iteration plugins chosen_plugin allow reason", "tool_gate_conflict_resolved", ""},
	"provider_request_prepared": {"iteration model_id system_prompt messages tools temperature max_output_tokens",
		"provider_request_prepared", "system_prompt_chars message_count tool_count"},
}

// needed reports whether an event of a variant means nothing without a key.
func needed(variant, key string) bool {
	return key == "identity" || key == "tool_call_id" || variant == "message_end"
}

// variantOf returns the type of the event that a record of a kind stands for; empty for an unknown kind.
func variantOf(kind string) string {
	for variant, s := range shapes {
		if s.record == kind && kind != "" {
			return variant
		}
	}
	return ""
}

// holds returns the type of the value of a key, as rawjson.KindOf names it; empty where any is allowed.
func holds(key string) string {
	switch key {
	case "identity", "message", "assistant", "chunk", "result":
		return "an object"
	case "messages", "new_messages", "tool_results", "before", "after", "allow", "plugins", "tools":
		return "an array"
	case "is_error":
		return "a boolean"
	case "iteration", "attempt", "prev_cap", "new_cap", "temperature", "max_output_tokens", "before_count",
		"after_count", "system_prompt_chars", "message_count", "tool_count":
		return "a number"
	case "args", "partial":
		return ""
	}
	return "a string"
}

// An envelope, or an event itself, may have these keys.
var (
	timeKeys     = []string{"recorded_at_unix_ms", "ts", "time", "timestamp"}
	sequenceKeys = []string{"seq", "sequence"}
	streamKeys   = []string{"run_id", "run", "stream"}
)

// line is one line: an Object of the event, or of the payload of a record.
type line struct {
	*object.Object
	outer   *object.Object // the envelope or record; the event itself where it is bare
	raw     []byte         // the event as it is spelled; of a record of an unknown kind the whole line
	variant string         // type of the event; empty where it is unknown
	name    string         // type of the event, or kind of the record
	record  bool
	payload []byte // of a request

	time     time.Time
	sequence int64  // -1: none
	stream   string // the name of the run or stream in the envelope; the run of a record
	named    bool   // stream is the id of a run

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
	l := &line{Object: o, outer: o, raw: in.Text, sequence: -1}
	ok := l.open()
	if ok {
		l.readEnvelope()
		ok = l.check()
	}
	if !ok {
		s.RejectProblems(l.label(), o)
		return nil
	}
	if l.msgKey = "message"; l.record && l.Has("assistant") {
		l.msgKey = "assistant"
	}
	if l.variant != "" {
		l.msg = messageOf(l.Raw(l.msgKey))
	}
	return l
}

// label returns the name of the line for errors. A name that is not clark-agent's is content.
func (l *line) label() string {
	if l.variant == "" {
		return ""
	}
	return l.name
}

// known returns the type of an event if it is one of clark-agent's.
func known(name string) string {
	if _, ok := shapes[name]; ok {
		return name
	}
	return ""
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
		if rawjson.KindOf(raw) != "an object" {
			continue
		}
		inside := l.outer.Object(key)
		if name, ok := rawjson.String(inside.Raw("type")); ok {
			l.Object, l.raw, l.name, l.variant = inside, raw, name, known(name)
			return true
		}
		if kind, ok := rawjson.String(inside.Raw("kind")); ok && key == "payload" {
			l.Object, l.name, l.variant, l.record = inside, kind, variantOf(kind), true
			if l.variant != "" {
				l.raw = raw
			}
			return true
		}
	}
	l.Fail("type", "missing, want a string, here or in event, payload or data")
	return false
}

// readEnvelope reads what stands around the event.
func (l *line) readEnvelope() {
	for _, key := range timeKeys {
		l.readTime(l.outer, key)
	}
	l.readTime(l.Object, input.Key)
	for _, key := range sequenceKeys {
		if n := l.outer.Count(key); n != nil && l.sequence < 0 {
			l.sequence = *n
		}
	}
	for _, key := range streamKeys {
		if s := l.outer.String(key); l.stream == "" && s != "" {
			l.stream, l.named = s, key != "stream"
		}
	}
}

func (l *line) readTime(o *object.Object, key string) {
	v := o.Raw(key)
	if v == nil || !l.time.IsZero() {
		return
	}
	var ok bool
	if l.time, ok = input.Time(v); !ok {
		l.time = time.Time{}
		o.Fail(key, "want a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970")
	}
}

// check reads all members that the variant has, so that the rest are those it does not have. It reports whether their
// types are right.
func (l *line) check() bool {
	if l.variant == "provider_request_prepared" && !l.record {
		l.Use("type", "iteration")
		for _, keys := range [][]string{timeKeys, sequenceKeys, streamKeys} {
			l.Use(keys...)
		}
		if l.payload = l.Rest(); l.payload == nil {
			l.payload = []byte("{}")
		}
	}
	s := shapes[l.variant]
	keys := strings.Fields(s.keys)
	if l.record {
		keys = append(keys, strings.Fields(s.more)...)
	}
	ok, twice := true, l.Twice()
	for _, key := range keys {
		value, want := l.Raw(key), holds(key)
		problem := ""
		switch {
		case key == twice:
			problem = "stands there twice"
		case value == nil && needed(l.variant, key):
			problem = "missing"
		case value != nil && want != "" && rawjson.KindOf(value) != want:
			problem = "want " + want + ", got " + rawjson.KindOf(value)
		default:
			continue
		}
		l.Fail(key, problem)
		ok = false
	}
	return ok
}

// hint returns the time at which the run of l, its first line, began at the latest; zero where that is not known.
func (l *line) hint() (at otelagent.Moment) {
	if t := l.msg.time(); !t.IsZero() {
		at = otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
	}
	if !l.time.IsZero() {
		at = otelagent.Moment{Time: l.time, Source: spans.TimeSourceBound}
	}
	return at
}
