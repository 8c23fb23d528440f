package phi

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// unknownKeys follows the variant in Other.Type where an event has keys that are not phi-core's.
const unknownKeys = ".unknown_keys"

// line is one AgentEvent, or a record of a ledger that is read like one.
type line struct {
	*object.Object
	name string // its variant
	raw  []byte // as it is spelled
	m    otelagent.Meta
}

// bad reports whether the line has problems. A variant returns at once then: it must not change what is remembered.
func (l *line) bad() bool { return l.Failed() > 0 }

// variant is one kind of AgentEvent.
type variant struct {
	// read returns the events that a line gives, and sets the session of l.m.
	read func(d *Decoder, l *line) []otelagent.Event
	// ends says that it ends a span: unknown keys are kept on that span, so they go before its events.
	ends bool
	// untimed variants have no timestamp, global ones no loop.
	untimed, global bool
}

var variants = map[string]variant{
	"AgentStart":          {read: (*Decoder).agentStart},
	"AgentEnd":            {read: (*Decoder).agentEnd, ends: true},
	"TurnStart":           {read: (*Decoder).turnStart},
	"TurnRequest":         {read: (*Decoder).turnRequest},
	"TurnEnd":             {read: (*Decoder).turnEnd, ends: true},
	"MessageStart":        {read: (*Decoder).messageStart, untimed: true},
	"MessageUpdate":       {read: (*Decoder).messageUpdate, untimed: true},
	"MessageEnd":          {read: (*Decoder).messageEnd, untimed: true},
	"ToolExecutionStart":  {read: (*Decoder).toolStart, untimed: true},
	"ToolExecutionUpdate": {read: (*Decoder).toolProgress, untimed: true},
	"ProgressMessage":     {read: (*Decoder).toolProgress, untimed: true},
	"ToolExecutionEnd":    {read: (*Decoder).toolEnd, ends: true, untimed: true},
	"InputRejected":       {read: (*Decoder).inputRejected, untimed: true},
	"ParallelLoopStart":   {read: (*Decoder).parallelStart, global: true},
	"ParallelLoopEnd":     {read: (*Decoder).parallelEnd, ends: true, global: true},
	"CompactionStarted":   {read: (*Decoder).compactionStarted},
	"CompactionEnded":     {read: (*Decoder).compactionEnded, ends: true},
	"PrunApplied":         {read: (*Decoder).prunApplied, ends: true},
	"RevertApplied":       {read: (*Decoder).revertApplied, ends: true},
}

// event reads one AgentEvent, which is spelled raw. Stamp is the time that is stated around it.
func (d *Decoder) event(o *object.Object, raw []byte, stamp time.Time) {
	if at, ok := input.Time(o.Raw(input.Key)); ok {
		stamp = at
	} else {
		o.Keep(input.Key)
	}
	o.Require("type")
	l := &line{Object: o, name: o.String("type"), raw: raw, m: d.meta()}
	v, known := variants[l.name]
	if !known {
		if !d.shell.RejectProblems("", o) {
			d.shell.Stats.Events++
			d.unknown(l, stamp)
		}
		return
	}
	once(o)
	if !v.global && o.Require("loop_id") {
		if l.m.Run = o.String("loop_id"); l.m.Run == "" && !l.bad() && l.name != "ProgressMessage" {
			o.Fail("loop_id", "want a string that is not empty")
		}
	}
	if !v.untimed {
		l.m.Time = o.Time("timestamp")
	}
	if !stamp.IsZero() {
		l.m.Time = stamp
	}
	events := v.read(d, l)
	if d.shell.RejectProblems(l.name, o) {
		return
	}
	d.shell.Stats.Events++
	d.emitWith(v, l, events)
}

// emitWith hands out the events of a line, and its unknown members.
func (d *Decoder) emitWith(v variant, l *line, events []otelagent.Event) {
	rest := l.Rest()
	if rest != nil && l.name == "MessageUpdate" { // one more event for each piece of a reply would be too many
		d.shell.Stats.IgnoredKeys += int64(len(object.Of("", rest).Keys()))
		rest = nil
	}
	if v.ends {
		d.emitOther(l.m, l.name+unknownKeys, rest)
	}
	for _, ev := range events {
		d.emit(ev)
	}
	if !v.ends {
		d.emitOther(l.m, l.name+unknownKeys, rest)
	}
}

// emitOther hands out a body that has no place among the events; nothing when it is nil.
func (d *Decoder) emitOther(m otelagent.Meta, typ string, body []byte) {
	if body != nil {
		d.emit(&otelagent.Other{Meta: m, Type: typ, Body: body})
	}
}

// unknown hands out an event of a type that is not phi-core's, as far as we know it.
func (d *Decoder) unknown(l *line, stamp time.Time) {
	o := object.Of("", l.raw) // whatever its members are, they are no problem
	l.m.Run, l.m.Session, l.m.Time = o.String("loop_id"), o.String("session_id"), o.Time("timestamp")
	if !stamp.IsZero() {
		l.m.Time = stamp
	}
	if l.m.Run != "" && (l.m.Session == "" || d.runs.find(l.m.Run) != nil) {
		l.m.Session = d.runs.home(l.m.Run)
	}
	d.emitOther(l.m, l.name, l.raw)
}

// word returns what a JSON string says; empty for any other value.
func word(raw []byte) string {
	s, _ := rawjson.String(raw)
	return s
}

// once notes a problem when a key of o is there twice.
func once(o *object.Object) {
	if twice := o.Twice(); twice != "" {
		o.Fail(twice, "stands there twice")
	}
}

// countOr returns a count, or otherwise when it is absent.
func countOr(o *object.Object, key string, otherwise int64) int64 {
	if n := o.Count(key); n != nil {
		return *n
	}
	return otherwise
}

// enum reads a word of serde's external tagging: "Word", or {"Word":{fields}}. An object counts as read only when it
// has that one member.
func enum(o *object.Object, key string) (word string, fields *object.Object) {
	switch raw := o.Raw(key); {
	case raw == nil || raw[0] == '"':
		return o.String(key), nil
	case raw[0] != '{':
		o.Fail(key, "want a string or an object, got "+rawjson.KindOf(raw))
		return "", nil
	}
	in := o.Object(key)
	keys := in.Keys()
	if len(keys) != 1 {
		o.Keep(key)
	}
	if len(keys) == 0 {
		return "", nil
	}
	if raw := in.Raw(keys[0]); raw == nil || raw[0] != '{' {
		o.Keep(key)
		return keys[0], nil
	}
	return keys[0], in.Object(keys[0])
}

// usage reads six counts; nil when there are none.
func usage(o *object.Object, key string, rule spans.UsageRule) *otelagent.Usage {
	u := o.Object(key)
	if u == nil {
		return nil
	}
	return &otelagent.Usage{
		Input: countOr(u, "input", 0), Output: countOr(u, "output", 0), Reasoning: countOr(u, "reasoning", 0),
		CacheRead: countOr(u, "cache_read", 0), CacheWrite: countOr(u, "cache_write", 0),
		Total: countOr(u, "total_tokens", 0), Rule: rule,
	}
}

// texts returns the strings of an array; with numbers, the decimal forms of integers that are not negative instead.
func texts(o *object.Object, key string, numbers bool) []string {
	raws := o.List(key)
	if raws == nil {
		return nil
	}
	list := make([]string, 0, len(raws))
	for i, raw := range raws {
		text, ok := rawjson.String(raw)
		want := "a string"
		if numbers {
			n, err := strconv.ParseInt(string(raw), 10, 64)
			text, ok, want = strconv.FormatInt(n, 10), err == nil && n >= 0, "an integer that is not negative"
		}
		if !ok {
			o.Fail(key+"["+strconv.Itoa(i)+"]", "want "+want+", got "+rawjson.KindOf(raw))
		}
		list = append(list, text)
	}
	return list
}
