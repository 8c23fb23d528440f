package session

import (
	"time"

	"github.com/otelagent/otelagent/spans"
)

// ownRun builds a run from its own row.
func (a *assembler) ownRun(e *entry, f *aside) *Run {
	r := e.row
	run := &Run{ID: r.Run, Turns: []*Turn{}}
	a.span(&run.Span, e)
	run.Start = nsTime(r.RunStart)
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !run.setHeader(at.Key, at.Value) && !run.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&run.Span, at)
		}
	}
	f.counted = r.Known != spans.KnownLive
	switch r.Known {
	case spans.KnownLive:
		run.Status = spans.RunStatusOpen
	case spans.KnownClosed:
		if run.Status == "" || run.Status == spans.RunStatusOpen {
			run.Status = spans.RunStatusAborted
		}
	default:
		if run.Status == "" {
			run.Status = spans.RunStatusCompleted
		}
	}
	a.runLists(run, r)
	run.Events = a.notes(nil, r)
	if f.inferred {
		run.Defects = append(run.Defects, Defect{Code: spans.DefectStartNotSeen})
	}
	f.schemaDefect(&run.Defects)
	backwards(&run.Defects, &run.Span)
	return run
}

// inferRun builds a run from the rows of its children: from the first turn, which repeats the run's header, as far as one
// arrived.
func (a *assembler) inferRun(l []entry) *Run {
	from := l[0].row
	for i := range l {
		if l[i].row.Kind == KindTurn {
			from = l[i].row
			break
		}
	}
	run := &Run{ID: from.Run, Turns: []*Turn{}, Status: spans.RunStatusOpen}
	run.Missing = true
	run.Start = nsTime(from.RunStart)
	for i := range from.Attrs {
		run.setHeader(from.Attrs[i].Key, from.Attrs[i].Value)
	}
	run.Defects = append(run.Defects, Defect{Code: spans.DefectRunSpanMissing})
	return run
}

func (a *assembler) group(e *entry) *Group {
	r := e.row
	g := &Group{}
	a.span(&g.Span, e)
	g.Start = nsTime(r.RunStart)
	var f aside
	f.reset()
	a.sink = Run{}
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !g.set(at.Key, at.Value) && !f.set(at.Key, at.Value) && !a.sink.setHeader(at.Key, at.Value) {
			a.common(&g.Span, at)
		}
	}
	g.Dialect = a.sink.Dialect
	switch {
	case r.Known == spans.KnownLive:
		g.Status = spans.RunStatusOpen
	case r.Known == spans.KnownClosed && (g.Status == "" || g.Status == spans.RunStatusOpen):
		g.Status = spans.RunStatusAborted
	case g.Status == "":
		g.Status = spans.RunStatusCompleted
	}
	for i := range r.Lists {
		a.unknownList(&g.Span, &g.Defects, &r.Lists[i])
	}
	g.Events = a.notes(nil, r)
	f.schemaDefect(&g.Defects)
	backwards(&g.Defects, &g.Span)
	a.groups[r.RunStart] = g
	a.s.Groups = append(a.s.Groups, g)
	return g
}

func (a *assembler) ownTurn(t *Turn, e *entry, f *aside) {
	r := e.row
	a.span(&t.Span, e)
	a.sink = Run{}
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if at.Key == PartialOutputKey {
			t.Output = inRow(at.Value.Strings())
			continue
		}
		if !t.set(at.Key, at.Value) && !f.set(at.Key, at.Value) && !a.sink.setHeader(at.Key, at.Value) {
			a.common(&t.Span, at)
		}
	}
	t.Failed = r.Failed
	f.counted = r.Known != spans.KnownLive
	a.turnLists(t, r)
	t.Events = a.notes(nil, r)
	f.schemaDefect(&t.Defects)
	backwards(&t.Defects, &t.Span)
}

// inRow returns a list of bodies that came with the row.
func inRow(bodies []string) *Refs {
	refs := &Refs{Count: int64(len(bodies)), Complete: true, bodies: bodies}
	for _, body := range bodies {
		refs.items = append(refs.items, Ref{Block: spans.BlockOfString(body).Short().String()})
	}
	return refs
}

func (a *assembler) tool(e *entry) *ToolCall {
	r := e.row
	a.tools = append(a.tools, ToolCall{ID: e.word, Ordinal: e.ordinal})
	t := &a.tools[len(a.tools)-1]
	a.span(&t.Span, e)
	var f aside
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !t.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&t.Span, at)
		}
	}
	if r.Known != spans.KnownLive {
		a.toolPermissions = plus(a.toolPermissions, max(0, f.counts[countPermissions]))
	}
	for i := range r.Lists {
		switch l := &r.Lists[i]; l.Name {
		case spans.ListArgs:
			t.Args = a.refs(l, &t.Defects)
		case spans.ListResult:
			t.Result = a.refs(l, &t.Defects)
		default:
			a.unknownList(&t.Span, &t.Defects, l)
		}
	}
	t.Events = a.notes(nil, r)
	f.schemaDefect(&t.Defects)
	backwards(&t.Defects, &t.Span)
	return t
}

func (a *assembler) compaction(e *entry) *Compaction {
	r := e.row
	a.compactions = append(a.compactions, Compaction{Kind: spans.CompactionKind(e.word)})
	c := &a.compactions[len(a.compactions)-1]
	a.span(&c.Span, e)
	var f aside
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !c.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&c.Span, at)
		}
	}
	for i := range r.Lists {
		switch l := &r.Lists[i]; l.Name {
		case spans.ListSummary:
			c.Summary = a.refs(l, &c.Defects)
		case spans.ListBefore:
			c.Before = a.refs(l, &c.Defects)
		case spans.ListAfter:
			c.After = a.refs(l, &c.Defects)
		default:
			a.unknownList(&c.Span, &c.Defects, l)
		}
	}
	c.Events = a.notes(nil, r)
	f.schemaDefect(&c.Defects)
	backwards(&c.Defects, &c.Span)
	return c
}

func (a *assembler) permission(e *entry) *Permission {
	r := e.row
	a.permissions = append(a.permissions, Permission{CallID: e.word, Ordinal: e.ordinal})
	p := &a.permissions[len(a.permissions)-1]
	a.span(&p.Span, e)
	var f aside
	f.reset()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if !p.set(at.Key, at.Value) && !f.set(at.Key, at.Value) {
			a.common(&p.Span, at)
		}
	}
	for i := range r.Lists {
		if l := &r.Lists[i]; l.Name == spans.ListOptions {
			p.Options = a.refs(l, &p.Defects)
		} else {
			a.unknownList(&p.Span, &p.Defects, l)
		}
	}
	p.Events = a.notes(nil, r)
	f.schemaDefect(&p.Defects)
	backwards(&p.Defects, &p.Span)
	return p
}

// span sets what every kind of span has.
func (a *assembler) span(s *Span, e *entry) {
	r := e.row
	at := 48 * e.hex
	s.TraceID, s.SpanID = a.hex[at:at+32], a.hex[at+32:at+48]
	s.Known = r.Known
	s.Start = nsTime(r.Start)
	switch {
	case r.End == 0:
	case r.Known == spans.KnownLive:
		s.Seen = nsTime(r.End)
	default:
		s.End = nsTime(r.End)
	}
	s.Seq, s.EndSeq = r.Seq, r.EndSeq
}

// common takes an attribute that the kind has no field for.
func (a *assembler) common(s *Span, at *Attr) {
	switch at.Key {
	case string(spans.StartTimeKey):
		s.StartSource = spans.TimeSource(at.Value.Text())
		return
	case string(spans.EndTimeKey):
		s.EndSource = spans.TimeSource(at.Value.Text())
		return
	case string(spans.RecordingKindKey):
		s.Recording = spans.Recording(at.Value.Text())
		return
	case string(spans.LiveHeartbeatKey):
		// One that is not over says it; a heartbeat of what ended means nothing.
		if n, ok := at.Value.Int(); ok && n > 0 {
			if s.Known == spans.KnownLive {
				s.HeartbeatNS = n
			}
			return
		}
	case string(spans.EventsDroppedKey):
		if n, ok := at.Value.Int(); ok {
			s.EventsDropped = n
			return
		}
	case string(spans.RedactedKey):
		if n, ok := at.Value.Int(); ok {
			s.Redacted = n
			return
		}
	case string(spans.SessionMadeUpKey):
		if b, ok := at.Value.Bool(); ok {
			a.made = a.made || b
			return
		}
	case string(spans.AgentNameKey), string(spans.AgentIDKey), string(spans.OperationNameKey), string(spans.OrdinalKey):
		return // of the run, implied by the kind, part of the address
	}
	if s.Extra == nil {
		s.Extra = map[string]any{}
	}
	s.Extra[at.Key] = at.Value.Any()
}

func backwards(d *[]Defect, s *Span) {
	if !s.End.IsZero() && s.End.Before(s.Start) {
		*d = append(*d, Defect{Code: spans.DefectTimeBackwards, Detail: s.Start.Sub(s.End).String()})
	}
}

func nsTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }
