package guide

import (
	"bytes"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// sqliteMagic begins every SQLite database file (https://sqlite.org/fileformat.html, section 1.3.1).
const sqliteMagic = "SQLite format 3\x00"

const mark = "\xef\xbb\xbf" // the byte order mark of UTF-8

// RecogniseDocument returns why head, the beginning of an input, is an SQLite file or a document of the guide; empty
// when it is neither.
func RecogniseDocument(head []byte) (why string) {
	switch {
	case bytes.HasPrefix(head, []byte(sqliteMagic)):
		return "an SQLite file"
	case shapeOf(bytes.TrimPrefix(head, []byte(mark))).document:
		return "an object with session and messages"
	}
	return ""
}

// Recognise returns why a line, which may be cut, is one of the guide; empty when it is none.
func Recognise(line []byte) (why string) {
	switch s := shapeOf(line); {
	case s.row && (s.kind == "session" || s.kind == "message" || s.kind == "part"):
		return "lines with type " + s.kind + " and a row as data"
	case s.message && s.parts:
		return "lines with a message row and its parts"
	}
	return ""
}

// shape is what the object at the beginning of a text holds, as far as it is there.
type shape struct {
	kind           string // its type
	row            bool   // it has a row as data
	document       bool   // it has the row of a session, or messages with their rows
	message, parts bool   // it has the row of a message, an array of parts
	form           form   // that its first known key has
	whole          bool   // it is all there
}

func shapeOf(text []byte) (s shape) {
	c := rawjson.NewCursor(text, object.MaxDepth)
	if !c.Open('{') {
		return s
	}
	for c.More('}') {
		key := string(c.Key())
		f := formLines
		switch key {
		case "type":
			value := c
			s.kind, _ = rawjson.String(value.Value())
		case "data":
			s.row = hasKey(c, "id", "session_id", "message_id", "agent", "role", "created_at")
		case "message":
			s.message = hasKey(c, "session_id", "metadata_json", "metadata") && hasKey(c, "id", "role")
		case "parts":
			value := c
			s.parts = value.Peek() == '['
		case "session":
			f = formDocument
			s.document = s.document || hasKey(c, "id", "agent") &&
				hasKey(c, "created_at", "metadata_json", "metadata", "model_json", "workspace_root", "prompt_tokens")
		case "messages":
			f = formDocument
			value := c
			s.document = s.document || value.Open('[') && value.More(']') && hasKey(value, "message")
		case input.Key:
		default:
			f = formUnknown
		}
		if s.form == formUnknown && c.Err() == nil {
			s.form = f
		}
		c.Value()
	}
	s.whole = c.Err() == nil
	return s
}

// hasKey reports whether the value at c is an object with one of the keys, as far as it is there.
func hasKey(c rawjson.Cursor, keys ...string) bool {
	for c.Open('{'); c.More('}'); c.Value() {
		if slices.Contains(keys, string(c.Key())) {
			return true
		}
	}
	return false
}

type form uint8

const (
	formUnknown form = iota
	formLines
	formDocument
	formSQLite
)

// formOf returns the form of an input that begins with head; unknown if more is needed.
func formOf(head []byte) form {
	if len(head) < len(sqliteMagic) && strings.HasPrefix(sqliteMagic, string(head)) {
		return formUnknown
	}
	if bytes.HasPrefix(head, []byte(sqliteMagic)) {
		return formSQLite
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte(mark)), " \t\r\n")
	if len(text) == 0 {
		return formUnknown
	}
	of := shapeOf(text)
	first, _, more := bytes.Cut(text, []byte{'\n'})
	if of.form == formUnknown && (text[0] != '{' || of.whole || more && rawjson.Valid(first, object.MaxDepth) == nil) {
		return formLines
	}
	return of.form
}
