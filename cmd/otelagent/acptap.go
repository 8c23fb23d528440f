package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/spans"
)

const (
	// tapQueue is how many bytes of the wire wait at most to be read by the tap; what does not fit is not traced.
	tapQueue = 32 << 20
	// tapPiece is the cost of a piece in addition to its bytes: an agent may write them one by one.
	tapPiece = 128
	// tapLine is the longest line that is traced.
	tapLine = 16 << 20
)

// piece is what went one way at one time.
type piece struct {
	dir  acp.Direction
	b    []byte
	at   time.Time
	lost int64 // bytes before it that did not fit
}

// wireTap takes what goes over a wire, without ever letting it wait, and traces it.
type wireTap struct {
	arrived chan struct{} // has one when there is something to take up
	done    chan struct{} // closed when everything was traced

	mu     sync.Mutex
	queue  []piece
	queued int
	lost   [3]int64 // by direction, since the last piece that fitted
	ended  bool

	// Of trace, to be read when done is closed.
	to       *delivery
	err      error
	dec      *acp.Decoder
	sessions map[string]bool
	dropped  int64 // bytes
}

// take copies b. It blocks for no longer than that takes.
func (t *wireTap) take(dir acp.Direction, b []byte) {
	t.mu.Lock()
	switch {
	case t.ended:
	case t.queued+len(b)+tapPiece > tapQueue:
		t.lost[dir] += int64(len(b))
	default:
		t.queue = append(t.queue, piece{dir, bytes.Clone(b), time.Now(), t.lost[dir]})
		t.queued += len(b) + tapPiece
		t.lost[dir] = 0
	}
	t.mu.Unlock()
	t.wake()
}

func (t *wireTap) wake() {
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

// next waits for pieces. None are left when more is false.
func (t *wireTap) next() (pieces []piece, more bool) {
	for {
		t.mu.Lock()
		pieces, t.queue, t.queued = t.queue, nil, 0
		ended := t.ended
		t.mu.Unlock()
		if len(pieces) > 0 {
			return pieces, true
		}
		if ended {
			return nil, false
		}
		<-t.arrived
	}
}

// trace traces what is taken until end.
func (t *wireTap) trace(ctx context.Context, a *app, o *sendOptions) {
	defer close(t.done)
	defer func() { // whatever becomes of tracing, the agent goes on
		if p := recover(); p != nil {
			t.err = fmt.Errorf("internal error: %v", p)
		}
	}()
	ctx = context.WithoutCancel(ctx)
	tracer, err := o.tracerOptions()
	if err == nil {
		t.to, err = o.delivery(ctx, tracer, cmp.Or(o.Agent, acp.Dialect), true)
	}
	if err != nil {
		t.err = err
		a.say("the agent is not traced: %v", t.err)
		for more := true; more; _, more = t.next() { // so that the queue stays empty
		}
		return
	}
	t.dec = acp.NewDecoder(o.inputOptions(true)...)
	t.sessions = map[string]bool{}
	var wires [3]cutter
	var number int64
	for {
		pieces, more := t.next()
		if !more {
			break
		}
		for _, p := range pieces {
			t.missed(p.dir, p.lost, p.at)
			wires[p.dir].take(p, func(line []byte, long bool) {
				number++
				t.record(t.dec.Message(input.Line{Text: line, Number: number, Arrived: p.at, TooLong: long}, p.dir))
			})
		}
	}
	t.mu.Lock()
	lost := t.lost // after the last piece
	t.mu.Unlock()
	for dir, n := range lost {
		t.missed(acp.Direction(dir), n, time.Now())
	}
	t.record(t.dec.Rest()) // the agent has ended
}

// missed records in the session what was dropped.
func (t *wireTap) missed(dir acp.Direction, n int64, at time.Time) {
	if n == 0 {
		return
	}
	t.dropped += n
	from := "agent"
	if dir == acp.ToAgent {
		from = "client"
	}
	t.to.rec.Record(context.Background(), &event.DefectFound{Meta: event.Meta{Arrived: at},
		Code:   spans.DefectEventLost,
		Detail: strconv.FormatInt(n, 10) + " bytes from the " + from + " came faster than they were traced"})
}

func (t *wireTap) record(events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		if err != nil {
			continue // it is counted
		}
		if e, ok := ev.(*event.RunStarted); ok {
			t.sessions[e.SessionID] = true
		}
		t.to.rec.Record(context.Background(), ev)
	}
}

// cutter cuts one direction into lines.
type cutter struct {
	rest []byte // the beginning of a line
	skip bool   // that line is not whole, or too long
	long bool
}

// take yields the lines that a piece completes, without their ends and blanks around them. They are valid until the
// next take.
func (c *cutter) take(p piece, yield func(line []byte, long bool)) {
	if p.lost > 0 {
		c.rest, c.skip, c.long = c.rest[:0], true, false
	}
	for b := p.b; len(b) > 0; {
		line, more, ends := bytes.Cut(b, []byte{'\n'})
		switch {
		case c.skip:
		case len(c.rest)+len(line) > tapLine:
			c.rest, c.skip, c.long = nil, true, true
		case !ends || len(c.rest) > 0:
			c.rest = append(c.rest, line...)
			line = c.rest
		}
		if !ends {
			return
		}
		switch line = bytes.TrimSpace(line); {
		case c.long:
			yield(nil, true)
		case !c.skip && len(line) > 0:
			yield(line, false)
		}
		c.rest, c.skip, c.long = c.rest[:0], false, false
		b = more
	}
}

// end waits for what was taken to be delivered, for a short time, and says what was not.
func (t *wireTap) end(a *app, verbose bool) {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wake()
	ctx, cancel := context.WithTimeout(context.Background(), acpFlushTime)
	defer cancel()
	select {
	case <-t.done:
	case <-ctx.Done():
		a.say("not all was traced in time")
		return
	}
	if t.to == nil {
		return
	}
	err := errors.Join(t.err, t.to.end(ctx))
	if err != nil {
		a.say("not delivered: %v", plainly(err, t.to.target.name))
	}
	if t.dropped > 0 {
		a.say("%d bytes came faster than they were traced", t.dropped)
	}
	if verbose {
		stats := t.dec.Stats()
		a.say("traced %s as %s of %s to %s", count(int(stats.Events), "message"),
			count(int(t.to.providers.Stats().Exported), "span"),
			count(len(t.sessions), "session"), t.to.target.name)
		if stats.Rejected > 0 {
			a.say("%s could not be read", count(int(stats.Rejected), "line"))
		}
	}
}
