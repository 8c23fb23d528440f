package main

import (
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

// Each exporter that docs/backends.md shows is one that the collector takes as it is there.
func TestBackendsDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "backends.md"))
	must(t, err)
	var names []string
	shown := regexp.MustCompile("(?ms)^```yaml\n(exporters:\n  (\\S+):\n.*?)^```$")
	for _, m := range shown.FindAllStringSubmatch(string(doc), -1) {
		block, name := m[1], m[2]
		names = append(names, name)
		t.Run(name, func(t *testing.T) {
			for _, v := range regexp.MustCompile(`\$\{env:(\w+)\}`).FindAllStringSubmatch(block, -1) {
				t.Setenv(v[1], "key")
			}
			config := filepath.Join(t.TempDir(), "c.yaml")
			text := block + "receivers: {otlp: {protocols: {grpc: {endpoint: \"127.0.0.1:0\"}}}}\nservice: {pipelines: " +
				"{traces: {receivers: [otlp], exporters: [" + name + "]}}}\n"
			must(t, os.WriteFile(config, []byte(text), 0o600))
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
	must(t, err)
	t.Chdir(t.TempDir())
	var uris []string
	for _, name := range []string{"collector.yaml", "queue.yaml"} {
		m := regexp.MustCompile("(?ms)`" + name + "`:\n\n```yaml\n(.*?)^```$").FindSubmatch(doc)
		if m == nil {
			t.Fatal("no " + name)
		}
		must(t, os.WriteFile(name, m[1], 0o600))
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
	must(t, err)
	return col.DryRun(t.Context())
}

// A configuration chooses where the collector's own metrics are served and how it logs, by the Collector's own keys.
func TestOwnTelemetry(t *testing.T) {
	page, err := freeAddr()
	must(t, err)
	host, port, err := net.SplitHostPort(page)
	must(t, err)
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
	c, err := startCollector(t.Context(), collectorOptions{Config: []string{"yaml:" + fmt.Sprintf(config, log, readers)}})
	must(t, err)
	resp, err := http.Get("http://" + page + "/metrics")
	must(t, err)
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
