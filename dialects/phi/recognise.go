package phi

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// mostHead is how much of an input is looked at to tell lines from a document.
const mostHead = 64 << 10

// look reads the beginning of r until it is certain what it is, and returns a reader of all of it.
func (d *Decoder) look(r io.Reader) (all io.Reader, isDocument bool) {
	const first = 4 << 10
	if d.head == nil {
		d.head = make([]byte, first)
	}
	n, empty := 0, 0
	var end error
	for end == nil {
		if n == len(d.head) {
			d.head = append(d.head, make([]byte, len(d.head))...)
		}
		var got int
		got, end = r.Read(d.head[n:])
		n += got
		switch s := shapeOf(d.head[:n]); {
		case s != unclear:
			return io.MultiReader(bytes.NewReader(d.head[:n]), rest{r, end}), s == aDocument
		case n >= mostHead:
			return io.MultiReader(bytes.NewReader(d.head[:n]), rest{r, end}), false
		case got > 0:
			empty = 0
		case end == nil:
			if empty++; empty == 100 {
				end = io.ErrNoProgress
			}
		}
	}
	return io.MultiReader(bytes.NewReader(d.head[:n]), rest{r, end}), false
}

// rest is a reader that may have ended already.
type rest struct {
	r   io.Reader
	end error
}

func (r rest) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	return r.r.Read(p)
}

// shape is what an input is as a whole.
type shape uint8

const (
	unclear shape = iota // the beginning does not tell
	ofLines
	aDocument
)

// shapeOf tells lines from a document. Lines are whole objects with a key that only events have; a document begins as an array of objects,
// or with a key that only a session has.
func shapeOf(head []byte) shape {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(byteOrderMark)), " \t\r\n")
	switch {
	case len(head) == 0 || bytes.HasPrefix([]byte(byteOrderMark), head):
		return unclear
	case head[0] == '[':
		return shapeOfArray(head[1:])
	case head[0] != '{':
		return ofLines
	}
	c := rawjson.NewCursor(head, maxDepth)
	for c.Open('{'); c.More('}'); c.Value() {
		switch key := c.Key(); string(key) {
		case "type", "loop_id", "ordinal", "event", "timestamp", input.Key:
			return ofLines
		case "loops", "formation", "created_at", "last_active_at", "scope", "parent_spawn_ref":
			return aDocument
		}
	}
	if cut(c.Err()) {
		return unclear
	}
	return ofLines
}

// shapeOfArray tells an array of objects, of which what stands behind its bracket is rest, from a line of a log that begins with one.
func shapeOfArray(rest []byte) shape {
	for i, follows := range []string{"{]", "\"}"} {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		switch {
		case len(rest) == 0:
			return unclear
		case strings.IndexByte(follows, rest[0]) < 0:
			return ofLines
		case i == 0 && rest[0] == ']':
			return aDocument
		}
		rest = rest[1:]
	}
	return aDocument
}

const byteOrderMark = "\xef\xbb\xbf"

// Recognise reports whether head, the beginning of an input of at most 64 KiB, is of this dialect, and by what; why holds nothing of
// the input. Head may be cut anywhere. Lines are recognised by the first one that is an AgentEvent, so lines of others may stand
// before it. An array of messages of which the first is longer than head is not recognised.
func Recognise(head []byte) (why string, ok bool) {
	switch shapeOf(head) {
	case aDocument:
		return recogniseDocument(head)
	case unclear:
		return "", false
	}
	// A last line that is cut may still show its type.
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf(input.WithMaxLine(mostHead)))
	for in.Scan() {
		line := in.Line()
		if isEvent(line.Text) {
			if line.Event != "" {
				return "server-sent events with type and loop_id of phi-core's AgentEvent", true
			}
			return "lines with type and loop_id of phi-core's AgentEvent", true
		}
	}
	return "", false
}

// isEvent reports whether line begins as an AgentEvent: its type is one of phi-core's, and it names a loop, or loops.
func isEvent(line []byte) bool {
	c := rawjson.NewCursor(line, maxDepth)
	v, loop := unknownVariant, false
	for c.Open('{'); c.More('}'); {
		switch key := c.Key(); string(key) {
		case "type":
			if name, ok := rawjson.String(c.Value()); ok {
				v = variantOf([]byte(name))
			}
		case "loop_id", "loop_ids", "selected_loop_id":
			loop = true
			c.Value()
		case "event":
			return isEvent(line[c.Pos():])
		default:
			c.Value()
		}
		if v != unknownVariant && loop {
			return true
		}
	}
	// A line of 64 KiB has its type at the beginning and may have its loop behind the cut.
	return v != unknownVariant && cut(c.Err())
}

func recogniseDocument(head []byte) (why string, ok bool) {
	head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	c := rawjson.NewCursor(head, maxDepth)
	what := "an object"
	if c.Open('[') {
		what = "an array of objects"
		if !c.More(']') {
			return "", false
		}
	}
	switch kindOfElement(c) {
	case sessionElement:
		return what + " with the keys of phi-core's Session", true
	case messageElement:
		if what != "an object" {
			return "an array of phi-core's messages", true
		}
	}
	return "", false
}

// element is what an element of an array is.
type element uint8

const (
	otherElement element = iota
	sessionElement
	messageElement
)

// kindOfElement tells what the value at c is, as far as it is there. A message has a role, and an array as content and a number as
// timestamp, or it is an extension message with kind and data.
func kindOfElement(c rawjson.Cursor) element {
	var role, content, timestamp, kind, data, id bool
	for c.Open('{'); c.More('}'); {
		key := c.Key()
		if key == nil {
			break
		}
		switch string(key) {
		case "loops":
			return sessionElement
		case "formation", "last_active_at", "scope", "parent_spawn_ref":
			if id {
				return sessionElement
			}
		case "session_id":
			id = true
		case "role":
			role = c.Peek() == '"'
		case "content":
			content = c.Peek() == '['
		case "timestamp":
			b := c.Peek()
			timestamp = b >= '0' && b <= '9'
		case "kind":
			kind = c.Peek() == '"'
		case "data":
			data = true
		}
		if c.Value(); role && (content && timestamp || kind && data) {
			return messageElement
		}
	}
	return otherElement
}

// cut reports whether err says that JSON text ended too early.
func cut(err error) bool {
	var syntax *rawjson.SyntaxError
	return errors.As(err, &syntax) && syntax.Cut
}
