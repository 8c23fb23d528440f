package input

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// OwnPrefix begins the type of each line of package ndjson.
const OwnPrefix = "otelagent."

// UnknownKeys follows the name of an event in Other.Type where it had keys that its dialect does not know.
const UnknownKeys = ".unknown_keys"

// Own reports whether line, which may be cut anywhere after it, has at its top level the key "type" with a string
// that begins with OwnPrefix. It reads no further than that key, and holds nothing of line. Of several such keys the
// first counts.
func Own(line []byte) bool {
	c := rawjson.NewCursor(line, object.MaxDepth)
	for c.Open('{'); c.More('}'); {
		isType := string(c.Key()) == "type"
		if value := c.Value(); isType {
			typ, _ := rawjson.String(value)
			return strings.HasPrefix(typ, OwnPrefix)
		}
	}
	return false
}

// A Reader is the part of a dialect that differs from others. It emits events with Shell.Emit and errors with
// Shell.Reject.
type Reader struct {
	// Line reads one line. The shell calls it in order, never with a line that is too long, a notice of lagged events or
	// a line of package ndjson.
	Line func(Line)
	// Holds is called with a line of package ndjson, which is valid until Holds returns. It returns true to read the
	// line later, with Shell.Own; otherwise, and without Holds, the shell reads it now.
	Holds func(Line) bool
	// End, if set, is called when an input has ended or failed, unless the caller stopped.
	End func()
	// IsDocument, if set, reports whether the shell reads an input that begins so whole, and calls Document with each of
	// its JSON values.
	IsDocument func(Outline) bool
	Document   func(value []byte)
}

// ReadOwn reads a line of package ndjson.
type ReadOwn func(s Settings, line Line) ([]event.Event, *LineError)

// Shell reads inputs for a Reader: it cuts them into lines or server-sent events, counts and numbers those, and turns
// problems into errors that name the line and the key. Its fields, but for Name, are valid while a line is read. Not
// safe for concurrent use.
type Shell struct {
	// Name is the name of the dialect.
	Name string
	// Settings are those of the decoder.
	Settings Settings
	// Reader reads them.
	Reader Reader
	// Counts counts lines, rejects, and events of package ndjson; the Reader counts its own events.
	Counts Stats
	// Number is the number of the current line in its input, Seq its number among all inputs, which is Meta.Seq of
	// its events.
	Number, Seq int64
	// Arrived is when the current line was read; zero in a recording.
	Arrived time.Time

	own     ReadOwn
	ended   bool // Line.Ended
	yield   func(event.Event, error) bool
	stopped bool
}

// NewShell returns the Shell of a dialect. Own is that of package ndjson.
func NewShell(name string, own ReadOwn, opts ...Settings) Shell {
	return Shell{Name: name, Settings: SettingsOf(opts...), own: own}
}

// Read returns what read emits and rejects. An error that it returns is the last one. Line numbers and Seq are zero
// until read sets them.
func (s *Shell) Read(read func() error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.yield, s.stopped = yield, false
		s.Number, s.Seq, s.Arrived, s.ended = 0, 0, time.Time{}, false
		if err := read(); err != nil && !s.stopped {
			yield(nil, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
}

// Stats returns what was read so far.
func (s *Shell) Stats() Stats { return s.Counts }

// Events reads r until its end, as Decoder.Events describes.
func (s *Shell) Events(r io.Reader) iter.Seq2[event.Event, error] {
	return s.Read(func() error {
		isDocument := false
		if s.Reader.IsDocument != nil {
			r, _ = Head(r, func(head []byte) bool {
				o := OutlineOf(head)
				isDocument = s.Reader.IsDocument(o)
				return isDocument || !o.Cut
			})
		}
		read := s.lines
		if isDocument {
			read = s.documents
		}
		err := read(r)
		if s.Reader.End != nil && !s.stopped {
			s.Reader.End()
		}
		return err
	})
}

// lines reads r line by line.
func (s *Shell) lines(r io.Reader) error {
	in := NewScanner(r, s.Settings)
	before := s.Counts.Lines
	for !s.stopped && in.Scan() {
		line := in.Line()
		s.Counts.Lines = before + line.Number
		s.Number, s.Seq, s.Arrived, s.ended = line.Number, s.Counts.Lines, line.Arrived, line.Ended
		s.Line(line)
	}
	s.Counts.Lines = before + in.Lines()
	return in.Err()
}

// documents reads r whole: JSON values that are one after the other. Together they may be as long as a line. Nothing
// is read of a value that is cut or malformed, nor of what follows it.
func (s *Shell) documents(r io.Reader) error {
	var all bytes.Buffer // which doubles, as io.ReadAll does not
	if _, err := all.ReadFrom(io.LimitReader(r, int64(s.Settings.MaxLine)+1)); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if all.Len() > s.Settings.MaxLine {
		s.TooLong()
		return nil
	}
	text := bytes.TrimPrefix(all.Bytes(), []byte(byteOrderMark))
	s.Seq = s.Counts.Lines
	if err := rawjson.ValidUTF8(text); err != nil {
		s.RejectSyntax(err)
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	c := rawjson.NewCursor(text, object.MaxDepth)
	for !s.stopped && c.Peek() != 0 {
		if value := c.Value(); value != nil {
			s.Reader.Document(value)
		}
	}
	if err := c.End(); err != nil && !s.stopped {
		s.RejectSyntax(err)
	}
	return nil
}

// Line reads one line, which Number and Seq name.
func (s *Shell) Line(line Line) {
	line.Seq = s.Seq
	switch {
	case line.TooLong:
		s.TooLong()
	case line.Event == "lagged":
		// Feeds of phi-core send it for lost events: its data is their number, or an object with one number.
		lost := &event.DefectFound{Meta: event.Meta{Seq: s.Seq, Arrived: s.Arrived}, Code: spans.DefectEventLost}
		digits := bytes.TrimFunc(line.Text, func(r rune) bool { return r < '0' || r > '9' })
		if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil && n > 0 {
			lost.Detail = strconv.FormatInt(n, 10) + " events"
		}
		s.Emit(lost)
	case Own(line.Text):
		if s.Reader.Holds == nil || !s.Reader.Holds(line) {
			s.Own(line)
		}
	default:
		s.Reader.Line(line)
	}
}

// Own emits the events of a line of package ndjson.
func (s *Shell) Own(line Line) {
	events, bad := s.own(s.Settings, line)
	if bad != nil {
		s.reject(bad, line)
		return
	}
	s.Counts.Events++
	for _, ev := range events {
		s.Emit(ev)
	}
}

// Emit hands ev out, the start of a run with the agent and the provider of the settings where it names none. After the
// caller stopped it does nothing.
func (s *Shell) Emit(ev event.Event) {
	if run, ok := ev.(*event.RunStarted); ok {
		if run.AgentID == "" {
			run.Agent = cmp.Or(run.Agent, s.Settings.Agent)
		}
		run.Provider = cmp.Or(run.Provider, s.Settings.Provider)
	}
	if !s.stopped && !s.yield(ev, nil) {
		s.stopped = true
	}
}

// Other emits what has no event of its own; nothing when body is nil.
func (s *Shell) Other(m event.Meta, typ string, body []byte) {
	if body != nil {
		s.Emit(&event.Other{Meta: m, Type: typ, Body: body})
	}
}

// Stopped reports whether the caller wants no more.
func (s *Shell) Stopped() bool { return s.stopped }

// Reject emits the error of the current line and counts it.
func (s *Shell) Reject(e *LineError) { s.reject(e, Line{Number: s.Number, Seq: s.Seq, Ended: s.ended}) }

func (s *Shell) reject(e *LineError, of Line) {
	e.Line, e.Seq, e.Dialect, e.Cut = of.Number, of.Seq, cmp.Or(e.Dialect, s.Name), e.Cut && !of.Ended
	if !e.Again {
		s.Counts.Rejected++
	}
	if !s.stopped && !s.yield(nil, e) {
		s.stopped = true
	}
}

// TooLong rejects the current line, which is longer than the settings allow.
func (s *Shell) TooLong() {
	s.Reject(&LineError{Reason: "longer than " + strconv.Itoa(s.Settings.MaxLine) + " bytes"})
}

// Object reads a line that is one JSON object. It rejects others and returns nil then.
func (s *Shell) Object(line Line) *object.Object {
	o, err := object.Parse(line.Text)
	if err != nil {
		s.RejectSyntax(err)
		return nil
	}
	return o
}

// RejectSyntax rejects the line for an error of package rawjson or object.
func (s *Shell) RejectSyntax(err error) { s.Reject(Malformed(err)) }

// RejectProblems rejects the line for each problem of o, and reports whether there was one. Variant names the kind of
// line, where known.
func (s *Shell) RejectProblems(variant string, o *object.Object) bool {
	for i, p := range o.Problems() {
		s.Reject(&LineError{Type: variant, Field: p.Path, Reason: p.Reason, Again: i > 0})
	}
	return o.Failed() > 0
}
