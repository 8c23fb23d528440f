package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/input"
	"github.com/otelagent/otelagent/otelagent/phi"
)

// pump moves events from inputs into a Recorder.
type pump struct {
	app    *app
	rec    *otelagent.Recorder
	live   bool
	failed func() bool   // whether delivery failed already
	quit   chan struct{} // closed to stop after the event at hand

	mu       sync.Mutex // an interrupted pump may still run while it is summed up
	sessions map[string]bool
	rejected int64
	held     []string // lines about what was rejected, until an event is seen: when there is none, the verdict says it all
	stats    input.Stats
}

func (p *pump) run(inputs []source) error {
	var opts []input.Option
	if p.live {
		opts = append(opts, input.WithLive())
	}
	dec := phi.NewDecoder(opts...)
	for _, in := range inputs {
		if err := p.read(dec, in); err != nil {
			return err
		}
	}
	return nil
}

func (p *pump) read(dec *phi.Decoder, in source) error {
	for ev, err := range dec.Events(in.r) {
		var bad *input.LineError
		switch {
		case errors.As(err, &bad):
			p.reject(in.name, bad)
		case err != nil:
			return fmt.Errorf("read %s: %w", in.name, err)
		default:
			p.rec.Record(context.Background(), ev)
		}
		p.note(ev, dec.Stats())
		select {
		case <-p.quit:
			return fmt.Errorf("interrupted before the end of %s", in.name)
		default:
		}
		if !p.live && p.failed() {
			return nil // nobody waits for the rest, and its failure is told already
		}
	}
	p.note(nil, dec.Stats())
	return nil
}

// reject names a line that was not read.
func (p *pump) reject(name string, bad *input.LineError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rejected++; p.rejected > maxRejected {
		return
	}
	where := ""
	if bad.Type != "" {
		where += bad.Type + ": "
	}
	if bad.Field != "" {
		where += bad.Field + ": "
	}
	p.held = append(p.held, fmt.Sprintf("%s:%d: %s%s", name, bad.Line, where, bad.Reason))
}

func (p *pump) note(ev otelagent.Event, stats input.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = stats
	if stats.Events > 0 {
		for _, line := range p.held {
			p.app.say("%s", line)
		}
		p.held = nil
	}
	id := ""
	switch e := ev.(type) {
	case *otelagent.RunStarted:
		id = e.SessionID
		if id == "" {
			id = e.Session
		}
	case *otelagent.GroupStarted:
		id = e.SessionID
	case *otelagent.RunEnded: // a run that the host refused has nothing but its end
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
	s := &sent{Events: p.stats.Events, Rejected: p.rejected, Sessions: p.sessions}
	if len(p.held) > 0 {
		s.FirstRejected = p.held[0]
	}
	return s
}
