package writer

import (
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
	m := o.tracer.metrics
	if info.Copied || !m.enabled(ctx, o.recording) {
		return
	}
	f := &o.tally
	f.measured = true
	f.agent = m.values.bound(spans.AgentNameKey, info.Agent)
	f.provider = m.values.bound(spans.ProviderNameKey, info.Provider)
	f.model = m.values.bound(spans.RequestModelKey, info.Model)
}

// label returns a label of a sample, with the value that is recorded for it.
func (m *metrics) label(key attribute.Key, value string) attribute.KeyValue {
	return key.String(m.values.bound(key, value))
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

// measureStart counts a run that started.
func (r *Run) measureStart() {
	if r.measured {
		r.measureActive(1)
	}
}

// measureActive changes the number of active runs.
func (r *Run) measureActive(by float64) {
	r.tracer.metrics.sample(&r.scope, spans.MetricRunActive, by, spans.AgentNameKey.String(r.agent),
		spans.RequestModelKey.String(r.tally.model))
}

// measureEnd takes the samples of a run that ended. A vetoed run never began: only its turns are counted.
func (r *Run) measureEnd(status spans.RunStatus, failed spans.ErrorType, end Moment, known spans.Known) {
	m := r.tracer.metrics
	labels := []attribute.KeyValue{
		spans.AgentNameKey.String(r.agent), spans.RequestModelKey.String(r.tally.model),
		m.label(spans.RunStatusKeyKey, string(status)), spans.ErrorTypeKeyKey.String(string(failed)),
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
	m := t.tracer.metrics
	t.provider, t.model = t.tally.provider, t.tally.model
	if info.Provider != "" {
		t.provider = m.values.bound(spans.ProviderNameKey, info.Provider)
	}
	if info.Model != "" {
		t.model = m.values.bound(spans.RequestModelKey, info.Model)
	}
}

// tokenClasses are in the order of normalUsage.
var tokenClasses = [5]spans.TokenClass{spans.TokenClassInput, spans.TokenClassOutput, spans.TokenClassReasoning,
	spans.TokenClassCacheRead,
	spans.TokenClassCacheWrite}

// usageMetrics are the counters of tokens, in the order of normalUsage.
var usageMetrics = [5]string{spans.MetricInferenceUsageInput, spans.MetricInferenceUsageOutput,
	spans.MetricInferenceUsageReasoning,
	spans.MetricInferenceUsageCacheRead, spans.MetricInferenceUsageCacheWrite}

// measureEnd takes the samples of a turn that ended.
func (t *Turn) measureEnd(res *TurnResult, failed spans.ErrorType, end Moment, known spans.Known) {
	m, provider := t.tracer.metrics, t.provider
	if res.Provider != "" {
		provider = m.values.bound(spans.ProviderNameKey, res.Provider)
	}
	labels := []attribute.KeyValue{
		spans.OperationNameKey.String(operationTurn), spans.ProviderNameKey.String(provider),
		spans.RequestModelKey.String(t.model),
		m.label(spans.ResponseModelKey, res.Model), spans.AgentNameKey.String(t.agent),
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
		u := res.Usage.normal()
		for i, n := range [...]int64{u.input, u.output, u.reasoning, u.cacheRead, u.cacheWrite} {
			sample(spans.MetricTurnTokens, float64(n), spans.TokenClassKeyKey.String(string(tokenClasses[i])))
			sample(usageMetrics[i], float64(n))
		}
		sample(spans.MetricTokenUsage, float64(u.input), spans.TokenTypeKeyKey.String(string(spans.TokenTypeInput)))
		sample(spans.MetricTokenUsage, float64(u.output), spans.TokenTypeKeyKey.String(string(spans.TokenTypeOutput)))
		sample(spans.MetricInferenceInput, float64(u.input))
		sample(spans.MetricInferenceOutput, float64(u.output))
	} else if failed != "" {
		sample(spans.MetricInferenceInput, 0)
		sample(spans.MetricInferenceOutput, 0)
	}
	if res.Cost != nil {
		sample(spans.MetricTurnCost, *res.Cost, m.label(spans.TurnCostCurrencyKey, res.Currency))
	}
}

// measureEnd takes the samples of a tool call that ended. It has no outcome where no end was seen. Only a call that ran
// has a duration.
func (t *Tool) measureEnd(outcome spans.Outcome, failed spans.ErrorType, end Moment, known spans.Known) {
	m := t.tracer.metrics
	labels := []attribute.KeyValue{
		m.label(spans.ToolNameKey, t.name), m.label(spans.ToolTypeKey, t.kind), spans.AgentNameKey.String(t.agent),
		m.label(spans.ToolOutcomeKey, string(outcome)), spans.ErrorTypeKeyKey.String(string(failed)),
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
		m.label(spans.CompactionKindKeyKey, c.kind),
		m.label(spans.CompactionTriggerKey, c.trigger), spans.AgentNameKey.String(c.agent),
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
		m.label(spans.PermissionActionKey, string(e.Action)),
		m.label(spans.PermissionSourceKeyKey, string(e.Source)), m.label(spans.ToolNameKey, e.Tool),
	}
	m.sample(ctx, spans.MetricPermissionEvaluations, 1, labels...)
	if e.Wait > 0 {
		m.sample(ctx, spans.MetricPermissionWaiting, e.Wait.Seconds(), labels...)
	}
}
