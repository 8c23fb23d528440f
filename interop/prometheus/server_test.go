package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/interop/prometheus/play"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// troubles are metrics of a collector that have no series before a failure that does not happen here.
var troubles = map[string]string{
	"otelcol_exporter_agent_session_write_failures":      "the store takes everything",
	"otelcol_exporter_agent_session_projection_failures": "the store takes everything",
	"otelcol_exporter_agent_session_retention_failures":  "the store takes everything",
	"otelcol_exporter_agent_session_blocks_rejected":     "blocks are rejected with a session limit only",
	"otelcol_exporter_enqueue_failed_spans":              "the queue has room",
	"otelcol_receiver_refused_spans":                     "no sender is asked to come again",
	"otelcol_receiver_failed_spans":                      "no sender is asked to come again",
	"otelcol_processor_memory_limiter_refused_spans":     "there is memory",
}

var collectorMetric = regexp.MustCompile(`otelcol_[a-z0-9_]+`)

// TestServer lets Debian's Prometheus scrape the page of a collector that the adapter sends its metrics to, and the own
// metrics of our collector, and asks it every expression of dashboards and documents. Native histograms are not asked:
// 2.42 has none on such a page.
func TestServer(t *testing.T) {
	ports := freePorts(t, 5)
	metrics, page, traces, own, server := ports[0], ports[1], ports[2], ports[3], ports[4]
	env := []string{"OTLP_HTTP=" + metrics, "METRICS_PAGE=" + page}
	start(t, "http://"+page+"/metrics", env, collector, "--config", "testdata/page.yaml")
	_, ownPort, _ := net.SplitHostPort(own)
	env = []string{"OTLP_HTTP=" + traces, "OWN_PORT=" + ownPort, "OTELAGENT_DB=" + filepath.Join(t.TempDir(), "s.db")}
	start(t, "http://"+own+"/metrics", env, otelagentProgram, "up", "--config", "testdata/own.yaml")

	config := filepath.Join(t.TempDir(), "prometheus.yml")
	err := os.WriteFile(config, fmt.Appendf(nil, `global: {scrape_interval: 500ms}
scrape_configs:
- {job_name: agents, honor_labels: true, static_configs: [{targets: ['%s']}]}
- {job_name: collector, static_configs: [{targets: ['%s']}]}
`, page, own), 0o600)
	must.Do(t, err)
	start(t, "http://"+server+"/-/ready", nil, "prometheus", "--config.file="+config, "--web.listen-address="+server,
		"--storage.tsdb.path="+filepath.Join(t.TempDir(), "tsdb"), "--enable-feature=exemplar-storage")

	hostile(t, "http://"+traces)
	stored := 0.0
	// A rate wants both afternoons apart.
	playTo(t, otelsetup.WithEndpoint("http://"+traces), "http://"+metrics+"/v1/metrics", func(runs int) {
		waitFor(t, server, "sum(otelagent_run_turns_count)", func(v float64) bool { return int(v) == runs })
		more := func(v float64) bool { return v > stored }
		stored = waitFor(t, server, "sum(otelcol_exporter_agent_session_spans_stored)", more)
	})
	hostile(t, "http://"+traces)
	asked := 0
	for _, e := range expressions(t) {
		if e.native {
			continue
		}
		asked++
		if onlyTroubles(e) {
			if _, err := query(t.Context(), server, e.query()); err != nil {
				t.Errorf("%s: %v\n%s", e.where, err, e.query())
			}
			continue
		}
		answered(t, e, func(text string) (values []float64, err error) {
			for range 24 { // until the next sweep of retention and two scrapes after it
				values, err = query(t.Context(), server, text)
				if err != nil || slices.ContainsFunc(values, isNumber) || t.Failed() {
					return values, err
				}
				time.Sleep(500 * time.Millisecond)
			}
			return values, err
		})
	}
	t.Logf("%d expressions asked", asked)

	found, err := get(t.Context(), fmt.Sprintf("http://%s/api/v1/query_exemplars?query=otelagent_turn_tokens_bucket"+
		"&start=%d&end=%d", server, time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()))
	if err != nil || !bytes.Contains(found, []byte(`"trace_id":"`)) {
		t.Errorf("the page has no exemplars: %v, %s", err, found)
	}
}

// waitFor asks until the answer is good, and returns it.
func waitFor(t *testing.T, server, text string, good func(float64) bool) float64 {
	t.Helper()
	for range 300 {
		values := must.Get(query(t.Context(), server, text))(t)
		if len(values) == 1 && good(values[0]) {
			return values[0]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s has not come to what was sent", text)
	return 0
}

// onlyTroubles reports whether the expression names troubles alone.
func onlyTroubles(e expression) bool {
	names := collectorMetric.FindAllString(e.text, -1)
	for _, name := range names {
		if troubles[name] == "" {
			return false
		}
	}
	return len(names) > 0
}

// playTo plays two afternoons, spans to one place and metrics to another. After each it calls seen with the number of
// runs so far.
func playTo(t *testing.T, spansTo otelsetup.Option, metricsTo string, seen func(runs int)) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metricsTo)
	providers := must.Get(otelsetup.Setup(t.Context(), spansTo,
		otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithoutGlobal(), otelsetup.WithServiceName("harbour")))(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(providers.TracerProvider()),
		otelagent.WithMeterProvider(providers.MeterProvider()), otelagent.WithCapture(otelagent.CaptureContent),
		func(c *writer.Config) { c.MaxBlockBytes = 64 << 10 }))
	for i, name := range []string{"saturday", "sunday"} {
		play.Afternoon(t.Context(), tracer, name, time.Now().Add(-play.Duration))
		must.Do(t, errors.Join(providers.ForceFlush(t.Context()), providers.MetricsError()))
		seen((i + 1) * play.Runs)
	}
	must.Do(t, providers.Shutdown(t.Context()))
}

// hostile sends spans and records of other programs, and some that name no session.
func hostile(t *testing.T, to string) {
	t.Helper()
	const trace = `"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"010203040506070`
	for path, body := range map[string]string{
		"/v1/traces": `{"resourceSpans":[{"scopeSpans":[{"spans":[
			{` + trace + `8","name":"GET /","startTimeUnixNano":"1","endTimeUnixNano":"2"},
			{` + trace + `9","name":"session.turn","startTimeUnixNano":"1","endTimeUnixNano":"2",
			 "attributes":[{"key":"otelagent.schema","value":{"intValue":"1"}}]}]}]}]}`,
		"/v1/logs": `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}]},
			{"scope":{"name":"gemini-cli"},"logRecords":[{"eventName":"gemini_cli.user_prompt"}]}]}]}`,
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, to+path, strings.NewReader(body)))(t)
		request.Header.Set("Content-Type", "application/json")
		response := must.Get(http.DefaultClient.Do(request))(t)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}

// query returns the values of an expression now, as the server's HTTP interface gives them.
func query(ctx context.Context, server, text string) ([]float64, error) {
	body, err := get(ctx, "http://"+server+"/api/v1/query?query="+url.QueryEscape(text))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	var samples []struct{ Value [2]any }
	if answer.Data.ResultType == "vector" {
		if err := json.Unmarshal(answer.Data.Result, &samples); err != nil {
			return nil, err
		}
	}
	var values []float64
	for _, s := range samples {
		v, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}
