// Package clark reads what clark-agent's loop emits: AgentEvents as newline-delimited JSON, bare or in an envelope, and
// the records of its trajectory, and turns them into the events of package otelagent.
//
// It reads all 16 variants of clark-agent 0.2.0 and later and TrajectoryRecords of schema 1. testdata/fields.md
// lists what it makes of each field, dialects/README.md what it infers and loses.
//
// The event stream has the payloads but no times and nearly no ids; the trajectory has times and run ids but no
// payloads. Both together are one recording: give the trajectory with [Decoder.WithTrajectory]. Records of runs whose
// events a Decoder reads are passed over in the input itself.
//
// In one stream runs nest. Where children of one run write to one stream at the same time, each line needs an envelope
// with its run_id: without it nothing says whose a line is, and the lines stay on the parent, with the defect
// runs_mixed.
package clark

import (
	"bytes"
	"io"
	"slices"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "clark-agent"

// A Decoder reads one recording from any number of inputs: it remembers the runs it met. Not safe for concurrent use.
//
// One line gives no event, one, or several. The start of a run comes with the line after it; in a recording, where it
// has no time, with the first line after its prompts, or with a prompt that has one. Where only a part of a line is
// wrong (a negative count of tokens, an invalid time), its error comes after its events.
//
// At the end of an input a turn whose reply is known ends, and so does a run whose last reply failed; all other open
// runs stay open. An agent_start at the end waits for what the next input says of its run: alone it would be a run
// without a name, and another one when the input has grown.
//
// Limits of what it remembers:
//   - 64 open runs of one stream, 1,024 streams, 4,096 runs; beyond them the oldest is forgotten
//   - 1,024 calls of a turn, and 64 MiB of the trajectory, where a record takes 512 bytes and its line; beyond them the
//     newest is passed over
type Decoder struct {
	input.Shell
	runs       map[string]*run // by id: of each id the last to start
	order      []string        // of their ids, by start
	streams    []*stream       // the one used last is the last
	trajectory journal
}

// NewDecoder returns a Decoder that has met no runs.
func NewDecoder(opts ...input.Settings) *Decoder {
	d := &Decoder{Shell: input.NewShell(Dialect, ndjson.Read, opts...), runs: map[string]*run{},
		trajectory: journal{waiting: map[kind][]int{}, done: map[string]int{}, played: map[string]bool{}}}
	d.Reader = input.Reader{Line: d.read, Holds: d.announceAll, End: d.end}
	return d
}

// WithTrajectory gives d the trajectory of what it will read: its records give the events their times. It returns d.
//
// Events reads all of r when the first event needs it, at the latest when its first input has ended. Runs that are only
// in the trajectory become events then; records of a run after its last event continue that run. What is wrong with a
// line of r is a *input.LineError whose Field begins with "trajectory"; an error of r itself ends it, and is one too.
func (d *Decoder) WithTrajectory(r io.Reader) *Decoder {
	d.trajectory.source = r
	return d
}

// Stats returns what was read so far. Lines of a trajectory given by WithTrajectory are in it.
func (d *Decoder) Stats() input.Stats {
	s := d.Counts
	s.Lines += d.trajectory.lines
	return s
}

// read reads one line of the input.
func (d *Decoder) read(in input.Line) {
	l := parse(&d.Shell, in)
	if l == nil {
		return
	}
	if d.Shell.Counts.Events++; l.record {
		d.record(l)
	} else {
		d.event(d.stream(streamKey{l.stream, l.named, false}), l)
	}
	d.RejectProblems(l.variant, l.Object)
}

// announceAll emits the starts that are known, so that lines of package ndjson find their run. It returns false.
func (d *Decoder) announceAll(input.Line) bool {
	for _, s := range d.streams {
		if top := s.top(); top != nil {
			d.announce(top, event.Moment{})
		}
	}
	return false
}

// end emits what is known at the end of an input.
func (d *Decoder) end() {
	d.announceAll(input.Line{})
	d.continueRuns()
	for _, s := range d.streams {
		for _, r := range slices.Backward(slices.Clone(s.stack)) {
			d.announce(r, event.Moment{})
			if d.endTurn(r); failed(r.reply) {
				d.remove(r)
			}
		}
	}
}

// Recognise returns why a line, which may be cut, is an event or a record of clark-agent; empty when it is neither.
func Recognise(o input.Outline) (why string) {
	why, _ = recognise(o)
	return why
}

// IsTrajectory reports whether head, the beginning of an input of this dialect, begins with a record of the
// trajectory: such an input is for WithTrajectory where events are given as well. It looks at 16 lines.
func IsTrajectory(head []byte) bool {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < 16 && in.Scan(); n++ {
		if why, record := recognise(input.OutlineOf(in.Line().Text)); why != "" {
			return record
		}
	}
	return false
}

func recognise(o input.Outline) (why string, record bool) {
	if o.Has("", "recorded_at_unix_ms") && variantOf(o.Text("payload", "kind")) != "" {
		return "lines with payload.kind and recorded_at_unix_ms", true
	}
	for _, place := range []string{"", "event", "payload", "data"} {
		typ := o.Text(place, "type")
		switch _, known := shapes[typ]; {
		case !known:
		case place == "":
			return "lines with type " + typ, false
		case o.Text("", "type") == "":
			return "lines with a clark-agent event inside", false
		}
	}
	return "", false
}
