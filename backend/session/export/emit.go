package export

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// extensionKey is the one key of ours in metadata_json.
const extensionKey = "otelagent"

// rowFormat is the version of what stands under extensionKey.
const rowFormat = 1

// cells are what CSV says of a row beside its columns.
type cells struct {
	model    string
	call     *session.ToolCall
	usage    *session.Usage
	cost     *float64
	currency string
}

// Rows yields the rows: the session, then each message followed by its parts, then, unless Options.Strict, what else there is. It may be
// called several times, one after the other. A row is valid until the next one. An error is the last: of bodies, or of ctx.
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
	switch u.kind {
	case unitMessage:
		if m.MetadataJSON, err = g.messageMeta(u); err == nil {
			parts, err = g.messageParts(i)
		}
	case unitCompaction:
		if m.MetadataJSON, err = g.compactionMeta(u); err == nil {
			parts, err = g.compactionParts(u)
		}
	case unitReply:
		p := g.runs[u.run]
		for k := range u.steps {
			if st := &u.steps[k]; st.lone == nil {
				t := p.turns[st.turn]
				m.UpdatedAt = max(m.UpdatedAt, latest(t.Start, t.End).UnixMilli())
			}
		}
		m.MetadataJSON, err = g.replyMeta(u)
		if u.full && p.rest != (session.Usage{}) && !u.run.Copied {
			c.usage = &p.rest
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

// steps puts the parts of a reply. rest is what its run used beside its turns; it stands on the first part that has no usage of its own,
// so that nothing is added up before it is written.
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
				if told(t) {
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
		MessageID: w.m.ID, SessionID: g.s.ID, Index: w.index, Type: p.typ, DataJSON: string(p.data), CreatedAt: p.created, UpdatedAt: p.updated,
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
	err := g.window.load(g.ctx, appendID(nil, u.ref), func(ids []spans.ShortID) []spans.ShortID {
		for j := i + 1; j < len(g.units) && len(ids) < aheadMost; j++ {
			switch next := &g.units[j]; next.kind {
			case unitMessage:
				ids = appendID(ids, next.ref)
			case unitReply:
				for k := range next.steps {
					if len(ids) < aheadMost && next.steps[k].lone == nil {
						ids = g.runs[next.run].appendTurn(ids, next.steps[k].turn)
					}
				}
			}
		}
		return ids
	})
	if err != nil {
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
	var data object
	data.str("summary", summary)
	if id := g.tailStart(c); id != "" {
		data.str("tail_start_id", id)
	} else {
		data.raw("tail_start_id", null)
	}
	if c.Trigger != "" {
		data.bool("auto", c.Trigger != "manual" && c.Trigger != "user")
	}
	if c.OutputTokens != nil {
		data.int("summary_tokens", *c.OutputTokens)
	}
	return []builtPart{{typ: "data-compaction", data: dataPart("compaction", data.bytes()), created: u.at, updated: u.at}}, nil
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

// tailStart returns the id of the first row that a compaction left in the model's context, empty where that is not known.
func (g *Guide) tailStart(c *session.Compaction) string {
	for _, ref := range c.After.Items() {
		for i := range g.units {
			u := &g.units[i]
			if u.kind == unitMessage && g.same(u.ref) == g.same(ref) {
				return u.id
			}
			for k := range u.steps {
				st := &u.steps[k]
				if st.lone != nil && g.same(*st.lone) == g.same(ref) {
					return u.id
				}
				if st.lone == nil && slices.ContainsFunc(g.runs[u.run].turns[st.turn].Output.Items(), func(o session.Ref) bool { return g.same(o) == g.same(ref) }) {
					return u.id
				}
			}
		}
	}
	return ""
}

// guideUsage returns usage as the guide has it: input without what was cached, output without reasoning, so that the five add up.
func guideUsage(u session.Usage) session.Usage {
	u.Input = max(0, u.Input-u.CacheRead-u.CacheWrite)
	u.Output = max(0, u.Output-u.Reasoning)
	return u
}

func usageObject(u session.Usage) []byte {
	var o object
	o.int("input", u.Input)
	o.int("output", u.Output)
	o.int("reasoning", u.Reasoning)
	o.int("cache_read", u.CacheRead)
	o.int("cache_write", u.CacheWrite)
	return o.bytes()
}

func modelOf(r *session.Run, t *session.Turn) string {
	return cmp.Or(t.Answered, t.Model, r.Model)
}

// modelObject is the guide's model of a turn, or of a run; nil where nothing is known.
func modelObject(r *session.Run, t *session.Turn) []byte {
	provider, model, variant := r.Provider, r.Model, ""
	if t != nil {
		provider, model, variant = cmp.Or(t.Provider, provider), cmp.Or(t.Model, model, t.Answered), t.Variant
	}
	if provider == "" && model == "" && variant == "" {
		return nil
	}
	var o object
	o.str("provider_id", provider)
	o.str("model_id", model)
	if variant != "" {
		o.str("variant", variant)
	}
	return o.bytes()
}

// messageFacts are keys of a user message's metadata that a fact may state.
var messageFacts = []string{"queued_at", "queue_enqueued_at", "queue_canceled_at", "snapshot_id", "trigger"}

// messageMeta returns the metadata of a message.
func (g *Guide) messageMeta(u *unit) (string, error) {
	var o object
	if u.role == "user" {
		o.int("schema_version", 1)
	}
	if model := modelObject(u.run, u.turn); model != nil {
		o.raw("model", model)
	}
	if len(g.s.Facts) > 0 {
		for _, key := range messageFacts {
			for _, id := range []string{u.id, u.own} {
				if v, err := g.fact(g.s.Fact("message/"+id, key)); err == nil && v != nil {
					o.raw(key, v)
					break
				}
			}
		}
	}
	if u.hidden > 0 {
		o.int("hidden_at", u.hidden)
	}
	return g.withEvents(u, &o)
}

// withEvents adds the events of a row to its metadata, unless the rows are strict.
func (g *Guide) withEvents(u *unit, o *object) (string, error) {
	if !g.opts.Strict {
		events, err := g.eventsOf(u)
		if err != nil {
			return "", err
		}
		o.raw(extensionKey, events)
	}
	return string(o.bytes()), nil
}

func (g *Guide) compactionMeta(u *unit) (string, error) {
	c := u.compaction
	var o object
	if c.OutputTokens != nil {
		var usage object
		usage.int("input", *c.OutputTokens)
		o.raw("usage", usage.bytes())
	}
	o.bool("compaction", true)
	if u.hidden > 0 {
		o.int("hidden_at", u.hidden)
	}
	return g.withEvents(u, &o)
}

func (o *object) notEmpty(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}

// told reports whether the loop said what a turn used.
func told(t *session.Turn) bool { return t.Reported != nil || t.Usage != session.Usage{} }

// replyUsage sums up what a reply used; known is false when nobody said.
func (g *Guide) replyUsage(u *unit) (sum session.Usage, known bool) {
	p := g.runs[u.run]
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil {
			sum.Add(p.turns[st.turn].Usage)
			known = known || told(p.turns[st.turn])
		}
	}
	if u.full {
		sum.Add(p.rest)
		known = known || p.rest != session.Usage{}
	}
	return sum, known
}

// replyMeta returns the metadata of a reply.
func (g *Guide) replyMeta(u *unit) (string, error) {
	p := g.runs[u.run]
	var o object
	if usage, ok := g.replyUsage(u); ok {
		o.raw("usage", usageObject(guideUsage(usage)))
	}
	var last *session.Turn
	digest := ""
	for k := range u.steps {
		st := &u.steps[k]
		if st.lone == nil {
			last = p.turns[st.turn]
			digest = cmp.Or(g.prompts.digestOf(last, spans.ProvenanceSystem), digest)
		}
	}
	if model := modelObject(u.run, last); model != nil {
		o.raw("model", model)
	}
	o.notEmpty("system_prompt_digest", digest)
	if agent := cmp.Or(u.run.Agent, u.run.AgentID); agent != sessionAgent(g.s) {
		o.notEmpty("agent", agent)
	}
	if u.hidden > 0 {
		o.int("hidden_at", u.hidden)
	}
	return g.withEvents(u, &o)
}

func sessionAgent(s *session.Session) string { return cmp.Or(s.Agent, s.AgentID) }

// sessionRow makes the session row.
func (g *Guide) sessionRow() (*SessionRow, error) {
	s := g.s
	row := &SessionRow{
		ID: s.ID, Agent: sessionAgent(s), ModelJSON: "{}", PermissionsJSON: "[]",
		CreatedAt: s.Start.UnixMilli(), UpdatedAt: latest(s.Start, s.Last).UnixMilli(),
	}
	own := false
	for _, r := range s.Runs { // by start
		if !r.Copied && !own {
			own, row.CreatedAt = true, r.Start.UnixMilli()
		}
		if parent := cmp.Or(r.ParentSessionID, r.ForkParentID); parent != "" && parent != s.ID && row.ParentID == nil {
			row.ParentID = &parent
		}
		var t *session.Turn
		if turns := g.runs[r].turns; len(turns) > 0 {
			t = turns[len(turns)-1]
		}
		if model := modelObject(r, t); model != nil {
			row.ModelJSON = string(model)
		}
		if !r.Copied {
			for _, t := range r.Turns {
				if t.Cost != nil && t.Currency == "USD" {
					row.CostUSD += *t.Cost
				}
			}
		}
	}
	context := g.context()
	row.PromptTokens, row.CompletionTokens, row.ReasoningTokens = context.Input, context.Output, context.Reasoning
	row.CacheRead, row.CacheWrite = context.CacheRead, context.CacheWrite
	row.TotalTokens = context.All()
	rules, err := g.rules()
	if err != nil {
		return nil, err
	}
	if rules != nil {
		row.PermissionsJSON = string(rules)
	}
	if at, err := g.sessionTime("archived_at"); err != nil {
		return nil, err
	} else if at > 0 {
		row.ArchivedAt = &at
	}
	row.MetadataJSON = "{}"
	if g.opts.Strict {
		return row, nil
	}
	var x object
	x.int("format", rowFormat)
	x.notEmpty("dialect", s.Dialect)
	x.notEmpty("status", string(s.Status))
	if title, err := g.fact(s.Fact("session", "title")); err != nil {
		return nil, err
	} else if title != nil {
		x.raw("title", title)
	}
	usage := object{buf: slices.Clip(usageObject(s.Usage)[:len(usageObject(s.Usage))-1])}
	if s.Discarded != nil {
		usage.raw("discarded", usageObject(*s.Discarded))
	}
	x.raw("usage", usage.bytes())
	if costs := costsOf(s); len(costs) > 0 {
		var c object
		for _, currency := range slices.Sorted(maps.Keys(costs)) {
			c.raw(currency, number(costs[currency]))
		}
		x.raw("cost", c.bytes())
	}
	var meta object
	meta.raw(extensionKey, x.bytes())
	row.MetadataJSON = string(meta.bytes())
	return row, nil
}

// costsOf returns what the loop says that turns cost, by currency.
func costsOf(s *session.Session) map[string]float64 {
	costs := map[string]float64{}
	for _, r := range s.Runs {
		if r.Copied {
			continue
		}
		for _, t := range r.Turns {
			if t.Cost != nil {
				costs[cmp.Or(t.Currency, "unknown")] += *t.Cost
			}
		}
	}
	return costs
}

func (g *Guide) sessionTime(key string) (int64, error) {
	f := g.s.Fact("session", key)
	v, err := g.fact(f)
	if err != nil || v == nil {
		return 0, err
	}
	return factTime(v, f.At), nil
}

// context sums up what is in the model's context: replies that are not rewound, from where the last summary left off, and that summary.
func (g *Guide) context() session.Usage {
	var summary *unit
	for i := range g.units {
		if u := &g.units[i]; u.kind == unitCompaction && u.hidden == 0 {
			summary = u
		}
	}
	var sum session.Usage
	in := summary == nil
	tail := ""
	if summary != nil {
		tail = g.tailStart(summary.compaction)
	}
	for i := range g.units {
		u := &g.units[i]
		in = in || u.id == tail
		switch {
		case u == summary && u.compaction.OutputTokens != nil:
			sum.Add(session.Usage{Input: *u.compaction.OutputTokens})
		case u.kind != unitReply || u.hidden > 0 || !in && !g.after(u, summary.at):
		default:
			sum.Add(guideUsage(g.visibleUsage(u)))
		}
	}
	return sum
}

// after reports whether a reply went on after a time.
func (g *Guide) after(u *unit, at int64) bool {
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil && latest(g.runs[u.run].turns[st.turn].Start, g.runs[u.run].turns[st.turn].End).UnixMilli() >= at {
			return true
		}
	}
	return false
}

// visibleUsage is replyUsage without turns that a rewind abandoned.
func (g *Guide) visibleUsage(u *unit) session.Usage {
	p := g.runs[u.run]
	var sum session.Usage
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil && st.hidden == 0 {
			sum.Add(p.turns[st.turn].Usage)
		}
	}
	if u.full {
		sum.Add(p.rest)
	}
	return sum
}

// rules returns the rules of the session that are in force at its end; nil where none are known.
func (g *Guide) rules() (json.RawMessage, error) {
	if v, err := g.fact(g.s.Fact("session", "rules")); err != nil || v != nil {
		return sessionRules(v), err
	}
	for _, r := range slices.Backward(g.s.Runs) {
		if v, err := g.runValue(r, spans.ListRules, r.Rules); err != nil || v != nil {
			return sessionRules(v), err
		}
	}
	return nil, nil
}

// runValue returns the one body of a list of a run; nil where it is not there or no JSON.
func (g *Guide) runValue(r *session.Run, name string, refs *session.Refs) (json.RawMessage, error) {
	if refs.Len() != 1 || r.Capture != "" && r.Capture != spans.CaptureContent {
		return nil, nil
	}
	l, err := g.readAside(r, name, refs)
	if err != nil || len(l) == 0 || !json.Valid(l[0].body) {
		return nil, err
	}
	return l[0].body, nil
}

// sessionRules returns those of an array of rules that are the session's own; nil for what is no array.
func sessionRules(raw []byte) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var l array
	for _, rule := range all {
		if source := find(members(rule), "source"); source == nil || string(source) == `"session"` {
			l.raw(rule)
		}
	}
	return l.bytes()
}

// placeKeys are the members of a message that say where it stands, and not what it says. The first five are phi-core's.
var placeKeys = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint", "messageId", "id", "timestamp", "created_at", "createdAt"}

// envelope returns the members of a message that say where it stands, as an object.
func (g *Guide) envelope(u *unit) ([]byte, error) {
	if err := g.window.load(g.ctx, appendID(nil, u.ref), nil); err != nil {
		return nil, err
	}
	body, ok := g.window.set.Body(u.ref)
	if !ok {
		return []byte("{}"), nil
	}
	keys := placeKeys
	if u.run != nil && (u.run.Dialect == "phi-core" || u.run.Dialect == "clark-agent" || u.run.Dialect == "acp") {
		keys = keys[:6] // their messages have a time of their own
	}
	var l []member
	for _, m := range members([]byte(body)) {
		if slices.Contains(keys, m.key) {
			l = append(l, m)
		}
	}
	slices.SortFunc(l, func(a, b member) int { return strings.Compare(a.key, b.key) })
	var o object
	for _, m := range l {
		o.raw(m.key, sorted(m.value))
	}
	return o.bytes(), nil
}
