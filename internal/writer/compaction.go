package writer

import (
	"context"

	"github.com/otelagent/otelagent/spans"
)

// maxIDList is the number of ids kept in an attribute that lists them.
const maxIDList = 1024

// Compacting is one open compaction: a compaction.run span. The nil Compacting does nothing. Safe for concurrent use.
type Compacting struct {
	handle
	scope scope
	kind  string
	// For its metrics and its preview.
	messagesBefore, inputTokens *int64
}

// StartCompaction starts a compaction in the turn and returns a context for what it does. An empty kind is summary.
func (t *Turn) StartCompaction(ctx context.Context, c Compaction) (context.Context, *Compacting) {
	if t == nil {
		return ctx, nil
	}
	return t.place().startCompaction(ctx, &c)
}

// StartCompaction starts a compaction that belongs to no turn; see [Turn.StartCompaction].
func (r *Run) StartCompaction(ctx context.Context, c Compaction) (context.Context, *Compacting) {
	if r == nil || r.off {
		return ctx, nil
	}
	return r.place().startCompaction(ctx, &c)
}

func (p place) startCompaction(ctx context.Context, c *Compaction) (context.Context, *Compacting) {
	h := &Compacting{kind: cleanName(string(c.Kind)), messagesBefore: c.MessagesBefore, inputTokens: c.InputTokens}
	if h.kind == "" {
		h.kind = string(spans.CompactionKindSummary)
	}
	a := startAttrs(p.origin)
	a.detail[0] = h.kind
	p.under(&h.handle, a)
	// Its start is part of its address, so it must be the one of the span.
	at := c.Start.now()
	start := startText(at.Time)
	a.kv = append(a.kv, spans.CompactionKindKeyKey.String(h.kind))
	a.name(spans.CompactionTriggerKey, c.Trigger)
	a.known(spans.CompactionMessagesBeforeKey, c.MessagesBefore)
	a.known(spans.CompactionInputTokensKey, c.InputTokens)
	p.run.mu.Lock()
	n := p.run.compactions.next(h.kind + " " + start)
	p.run.mu.Unlock()
	a.count(spans.OrdinalKey, n)
	ctx = h.begin(ctx, p.handle, &kindCompaction, at, a, seed{turn: p.turn, call: h.kind, ordinal: n, at: start})
	p.started(&h.handle, &p.counts.compactions)
	h.scope = scope{Context: ctx, span: &h.handle, run: p.run, turn: turnOf(ctx, p.run)}
	h.opened(nil, nil)
	return &h.scope, h
}

// Note records an event of the compaction that has no field of its own; see [Run.Note].
func (c *Compacting) Note(typ string, body []byte, at Moment) {
	if c != nil {
		c.note(typ, body, at)
	}
}

// End ends the compaction, once; later calls do nothing.
func (c *Compacting) End(res CompactionResult) {
	if c == nil {
		return
	}
	a := endAttrs(c.origin, 24)
	if c.recording {
		a.known(spans.CompactionMessagesBeforeKey, res.MessagesBefore)
		a.known(spans.CompactionMessagesAfterKey, res.MessagesAfter)
		a.known(spans.CompactionMessagesSummarizedKey, res.MessagesSummarized)
		a.known(spans.CompactionInputTokensKey, res.InputTokens)
		a.known(spans.CompactionOutputTokensKey, res.OutputTokens)
		a.known(spans.CompactionRemovedTokensKey, res.TokensGone)
		a.known(spans.CompactionRunsKey, res.Runs)
		if res.Usage != nil {
			a.normalUsage(normalised(res.Usage), &compactionUsageKeys)
		}
		if res.Cost != nil {
			a.kv = append(a.kv, spans.CompactionCostKey.Float64(*res.Cost))
			a.name(spans.CompactionCostCurrencyKey, res.Currency)
		}
		a.ids(spans.CompactionRemovedKey, res.Removed, maxIDList)
		a.flag(spans.CompactionAppliedKey, res.Applied)
		a.name(spans.CompactionCategoryKey, res.Category)
		a.id(spans.CompactionTargetKey, res.Target)
		a.text(spans.CompactionReasonKey, res.Reason)
		c.compactionView(&res, &a)
		c.keep(&res)
	}
	if _, measure := c.finish(res.End, spans.KnownObserved, &a, ""); measure {
		c.measureEnd(&res)
	}
}

// keep takes the content of the result.
func (c *Compacting) keep(res *CompactionResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || !c.capturing() {
		return
	}
	c.content.addBody(c.origin, spans.ListSummary, res.Summary)
	if res.Before != nil {
		c.content.setMessages(c.origin, spans.ListBefore, res.Before)
	}
	if res.After != nil {
		c.content.setMessages(c.origin, spans.ListAfter, res.After)
	}
}

// Close ends the compaction at the last time seen, because no end was reported. Later calls do nothing.
func (c *Compacting) Close(at Moment) {
	if c == nil {
		return
	}
	a := endAttrs(c.origin, 4)
	c.finish(at, spans.KnownClosed, &a, "")
}
