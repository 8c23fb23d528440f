package writer

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelagent/otelagent/spans"
)

// metrics are the instruments of a Tracer, by name.
type metrics struct {
	instruments map[string]instrument
	keys        map[attribute.Key]bool // of all their labels
}

// instrument is that of the API with which the samples of one metric are taken, and the keys of its labels.
type instrument struct {
	made any
	keys []attribute.Key
}

// newMetrics makes the instruments of a profile, as the registry describes them. An SDK that objects to one reports
// that to OpenTelemetry's error handler; a metric for which a provider returns nil is not measured.
func newMetrics(c *Config) *metrics {
	m := &metrics{instruments: make(map[string]instrument), keys: make(map[attribute.Key]bool)}
	meter := c.MeterProvider.Meter(ScopeName)
	for _, d := range spans.Metrics() {
		if !d.In(c.Profile) {
			continue
		}
		made, err := newInstrument(meter, d)
		if err != nil {
			otel.Handle(err)
		}
		if made != nil {
			m.instruments[d.Name] = instrument{made, d.Attributes}
			for _, key := range d.Attributes {
				m.keys[key] = true
			}
		}
	}
	return m
}

func newInstrument(meter metric.Meter, d spans.Metric) (any, error) {
	unit, brief := metric.WithUnit(d.Unit), metric.WithDescription(d.Brief)
	bounds := metric.WithExplicitBucketBoundaries(d.Boundaries...)
	switch {
	case d.Instrument == spans.InstrumentHistogram && d.Integer:
		return meter.Int64Histogram(d.Name, unit, brief, bounds)
	case d.Instrument == spans.InstrumentHistogram:
		return meter.Float64Histogram(d.Name, unit, brief, bounds)
	case d.Instrument == spans.InstrumentUpdowncounter:
		return meter.Int64UpDownCounter(d.Name, unit, brief)
	case d.Integer:
		return meter.Int64Counter(d.Name, unit, brief)
	}
	return meter.Float64Counter(d.Name, unit, brief)
}

// enabled reports whether any instrument is enabled and a run is measured: a recorded or replayed one is not, unless
// its source says so.
func (m *metrics) enabled(ctx context.Context, recording string) bool {
	if from := sourceOf(ctx); !from.Measured && (from.Replayed || recording != "") {
		return false
	}
	for _, i := range m.instruments {
		// OpenTelemetry before 1.40 cannot say that nobody takes samples: they are taken and dropped.
		if e, ok := i.made.(interface{ Enabled(context.Context) bool }); !ok || e.Enabled(ctx) {
			return true
		}
	}
	return false
}

// maxSample bounds a sample: more tokens or money than that is no real count, and sums must not overflow.
const maxSample = 1e12

const (
	// maxToolName is the most bytes of a tool name that is a label.
	maxToolName = 128
	// otherLabel replaces a name that does not look like one of a tool.
	otherLabel = "_OTHER"
	toolName   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-"
)

// label returns a value as a label. Models write the names of tools and may write anything. How many values there are
// is the SDK's to bound: it keeps 2,000 sets of labels of a metric.
func label(key attribute.Key, value string) string {
	if key == spans.ToolNameKey && (len(value) > maxToolName || strings.Trim(value, toolName) != "") {
		return otherLabel
	}
	return cleanName(value)
}

// sample records n under the labels that the metric has, of those given and more. Empty labels are left out. A negative
// count that is not of an up-down counter, one above 1e12, and what is no number is dropped.
func (m *metrics) sample(ctx context.Context, name string, n float64, given []attribute.KeyValue,
	more ...attribute.KeyValue) {
	i, ok := m.instruments[name]
	if counts := 0 <= n && n <= maxSample; !ok || !counts && name != spans.MetricRunActive {
		return
	}
	kv := make([]attribute.KeyValue, 0, len(given)+len(more))
	for _, list := range [...][]attribute.KeyValue{given, more} {
		for _, g := range list {
			if value := g.Value.AsString(); value != "" && slices.Contains(i.keys, g.Key) {
				kv = append(kv, g.Key.String(label(g.Key, value)))
			}
		}
	}
	labels := metric.WithAttributeSet(attribute.NewSet(kv...))
	switch made := i.made.(type) { // one that is of two kinds, as those of the SDK, does the same in both
	case metric.Int64Histogram:
		made.Record(ctx, int64(n), labels)
	case metric.Float64Histogram:
		made.Record(ctx, n, labels)
	case metric.Int64UpDownCounter:
		made.Add(ctx, int64(n), labels)
	case metric.Int64Counter:
		made.Add(ctx, int64(n), labels)
	case metric.Float64Counter:
		made.Add(ctx, n, labels)
	}
}
