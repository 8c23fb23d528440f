package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

const root = "../.."

// An expression is a PromQL query that people get from us.
type expression struct {
	where string // file and panel
	text  string // as it is there
	// native says that it is about native histograms.
	native bool
}

// query is the expression with the variables of Grafana replaced: matchers let everything through, ranges are wide. A
// zero in place of no series is removed, but for the panels in quiet: it would be an answer of a metric that does not
// exist.
func (e expression) query() string {
	text := e.text
	if !quiet[e.where] {
		text = orZero.ReplaceAllString(text, "")
	}
	text = variables.Replace(text)
	return variable.ReplaceAllString(text, ".*")
}

// pipeline reports whether the expression names metrics of a collector.
func (e expression) pipeline() bool { return strings.Contains(e.text, "otelcol_") }

// quiet are panels of what does not happen in the tests.
var quiet = map[string]bool{
	"agents.json: How do tool calls end?":                                 true, // calls without an end
	"pipeline.json: How much was rejected?":                               true, // log records and blocks
	"pipeline.json: How many log records come, and what becomes of them?": true,
	"pipeline.json: What was cut or left out?":                            true,
}

var (
	orZero    = regexp.MustCompile(`\s+or vector\(0\)`)
	variables = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h",
		"${__rate_interval}", "5m", "${__range}", "1h")
	variable = regexp.MustCompile(`\$\{?[a-zA-Z_]+(:[a-z]+)?\}?`)
)

// expressions are those of all dashboards and of docs/queries.md.
func expressions(t *testing.T) []expression {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(root, "dashboards", "*.json")))(t)
	if len(files) == 0 {
		t.Error("there are no dashboards")
	}
	var all []expression
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var dashboard any
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		before := len(all)
		all = ofDashboard(all, filepath.Base(file), "", dashboard)
		t.Logf("%s: %d expressions", filepath.Base(file), len(all)-before)
	}
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "queries.md")))(t)
	found := 0
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		all = append(all, expression{where: "queries.md", text: strings.TrimSpace(m[2]), native: m[1] != ""})
		found++
	}
	if found == 0 {
		t.Error("docs/queries.md has no PromQL")
	}
	t.Logf("queries.md: %d expressions", found)
	return all
}

// block is PromQL in Markdown. Behind `promql native` is what needs native histograms.
var block = regexp.MustCompile("(?s)```promql( native)?\n(.*?)```")

// labelValues is the query of a dashboard's variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), *([a-zA-Z_][a-zA-Z0-9_]*)\)$`)

// ofDashboard adds the expressions in a part of a dashboard. title is that of the innermost panel.
func ofDashboard(all []expression, file, title string, part any) []expression {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			all = ofDashboard(all, file, title, p)
		}
	case map[string]any:
		if s, ok := part["title"].(string); ok {
			title = s
		}
		where := fmt.Sprintf("%s: %s", file, title)
		if s, ok := part["expr"].(string); ok {
			all = append(all, expression{where: where, text: s})
		}
		for _, key := range []string{"query", "definition"} {
			if s, ok := part[key].(string); ok {
				if m := labelValues.FindStringSubmatch(s); m != nil {
					all = append(all, expression{where: where + ": variable", text: fmt.Sprintf("count by (%s) (%s)", m[2], m[1])})
				}
			}
		}
		for _, p := range part {
			all = ofDashboard(all, file, title, p)
		}
	}
	return all
}
