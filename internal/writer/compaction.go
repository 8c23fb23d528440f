package writer

import (
	"cmp"
	"context"

	"github.com/otelagent/otelagent/spans"
)

// Compacting is one open compaction: a compaction.run span. The nil Compacting does nothing. Safe for concurrent use.
type Compacting struct {
	handle
	kind string
	// For its metrics and its preview.
	messagesBefore, inputTokens *int64
}

// node is as that of [Handle].
func (c *Compacting) node() *handle {
	if c == nil {
		return nil
	}
	return &c.handle
}

// StartCompaction starts a compaction in the turn and returns a context for what it does. An empty kind is summary.
func (t *Turn) StartCompaction(ctx context.Context, c Compaction) (context.Context, *Compacting) {
	return t.node().startCompaction(ctx, &c)
}

// StartCompaction starts a compaction that belongs to no turn; see [Turn.StartCompaction].
func (r *Run) StartCompaction(ctx context.Context, c Compaction) (context.Context, *Compacting) {
	return r.node().startCompaction(ctx, &c)
}

func (h *handle) startCompaction(ctx context.Context, info *Compaction) (context.Context, *Compacting) {
	if h == nil {
		return ctx, nil
	}
	c := &Compacting{messagesBefore: info.MessagesBefore, inputTokens: info.InputTokens}
	c.kind = cleanName(string(cmp.Or(info.Kind, spans.CompactionKindSummary)))
	a := h.attrs()
	a.detail[0] = c.kind
	// Its start is part of its address, so it must be the one of the span.
	at := info.Start.now()
	start := startText(at.Time)
	a.kv = append(a.kv, spans.CompactionKindKeyKey.String(c.kind))
	a.name(spans.CompactionTriggerKey, info.Trigger)
	a.known(spans.CompactionMessagesBeforeKey, info.MessagesBefore)
	a.known(spans.CompactionInputTokensKey, info.InputTokens)
	run := &h.scope.run.handle
	n := run.ordinal(&h.scope.run.compactions, c.kind+" "+start, a)
	h.child(ctx, &c.handle, &kindCompaction, at, a, seed{call: c.kind, ordinal: n, at: start})
	c.changed(0)
	return &c.scope, c
}

// End ends the compaction, once; later calls do nothing.
func (c *Compacting) End(res CompactionResult) {
	if c == nil || !c.ends() {
		return
	}
	a := endAttrs(c.origin, 24)
	if c.recording && !res.End.Closed {
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
		a.ids(spans.CompactionRemovedKey, res.Removed)
		a.flag(spans.CompactionAppliedKey, res.Applied)
		a.name(spans.CompactionCategoryKey, res.Category)
		a.id(spans.CompactionTargetKey, res.Target)
		a.text(spans.CompactionReasonKey, res.Reason)
		if c.capturing() {
			c.compactionView(&res, c.content.addBody(c.origin, spans.ListSummary, res.Summary), &a)
			c.content.setMessages(c.origin, spans.ListBefore, res.Before)
			c.content.setMessages(c.origin, spans.ListAfter, res.After)
		}
	}
	if c.finish(res.End, &a, ""); c.measured && !res.End.Closed {
		c.measureEnd(&res)
	}
}
