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
//   - A document, a row, and a message with its parts: MaxLine bytes (64 MiB unless input.Settings set another
//     number).
//   - Nesting of JSON: object.MaxDepth.
//   - Parts of a message: 16,384.
//
// A *input.LineError reports what is beyond a limit. The Decoder holds one message with its parts, and a document
// whole.
package opencode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "opencode"

const maxParts = 16384 // of a message

// Layout is where OpenCode keeps its sessions: a database opencode.db, and session/PROJECT/SESSION.json in a folder
// storage, which stands next to the folders message and part.
var Layout = transcript.Layout{Dialect: Dialect, Env: "XDG_DATA_HOME", Below: []string{"opencode"},
	Home: []string{".local/share/opencode"}, Head: headOf,
	Names: regexp.MustCompile(`(^|/)(opencode[^/]*\.db|[^/]*ses_[^/]+\.json)$`)}

// created is when a session was created. It stands in the first bytes of its document.
var created = regexp.MustCompile(`"created": ?([0-9]{13})`)

func headOf(path string, head []byte) (h transcript.Head) {
	if input.IsSQLite(head) {
		h.ID, h.Part = path, true
		_ = withDatabase(path, func(db *input.Database) error {
			return db.Scan("SELECT count(*), min(time_created) FROM session LIMIT ?", func(_ []string, columns []any) {
				n, _ := columns[0].(int64)
				h.Sessions, h.Started = int(n), transcript.Time(fmt.Append(nil, columns[1]))
			})
		})
		return h
	}
	o := input.OutlineOf(head)
	h.ID, h.Parent = o.Text("info", "id")+o.Text("", "id"), o.Text("info", "parentID")+o.Text("", "parentID")
	if m := created.FindSubmatch(head); m != nil {
		h.Started = transcript.Time(m[1])
	}
	return h
}

// NewDecoder returns a Decoder of exports, and of the files of Layout. The program has to have a driver of database/sql
// with the name sqlite to read a database.
func NewDecoder(opts ...input.Settings) *transcript.Decoder {
	open := func(d *transcript.Decoder, f transcript.File) (input.Reader, func() error) {
		r := &reader{Decoder: d}
		if m := document.FindStringSubmatch(filepath.ToSlash(f.Path)); m != nil {
			return input.Reader{}, func() error { return r.readFolder(filepath.FromSlash(m[1]), m[2], m[3]) }
		}
		if f.ID == f.Path && f.ID != "" {
			return input.Reader{}, func() error {
				defer r.endSession()
				return withDatabase(f.Path, func(db *input.Database) error { return r.readDatabase(db, f.Since) })
			}
		}
		return input.Reader{Line: func(input.Line) {}, End: r.endSession, Document: r.export,
			IsDocument: func(input.Outline) bool { return true }}, nil
	}
	return transcript.NewDecoder(Dialect, opts, open)
}

// reader reads a file.
type reader struct {
	*transcript.Decoder
	session *session
	message *message // whose parts are being read
	held    int      // bytes of the message and its parts
}

// export reads what 'opencode export' writes: {"info": session, "messages": [{"info": message, "parts": [part]}]}.
func (d *reader) export(value []byte) {
	c := rawjson.NewCursor(value, object.MaxDepth)
	d.members(&c, "", "session", "messages", func(place string) {
		d.members(&c, place+".", "message", "parts", func(place string) { d.row("part", "", place, c.Value()) })
	})
}

// members reads an object with a row of a kind, and a list behind it.
func (d *reader) members(c *rawjson.Cursor, place, kind, list string, element func(place string)) {
	if c.Peek() != '{' {
		d.row(kind, "", place+"info", c.Value())
	}
	for c.Open('{'); c.More('}'); {
		switch key := c.Key(); {
		case string(key) == "info":
			d.row(kind, "", place+"info", c.Value())
		case string(key) == list && c.Open('['):
			for i := 0; c.More(']'); i++ {
				element(object.Element(place+list, i))
			}
		default:
			c.Value()
		}
	}
}

// row reads a row or document: a session, a message of an id that may stand in it, or a part. Place is where it stands.
func (d *reader) row(kind, id, place string, text []byte) {
	d.Counts.Lines++
	d.Counts.Events++
	d.Seq, d.held = d.Counts.Lines, d.held+len(text)
	if len(text) > d.Settings.MaxLine {
		d.tooLong(place)
		return
	}
	o, err := object.ParseAt(place, compact(text))
	if err != nil {
		bad := input.Malformed(err)
		bad.Field, bad.Cut = place, bad.Cut && place == kind // a document of a folder may still be written
		d.Reject(bad)
		return
	}
	kept := false
	switch kind {
	case "session":
		d.beginSession(o)
	case "message":
		kept = d.beginMessage(o, cmp.Or(id, o.String("id")))
	default:
		kept = d.addPart(o)
	}
	if !kept {
		d.RejectProblems(kind, o)
	}
}

func (d *reader) tooLong(place string) {
	d.Reject(&input.LineError{Field: place, Reason: "longer than " + strconv.Itoa(d.Settings.MaxLine) + " bytes"})
}

// compact returns JSON without blanks between its tokens: the layouts differ in these. What is written by a program has
// either none or line ends.
func compact(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 || rawjson.Valid(text, object.MaxDepth) != nil {
		return text
	}
	out, quoted, escaped := make([]byte, 0, len(text)), false, false
	for _, b := range text {
		quoted = quoted != (b == '"' && !escaped)
		if escaped = b == '\\' && !escaped; quoted || b > ' ' {
			out = append(out, b)
		}
	}
	return out
}

// Tables are those of a database of OpenCode that are read.
var Tables = []string{"session", "message", "part"}

// document is the path of a session in a storage folder: that folder, the project, and the id of the session.
var document = regexp.MustCompile(`^(.*storage)/session/([^/]+)/([^/]+)\.json$`)

// withDatabase opens a database, which OpenCode may write meanwhile.
func withDatabase(path string, read func(*input.Database) error) error {
	file, err := input.OpenSQLite(path)
	if err != nil {
		return err
	}
	defer file.Close()
	db, err := input.NewDatabase(context.Background(), file, Tables...)
	if err != nil {
		return err
	}
	return read(db)
}

// readDatabase reads the sessions of a database by the time of their creation and id, or those that changed since a
// time. What was written after a session was read comes with the next reading. It holds the ids of all sessions.
func (d *reader) readDatabase(db *input.Database, since time.Time) error {
	var ids []any
	var err error
	whole := since.IsZero()
	if !whole {
		err = db.Scan(changed, func(_ []string, columns []any) {
			ids, whole = append(ids, columns[0]), whole || columns[2] != int64(0)
		}, since.Add(-time.Minute).UnixMilli()) // a row is written a while after its time
	}
	if whole || err != nil { // copies are found next to what they are of
		ids, err = db.IDs(input.Sorted("id, time_created", "session", "time_created, id"))
	}
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		if err = db.Measure(); err == nil {
			err = d.readSession(db, ids[i])
		}
	}
	return err
}

// changed is the query of the sessions that changed since a time, with those above them, and whether they are forks:
// these have messages that are older.
var changed = input.Sorted("id, time_created, EXISTS (SELECT 1 FROM message WHERE session_id = s.id AND "+
	"json_extract(data, '$.time.created') < s.time_created) AS fork", `session s WHERE id IN (
	WITH RECURSIVE above (id) AS (
		SELECT id FROM session WHERE time_updated >= ?1 UNION SELECT session_id FROM message WHERE time_updated >= ?1 UNION
		SELECT session_id FROM part WHERE time_updated >= ?1 UNION
		SELECT parent_id FROM session JOIN above USING (id) WHERE parent_id IS NOT NULL)
	SELECT id FROM above)`, "time_created, id")

func (d *reader) readSession(db *input.Database, id any) error {
	d.endSession()
	err := db.Each(input.Sorted("*", "session WHERE id = ?", "id"), func(row []byte) {
		d.row("session", "", "session", row)
	}, id)
	if err != nil || d.session == nil {
		return err
	}
	i, kind, place := -1, "", ""
	return db.Scan(rows, func(_ []string, columns []any) {
		message, _ := columns[0].(string)
		text, _ := columns[2].([]byte)
		if kind = "part"; columns[1] == nil {
			d.endMessage()
			kind, i = "message", i+1
			place = object.Element("messages", i) + ".data"
		}
		if !d.Stopped() {
			d.row(kind, message, place, text)
		}
	}, id)
}

// rows is the query of the messages of a session, each with its parts behind it. It sorts their keys, and reads the
// data of each row then.
const rows = `WITH r AS MATERIALIZED (
	SELECT time_created, id, NULL AS part, rowid AS at FROM message WHERE session_id = ?1 UNION ALL
	SELECT m.time_created, m.id, p.id, p.rowid FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = ?1
	LIMIT ?2), sorted AS MATERIALIZED (SELECT * FROM r ORDER BY time_created, id, part)
SELECT id, part, CAST(CASE WHEN part IS NULL THEN (SELECT data FROM message WHERE rowid = at)
	ELSE (SELECT data FROM part WHERE rowid = at) END AS BLOB) FROM sorted`

// readFolder reads a session of a storage folder: its own document, those of its messages in message/SESSION, and of
// their parts in part/MESSAGE, by their names. It follows no symbolic link.
func (d *reader) readFolder(folder, project, session string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	defer d.endSession()
	if d.file(root, "session", project, session); d.session == nil || d.session.Session != session {
		return nil
	}
	messages, err := d.files(root, "message", session)
	for _, id := range messages {
		d.endMessage()
		d.file(root, "message", session, id)
		parts, bad := d.files(root, "part", id)
		for _, part := range parts {
			d.file(root, "part", id, part)
		}
		err = cmp.Or(err, bad)
	}
	return err
}

// file reads the document KIND/FOLDER/ID.json, if it is one.
func (d *reader) file(root *os.Root, kind, folder, id string) {
	text, tooLong := transcript.ReadIn(root, kind+"/"+folder+"/"+id+".json", d.Settings.MaxLine)
	if tooLong {
		d.tooLong(kind)
	} else if text != nil {
		d.row(kind, id, kind, text)
	}
}

// files returns the ids of the documents in a folder, in order. A folder that is not there has none.
func (d *reader) files(root *os.Root, kind, folder string) (ids []string, err error) {
	entries, err := fs.ReadDir(root.FS(), kind+"/"+folder)
	for _, e := range entries {
		if id, isJSON := strings.CutSuffix(e.Name(), ".json"); isJSON && !d.Stopped() {
			ids = append(ids, id)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return ids, err
}

// RecogniseDocument returns why an input is an export, which may be cut; empty when it is none.
func RecogniseDocument(o input.Outline) (why string) {
	if o.Text("info", "id") != "" && o.Has("info", "projectID", "directory", "version", "slug") {
		return "an object with info and messages"
	}
	return ""
}
