package guide

import (
	"bytes"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// This file reads the canonical JSON: {"session": row, "messages": [{"message": row, "parts": [rows]}]} and the keys
// next to them.

// documents reads documents that stand one behind the other.
func (d *reader) documents(text []byte) {
	d.Seq = d.Stats.Lines
	c := rawjson.NewCursor(bytes.TrimPrefix(text, []byte(mark)), object.MaxDepth)
	for !d.Stopped() && c.Peek() != 0 {
		if d.path = ""; c.Peek() != '{' {
			d.reject("", "", "want an object with session and messages")
			return
		}
		d.document(&c)
		d.endSession()
	}
	if err := c.End(); err != nil && !d.Stopped() {
		bad := input.Malformed(err)
		bad.Field = d.path
		d.Reject(bad)
	}
}

// document reads one document, as far as it is complete. It holds the other keys back, and messages that stand before
// the session.
func (d *reader) document(c *rawjson.Cursor) {
	held, session := []byte("{}"), false
	for c.Open('{'); c.More('}') && !d.Stopped(); {
		key := string(c.Key())
		d.path = pathOf(key)
		if key == "messages" && session && c.Peek() == '[' {
			i := 0
			for c.Open('['); c.More(']') && !d.Stopped(); i++ {
				if d.path = "messages[" + strconv.Itoa(i) + "]"; d.element(d.value(c)) {
					d.path = "messages"
				}
			}
			continue
		}
		switch value := d.value(c); {
		case value == nil:
		case key == "session":
			d.nextRow(key)
			d.sessionRow(value, nil, time.Time{})
			session = true
		default:
			held = appendMembers(held, member{key, value})
		}
	}
	path := d.path
	d.path = ""
	d.whole(object.Of("", held))
	d.path = path
}

// value returns the value at c; nil when it is not complete. It rejects one that is not UTF-8 and returns nil then.
func (d *reader) value(c *rawjson.Cursor) []byte {
	value := c.Value()
	if err := rawjson.ValidUTF8(value); err != nil {
		bad := input.Malformed(err)
		bad.Field = d.path
		d.Reject(bad)
		return nil
	}
	return value
}

// whole reads an object that holds the row of a session, messages, or one message with its parts. All other keys are
// facts.
func (d *reader) whole(o *object.Object) {
	if row := o.Raw("session"); row != nil {
		d.nextRow("session")
		d.sessionRow(row, nil, time.Time{})
	}
	d.path = ""
	if o.Has("message") || o.Has("parts") {
		d.rowsOf(o)
		return
	}
	for i, value := range o.List("messages") {
		d.path = "messages[" + strconv.Itoa(i) + "]"
		d.element(value)
	}
	d.problems("", o)
	for _, m := range membersOf(o, "session", "messages") {
		d.furtherKey(m)
	}
}

// element reads {"message": row, "parts": [rows]}, which is valid JSON and stands at the path at hand. It reports false
// when value is nil.
func (d *reader) element(value []byte) bool {
	if value == nil {
		return false
	}
	if o := object.Of(d.path, value); o != nil {
		d.rowsOf(o)
	} else {
		d.reject("", "", "want an object, got "+rawjson.KindOf(value))
	}
	return true
}

// rowsOf reads the row of a message and those of its parts.
func (d *reader) rowsOf(o *object.Object) {
	path := d.path
	before := d.message
	d.nextRow(join(path, "message"))
	d.messageRow(o.Spelled("message"), membersOf(o, "session", "message", "parts"), time.Time{})
	read := d.message != nil && d.message != before
	for i, value := range o.List("parts") {
		d.nextRow(join(path, "parts["+strconv.Itoa(i)+"]"))
		if !read {
			d.reject("part", "", "of a message that is not read")
			continue
		}
		d.partRow(value, nil, time.Time{})
	}
	d.problems("", o)
}
