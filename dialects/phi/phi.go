// Package phi reads the output and the saved files of phi-core's agent loop, and turns them into the events of
// package otelagent:
//
//   - AgentEvents as newline-delimited JSON or server-sent events, all 19 variants of phi-core 0.6.1 and later, and the
//     lines of the event log of 0.14 and later, `{"ordinal":n,"event":{…}}`;
//   - ledgers (saved sessions) of any age, one or an array of them;
//   - the bare array of messages that phi-core's save_messages writes.
//
// The first bytes of an input say which one it is. testdata/fields.md lists what becomes of each field.
package phi

import (
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is the name of this dialect in RunInfo.Dialect and GroupInfo.Dialect.
const Dialect = "phi-core"

// A Decoder reads any number of inputs, such as the files of one recording: it remembers the runs it met. Byte slices
// of an event alias the input. One line gives no event (MessageStart), one, or several. Not safe for concurrent use.
//
// A document (ledgers, an array of messages) is read whole and is at most as long as a line may be. Its runs have
// RunInfo.Recording [spans.RecordingLedger] and the addresses that the events of the same session give; Meta.Seq counts
// within each run. An error in it names its place by LineError.Field. Nothing is read of a session or array that is cut
// or malformed. Of one document at most 65,536 runs a session, and as many turns, events or messages of a run, are
// read.
//
// It remembers 32,768 runs, as many sessions, and 1,024 tool calls of an open turn.
type Decoder struct {
	input.Shell
	runs   runs
	record *record // of a document, at hand; nil while lines are read
}

// NewDecoder returns a Decoder that has met no runs.
func NewDecoder(opts ...input.Settings) *Decoder {
	d := &Decoder{Shell: input.NewShell(Dialect, ndjson.Read, opts...)}
	d.runs = runs{settings: d.Settings, byID: map[string]*run{}, sessions: map[string]bool{}}
	d.Reader = input.Reader{Line: d.line, IsDocument: isDocument, Document: d.document}
	return d
}

// line reads one line: an AgentEvent, a line of phi-core's event log, or a server-sent event.
func (d *Decoder) line(line input.Line) {
	o, err := object.Parse(line.Text)
	ours := line.Event == "" || line.Event == "agent_event" || line.Event == "message"
	switch {
	case !ours && (err != nil || o.Text("type") == ""):
		body := line.Text
		if rawjson.Valid(body, object.MaxDepth) != nil || rawjson.ValidUTF8(body) != nil {
			body = rawjson.Quote(nil, string(body))
		}
		d.Counts.Events++
		d.Other(d.meta(), line.Event, body)
	case err != nil:
		d.RejectSyntax(err)
	case o.Has("event") && !o.Has("type"): // a line of the event log
		stamp, raw, inside := input.Time(o.Raw(input.Key)), o.Raw("event"), o.Object("event")
		if once(o); !d.RejectProblems("", o) {
			d.event(inside, raw, stamp)
		}
	default:
		d.event(o, line.Text, time.Time{})
	}
}

// meta returns where the current line is.
func (d *Decoder) meta() event.Meta {
	return event.Meta{Seq: d.Seq, Arrived: d.Arrived}
}

// emit passes events on, with what the current record adds to them.
func (d *Decoder) emit(events ...event.Event) {
	for _, ev := range events {
		if d.record != nil {
			if _, ends := ev.(*event.RunEnded); ends {
				d.beforeEnd()
			}
			d.record.amend(ev)
		}
		d.Emit(ev)
	}
}

// isSession reports whether the object at a path has loops, or a key that only phi-core writes.
func isSession(o input.Outline, path string) bool {
	return o.Has(path, "loops", "formation", "parent_spawn_ref")
}

// isMessage reports whether the object at a path has a role, and an array as content and a number as timestamp, or it
// is an extension message with kind and data.
func isMessage(o input.Outline, path string) bool {
	digit := o.First(path, "timestamp")
	return o.First(path, "role") == '"' &&
		(o.First(path, "content") == '[' && digit >= '0' && digit <= '9' ||
			o.First(path, "kind") == '"' && o.Has(path, "data"))
}

// isDocument distinguishes a document, which begins as a session or as an array of objects, from lines.
func isDocument(o input.Outline) bool {
	first := o.First("[]", "") // a line of a log may begin with an array
	return isSession(o, "") || first == '{' || first == 0 && o.First("", "") == '[' && !o.Cut
}

// RecogniseDocument returns why an input is a document of this dialect, without content; empty when it is not. Of an
// array whose first message is longer than the outline that is not known.
func RecogniseDocument(o input.Outline) (why string) {
	switch {
	case isSession(o, ""):
		return "an object with the keys of phi-core's Session"
	case isSession(o, "[]"):
		return "an array of objects with the keys of phi-core's Session"
	case isMessage(o, "[]"):
		return "an array of phi-core's messages"
	}
	return ""
}

// Recognise returns why a line, which may be cut, is an AgentEvent, without content; empty when it is not. It has a
// type of phi-core's and names a loop, or loops, unless these may be after the cut.
func Recognise(o input.Outline) (why string) {
	for _, at := range []string{"", "event"} {
		_, known := variants[o.Text(at, "type")]
		if known && (o.Cut || o.Has(at, "loop_id", "loop_ids", "selected_loop_id")) {
			return "lines with type and loop_id of phi-core's AgentEvent"
		}
	}
	return ""
}
