package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/otlptranslator"

	"github.com/otelagent/otelagent/spans"
)

// The names that docs/metrics.md gives for Prometheus are those that its own translator makes.
func TestPrometheusNames(t *testing.T) {
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	for _, m := range spans.Metrics() {
		kind := otlptranslator.MetricType(otlptranslator.MetricTypeHistogram)
		switch m.Instrument {
		case spans.InstrumentCounter:
			kind = otlptranslator.MetricTypeMonotonicCounter
		case spans.InstrumentUpdowncounter:
			kind = otlptranslator.MetricTypeNonMonotonicCounter
		}
		got, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kind})
		if err != nil || got != m.Prometheus {
			t.Errorf("%s: %s, Prometheus has %s, %v", m.Name, m.Prometheus, got, err)
		}
	}
}

// A pipe gives metrics where they are taken, a file where they are asked for, and a receiver that takes none spoils
// nothing unless they were asked for.
func TestSendMetrics(t *testing.T) {
	file := demoFile(t)
	for _, tt := range []struct {
		name     string
		config   string
		args     []string
		refuse   bool
		env      string // OTEL_METRICS_EXPORTER
		requests bool   // for metrics came in
		has      string // in what came
		exit     int
		says     string
	}{
		{name: "pipe", args: []string{"-"}, requests: true, has: spans.MetricTokenUsage},
		{name: "pipe, later profile", config: "profile: genai-2026-10", args: []string{"-"}, requests: true,
			has: spans.MetricInferenceUsageInput},
		{name: "pipe, off", config: "metrics: off", args: []string{"-"}},
		{name: "pipe, refused", args: []string{"-"}, refuse: true, requests: true},
		{name: "recording through a pipe", args: []string{"--replay", "-"}},
		{name: "file", args: []string{file}},
		{name: "file, on", config: "metrics: on", args: []string{file}, requests: true, has: spans.MetricTurnTokens},
		{name: "file, on, refused", config: "metrics: on", args: []string{file}, refuse: true, requests: true,
			exit: exitFailed, says: "the receiver takes no metrics"},
		{name: "file, on, switched off", config: "metrics: on", args: []string{file}, env: "none", exit: exitFailed,
			says: "metrics on: there are none"},
		{name: "file, on, by somebody else", config: "metrics: on", args: []string{file}, env: "prometheus",
			exit: exitFailed, says: "metrics on: there are none"},
		{name: "pipe, switched off", args: []string{"-"}, env: "none"},
		{name: "database", config: "metrics: on", args: []string{"--db", "x.db", file}, exit: exitUsage,
			says: "a database takes no metrics"},
		{name: "what is that", config: "metrics: yes\nprofile: new", args: []string{file}, exit: exitUsage,
			says: "metrics yes: want auto, on or off\nprofile new: want genai-2026-08 or genai-2026-10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_METRICS_EXPORTER", tt.env)
			url, received := takesMetrics(t, tt.refuse)
			args := append([]string{"send"}, tt.args...)
			if tt.config != "" {
				args = append(args, tuned(t, tt.config)...)
			}
			if !strings.Contains(strings.Join(args, " "), "--db") {
				args = append(args, "--endpoint", url, "--protocol", "http/protobuf")
			}
			var said bytes.Buffer
			if exit := run(t.Context(), args, bytes.NewReader(demoEvents), io.Discard, &said); exit != tt.exit ||
				!strings.Contains(said.String(), tt.says) {
				t.Errorf("exit %d, want %d; says %q, want %q", exit, tt.exit, said.String(), tt.says)
			}
			got := received()
			if all := bytes.Join(got, nil); (len(got) == 1) != tt.requests || !bytes.Contains(all, []byte(tt.has)) {
				t.Errorf("%d requests, %d bytes of metrics without %q", len(got), len(all), tt.has)
			}
			if tt.exit == exitOK && strings.Contains(said.String(), "metrics") {
				t.Errorf("says %q", said.String())
			}
		})
	}
}

// takesMetrics starts a receiver over HTTP. It returns the receiver's URL and a function that returns the requests with
// metrics so far. The receiver takes them, or refuses them as one does that knows spans only.
func takesMetrics(t *testing.T, refuse bool) (url string, received func() [][]byte) {
	t.Helper()
	var mu sync.Mutex
	var got [][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/metrics" {
			return
		}
		mu.Lock()
		got = append(got, body)
		mu.Unlock()
		if refuse {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}
