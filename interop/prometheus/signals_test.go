package main

import (
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// untold are the metrics that no span has, with the reason.
var untold = map[string]string{
	"otelagent_run_active":                "runs are not seen before they end",
	"gen_ai_invoke_agent_inference_calls": "a run does not count the attempts of its turns",
	"gen_ai_invoke_agent_tool_calls":      "a run counts only the calls outside its turns",
	"otelagent_capture_new_bytes_total":   "one sum over all spans; ask the store",
	"otelagent_capture_known_bytes_total": "one sum over all spans; ask the store",
	"otelagent_capture_withheld_total":    "one sum over all spans; ask the store",
	"otelagent_dropped_total":             "no span has the dropped parts",
	"target_info":                         "no metric",
	"otel_scope_info":                     "no metric",
}

// TestSignalToMetrics compares the metrics that the configuration of examples makes of spans with those of the adapter
// for the same afternoons: every bucket, sum and count.
func TestSignalToMetrics(t *testing.T) {
	ports := freePorts(t, 5)
	var passedOn atomic.Int64
	traces := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passedOn.Add(1) }))
	defer traces.Close()
	page, own := "http://"+ports[2]+"/metrics", "http://"+ports[4]+"/metrics"
	start(t, page, []string{"OTLP_GRPC=" + ports[0], "OTLP_HTTP=" + ports[1], "METRICS_PAGE=" + ports[2],
		"TRACES_TO=" + traces.URL + "/v1/traces", "METRICS_LEVEL=none"},
		collector, "--config", filepath.Join(root, "examples", "pipelines", "signal-to-metrics.yaml"))
	start(
		t,
		own,
		[]string{"OTLP_HTTP=" + ports[3], "METRICS_PAGE=" + ports[4]},
		collector,
		"--config",
		"testdata/page.yaml",
	)
	// Two batches: the connector sums up deltas.
	playTo(t, otelsetup.WithEndpoint("http://"+ports[1]), "http://"+ports[3]+"/v1/metrics", func(int) {})

	var want, got map[string]float64
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if want, got = scrape(t, own), scrape(t, page); len(want) > 100 && cmp.Equal(want, got, approximately) {
			break
		}
	}
	if diff := cmp.Diff(want, got, approximately); diff != "" || len(want) < 100 {
		t.Errorf("%d series of the adapter; spans and adapter differ (-adapter +spans):\n%s", len(want), diff)
	}
	if passedOn.Load() == 0 {
		t.Error("the traces themselves were not passed on")
	}
	t.Logf("%d series are equal", len(want))
}

var (
	approximately = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a)) })
	sample        = regexp.MustCompile(`(?m)^([a-z_]+?)(_bucket|_sum|_count)?(\{.*\})? (\S+)$`)
	// origin matches labels of the place that a series comes from, and those without a value.
	origin = regexp.MustCompile(`\b(?:(?:job|instance|otel_scope_[a-z_]+)="[^"]*"|[a-z_]+=""),?`)
)

// scrape reads a page in Prometheus's text format: the values by series, without labels of origin.
func scrape(t *testing.T, page string) map[string]float64 {
	t.Helper()
	text := must.Get(get(t.Context(), page))(t)
	values := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		v := must.Get(strconv.ParseFloat(m[4], 64))(t)
		if untold[m[1]] == "" && untold[m[1]+m[2]] == "" {
			values[m[1]+m[2]+strings.Replace(origin.ReplaceAllString(m[3], ""), ",}", "}", 1)] = v
		}
	}
	return values
}
