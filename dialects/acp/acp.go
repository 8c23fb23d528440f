// Package acp reads the messages that an editor and an agent exchange in version 1 of the Agent Client Protocol, and
// turns them into the events of package otelagent.
//
// ACP defines no format of captures. Three are read: JSON-RPC messages, one a line, bare or under "message" with a
// "direction"; the trace of the official conductor; and a wire whose directions are known (Message). A session is an
// ACP session, a run is one prompt of it, from the request to its response. docs/dialects.md says what follows from
// that, and what is inferred.
//
//	for ev, err := range acp.Events(file) {
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
package acp

import (
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/shell"
	"github.com/otelagent/otelagent/otelagent"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "acp"

// Bounds of what a Decoder remembers. Beyond them the oldest is forgotten, but for maxItems, maxLoose, maxHistory and
// maxHeld, beyond which new content is left out.
const (
	maxPending  = 4096     // requests without a response
	maxSessions = 1024     // sessions
	maxPrompts  = 16       // prompts of one session without a response
	maxRunIDs   = 4096     // ids of runs of one session, to recognise one that is used again
	maxCalls    = 1024     // tool calls of one session, its terminals, and its compactions, of each
	maxItems    = 1 << 16  // pieces of one reply
	maxLoose    = 256      // updates between two prompts of one session that are kept as facts
	maxInfo     = 16 << 10 // bytes of what client and agent say of themselves
	maxHistory  = 4 << 20  // bytes of the history of one session
	maxHeld     = 64 << 20 // bytes of replies, histories and requests that wait for their end, of all sessions
)

// Events reads a capture from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads captures of ACP from any number of inputs, such as the files of one recording: it remembers the
// sessions it met. It remembers at most 4,096 unanswered requests, 1,024 sessions, and of a session 16 unanswered
// prompts, 1,024 tool calls and 1,024 terminals, and forgets the oldest beyond that. It holds at most 64 MiB of replies
// and histories that are not complete yet, and of a reply 65,536 pieces, beyond which their rest is left out and a
// defect says so. Not safe for concurrent use.
type Decoder struct {
	sh       shell.Shell
	epoch    time.Time // the time from which the seconds of a conductor's trace count; zero before its first line
	conn     conn
	sessions []*session // by when they were met
	held     int        // bytes
}

// NewDecoder returns a Decoder that has met no sessions. Of the settings it also uses Session for prompts that name
// none, Agent and Provider for what the wire does not say, and Rule where the numbers of a usage do not say.
func NewDecoder(opts ...input.Option) *Decoder { return &Decoder{sh: shell.New(Dialect, opts...)} }

// Stats returns what was read so far.
func (d *Decoder) Stats() input.Stats { return d.sh.Stats }

// Events reads a capture from r until its end, as [input.Decoder] says. One line gives no event, one, or several.
// Events of a tool call, a turn or a terminal may come later than they happened, with the time at which they did: when
// it is known what they belong to.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return d.sh.Events(r, reader{d})
}

// reader hides the methods by which the shell calls a Decoder.
type reader struct{ *Decoder }

// Line reads one line of the input.
func (r reader) Line(in input.Line) { r.line(in, Unknown) }

// BeforeOwn does nothing: lines of our own dialect need nothing that is held.
func (reader) BeforeOwn() {}

// End does nothing: a file may grow, so its end ends nothing.
func (reader) End() {}

// Message reads one line of a wire of which the direction is known, and the time from line.Arrived: a proxy on the wire
// calls it for each line. line.Number must count from 1 over both directions. The iterator may be used once.
func (d *Decoder) Message(line input.Line, dir Direction) iter.Seq2[otelagent.Event, error] {
	return d.sh.While(func() {
		d.sh.Number, d.sh.Seq, d.sh.Stats.Lines, d.sh.Arrived = line.Number, line.Number, line.Number, line.Arrived
		if line.TooLong {
			d.sh.Reject(&input.LineError{Reason: "longer than " + strconv.Itoa(d.sh.Settings.MaxLine) + " bytes"})
			return
		}
		d.line(line, dir)
	})
}

// Rest emits the replies that are not complete, when it is certain that nothing more will come, as when the agent's
// process has ended: each open turn ends where it was last seen, with what there is of its reply. Their runs stay open.
// Nothing more may be read afterwards. A file is not known to be at its end, since it may grow, so Events does not emit
// them. The iterator may be used once.
func (d *Decoder) Rest() iter.Seq2[otelagent.Event, error] {
	return d.sh.While(func() {
		for _, s := range d.sessions {
			for _, r := range slices.Clone(s.open) {
				d.endTurn(r, r.last, otelagent.TurnResult{})
				d.abandon(r)
			}
		}
	})
}

// line reads one line that is not blank.
func (d *Decoder) line(line input.Line, dir Direction) {
	o := d.sh.Object(line)
	if o == nil {
		return
	}
	f := &frame{meta: otelagent.Meta{Seq: d.sh.Seq, Arrived: line.Arrived}, dir: dir, raw: line.Text, o: o}
	if d.unwrap(f); !f.passed && !f.bad() {
		d.message(f)
	}
	if !d.sh.RejectProblems(f.name(), o) {
		d.sh.Stats.Events++
	}
}

// hold counts n more bytes as held, for one that counts its own in of. It reports false when there is no room.
func (d *Decoder) hold(of *int, n int) bool {
	if d.held+n > maxHeld {
		return false
	}
	d.held += n
	*of += n
	return true
}

// release counts what was held in of as held no more.
func (d *Decoder) release(of *int) {
	d.held -= *of
	*of = 0
}
