package clark

import (
	"cmp"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// A shape lists the keys of an event of one variant as input.Check takes them. Record is the kind of its
// TrajectoryRecord, which has the keys of more as well.
type shape struct{ keys, record, more string }

// shapes are the variants by the type of their event.
var shapes = map[string]shape{
	"agent_start":              {},
	"run_identified":           {`identity:object!`, "run_started", ""},
	"agent_end":                {`messages:array`, "run_ended", `new_messages:array outcome`},
	"turn_start":               {"", "turn_started", ""},
	"turn_end":                 {`message:object tool_results:array`, "turn_ended", `assistant:object`},
	"message_start":            {`message:object`, "", ""},
	"message_update":           {`partial:any chunk:object`, "", ""},
	"message_end":              {`message:object!`, "message_appended", ""},
	"tool_execution_start":     {`tool_call_id! tool_name args:any`, "tool_started", ""},
	"tool_execution_update":    {`tool_call_id! tool_name partial:any`, "", ""},
	"tool_execution_end":       {`tool_call_id! tool_name result:object is_error:boolean`, "tool_ended", ""},
	"output_tokens_escalation": {`attempt:number prev_cap:number new_cap:number`, "output_tokens_escalation", ""},
	"tool_gate_applied":        {`iteration:number plugin allow:array`, "tool_gate_applied", ""},
	"context_transform_applied": {`iteration:number plugin before:array after:array`, "context_transform_applied",
		`before_count:number after_count:number`},
	"tool_gate_conflict_resolved": {`iteration:number plugins:array chosen_plugin allow:array reason`,
		"tool_gate_conflict_resolved", ""},
	"provider_request_prepared": {
		`iteration:number model_id system_prompt messages:array tools:array temperature:number max_output_tokens:number`,
		"provider_request_prepared", `system_prompt_chars:number message_count:number tool_count:number`},
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

// An envelope, or an event itself, may have these keys.
var (
	timeKeys     = []string{"recorded_at_unix_ms", input.Key, "time", "timestamp"}
	sequenceKeys = []string{"seq", "sequence"}
	streamKeys   = []string{"run_id", "run", "stream"}
)

// line is one line: an Object of the event, or of the payload of a record.
type line struct {
	*object.Object
	outer   *object.Object // the envelope or record; the event itself where it is bare
	raw     []byte         // the event as it is spelled; of a record of an unknown kind the whole line
	variant string         // type of the event; empty where it is unknown, because it is content then
	name    string         // type of the event, or kind of the record
	record  bool
	payload []byte  // of a request
	msg     message // of the event, where it has one

	time   time.Time
	stream string // the name of the run or stream in the envelope; the run of a record
	named  bool   // stream is the id of a run
}

// parse reads a line of s. It returns nil when it rejects it. Problems of the line that it returns concern parts that
// are left out.
func parse(s *input.Shell, in input.Line) *line {
	o := s.Object(in)
	if o == nil {
		return nil
	}
	l := &line{Object: o, outer: o, raw: in.Text}
	if !l.open() || !l.check() {
		s.RejectProblems(l.variant, o)
		return nil
	}
	if key := "message"; l.variant != "" {
		if l.record && l.Has("assistant") {
			key = "assistant"
		}
		l.msg = message{l.Object.Object(key), l.Raw(key)}
	}
	return l
}

// open finds the event, and reads what is around it.
func (l *line) open() bool {
	key, raw := "type", l.raw
	for _, place := range []string{"event", "payload", "data"} {
		if v := l.outer.Raw(place); l.Object == l.outer && !l.Has("type") && rawjson.KindOf(v) == "an object" {
			inside := l.outer.Object(place)
			typed := inside.Has("type")
			if l.record = place == "payload" && !typed && inside.Has("kind"); typed || l.record {
				l.Object, raw = inside, v
			}
		}
	}
	if l.record {
		key = "kind"
	}
	if !l.Has(key) {
		l.Fail(key, "missing, want a string, here or in event, payload or data")
	}
	l.name = l.String(key)
	if l.variant = l.name; l.record {
		l.variant = variantOf(l.name)
	}
	if _, known := shapes[l.variant]; !known {
		l.variant = ""
	}
	if !l.record || l.variant != "" {
		l.raw = raw
	}
	if l.Failed() > 0 {
		return false
	}
	for _, key := range timeKeys {
		l.readTime(l.outer, key)
	}
	l.readTime(l.Object, input.Key)
	l.outer.Use(sequenceKeys...)
	for _, key := range streamKeys {
		if s := l.outer.String(key); l.stream == "" && s != "" {
			l.stream, l.named = s, key != "stream"
		}
	}
	return true
}

func (l *line) readTime(o *object.Object, key string) {
	v := o.Raw(key)
	if v == nil || !l.time.IsZero() {
		return
	}
	if l.time = input.Time(v); l.time.IsZero() {
		o.Fail(key, "want a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since "+
			"1970")
	}
}

// check reads all members that the variant has, so that the rest are those it does not have. It reports whether they
// fit its shape.
func (l *line) check() bool {
	s, failed := shapes[l.variant], l.Failed()
	keys := s.keys
	if l.record {
		keys += " " + s.more
	} else if l.variant == "provider_request_prepared" {
		l.Use("type", "iteration")
		for _, keys := range [][]string{timeKeys, sequenceKeys, streamKeys} {
			l.Use(keys...)
		}
		if l.payload = l.Rest(); l.payload == nil {
			l.payload = []byte("{}")
		}
	}
	input.Check(l.Object, keys)
	return l.Failed() == failed
}

// hint is when the run of l, its first line that can say so, began: at the time of its first message, else when the
// line was written or after the messages that it continues, at the latest.
func (l *line) hint() event.Moment {
	if t := l.msg.event().Time; l.time.IsZero() && !t.IsZero() {
		return event.Moment{Time: t, Source: spans.TimeSourceMessage}
	}
	at := l.time
	if l.payload != nil && at.IsZero() {
		for _, msg := range input.Messages(l.List("messages")) {
			if msg.Time.After(at) {
				at = msg.Time
			}
		}
	}
	return event.Bound(at)
}

// message is an AgentMessage; without raw there is none.
type message struct {
	*object.Object // nil when it is no object
	raw            []byte
}

func messageOf(raw []byte) message { return message{object.Of("", raw), raw} }

func (m message) assistant() bool { return m.String("role") == "assistant" }

// failed reports whether a reply is a failure.
func failed(m message) bool {
	stop := m.String("stop_reason")
	return stop == "error" || stop == "aborted"
}

func (m message) event() event.Message { return input.Message(m.Object, m.raw) }

// intOf returns an integer that is not negative, or none.
func intOf(value []byte, none int64) int64 {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 {
		return n
	}
	return none
}

var usageKeys = event.UsageKeys{Input: "input_tokens", Output: "output_tokens",
	CacheWrite: "cache_creation_input_tokens", CacheRead: "cache_read_input_tokens"}

// usage reads the counts of the message of l. The wire does not say how they count: it is as set, else as the provider
// set is known to count.
func (d *Decoder) usage(l *line) *event.Usage {
	rule := spans.UsageRuleIncludesCache
	if d.Settings.Provider == "anthropic" {
		rule = spans.UsageRuleExcludesCache
	}
	return usageKeys.Read(l.msg.Object.Object("usage"), cmp.Or(d.Settings.Rule, rule))
}
