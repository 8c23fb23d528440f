package event

import (
	"cmp"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// earliest is the first time that a span can have: zero means none on the wire.
var earliest = time.Unix(0, 1)

// clock gives the events of one run their times. Timed events keep theirs to the nanosecond. An untimed one that
// arrived live happened as long after the last timed event as it arrived after it. In a replay arrival means nothing:
// the time inside a message counts when it does not run backwards, else the event is only known not to be earlier than
// what was seen before; an input of which no time is known yet happened when it was written.
type clock struct {
	last    time.Time // the latest time given to anything of the run
	assumed bool      // last is when the input was written: any reported time counts
	stated  time.Time // of the last timed event
	arrived time.Time // when that one arrived
	seq     int64     // position of the last event in its input
}

// at returns when the event with m happened. inside is the time in the event's message, zero without one.
func (c *clock) at(m *Meta, inside time.Time) (at Moment) {
	switch {
	case !m.Time.IsZero():
		c.stated, c.arrived = m.Time, m.Arrived
		at.Time = m.Time
	case !m.Arrived.IsZero():
		at = Moment{Time: m.Arrived, Source: spans.TimeSourceArrival}
		if !c.arrived.IsZero() {
			at.Time = c.stated.Add(m.Arrived.Sub(c.arrived))
		}
	case inside.After(c.last), c.assumed && !inside.IsZero():
		at = Moment{Time: inside, Source: spans.TimeSourceMessage}
	default:
		c.last = cmp.Or(c.last, earliest) // which it is where not even that is known
		at = Moment{Time: c.last, Source: spans.TimeSourceBound}
	}
	if at.Source != spans.TimeSourceBound {
		c.seen(at.Time)
	}
	c.seq, at.Seq = m.Seq, m.Seq
	return at
}

// seen moves the clock to the known time of something that belongs to the run or group, which may be zero.
func (c *clock) seen(t time.Time) {
	if t.After(c.last) || c.assumed && !t.IsZero() {
		c.last, c.assumed = t, false
	}
}

// end is the moment at which the tracer closes open spans: the last time seen of the run, never now.
func (c *clock) end() Moment {
	return Moment{Time: c.last, Source: spans.TimeSourceBound, Seq: c.seq, Closed: true}
}

// replayed reports whether the event was read from a file and states no time.
func (m *Meta) replayed() bool { return m.Time.IsZero() && m.Arrived.IsZero() }
