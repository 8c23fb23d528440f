package session

import (
	"cmp"
	"encoding/hex"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// part is a piece of the tree that one span describes.
type part interface {
	span() *Span
	remarks() *Remarks
}

func (s *Span) span() *Span          { return s }
func (s *Remarks) remarks() *Remarks { return s }

// tables holds the fields of each kind of part, by its type.
var tables = map[reflect.Type]*fieldTable{}

func init() {
	run := fieldsOf(reflect.TypeFor[Run](), nil)
	tables[reflect.TypeFor[Run]()] = run
	for _, p := range []any{Group{}, Turn{}} {
		tables[reflect.TypeOf(p)] = fieldsOf(reflect.TypeOf(p), run)
	}
	for _, p := range []any{ToolCall{}, Compaction{}, Permission{}} {
		tables[reflect.TypeOf(p)] = fieldsOf(reflect.TypeOf(p), nil)
	}
}

// fieldsIn returns the fields of what p points to, and that.
func fieldsIn(p any) (*fieldTable, reflect.Value) {
	dst := reflect.ValueOf(p).Elem()
	return tables[dst.Type()], dst
}

// fill sets everything that the row of e says of p.
func (a *assembler) fill(p part, e *entry) counters {
	r, s, said := e.row, p.span(), p.remarks()
	s.set(r)
	c := &a.counters
	*c = counters{Turns: -1, ToolCalls: -1, Compactions: -1, Permissions: -1, Schema: spans.SchemaVersion}
	c.final = r.Known != spans.KnownLive
	fields, dst := fieldsIn(p)
	counts := reflect.ValueOf(c).Elem()
	for i := range r.Attrs {
		at := &r.Attrs[i]
		f, into := fields.attrs[at.Key], dst
		if f != nil && f.counter {
			into = counts
		}
		if f != nil && (f.set(into, at.Value) || f.elsewhere) {
			continue
		}
		if at.Key == string(spans.RunKindKeyKey) && (at.Value == StringValue(string(spans.RunKindLoop)) ||
			at.Value == StringValue(string(spans.RunKindParallel))) {
			continue // the type of the part says so
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
	e.each(func(r *Row) {
		a.lists(p, r)
		said.notes(r)
	})
	if len(e.payloads) > 0 {
		slices.SortStableFunc(said.Events, func(x, y Note) int {
			return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.Seq, y.Seq))
		})
	}
	a.others(p, e)
	if c.Inferred {
		said.defect(spans.DefectStartNotSeen, "")
	}
	if c.Schema != spans.SchemaVersion {
		said.defect(spans.DefectSchemaUnknown, IntValue(c.Schema).Text())
	}
	if !s.End.IsZero() && s.End.Before(s.Start) {
		said.defect(spans.DefectTimeBackwards, s.Start.Sub(s.End).String())
	}
	return *c
}

func (s *Remarks) defect(code spans.DefectCode, detail string) {
	s.Defects = append(s.Defects, Defect{Code: code, Detail: detail})
}

// others adds the lists and relatives that only other rows of the address have. A whole output replaces a partial one.
func (a *assembler) others(p part, e *entry) {
	turn, isTurn := p.(*Turn)
	isOutput := func(l List) bool { return l.Name == spans.ListOutput }
	for _, r := range e.others {
		if isTurn && turn.Partial && !isPartial(r) && slices.ContainsFunc(r.Lists, isOutput) {
			turn.Partial, turn.Output = false, nil
		}
		a.lists(p, r)
	}
	fields, dst := fieldsIn(p)
	for _, r := range slices.Backward(e.others) { // the preferred one last
		for i := range r.Attrs {
			at := &r.Attrs[i]
			f := fields.attrs[at.Key]
			if f != nil && f.relative && e.row.Attr(attribute.Key(at.Key)).IsZero() {
				f.set(dst, at.Value)
			}
		}
	}
}

// lists adds the lists of a row to p. Of lists of one name the first counts.
func (a *assembler) lists(p part, r *Row) {
	fields, dst := fieldsIn(p)
	turn, isTurn := p.(*Turn)
	_, isRun := p.(*Run)
	for i := range r.Lists {
		l := &r.Lists[i]
		field := fields.list(dst, l.Name)
		if isTurn && field == nil {
			field = a.requestList(turn, l)
		}
		switch {
		case isRun && l.Name == spans.ListHistory: // other lists refer to it
		case isTurn && l.Name == spans.ListOutput && isPartial(r) && !turn.Partial:
		case field == nil:
			a.unknownList(p, l)
		case *field == nil:
			*field = a.refs(l, p.remarks())
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
		p.remarks().notes(r)
	}
}

func (s *Remarks) notes(r *Row) {
	for _, e := range r.Events {
		s.Events = append(s.Events, Note{Time: nsTime(e.Time), Type: e.Type, Body: refOf(e.Body), Seq: e.Seq})
	}
}

// refOf returns a reference to a block, nil for none.
func refOf(block string) *Ref {
	if block == "" {
		return nil
	}
	return &Ref{Block: block}
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
	fields, dst := fieldsIn(run)
	for i := range from.Attrs {
		if f := fields.attrs[from.Attrs[i].Key]; f != nil && f.header {
			f.set(dst, from.Attrs[i].Value)
		}
	}
	run.defect(spans.DefectRunSpanMissing, "")
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
		t.defect(spans.DefectTurnSpanMissing, "")
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
