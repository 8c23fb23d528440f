package guide

import (
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// This file reads the canonical JSON: {"session": row, "messages": [{"message": row, "parts": [rows]}]} and the keys
// next to them.

// document reads one document.
func (d *Decoder) document(text []byte) {
	if o := object.Of("", text); o != nil {
		d.whole(o)
	} else {
		d.path = ""
		d.reject("", "", "want an object with session and messages")
	}
	d.endSession()
}

// whole reads an object that holds the row of a session, messages, or one message with its parts. All other keys are
// facts.
func (d *Decoder) whole(o *object.Object) {
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
		d.path = object.Element("messages", i)
		if element := object.Of(d.path, value); element != nil {
			d.rowsOf(element)
		} else {
			d.reject("", "", "want an object, got "+rawjson.KindOf(value))
		}
	}
	d.RejectProblems("", o)
	for key, value := range o.All() {
		if key != "session" && key != "messages" {
			d.furtherKey(key, compact(value))
		}
	}
}

// rowsOf reads the row of a message and those of its parts.
func (d *Decoder) rowsOf(o *object.Object) {
	path := d.path
	before := d.message
	d.nextRow(object.Join(path, "message"))
	d.messageRow(o.Spelled("message"), restOf(o, "session", "message", "parts"), time.Time{})
	read := d.message != nil && d.message != before
	for i, value := range o.List("parts") {
		d.nextRow(object.Join(path, object.Element("parts", i)))
		if !read {
			d.reject("part", "", "of a message that is not read")
			continue
		}
		d.partRow(value, nil, time.Time{})
	}
	d.RejectProblems("", o)
}
