package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// metrics returns the labels of all metrics that there are, by the name that Prometheus has for them.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	add := func(name string, labels []string) {
		if _, twice := out[name]; twice {
			t.Errorf("two metrics are %s", name)
		}
		out[name] = labels
	}
	histogram := func(name string, labels []string) {
		add(name+"_sum", labels)
		add(name+"_count", labels)
		add(name+"_bucket", append(slices.Clone(labels), "le"))
	}

	for _, m := range spans.Metrics() {
		labels := []string{"instance", "job"}
		for _, a := range m.Attributes {
			labels = append(labels, strings.ReplaceAll(string(a), ".", "_"))
		}
		if m.Instrument != spans.InstrumentHistogram {
			add(m.Prometheus, labels)
			continue
		}
		histogram(m.Prometheus, labels)
	}

	// documentation.md is generated from the code that emits them.
	text := must.Get(os.ReadFile("../collector-exporter/agentsessionexporter/documentation.md"))(t)
	row := regexp.MustCompile(`(?m)^\| ([a-z_]+) \| .* \| .* \| - \|$`)
	sections := strings.Split(string(text), "\n### ")
	for _, section := range sections[1:] {
		name, body, _ := strings.Cut(section, "\n")
		labels := []string{"instance", "job"}
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			labels = append(labels, m[1])
		}
		if !strings.Contains(body, "| Histogram |") {
			add(name, labels)
			continue
		}
		histogram(name, labels)
	}

	var collector map[string]struct{ Labels []string }
	readYAML(t, "otelcol-metrics.yaml", &collector)
	for name, m := range collector {
		add(name, append(m.Labels, "instance", "job"))
	}
	return out
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

var (
	quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	selector   = regexp.MustCompile(`([A-Za-z_:][A-Za-z0-9_:]*)\{([^{}]*)\}`)
	matcher    = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|without)\s*\(([^()]*)\)`)
	window     = regexp.MustCompile(`\[[^\]]*\]`)
	word       = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	inLegend   = regexp.MustCompile(`\{\{\s*([^}]+?)\s*\}\}`)
	// functions are the words of PromQL that the dashboards use.
	functions = []string{"sum", "min", "max", "topk", "rate", "increase", "histogram_quantile", "clamp_min", "or",
		"vector"}
)

// problems says what is wrong with the names in a PromQL expression. It is no parser: interop/prometheus runs every
// one on the real engine.
func problems(expr string, known map[string][]string) (wrong []string, groups []string) {
	bare := quotedText.ReplaceAllString(expr, `""`)
	labels := map[string]bool{}
	for _, m := range selector.FindAllStringSubmatch(bare, -1) {
		have, ok := known[m[1]]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("there is no metric %s", m[1]))
			continue
		}
		for _, l := range have {
			labels[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(have, l[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", m[1], l[1]))
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(bare, -1) {
		for _, l := range word.FindAllString(m[1], -1) {
			groups = append(groups, l)
			if !labels[l] {
				wrong = append(wrong, fmt.Sprintf("nothing that is asked has a label %s", l))
			}
		}
	}
	rest := grouping.ReplaceAllString(selector.ReplaceAllString(window.ReplaceAllString(bare, ""), ""), "")
	for _, w := range word.FindAllString(rest, -1) {
		if !slices.Contains(functions, w) {
			wrong = append(wrong, fmt.Sprintf("%s is neither a function nor a metric with a selector", w))
		}
	}
	return wrong, groups
}

func TestPromQL(t *testing.T) {
	known := metrics(t)
	used := map[string]bool{}
	asked := 0
	questions(t, func(t *testing.T, d *dashboard, p *panel) {
		for _, target := range p.Targets {
			if target.Datasource.Type != "prometheus" {
				continue
			}
			asked++
			wrong, groups := problems(target.Expr, known)
			for _, w := range wrong {
				t.Errorf("%s in %s", w, target.Expr)
			}
			for _, m := range selector.FindAllStringSubmatch(quotedText.ReplaceAllString(target.Expr, `""`), -1) {
				used[m[1]] = true
			}
			for _, m := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(groups, m[1]) {
					t.Errorf("the legend shows %s, which %s does not keep", m[1], target.Expr)
				}
			}
		}
	})
	for name, d := range read(t) {
		for _, v := range d.Templating.List {
			if v.Datasource.Type != "prometheus" {
				continue
			}
			var q struct{ Query string }
			must.Do(t, json.Unmarshal(v.Query, &q))
			m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(q.Query)
			if m == nil || !slices.Contains(known[m[1]], m[2]) {
				t.Errorf("%s: variable %s asks %s", name, v.Name, q.Query)
			}
		}
	}
	if asked < 100 {
		t.Errorf("only %d expressions", asked)
	}

	// Panels show each metric of the adapter and the exporter, except metrics with the values of another one
	// (otelagent_turn_tokens, by class).
	elsewhere := regexp.MustCompile(`^gen_ai_client_(token_usage|inference_(usage|operation)_)`)
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if used[base] || used[base+"_bucket"] || used[base+"_sum"] || used[base+"_count"] || elsewhere.MatchString(name) {
			continue
		}
		t.Errorf("no panel shows %s", name)
	}
}
