// Package opencode reads the sessions that OpenCode keeps and turns them into events of package otelagent. They stand
// in one of three layouts: an SQLite database with the tables session, message and part; a folder storage with a JSON
// document for each of these (before 1.2); and the document that 'opencode export' writes.
//
//	for ev, err := range opencode.NewDecoder().Events(export) { ... }
//	for ev, err := range opencode.NewDecoder().Read(file) { ... } // of transcript.Find
//
// All layouts give one stream of sessions, messages and parts, which one mapper reads (map.go): a run begins with a
// message of the user, and each message of the assistant is a turn. dialects/README.md says what is inferred.
//
// # Limits
//
//   - A document, a row, and a message with its parts: MaxLine bytes (64 MiB unless input.WithMaxLine sets another
//     number).
//   - Nesting of JSON: object.MaxDepth.
//   - Parts of a message: 16,384.
//
// A *input.LineError reports what is beyond a limit. The Decoder holds one message with its parts, and a document whole.
package opencode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "opencode"

const maxParts = 16384 // of a message

// Layout is where OpenCode keeps its sessions: a database opencode.db, and session/PROJECT/SESSION.json in a folder
// storage, which stands next to the folders message and part.
var Layout = transcript.Layout{Dialect: Dialect, Roots: func(env func(string) string, home string) []string {
	return []string{cmp.Or(env("XDG_DATA_HOME"), home+"/.local/share") + "/opencode"}
}, Is: regexp.MustCompile(`(^|/)(opencode[^/]*\.db|[^/]*ses_[^/]+\.json)$`).MatchString, Head: headOf}

// created is when a session was created. It stands in the first bytes of its document.
var created = regexp.MustCompile(`"created": ?([0-9]{13})`)

func headOf(path string, head []byte) (h transcript.Head) {
	if input.IsSQLite(head) {
		h.ID = path
		_ = withDatabase(path, func(db *input.Database) error {
			return db.Each("SELECT count(*) AS n, min(time_created) AS at FROM session WHERE parent_id IS NULL LIMIT ?",
				func(row []byte) {
					o := object.Of("", row)
					h.Started = millis(o.Raw("at"))
					if n := o.Count("n"); n != nil {
						h.Sessions = int(*n)
					}
				})
		})
		return h
	}
	o := input.OutlineOf(head)
	h.ID, h.Parent = o.Text("info", "id")+o.Text("", "id"), o.Text("info", "parentID")+o.Text("", "parentID")
	if m := created.FindSubmatch(head); m != nil {
		h.Started = millis(m[1])
	}
	return h
}

// NewDecoder returns a Decoder of exports, and of the files of Layout. The program has to have a driver of database/sql
// with the name sqlite to read a database.
func NewDecoder(opts ...input.Option) *transcript.Decoder {
	return transcript.NewDecoder(Dialect, opts, func(e *transcript.Emitter) transcript.Format {
		return func(f transcript.File) transcript.Reader {
			d := &reader{Emitter: e}
			r := transcript.Reader{Reader: input.Reader{Line: func(input.Line) {}, End: d.endSession, Document: d.export,
				IsDocument: func(input.Outline) bool { return true }}}
			if m := document.FindStringSubmatch(filepath.ToSlash(f.Path)); m != nil {
				r.Whole = d.whole(func() error { return d.readFolder(filepath.FromSlash(m[1]), m[2], m[3]) })
			} else if f.ID == f.Path && f.ID != "" {
				r.Whole = d.whole(func() error { return withDatabase(f.Path, d.readDatabase) })
			}
			return r
		}
	})
}

// reader reads a file.
type reader struct {
	*transcript.Emitter
	session *session
	message *message // whose parts are being read
	held    int      // bytes of the message and its parts, of a database or folder
}

// whole returns a function that reads sessions with another one.
func (d *reader) whole(read func() error) func() error {
	return func() error {
		d.Seq = d.Stats.Lines
		err := read()
		if d.endSession(); err != nil {
			err = fmt.Errorf("read sessions: %w", err)
		}
		return err
	}
}

// export reads what 'opencode export' writes: {"info": session, "messages": [{"info": message, "parts": [part]}]}.
func (d *reader) export(value []byte) {
	o := object.Of("", compact(value))
	info := o.Object("info")
	if info == nil {
		d.reject("", "info", "want an object with info and messages")
		return
	}
	d.sessionRow(info)
	for i, value := range o.List("messages") {
		place := "messages[" + strconv.Itoa(i) + "]"
		m := object.Of(place, value)
		info := object.Of(place+".info", m.Raw("info"))
		d.messageRow(info, info.String("id"))
		for j, part := range m.List("parts") {
			d.partRow(object.Of(place+".parts["+strconv.Itoa(j)+"]", part))
		}
		d.RejectProblems("", m)
	}
	d.RejectProblems("", o)
}

// parse reads the JSON of a row or file; nil when it is none.
func (d *reader) parse(place string, text []byte) *object.Object {
	if len(text) > d.Settings.MaxLine {
		d.reject("", place, "longer than "+strconv.Itoa(d.Settings.MaxLine)+" bytes")
		return nil
	}
	o, err := object.Parse(compact(text))
	if err != nil {
		bad := input.Malformed(err)
		bad.Field = place
		d.Reject(bad)
		return nil
	}
	d.held += len(text)
	return o
}

// compact returns JSON without blanks between its tokens: the layouts differ in these. What is written by a program has
// either none or line ends.
func compact(text []byte) []byte {
	var b bytes.Buffer
	if bytes.IndexByte(text, '\n') < 0 || json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// reject reports what is not read.
func (d *reader) reject(typ, field, reason string) {
	d.Reject(&input.LineError{Type: typ, Field: field, Reason: reason})
}

// millis reads a number of milliseconds since 1970, the first of values that is there; zero where it is none that
// nanoseconds can hold.
func millis(values ...[]byte) time.Time {
	for _, value := range values {
		if n, err := strconv.ParseFloat(string(value), 64); err == nil && n > 0 && n < 9e12 {
			return time.UnixMilli(int64(n)).UTC()
		}
	}
	return time.Time{}
}

// RecogniseDocument returns why an input is an export, which may be cut; empty when it is none.
func RecogniseDocument(o input.Outline) (why string) {
	if o.Text("info", "id") != "" && o.Has("info", "projectID", "directory", "version", "slug") {
		return "an object with info and messages"
	}
	return ""
}
