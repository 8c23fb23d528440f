// Package phi reads what phi-core's agent loop emits: AgentEvents as newline-delimited JSON, and turns them into the events
// of package otelagent.
//
// It reads all 19 variants of phi-core 0.6.1 and later, and the lines of the event log of 0.14 and later,
// `{"ordinal":n,"event":{…}}`. What it makes of each field is told in docs/dialects.md.
//
//	rec := otelagent.NewRecorder(tracer)
//	for ev, err := range phi.Events(os.Stdin, phi.WithLive()) {
//		var bad *phi.LineError
//		switch {
//		case errors.As(err, &bad):
//			log.Print(bad) // this line is lost, the rest goes on
//		case err != nil:
//			return err
//		default:
//			rec.Record(ctx, ev)
//		}
//	}
package phi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect and GroupInfo.Dialect.
const Dialect = "phi-core"

const (
	// defaultMaxLine is the longest line that is read, in bytes, unless told. A TurnRequest holds a whole request.
	defaultMaxLine = 64 << 20
	// maxDepth is the depth of nesting that is accepted. phi-core's own reader stops at 128.
	maxDepth = 200
	// firstBuffer is the size of the reading buffer at first; it doubles up to the longest line.
	firstBuffer = 64 << 10
)

// An Option changes how a Decoder reads. Nil is ignored.
type Option interface{ apply(*config) }

type config struct {
	live    bool
	maxLine int
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithLive says that the input is a pipe from a loop that runs now: events get Meta.Arrived, the time at which their line
// was read. Without it the input is a recording and Arrived is zero.
func WithLive() Option { return option(func(c *config) { c.live = true }) }

// WithMaxLine sets the longest line that is read, in bytes without its end; longer ones give a *LineError. Default 64 MiB,
// which zero or less means too. The reader holds at most two such lines: the one it reads, and the messages of the last
// request, to compare them with those of the next.
func WithMaxLine(n int) Option {
	return option(func(c *config) {
		if n <= 0 {
			n = defaultMaxLine
		}
		c.maxLine = n
	})
}

// LineError says why a line was not read. It never holds a piece of the line: lines are content.
type LineError struct {
	// Line is the number of the line in its input, from 1. Seq is the number that its events would have had as Meta.Seq;
	// it differs from Line only where one Decoder read several inputs.
	Line, Seq int64
	// Type is the variant, if it is one of phi-core's and came before what is wrong.
	Type string
	// Field is the path of the key that is wrong, such as payload.messages; empty where the line as a whole is.
	Field string
	// Reason is what is wrong, in a few words, and what would be right.
	Reason string
	// Cut says that the line ended too early, as the last line of a file does whose writer died or still writes.
	Cut bool
}

// Error returns "phi: line N: [TYPE: ][FIELD: ]REASON".
func (e *LineError) Error() string {
	b := append(strconv.AppendInt([]byte("phi: line "), e.Line, 10), ": "...)
	for _, s := range []string{e.Type, e.Field} {
		if s != "" {
			b = append(append(b, s...), ": "...)
		}
	}
	return string(append(b, e.Reason...))
}

// Stats counts what a Decoder read.
type Stats struct {
	// Lines counts all lines, blank ones included; Rejected those that gave a *LineError.
	Lines, Rejected int64
	// Events counts AgentEvents read, also those of which nothing is kept.
	Events int64
	// IgnoredKeys counts unknown keys of MessageUpdate lines, the only ones that are not kept.
	IgnoredKeys int64
}

// Events reads AgentEvents from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads one stream of AgentEvents from any number of inputs, such as the files of one recording: it remembers the
// runs it met. Not safe for concurrent use.
type Decoder struct {
	config config
	stats  Stats
	lineNo int64

	yield   func(otelagent.Event, error) bool
	stopped bool
	arrived time.Time

	words  names
	runs   runs
	ev     eventLine
	out    outbox
	update updateHead

	provenances []knownProvenance // of the last request, and behind them of longer ones
	framed      *spans.Frame      // of the last request that had one
	spelled     []byte            // scratch
}

// NewDecoder returns a Decoder that has met no runs.
func NewDecoder(opts ...Option) *Decoder {
	d := &Decoder{config: config{maxLine: defaultMaxLine}}
	for _, o := range opts {
		if o != nil {
			o.apply(&d.config)
		}
	}
	return d
}

// Stats returns what was read so far.
func (d *Decoder) Stats() Stats { return d.stats }

// Events reads AgentEvents from r until its end. Line numbers in errors begin at 1; Meta.Seq goes on from earlier inputs.
//
// An event is valid until the next iteration: it and all its slices are reused. Strings may be kept. One line gives no event
// (MessageStart), one, or several.
//
// An error that is a *LineError is about one line, and reading goes on behind it; its event is nil. Any other error is one of
// r, wrapped, and the last. Blank lines, a byte order mark and carriage returns before line ends are passed over.
//
// It reads from r only when all complete lines it holds were handed out, so events of a pipe come as soon as their line ends.
// The iterator may be used once.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped, d.lineNo = yield, false, 0
		defer func() { d.yield = nil }()
		in := lineReader{r: r, max: d.config.maxLine}
		for !d.stopped {
			line, long, more := in.next()
			if !more {
				if in.err != nil {
					yield(nil, fmt.Errorf("phi: read: %w", in.err))
				}
				return
			}
			d.lineNo++
			d.stats.Lines++
			if d.config.live {
				d.arrived = time.Now()
			}
			if long {
				d.reject(&LineError{Reason: "longer than " + strconv.Itoa(d.config.maxLine) + " bytes"})
				continue
			}
			if d.lineNo == 1 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			if line = trimmed(line); len(line) == 0 {
				continue
			}
			d.line(line)
		}
	}
}

func (d *Decoder) reject(e *LineError) {
	e.Line, e.Seq = d.lineNo, d.stats.Lines
	d.stats.Rejected++
	if !d.yield(nil, e) {
		d.stopped = true
	}
}

// trimmed returns line without blanks around it.
func trimmed(line []byte) []byte {
	isBlank := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	for len(line) > 0 && isBlank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	return line
}

// line reads one line that is not blank.
func (d *Decoder) line(raw []byte) {
	inner, isLog := logged(raw)
	if isLog && d.updated(inner) || !isLog && d.updated(raw) {
		return
	}
	if err := rawjson.ValidUTF8(raw); err != nil {
		d.rejectSyntax(err)
		return
	}
	ev := &d.ev
	if !isLog || ev.parse(inner) != nil {
		if err := ev.parse(raw); err != nil {
			d.rejectSyntax(err)
			return
		}
		// The slow way to the event of a log line, for other orders of keys than phi-core's.
		if ev.typ == nil && ev.event != nil {
			if err := ev.parse(ev.event); err != nil {
				d.rejectSyntax(err)
				return
			}
		}
	}
	d.stats.Events++
	if problem := d.decode(); problem != nil {
		d.stats.Events--
		d.reject(problem)
	}
}

// logged returns the event of a line of phi-core's event log, if raw looks like one.
func logged(raw []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"ordinal":`))
	if !ok || raw[len(raw)-1] != '}' {
		return nil, false
	}
	rest = bytes.TrimLeft(rest, "0123456789")
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"event":`)); !ok || len(rest) == 0 {
		return nil, false
	}
	return rest[:len(rest)-1], true
}

func (d *Decoder) rejectSyntax(err error) {
	e := &LineError{Reason: err.Error()}
	var syntax *rawjson.SyntaxError
	if errors.As(err, &syntax) {
		e.Reason = syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset+1)
		e.Cut = syntax.Cut
	}
	d.reject(e)
}

// emit hands ev out. After the caller stopped it does nothing.
func (d *Decoder) emit(ev otelagent.Event) {
	if !d.stopped && !d.yield(ev, nil) {
		d.stopped = true
	}
}
