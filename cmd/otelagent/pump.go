package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// pump moves events from sources into a Recorder.
type pump struct {
	app     *app
	rec     *event.Recorder
	live    bool
	follow  bool
	options []input.Option
	shift   time.Duration // times are moved by it
	undated bool          // what states no time has none: it is shown, and not kept
	failed  func() bool   // whether delivery failed already
	quit    chan struct{} // closed to stop after the event at hand

	decoders map[string]input.Decoder // by dialect: one reads all files of a recording
	first    *sourceEvents            // those of the first source, of which some were read ahead

	mu       sync.Mutex // an interrupted pump may still run while it is summed up
	sessions map[string]bool
	rejected int64
	held     []string // lines about what was rejected, until an event is seen: when there is none, the verdict says it all
	stats    map[string]input.Stats
}

// maxAhead bounds the events that are read ahead for the name of the agent.
const maxAhead = 16

// agent reads the first source up to the start of a run and returns the name of its agent, empty without one. Only
// facts and groups may stand before that run, so that nothing is held back which could be shown.
func (p *pump) agent(s source) (name string) {
	type result struct {
		ev  event.Event
		err error
	}
	first := p.eventsOf(s)
	next, stop := iter.Pull2(first.events)
	var ahead []result
	for more := true; more && len(ahead) < maxAhead; {
		var r result
		if r.ev, r.err, more = next(); more {
			ahead = append(ahead, r)
		}
		switch ev := r.ev.(type) {
		case *event.FactStated, *event.GroupStarted:
		case *event.RunStarted:
			name, more = ev.Agent, false
		default:
			more = more && r.err != nil
		}
	}
	first.events = func(yield func(event.Event, error) bool) {
		defer stop()
		for _, r := range ahead {
			if !yield(r.ev, r.err) {
				return
			}
		}
		for ev, err, more := next(); more; ev, err, more = next() {
			if !yield(ev, err) {
				return
			}
		}
	}
	p.first = &first
	return name
}

func (p *pump) run(list []source) error {
	for _, s := range list {
		if p.undated {
			s.written = time.Time{}
		}
		if p.shift != 0 {
			s.written = time.Now()
		}
		p.rec.NextInput(s.written)
		if err := p.read(s); err != nil {
			return err
		}
	}
	if p.live { // a pipe that ended will not grow, as a file may
		for _, dec := range p.decoders {
			if d, ok := dec.(interface {
				Rest() iter.Seq2[event.Event, error]
			}); ok {
				for ev, err := range d.Rest() {
					var bad *input.LineError
					switch {
					case errors.As(err, &bad):
						p.reject(list[len(list)-1].name, bad)
					case err != nil:
						return err
					default:
						p.rec.Record(context.Background(), ev)
					}
				}
			}
		}
	}
	return nil
}

// sourceEvents are the events of a source, and a count of what was read of it.
type sourceEvents struct {
	events iter.Seq2[event.Event, error]
	stats  func() input.Stats
}

func (p *pump) eventsOf(s source) sourceEvents {
	if s.database != "" {
		n := input.Stats{}
		counted := func(yield func(event.Event, error) bool) {
			for ev, err := range readDatabase(s.database, p.follow, p.quit, p.options) {
				if err == nil {
					n.Events++
				}
				if !yield(ev, err) {
					return
				}
			}
		}
		return sourceEvents{counted, func() input.Stats { return n }}
	}
	dec := p.decoders[s.dialect.Name]
	if p.decoders == nil {
		p.decoders = map[string]input.Decoder{}
	}
	if dec == nil {
		dec = s.dialect.New(p.options...)
		if d, ok := dec.(*clark.Decoder); ok && s.records != nil {
			d.WithTrajectory(s.records)
		}
		p.decoders[s.dialect.Name] = dec
	}
	return sourceEvents{dec.Events(s.r), dec.Stats}
}

func (p *pump) read(s source) error {
	key := s.dialect.Name
	if s.database != "" {
		key = s.database
	}
	from := p.first
	if p.first = nil; from == nil {
		from = new(p.eventsOf(s))
	}
	var half *input.LineError // a line that ended too early, until it is known whether it is the last one
	for ev, err := range from.events {
		if half != nil {
			p.reject(s.name, half)
			half = nil
		}
		var bad *input.LineError
		switch {
		case errors.As(err, &bad) && bad.Cut && s.grows != nil:
			half = bad
		case errors.As(err, &bad):
			p.reject(s.name, bad)
		case err != nil:
			return fmt.Errorf("read %s: %w", s.name, err)
		default:
			if p.shift != 0 {
				ev = shifted(ev, p.shift)
			}
			p.rec.Record(context.Background(), ev)
		}
		p.note(ev, key, from.stats())
		select {
		case <-p.quit:
			if !p.follow {
				return fmt.Errorf("interrupted before the end of %s", s.name)
			}
		default:
		}
		if !p.live && p.failed() {
			return nil // nobody waits for the rest, and its failure is already reported
		}
	}
	if half != nil && !s.grows.cut() {
		p.reject(s.name, half)
	} else if half != nil { // it comes when the file is sent again
		p.app.say("%s ends inside a line that is still being written; it was left out", s.name)
	}
	p.note(nil, key, from.stats())
	return nil
}

// reject names a line that was not read.
func (p *pump) reject(name string, bad *input.LineError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rejected++; p.rejected > maxRejected {
		return
	}
	if bad.Line > 0 {
		name = fmt.Sprintf("%s:%d", name, bad.Line)
	}
	where := ""
	if bad.Type != "" {
		where += bad.Type + ": "
	}
	if bad.Field != "" {
		where += bad.Field + ": "
	}
	p.held = append(p.held, fmt.Sprintf("%s: %s%s", name, where, bad.Reason))
}

func (p *pump) note(ev event.Event, key string, stats input.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats == nil {
		p.stats = map[string]input.Stats{}
	}
	p.stats[key] = stats
	if stats.Events > 0 {
		for _, line := range p.held {
			p.app.say("%s", line)
		}
		p.held = nil
	}
	id := ""
	switch e := ev.(type) {
	case *event.RunStarted:
		id = e.SessionID
		if id == "" {
			id = e.Session
		}
	case *event.GroupStarted:
		id = e.SessionID
	case *event.FactStated:
		id = e.Session
	case *event.RunEnded: // a run that the host refused has nothing but its end
		id = e.Session
	}
	if id != "" {
		if p.sessions == nil {
			p.sessions = map[string]bool{}
		}
		p.sessions[id] = true
	}
}

func (p *pump) sum() *sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &sent{Rejected: p.rejected, Sessions: p.sessions}
	for _, n := range p.stats {
		s.Events += n.Events
	}
	if len(p.held) > 0 {
		s.FirstRejected = p.held[0]
	}
	return s
}
