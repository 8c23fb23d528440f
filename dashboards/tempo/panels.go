package tempo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Panels returns what the dashboards in a folder ask Tempo, as queries named by file and panel. LastRun is that of
// runs.yaml.
func Panels(folder string) ([]Query, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var dashboard any
		if err := json.Unmarshal(text, &dashboard); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		queries = panelQueries(queries, filepath.Base(file), "", dashboard)
	}
	for i := range queries {
		queries[i].LastRun = runs()[queries[i].ID]
	}
	return queries, nil
}

// panelQueries adds those of a part of a dashboard. title is that of the innermost panel.
func panelQueries(queries []Query, file, title string, part any) []Query {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			queries = panelQueries(queries, file, title, p)
		}
	case map[string]any:
		if s, ok := part["title"].(string); ok {
			title = s
		}
		if query, ok := part["query"].(string); ok && part["queryType"] == "traceql" {
			kind := KindSearch
			if part["metricsQueryType"] != nil {
				kind = KindMetrics
			}
			queries = append(queries, Query{
				ID: fmt.Sprintf("%s: %s %v", file, title, part["refId"]), Question: title, Kind: kind,
				Query: strings.ReplaceAll(query, "${session:doublequote}", `"`+SessionVariable+`"`),
			})
		}
		for _, p := range part {
			queries = panelQueries(queries, file, title, p)
		}
	}
	return queries
}
