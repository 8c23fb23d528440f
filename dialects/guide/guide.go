// Package guide reads sessions in the canonical form of the grida.co agent guide and turns them into events of
// package otelagent. It reads the JSON document, the JSON lines, and a live SQLite database with the three tables.
//
// JSON columns may be strings of JSON (metadata_json, data_json, model_json, permissions_json) or, as grida's API
// returns them, parsed values under the same names without _json. dialects/README.md says how each column is read.
//
//	for ev, err := range guide.NewDecoder().Events(file) { ... }
//	for ev, err := range guide.NewDecoder().ReadDB(ctx, db) { ... }
//
// # Runs and turns
//
// The guide has neither. A run is a stretch of messages: those of user and system up to the next message of the
// assistant, and that one. Its id is that of its first message, and it starts at the created_at of that. Each
// step-start part begins a turn. All runs are read from a ledger (RunInfo.Recording). Files that otelagent wrote have
// their events in metadata_json, and exactly those come back.
//
// The events of a message depend on the rows of its stretch alone, so a session that grew gives the same events
// again, and further ones. Every row is also stated as a fact, as it came but for blanks between its tokens.
//
// # Limits
//
//   - A line, the documents of an input, and a message with its parts: MaxLine bytes (64 MiB unless input.Settings
//     set another number).
//   - Nesting of JSON: object.MaxDepth.
//   - Parts of a message: 16,384.
//   - Messages of a stretch: 1,024. After them another run begins.
//   - Remembered: 4,096 child sessions; of a session 4,096 messages, so that one that comes again is not read twice,
//     and 1,024 system prompts. When there are more sessions or messages, the Decoder forgets those before.
//
// A *input.LineError reports a row beyond a limit. The Decoder holds one stretch of messages, and a document whole.
package guide

import (
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "guide"

const (
	maxParts    = 16384 // of a message
	maxStretch  = 1024  // messages
	maxMessages = 4096  // of a session that are recognised when they come again
	maxChildren = 4096  // sessions that tool calls named
	maxDigests  = 1024  // system prompts of a session whose bodies are looked up
	maxKinds    = 64    // further types of lines whose number is counted
)

// A Decoder reads sessions of the guide from any number of inputs. It remembers which tool calls named which child
// sessions, so a child that is read after its parent is linked to it. Stats.Lines counts the rows of a document and of
// a database.
//
// An input of Events is a document, several of them one after the other, or lines. Lines of package ndjson may be
// between the lines, and belong to the message before them. The events of a message come when the next message begins
// or the input ends. A row without an id, or that belongs to nothing, is not read; a column of the wrong type is not
// known, and the rest of its row is read. Not safe for concurrent use.
type Decoder struct {
	input.Shell
	path string // of the current row in a document or database

	session  *session
	message  *message   // whose parts are being read
	stretch  []*message // of user and system, before the assistant's
	joined   int        // bytes of stretch
	recent   []*run     // the last 64 of the session
	children map[string]link
}

// NewDecoder returns a Decoder that has read no session.
func NewDecoder(opts ...input.Settings) *Decoder {
	d := &Decoder{Shell: input.NewShell(Dialect, ndjson.Read, opts...), children: map[string]link{}}
	d.Reader = input.Reader{Line: d.line, Holds: d.holds, End: d.endSession, Document: d.document,
		IsDocument: func(o input.Outline) bool { return o.Has("", "session", "messages") && !o.Has("", "type") }}
	return d
}

// line reads {"type":T,"data":ROW}, or a session or message with its parts in one line.
func (d *Decoder) line(line input.Line) {
	o := d.Object(line)
	if o == nil {
		return
	}
	d.path = ""
	kind := o.String("type")
	if kind == "" {
		if o.Has("type", "data") || !o.Has("session", "messages", "message", "parts") {
			d.reject("", "type", "want a string that is not empty")
			return
		}
		d.whole(o)
		return
	}
	data := o.Spelled("data")
	stated := input.Time(o.Raw(input.Key))
	further := restOf(o, "type", "data", input.Key)
	switch kind {
	case "session":
		d.sessionRow(data, further, stated)
	case "message":
		d.messageRow(data, further, stated)
	case "part":
		d.partRow(data, further, stated)
	default:
		if data == nil { // lines of other types are kept as they are
			data = line.Text
		}
		d.furtherLine(kind, data)
	}
}

// nextRow moves the place on to the row of a document that is at path. A line is one place, whatever it holds.
func (d *Decoder) nextRow(path string) {
	if d.Number == 0 {
		d.Shell.Counts.Lines++
		d.Seq = d.Shell.Counts.Lines
	}
	d.path = path
}

// reject reports that the current line, row or column is not read.
func (d *Decoder) reject(typ, field, reason string) {
	d.Reject(&input.LineError{Type: typ, Field: object.Join(d.path, field), Reason: reason})
}

// restOf returns the members of o but those with the given keys, as a compact object; nil without any.
func restOf(o *object.Object, but ...string) []byte {
	o.Keep(o.Keys()...)
	o.Use(but...)
	return input.Compact(o.Rest())
}

// RecogniseDocument returns why an input is a document of the guide, which has the row of a session, or messages with
// their rows; empty when it is not.
func RecogniseDocument(o input.Outline) (why string) {
	if o.Has("session", "id", "agent") && o.Has("session", "created_at", "metadata_json", "metadata", "model_json",
		"workspace_root", "prompt_tokens") || o.Has("messages[]", "message") {
		why = "an object with session and messages"
	}
	return why
}

// Recognise returns why a line, which may be cut, is one of the guide; empty when it is not.
func Recognise(o input.Outline) (why string) {
	switch kind := o.Text("", "type"); {
	case (kind == "session" || kind == "message" || kind == "part") &&
		o.Has("data", "id", "session_id", "message_id", "agent", "role", "created_at"):
		return "lines with type " + kind + " and a row as data"
	case o.Has("message", "session_id", "metadata_json", "metadata") && o.Has("message", "id", "role") &&
		o.First("", "parts") == '[':
		return "lines with a message row and its parts"
	}
	return ""
}
