// Package phi reads what phi-core's agent loop emits and saves, and turns it into the events of package otelagent:
//
//   - AgentEvents as newline-delimited JSON or server-sent events, all 19 variants of phi-core 0.6.1 and later, and the lines of the
//     event log of 0.14 and later, `{"ordinal":n,"event":{…}}`;
//   - ledgers (saved sessions) of any age, one or an array of them;
//   - the bare array of messages that phi-core's save_messages writes.
//
// Which one it is follows from the first bytes. What it makes of each field is told in docs/dialects.md.
//
//	rec := otelagent.NewRecorder(tracer)
//	for ev, err := range phi.Events(os.Stdin, input.WithLive()) {
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
package phi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect and GroupInfo.Dialect.
const Dialect = "phi-core"

const (
	// feedEvent is the name of the server-sent events that are AgentEvents.
	feedEvent = "agent_event"
	// maxDepth is the depth of nesting that is accepted. phi-core's own reader stops at 128.
	maxDepth = 200
)

// Events reads r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads any number of inputs, such as the files of one recording: it remembers the runs it met. Not safe for concurrent
// use.
//
// Remembered are up to 32,768 runs, sessions and short strings each, 1,024 open runs and groups, and 1,024 tool calls of an open
// turn.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
	lineNo   int64
	seq      int64     // Meta.Seq of what is told now
	stamped  time.Time // what the line of an event log says, around the event
	doc      *document // nil while lines are read
	head     []byte    // the beginning of the input

	yield   func(otelagent.Event, error) bool
	stopped bool
	arrived time.Time

	own    *ndjson.Decoder // for lines of ours in between
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
func NewDecoder(opts ...input.Option) *Decoder {
	d := &Decoder{settings: input.SettingsOf(opts...), own: ndjson.NewDecoder(opts...)}
	d.runs.session, d.runs.rule = d.settings.Session, d.settings.Rule
	if d.runs.rule == "" {
		d.runs.rule = spans.UsageRuleIncludesCache
	}
	return d
}

// Stats returns what was read so far.
func (d *Decoder) Stats() input.Stats { return d.stats }

// Events reads r until its end. Line numbers in errors begin at 1; Meta.Seq goes on from earlier inputs.
//
// An event is valid until the next iteration: it and all its slices are reused. Strings may be kept. One line gives no event
// (MessageStart), one, or several.
//
// An error that is a *input.LineError is about one line, and reading goes on behind it; its event is nil. Any other error is one of
// r, wrapped, and the last. Blank lines, a byte order mark and carriage returns before line ends are passed over.
//
// It reads from r only when all complete lines it holds were handed out, so events of a pipe come as soon as their line ends.
// The iterator may be used once.
//
// A document (ledgers, an array of messages) is read whole and is at most as long as a line may be. Its runs have
// RunInfo.Recording [spans.RecordingLedger] and the addresses that the events of the same session give; Meta.Seq counts within each
// run. An error in it names its place by LineError.Field. What was complete before the place where it is cut or broken is told first; a
// run that is not complete has no end then. Of one document at most 65,536 runs a session, and 1,048,576 turns, events or messages
// each of a run, are read.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped, d.lineNo = yield, false, 0
		defer func() { d.yield = nil }()
		r, isDocument := d.look(r)
		if isDocument {
			d.document(r)
		} else {
			d.lines(r)
		}
	}
}

// lines reads lines or server-sent events.
func (d *Decoder) lines(r io.Reader) {
	in := input.NewScanner(r, d.settings)
	before := d.stats.Lines
	for !d.stopped && in.Scan() {
		line := in.Line()
		d.lineNo, d.arrived = line.Number, line.Arrived
		d.stats.Lines = before + line.Number
		d.seq = d.stats.Lines
		switch missed, lagged := line.Lagged(); {
		case line.TooLong:
			d.reject(&input.LineError{Reason: d.tooLong()})
		case lagged:
			d.lagged(missed)
		case line.Event != "" && d.foreign(&line):
		default:
			d.line(line.Text)
		}
	}
	if d.stopped {
		return
	}
	d.stats.Lines = before + in.Lines()
	if err := in.Err(); err != nil {
		d.yield(nil, fmt.Errorf("phi: %w", err))
	}
}

func (d *Decoder) tooLong() string {
	return "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"
}

// foreign takes a server-sent event that has a name and no AgentEvent, and reports whether it did: it is kept as it came.
func (d *Decoder) foreign(line *input.Line) bool {
	if line.Event == feedEvent || line.Event == "message" || d.ev.parse(line.Text) == nil && d.ev.typ != nil {
		return false
	}
	d.stats.Events++
	m := otelagent.Meta{Seq: d.seq, Arrived: d.arrived}
	m.Session, m.Run = d.runs.place()
	body := line.Text
	if rawjson.Valid(body, maxDepth) != nil {
		body = rawjson.Quote(nil, string(body))
	}
	d.emitOther(m, line.Event, body)
	return true
}

func (d *Decoder) reject(e *input.LineError) {
	e.Dialect, e.Line, e.Seq = Dialect, d.lineNo, d.seq
	if d.doc != nil {
		d.doc.locate(e)
	}
	d.stats.Rejected++
	if !d.stopped && !d.yield(nil, e) {
		d.stopped = true
	}
}

// lagged tells of events that a feed left out because we were slow.
func (d *Decoder) lagged(missed int64) {
	m := otelagent.Meta{Seq: d.seq, Arrived: d.arrived}
	m.Session, m.Run = d.runs.place()
	detail := ""
	if missed > 0 {
		detail = strconv.FormatInt(missed, 10) + " events"
	}
	d.emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectEventLost, Detail: detail})
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
	d.stamped = time.Time{}
	if !isLog || ev.parse(inner) != nil {
		if err := ev.parse(raw); err != nil {
			d.rejectSyntax(err)
			return
		}
		// The slow way to the event of a log line, for other orders of keys than phi-core's.
		if ev.typ == nil && ev.event != nil {
			d.stamped = d.stamp()
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
	e := &input.LineError{Reason: err.Error()}
	var syntax *rawjson.SyntaxError
	if errors.As(err, &syntax) {
		e.Reason = syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset+1)
		e.Cut = syntax.Cut
	}
	d.reject(e)
}

// emit hands ev out. After the caller stopped it does nothing.
func (d *Decoder) emit(ev otelagent.Event) {
	if d.doc != nil {
		d.doc.amend(ev)
	}
	if !d.stopped && !d.yield(ev, nil) {
		d.stopped = true
	}
}
