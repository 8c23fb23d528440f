package otelagent

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/otelagent/otelagent/spans"
)

// WithMeterProvider sets where metrics go (docs/metrics.md). Default, and with nil: the global provider, also one installed later.
// Without an SDK behind it nothing is measured.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c config) config {
		if p != nil {
			c.meters = p
		}
		return c
	})
}

// WithProfile chooses the dated state of OpenTelemetry's GenAI conventions that standard keys and metrics follow. Default, and with
// one that this version does not know: spans.DefaultProfile.
func WithProfile(p spans.Profile) Option {
	return optionFunc(func(c config) config {
		if p.Known() {
			c.profile = p
		}
		return c
	})
}

// WithoutMetrics measures nothing.
func WithoutMetrics() Option {
	return optionFunc(func(c config) config { c.measuring = measureNothing; return c })
}

// WithReplayMetrics also measures runs that are told from files: those whose RunInfo.Recording says so, and those of a Recorder whose
// events have no Meta.Arrived. Default: they give no metrics, which count what happens now. A run that a session took over from
// another one (RunInfo.Copied) never gives any.
func WithReplayMetrics() Option {
	return optionFunc(func(c config) config { c.measuring = measureReplays; return c })
}

// measuring says what is measured.
type measuring uint8

const (
	measureLive measuring = iota
	measureNothing
	measureReplays
)

// metrics are the instruments of a Tracer, and the labels of samples. The nil metrics measure nothing.
type metrics struct {
	replays bool
	values  *labelValues
	all     []instrument

	tokenUsage                                               intHistogram
	operationDuration, operationFirstChunk                   histogram
	usage                                                    [5]counter // input, output, reasoning, cache read, cache write
	inferenceInput, inferenceOutput                          intHistogram
	inferenceDuration, inferenceFirstChunk                   histogram
	toolDuration, agentDuration                              histogram
	agentInferenceCalls, agentToolCalls                      intHistogram
	turnTokens                                               intHistogram
	turnDuration                                             histogram
	turnCost                                                 sum
	turnRetries                                              counter
	runActive                                                upDownCounter
	runTurns                                                 intHistogram
	toolCalls, compactions                                   counter
	compactionInput, compactionOutput                        intHistogram
	permissionEvaluations                                    counter
	permissionWait                                           histogram
	captureNew, captureKnown, captureWithheld, droppedThings counter

	turns          labelSets[turnKey, turnLabels]
	costs          labelSets[costKey, labels]
	tools          labelSets[toolKey, toolLabels]
	runs           labelSets[runKey, runLabels]
	compactionSets labelSets[compactionKey, compactionLabels]
	permissions    labelSets[permissionKey, permissionLabels]
	droppedSets    labelSets[spans.DroppedKind, labels]
}

// The instruments, each with the labels that the registry gives it. Those that the profile does not have take samples and do nothing.
type (
	intHistogram struct {
		metric.Int64Histogram
		keys []attribute.Key
	}
	histogram struct {
		metric.Float64Histogram
		keys []attribute.Key
	}
	counter struct {
		metric.Int64Counter
		keys []attribute.Key
	}
	sum struct {
		metric.Float64Counter
		keys []attribute.Key
	}
	upDownCounter struct {
		metric.Int64UpDownCounter
		keys []attribute.Key
	}
)

// newMetrics makes the instruments of a profile.
func newMetrics(c *config) *metrics {
	if c.measuring == measureNothing {
		return nil
	}
	m := &metrics{replays: c.measuring == measureReplays, values: newLabelValues()}
	f := factory{meter: c.meters.Meter(ScopeName), profile: c.profile, all: &m.all}
	m.tokenUsage = f.intHistogram(spans.MetricTokenUsage)
	m.operationDuration = f.histogram(spans.MetricOperationDuration)
	m.operationFirstChunk = f.histogram(spans.MetricOperationFirstChunk)
	for i, name := range [...]string{spans.MetricInferenceUsageInput, spans.MetricInferenceUsageOutput, spans.MetricInferenceUsageReasoning,
		spans.MetricInferenceUsageCacheRead, spans.MetricInferenceUsageCacheWrite} {
		m.usage[i] = f.counter(name)
	}
	m.inferenceInput = f.intHistogram(spans.MetricInferenceInput)
	m.inferenceOutput = f.intHistogram(spans.MetricInferenceOutput)
	m.inferenceDuration = f.histogram(spans.MetricInferenceDuration)
	m.inferenceFirstChunk = f.histogram(spans.MetricInferenceFirstChunk)
	m.toolDuration = f.histogram(spans.MetricToolDuration)
	m.agentDuration = f.histogram(spans.MetricAgentDuration)
	m.agentInferenceCalls = f.intHistogram(spans.MetricAgentInferenceCalls)
	m.agentToolCalls = f.intHistogram(spans.MetricAgentToolCalls)
	m.turnTokens = f.intHistogram(spans.MetricTurnTokens)
	m.turnDuration = f.histogram(spans.MetricTurnDuration)
	m.turnCost = f.sum(spans.MetricTurnCost)
	m.turnRetries = f.counter(spans.MetricTurnRetries)
	m.runActive = f.upDownCounter(spans.MetricRunActive)
	m.runTurns = f.intHistogram(spans.MetricRunTurns)
	m.toolCalls = f.counter(spans.MetricToolCalls)
	m.compactions = f.counter(spans.MetricCompactions)
	m.compactionInput = f.intHistogram(spans.MetricCompactionInput)
	m.compactionOutput = f.intHistogram(spans.MetricCompactionOutput)
	m.permissionEvaluations = f.counter(spans.MetricPermissionEvaluations)
	m.permissionWait = f.histogram(spans.MetricPermissionWaiting)
	m.captureNew = f.counter(spans.MetricCaptureNew)
	m.captureKnown = f.counter(spans.MetricCaptureKnown)
	m.captureWithheld = f.counter(spans.MetricCaptureWithheldBodies)
	m.droppedThings = f.counter(spans.MetricDropped)
	return m
}

// takes reports whether there is somebody who takes samples, and they are to be taken of something told from recording, or from a
// replay of events.
func (m *metrics) takes(ctx context.Context, recording string, replayed bool) bool {
	if m == nil || !m.replays && (replayed || recording != "") {
		return false
	}
	for _, i := range m.all {
		if i.Enabled(ctx) {
			return true
		}
	}
	return false
}

// instrument is what all instruments have in common.
type instrument interface{ Enabled(context.Context) bool }

// factory makes instruments as the registry describes them.
type factory struct {
	meter   metric.Meter
	profile spans.Profile
	all     *[]instrument
}

// describe returns what the registry says of a metric, and whether the profile has it.
func (f *factory) describe(name string) (d spans.Metric, unit, brief metric.InstrumentOption, ok bool) {
	d, ok = spans.LookupMetric(name)
	return d, metric.WithUnit(d.Unit), metric.WithDescription(d.Brief), ok && d.In(f.profile)
}

// made takes note of an instrument, and returns the one to use. An SDK that objects to one says so to OpenTelemetry's error handler, and
// gives one that can be used; where a provider gives none, otherwise stands in, which does nothing.
func made[I instrument](f *factory, i I, err error, otherwise I) I {
	if err != nil {
		otel.Handle(err)
	}
	if any(i) == nil {
		return otherwise
	}
	*f.all = append(*f.all, i)
	return i
}

func (f *factory) intHistogram(name string) intHistogram {
	d, unit, brief, ok := f.describe(name)
	if !ok {
		return intHistogram{Int64Histogram: noop.Int64Histogram{}}
	}
	h, err := f.meter.Int64Histogram(name, unit, brief, metric.WithExplicitBucketBoundaries(d.Boundaries...))
	return intHistogram{made[metric.Int64Histogram](f, h, err, noop.Int64Histogram{}), d.Attributes}
}

func (f *factory) histogram(name string) histogram {
	d, unit, brief, ok := f.describe(name)
	if !ok {
		return histogram{Float64Histogram: noop.Float64Histogram{}}
	}
	h, err := f.meter.Float64Histogram(name, unit, brief, metric.WithExplicitBucketBoundaries(d.Boundaries...))
	return histogram{made[metric.Float64Histogram](f, h, err, noop.Float64Histogram{}), d.Attributes}
}

func (f *factory) counter(name string) counter {
	d, unit, brief, ok := f.describe(name)
	if !ok {
		return counter{Int64Counter: noop.Int64Counter{}}
	}
	c, err := f.meter.Int64Counter(name, unit, brief)
	return counter{made[metric.Int64Counter](f, c, err, noop.Int64Counter{}), d.Attributes}
}

func (f *factory) sum(name string) sum {
	d, unit, brief, ok := f.describe(name)
	if !ok {
		return sum{Float64Counter: noop.Float64Counter{}}
	}
	c, err := f.meter.Float64Counter(name, unit, brief)
	return sum{made[metric.Float64Counter](f, c, err, noop.Float64Counter{}), d.Attributes}
}

func (f *factory) upDownCounter(name string) upDownCounter {
	d, unit, brief, ok := f.describe(name)
	if !ok {
		return upDownCounter{Int64UpDownCounter: noop.Int64UpDownCounter{}}
	}
	c, err := f.meter.Int64UpDownCounter(name, unit, brief)
	return upDownCounter{made[metric.Int64UpDownCounter](f, c, err, noop.Int64UpDownCounter{}), d.Attributes}
}
