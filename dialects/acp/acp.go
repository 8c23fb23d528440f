// Package acp reads the messages that an editor and an agent exchange in version 1 of the Agent Client Protocol, and
// returns them as the events of package otelagent.
//
// ACP defines no format of captures. The package reads two:
//
//   - JSON-RPC messages, one a line, bare or under "message" with a "direction"
//   - a wire whose directions are known ([Decoder.Message])
//
// A session is an ACP session. A run is one prompt of it, from the request to its response. dialects/README.md lists
// what the package infers. Package input shows how to read events and errors.
package acp

import (
	"cmp"
	"iter"
	"slices"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "acp"

const (
	// maxHeld is how many bytes a Decoder holds of what has not ended. Beyond it forgets all, as [Decoder.Rest] does.
	maxHeld = 64 << 20
	// entry is what a session, request, call, terminal, compaction or piece of a reply counts in addition to its content.
	entry = 4 << 10
	// maxInfo is how many bytes are kept of what the client or the agent states about itself.
	maxInfo = 16 << 10
)

// A Decoder reads captures of ACP from any number of inputs, such as the files of one recording: it remembers the
// sessions that it met. Events of a tool call, a turn or a terminal may come later than they happened, with the time at
// which they did: when it is known what they belong to. It holds at most 64 MiB and the current line of what has not
// ended. When that is exceeded it records what it holds, reports a defect, and goes on as at the beginning of a
// capture. Not safe for concurrent use.
type Decoder struct {
	input.Shell
	dir      Direction  // of the current line
	sessions []*session // by when they were met
	held     int        // bytes

	pending                []*pending // by time
	initParams, initResult []byte     // of initialize, nil before that
	later                  bool       // the connection uses a later version than 1, whose messages are only kept
}

// NewDecoder returns a Decoder that has met no sessions. Of the settings it also uses Session for prompts that name
// none, Agent and Provider for what the wire does not state, and Rule where the numbers of a usage do not decide.
func NewDecoder(opts ...input.Settings) *Decoder {
	d := &Decoder{Shell: input.NewShell(Dialect, ndjson.Read, opts...)}
	d.Reader.Line = d.line
	return d
}

// Message reads one line of a wire whose direction is known, and the time from line.Arrived: a proxy on the wire
// calls it for each line. line.Number must count from 1 over both directions. The iterator may be used once.
func (d *Decoder) Message(line input.Line, dir Direction) iter.Seq2[event.Event, error] {
	return d.Read(func() error {
		d.Number, d.Seq, d.Counts.Lines, d.Arrived = line.Number, line.Number, line.Number, line.Arrived
		d.dir = dir
		d.Line(line)
		d.dir = Unknown
		return nil
	})
}

// Rest returns the replies that are not complete, when it is certain that nothing more will come, as when the agent's
// process has ended: each open turn ends where its last event was, with what there is of its reply. Their runs stay
// open. The Decoder must not read anything afterwards. Events does not return them at the end of a file, since the file
// may grow. The iterator may be used once.
func (d *Decoder) Rest() iter.Seq2[event.Event, error] {
	return d.Read(func() error {
		d.rest()
		return nil
	})
}

// rest ends the open turns, and forgets all sessions and requests.
func (d *Decoder) rest() {
	d.disconnect()
	d.sessions, d.held = nil, 0
}

// disconnect ends the open turns: nobody answers a request any more.
func (d *Decoder) disconnect() {
	for _, s := range d.sessions {
		for _, r := range slices.Clone(s.open) {
			d.endTurn(r, r.last, event.TurnResult{})
			d.abandon(r)
		}
	}
	for _, p := range d.pending {
		d.release(&p.held)
	}
	d.pending = nil
}

// line reads one line that is not blank.
func (d *Decoder) line(line input.Line) {
	o := d.Object(line)
	if o == nil {
		return
	}
	f := &frame{meta: event.Meta{Seq: d.Seq, Arrived: line.Arrived}, dir: d.dir, raw: line.Text, o: o}
	switch {
	case !unwrap(f) || f.bad():
	case d.later && f.method != mInitialize:
		f.meta.Session = loose(f.params).String("sessionId")
		d.Other(f.meta, cmp.Or(f.method, "response"), f.raw)
	case f.response:
		d.response(f)
	default:
		d.request(f)
	}
	typ := f.method
	if _, known := methods[typ]; !known {
		typ = ""
	}
	if !d.RejectProblems(typ, o) {
		d.Counts.Events++
	}
	if d.held > maxHeld {
		d.rest()
		d.Emit(&event.DefectFound{Meta: event.Meta{Seq: d.Seq, Arrived: line.Arrived},
			Code: spans.DefectEventLost, Detail: "more than 64 MiB had not ended: later messages do not continue them"})
	}
}

// hold adds n to the bytes that are held, of which an owner counts its part.
func (d *Decoder) hold(owner *int, n int) {
	d.held += n
	*owner += n
}

// release subtracts the bytes that an owner holds.
func (d *Decoder) release(owner *int) {
	d.held -= *owner
	*owner = 0
}
