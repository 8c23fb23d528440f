// Package clark reads what clark-agent's loop emits: AgentEvents as newline-delimited JSON, bare or in an envelope, and the records of
// its trajectory, and turns them into the events of package otelagent.
//
// It reads all 16 variants of clark-agent 0.2.0 and later and TrajectoryRecords of schema 1. What it makes of each field, and what it
// supplies that the wire lacks, is told in docs/dialects.md.
//
// The event stream has the payloads but no times and nearly no ids; the trajectory has times and run ids but no payloads. Both together
// are one recording: give the trajectory with [WithTrajectory], or let one Decoder read both.
package clark

import (
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

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "clark-agent"

// maxDepth is the depth of nesting that is accepted.
const maxDepth = 200

// Events reads AgentEvents and TrajectoryRecords from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads one recording from any number of inputs: it remembers the runs it met. Not safe for concurrent use.
//
// Limits of what it remembers, beyond which the oldest is forgotten: 64 open runs of one stream, 1,024 streams, 4,096 runs, 1,024 calls
// of a turn, 4,096 runs of a trajectory, and of each run 65,536 records of the trajectory whose events did not come and as many
// events whose records did not.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
	at       place // of the line at hand

	yield   func(otelagent.Event, error) bool
	stopped bool

	runs    runs
	streams streams
	merge   merge
	line    line
	own     *ndjson.Decoder

	payload []byte // scratch
}

// place says where the line at hand stands.
type place struct {
	number, seq int64
	arrived     time.Time
}

// NewDecoder returns a Decoder that has met no runs.
func NewDecoder(opts ...input.Option) *Decoder {
	return &Decoder{settings: input.SettingsOf(opts...), own: ndjson.NewDecoder(opts...)}
}

// WithTrajectory gives d the trajectory of what it will read: its records give the events their times, and their runs where lines of
// several runs are mixed. It returns d.
//
// R is read as the events need it, at the latest when the first input that Events reads has ended. Runs that are only in the trajectory
// are told from it then; records of a run behind its last event continue that run. What is wrong with a line of it is told as a
// *input.LineError whose Field begins with "trajectory"; an error of r itself ends it, and is told so too.
func (d *Decoder) WithTrajectory(r io.Reader) *Decoder {
	settings := d.settings
	settings.Live = false
	d.merge.source = input.NewScanner(r, settings)
	return d
}

// Stats returns what was read so far. Lines of a trajectory given by WithTrajectory are in it.
func (d *Decoder) Stats() input.Stats {
	s := d.stats
	s.Lines += d.merge.lines
	return s
}

// Events reads r until its end. Line numbers in errors begin at 1; Meta.Seq goes on from earlier inputs.
//
// An event is valid until the next iteration: it and all its slices are reused. Strings may be kept. One line gives no event, one, or
// several; the start of a run of which no time is known is told when the first time of it is met, at most 16 lines later.
//
// An error that is a *input.LineError is about one line, and reading goes on behind it; its event is nil. Events of that line may come
// before it, where only a part of the line is wrong (a negative count of tokens, a time that is none). Any other error is one of r, wrapped,
// and the last.
//
// At the end of r what a run's reply said is told as the end of its turn, and a run whose last reply failed has ended; all other open runs
// stay open. An agent_start at the end waits for what the next input says of its run: alone it would be a run without a name, and another one
// when r has grown. The iterator may be used once.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped = yield, false
		defer func() { d.yield = nil }()
		in := input.NewScanner(r, d.settings)
		before := d.stats.Lines
		for !d.stopped && in.Scan() {
			at := in.Line()
			d.stats.Lines = before + at.Number
			d.at = place{at.Number, d.stats.Lines, at.Arrived}
			d.read(at)
		}
		if d.stopped {
			return
		}
		d.stats.Lines = before + in.Lines()
		d.finish()
		if err := in.Err(); err != nil && !d.stopped {
			yield(nil, fmt.Errorf("clark: %w", err))
		}
	}
}

// read reads one line of the input.
func (d *Decoder) read(at input.Line) {
	switch missed, lagged := at.Lagged(); {
	case at.TooLong:
		d.reject(&input.LineError{Reason: "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"})
		return
	case lagged:
		d.lagged(missed)
		return
	case ndjson.Own(at.Text):
		d.flushHeld()
		d.streams.announceAll(d)
		if !d.stopped && !d.own.Line(at, d.at.seq, d.yield) {
			d.stopped = true
		}
		return
	}
	l := &d.line
	if bad := l.parse(at.Text); bad != nil {
		d.reject(bad)
		return
	}
	l.place = d.at
	if bad := d.again(l); bad != nil {
		d.reject(bad)
		return
	}
	d.stats.Events++
	if l.record {
		d.record(l)
	} else {
		d.event(l)
	}
	d.complain(l)
}

// complain reports what of a line that was read could not be.
func (d *Decoder) complain(l *line) {
	for i, bad := range l.wrong {
		bad.Type = l.variantName()
		if d.reject(bad); i > 0 {
			d.stats.Rejected-- // lines count
		}
	}
	l.wrong = l.wrong[:0]
}

// lagged tells of events that a feed left out because we were slow.
func (d *Decoder) lagged(missed int64) {
	detail := ""
	if missed > 0 {
		detail = strconv.FormatInt(missed, 10) + " events"
	}
	d.emit(&otelagent.DefectFound{Meta: otelagent.Meta{Seq: d.at.seq, Arrived: d.at.arrived}, Code: spans.DefectEventLost, Detail: detail})
}

func (d *Decoder) reject(e *input.LineError) {
	e.Dialect, e.Line, e.Seq = Dialect, d.at.number, d.at.seq
	d.stats.Rejected++
	if !d.stopped && !d.yield(nil, e) {
		d.stopped = true
	}
}

// syntax says what is wrong with JSON.
func syntax(err error) *input.LineError {
	e := &input.LineError{Reason: err.Error()}
	var bad *rawjson.SyntaxError
	if errors.As(err, &bad) {
		e.Reason = bad.Reason + " at byte " + strconv.Itoa(bad.Offset+1)
		e.Cut = bad.Cut
	}
	return e
}

// emit hands ev out. After the caller stopped it does nothing.
func (d *Decoder) emit(ev otelagent.Event) {
	if !d.stopped && !d.yield(ev, nil) {
		d.stopped = true
	}
}
