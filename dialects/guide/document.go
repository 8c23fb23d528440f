package guide

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// This file reads the canonical JSON: {"session": row, "messages": [{"message": row, "parts": [rows]}]} and the keys
// next to them.

// documents reads documents that stand one behind the other, message by message.
func (d *reader) documents(r io.Reader) error {
	in := &io.LimitedReader{R: r}
	dec := json.NewDecoder(in)
	for !d.Stopped() {
		in.N = int64(d.Settings.MaxLine) + 1
		err := d.document(dec)
		d.endSession()
		if errors.Is(err, io.EOF) || d.Stopped() {
			return nil
		}
		bad := &input.LineError{Field: d.path, Reason: "JSON ends too early", Cut: true}
		syntax := (*json.SyntaxError)(nil)
		switch {
		case err == nil:
			continue
		case in.N <= 0:
			bad.Reason, bad.Cut = "longer than "+strconv.Itoa(d.Settings.MaxLine)+" bytes", false
		case errors.Is(err, errNoObject):
			bad.Reason, bad.Cut = "want an object with session and messages", false
		case errors.As(err, &syntax):
			bad.Reason, bad.Cut = "no JSON at byte "+strconv.FormatInt(syntax.Offset, 10), false
		case !errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("read: %w", err)
		}
		d.Reject(bad)
		return nil
	}
	return nil
}

var errNoObject = errors.New("no object")

// document reads one document. It returns io.EOF when there is none.
func (d *reader) document(dec *json.Decoder) error {
	d.path = ""
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return errNoObject
	}
	held := []byte("{}") // the other keys, and messages that stand before the session
	session := false
	err = within(dec, func() error {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		d.path = pathOf(key)
		if key == "messages" && session {
			return d.messages(dec)
		}
		value, err := d.value(dec)
		switch {
		case value == nil:
		case key == "session":
			d.nextRow(key)
			d.sessionRow(value, nil, time.Time{})
			session = true
		default:
			held = appendMembers(held, member{key, value})
		}
		return err
	}, d.Stopped)
	path := d.path
	d.path = ""
	d.whole(object.Of("", held))
	d.path = path
	return err
}

// messages reads the array of messages, one by one.
func (d *reader) messages(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	i := 0
	each := func() error {
		d.path = "messages[" + strconv.Itoa(i) + "]"
		i++
		value, err := d.value(dec)
		if value != nil {
			d.element(value)
		}
		if err == nil {
			d.path = "messages"
		}
		return err
	}
	switch t {
	case json.Delim('['):
	case json.Delim('{'): // passes over its members
		d.reject("", "", "want an array")
		each = func() error {
			_, err := dec.Token()
			var value json.RawMessage
			return errors.Join(err, dec.Decode(&value))
		}
	default:
		d.reject("", "", "want an array")
		return nil
	}
	return within(dec, each, d.Stopped)
}

// within calls each until the object or array that dec is in has ended, and reads its end.
func within(dec *json.Decoder, each func() error, stopped func() bool) (err error) {
	for err == nil && dec.More() && !stopped() {
		err = each()
	}
	if err == nil && !stopped() {
		_, err = dec.Token()
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// value reads the value at hand. It rejects one that is not UTF-8 or nested too deeply and returns nil then.
func (d *reader) value(dec *json.Decoder) ([]byte, error) {
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	bad := (*rawjson.SyntaxError)(nil)
	if errors.As(rawjson.Valid(value, rawjson.MaxDepth), &bad) {
		d.reject("", "", bad.Reason+" at byte "+strconv.Itoa(bad.Offset+1))
		return nil, nil
	}
	return value, nil
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

// element reads {"message": row, "parts": [rows]}, which is valid JSON and stands at the path at hand.
func (d *reader) element(value []byte) {
	o := object.Of(d.path, value)
	if o == nil {
		d.reject("", "", "want an object, got "+rawjson.KindOf(value))
		return
	}
	d.rowsOf(o)
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
