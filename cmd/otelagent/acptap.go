package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/spans"
)

const (
	// tapQueue is how many bytes of the wire wait at most to be traced; lines that do not fit are not traced.
	tapQueue = 32 << 20
	// tapCost is the cost of a line in addition to its bytes.
	tapCost = 1 << 10
	// tapLine is the longest line that is traced.
	tapLine = 16 << 20
)

// wireLine is a line that went one way at one time.
type wireLine struct {
	input.Line
	dir acp.Direction
}

// wireTap takes what goes over a wire, without ever letting it wait, and traces it.
type wireTap struct {
	begun  [3]wireLine     // by direction: the line that has not ended
	lines  chan *wireLine  // those that wait to be traced; nil ends them
	queued atomic.Int64    // their bytes
	lost   [3]atomic.Int64 // by direction: bytes that did not fit
	done   chan struct{}   // closed when everything was traced

	// Of trace, to be read when done is closed.
	pump    *pump
	to      *delivery
	err     error
	dropped int64 // bytes
}

func newWireTap() *wireTap {
	return &wireTap{lines: make(chan *wireLine, tapQueue/tapCost+1), done: make(chan struct{})}
}

// take copies the lines of b into the queue. Each direction has one caller. It blocks for no longer than that takes.
func (t *wireTap) take(dir acp.Direction, b []byte) {
	line := &t.begun[dir]
	for len(b) > 0 {
		text, more, ends := bytes.Cut(b, []byte{'\n'})
		if len(line.Text)+len(text) > tapLine {
			line.Text, line.TooLong = nil, true
		}
		if !line.TooLong {
			line.Text = append(line.Text, text...)
		}
		if !ends {
			return
		}
		line.Text = bytes.TrimSpace(line.Text)
		cost := int64(len(line.Text) + tapCost)
		switch {
		case len(line.Text) == 0 && !line.TooLong:
		case t.queued.Add(cost) > tapQueue:
			t.queued.Add(-cost)
			t.lost[dir].Add(cost - tapCost)
		default:
			t.lines <- &wireLine{input.Line{Text: line.Text, TooLong: line.TooLong, Arrived: time.Now()}, dir}
		}
		*line, b = wireLine{}, more
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
	tracer, err := o.tracerOptions()
	if err == nil {
		t.to, err = o.delivery(context.WithoutCancel(ctx), tracer, cmp.Or(o.Agent, acp.Dialect), true)
	}
	if err != nil {
		t.err = err
		a.say("the agent is not traced: %v", err)
		t.queued.Store(tapQueue) // no line fits
		return
	}
	dec := acp.NewDecoder(o.inputSettings(true))
	wire := source{name: "the wire"}
	t.pump = &pump{app: &app{stderr: io.Discard}, o: o, in: &sources{live: true, list: []source{wire}},
		decoders: map[string]input.Decoder{acp.Dialect: dec}}
	t.err = t.pump.record(t.to, t.to.rec, wire, t.events(dec))
}

// events are those of the lines that are taken, and a defect where some were dropped.
func (t *wireTap) events(dec *acp.Decoder) events {
	return func(yield func(event.Event, error) bool) {
		more := true
		each := func(ev event.Event, err error) bool {
			more = more && yield(ev, err)
			return more
		}
		number := int64(0)
		for l := range t.lines {
			for dir := range t.lost {
				if n := t.lost[dir].Swap(0); n > 0 {
					t.dropped += n
					each(dropped(acp.Direction(dir), n), nil)
				}
			}
			if l == nil || !more {
				break
			}
			t.queued.Add(-int64(len(l.Text) + tapCost))
			number++
			l.Number = number
			dec.Message(l.Line, l.dir)(each)
		}
		dec.Rest()(each) // the agent has ended
	}
}

// dropped records in the session what was not traced.
func dropped(dir acp.Direction, n int64) event.Event {
	from := "agent"
	if dir == acp.ToAgent {
		from = "client"
	}
	return &event.DefectFound{Meta: event.Meta{Arrived: time.Now()}, Code: spans.DefectEventLost,
		Detail: strconv.FormatInt(n, 10) + " bytes from the " + from + " came faster than they were traced"}
}

// end waits for what was taken to be delivered, for a short time, and says what was not.
func (t *wireTap) end(a *app, verbose bool) {
	ctx, cancel := context.WithTimeout(context.Background(), acpFlushTime)
	defer cancel()
	select {
	case t.lines <- nil:
	case <-ctx.Done():
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		a.say("not all was traced in time")
		return
	}
	if t.to == nil {
		return
	}
	if err := errors.Join(t.err, t.to.end(ctx)); err != nil {
		a.say("not delivered: %v", plainly(err, t.to.target.name))
	}
	if t.dropped > 0 {
		a.say("%d bytes came faster than they were traced", t.dropped)
	}
	if verbose {
		s := t.pump.sum(t.to)
		a.say("traced %s as %s of %s to %s", count(int(s.Events), "message"), count(int(s.Spans), "span"),
			count(len(s.Sessions), "session"), s.Target)
		if s.Rejected > 0 {
			a.say("%s could not be read", count(int(s.Rejected), "line"))
		}
	}
}
