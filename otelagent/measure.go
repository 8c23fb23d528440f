package otelagent

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// maxSample bounds a sample: more tokens or money than that is nonsense, and sums must not overflow.
const maxSample = 1e12

// What things are alike in, and the labels of their samples. Values are bounded already.
type (
	turnKey struct {
		provider, model, answered, agent string
		failed                           spans.ErrorType
	}
	turnLabels struct {
		typed             [2]labels // of token usage: input, output
		call, chunk       labels
		usage             labels
		inference         labels
		inferenceCall     labels
		inferenceChunk    labels
		classes           [5]labels
		duration, retries labels
	}
	costKey struct{ currency, provider, model, agent string }
	toolKey struct {
		tool, kind, agent, outcome string
		failed                     spans.ErrorType
	}
	toolLabels struct{ duration, calls labels }
	runKey     struct {
		agent, model, status string
		failed               spans.ErrorType
	}
	runLabels        struct{ active, duration, calls, turns labels }
	compactionKey    struct{ kind, trigger, agent string }
	compactionLabels struct{ count, tokens labels }
	permissionKey    struct{ action, source, tool string }
	permissionLabels struct{ count, wait labels }
)

// tally is what a run keeps for its metrics.
type tally struct {
	measured               bool   // metrics are taken
	agent, provider, model string // labels
	// What it had so far, whatever was sampled.
	turns, calls, tools atomic.Int64
}

// measures decides whether metrics are taken of o, and remembers the labels that all its samples share.
func (o *origin) measures(ctx context.Context, info *RunInfo, replayed bool) {
	m := o.tracer.metrics
	if info.Copied || !m.takes(ctx, o.recording, replayed) {
		return
	}
	f := &o.tally
	f.measured = true
	f.agent = m.values.bound(spans.AgentNameKey, info.Agent)
	f.provider = m.values.bound(spans.ProviderNameKey, info.Provider)
	f.model = m.values.bound(spans.RequestModelKey, info.Model)
}

// maxAttemptNumber bounds the number of an attempt that is counted: a call made more often than that is nonsense.
const maxAttemptNumber = 1e6

// lasted returns how long h lasted, in seconds; false where its start or end is not known, or the end is before the start.
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
	if !h.measured || c.bytes == 0 && c.known == 0 && c.withheld == 0 {
		return
	}
	m, ctx := h.tracer.metrics, trace.ContextWithSpan(context.Background(), h.span)
	for _, n := range [...]struct {
		c counter
		n int64
	}{{m.captureNew, int64(c.bytes)}, {m.captureKnown, c.known}, {m.captureWithheld, c.withheld}} {
		if n.n > 0 {
			n.c.Add(ctx, n.n)
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
	l := m.droppedSets.of(kind, func(kind spans.DroppedKind) *labels {
		l := labelsOf(m.droppedThings.keys, spans.DroppedKindKeyKey.String(string(kind)))
		return &l
	})
	m.droppedThings.Add(context.Background(), 1, l.add...)
}

// measureStart counts a run that started.
func (r *Run) measureStart() {
	if r.measured {
		m := r.tracer.metrics
		m.runActive.Add(&r.scope, 1, r.labels("", "").active.add...)
	}
}

// labels returns the labels of a run's samples.
func (r *Run) labels(status spans.RunStatus, failed spans.ErrorType) *runLabels {
	m := r.tracer.metrics
	k := runKey{agent: r.agent, model: r.tally.model, status: m.values.bound(spans.RunStatusKeyKey, string(status)), failed: failed}
	return m.runs.of(k, m.runLabels)
}

func (m *metrics) runLabels(k runKey) *runLabels {
	kv := []attribute.KeyValue{
		spans.AgentNameKey.String(k.agent), spans.RequestModelKey.String(k.model), spans.RunStatusKeyKey.String(k.status),
		spans.ErrorTypeKeyKey.String(string(k.failed)),
	}
	return &runLabels{
		active:   labelsOf(m.runActive.keys, kv...),
		duration: labelsOf(m.agentDuration.keys, kv...),
		calls:    labelsOf(m.agentToolCalls.keys, kv...),
		turns:    labelsOf(m.runTurns.keys, kv...),
	}
}

// measureEnd takes the samples of a run that ended.
func (r *Run) measureEnd(status spans.RunStatus, failed spans.ErrorType, end Moment, known spans.Known) {
	m, ctx := r.tracer.metrics, &r.scope
	l := r.labels(status, failed)
	m.runActive.Add(ctx, -1, r.labels("", "").active.add...)
	m.runTurns.Record(ctx, r.tally.turns.Load(), l.turns.record...)
	if status == spans.RunStatusVetoed { // it never began
		return
	}
	m.agentInferenceCalls.Record(ctx, r.tally.calls.Load(), l.calls.record...)
	m.agentToolCalls.Record(ctx, r.tally.tools.Load(), l.calls.record...)
	if s, ok := r.lasted(end, known); ok && !r.inferred {
		m.agentDuration.Record(ctx, s, l.duration.record...)
	}
}

// measureStart counts a turn that started, and remembers the labels of its samples.
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

func (m *metrics) turnLabels(k turnKey) *turnLabels {
	kv := []attribute.KeyValue{
		spans.OperationNameKey.String(operationTurn), spans.ProviderNameKey.String(k.provider), spans.RequestModelKey.String(k.model),
		spans.ResponseModelKey.String(k.answered), spans.AgentNameKey.String(k.agent), spans.ErrorTypeKeyKey.String(string(k.failed)),
		spans.TokenModalityKeyKey.String(string(spans.TokenModalityUnknown)), {},
	}
	with := func(keys []attribute.Key, more attribute.KeyValue) labels {
		kv[len(kv)-1] = more
		return labelsOf(keys, kv...)
	}
	none := attribute.KeyValue{}
	l := &turnLabels{
		call:           with(m.operationDuration.keys, none),
		chunk:          with(m.operationFirstChunk.keys, none),
		usage:          with(m.usage[0].keys, none),
		inference:      with(m.inferenceInput.keys, none),
		inferenceCall:  with(m.inferenceDuration.keys, none),
		inferenceChunk: with(m.inferenceFirstChunk.keys, none),
		duration:       with(m.turnDuration.keys, none),
		retries:        with(m.turnRetries.keys, none),
	}
	for i, t := range [...]spans.TokenType{spans.TokenTypeInput, spans.TokenTypeOutput} {
		l.typed[i] = with(m.tokenUsage.keys, spans.TokenTypeKeyKey.String(string(t)))
	}
	for i, c := range tokenClasses {
		l.classes[i] = with(m.turnTokens.keys, spans.TokenClassKeyKey.String(string(c)))
	}
	return l
}

// tokenClasses are in the order of normalUsage.
var tokenClasses = [5]spans.TokenClass{spans.TokenClassInput, spans.TokenClassOutput, spans.TokenClassReasoning, spans.TokenClassCacheRead,
	spans.TokenClassCacheWrite}

// measureEnd takes the samples of a turn that ended.
func (t *Turn) measureEnd(res *TurnResult, failed spans.ErrorType, end Moment, known spans.Known) {
	m, ctx := t.tracer.metrics, &t.scope
	k := turnKey{provider: t.provider, model: t.model, agent: t.agent, failed: failed,
		answered: m.values.bound(spans.ResponseModelKey, res.Model)}
	if res.Provider != "" {
		k.provider = m.values.bound(spans.ProviderNameKey, res.Provider)
	}
	l := m.turns.of(k, m.turnLabels)
	if s, ok := t.lasted(end, known); ok {
		m.turnDuration.Record(ctx, s, l.duration.record...)
	}
	if t.called > 0 {
		m.operationDuration.Record(ctx, t.called.Seconds(), l.call.record...)
		m.inferenceDuration.Record(ctx, t.called.Seconds(), l.inferenceCall.record...)
	}
	if s := res.FirstChunk.Seconds(); s > 0 {
		m.operationFirstChunk.Record(ctx, s, l.chunk.record...)
		m.inferenceFirstChunk.Record(ctx, s, l.inferenceChunk.record...)
	}
	if n := t.attempts - 1; n > 0 && n < maxAttemptNumber {
		m.turnRetries.Add(ctx, n, l.retries.add...)
	}
	if res.Usage != nil {
		m.tokens(ctx, res.Usage.normal(), l)
	} else if failed != "" {
		m.inferenceInput.Record(ctx, 0, l.inference.record...)
		m.inferenceOutput.Record(ctx, 0, l.inference.record...)
	}
	if c := res.Cost; c != nil && *c >= 0 && *c <= maxSample {
		k := costKey{m.values.bound(spans.TurnCostCurrencyKey, res.Currency), k.provider, k.model, k.agent}
		m.turnCost.Add(ctx, *c, m.costs.of(k, m.costLabels).add...)
	}
}

// tokens takes the samples of the usage of one turn.
func (m *metrics) tokens(ctx context.Context, u normalUsage, l *turnLabels) {
	for i, n := range [...]int64{u.input, u.output, u.reasoning, u.cacheRead, u.cacheWrite} {
		if n < 0 || n > maxSample {
			continue
		}
		m.turnTokens.Record(ctx, n, l.classes[i].record...)
		m.usage[i].Add(ctx, n, l.usage.add...)
		switch i {
		case 0:
			m.tokenUsage.Record(ctx, n, l.typed[0].record...)
			m.inferenceInput.Record(ctx, n, l.inference.record...)
		case 1:
			m.tokenUsage.Record(ctx, n, l.typed[1].record...)
			m.inferenceOutput.Record(ctx, n, l.inference.record...)
		}
	}
}

func (m *metrics) costLabels(k costKey) *labels {
	l := labelsOf(m.turnCost.keys, spans.TurnCostCurrencyKey.String(k.currency), spans.ProviderNameKey.String(k.provider),
		spans.RequestModelKey.String(k.model), spans.AgentNameKey.String(k.agent))
	return &l
}

// measureEnd takes the samples of a tool call that ended. It has no outcome where no end was seen.
func (t *Tool) measureEnd(outcome spans.Outcome, failed spans.ErrorType, end Moment, known spans.Known) {
	m, ctx := t.tracer.metrics, &t.scope
	k := toolKey{tool: m.values.bound(spans.ToolNameKey, t.name), kind: m.values.bound(spans.ToolTypeKey, t.kind), agent: t.agent,
		outcome: m.values.bound(spans.ToolOutcomeKey, string(outcome)), failed: failed}
	l := m.tools.of(k, m.toolLabels)
	m.toolCalls.Add(ctx, 1, l.calls.add...)
	if outcome == spans.OutcomeDenied || outcome == spans.OutcomeSkipped { // it did not run
		return
	}
	if s, ok := t.lasted(end, known); ok {
		m.toolDuration.Record(ctx, s, l.duration.record...)
	}
}

func (m *metrics) toolLabels(k toolKey) *toolLabels {
	kv := []attribute.KeyValue{
		spans.ToolNameKey.String(k.tool), spans.ToolTypeKey.String(k.kind), spans.AgentNameKey.String(k.agent),
		spans.ToolOutcomeKey.String(k.outcome), spans.ErrorTypeKeyKey.String(string(k.failed)),
	}
	return &toolLabels{duration: labelsOf(m.toolDuration.keys, kv...), calls: labelsOf(m.toolCalls.keys, kv...)}
}

// measureEnd takes the samples of a compaction that ended, unless it was refused.
func (c *Compacting) measureEnd(res *CompactionResult) {
	if res.Applied != nil && !*res.Applied {
		return
	}
	m, ctx := c.tracer.metrics, &c.scope
	k := compactionKey{m.values.bound(spans.CompactionKindKeyKey, c.kind), m.values.bound(spans.CompactionTriggerKey, c.trigger), c.agent}
	l := m.compactionSets.of(k, m.compactionLabels)
	m.compactions.Add(ctx, 1, l.count.add...)
	input := res.InputTokens
	if input < 0 {
		input = c.inputTokens
	}
	if input >= 0 && input <= maxSample {
		m.compactionInput.Record(ctx, input, l.tokens.record...)
	}
	if n := res.OutputTokens; n >= 0 && n <= maxSample {
		m.compactionOutput.Record(ctx, n, l.tokens.record...)
	}
}

func (m *metrics) compactionLabels(k compactionKey) *compactionLabels {
	kv := []attribute.KeyValue{
		spans.CompactionKindKeyKey.String(k.kind), spans.CompactionTriggerKey.String(k.trigger), spans.AgentNameKey.String(k.agent),
	}
	return &compactionLabels{count: labelsOf(m.compactions.keys, kv...), tokens: labelsOf(m.compactionInput.keys, kv...)}
}

// permission takes the samples of an evaluation.
func (m *metrics) permission(ctx context.Context, e *PermissionEvaluation) {
	k := permissionKey{m.values.bound(spans.PermissionActionKey, string(e.Action)),
		m.values.bound(spans.PermissionSourceKeyKey, string(e.Source)), m.values.bound(spans.ToolNameKey, e.Tool)}
	l := m.permissions.of(k, m.permissionLabels)
	m.permissionEvaluations.Add(ctx, 1, l.count.add...)
	if e.Wait > 0 {
		m.permissionWait.Record(ctx, e.Wait.Seconds(), l.wait.record...)
	}
}

func (m *metrics) permissionLabels(k permissionKey) *permissionLabels {
	kv := []attribute.KeyValue{
		spans.PermissionActionKey.String(k.action), spans.PermissionSourceKeyKey.String(k.source), spans.ToolNameKey.String(k.tool),
	}
	return &permissionLabels{count: labelsOf(m.permissionEvaluations.keys, kv...), wait: labelsOf(m.permissionWait.keys, kv...)}
}
