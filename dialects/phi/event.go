package phi

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// unknownKeys follows the variant in Other.Type where an event has keys that are not phi-core's.
const unknownKeys = ".unknown_keys"

// line is one AgentEvent.
type line struct {
	*object.Object
	name string // its variant
	raw  []byte // as it is spelled
	m    event.Meta
	run  *run // that the event is of; nil where the variant finds it
}

// variant is one kind of AgentEvent.
type variant struct {
	// read returns the events that a line gives.
	read func(d *Decoder, l *line) []event.Event
	place
	// ends says that it ends a span: unknown keys are kept on that span, so they go before its events.
	ends bool
	// untimed variants have no timestamp.
	untimed bool
}

// place says how the run of an event is found.
type place uint8

const (
	inRun  place = iota // the run of the loop id, also when it has ended
	inOpen              // the open run of the loop id: behind the end of one, another one begins
	byRead              // read looks for it
	noLoop              // the variant has no loop id
)

var variants = map[string]variant{
	"AgentStart":          {read: (*Decoder).agentStart, place: byRead},
	"AgentEnd":            {read: (*Decoder).agentEnd, place: byRead, ends: true},
	"TurnStart":           {read: (*Decoder).turnStart, place: inOpen},
	"TurnRequest":         {read: (*Decoder).turnRequest, place: inOpen},
	"TurnEnd":             {read: (*Decoder).turnEnd, ends: true},
	"MessageStart":        {read: (*Decoder).messageStart, untimed: true},
	"MessageUpdate":       {read: (*Decoder).messageUpdate, untimed: true},
	"MessageEnd":          {read: (*Decoder).messageEnd, untimed: true},
	"ToolExecutionStart":  {read: (*Decoder).toolStart, place: inOpen, untimed: true},
	"ToolExecutionUpdate": {read: (*Decoder).toolProgress, untimed: true},
	"ProgressMessage":     {read: (*Decoder).progressMessage, place: byRead, untimed: true},
	"ToolExecutionEnd":    {read: (*Decoder).toolEnd, ends: true, untimed: true},
	"InputRejected":       {read: (*Decoder).inputRejected, untimed: true},
	"ParallelLoopStart":   {read: (*Decoder).groupStart, place: noLoop},
	"ParallelLoopEnd":     {read: (*Decoder).groupEnd, place: noLoop, ends: true},
	"CompactionStarted":   {read: (*Decoder).compactionStarted, place: inOpen},
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
		if !d.RejectProblems("", o) {
			d.Counts.Events++
			d.unknown(l, stamp)
		}
		return
	}
	once(o)
	if v.place != noLoop && o.Require("loop_id") {
		if l.m.Run = o.String("loop_id"); l.m.Run == "" && l.name != "ProgressMessage" {
			o.Fail("loop_id", "want a string that is not empty")
		}
	}
	if !v.untimed {
		l.m.Time = o.Time("timestamp")
	}
	if !stamp.IsZero() {
		l.m.Time = stamp
	}
	if o.Failed() > 0 { // read finds its other problems
		l.run = new(run)
	} else if v.place == inRun || v.place == inOpen {
		if l.run = d.runs.in(&l.m); v.place == inOpen && !l.run.open { // behind its end, another run of that id begins
			l.run = d.runs.start(l.m.Run, l.run.session)
		}
	}
	events := v.read(d, l)
	if d.RejectProblems(l.name, o) {
		return
	}
	d.Counts.Events++
	rest := l.Rest()
	if rest != nil && l.name == "MessageUpdate" { // one more event for each piece of a reply would be too many
		d.Counts.IgnoredKeys += int64(len(object.Of("", rest).Keys()))
		rest = nil
	}
	if v.ends {
		d.Other(l.m, l.name+unknownKeys, rest)
	}
	d.emit(events...)
	if !v.ends {
		d.Other(l.m, l.name+unknownKeys, rest)
	}
}

// unknown hands out an event of a type that is not phi-core's, as far as we know it.
func (d *Decoder) unknown(l *line, stamp time.Time) {
	o := object.Of("", l.raw) // whatever its members are, they are no problem
	l.m.Run, l.m.Session, l.m.Time = o.String("loop_id"), o.String("session_id"), o.Time("timestamp")
	if !stamp.IsZero() {
		l.m.Time = stamp
	}
	if l.m.Run != "" && (l.m.Session == "" || d.runs.byID[l.m.Run] != nil) {
		l.m.Session = d.runs.home(l.m.Run)
	}
	d.Other(l.m, l.name, l.raw)
}

// once notes a problem when a key of o is there twice.
func once(o *object.Object) {
	if twice := o.Twice(); twice != "" {
		o.Fail(twice, "stands there twice")
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

var usageKeys = input.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache_read",
	CacheWrite: "cache_write", Total: "total_tokens"}

// texts returns the elements of an array: strings, or integers that are not negative, in decimal.
func texts(o *object.Object, key string, numbers bool) []string {
	raws := o.List(key)
	list := make([]string, len(raws))
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
	if raws == nil {
		return nil
	}
	return list
}
