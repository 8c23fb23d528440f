// Package guide reads sessions in the canonical form of the grida.co agent guide, and turns them into the events of package
// otelagent: the JSON document, the JSON lines, and a live SQLite database with the three tables.
//
// It reads rows whose JSON columns are strings of JSON (metadata_json, data_json, model_json, permissions_json), and rows as grida's API
// returns them, with parsed values under the same names without _json. What it makes of each column is told in docs/dialects.md.
//
//	for ev, err := range guide.Events(file) { ... }
//	for ev, err := range guide.ReadDB(ctx, db) { ... }
//
// # Runs and turns
//
// The guide has neither. A run is made of a stretch of messages: those of user and system up to the next message of the assistant, and that.
// Its id is that of its first message and its start the created_at of that. Each step-start part begins a turn. All runs
// are told from a ledger (RunInfo.Recording). Files that otelagent wrote say in metadata_json which runs and turns there were,
// and exactly those come back.
//
// What is said of a message is a function of the rows of its stretch alone, so that a session which grew gives the same
// events again, and further ones. Every row is also stated as a fact, as it came but for blanks between its tokens.
//
// # Limits
//
// A line, a document and a message with its parts are at most MaxLine bytes long (64 MiB unless input.WithMaxLine says otherwise); JSON
// may be nested 200 deep. A message has at most 16,384 parts, a stretch at most 1,024 messages, after which another run begins. 256 runs
// that otelagent wrote are open at a time. 4,096 child sessions are remembered; of a session 4,096 messages, so that one that comes again
// is not told twice, and 1,024 system prompts. What is beyond is reported as a *input.LineError, or said here. Memory is that of one
// stretch; of a document whose messages stand before its session, that of the document.
package guide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "guide"

const (
	// maxDepth is the depth of nesting that is accepted.
	maxDepth = 200
	// maxParts bounds the parts of a message, maxStretch the messages of a stretch.
	maxParts   = 16384
	maxStretch = 1024
)

// ErrSQLite is what Events ends with when its input is an SQLite database file, which is no stream: open it with database/sql and the
// driver of your choice, and read it with ReadDB.
var ErrSQLite = errors.New("guide: this is an SQLite file: read it with ReadDB")

// Events reads a session, or several, from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads sessions of the guide from any number of inputs. It remembers which tool calls named which child sessions, so a
// child that is read after its parent is known as that. Not safe for concurrent use.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
	at       place

	yield   func(otelagent.Event, error) bool
	stopped bool
	own     *ndjson.Decoder

	session  *session
	message  *message   // whose parts are being read
	stretch  []*message // of user and system, waiting for the assistant's
	size     int        // bytes of message and stretch
	joined   int        // bytes of stretch
	runs     ownRuns
	waiting  int // bytes of messages that wait in runs
	recent   []recentRun
	children children
	kinds    map[string]int64 // lines of each further type, of the session
}

// place is where the row at hand stands.
type place struct {
	line    int64 // 0 in a document or database
	seq     int64 // Meta.Seq of its events
	path    string
	arrived time.Time
}

// NewDecoder returns a Decoder that has met no session.
func NewDecoder(opts ...input.Option) *Decoder {
	return &Decoder{settings: input.SettingsOf(opts...), own: ndjson.NewDecoder(opts...), kinds: map[string]int64{}}
}

// Stats returns what was read so far. Lines counts lines; of a document and a database, rows.
func (d *Decoder) Stats() input.Stats { return d.stats }

// Events reads r until its end: a document, several of them one behind the other, or lines. Lines of package ndjson may stand
// between the lines, and belong to the message before them.
//
// An event and its slices are valid until the next iteration; strings may be kept. A message is told when the next one begins or the input
// ends, and with it what came between.
//
// An error that is a *input.LineError is about one row or column: a row without an id, or that belongs to nothing, is not read; a column
// of the wrong type is not known, and the rest of its row is read. Where a document is no JSON any more, reading ends with one. Any
// other error is the last: one of r, wrapped, or ErrSQLite. The iterator may be used once.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.begin(yield)
		head, form, err := sniff(r)
		r = io.MultiReader(bytes.NewReader(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))), r)
		switch {
		case err != nil:
			yield(nil, fmt.Errorf("guide: read: %w", err))
			return
		case form == formSQLite:
			yield(nil, ErrSQLite)
			return
		case form == formDocument:
			err = d.documents(r)
		default:
			err = d.lines(r)
		}
		d.endSession()
		if err != nil && !d.stopped {
			yield(nil, fmt.Errorf("guide: %w", err))
		}
	}
}

func (d *Decoder) begin(yield func(otelagent.Event, error) bool) {
	d.yield, d.stopped = yield, false
	d.at = place{seq: d.stats.Lines}
}

// lines reads one row a line.
func (d *Decoder) lines(r io.Reader) error {
	in := input.NewScanner(r, d.settings)
	before := d.stats.Lines
	for !d.stopped && in.Scan() {
		line := in.Line()
		d.stats.Lines = before + line.Number
		d.at = place{line: line.Number, seq: d.stats.Lines, arrived: line.Arrived}
		missed, lagged := line.Lagged()
		switch {
		case line.TooLong:
			d.reject("", "", "longer than "+strconv.Itoa(d.settings.MaxLine)+" bytes")
		case lagged:
			d.lagged(missed)
		case ndjson.Own(line.Text):
			d.ownLine(line)
		default:
			d.line(line.Text)
		}
	}
	if !d.stopped {
		d.stats.Lines = before + in.Lines()
	}
	return in.Err()
}

// line reads {"type":T,"data":ROW}, or a session or message with its parts in one line.
func (d *Decoder) line(text []byte) {
	if !d.valid(text) {
		return
	}
	var kind string
	var data, ts []byte
	var others []member
	named := false
	c := rawjson.NewCursor(text, maxDepth)
	if !c.Open('{') {
		d.reject("", "", "want an object, got "+rawjson.KindOf(text))
		return
	}
	for c.More('}') {
		key := string(c.Key())
		value := c.Value()
		switch key {
		case "type":
			kind, named = rawjson.String(value)
		case "data":
			data = value
		case input.Key:
			ts = value
		default:
			others = append(others, member{key, value})
		}
	}
	if !named && data == nil {
		d.whole(others)
		return
	}
	if !named || kind == "" {
		d.reject("", "type", "want a string that is not empty")
		return
	}
	stated, _ := input.Time(ts)
	switch kind {
	case "session":
		d.sessionRow(data, others, stated)
	case "message":
		d.messageRow(data, others, stated)
	case "part":
		d.partRow(data, others, stated)
	default:
		if data == nil { // whatever it is, it is kept
			data = text
		}
		d.furtherLine(kind, data)
	}
}

// whole reads a line that has no type: a message with its parts, or a whole session.
func (d *Decoder) whole(members []member) {
	known := false
	for _, m := range members {
		switch m.key {
		case "session", "messages", "message", "parts":
			known = true
		}
	}
	if !known {
		d.reject("", "type", "missing, want a string")
		return
	}
	d.document(members)
}

// member is a member of an object as it is spelled.
type member struct {
	key   string
	value []byte
}

// valid reports whether text is JSON in UTF-8, and rejects it if not.
func (d *Decoder) valid(text []byte) bool {
	err := rawjson.Valid(text, maxDepth)
	if err == nil {
		return true
	}
	var syntax *rawjson.SyntaxError
	if errors.As(err, &syntax) {
		d.rejected(&input.LineError{Reason: syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset+1), Cut: syntax.Cut})
	}
	return false
}

// reject reports that the line or row at hand is not read.
func (d *Decoder) reject(typ, field, reason string) {
	d.rejected(&input.LineError{Type: typ, Field: field, Reason: reason})
}

func (d *Decoder) rejected(e *input.LineError) {
	e.Dialect, e.Line, e.Seq = Dialect, d.at.line, d.at.seq
	switch {
	case d.at.path == "":
	case e.Field == "":
		e.Field = d.at.path
	default:
		e.Field = d.at.path + "." + e.Field
	}
	d.stats.Rejected++
	if !d.stopped && !d.yield(nil, e) {
		d.stopped = true
	}
}

// emit hands ev out. After the caller stopped it does nothing.
func (d *Decoder) emit(ev otelagent.Event) {
	if !d.stopped && !d.yield(ev, nil) {
		d.stopped = true
	}
}

// compact returns a copy of the JSON value raw without blanks between its tokens; what it says is as it was spelled.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(raw))
	if json.Compact(&b, raw) != nil {
		return bytes.Clone(raw)
	}
	return b.Bytes()
}
