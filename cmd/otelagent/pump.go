package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
)

// pump moves events from sources into a Recorder.
type pump struct {
	app   *app
	o     *sendOptions
	in    *sources
	shift time.Duration   // times are moved by it
	quit  <-chan struct{} // closed to stop after the current event
	read  atomic.Bool     // everything was read: what is queued is sent, whatever fails
	to    atomic.Pointer[delivery]

	decoders map[string]input.Decoder // by dialect: one reads all files of a recording; of transcripts by name
	families map[string]*family       // those that are being read, by name

	mu       sync.Mutex // an interrupted pump may still run while it is summed up
	sessions map[string]bool
	count    int64       // events
	over     input.Stats // of families that were read
	rejected int64
	held     []string // lines about what was rejected, until an event is seen: when there is none, the verdict says it all
}

// deliver opens the sources and records all their events. It sets p.to once something can be sent.
func (p *pump) deliver(ctx context.Context) (err error) {
	o := p.o
	if p.in, err = o.open(p.app, p.quit); err != nil {
		return err
	}
	defer p.in.close()
	if o.Live && !p.in.live && !o.Follow {
		return usagef("%s", notLive)
	}
	if o.Now {
		if p.shift, err = o.shiftToNow(p.app); err != nil {
			return err
		}
	}
	service := p.in.serviceOf()
	if o.into == nil {
		service = cmp.Or(p.agent(), o.Agent, service)
	}
	if ctx.Err() != nil { // the command gave up while it waited for an input
		return ctx.Err()
	}
	d, err := p.delivery(ctx, service)
	if err != nil {
		return err
	}
	p.to.Store(d)
	for _, s := range p.in.list {
		switch {
		case o.into != nil: // events without a time have none: they are shown, and not kept
			s.written = time.Time{}
		case p.shift != 0:
			s.written = time.Now()
		}
		if err := p.source(d, s); err != nil {
			return err
		}
	}
	for _, dec := range p.decoders {
		unfinished, ok := dec.(interface{ Rest() events })
		if ok && p.in.live { // a pipe that ended will not grow, as a file may
			if err := p.record(d, d.rec, p.in.list[0], unfinished.Rest()); err != nil {
				return err
			}
		}
	}
	return nil
}

// delivery sets up the delivery to the target, and watches until ctx ends whether spans arrive there.
func (p *pump) delivery(ctx context.Context, service string) (*delivery, error) {
	d, err := p.o.delivery(ctx, service, p.in.live)
	if err == nil && !d.target.file { // a file answers, or fails at once
		go p.notice(ctx, d)
	}
	return d, err
}

// maxAhead bounds the events that are read ahead for the name of the agent.
const maxAhead = 16

// events are the events of a source, or the error of a piece.
type events = iter.Seq2[event.Event, error]

// agent reads the first source up to the start of a run and returns the name of its agent, empty without one. Only
// facts and groups may be before that run, so that nothing is held back which could be shown.
func (p *pump) agent() (name string) {
	type result struct {
		ev  event.Event
		err error
	}
	first := &p.in.list[0]
	next, stop := iter.Pull2(p.eventsOf(*first))
	var ahead []result
	for more := true; more && len(ahead) < maxAhead; {
		var r result
		if r.ev, r.err, more = next(); more {
			ahead = append(ahead, r)
		}
		switch ev := r.ev.(type) {
		case *event.FactStated: // the decoder uses its memory again
			c := *ev
			c.Facts = slices.Clone(ev.Facts)
			for i := range c.Facts {
				c.Facts[i].Value = bytes.Clone(c.Facts[i].Value)
			}
			ahead[len(ahead)-1].ev = &c
		case *event.GroupStarted:
		case *event.RunStarted:
			name, more = ev.Agent, false
		default:
			more = more && r.err != nil
		}
	}
	first.ahead = func(yield func(event.Event, error) bool) {
		defer stop()
		for _, r := range ahead {
			if !yield(r.ev, r.err) {
				return
			}
		}
		for ev, err, more := next(); more && yield(ev, err); ev, err, more = next() {
		}
	}
	return name
}

// eventsOf returns the events of a source.
func (p *pump) eventsOf(s source) events {
	if s.ahead != nil {
		return s.ahead
	}
	key := s.dialect.Name
	if s.family != nil { // a decoder reads one
		key = s.name
	}
	dec := p.decoders[key]
	if dec == nil {
		dec = s.dialect.New(p.o.inputSettings(p.in.live || s.live))
		if d, ok := dec.(*clark.Decoder); ok && s.records != nil {
			d.WithTrajectory(s.records)
		}
		if p.decoders == nil {
			p.decoders = map[string]input.Decoder{}
		}
		p.decoders[key] = dec
	}
	if s.family != nil {
		return s.family.Events(dec.(*transcript.Decoder))
	}
	if !s.database {
		return dec.Events(s.r)
	}
	return func(yield func(event.Event, error) bool) {
		db, err := input.OpenSQLite(s.name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer db.Close()
		dec.(*guide.Decoder).ReadDB(context.Background(), db)(yield)
	}
}

// family is a family of transcripts that is read. A live one goes on.
type family struct {
	rec  *event.Recorder
	live bool
	last time.Time // when it was read
}

// source records the events of a source. A family has a recorder of its own, which a live one keeps.
func (p *pump) source(d *delivery, s source) error {
	inferred := event.RunInfo{Agent: p.o.Agent, Provider: p.o.Provider}
	if s.family == nil {
		d.rec.NextInput(s.written, inferred)
		return p.record(d, d.rec, s, p.eventsOf(s))
	}
	f := p.families[s.name]
	if f == nil {
		f = &family{rec: d.recorder(), live: s.live}
		f.rec.NextInput(s.written, inferred)
		p.families[s.name] = f
	}
	f.last = time.Now()
	err := p.record(d, f.rec, s, p.eventsOf(s))
	if f.live && err == nil {
		return nil
	}
	if p.end(s.name); errors.Is(err, transcript.ErrRewritten) {
		return p.source(d, s)
	}
	return err
}

// end ends what is open of a family.
func (p *pump) end(name string) {
	f, dec := p.families[name], p.decoders[name].(*transcript.Decoder)
	if f.live {
		for ev, err := range dec.Rest() {
			if err == nil { // none is: no line is read
				f.rec.Record(context.Background(), ev)
			}
		}
	}
	f.rec.Close(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over.Events, p.over.Outside = p.over.Events+dec.Stats().Events, p.over.Outside+dec.Stats().Outside+f.rec.Lost()
	delete(p.families, name)
	delete(p.decoders, name)
}

// record records the events of a source. An error is one of a file; the other files of a family are read.
func (p *pump) record(d *delivery, rec *event.Recorder, s source, from events) (failed error) {
	for ev, err := range from {
		switch bad, ok := errors.AsType[*input.LineError](err); {
		case ok && bad.Cut && (p.o.Follow || s.family != nil):
			// It comes when the file is sent again.
			p.app.say("%s ends inside a line that is still being written; it was left out", cmp.Or(bad.File, s.name))
		case ok:
			p.reject(s.name, bad)
		case err != nil && s.family != nil:
			failed = cmp.Or(failed, err)
		case err != nil:
			return fmt.Errorf("read %s: %w", s.name, err)
		default:
			if p.shift != 0 {
				ev = shifted(ev, p.shift)
			}
			rec.Record(context.Background(), ev)
		}
		p.note(ev)
		select {
		case <-p.quit:
			if !p.o.Follow {
				return fmt.Errorf("interrupted before the end of %s", s.name)
			}
		default:
		}
		if !p.in.live && d.providers.Stats().Failed > 0 {
			return nil // nobody waits for the rest, and its failure is already reported
		}
	}
	p.note(nil)
	return failed
}

// reject names a line that was not read.
func (p *pump) reject(name string, bad *input.LineError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !bad.Again {
		p.rejected++
	}
	if p.rejected > maxRejected {
		return
	}
	if name = cmp.Or(bad.File, name); bad.Line > 0 {
		name = fmt.Sprintf("%s:%d", name, bad.Line)
	}
	for _, where := range []string{bad.Type, bad.Field} {
		if where != "" {
			name += ": " + where
		}
	}
	p.held = append(p.held, fmt.Sprintf("%s: %s", name, bad.Reason))
}

// note counts what was read so far, and the session of an event.
func (p *pump) note(ev event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count = p.over.Events
	for _, dec := range p.decoders {
		p.count += dec.Stats().Events
	}
	if p.count > 0 || p.in.list == nil { // import reads other families, too
		for _, line := range p.held {
			p.app.say("%s", line)
		}
		p.held = nil
	}
	id := ""
	switch e := ev.(type) {
	case *event.RunStarted:
		id = cmp.Or(e.SessionID, e.Session)
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

// sum says what became of the input.
func (p *pump) sum(d *delivery) *sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &sent{Events: p.count, Rejected: p.rejected, Sessions: p.sessions, Spans: d.providers.Stats().Exported,
		Lost: d.rec.Lost() + p.over.Outside, Target: d.target.name, Dialect: p.in.list[0].dialect.Name,
		Unread: p.o.unread}
	for _, dec := range p.decoders {
		s.Lost += dec.Stats().Outside
	}
	if len(p.held) > 0 {
		s.FirstRejected = p.held[0]
	}
	return s
}

// shiftToNow returns by how much the times of the files are moved for the last of them to be now. It reads them all.
func (o *sendOptions) shiftToNow(a *app) (by time.Duration, err error) {
	in, err := o.open(&app{stdin: a.stdin, stderr: io.Discard}, nil)
	if err != nil {
		return 0, err
	}
	defer in.close()
	p := &pump{o: o, in: in}
	var last time.Time
	for _, s := range in.list {
		for ev, err := range p.eventsOf(s) {
			if ev == nil || err != nil {
				continue // it is named when it is sent
			}
			eachTime(reflect.ValueOf(ev).Elem(), func(t time.Time) time.Time {
				if t.After(last) {
					last = t
				}
				return t
			})
		}
	}
	if last.IsZero() {
		return 0, nil
	}
	return time.Since(last), nil
}

// shifted returns a copy of an event with all its times moved.
func shifted(ev event.Event, by time.Duration) event.Event {
	v := reflect.New(reflect.TypeOf(ev).Elem())
	v.Elem().Set(reflect.ValueOf(ev).Elem())
	eachTime(v.Elem(), func(t time.Time) time.Time { return t.Add(by) })
	return v.Interface().(event.Event)
}

// eachTime replaces each time in v that is stated. What v points to is copied where it has times: decoders return some
// values twice.
func eachTime(v reflect.Value, replace func(time.Time) time.Time) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !t.IsZero() {
				v.Set(reflect.ValueOf(replace(t)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachTime(v.Field(i), replace)
			}
		}
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(v.Elem())
		eachTime(c.Elem(), replace)
		v.Set(c)
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			eachTime(c.Index(i), replace)
		}
		v.Set(c)
	}
}
