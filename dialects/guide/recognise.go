package guide

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/otelagent/otelagent/dialects/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// sqliteMagic begins every SQLite database file (https://sqlite.org/fileformat.html, section 1.3.1).
const sqliteMagic = "SQLite format 3\x00"

const mark = "\xef\xbb\xbf" // the byte order mark of UTF-8

// Recognise reports whether head, the beginning of an input, is that of a session of the guide, and why: an SQLite file, a document, or
// lines. Head may be cut anywhere.
func Recognise(head []byte) (why string, ok bool) {
	if bytes.HasPrefix(head, []byte(sqliteMagic)) {
		return "an SQLite file", true
	}
	head = bytes.TrimPrefix(head, []byte(mark))
	if isDocument(head) {
		return "an object with session and messages", true
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if data, served := bytes.CutPrefix(line, []byte("data:")); served {
			line = bytes.TrimSpace(data)
		}
		switch kind, data := lineKeys(line); {
		case len(line) == 0 || line[0] != '{' || strings.HasPrefix(kind, "otelagent."):
			continue // of another package, a comment, a field of a server-sent event
		case data && (kind == "session" || kind == "message" || kind == "part"):
			return "lines with type " + kind + " and a row as data", true
		default:
			return isElement(line)
		}
	}
	return "", false
}

// lineKeys returns the type of a line, and whether it has an object as data that looks like a row.
func lineKeys(line []byte) (kind string, row bool) {
	topKeys(line, func(key string, c rawjson.Cursor) bool {
		switch key {
		case "type":
			kind, _ = rawjson.String(c.Value())
		case "data":
			row = hasKey(c, "id", "session_id", "message_id", "agent", "role", "created_at")
		}
		return kind == "" || !row
	})
	return kind, row
}

// isDocument reports whether text begins a document: the row of a session, or messages with their rows.
func isDocument(text []byte) (is bool) {
	topKeys(text, func(key string, c rawjson.Cursor) bool {
		switch key {
		case "session":
			is = hasKey(c, "created_at", "metadata_json", "metadata", "model_json", "workspace_root", "prompt_tokens") && hasKey(c, "id", "agent")
		case "messages":
			if c.Open('[') && c.More(']') {
				is = hasKey(c, "message")
			}
		}
		return !is
	})
	return is
}

// isElement reports whether a line is a message with its parts.
func isElement(line []byte) (why string, ok bool) {
	message, parts := false, false
	topKeys(line, func(key string, c rawjson.Cursor) bool {
		switch key {
		case "message":
			message = hasKey(c, "session_id", "metadata_json", "metadata") && hasKey(c, "id", "role")
		case "parts":
			parts = c.Peek() == '['
		}
		return !message || !parts
	})
	if !message || !parts {
		return "", false
	}
	return "lines with a message row and its parts", true
}

// hasKey reports whether the value at c is an object with one of the keys, as far as it is there.
func hasKey(c rawjson.Cursor, keys ...string) bool {
	if !c.Open('{') {
		return false
	}
	for c.More('}') {
		key := string(c.Key())
		for _, k := range keys {
			if k == key {
				return true
			}
		}
		c.Value()
	}
	return false
}

// topKeys visits the keys of the object that text begins with, as far as they are there, each with a cursor before its value, until visit says
// false. It reports whether the object is whole.
func topKeys(text []byte, visit func(key string, value rawjson.Cursor) bool) (whole bool) {
	c := rawjson.NewCursor(text, object.MaxDepth)
	if !c.Open('{') {
		return false
	}
	for c.More('}') {
		key := c.Key()
		if key == nil || !visit(string(key), c) {
			return false
		}
		c.Value()
	}
	return c.Err() == nil
}

type form uint8

const (
	formUnknown form = iota
	formLines
	formDocument
	formSQLite
)

// maxHead bounds what is read before the form must be known.
const maxHead = 64 << 10

// sniff looks at the beginning of r until the form is known. It does not wait for more than it needs, and drops a byte order mark.
func sniff(r *bufio.Reader) (form, error) {
	for {
		_, err := r.Peek(r.Buffered() + 1) // waits for one byte more
		head, _ := r.Peek(r.Buffered())
		f := formOf(head)
		switch {
		case f != formUnknown || err == nil:
		case errors.Is(err, io.EOF):
			f = formLines
		case errors.Is(err, bufio.ErrBufferFull): // a line would be known by now
			f = formDocument
		default:
			return f, err
		}
		if f != formUnknown {
			if bytes.HasPrefix(head, []byte(mark)) {
				_, err = r.Discard(len(mark))
				return f, err
			}
			return f, nil
		}
	}
}

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
	if text[0] != '{' {
		return formLines
	}
	f := formUnknown
	whole := topKeys(text, func(key string, _ rawjson.Cursor) bool {
		switch key {
		case "type", "data", "ts", "message", "parts":
			f = formLines
		case "session", "messages":
			f = formDocument
		}
		return f == formUnknown
	})
	if f == formUnknown && (whole || bytes.IndexByte(text, '\n') > 0 && rawjson.Valid(text[:bytes.IndexByte(text, '\n')], object.MaxDepth) == nil) {
		return formLines
	}
	return f
}
