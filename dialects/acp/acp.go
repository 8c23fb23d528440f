// Package acp reads what an editor and an agent say to each other in version 1 of the Agent Client Protocol, and turns it into the
// events of package otelagent.
//
// ACP defines no format of captures. Read are the lines that are found: JSON-RPC messages as they go over the wire, with a direction or
// without, and the envelopes that docs/dialects.md lists. A session is an ACP session, a run is one prompt of it, from the request to its
// response. What follows from that, and what is inferred, is told there too.
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
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "acp"

// Bounds of what a Decoder remembers. Beyond them the oldest is forgotten, but for maxHeld and maxLoose, beyond which what comes new is
// left out and a defect says so.
const (
	maxDepth       = 200      // levels of nesting of a line
	maxConns       = 64       // connections told apart by a capture
	maxPending     = 4096     // requests without a response, of one connection
	maxSessions    = 1024     // sessions
	maxPrompts     = 16       // prompts of one session without a response
	maxRunIDs      = 4096     // ids of ended runs of one session, to tell one that is used again
	maxCalls       = 1024     // tool calls of one session
	maxAsked       = 1024     // permission requests of one prompt without a response
	maxTerms       = 256      // terminals of one session
	maxItems       = 1 << 16  // pieces of one reply
	maxBack        = 256      // pieces of a reply that are looked back for the beginning of a message
	maxCompactions = 256      // compactions of one session, of which updates are told from new ones
	maxLoose       = 256      // updates between two prompts of one session that are kept as facts
	maxHeld        = 64 << 20 // bytes of replies, histories and requests that wait for their end, of all sessions
	maxInfo        = 16 << 10 // bytes of what client and agent say of themselves
)

// Events reads a capture from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads captures of ACP from any number of inputs, such as the files of one recording: it remembers the sessions it met. It
// remembers at most 64 connections, 4,096 unanswered requests of each, 1,024 sessions, and of a session 16 unanswered prompts, 1,024 tool
// calls, 1,024 permission requests and 256 terminals, and forgets the oldest beyond that; and it holds at most 64 MiB of replies and histories that are not complete
// yet, and of a reply 65,536 pieces and 1,024 tool
// calls, beyond which their rest is left out and a defect says so. Not safe for concurrent use.
type Decoder struct {
	settings input.Settings
	stats    input.Stats
	lineNo   int64
	own      *ndjson.Decoder

	yield   func(otelagent.Event, error) bool
	stopped bool

	log      debugLog
	epoch    time.Time // what the seconds of a conductor's trace count from; zero before its first line
	conns    map[string]*conn
	sessions sessions
	held     int // bytes
	arena    []byte
}

// NewDecoder returns a Decoder that has met no sessions. Of the settings it also uses Session for prompts that name none, Agent and
// Provider for what the wire does not tell, and Rule where the numbers of a usage do not tell.
func NewDecoder(opts ...input.Option) *Decoder {
	return &Decoder{settings: input.SettingsOf(opts...), own: ndjson.NewDecoder(opts...), conns: map[string]*conn{}}
}

// Stats returns what was read so far.
func (d *Decoder) Stats() input.Stats { return d.stats }

// Events reads a capture from r until its end, as [input.Decoder] says. One line gives no event, one, or several. Events of a tool call, a
// turn or a terminal may be told later than they happened, with the time at which they did: when it is known what they belong to.
func (d *Decoder) Events(r io.Reader) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped, d.log = yield, false, debugLog{}
		defer func() { d.yield = nil }()
		in := input.NewScanner(r, d.settings)
		before := d.stats.Lines
		for !d.stopped && in.Scan() {
			line := in.Line()
			d.lineNo = line.Number
			d.stats.Lines = before + line.Number
			d.line(line, Unknown)
		}
		if d.stopped {
			return
		}
		d.stats.Lines = before + in.Lines()
		if err := in.Err(); err != nil {
			yield(nil, fmt.Errorf("acp: %w", err))
		}
	}
}

// Message reads one line of a wire of which the direction is known, and the time from line.Arrived: it is what a proxy on the wire calls
// for each line. line.Number must count from 1 over both directions. The iterator may be used once.
func (d *Decoder) Message(line input.Line, dir Direction) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped = yield, false
		defer func() { d.yield = nil }()
		d.lineNo, d.stats.Lines = line.Number, line.Number
		d.line(line, dir)
	}
}

// Rest tells of the replies that are not complete, when it is certain that nothing more will come, as when the agent's process has ended:
// each open turn ends where it was last seen, with what there is of its reply. Their runs stay open. Nothing more may be read afterwards.
// A file is not known to be at its end, since it may grow, so Events does not tell of them. The iterator may be used once.
func (d *Decoder) Rest() iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.yield, d.stopped = yield, false
		defer func() { d.yield = nil }()
		for _, s := range d.sessions.order {
			for _, r := range slices.Clone(s.open) {
				d.endTurn(r, r.last, otelagent.TurnResult{})
				d.abandon(r)
			}
		}
	}
}

func (d *Decoder) reject(e *input.LineError) {
	e.Dialect, e.Line, e.Seq = Dialect, d.lineNo, d.stats.Lines
	d.stats.Rejected++
	if !d.stopped && !d.yield(nil, e) {
		d.stopped = true
	}
}

// emit hands ev out. After the caller stopped it does nothing.
func (d *Decoder) emit(ev otelagent.Event) {
	if !d.stopped && !d.yield(ev, nil) {
		d.stopped = true
	}
}

// line reads one line that is not blank.
func (d *Decoder) line(line input.Line, dir Direction) {
	at := otelagent.Meta{Seq: d.stats.Lines, Arrived: line.Arrived}
	if missed, lagged := line.Lagged(); lagged {
		detail := ""
		if missed > 0 {
			detail = strconv.FormatInt(missed, 10) + " messages"
		}
		d.emit(&otelagent.DefectFound{Meta: at, Code: spans.DefectEventLost, Detail: detail})
		return
	}
	if line.TooLong {
		d.reject(&input.LineError{Reason: "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"})
		return
	}
	f := frame{meta: at, dir: dir}
	text := line.Text
	if dir == Unknown && text[0] != '{' {
		var passed bool
		if text, passed = d.log.line(&f, text); passed {
			return
		}
	}
	if dir == Unknown && ndjson.Own(text) {
		before := d.own.Stats()
		if !d.own.Line(line, d.stats.Lines, func(ev otelagent.Event, err error) bool {
			var bad *input.LineError
			if errors.As(err, &bad) {
				d.stats.Rejected++
			}
			return d.yield(ev, err)
		}) {
			d.stopped = true
		}
		d.stats.Events += d.own.Stats().Events - before.Events
		return
	}
	o, problem := parseLine(text)
	if problem != nil {
		d.reject(problem)
		return
	}
	passed, problem := d.unwrap(&f, o, text)
	switch {
	case problem != nil:
		d.reject(problem)
		return
	case passed:
		d.stats.Events++
		return
	}
	d.stats.Events++
	if problem := d.message(&f); problem != nil {
		d.stats.Events--
		problem.Type = f.name()
		d.reject(problem)
	}
}

// parseLine reads a line that must be one JSON object in UTF-8.
func parseLine(text []byte) (object, *input.LineError) {
	err := rawjson.ValidUTF8(text)
	if err == nil {
		err = rawjson.Valid(text, maxDepth)
	}
	if err != nil {
		e := &input.LineError{Reason: err.Error()}
		var syntax *rawjson.SyntaxError
		if errors.As(err, &syntax) {
			e.Reason, e.Cut = syntax.Reason+" at byte "+strconv.Itoa(syntax.Offset+1), syntax.Cut
		}
		return nil, e
	}
	o, ok := members(text)
	if !ok {
		return nil, &input.LineError{Reason: "want an object, got " + rawjson.KindOf(text)}
	}
	return o, nil
}
