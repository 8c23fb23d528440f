package phi

import (
	"bytes"
	"errors"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// shapeOf distinguishes lines from a document, which begins as a session or as an array of objects. Why names the keys
// by which a document is recognised. Unclear says that head is too short.
func shapeOf(head []byte) (isDocument bool, why string, unclear bool) {
	head = bytes.TrimLeft(trimMark(head), " \t\r\n")
	c := rawjson.NewCursor(head, object.MaxDepth)
	isArray := c.Open('[')
	kind, isCut := kindOf(c)
	switch next := c.Peek(); {
	case len(head) == 0 || bytes.HasPrefix([]byte(byteOrderMark), head) || isArray && next == 0:
		return false, "", true
	case isArray && next != '{' && next != ']': // a line of a log may begin so too
		return false, "", false
	case isArray && kind == aSession:
		why = "an array of objects with the keys of phi-core's Session"
	case kind == aSession:
		why = "an object with the keys of phi-core's Session"
	case isArray && kind == aMessage:
		why = "an array of phi-core's messages"
	}
	return isArray || kind == aSession, why, isCut && kind == otherKind && !isArray
}

const byteOrderMark = "\xef\xbb\xbf"

func trimMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte(byteOrderMark)) }

// RecogniseDocument returns why head, the beginning of an input, is a document of this dialect, without content; empty
// when it is none. Of an array whose first message is longer than head that is not known.
func RecogniseDocument(head []byte) (why string) {
	_, why, _ = shapeOf(head)
	return why
}

// Recognise returns why a line, which may be cut, is an AgentEvent, without content; empty when it is none.
func Recognise(line []byte) (why string) {
	if kind, _ := kindOf(rawjson.NewCursor(line, object.MaxDepth)); kind == anEvent {
		why = "lines with type and loop_id of phi-core's AgentEvent"
	}
	return why
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
// loops, or a key that only phi-core writes. A message has a role, and an array as content and a number as timestamp,
// or it is an extension message with kind and data. An event has a type of phi-core's and names a loop, or loops.
func kindOf(c rawjson.Cursor) (kind kindOfObject, isCut bool) {
	event, first := false, map[string]byte{} // how the values of the first keys begin
	for c.Open('{'); c.More('}'); {
		key := string(c.Key())
		if len(first) < 64 {
			first[key] = c.Peek()
		}
		switch key {
		case "loops", "formation", "parent_spawn_ref":
			return aSession, false
		case "event":
			return kindOf(c)
		}
		value := c.Value()
		if key == "type" {
			_, event = variants[stringOf(value)]
		}
		switch {
		case first["role"] != '"':
		case first["content"] == '[' && first["timestamp"] >= '0' && first["timestamp"] <= '9',
			first["kind"] == '"' && first["data"] != 0:
			return aMessage, false
		}
		if event && first["loop_id"]|first["loop_ids"]|first["selected_loop_id"] != 0 {
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
