package writer

import (
	"cmp"
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"

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

// sampleTime records how long h lasted, in seconds, where its start and end are known and in their order.
func (h *handle) sampleTime(name string, end Moment) {
	if end.Closed || h.vague || end.Source == spans.TimeSourceBound {
		return
	}
	if d := end.Time.Sub(h.since); d >= 0 {
		h.sample(name, d.Seconds())
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
func (h *handle) sample(name string, n float64, more ...attribute.KeyValue) {
	h.tracer.metrics.sample(&h.scope, name, n, h.labels, more...)
}

// positive is sample of what is more than 0.
func (h *handle) positive(name string, n float64, more ...attribute.KeyValue) {
	if n > 0 {
		h.sample(name, n, more...)
	}
}

// measureEnd takes the samples of a run that ended. A vetoed run never began: only its turns are counted.
func (r *Run) measureEnd(status spans.RunStatus, end Moment) {
	r.sample(spans.MetricRunActive, -1)
	r.sample(spans.MetricRunTurns, float64(r.tally.turns.Load()))
	if status == spans.RunStatusVetoed {
		return
	}
	r.sample(spans.MetricAgentInferenceCalls, float64(r.calls.Load()))
	r.sample(spans.MetricAgentToolCalls, float64(r.tally.tools.Load()))
	r.sampleTime(spans.MetricAgentDuration, end)
}

// usageMetrics are the classes of tokens and their counters, in the order of normalUsage.
var usageMetrics = [5]struct {
	class spans.TokenClass
	name  string
}{
	{spans.TokenClassInput, spans.MetricInferenceUsageInput},
	{spans.TokenClassOutput, spans.MetricInferenceUsageOutput},
	{spans.TokenClassReasoning, spans.MetricInferenceUsageReasoning},
	{spans.TokenClassCacheRead, spans.MetricInferenceUsageCacheRead},
	{spans.TokenClassCacheWrite, spans.MetricInferenceUsageCacheWrite},
}

// measureEnd takes the samples of a turn that ended.
func (t *Turn) measureEnd(res *TurnResult, failed bool, end Moment) {
	t.labels = append(t.labels, spans.RequestModelKey.String(t.model),
		spans.TokenModalityKeyKey.String(string(spans.TokenModalityUnknown)))
	t.sampleTime(spans.MetricTurnDuration, end)
	t.positive(spans.MetricOperationDuration, t.called.Seconds())
	t.positive(spans.MetricInferenceDuration, t.called.Seconds())
	t.positive(spans.MetricOperationFirstChunk, res.FirstChunk.Seconds())
	t.positive(spans.MetricInferenceFirstChunk, res.FirstChunk.Seconds())
	if t.attempts <= maxAttemptNumber {
		t.positive(spans.MetricTurnRetries, float64(t.attempts-1))
	}
	if res.Usage != nil {
		u := normalised(res.Usage).counts
		for i, n := range u {
			if m := usageMetrics[i]; i < 2 || n > 0 { // as on the span: a count of 0 of the other classes is not there
				t.sample(spans.MetricTurnTokens, float64(n), spans.TokenClassKeyKey.String(string(m.class)))
			}
			t.sample(usageMetrics[i].name, float64(n))
		}
		t.sample(spans.MetricTokenUsage, float64(u[0]), spans.TokenTypeKeyKey.String(string(spans.TokenTypeInput)))
		t.sample(spans.MetricTokenUsage, float64(u[1]), spans.TokenTypeKeyKey.String(string(spans.TokenTypeOutput)))
		t.sample(spans.MetricInferenceInput, float64(u[0]))
		t.sample(spans.MetricInferenceOutput, float64(u[1]))
	} else if failed {
		t.sample(spans.MetricInferenceInput, 0)
		t.sample(spans.MetricInferenceOutput, 0)
	}
	if res.Cost != nil {
		t.sample(spans.MetricTurnCost, *res.Cost, spans.TurnCostCurrencyKey.String(res.Currency))
	}
}

// measureEnd takes the samples of a tool call that ended. Only a call that ran has a duration.
func (t *Tool) measureEnd(outcome spans.Outcome, end Moment) {
	t.sample(spans.MetricToolCalls, 1)
	if outcome != spans.OutcomeDenied && outcome != spans.OutcomeSkipped {
		t.sampleTime(spans.MetricToolDuration, end)
	}
}

// measureEnd takes the samples of a compaction that ended, unless it was refused.
func (c *Compacting) measureEnd(res *CompactionResult) {
	if res.Applied != nil && !*res.Applied {
		return
	}
	c.sample(spans.MetricCompactions, 1)
	if input := cmp.Or(res.InputTokens, c.inputTokens); input != nil {
		c.sample(spans.MetricCompactionInput, float64(*input))
	}
	if res.OutputTokens != nil {
		c.sample(spans.MetricCompactionOutput, float64(*res.OutputTokens))
	}
}
