// Package shell is what all readers of lines share: it cuts an input into lines or server-sent events, counts,
// numbers them, hands lines of package ndjson to its decoder, and turns problems into errors that name the line and
// the key.
package shell

import (
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
)

// A Reader is the part of a dialect that differs from others. It hands out events with Shell.Emit and errors with
// Shell.Reject.
type Reader interface {
	// Line reads one line. It is called in order, never with a line that is too long, a notice of lagged events or a
	// line of package ndjson.
	Line(line input.Line)
	// BeforeOwn is called before a line of package ndjson is read.
	BeforeOwn()
	// End is called when an input has ended or failed, unless the caller stopped.
	End()
}

// A Holder is a Reader that holds lines of package ndjson back until it hands them to Shell.Own.
type Holder interface {
	// Hold is called with a line of package ndjson, which is valid until Hold returns. BeforeOwn is not called then.
	Hold(line input.Line)
}

// Shell reads inputs for a Reader. Its fields, but for Name, are valid while a line is read. Not safe for concurrent
// use.
type Shell struct {
	// Name is the name of the dialect.
	Name string
	// Settings are those of the decoder.
	Settings input.Settings
	// Stats counts what was read. Shell counts lines, rejects, and the lines of package ndjson; the Reader counts its own
	// events.
	Stats input.Stats
	// Number is the number of the line at hand in its input, Seq its number among all inputs, which is Meta.Seq of
	// its events.
	Number, Seq int64
	// Arrived is when the line at hand was read; zero in a recording.
	Arrived time.Time

	own     *ndjson.Decoder
	counted input.Stats // of own, as far as Stats has it
	yield   func(event.Event, error) bool
	stopped bool
}

// New returns the Shell of a dialect.
func New(name string, opts ...input.Option) Shell {
	return Shell{Name: name, Settings: input.SettingsOf(opts...), own: ndjson.NewDecoder(opts...)}
}

// Events reads r until its end, line by line, as input.Decoder says.
func (s *Shell) Events(r io.Reader, d Reader) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.yield, s.stopped = yield, false
		defer func() { s.yield = nil }()
		in := input.NewScanner(r, s.Settings)
		before := s.Stats.Lines
		for !s.stopped && in.Scan() {
			line := in.Line()
			s.Stats.Lines = before + line.Number
			s.Number, s.Seq, s.Arrived = line.Number, s.Stats.Lines, line.Arrived
			s.line(line, d)
		}
		if s.stopped {
			return
		}
		s.Stats.Lines = before + in.Lines()
		d.End()
		if err := in.Err(); err != nil && !s.stopped {
			yield(nil, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
}

// Document reads r whole and calls read with it, for what is one text and no lines. It may be as long as a line; a
// longer one is rejected. Line numbers and Seq are zero until read sets them.
func (s *Shell) Document(r io.Reader, read func(text []byte)) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.yield, s.stopped = yield, false
		s.Number, s.Seq, s.Arrived = 0, 0, time.Time{}
		defer func() { s.yield = nil }()
		switch text, err := io.ReadAll(io.LimitReader(r, int64(s.Settings.MaxLine)+1)); {
		case err != nil:
			yield(nil, fmt.Errorf("%s: read: %w", s.Name, err))
		case len(text) > s.Settings.MaxLine:
			s.Reject(input.TooLong(s.Settings.MaxLine))
		default:
			read(text)
		}
	}
}

// While returns what read emits and rejects, for a Reader that is given its lines one by one, or that emits what it
// holds. Read sets Number, Seq and Arrived itself, and counts lines.
func (s *Shell) While(read func()) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.yield, s.stopped = yield, false
		defer func() { s.yield = nil }()
		read()
	}
}

func (s *Shell) line(line input.Line, d Reader) {
	lost := line.Lost(s.Seq)
	switch {
	case line.TooLong:
		s.Reject(input.TooLong(s.Settings.MaxLine))
	case lost != nil:
		s.Emit(lost)
	case ndjson.Own(line.Text):
		if h, holds := d.(Holder); holds {
			h.Hold(line)
			return
		}
		if d.BeforeOwn(); !s.stopped {
			s.Own(line, s.Seq)
		}
	default:
		d.Line(line)
	}
}

// Emit hands ev out. After the caller stopped it does nothing.
func (s *Shell) Emit(ev event.Event) {
	if !s.stopped && !s.yield(ev, nil) {
		s.stopped = true
	}
}

// Own hands out the events of a line of package ndjson, whose number among all inputs is seq.
func (s *Shell) Own(line input.Line, seq int64) {
	if !s.stopped && !s.own.Line(line, seq, s.yield) {
		s.stopped = true
	}
	own := s.own.Stats()
	s.Stats.Events += own.Events - s.counted.Events
	s.Stats.Rejected += own.Rejected - s.counted.Rejected
	s.Stats.IgnoredKeys += own.IgnoredKeys - s.counted.IgnoredKeys
	s.counted = own
}

// Rows calls read, which reads input that has no lines: the rows of a document or of a database. Line numbers are
// zero, and Seq stays as it is until read sets it. An error of read is the last one.
func (s *Shell) Rows(read func() error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.yield, s.stopped = yield, false
		s.Number, s.Seq, s.Arrived = 0, s.Stats.Lines, time.Time{}
		defer func() { s.yield = nil }()
		if err := read(); err != nil && !s.stopped {
			yield(nil, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
}

// Stopped reports whether the caller wants no more.
func (s *Shell) Stopped() bool { return s.stopped }

// Reject hands out the error of the line at hand and counts it.
func (s *Shell) Reject(e *input.LineError) {
	e.Dialect, e.Line, e.Seq = s.Name, s.Number, s.Seq
	s.Stats.Rejected++
	if !s.stopped && !s.yield(nil, e) {
		s.stopped = true
	}
}

// Object reads a line that is one JSON object. It rejects others and returns nil then.
func (s *Shell) Object(line input.Line) *object.Object {
	o, err := object.Parse(line.Text)
	if err != nil {
		s.RejectSyntax(err)
		return nil
	}
	return o
}

// RejectSyntax rejects the line for an error of package rawjson or object.
func (s *Shell) RejectSyntax(err error) { s.Reject(input.Malformed(err)) }

// RejectProblems rejects the line for each problem of o, and reports whether there was one. Variant names the kind of
// line, where known. A line counts as rejected once.
func (s *Shell) RejectProblems(variant string, o *object.Object) bool {
	for i, p := range o.Problems() {
		if s.Reject(&input.LineError{Type: variant, Field: p.Path, Reason: p.Reason}); i > 0 {
			s.Stats.Rejected--
		}
	}
	return o.Failed() > 0
}
