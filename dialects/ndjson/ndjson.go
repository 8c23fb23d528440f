// Package ndjson reads and writes the events of package otelagent as lines of JSON: one line an event,
// `{"type":"otelagent.tool_started","ts":…,"session":…,"run":…,"call_id":…}`. A producer in any language that has no
// dialect of its own writes them. They may stand between the lines of any dialect, for what that dialect cannot say.
//
// docs/formats.md ("NDJSON events") has the rules, docs/lines.md and [Schema] have the keys.
package ndjson

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is the name of this dialect in RunInfo.Dialect, GroupInfo.Dialect and FactStated.Dialect of lines that name
// none.
const Dialect = "otelagent"

// Schema is a JSON Schema (draft 2020-12) of one line. A Decoder rejects every line that it rejects. It accepts lines
// that a Decoder rejects for a key that stands there twice, a time outside of 1678 to 2261, or the number of
// provenances of a request. A test compares both. It must not be written to.
//
//go:embed schema.json
var Schema []byte

// prefix begins every line's type.
const prefix = "otelagent."

// unknownKeys follows the type in Other.Type where a line had unknown keys.
const unknownKeys = ".unknown_keys"

// Own reports whether line, which may be cut anywhere behind it, has at its top level the key "type" with a string
// that begins with "otelagent.". It reads no further than that key, and holds nothing of line. Of several such keys
// the first counts.
func Own(line []byte) bool {
	c := rawjson.NewCursor(line, object.MaxDepth)
	for c.Open('{'); c.More('}'); {
		isType := string(c.Key()) == "type"
		if value := c.Value(); isType {
			typ, _ := rawjson.String(value)
			return strings.HasPrefix(typ, prefix)
		}
	}
	return false
}

// Recognise reports whether head, the beginning of an input, is of this dialect: it has lines that are Own, and no
// other complete line that is a JSON object. Why is a short reason, without content.
func Recognise(head []byte) (why string, ok bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for in.Scan() {
		switch text := in.Line().Text; {
		case Own(text):
			ok = true
		case len(text) > 0 && text[0] == '{' && rawjson.Valid(text, object.MaxDepth) == nil:
			return "", false
		}
	}
	if !ok {
		return "", false
	}
	return "lines with a type that begins with " + prefix, true
}

// Events reads lines from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[event.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads lines. It keeps nothing of one line for the next. A line, and an object in it that is not content,
// has 1,024 keys at most, an array that is not content 65,536 elements. Not safe for concurrent use.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
}

// NewDecoder returns a Decoder. Of the settings, Session names the session of runs, groups and facts that name none,
// Agent and Provider those of runs that name none, Rule that of usage that names none.
func NewDecoder(opts ...input.Option) *Decoder {
	return &Decoder{settings: input.SettingsOf(opts...)}
}

// Stats returns what was read so far. Lines counts those that Events read; the other counts are of Line too.
func (d *Decoder) Stats() input.Stats { return d.stats }

// Events reads lines from r until its end. Line numbers in errors begin at 1. Meta.Seq is what a line says it is,
// else the number of the line, which goes on from earlier inputs.
//
// An event is valid until the next iteration: its byte slices alias the input. Strings may be kept. A line gives one
// event, or two when it has unknown keys.
//
// An error that is a *input.LineError is about one line and names the first eight problems of it, and reading goes on
// behind it; its event is nil. Any other error is one of r, wrapped, and the last. The iterator may be used once.
func (d *Decoder) Events(r io.Reader) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		in := input.NewScanner(r, d.settings)
		before := d.stats.Lines
		for in.Scan() {
			line := in.Line()
			d.stats.Lines = before + line.Number
			if !d.Line(line, d.stats.Lines, yield) {
				return
			}
		}
		d.stats.Lines = before + in.Lines()
		if err := in.Err(); err != nil {
			yield(nil, fmt.Errorf("ndjson: %w", err))
		}
	}
}

// Line reads one line, which becomes the events of Meta.Seq seq unless it says another, and hands them or a
// *input.LineError to yield. It reports whether the caller wants more. A dialect calls it with lines that are Own and
// none of its own. The events point into line.
func (d *Decoder) Line(line input.Line, seq int64, yield func(event.Event, error) bool) bool {
	reject := func(e *input.LineError) bool {
		e.Dialect, e.Line, e.Seq = Dialect, line.Number, seq
		d.stats.Rejected++
		return yield(nil, e)
	}
	if line.TooLong {
		return reject(input.TooLong(d.settings.MaxLine))
	}
	if lost := line.Lost(seq); lost != nil {
		return yield(lost, nil)
	}
	o, err := object.Parse(line.Text)
	if err != nil {
		return reject(input.Malformed(err))
	}
	name, _ := rawjson.String(o.Raw("type"))
	if !strings.HasPrefix(name, prefix) {
		o.Fail("type", "want a string that begins with "+prefix)
	}
	if o.Failed() > 0 {
		return reject(problems(o, ""))
	}
	shape, known := kindOf[name[len(prefix):]]
	if !known { // only what every line may have is read
		shape = &anyLine
	}
	v := reflect.New(shape.typ)
	m := v.Elem().Field(0).Addr().Interface().(*event.Meta)
	switch shape.name {
	case "run_started", "group_started", "fact_stated":
		m.Session = d.settings.Session
	}
	in := reader{line: o, rule: d.settings.Rule}
	if in.members(o, shape.fields, v.Elem()); known && o.Failed() > 0 {
		return reject(problems(o, name))
	}
	d.stats.Events++
	m.Arrived, m.Seq = line.Arrived, cmp.Or(m.Seq, seq)
	ev := v.Interface().(event.Event)
	other := &event.Other{Meta: *m, Type: name, Body: line.Text}
	if !known {
		return yield(other, nil)
	}
	if run, ok := ev.(*event.RunStarted); ok {
		if run.AgentID == "" {
			run.Agent = cmp.Or(run.Agent, d.settings.Agent)
		}
		run.Provider = cmp.Or(run.Provider, d.settings.Provider)
	}
	other.Type += unknownKeys
	switch other.Body = o.Rest(); {
	case other.Body == nil:
		return yield(ev, nil)
	case strings.HasSuffix(name, "_ended"): // the unknown keys are kept on what ends
		return yield(other, nil) && yield(ev, nil)
	}
	return yield(ev, nil) && yield(other, nil)
}

// problems returns all problems of a line as one error.
func problems(o *object.Object, typ string) *input.LineError {
	all := o.Problems()
	e := &input.LineError{Type: typ, Field: all[0].Path, Reason: all[0].Reason}
	for _, p := range all[1:] {
		e.Reason += "; " + p.Path + ": " + p.Reason
	}
	if o.Failed() > len(all) {
		e.Reason += "; and more"
	}
	return e
}
