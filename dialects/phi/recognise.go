package phi

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// mostHead is how much of an input is looked at to tell lines from a document.
const mostHead = 64 << 10

// look reads the beginning of r until it is certain what it is, and returns a reader of all of it.
func look(r io.Reader) (all io.Reader, isDocument bool) {
	head := bufio.NewReaderSize(r, mostHead)
	for {
		_, err := head.Peek(head.Buffered() + 1)
		text, _ := head.Peek(head.Buffered())
		if s := shapeOf(text); s != unclear || err != nil {
			return head, s == aDocument
		}
	}
}

// shape is what an input is as a whole.
type shape uint8

const (
	unclear shape = iota // the beginning does not tell
	ofLines
	aDocument
)

// shapeOf tells lines from a document, which begins as a session or as an array of objects.
func shapeOf(head []byte) shape {
	head = bytes.TrimLeft(trimMark(head), " \t\r\n")
	c := rawjson.NewCursor(head, object.MaxDepth)
	switch {
	case len(head) == 0 || bytes.HasPrefix([]byte(byteOrderMark), head):
		return unclear
	case c.Open('['): // a line of a log may begin so too
		switch c.Peek() {
		case 0:
			return unclear
		case '{', ']':
			return aDocument
		}
		return ofLines
	}
	switch kind, isCut := kindOf(c); {
	case kind == aSession:
		return aDocument
	case isCut && kind == otherKind:
		return unclear
	}
	return ofLines
}

const byteOrderMark = "\xef\xbb\xbf"

func trimMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte(byteOrderMark)) }

// Recognise reports whether head, the beginning of an input of at most 64 KiB, is of this dialect, and by what; why
// holds nothing of the input. Head may be cut anywhere. Lines are recognised by the first one that is an AgentEvent,
// so lines of others may stand before it. An array of messages of which the first is longer than head is not
// recognised.
func Recognise(head []byte) (why string, ok bool) {
	switch shapeOf(head) {
	case unclear:
		return "", false
	case aDocument:
		c := rawjson.NewCursor(trimMark(head), object.MaxDepth)
		isArray := c.Open('[')
		switch kind, _ := kindOf(c); {
		case kind == aSession && isArray:
			return "an array of objects with the keys of phi-core's Session", true
		case kind == aSession:
			return "an object with the keys of phi-core's Session", true
		case kind == aMessage && isArray:
			return "an array of phi-core's messages", true
		}
		return "", false
	}
	// A last line that is cut may still show its type.
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf(input.WithMaxLine(mostHead)))
	for in.Scan() {
		line := in.Line()
		switch kind, _ := kindOf(rawjson.NewCursor(line.Text, object.MaxDepth)); {
		case kind != anEvent:
		case line.Event != "":
			return "server-sent events with type and loop_id of phi-core's AgentEvent", true
		default:
			return "lines with type and loop_id of phi-core's AgentEvent", true
		}
	}
	return "", false
}

// kindOfObject is what an object is.
type kindOfObject uint8

const (
	otherKind kindOfObject = iota
	aSession
	aMessage
	anEvent
)

// kindOf says what the object at c is, as far as it is there, and whether it is cut before it is known. A session has
// loops, or an id and another key of its own. A message has a role, and an array as content and a number as
// timestamp, or it is an extension message with kind and data. An event has a type of phi-core's and names a loop, or
// loops.
func kindOf(c rawjson.Cursor) (kind kindOfObject, isCut bool) {
	var event, loop, id, role, content, timestamp, ofKind, data bool
	for c.Open('{'); c.More('}'); {
		key := string(c.Key())
		first := c.Peek()
		switch key {
		case "loops":
			return aSession, false
		case "formation", "last_active_at", "scope", "parent_spawn_ref":
			if id {
				return aSession, false
			}
		case "event":
			return kindOf(c)
		case "session_id":
			id = true
		case "loop_id", "loop_ids", "selected_loop_id":
			loop = true
		case "role":
			role = first == '"'
		case "content":
			content = first == '['
		case "timestamp":
			timestamp = first >= '0' && first <= '9'
		case "kind":
			ofKind = first == '"'
		case "data":
			data = true
		}
		value := c.Value()
		if key == "type" {
			_, event = variants[word(value)]
		}
		switch {
		case role && (content && timestamp || ofKind && data):
			return aMessage, false
		case event && loop:
			return anEvent, false
		}
	}
	var syntax *rawjson.SyntaxError
	isCut = errors.As(c.Err(), &syntax) && syntax.Cut
	if isCut && event { // a line of 64 KiB has its type at the beginning and may have its loop behind the cut
		return anEvent, true
	}
	return otherKind, isCut
}
