package dashboards

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// homes are exporters behind which there is agent_session, at once or later. All others lead to somebody else.
var homes = []string{"agent_session", "kafka", "load_balancing", "signal_to_metrics", "otlp_http/traces"}

// Copies of open spans, and spans that hold nothing but content, are for agent_session: in the configurations that are
// shipped, each pipeline to another backend drops them. Backends that show spans by name get detailed names from those
// that say so.
func TestOtherBackends(t *testing.T) {
	detailed := []string{"../compose/collector.yaml", "../examples/pipelines/fan-out.yaml"}
	want := []string{
		`span.attributes["otelagent.known"] == "live"`,
		`span.attributes["logfire.span_type"] == "pending_span"`,
		`span.attributes["otelagent.kind"] == "session.payload"`,
	}
	var files []string
	for _, pattern := range []string{
		"../examples/pipelines/*.yaml", "../compose/collector*.yaml", "../collector-exporter/distribution/config*.yaml",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	checked := 0
	for _, file := range files {
		var c struct {
			Processors map[string]struct {
				TraceConditions []string `yaml:"trace_conditions"`
				TraceStatements []string `yaml:"trace_statements"`
			}
			Service struct {
				Pipelines map[string]struct{ Processors, Exporters []string }
			}
		}
		readYAML(t, file, &c)
		for name, p := range c.Service.Pipelines {
			if name != "traces" && !strings.HasPrefix(name, "traces/") ||
				!slices.ContainsFunc(p.Exporters, func(e string) bool { return !slices.Contains(homes, e) }) {
				continue
			}
			checked++
			var dropped, said []string
			for _, processor := range p.Processors {
				dropped = append(dropped, c.Processors[processor].TraceConditions...)
				said = append(said, c.Processors[processor].TraceStatements...)
			}
			for _, condition := range want {
				if !slices.Contains(dropped, condition) {
					t.Errorf("%s: %s passes spans with %s on to %v", file, name, condition, p.Exporters)
				}
			}
			names := slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "set(span.name, ") })
			if names != slices.Contains(detailed, file) {
				t.Errorf("%s: %s makes detailed names: %v", file, name, names)
			}
		}
	}
	if checked < 4 {
		t.Errorf("only %d pipelines lead to other backends", checked)
	}
}
