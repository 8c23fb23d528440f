package agenttest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Metrics returns the metrics of the tracer, as they are now, in the order of docs/metrics.md. Numbers are sums since
// the start of the pipeline. The caller owns what it gets.
func (p *Pipeline) Metrics() []metricdata.Metrics {
	p.t.Helper()
	var all metricdata.ResourceMetrics
	if err := p.reader.Collect(context.Background(), &all); err != nil {
		p.t.Errorf("agenttest: collect metrics: %v", err)
	}
	var own []metricdata.Metrics
	for _, s := range all.ScopeMetrics {
		if s.Scope.Name == writer.ScopeName {
			own = append(own, s.Metrics...)
		}
	}
	order := make(map[string]int)
	for i, m := range spans.Metrics() {
		order[m.Name] = i
	}
	slices.SortFunc(own, func(a, b metricdata.Metrics) int { return order[a.Name] - order[b.Name] })
	return own
}

// MetricsText renders Metrics for golden files: a line for each metric with its instrument and unit, and a line for
// each set of labels, sorted, with its number, or how many samples a histogram has, their sum, and the buckets that
// have some. Exemplars and times of the clock are left out. Sums of seconds are rounded to microseconds.
func (p *Pipeline) MetricsText() string {
	p.t.Helper()
	var b strings.Builder
	for _, m := range p.Metrics() {
		kind, lines := "", []string(nil)
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			kind, lines = sumText(d)
		case metricdata.Sum[float64]:
			kind, lines = sumText(d)
		case metricdata.Histogram[int64]:
			kind, lines = "histogram", histogramText(d.DataPoints)
		case metricdata.Histogram[float64]:
			kind, lines = "histogram", histogramText(d.DataPoints)
		case metricdata.ExponentialHistogram[int64]:
			kind, lines = "exponential histogram", exponentialText(d.DataPoints)
		case metricdata.ExponentialHistogram[float64]:
			kind, lines = "exponential histogram", exponentialText(d.DataPoints)
		default:
			p.t.Errorf("agenttest: metric %s has data of type %T", m.Name, m.Data)
		}
		slices.Sort(lines)
		fmt.Fprintf(&b, "%s, %s of %s\n%s", m.Name, kind, m.Unit, strings.Join(lines, ""))
	}
	return b.String()
}

func sumText[N int64 | float64](s metricdata.Sum[N]) (kind string, lines []string) {
	kind = "up-down counter"
	if s.IsMonotonic {
		kind = "counter"
	}
	for _, p := range s.DataPoints {
		lines = append(lines, fmt.Sprintf("  %s %s\n", labelsText(p.Attributes), number(p.Value)))
	}
	return kind, lines
}

func histogramText[N int64 | float64](points []metricdata.HistogramDataPoint[N]) (lines []string) {
	for _, p := range points {
		line := fmt.Sprintf("  %s %d samples, sum %s:", labelsText(p.Attributes), p.Count, number(p.Sum))
		for i, n := range p.BucketCounts {
			if n == 0 {
				continue
			}
			bound := "more"
			if i < len(p.Bounds) {
				bound = "≤" + number(p.Bounds[i])
			}
			line += fmt.Sprintf(" %d %s", n, bound)
		}
		lines = append(lines, line+"\n")
	}
	return lines
}

func exponentialText[N int64 | float64](points []metricdata.ExponentialHistogramDataPoint[N]) (lines []string) {
	for _, p := range points {
		lines = append(lines, fmt.Sprintf("  %s %d samples, sum %s\n", labelsText(p.Attributes), p.Count, number(p.Sum)))
	}
	return lines
}

func labelsText(set attribute.Set) string {
	var words []string
	for _, kv := range set.ToSlice() {
		words = append(words, fmt.Sprintf("%s=%s", kv.Key, strconv.Quote(kv.Value.String())))
	}
	return "{" + strings.Join(words, " ") + "}"
}

func number[N int64 | float64](n N) string {
	text := strconv.FormatFloat(float64(n), 'f', 6, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
