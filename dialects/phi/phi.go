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
		stamp, raw := input.Time(o.Raw(input.Key)), o.Raw("event")
		if o = o.Object("event"); !d.RejectProblems("", o) {
			d.event(o, raw, stamp)
		}
	default:
		d.event(o, line.Text, time.Time{})
	}
}

// meta returns where the line at hand stands.
func (d *Decoder) meta() event.Meta {
	return event.Meta{Seq: d.Seq, Arrived: d.Arrived}
}

// emit hands events out, with what the record at hand adds to them.
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
