package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/otelcol"
)

// What users of a persistent queue write starts, and takes spans.
func TestConfigWithPersistentQueue(t *testing.T) {
	dir := t.TempDir()
	health, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte(`
extensions:
  file_storage: {directory: `+dir+`}
  health_check: {endpoint: "`+health+`"}
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}
exporters:
  agent_session:
    storage: `+filepath.Join(dir, "s.db")+`
    sending_queue: {enabled: true, storage: file_storage}
service:
  extensions: [file_storage, health_check]
  telemetry: {logs: {level: error}, metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [agent_session]}
    logs: {receivers: [otlp], exporters: [agent_session]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := startCollector(t.Context(), collectorOptions{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get("http://" + health); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("health check: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"send", "--endpoint", c.addr("grpc"), "-"}, bytes.NewReader(demoEvents),
		io.Discard, &stderr); code != exitOK {
		t.Errorf("send: exit %d: %s", code, &stderr)
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runWith(t, "show", demoSession, "--db", filepath.Join(dir, "s.db")); code != exitOK {
		t.Errorf("show: exit %d, %s\n%s", code, errs, out)
	}
}

// The built-in configuration takes log records in addition to spans, and both are kept in one place.
func TestBuiltinTakesLogRecords(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.listeners) != 2 {
		t.Errorf("listens on %v", c.listeners)
	}
	const ids = `"traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708"`
	const address = `{"key": "session.id", "value": {"stringValue": "from-records"}},
		{"key": "otelagent.run.id", "value": {"stringValue": "r1"}},
		{"key": "otelagent.run.start", "value": {"intValue": "1000"}}`
	for path, body := range map[string]string{
		"/v1/traces": `{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "session.run", ` + ids + `,
			"startTimeUnixNano": "1000", "endTimeUnixNano": "2000", "attributes": [` + address + `]}]}]}]}`,
		"/v1/logs": `{"resourceLogs": [{"scopeLogs": [{"logRecords": [
			{"eventName": "otelagent.event", ` + ids + `, "timeUnixNano": "1500", "attributes": [` + address + `,
				{"key": "otelagent.event.type", "value": {"stringValue": "Tide"}}]},
			{"eventName": "otelagent.event", "timeUnixNano": "1500"},
			{"timeUnixNano": "1500", "body": {"stringValue": "a line"}}]}]}]}`,
	} {
		resp, err := http.Post("http://"+c.addr("http")+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", path, resp.Status, answer)
		}
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	d, err := quiet.open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	key, err := d.Find(t.Context(), "from-records")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := d.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if runs := tree.Session.Runs; len(runs) != 1 || len(runs[0].Events) != 1 || runs[0].Events[0].Type != "Tide" {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
}

// The help of up names every component that there is.
func TestHelpListsComponents(t *testing.T) {
	_, out, _ := runWith(t, "up", "--help")
	f, err := components()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range f.Receivers {
		names = append(names, n.String())
	}
	for n := range f.Processors {
		names = append(names, n.String())
	}
	for n := range f.Exporters {
		names = append(names, n.String())
	}
	for n := range f.Extensions {
		names = append(names, n.String())
	}
	for _, n := range names {
		if !strings.Contains(strings.ReplaceAll(out, "_", ""), strings.ReplaceAll(n, "_", "")) { // some have an older name too
			t.Errorf("up --help does not name %s", n)
		}
	}
}

// Each exporter that docs/backends.md shows is one that the collector takes as it stands there.
func TestBackendsDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "backends.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(exporters:\n  (\\S+):\n.*?)^```$").FindAllStringSubmatch(string(doc), -1) {
		block, name := m[1], m[2]
		names = append(names, name)
		t.Run(name, func(t *testing.T) {
			for _, v := range regexp.MustCompile(`\$\{env:(\w+)\}`).FindAllStringSubmatch(block, -1) {
				t.Setenv(v[1], "key")
			}
			config := filepath.Join(t.TempDir(), "c.yaml")
			text := block + "receivers: {otlp: {protocols: {grpc: {endpoint: \"127.0.0.1:0\"}}}}\nservice: {pipelines: " +
				"{traces: {receivers: [otlp], exporters: [" + name + "]}}}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := dryRun(t, "file:"+config); err != nil {
				t.Error(err)
			}
		})
	}
	want := []string{"otlp_http/phoenix", "otlp_http/langfuse", "otlp_http/logfire", "otlp_http/signoz",
		"otlp_http/datadog", "otlp_http/mlflow"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

// The queue that docs/start-platform.md lays over a fleet's collector fits it.
func TestQueueOfThePlatformGuide(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "start-platform.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var uris []string
	for _, name := range []string{"collector.yaml", "queue.yaml"} {
		m := regexp.MustCompile("(?ms)`" + name + "`:\n\n```yaml\n(.*?)^```$").FindSubmatch(doc)
		if m == nil {
			t.Fatal("no " + name)
		}
		if err := os.WriteFile(name, m[1], 0o600); err != nil {
			t.Fatal(err)
		}
		uris = append(uris, "file:"+name)
	}
	if err := dryRun(t, uris...); err != nil {
		t.Error(err)
	}
}

// dryRun loads configurations laid over each other as this collector does, and builds what they name without
// starting it.
func dryRun(t *testing.T, uris ...string) error {
	t.Helper()
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: components,
		BuildInfo: buildInfo(),
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: uris,
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return col.DryRun(t.Context())
}

// A configuration chooses where the collector's own metrics are served and how it logs, by the Collector's own keys.
func TestOwnTelemetry(t *testing.T) {
	page, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(page)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	const config = `
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters: {debug: {}}
service:
  telemetry:
    logs: {level: info, encoding: json, output_paths: [%q]}
    %s
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
`
	readers := fmt.Sprintf(
		"metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: %s, port: %s}}}}]}", host, port)
	c, err := startCollector(t.Context(), collectorOptions{Config: "yaml:" + fmt.Sprintf(config, log, readers)})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + page + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, want := range []string{`(?m)^otelcol_process_uptime \d`, `(?m)^target_info\{.*service_name="otelagent".*\} 1`} {
		if err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%v; no %s on the page:\n%s", err, want, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	written, err := os.ReadFile(log)
	if err != nil || !regexp.MustCompile(`(?m)^\{"level":"info",.*"msg":"Everything is ready`).Match(written) {
		t.Errorf("the log is %v\n%s", err, written)
	}
	err = dryRun(t, "yaml:"+fmt.Sprintf(config, log, "traces: {level: basic}"))
	if err == nil || !strings.Contains(err.Error(), "traces") {
		t.Errorf("a key that it does not know: %v", err)
	}
}
