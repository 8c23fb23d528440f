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
	measured               bool   // metrics are taken
	agent, provider, model string // labels
	// What it had so far, whatever was sampled.
	turns, calls, tools atomic.Int64
}

// measures decides whether metrics are taken of o, and keeps the labels that all its samples share.
func (o *origin) measures(ctx context.Context, info *RunInfo) {
	if info.Copied || !o.tracer.metrics.enabled(ctx, o.recording) {
		return
	}
	o.measured = true
	o.agent, o.provider, o.model = info.Agent, info.Provider, info.Model
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
			m.sample(ctx, n.name, float64(n.n))
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
	m.sample(context.Background(), spans.MetricDropped, 1, spans.DroppedKindKeyKey.String(string(kind)))
}

// measureActive changes the number of active runs.
func (r *Run) measureActive(by float64) {
	if !r.measured {
		return
	}
	r.tracer.metrics.sample(&r.scope, spans.MetricRunActive, by, spans.AgentNameKey.String(r.agent),
		spans.RequestModelKey.String(r.tally.model))
}

// measureEnd takes the samples of a run that ended. A vetoed run never began: only its turns are counted.
func (r *Run) measureEnd(status spans.RunStatus, failed spans.ErrorType, end Moment, known spans.Known) {
	m := r.tracer.metrics
	labels := []attribute.KeyValue{
		spans.AgentNameKey.String(r.agent), spans.RequestModelKey.String(r.tally.model),
		spans.RunStatusKeyKey.String(string(status)), spans.ErrorTypeKeyKey.String(string(failed)),
	}
	sample := func(name string, n float64) { m.sample(&r.scope, name, n, labels...) }
	r.measureActive(-1)
	sample(spans.MetricRunTurns, float64(r.tally.turns.Load()))
	if status == spans.RunStatusVetoed {
		return
	}
	sample(spans.MetricAgentInferenceCalls, float64(r.tally.calls.Load()))
	sample(spans.MetricAgentToolCalls, float64(r.tally.tools.Load()))
	if s, ok := r.lasted(end, known); ok && !r.inferred {
		sample(spans.MetricAgentDuration, s)
	}
}

// measureStart counts a turn that started, and keeps the labels of its samples.
func (t *Turn) measureStart(info *TurnInfo) {
	if !t.measured {
		return
	}
	t.tally.turns.Add(1)
	t.tally.calls.Add(1)
	t.provider, t.model = cmp.Or(info.Provider, t.tally.provider), cmp.Or(info.Model, t.tally.model)
}

// tokenClasses are in the order of normalUsage.
var tokenClasses = [5]spans.TokenClass{spans.TokenClassInput, spans.TokenClassOutput, spans.TokenClassReasoning,
	spans.TokenClassCacheRead, spans.TokenClassCacheWrite}

// usageMetrics are the counters of tokens, in the order of normalUsage.
var usageMetrics = [5]string{spans.MetricInferenceUsageInput, spans.MetricInferenceUsageOutput,
	spans.MetricInferenceUsageReasoning, spans.MetricInferenceUsageCacheRead, spans.MetricInferenceUsageCacheWrite}

// measureEnd takes the samples of a turn that ended.
func (t *Turn) measureEnd(res *TurnResult, failed spans.ErrorType, end Moment, known spans.Known) {
	m := t.tracer.metrics
	labels := []attribute.KeyValue{
		spans.OperationNameKey.String(operationTurn), spans.ProviderNameKey.String(cmp.Or(res.Provider, t.provider)),
		spans.RequestModelKey.String(t.model),
		spans.ResponseModelKey.String(res.Model), spans.AgentNameKey.String(t.agent),
		spans.ErrorTypeKeyKey.String(string(failed)),
		spans.TokenModalityKeyKey.String(string(spans.TokenModalityUnknown)),
	}
	sample := func(name string, n float64, more ...attribute.KeyValue) {
		m.sample(&t.scope, name, n, append(labels[:len(labels):len(labels)], more...)...)
	}
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
	} else if failed != "" {
		sample(spans.MetricInferenceInput, 0)
		sample(spans.MetricInferenceOutput, 0)
	}
	if res.Cost != nil {
		sample(spans.MetricTurnCost, *res.Cost, spans.TurnCostCurrencyKey.String(res.Currency))
	}
}

// measureEnd takes the samples of a tool call that ended. It has no outcome where no end was seen. Only a call that ran
// has a duration.
func (t *Tool) measureEnd(outcome spans.Outcome, failed spans.ErrorType, end Moment, known spans.Known) {
	m := t.tracer.metrics
	labels := []attribute.KeyValue{
		spans.ToolNameKey.String(t.name), spans.ToolTypeKey.String(t.kind), spans.AgentNameKey.String(t.agent),
		spans.ToolOutcomeKey.String(string(outcome)), spans.ErrorTypeKeyKey.String(string(failed)),
	}
	m.sample(&t.scope, spans.MetricToolCalls, 1, labels...)
	if s, ok := t.lasted(end, known); ok && outcome != spans.OutcomeDenied && outcome != spans.OutcomeSkipped {
		m.sample(&t.scope, spans.MetricToolDuration, s, labels...)
	}
}

// measureEnd takes the samples of a compaction that ended, unless it was refused.
func (c *Compacting) measureEnd(res *CompactionResult) {
	if res.Applied != nil && !*res.Applied {
		return
	}
	m := c.tracer.metrics
	labels := []attribute.KeyValue{
		spans.CompactionKindKeyKey.String(c.kind),
		spans.CompactionTriggerKey.String(c.trigger), spans.AgentNameKey.String(c.agent),
	}
	m.sample(&c.scope, spans.MetricCompactions, 1, labels...)
	input := res.InputTokens
	if input == nil {
		input = c.inputTokens
	}
	if input != nil {
		m.sample(&c.scope, spans.MetricCompactionInput, float64(*input), labels...)
	}
	if res.OutputTokens != nil {
		m.sample(&c.scope, spans.MetricCompactionOutput, float64(*res.OutputTokens), labels...)
	}
}

// permission takes the samples of an evaluation.
func (m *metrics) permission(ctx context.Context, e *PermissionEvaluation) {
	labels := []attribute.KeyValue{
		spans.PermissionActionKey.String(string(e.Action)),
		spans.PermissionSourceKeyKey.String(string(e.Source)), spans.ToolNameKey.String(e.Tool),
	}
	m.sample(ctx, spans.MetricPermissionEvaluations, 1, labels...)
	if e.Wait > 0 {
		m.sample(ctx, spans.MetricPermissionWaiting, e.Wait.Seconds(), labels...)
	}
}
