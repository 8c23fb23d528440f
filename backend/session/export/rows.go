package export

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file makes the rows of a plan: messages, their parts, and the rows of further types.

// cells are the cells of a row of CSV that the row's columns do not give.
type cells struct {
	model    string
	call     *session.ToolCall
	usage    *session.Usage
	cost     *float64
	currency string
}

// Rows yields the rows: the session, then each message followed by its parts, then the rows of further types. It may be
// called several times. A row is valid until the next one.
func (g *Guide) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		e := emitter{Guide: g, yield: yield}
		if g.sources != nil {
			slices.Values(g.sources)(yield)
			return
		}
		row := e.sessionRow()
		e.put(Row{Type: RowSession, Session: row, JSON: encode(row)})
		for _, u := range e.units {
			if e.stopped {
				return
			}
			e.unit(u)
		}
		e.further()
	}
}

// emitter is one walk over the rows.
type emitter struct {
	*Guide
	yield   func(Row) bool
	stopped bool
}

func (e *emitter) put(r Row) { e.stopped = e.stopped || !e.yield(r) }

// unit puts a message row and its parts.
func (e *emitter) unit(u *unit) {
	m := &MessageRow{ID: u.id, SessionID: e.s.ID, Role: u.role, CreatedAt: u.at, UpdatedAt: u.at}
	m.MetadataJSON = e.metadata(u)
	rest, parts := &cells{}, u.parts
	switch u.kind {
	case unitCompaction:
		parts = e.compactionParts(u)
	case unitReply:
		for _, t := range u.turns() {
			m.UpdatedAt = max(m.UpdatedAt, latest(t.Start, t.End).UnixMilli())
		}
		sum := e.runs[u.run].rest
		if sum.Add(e.runs[u.run].apart); u.full && sum != (session.Usage{}) && !u.run.Copied {
			rest.usage = &sum
			rest.cost, rest.currency = e.runs[u.run].cost, e.runs[u.run].currency
		}
	}
	row := Row{Type: RowMessage, Message: m, JSON: encode(m)}
	if !slices.ContainsFunc(u.steps, func(st *step) bool { return len(st.parts) > 0 }) && len(parts) == 0 {
		row.cells = rest
	}
	e.put(row)
	index, at, counter := int64(0), int64(-1), int64(0)
	put := func(p *builtPart, c *cells) {
		created := max(p.created, m.CreatedAt) // no part before its message
		if counter = min(counter+1, stampsPerMS-1); created != at {
			at, counter = created, 0
		}
		row := &PartRow{
			ID:        newID("prt", at, counter, addressOf(e.s, u.run, u.address)+"\x00"+fmt.Sprint(index)),
			MessageID: m.ID, SessionID: e.s.ID, Index: index, Type: p.typ, DataJSON: string(p.data),
			CreatedAt: created, UpdatedAt: max(p.updated, created),
		}
		if p.callID != "" {
			row.ToolCallID = &p.callID
		}
		if p.state != "" {
			row.ToolState = &p.state
		}
		index++
		c.call = p.call
		e.put(Row{Type: RowPart, Part: row, JSON: encode(row), cells: c})
	}
	for k := range parts {
		put(&parts[k], &cells{})
	}
	for _, st := range u.steps {
		c := st.cells(u.run, rest)
		for j := range st.parts {
			put(&st.parts[j], c)
			c = &cells{model: c.model}
		}
	}
}

// cells are those of the first part of a step. rest is the usage of its run outside of its turns, which goes to the
// first one that asks.
func (st *step) cells(r *session.Run, rest *cells) *cells {
	c := &cells{model: r.Model}
	if t := st.turn; t != nil {
		c.model = cmp.Or(t.Answered, t.Model, r.Model)
		if !r.Copied {
			c.cost, c.currency = t.Cost, t.Currency
			if t.UsageReported() {
				c.usage = &t.Usage
			}
		}
	}
	if rest.usage == nil {
		return c
	}
	sum := *rest.usage
	if c.usage != nil {
		sum.Add(*c.usage)
	}
	c.usage, rest.usage = &sum, nil
	if rest.cost != nil && (c.cost == nil || c.currency == rest.currency) {
		all := *rest.cost
		if c.cost != nil {
			all += *c.cost
		}
		c.cost, c.currency = &all, rest.currency
	}
	return c
}

// compactionParts makes the one part of a summary.
func (g *Guide) compactionParts(u *unit) []builtPart {
	c := u.compaction
	summary, _ := g.summary(u.run, nil, c)
	tail := null
	if id := g.tailStart(c); id != "" {
		tail = quote(id)
	}
	var auto *bool
	if c.Trigger != "" {
		auto = new(c.Trigger != "manual" && c.Trigger != "user")
	}
	data := fields("summary", &summary, "tail_start_id", tail, "auto", auto, "summary_tokens", c.OutputTokens)
	return []builtPart{{typ: "data-compaction", data: dataPart("compaction", data), created: u.at, updated: u.at}}
}

// summary returns the text of a summary, and reports whether there is any. Its bodies are JSON strings or messages.
func (g *Guide) summary(r *session.Run, t *session.Turn, c *session.Compaction) (string, bool) {
	var texts []string
	for _, in := range g.read(r, t, spans.ListSummary, c.Summary) {
		s, ok := text(in.body)
		if !ok {
			for _, p := range readMessage(in.body).parts {
				if t, isText := p.text(); isText && p.Type == "text" {
					s += t
				}
			}
			s = cmp.Or(s, string(in.body))
		}
		texts = append(texts, s)
	}
	return strings.Join(texts, "\n"), texts != nil
}

// tailStart returns the id of the first row that a compaction kept in the model's context, empty where that is not
// known.
func (g *Guide) tailStart(c *session.Compaction) string {
	for _, ref := range c.After.Items() {
		same := func(o session.Ref) bool { return g.same(o) == g.same(ref) }
		has := func(st *step) bool {
			if st.turn == nil {
				return st.lone != nil && same(*st.lone)
			}
			return slices.ContainsFunc(st.turn.Output.Items(), same)
		}
		for _, u := range g.units {
			if u.kind == unitMessage && same(u.ref) || slices.ContainsFunc(u.steps, has) {
				return u.id
			}
		}
	}
	return ""
}

// further puts the rows of further types: system prompts, tool catalogues, permission evaluations, defects.
func (e *emitter) further() {
	for _, typ := range []RowType{RowSystemPrompt, RowToolCatalog} {
		for _, row := range e.texts {
			if row.Type == typ {
				e.put(row)
			}
		}
	}
	var nodes []session.Node // of the tree; the permission evaluations of a run or turn come before its calls
	children := 0            // of the latest run or turn
	for n := range e.s.Walk() {
		switch n.Kind() {
		case session.KindRun, session.KindTurn:
			children = len(nodes) + 1
		case session.KindPermission:
			if n.Call == nil {
				nodes = slices.Insert(nodes, children, n)
				children++
				continue
			}
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if n.Permission != nil {
			e.permission(n, n.Permission)
		}
	}
	e.defects("", e.s.Defects)
	for _, n := range nodes {
		where := whereTurn(n.Run, n.Turn)
		if n.Call != nil {
			where += " " + n.Call.ID
		}
		e.defects(where, *n.Defects())
	}
	for _, group := range e.s.Groups {
		e.defects(whereRun(&session.Run{Span: group.Span}), group.Defects)
	}
}

// permission puts a permission evaluation. Times are unix nanoseconds.
func (e *emitter) permission(n session.Node, p *session.Permission) {
	var turn *int64
	if n.Turn != nil {
		turn = &n.Turn.Index
	}
	call := p.CallID
	if n.Call != nil {
		call = cmp.Or(call, n.Call.ID)
	}
	e.put(Row{Type: RowPermission, JSON: fields("run", fields("id", &n.Run.ID, "start", stamp(n.Run.Start)),
		"turn", turn, "call_id", call, "ordinal", p.Ordinal, "start", stamp(p.Start), "end", stamp(p.End), "tool", p.Tool,
		"pattern", p.Pattern, "action", p.Action, "source", p.Source, "target", p.Target, "reason", p.Reason,
		"decided_by", p.DecidedBy, "wait_ns", p.WaitNS, "option", p.Option, "outcome", p.Outcome, "derived", p.Derived,
		"rules_digest", p.RulesDigest)})
}

func (e *emitter) defects(where string, defects []session.Defect) {
	for _, d := range defects {
		e.put(Row{Type: RowDefect, JSON: fields("where", where, "code", &d.Code, "detail", d.Detail)})
	}
}
