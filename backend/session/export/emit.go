package export

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// cells are what CSV says of a row that its columns do not.
type cells struct {
	model    string
	call     *session.ToolCall
	usage    *session.Usage
	cost     *float64
	currency string
}

// Rows yields the rows: the session, then each message followed by its parts, then, unless Options.Strict, what else
// there is. It may be called several times, one after the other. A row is valid until the next one. An error is the
// last: of bodies, or of ctx.
func (g *Guide) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		g.ctx = ctx
		e := emitter{g: g, yield: yield}
		e.all()
		if e.err != nil {
			yield(Row{}, e.err)
		}
	}
}

// emitter is one walk over the rows.
type emitter struct {
	g       *Guide
	yield   func(Row, error) bool
	stopped bool
	err     error
}

func (e *emitter) put(r Row) bool {
	if !e.stopped && e.err == nil && !e.yield(r, nil) {
		e.stopped = true
	}
	return e.going()
}

func (e *emitter) going() bool { return !e.stopped && e.err == nil }

func (e *emitter) fail(err error) {
	if err != nil && e.err == nil && !e.stopped {
		e.err = err
	}
}

func (e *emitter) all() {
	if e.g.sources != nil {
		e.sources()
		return
	}
	row, err := e.g.sessionRow()
	if e.fail(err); err != nil || !e.put(Row{Type: RowSession, Session: row, JSON: encode(row)}) {
		return
	}
	for i := range e.g.units {
		if err := e.g.ctx.Err(); err != nil {
			e.fail(fmt.Errorf("export: %w", err))
		}
		if e.unit(i); !e.going() {
			return
		}
		if f := e.g.opts.Progress; f != nil {
			f(i+1, len(e.g.units))
		}
	}
	if !e.g.opts.Strict {
		e.further()
	}
}

// unit puts a message row and its parts.
func (e *emitter) unit(i int) {
	g, u := e.g, &e.g.units[i]
	var parts []builtPart // of anything but a reply, which puts them turn by turn
	m := &MessageRow{ID: u.id, SessionID: g.s.ID, Role: u.role, CreatedAt: u.at, UpdatedAt: u.at}
	c := &cells{}
	var err error
	if m.MetadataJSON, err = g.meta(u); err != nil {
		e.fail(err)
		return
	}
	switch u.kind {
	case unitMessage:
		parts, err = g.messageParts(i)
	case unitCompaction:
		parts, err = g.compactionParts(u)
	case unitReply:
		for _, t := range g.turns(u) {
			m.UpdatedAt = max(m.UpdatedAt, latest(t.Start, t.End).UnixMilli())
		}
		if rest := &g.runs[u.run].rest; u.full && *rest != (session.Usage{}) && !u.run.Copied {
			c.usage = rest
		}
	}
	if e.fail(err); err != nil {
		return
	}
	rest := c
	if len(parts)+u.parts > 0 {
		c = nil
	}
	if !e.put(Row{Type: RowMessage, Message: m, JSON: encode(m), cells: c}) {
		return
	}
	w := partWriter{e: e, u: u, m: m, at: -1}
	if u.kind != unitReply {
		for k := range parts {
			if !w.put(&parts[k], &cells{}) {
				return
			}
		}
		return
	}
	e.steps(i, &w, rest)
}

// steps puts the parts of a reply. rest is what its run used outside of its turns; it stands on the first part that has
// no usage of its own, so that nothing is added up before it is written.
func (e *emitter) steps(i int, w *partWriter, rest *cells) {
	g, u := e.g, &e.g.units[i]
	p := g.runs[u.run]
	for k := range u.steps {
		st := &u.steps[k]
		c := &cells{model: u.run.Model}
		var parts []builtPart
		if st.lone != nil {
			if err := g.loadLone(st); err != nil {
				e.fail(err)
				return
			}
			parts = g.loneParts(u.run, st)
		} else {
			if err := g.loadTurn(p, st.turn); err != nil {
				e.fail(err)
				return
			}
			parts = g.turnParts(u.run, p, st).parts
			t := p.turns[st.turn]
			c.model = modelOf(u.run, t)
			if !u.run.Copied {
				c.cost, c.currency = t.Cost, t.Currency
				if hasUsage(t) {
					c.usage = &t.Usage
				}
			}
		}
		if rest.usage != nil {
			sum := *rest.usage
			if c.usage != nil {
				sum.Add(*c.usage)
			}
			c.usage, rest.usage = &sum, nil
		}
		for j := range parts {
			if !w.put(&parts[j], c) {
				return
			}
			c = &cells{model: c.model}
		}
	}
}

// partWriter puts the parts of one message.
type partWriter struct {
	e       *emitter
	u       *unit
	m       *MessageRow
	index   int64
	at      int64
	counter int64
}

func (w *partWriter) put(p *builtPart, c *cells) bool {
	p.created = max(p.created, w.m.CreatedAt) // no part before its message
	p.updated = max(p.updated, p.created)
	if p.created != w.at {
		w.at, w.counter = p.created, 0
	} else {
		w.counter = min(w.counter+1, stampsPerMS-1)
	}
	g := w.e.g
	row := &PartRow{
		ID:        newID("prt", w.at, w.counter, addressOf(g.s, w.u.run, w.u.address)+"\x00"+fmt.Sprint(w.index)),
		MessageID: w.m.ID, SessionID: g.s.ID, Index: w.index, Type: p.typ, DataJSON: string(p.data),
		CreatedAt: p.created, UpdatedAt: p.updated,
	}
	if p.callID != "" {
		row.ToolCallID = &p.callID
	}
	if p.state != "" {
		row.ToolState = &p.state
	}
	w.index++
	c.call = p.call
	return w.e.put(Row{Type: RowPart, Part: row, JSON: encode(row), cells: c})
}

// messageParts loads and makes the parts of a message.
func (g *Guide) messageParts(i int) ([]builtPart, error) {
	u := &g.units[i]
	if err := g.loadMessage(u); err != nil {
		return nil, err
	}
	body, ok := g.message(u.ref)
	if !ok {
		return nil, nil // it was there a moment ago; the session is being deleted
	}
	m := readMessage(body)
	b := partBuilder{g: g, run: u.run, turn: u.turn, at: u.at, updated: u.at, results: &toolResults{}}
	b.message(&m)
	return b.parts, nil
}

// loadLone makes a reply readable whose turn is not there, and the messages with its results.
func (g *Guide) loadLone(st *step) error {
	ids := appendID(nil, *st.lone)
	for _, ref := range st.pool {
		ids = appendID(ids, ref)
	}
	return g.window.load(g.ctx, ids, nil)
}

// compactionParts makes the one part of a summary.
func (g *Guide) compactionParts(u *unit) ([]builtPart, error) {
	c := u.compaction
	texts, err := g.readAside(u.run, spans.ListSummary, c.Summary)
	if err != nil {
		return nil, err
	}
	summary := ""
	for i, in := range texts {
		if i > 0 {
			summary += "\n"
		}
		summary += summaryText(in)
	}
	tail := null
	if id := g.tailStart(c); id != "" {
		tail = quote(id)
	}
	var auto *bool
	if c.Trigger != "" {
		auto = new(c.Trigger != "manual" && c.Trigger != "user")
	}
	data := fields("summary", &summary, "tail_start_id", tail, "auto", auto, "summary_tokens", c.OutputTokens)
	part := builtPart{typ: "data-compaction", data: dataPart("compaction", data), created: u.at, updated: u.at}
	return []builtPart{part}, nil
}

// summaryText returns the text of a summary, which is a JSON string or a message.
func summaryText(in body) string {
	if s, ok := text(in.body); ok {
		return s
	}
	m := readMessage(string(in.body))
	out := ""
	for _, p := range m.parts {
		if p.kind == partText {
			out += p.text
		}
	}
	if out == "" {
		return string(in.body)
	}
	return out
}

// tailStart returns the id of the first row that a compaction left in the model's context, empty where that is not
// known.
func (g *Guide) tailStart(c *session.Compaction) string {
	for _, ref := range c.After.Items() {
		same := func(o session.Ref) bool { return g.same(o) == g.same(ref) }
		for i := range g.units {
			u := &g.units[i]
			has := func(st step) bool {
				if st.lone != nil {
					return same(*st.lone)
				}
				return slices.ContainsFunc(g.runs[u.run].turns[st.turn].Output.Items(), same)
			}
			if u.kind == unitMessage && same(u.ref) || slices.ContainsFunc(u.steps, has) {
				return u.id
			}
		}
	}
	return ""
}
