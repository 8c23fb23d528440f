package session

import (
	"cmp"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// part is a piece of the tree that one span describes.
type part interface {
	table() *fieldTable
	span() *Span
	said() (*[]Note, *[]Defect)
}

func (s *Span) span() *Span { return s }

func (r *Run) table() *fieldTable        { return &runFields }
func (g *Group) table() *fieldTable      { return &groupFields }
func (t *Turn) table() *fieldTable       { return &turnFields }
func (t *ToolCall) table() *fieldTable   { return &toolFields }
func (c *Compaction) table() *fieldTable { return &compactionFields }
func (p *Permission) table() *fieldTable { return &permissionFields }

func (r *Run) said() (*[]Note, *[]Defect)        { return &r.Events, &r.Defects }
func (g *Group) said() (*[]Note, *[]Defect)      { return &g.Events, &g.Defects }
func (t *Turn) said() (*[]Note, *[]Defect)       { return &t.Events, &t.Defects }
func (t *ToolCall) said() (*[]Note, *[]Defect)   { return &t.Events, &t.Defects }
func (c *Compaction) said() (*[]Note, *[]Defect) { return &c.Events, &c.Defects }
func (p *Permission) said() (*[]Note, *[]Defect) { return &p.Events, &p.Defects }

// fill sets everything that the row of e says of p.
func (a *assembler) fill(p part, e *entry) counters {
	r, s := e.row, p.span()
	s.set(r)
	c := counters{Turns: -1, ToolCalls: -1, Compactions: -1, Permissions: -1, Schema: spans.SchemaVersion}
	c.final = r.Known != spans.KnownLive
	fields, dst, counts := p.table(), reflect.ValueOf(p).Elem(), reflect.ValueOf(&c).Elem()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		if fields.set(dst, at) || special(p, at) || counterFields.set(counts, at) || isElsewhere(p, at) {
			continue
		}
		if s.Extra == nil {
			s.Extra = map[string]any{}
		}
		s.Extra[at.Key] = at.Value.Any()
	}
	a.madeUp = a.madeUp || c.MadeUp
	if s.Known != spans.KnownLive || s.HeartbeatNS < 0 {
		s.HeartbeatNS = 0
	}
	events, defects := p.said()
	a.lists(p, r)
	notes(p, r)
	for _, r := range e.payloads {
		a.lists(p, r)
		notes(p, r)
	}
	if len(e.payloads) > 0 {
		slices.SortStableFunc(*events, func(x, y Note) int {
			return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.Seq, y.Seq))
		})
	}
	a.otherLists(p, e.others)
	for i := len(e.others) - 1; i >= 0; i-- { // the preferred one last
		for j := range e.others[i].row.Attrs {
			at := &e.others[i].row.Attrs[j]
			if fields.attrs[at.Key].relative && r.Attr(attribute.Key(at.Key)).IsZero() {
				fields.set(dst, at)
			}
		}
	}
	if c.Inferred {
		*defects = append(*defects, Defect{Code: spans.DefectStartNotSeen})
	}
	if c.Schema != spans.SchemaVersion {
		*defects = append(*defects, Defect{Code: spans.DefectSchemaUnknown, Detail: IntValue(c.Schema).Text()})
	}
	if !s.End.IsZero() && s.End.Before(s.Start) {
		*defects = append(*defects, Defect{Code: spans.DefectTimeBackwards, Detail: s.Start.Sub(s.End).String()})
	}
	return c
}

// special takes the attributes that fill no field as they are.
func special(p part, at *Attr) bool {
	switch p := p.(type) {
	case *Run:
		var texts []string
		if at.Key == string(spans.RunDefectsKey) && setStrings(&texts, at.Value) {
			for _, text := range texts[:min(len(texts), 64)] {
				code, detail, _ := strings.Cut(text, " ")
				p.Defects = append(p.Defects, Defect{Code: spans.DefectCode(code), Detail: detail})
			}
			return true
		}
	case *Turn:
		if at.Key == PartialOutputKey {
			p.Output = inRow(at.Value.Strings())
			return true
		}
	}
	return false
}

// isElsewhere reports whether the tree has the attribute elsewhere: in the run, in the kind of the span or in its
// address.
func isElsewhere(p part, at *Attr) bool {
	switch at.Key {
	case string(spans.AgentNameKey), string(spans.AgentIDKey), string(spans.OperationNameKey), string(spans.OrdinalKey),
		string(spans.FinishReasonsKey):
		return true
	case string(spans.RunKindKeyKey):
		kind := spans.RunKind(at.Value.Text())
		return kind == spans.RunKindLoop || kind == spans.RunKindParallel
	}
	switch p.(type) {
	case *Turn, *Group:
		return runFields.attrs[at.Key].header
	}
	return false
}

// lists adds the lists of a row to p. Of lists of one name the first counts.
func (a *assembler) lists(p part, r *Row) {
	fields, dst := p.table(), reflect.ValueOf(p).Elem()
	_, defects := p.said()
	turn, isTurn := p.(*Turn)
	for i := range r.Lists {
		l := &r.Lists[i]
		field := fields.list(dst, l.Name)
		if isTurn && field == nil {
			field = a.requestList(turn, l)
		}
		switch {
		case fields == &runFields && l.Name == spans.ListHistory: // other lists refer to it
		case isTurn && l.Name == spans.ListOutput && isPartial(r) && !turn.Partial:
		case field == nil:
			a.unknownList(p.span(), defects, l)
		case *field == nil:
			*field = a.refs(l, defects)
		}
	}
}

// requestList returns the field for a list of a request, which it adds to the turn; nil for any other list.
func (a *assembler) requestList(t *Turn, l *List) **Refs {
	if l.Name != spans.ListRequest && l.Name != spans.ListParams {
		return nil
	}
	q := a.requests[l.Attempt]
	if q == nil {
		q = &Request{Attempt: l.Attempt}
		a.requests[l.Attempt] = q
		t.Requests = append(t.Requests, q)
	}
	if l.Name == spans.ListRequest {
		return &q.Messages
	}
	if q.Params == nil {
		q.whole = l.Whole
	}
	return &q.Params
}

// otherLists adds the lists that only other rows of the address have. A whole output replaces a partial one.
func (a *assembler) otherLists(p part, others []entry) {
	turn, isTurn := p.(*Turn)
	for i := range others {
		o := &others[i]
		isOutput := func(l List) bool { return l.Name == spans.ListOutput }
		if isTurn && turn.Partial && !isPartial(o.row) && slices.ContainsFunc(o.row.Lists, isOutput) {
			turn.Partial, turn.Output = false, nil
		}
		a.lists(p, o.row)
		for _, r := range o.payloads {
			a.lists(p, r)
		}
	}
}

// isPartial reports whether the output of the turn was not complete when the source sent the row.
func isPartial(r *Row) bool {
	partial, _ := r.Attr(spans.PartialKey).Bool()
	return partial
}

// payloads adds what payload rows of a run or turn carry. Of lists of one name the latest counts: a request may be sent
// again.
func (a *assembler) payloads(p part, rows []*Row) {
	for _, r := range slices.Backward(rows) {
		a.lists(p, r)
	}
	for _, r := range rows {
		notes(p, r)
	}
}

func notes(p part, r *Row) {
	events, _ := p.said()
	for i := range r.Events {
		e := &r.Events[i]
		n := Note{Time: nsTime(e.Time), Type: e.Type, Seq: e.Seq}
		if e.Body != "" {
			n.Body = &Ref{Block: e.Body}
		}
		*events = append(*events, n)
	}
}

// ownRun builds a run from its own row.
func (a *assembler) ownRun(e *entry) (*Run, counters) {
	r := e.row
	run := &Run{ID: r.Run, Turns: []*Turn{}}
	c := a.fill(run, e)
	run.Start = nsTime(r.RunStart)
	run.Status = endStatus(run.Status, r.Known)
	if run.Rule != "" {
		need(&run.Reported).derive(*need(&run.RollUp), run.Rule)
	}
	// The span of a run repeats the error of the turn that ended it. The tree has the error at the turn.
	if run.ErrorType == spans.ErrorTypeProvider || run.ErrorType == spans.ErrorTypeCancelled {
		run.ErrorType = spans.ErrorTypeOther
	}
	return run, c
}

// endStatus returns the status of a run or group of which the span states the given one.
func endStatus(stated spans.RunStatus, known spans.Known) spans.RunStatus {
	switch {
	case known == spans.KnownLive:
		return spans.RunStatusOpen
	case known == spans.KnownClosed && (stated == "" || stated == spans.RunStatusOpen):
		return spans.RunStatusAborted
	case stated == "":
		return spans.RunStatusCompleted
	}
	return stated
}

// inferRun builds a run without a row of its own from the header that its first turn repeats.
func (a *assembler) inferRun(l []entry) *Run {
	from := l[0].row
	for i := range l {
		if l[i].row.Kind == KindTurn {
			from = l[i].row
			break
		}
	}
	run := &Run{ID: from.Run, Turns: []*Turn{}, Status: spans.RunStatusOpen}
	run.Missing, run.Start = true, nsTime(from.RunStart)
	for i := range from.Attrs {
		if at := &from.Attrs[i]; runFields.attrs[at.Key].header {
			runFields.set(reflect.ValueOf(run).Elem(), at)
		}
	}
	run.Defects = append(run.Defects, Defect{Code: spans.DefectRunSpanMissing})
	return run
}

func (a *assembler) group(e *entry) *Group {
	r := e.row
	g := &Group{}
	a.fill(g, e)
	g.Start = nsTime(r.RunStart)
	g.Status = endStatus(g.Status, r.Known)
	a.groups[r.RunStart] = g
	a.s.Groups = append(a.s.Groups, g)
	return g
}

// ownTurn builds a turn from its own row.
func (a *assembler) ownTurn(e *entry) (*Turn, counters) {
	t := &Turn{Index: e.row.Turn}
	c := a.fill(t, e)
	t.Failed = e.row.Failed
	if t.Rule != "" {
		need(&t.Reported).derive(t.Usage, t.Rule)
	}
	return t, c
}

// inferTurn builds a turn without a row of its own from the times of its children.
func (a *assembler) inferTurn(run *Run, children []entry) *Turn {
	t := &Turn{Index: children[0].row.Turn}
	t.Missing = true
	first, last, open := children[0].row.Start, int64(0), false
	for i := range children {
		r := children[i].row
		first, last, open = min(first, r.Start), max(last, r.Start, r.End), open || r.Known == spans.KnownLive
	}
	if t.Start = nsTime(first); !open {
		t.End = nsTime(last)
	}
	if !run.Missing { // else both may still be open
		t.Defects = append(t.Defects, Defect{Code: spans.DefectTurnSpanMissing})
	}
	return t
}

// inRow returns a list of bodies that came with the row.
func inRow(bodies []string) *Refs {
	items := make([]Ref, len(bodies))
	for i, body := range bodies {
		items[i] = Ref{Block: spans.BlockOfString(body).Short().String()}
	}
	refs := NewRefs(items...)
	refs.bodies = bodies
	return refs
}

func (a *assembler) tool(e *entry) *ToolCall {
	t := &ToolCall{ID: e.word, Ordinal: e.ordinal}
	if c := a.fill(t, e); c.final {
		a.toolPermissions = plus(a.toolPermissions, max(0, c.Permissions))
	}
	return t
}

func (a *assembler) compaction(e *entry) *Compaction {
	c := &Compaction{Kind: spans.CompactionKind(e.word)}
	a.fill(c, e)
	return c
}

func (a *assembler) permission(e *entry) *Permission {
	p := &Permission{CallID: e.word, Ordinal: e.ordinal}
	a.fill(p, e)
	return p
}

// set sets what the columns of the row say of every kind of span.
func (s *Span) set(r *Row) {
	var text [48]byte
	hex.Encode(text[:32], r.Trace[:])
	hex.Encode(text[32:], r.Span[:])
	ids := string(text[:])
	s.TraceID, s.SpanID = ids[:32], ids[32:]
	s.Known, s.Start, s.Seq, s.EndSeq = r.Known, nsTime(r.Start), r.Seq, r.EndSeq
	switch {
	case r.End == 0:
	case r.Known == spans.KnownLive:
		s.Seen = nsTime(r.End)
	default:
		s.End = nsTime(r.End)
	}
}

func nsTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }
