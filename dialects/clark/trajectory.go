package clark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxRecordSize bounds what is remembered of records, in bytes. recordSize is about what one takes without its line.
	maxRecordSize = 64 << 20
	recordSize    = 512
)

// journal brings the records of WithTrajectory to the events: the n-th event of a kind in a run has the time of the
// n-th record of that kind in that run. A record becomes an event of its own only when its run is not known from
// events, or when that run continues after its last event.
type journal struct {
	source   io.Reader       // until it was read
	lines    int64           // of it
	size     int             // of its records; beyond the bound that of those left out, as well
	records  []record        // in order
	waiting  map[kind][]int  // the records without an event of another program's line, by their index
	done     map[string]int  // by run: the last record that has one
	played   map[string]bool // runs of which some records are events of their own
	nameless bool            // runs without an identity are known from events
}

// record is a record; without a line it was emitted, or an event has it.
type record struct {
	time time.Time
	line *line
}

// kind is a kind of records of one run; those of runs without an id are of one.
type kind struct{ run, variant string }

// known reports whether the run of an id is known from events.
func (d *Decoder) known(id string) bool {
	r := d.runs[id]
	return r != nil && !r.ledger || id == "" && d.trajectory.nameless
}

// timeOf gives l the time of its record, where it has none of its own. If its run was made of records, because another
// input has its events, it has theirs in any case, so that both are the same run.
func (d *Decoder) timeOf(r *run, l *line) {
	if shapes[l.variant].record == "" || r.ledger {
		return
	}
	d.load()
	t, of := &d.trajectory, kind{r.ID, l.variant}
	if r.nameless {
		of.run, t.nameless = "", true
	}
	waiting := t.waiting[of]
	if len(waiting) == 0 {
		return
	}
	i := waiting[0]
	t.waiting[of] = waiting[1:]
	if l.time.IsZero() || t.played[of.run] {
		l.time = t.records[i].time
	}
	t.records[i].line, t.done[of.run] = nil, max(t.done[of.run], i)
	if l.variant != "agent_end" {
		return
	}
	n := 0 // records of the run before its end that no event was like
	for of.variant = range shapes {
		for ; len(t.waiting[of]) > 0 && t.waiting[of][0] < i; n++ {
			t.waiting[of] = t.waiting[of][1:]
		}
	}
	if n > 0 {
		d.Emit(&event.DefectFound{Meta: d.meta(r, l), Code: spans.DefectEventLost,
			Detail: fmt.Sprintf("%d records of the trajectory have no event", n)})
	}
}

// record reads a record that is in the input itself.
func (d *Decoder) record(l *line) {
	if l.variant == "" {
		d.Other(event.Meta{Run: l.stream, Time: l.time, Arrived: d.Arrived, Seq: d.Seq}, l.name, l.raw)
	} else if !d.known(l.stream) {
		d.play(l)
	}
}

// play emits a record as an event of its own.
func (d *Decoder) play(l *line) {
	s := d.stream(streamKey{l.stream, l.stream != "", true})
	top := s.top()
	if top == nil && s.last != nil && d.known(s.last.ParentID) && l.variant != "run_identified" {
		return // of its parent, which is known from events: the child uses its recorder
	}
	nests := top == nil || l.variant == "turn_start" && top.open && len(top.openCalls()) > 0
	if l.variant != "run_identified" && !s.named && nests { // no record has the start of a run without an identity
		d.agentStart(s, l)
	}
	d.event(s, l)
	if top = s.top(); top != nil {
		d.announce(top, event.Moment{})
	}
}

// load reads the trajectory given by WithTrajectory, once.
func (d *Decoder) load() {
	t := &d.trajectory
	if t.source == nil {
		return
	}
	sh := input.NewShell(Dialect, ndjson.Read, input.Settings{MaxLine: d.Settings.MaxLine})
	source := t.source
	t.source = nil
	sh.Reader.Line = func(in input.Line) {
		in.Text = bytes.Clone(in.Text)
		l := parse(&sh, in)
		switch {
		case l == nil:
		case !l.record || l.variant == "":
			sh.Reject(&input.LineError{Reason: "no record that is known"})
		default:
			sh.Counts.Events++
			sh.RejectProblems(l.variant, l.Object)
			if t.size += recordSize + len(in.Text); t.size <= maxRecordSize {
				of := kind{l.stream, l.variant}
				t.waiting[of], t.records = append(t.waiting[of], len(t.records)), append(t.records, record{l.time, l})
			}
		}
	}
	for ev, err := range sh.Events(source) {
		var bad *input.LineError
		switch {
		case err == nil:
			d.Emit(ev)
		case errors.As(err, &bad):
			bad.Field = strings.TrimSpace("trajectory line " + strconv.FormatInt(bad.Line, 10) + " " + bad.Field)
			d.Reject(bad)
		default:
			d.Reject(&input.LineError{Field: "trajectory", Reason: errors.Unwrap(err).Error()})
		}
	}
	t.lines = sh.Counts.Lines
	d.Shell.Counts.Events += sh.Counts.Events
	if t.size > maxRecordSize {
		d.Reject(&input.LineError{Field: "trajectory", Reason: "too long: some of its times and runs are left out"})
	}
}

// continueRuns emits what the trajectory given by WithTrajectory has and the events had not.
func (d *Decoder) continueRuns() {
	d.load()
	for i := range d.trajectory.records {
		l := d.trajectory.records[i].line
		if l == nil {
			continue
		}
		if d.trajectory.records[i].line = nil; !d.known(l.stream) {
			d.trajectory.played[l.stream] = true
			d.play(l)
			continue
		}
		r := d.runs[l.stream]
		last, begun := d.trajectory.done[l.stream]
		if r == nil || r.ended || begun && i <= last || l.variant == "run_identified" {
			continue
		}
		d.announce(r, event.Moment{})
		if d.handle(r, l); r.ended {
			d.remove(r)
		}
	}
}
