// Package ndjson reads events from lines of JSON: one line an event,
// `{"type":"otelagent.tool_started","ts":…,"session":…,"run":…,"call_id":…}`. A producer in any language that has no
// dialect of its own writes them. They may be between the lines of any dialect, for what that dialect cannot say.
//
// README.md has the rules and the keys, [Schema] the keys.
package ndjson

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
)

// Dialect is the name of this dialect in RunInfo.Dialect, GroupInfo.Dialect and FactStated.Dialect of lines that name
// none.
const Dialect = "otelagent"

// Schema is a JSON Schema (draft 2020-12) of one line. A Decoder rejects every line that it rejects. It accepts lines
// that a Decoder rejects for a key that is there twice, a time outside of 1678 to 2261, or the number of
// provenances of a request. A test compares both. It must not be written to.
//
//go:embed schema.json
var Schema []byte

// Recognise returns why a line, which may be cut, is of this dialect, without content; empty when it is not.
func Recognise(o input.Outline) (why string) {
	if strings.HasPrefix(o.Text("", "type"), input.OwnPrefix) {
		why = "lines with a type that begins with " + input.OwnPrefix
	}
	return why
}

// A Decoder reads lines. It keeps nothing of one line for the next. Meta.Seq is what a line says it is, else the number
// of the line, which goes on from earlier inputs. Byte slices of an event alias the input. A line gives one event, or
// two when it has unknown keys; its error names the first eight problems of it. A line, and an object in it that is not
// content, has 1,024 keys at most, an array that is not content 65,536 elements. Not safe for concurrent use.
type Decoder struct{ input.Shell }

// NewDecoder returns a Decoder. Of the settings, Session names the session of runs, groups and facts that name none,
// Agent and Provider those of runs that name none, Rule that of usage that names none.
func NewDecoder(opts ...input.Settings) *Decoder {
	d := &Decoder{input.NewShell(Dialect, Read, opts...)}
	d.Reader.Line = d.Own
	return d
}

// Read reads one line, which becomes the events of Meta.Seq line.Seq unless it says another. The events point into it.
func Read(s input.Settings, line input.Line) ([]event.Event, *input.LineError) {
	o, err := object.Parse(line.Text)
	if err != nil {
		bad := input.Malformed(err)
		bad.Dialect = Dialect
		return nil, bad
	}
	name := o.Text("type")
	if !strings.HasPrefix(name, input.OwnPrefix) {
		o.Fail("type", "want a string that begins with "+input.OwnPrefix)
	}
	if o.Failed() > 0 {
		return nil, problems(o, "")
	}
	shape, known := kindOf[name[len(input.OwnPrefix):]]
	if !known { // only what every line may have is read
		shape = kindOf["user_asked"]
	}
	v := reflect.New(shape.typ)
	m := v.Elem().Field(0).Addr().Interface().(*event.Meta)
	switch shape.name {
	case "run_started", "group_started", "fact_stated":
		m.Session = s.Session
		v.Elem().FieldByName("Dialect").SetString(Dialect)
	}
	in := reader{line: o, rule: s.Rule}
	if in.members(o, shape.fields, v.Elem()); known && o.Failed() > 0 {
		return nil, problems(o, name)
	}
	m.Arrived, m.Seq = line.Arrived, cmp.Or(m.Seq, line.Seq)
	ev := v.Interface().(event.Event)
	other := &event.Other{Meta: *m, Type: name, Body: line.Text}
	if !known {
		return []event.Event{other}, nil
	}
	other.Type += input.UnknownKeys
	switch other.Body = o.Rest(); {
	case other.Body == nil:
		return []event.Event{ev}, nil
	case strings.HasSuffix(name, "_ended"): // the unknown keys are kept on what ends
		return []event.Event{other, ev}, nil
	}
	return []event.Event{ev, other}, nil
}

// problems returns all problems of a line as one error.
func problems(o *object.Object, typ string) *input.LineError {
	all := o.Problems()
	e := &input.LineError{Dialect: Dialect, Type: typ, Field: all[0].Path, Reason: all[0].Reason}
	for _, p := range all[1:] {
		e.Reason += "; " + p.Path + ": " + p.Reason
	}
	if o.Failed() > len(all) {
		e.Reason += "; and more"
	}
	return e
}
