// Package ndjson reads and writes the events of package otelagent as lines of JSON: one line an event,
// `{"type":"otelagent.tool_started","ts":…,"session":…,"run":…,"call_id":…}`. It is what a producer in any language writes that has
// no dialect of its own, and its lines may stand between those of any dialect, for what that dialect cannot say.
//
// The lines are told in docs/formats.md ("NDJSON events") and by [Schema].
//
//	for ev, err := range ndjson.Events(os.Stdin, input.WithLive()) {
//		var bad *input.LineError
//		switch {
//		case errors.As(err, &bad):
//			log.Print(bad) // this line is lost, the rest goes on
//		case err != nil:
//			return err
//		default:
//			rec.Record(ctx, ev)
//		}
//	}
package ndjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect, GroupInfo.Dialect and FactStated.Dialect of lines that name none.
const Dialect = "otelagent"

// prefix begins every line's type.
const prefix = "otelagent."

// unknownKeys follows the type in Other.Type where a line had keys that are not ours.
const unknownKeys = ".unknown_keys"

// maxDepth is the depth of nesting of a line that is accepted: content of the depth that is accepted anywhere, and what stands around it.
const maxDepth = rawjson.MaxDepth + 8

// Own reports whether line, which may be cut anywhere behind it, has at its top level the key "type" with a string that begins with
// "otelagent.". It reads no further than that key, and holds nothing of line. Of several such keys the first counts.
func Own(line []byte) bool {
	const usual = `{"type":"` + prefix
	if bytes.HasPrefix(line, []byte(usual)) {
		return true
	}
	c := rawjson.NewCursor(line, maxDepth)
	if !c.Open('{') {
		return false
	}
	for c.More('}') {
		if string(c.Key()) != "type" {
			c.Value()
			continue
		}
		typ, _ := rawjson.String(c.Value())
		return len(typ) >= len(prefix) && typ[:len(prefix)] == prefix
	}
	return false
}

// Recognise reports whether head, the beginning of an input, is of this dialect: it has lines that are Own, and no other complete line
// that is a JSON object. Why says so in a few words, without content.
func Recognise(head []byte) (why string, ok bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for in.Scan() {
		switch text := in.Line().Text; {
		case Own(text):
			ok = true
		case len(text) > 0 && text[0] == '{' && rawjson.Valid(text, maxDepth) == nil:
			return "", false
		}
	}
	if !ok {
		return "", false
	}
	return "lines with a type that begins with " + prefix, true
}

// Events reads lines from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads lines. It remembers nothing of one line for the next; what it keeps is memory for one event of each type, which grows to
// the largest met. A line, and an object in it that is not content, has 1,024 keys at most, an array that is not content 65,536 elements. Not
// safe for concurrent use.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
	events   [len(kinds)]otelagent.Event // one of each kind, made when first needed
	other    otelagent.Other             // for unknown keys, which come beside an event
	in       reader
}

// NewDecoder returns a Decoder. Of the settings, Session names the session of runs, groups and facts that name none, Agent and Provider those
// of runs that name none, Rule that of usage that names none.
func NewDecoder(opts ...input.Option) *Decoder {
	return &Decoder{settings: input.SettingsOf(opts...)}
}

// Stats returns what was read so far. Lines counts those that Events read; the other counts are of Line too.
func (d *Decoder) Stats() input.Stats { return d.stats }

// Events reads lines from r until its end. Line numbers in errors begin at 1. Meta.Seq is what a line says it is, else the number of the
// line, which goes on from earlier inputs.
//
// An event is valid until the next iteration: it and all its slices are reused. Strings may be kept. A line gives one event, or two when it
// has unknown keys.
//
// An error that is a *input.LineError is about one line and tells all that is wrong with it (the first eight things), and reading goes on
// behind it; its event is nil. Any other error is one of r, wrapped, and the last. The iterator may be used once.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
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

// Line reads one line, which becomes the events of Meta.Seq seq unless it says another, and hands them or a *input.LineError to yield.
// It reports whether the caller wants more. A dialect calls it with lines that are Own and none of its own. What is handed out points into
// line and is valid until the next call.
func (d *Decoder) Line(line input.Line, seq int64, yield func(otelagent.Event, error) bool) bool {
	reject := func(e *input.LineError) bool {
		e.Dialect, e.Line, e.Seq = Dialect, line.Number, seq
		d.stats.Rejected++
		return yield(nil, e)
	}
	missed, lagged := line.Lagged()
	switch {
	case line.TooLong:
		return reject(&input.LineError{Reason: "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"})
	case lagged:
		lost := otelagent.DefectFound{Meta: otelagent.Meta{Seq: seq, Arrived: line.Arrived}, Code: spans.DefectEventLost}
		if missed > 0 {
			lost.Detail = strconv.FormatInt(missed, 10) + " events"
		}
		return yield(&lost, nil)
	}
	in := &d.in
	if err := in.begin(line.Text); err != nil {
		e := &input.LineError{Reason: err.Error()}
		var syntax *rawjson.SyntaxError
		if errors.As(err, &syntax) {
			e.Reason, e.Cut = syntax.Reason+" at byte "+strconv.Itoa(syntax.Offset+1), syntax.Cut
		}
		return reject(e)
	}
	in.arrived, in.seq, in.session, in.rule = line.Arrived, seq, "", d.settings.Rule
	name := in.typ()
	if in.wrong != nil {
		return reject(in.wrong)
	}
	i, known := kindOf[name[len(prefix):]]
	if !known {
		d.stats.Events++
		d.other = otelagent.Other{Type: name, Body: line.Text}
		in.meta(&d.other.Meta)
		return yield(&d.other, nil)
	}
	k := &kinds[i]
	if d.events[i] == nil {
		d.events[i] = k.make()
	}
	ev := d.events[i]
	if k.names {
		in.session = d.settings.Session
	}
	k.shape(in, ev)
	switch ev := ev.(type) {
	case *otelagent.RunStarted:
		if ev.Agent == "" && ev.AgentID == "" {
			ev.Agent = d.settings.Agent
		}
		if ev.Provider == "" {
			ev.Provider = d.settings.Provider
		}
	case *otelagent.RequestPrepared:
		in.attribute(&ev.Request)
	}
	if in.wrong != nil {
		in.wrong.Type = name
		return reject(in.wrong)
	}
	d.stats.Events++
	body := in.unused()
	if body == nil {
		return yield(ev, nil)
	}
	d.other = otelagent.Other{Meta: in.last, Type: name + unknownKeys, Body: body}
	if k.ends {
		return yield(&d.other, nil) && yield(ev, nil)
	}
	return yield(ev, nil) && yield(&d.other, nil)
}
