package spans

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
)

// Profile names a dated state of OpenTelemetry's GenAI conventions, which the standard keys and metrics follow.
type Profile string

// Profiles returns a copy of all profiles, the default first.
func Profiles() []Profile { return slices.Clone(profiles) }

// Known reports whether the registry has the profile.
func (p Profile) Known() bool { return slices.Contains(profiles, p) }

// Instrument is the kind of a metric.
type Instrument string

// The instruments.
const (
	// InstrumentHistogram has a distribution.
	InstrumentHistogram Instrument = "histogram"
	// InstrumentCounter has a sum that only grows.
	InstrumentCounter Instrument = "counter"
	// InstrumentUpdowncounter has a sum that also shrinks.
	InstrumentUpdowncounter Instrument = "updowncounter"
)

// Metric describes one metric of the registry. Its slices are shared and must not be changed.
type Metric struct {
	Name       string
	Instrument Instrument
	Integer    bool   // its numbers are integers
	Unit       string // UCUM
	// Boundaries are those of explicit buckets; nil but for histograms.
	Boundaries []float64
	// Attributes are its labels. All of them are of class name or enum.
	Attributes []attribute.Key
	// Profiles that have it; nil means all.
	Profiles []Profile
	// Prometheus is its name there; of a histogram what is before _bucket, _sum and _count.
	Prometheus string
	// Brief says what is counted, Question what the metric answers.
	Brief, Question string
}

// In reports whether the metric is one of the profile.
func (m Metric) In(p Profile) bool { return m.Profiles == nil || slices.Contains(m.Profiles, p) }

// Metrics returns a copy of all metrics in the order of registry.yaml.
func Metrics() []Metric { return slices.Clone(metrics) }

// LookupMetric returns what the registry says of the metric with that name, and whether it knows it. Safe for
// concurrent use.
func LookupMetric(name string) (Metric, bool) {
	for _, m := range metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}
