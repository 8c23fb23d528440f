package guide

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// This file reads the canonical JSON: {"session": row, "messages": [{"message": row, "parts": [rows]}]} and what stands beside them.

// documents reads documents that stand one behind the other, message by message.
func (d *Decoder) documents(r io.Reader) error {
	in := &bounded{r: r, left: int64(d.settings.MaxLine)}
	dec := json.NewDecoder(in)
	for !d.stopped {
		in.left = int64(d.settings.MaxLine)
		err := d.stream(dec)
		if err == nil {
			d.endSession()
			continue
		}
		if in.err != nil {
			return fmt.Errorf("read: %w", in.err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		d.broken(err, in)
		return nil
	}
	return nil
}

// broken reports that a document is no JSON from here on. Nothing behind it can be read.
func (d *Decoder) broken(err error, in *bounded) {
	var syntax *json.SyntaxError
	bad := &input.LineError{Reason: "no JSON"}
	switch {
	case in.full:
		bad.Reason = "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"
	case errors.As(err, &syntax):
		bad.Reason = "no JSON at byte " + strconv.FormatInt(syntax.Offset, 10)
		bad.Cut = errors.Is(err, io.ErrUnexpectedEOF)
	case errors.Is(err, io.ErrUnexpectedEOF):
		bad.Reason, bad.Cut = "JSON ends too early", true
	case errors.Is(err, errNoObject):
		bad.Reason = "want an object with session and messages"
	}
	d.endSession()
	d.rejected(bad)
}

var errNoObject = errors.New("no object")

// stream reads one document. It returns io.EOF when there is none.
func (d *Decoder) stream(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	d.at = place{seq: d.stats.Lines}
	if t != json.Delim('{') {
		return errNoObject
	}
	var held []member // what came before the session
	told := false
	for dec.More() && !d.stopped {
		t, err := dec.Token()
		if err != nil {
			return unexpected(err)
		}
		key, _ := t.(string)
		if key == "messages" && told {
			if err := d.streamMessages(dec); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return unexpected(err)
		}
		d.at.path = pathOf(key)
		if !d.valid(value) {
			continue
		}
		if key != "session" {
			if told {
				d.furtherKey(member{key, value})
			} else {
				held = append(held, member{key, value})
			}
			continue
		}
		d.nextRow("session")
		d.sessionRow(value, nil, time.Time{})
		told = true
		d.release(&held)
	}
	if !d.stopped {
		if _, err := dec.Token(); err != nil {
			return unexpected(err)
		}
	}
	d.release(&held)
	return nil
}

// unexpected is err within a document, where there must be more.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// streamMessages reads the array of messages.
func (d *Decoder) streamMessages(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return unexpected(err)
	}
	if t != json.Delim('[') {
		d.at.path = "messages"
		d.reject("", "", "want an array")
		if t == json.Delim('{') {
			return passOver(dec)
		}
		return nil
	}
	for i := 0; dec.More() && !d.stopped; i++ {
		d.at.path = "messages[" + strconv.Itoa(i) + "]"
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return unexpected(err)
		}
		if d.valid(value) {
			d.element(value)
		}
		d.at.path = "messages"
	}
	if d.stopped {
		return nil
	}
	_, err = dec.Token()
	return unexpected(err)
}

// passOver reads to the end of the object that was just begun.
func passOver(dec *json.Decoder) error {
	for depth := 1; depth > 0; {
		t, err := dec.Token()
		if err != nil {
			return unexpected(err)
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// document reads a document, or a message with its parts, whose members are at hand.
func (d *Decoder) document(members []member) {
	var held []member
	path := d.at.path
	var message, parts []byte
	for _, m := range members {
		switch m.key {
		case "session":
			d.sessionRow(m.value, nil, time.Time{})
		case "message":
			message = m.value
		case "parts":
			parts = m.value
		default:
			held = append(held, m)
		}
	}
	if message == nil && parts == nil {
		d.release(&held)
		return
	}
	d.at.path = path
	d.rowsOf(message, parts, held)
}

// release reads what was held until the session was known.
func (d *Decoder) release(held *[]member) {
	var further []member
	for _, m := range *held {
		if m.key != "messages" {
			further = append(further, m)
			continue
		}
		c := rawjson.NewCursor(m.value, maxDepth)
		if !c.Open('[') {
			d.at.path = "messages"
			d.reject("", "", "want an array, got "+rawjson.KindOf(m.value))
			continue
		}
		for i := 0; c.More(']'); i++ {
			d.at.path = "messages[" + strconv.Itoa(i) + "]"
			d.element(c.Value())
		}
	}
	for _, m := range further {
		d.furtherKey(m)
	}
	*held = nil
}

// element reads {"message": row, "parts": [rows]}, which is valid JSON.
func (d *Decoder) element(value []byte) {
	c := rawjson.NewCursor(value, maxDepth)
	if !c.Open('{') {
		d.reject("", "", "want an object, got "+rawjson.KindOf(value))
		return
	}
	var message, parts []byte
	var further []member
	for c.More('}') {
		switch key, value := string(c.Key()), c.Value(); key {
		case "message":
			message = value
		case "parts":
			parts = value
		default:
			further = append(further, member{key, value})
		}
	}
	d.rowsOf(message, parts, further)
}

// rowsOf reads the row of a message and those of its parts.
func (d *Decoder) rowsOf(message, parts []byte, further []member) {
	path := d.at.path
	row := func(name string) {
		if path != "" {
			name = path + "." + name
		}
		d.nextRow(name)
	}
	row("message")
	before := d.message
	d.messageRow(message, further, time.Time{})
	read := d.message != nil && d.message != before
	if parts == nil {
		return
	}
	c := rawjson.NewCursor(parts, maxDepth)
	if !c.Open('[') {
		d.at.path = path
		d.reject("", "parts", "want an array, got "+rawjson.KindOf(parts))
		return
	}
	for i := 0; c.More(']'); i++ {
		value := c.Value()
		row("parts[" + strconv.Itoa(i) + "]")
		if !read {
			d.reject("part", "", "of a message that is not read")
			continue
		}
		d.partRow(value, nil, time.Time{})
	}
}

// bounded reads no more than left bytes.
type bounded struct {
	r    io.Reader
	left int64
	full bool
	err  error // of r, other than its end
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// Only one byte more says that it is too long.
		var one [1]byte
		n, err := b.r.Read(one[:])
		if n > 0 {
			b.full = true
			return 0, io.ErrUnexpectedEOF
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		if err != io.EOF {
			b.err = err
		}
		return 0, err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}
