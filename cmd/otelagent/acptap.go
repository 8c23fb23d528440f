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
	// tapQueue is how many bytes of the wire wait at most to be traced; lines that do not fit are not traced.
	tapQueue = 32 << 20
	// tapCost is the cost of a line in addition to its bytes.
	tapCost = 128
	// tapLine is the longest line that is traced.
	tapLine = 16 << 20
)

// wireLine is a line that went one way at one time.
type wireLine struct {
	dir  acp.Direction
	text []byte
	at   time.Time
	long bool // longer than tapLine; without text
}

// wireTap takes what goes over a wire, without ever letting it wait, and traces it.
type wireTap struct {
	done  chan struct{} // closed when everything was traced
	begun [3]wireLine   // by direction: the line that has not ended

	mu      sync.Mutex
	arrived *sync.Cond
	queue   []wireLine
	queued  int
	lost    [3]int64 // bytes by direction that did not fit behind the queue
	ended   bool

	// Of trace, to be read when done is closed.
	to       *delivery
	err      error
	dec      *acp.Decoder
	sessions map[string]bool
	dropped  int64 // bytes
}

func newWireTap() *wireTap {
	t := &wireTap{done: make(chan struct{}), sessions: map[string]bool{}}
	t.arrived = sync.NewCond(&t.mu)
	return t
}

// take copies the lines of b into the queue. Each direction has one caller. It blocks for no longer than that takes.
func (t *wireTap) take(dir acp.Direction, b []byte) {
	line := &t.begun[dir]
	for len(b) > 0 {
		text, more, ends := bytes.Cut(b, []byte{'\n'})
		if len(line.text)+len(text) > tapLine {
			line.text, line.long = nil, true
		}
		if !line.long {
			line.text = append(line.text, text...)
		}
		if !ends {
			return
		}
		if line.text = bytes.TrimSpace(line.text); line.long || len(line.text) > 0 {
			t.put(wireLine{dir, line.text, time.Now(), line.long})
		}
		*line, b = wireLine{}, more
	}
}

func (t *wireTap) put(l wireLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
	case t.queued+len(l.text)+tapCost > tapQueue:
		t.lost[l.dir] += int64(len(l.text))
	default:
		t.queue = append(t.queue, l)
		t.queued += len(l.text) + tapCost
		t.arrived.Signal()
	}
}

// next waits for lines, and returns them with what was lost behind them. These are the last ones when more is false.
func (t *wireTap) next() (lines []wireLine, lost [3]int64, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) == 0 && !t.ended {
		t.arrived.Wait()
	}
	lines, lost = t.queue, t.lost
	t.queue, t.queued, t.lost = nil, 0, [3]int64{}
	return lines, lost, !t.ended
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
		for more := true; more; { // so that the queue stays empty
			_, _, more = t.next()
		}
		return
	}
	t.dec = acp.NewDecoder(o.inputSettings(true))
	var number int64
	for more := true; more; {
		var lines []wireLine
		var lost [3]int64
		lines, lost, more = t.next()
		for _, l := range lines {
			number++
			t.record(t.dec.Message(input.Line{Text: l.text, Number: number, Arrived: l.at, TooLong: l.long}, l.dir))
		}
		for dir, n := range lost {
			t.missed(acp.Direction(dir), n)
		}
	}
	t.record(t.dec.Rest()) // the agent has ended
}

// missed records in the session what was dropped.
func (t *wireTap) missed(dir acp.Direction, n int64) {
	if n == 0 {
		return
	}
	t.dropped += n
	from := "agent"
	if dir == acp.ToAgent {
		from = "client"
	}
	t.to.rec.Record(context.Background(), &event.DefectFound{Meta: event.Meta{Arrived: time.Now()},
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

// end waits for what was taken to be delivered, for a short time, and says what was not.
func (t *wireTap) end(a *app, verbose bool) {
	t.mu.Lock()
	t.ended = true
	t.arrived.Signal()
	t.mu.Unlock()
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
