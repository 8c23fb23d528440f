package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/interop/prometheus/play"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// untold are the metrics that no span tells of, with the reason.
var untold = map[string]string{
	"otelagent_run_active":                "runs are not seen before they end",
	"gen_ai_invoke_agent_inference_calls": "a run does not count the attempts of its turns",
	"gen_ai_invoke_agent_tool_calls":      "a run counts only the calls outside its turns",
	"otelagent_capture_new_bytes_total":   "one sum over all spans; ask the store",
	"otelagent_capture_known_bytes_total": "one sum over all spans; ask the store",
	"otelagent_capture_withheld_total":    "one sum over all spans; ask the store",
	"otelagent_dropped_total":             "what was dropped is not there",
	"target_info":                         "no metric",
	"otel_scope_info":                     "no metric",
}

// TestSignalToMetrics compares what the configuration of examples makes of spans with what the adapter says itself of the same
// afternoons: every bucket, sum and count.
func TestSignalToMetrics(t *testing.T) {
	ports := freePorts(t, 3)
	var passedOn atomic.Int64
	traces := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passedOn.Add(1) }))
	defer traces.Close()
	page := "http://" + ports[2] + "/metrics"
	start(t, page, []string{"OTLP_GRPC=" + ports[0], "OTLP_HTTP=" + ports[1], "METRICS_PAGE=" + ports[2], "TRACES_TO=" + traces.URL + "/v1/traces", "METRICS_LEVEL=none"},
		collector, "--config", filepath.Join(root, "examples", "pipelines", "signal-to-metrics.yaml"))

	own := startLibraries(t)
	providers, err := otelsetup.Setup(t.Context(), otelsetup.WithEndpoint("http://"+ports[1]), otelsetup.WithProtocol(otelsetup.HTTP),
		otelsetup.WithMetricsEndpoint(own.url+"/v1/metrics"), otelsetup.WithoutGlobal(), otelsetup.WithServiceName("harbour"))
	if err != nil {
		t.Fatal(err)
	}
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(providers.TracerProvider()), otelagent.WithMeterProvider(providers.MeterProvider())))
	for _, name := range []string{"saturday", "sunday"} {
		play.Afternoon(t.Context(), tracer, name, time.Now().Add(-play.Duration))
		if err := providers.ForceFlush(t.Context()); err != nil { // two batches: what the connector sums up are deltas
			t.Fatal(err)
		}
	}
	if err := providers.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	want := own.values(t)
	maps.DeleteFunc(want, func(series string, _ float64) bool {
		for name := range untold {
			if rest, ok := strings.CutPrefix(series, name); ok && (rest[0] == '{' || strings.HasPrefix(rest, "_bucket{") || strings.HasPrefix(rest, "_sum{") || strings.HasPrefix(rest, "_count{")) {
				return true
			}
		}
		return false
	})
	if len(want) < 100 {
		t.Fatalf("the adapter told of %d series only", len(want))
	}
	var got map[string]float64
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if got = scrape(t, page); cmp.Equal(want, got, approximately) {
			break
		}
	}
	if diff := cmp.Diff(want, got, approximately); diff != "" {
		t.Errorf("spans and adapter tell different things (-adapter +spans):\n%s", diff)
	}
	if passedOn.Load() == 0 {
		t.Error("the traces themselves were not passed on")
	}
	t.Logf("%d series are equal", len(want))
}

var approximately = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a)) })

// values are the latest values of all series, by name and labels as series writes them.
func (l *libraries) values(t *testing.T) map[string]float64 {
	t.Helper()
	q, err := l.db.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	values := map[string]float64{}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+"))
	for set.Next() {
		samples := set.At().Iterator(nil)
		for samples.Next() == chunkenc.ValFloat {
			_, v := samples.At()
			values[series(set.At().Labels().Map())] = v
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// scrape reads a page in Prometheus's text format.
func scrape(t *testing.T, page string) map[string]float64 {
	t.Helper()
	text, err := get(t.Context(), page)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for name, f := range families {
		if untold[name] != "" {
			continue
		}
		for _, m := range f.Metric {
			all := map[string]string{}
			for _, l := range m.Label {
				all[l.GetName()] = l.GetValue()
			}
			put := func(suffix, le string, v float64) {
				with := maps.Clone(all)
				with[model.MetricNameLabel] = name + suffix
				if le != "" {
					with["le"] = le
				}
				values[series(with)] = v
			}
			switch {
			case m.Histogram != nil:
				for _, b := range m.Histogram.Bucket {
					put("_bucket", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), float64(b.GetCumulativeCount()))
				}
				put("_sum", "", m.Histogram.GetSampleSum())
				put("_count", "", float64(m.Histogram.GetSampleCount()))
			case m.Counter != nil:
				put("", "", m.Counter.GetValue())
			case m.Gauge != nil:
				put("", "", m.Gauge.GetValue())
			}
		}
	}
	return values
}

// series writes a series without the labels that say where it came from.
func series(all map[string]string) string {
	var list []string
	for name, value := range all {
		switch {
		case name == model.MetricNameLabel, name == "job", name == "instance", strings.HasPrefix(name, "otel_scope_"), value == "":
			continue
		case name == "le":
			if bound, err := strconv.ParseFloat(value, 64); err == nil {
				value = strconv.FormatFloat(bound, 'g', -1, 64)
			}
		}
		list = append(list, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(list)
	return all[model.MetricNameLabel] + "{" + strings.Join(list, ",") + "}"
}
