package writer

import (
	"cmp"
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// tally is what a run keeps for its metrics.
type tally struct {
	measured bool // metrics are taken
	// What it had so far, whatever was sampled.
	turns, calls, tools atomic.Int64
}

// maxAttemptNumber is the highest number of an attempt that is counted.
const maxAttemptNumber = 1e6

// lasted returns how long h lasted, in seconds; false where its start or end is not known, or the end is before the
// start.
func (h *handle) lasted(end Moment, known spans.Known) (seconds float64, ok bool) {
	if known == spans.KnownClosed || h.vague || end.Source == spans.TimeSourceBound {
		return 0, false
	}
	d := end.Time.Sub(h.since)
	return d.Seconds(), d >= 0
}

// measureContent counts the content of a span that ended.
func (h *handle) measureContent() {
	c := &h.content
	if !h.measured || c.bytes == 0 && c.known == 0 && c.kept == 0 {
		return
	}
	m, ctx := h.tracer.metrics, trace.ContextWithSpan(context.Background(), h.span)
	for _, n := range [...]struct {
		name string
		n    int64
	}{{spans.MetricCaptureNew, int64(c.bytes)}, {spans.MetricCaptureKnown, c.known},
		{spans.MetricCaptureWithheldBodies, c.kept}} {
		if n.n > 0 {
			m.sample(ctx, n.name, float64(n.n), nil)
		}
	}
}

// drop counts something of o that is not kept.
func (o *origin) drop(kind spans.DroppedKind) {
	if o.measured {
		o.tracer.metrics.dropped(kind)
	}
}

func (m *metrics) dropped(kind spans.DroppedKind) {
	m.sample(context.Background(), spans.MetricDropped, 1, nil, spans.DroppedKindKeyKey.String(string(kind)))
}

// labelled keeps those of the attributes that are labels of a metric. Of a key that comes again the last counts.
func (h *handle) labelled(kv ...attribute.KeyValue) {
	if !h.measured {
		return
	}
	if h.labels == nil {
		h.labels = make([]attribute.KeyValue, 0, 12)
	}
	for _, kv := range kv {
		if h.tracer.metrics.keys[kv.Key] {
			h.labels = append(h.labels, kv)
		}
	}
}

// sample records n under the labels of h and more.
func (h *handle) sample(ctx context.Context, name string, n float64, more ...attribute.KeyValue) {
	h.tracer.metrics.sample(ctx, name, n, h.labels, more...)
}

// measureEnd takes the samples of a run that ended. A vetoed run never began: only its turns are counted.
func (r *Run) measureEnd(status spans.RunStatus, end Moment, known spans.Known) {
	r.sample(&r.scope, spans.MetricRunActive, -1)
	r.sample(&r.scope, spans.MetricRunTurns, float64(r.tally.turns.Load()))
	if status == spans.RunStatusVetoed {
		return
	}
	r.sample(&r.scope, spans.MetricAgentInferenceCalls, float64(r.tally.calls.Load()))
	r.sample(&r.scope, spans.MetricAgentToolCalls, float64(r.tally.tools.Load()))
	if s, ok := r.lasted(end, known); ok && !r.inferred {
		r.sample(&r.scope, spans.MetricAgentDuration, s)
	}
}

// tokenClasses are in the order of normalUsage.
var tokenClasses = [5]spans.TokenClass{spans.TokenClassInput, spans.TokenClassOutput, spans.TokenClassReasoning,
	spans.TokenClassCacheRead, spans.TokenClassCacheWrite}

// usageMetrics are the counters of tokens, in the order of normalUsage.
var usageMetrics = [5]string{spans.MetricInferenceUsageInput, spans.MetricInferenceUsageOutput,
	spans.MetricInferenceUsageReasoning, spans.MetricInferenceUsageCacheRead, spans.MetricInferenceUsageCacheWrite}

// measureEnd takes the samples of a turn that ended.
func (t *Turn) measureEnd(res *TurnResult, failed bool, end Moment, known spans.Known) {
	t.labels = append(t.labels, spans.RequestModelKey.String(t.model),
		spans.TokenModalityKeyKey.String(string(spans.TokenModalityUnknown)))
	sample := func(name string, n float64, more ...attribute.KeyValue) { t.sample(&t.scope, name, n, more...) }
	if s, ok := t.lasted(end, known); ok {
		sample(spans.MetricTurnDuration, s)
	}
	if s := t.called.Seconds(); s > 0 {
		sample(spans.MetricOperationDuration, s)
		sample(spans.MetricInferenceDuration, s)
	}
	if s := res.FirstChunk.Seconds(); s > 0 {
		sample(spans.MetricOperationFirstChunk, s)
		sample(spans.MetricInferenceFirstChunk, s)
	}
	if n := t.attempts - 1; n > 0 && n < maxAttemptNumber {
		sample(spans.MetricTurnRetries, float64(n))
	}
	if res.Usage != nil {
		u := normalised(res.Usage).counts
		for i, n := range u {
			if i < 2 || n > 0 { // as on the span: a count of 0 of the other classes is not there
				sample(spans.MetricTurnTokens, float64(n), spans.TokenClassKeyKey.String(string(tokenClasses[i])))
			}
			sample(usageMetrics[i], float64(n))
		}
		sample(spans.MetricTokenUsage, float64(u[0]), spans.TokenTypeKeyKey.String(string(spans.TokenTypeInput)))
		sample(spans.MetricTokenUsage, float64(u[1]), spans.TokenTypeKeyKey.String(string(spans.TokenTypeOutput)))
		sample(spans.MetricInferenceInput, float64(u[0]))
		sample(spans.MetricInferenceOutput, float64(u[1]))
	} else if failed {
		sample(spans.MetricInferenceInput, 0)
		sample(spans.MetricInferenceOutput, 0)
	}
	if res.Cost != nil {
		sample(spans.MetricTurnCost, *res.Cost, spans.TurnCostCurrencyKey.String(res.Currency))
	}
}

// measureEnd takes the samples of a tool call that ended. Only a call that ran has a duration.
func (t *Tool) measureEnd(outcome spans.Outcome, end Moment, known spans.Known) {
	t.sample(&t.scope, spans.MetricToolCalls, 1)
	if s, ok := t.lasted(end, known); ok && outcome != spans.OutcomeDenied && outcome != spans.OutcomeSkipped {
		t.sample(&t.scope, spans.MetricToolDuration, s)
	}
}

// measureEnd takes the samples of a compaction that ended, unless it was refused.
func (c *Compacting) measureEnd(res *CompactionResult) {
	if res.Applied != nil && !*res.Applied {
		return
	}
	c.sample(&c.scope, spans.MetricCompactions, 1)
	if input := cmp.Or(res.InputTokens, c.inputTokens); input != nil {
		c.sample(&c.scope, spans.MetricCompactionInput, float64(*input))
	}
	if res.OutputTokens != nil {
		c.sample(&c.scope, spans.MetricCompactionOutput, float64(*res.OutputTokens))
	}
}

// measureDecision takes the samples of an evaluation.
func (h *handle) measureDecision(ctx context.Context, e *PermissionEvaluation) {
	decision := []attribute.KeyValue{spans.PermissionActionKey.String(string(e.Action)),
		spans.PermissionSourceKeyKey.String(string(e.Source))}
	h.sample(ctx, spans.MetricPermissionEvaluations, 1, decision...)
	if e.Wait > 0 {
		h.sample(ctx, spans.MetricPermissionWaiting, e.Wait.Seconds(), decision...)
	}
}
