package dashboards

import (
	"os"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dashboards/tempo"
)

// Span names, keys and words in TraceQL, of panels and of links, are those of the registry.
func TestTraceQL(t *testing.T) {
	registry, err := os.ReadFile("../spans/registry.yaml")
	if err != nil {
		t.Fatal(err)
	}
	vocabulary, err := tempo.ReadVocabulary(registry)
	if err != nil {
		t.Fatal(err)
	}
	panels, links := 0, 0
	check := func(t *testing.T, query string) {
		t.Helper()
		for _, wrong := range vocabulary.Check(plainVariables(query)) {
			t.Errorf("%s in %s", wrong, query)
		}
	}
	questions(t, func(t *testing.T, _ *dashboard, p *panel) {
		for _, target := range p.Targets {
			if target.Datasource.Type == "tempo" {
				panels++
				check(t, target.Query)
			}
		}
		for _, l := range p.allLinks(t) {
			if !strings.HasPrefix(l.URL, "/explore?") {
				continue
			}
			query, err := exploreQuery(l.URL)
			if err != nil {
				t.Fatal(err)
			}
			if query == "1" {
				continue // a trace id
			}
			if strings.Contains(query, "session.id =") && !strings.Contains(query, `session.id = "`+inLink+`"`) {
				t.Errorf("%s: the session does not come out whole: %s", l.Title, query)
			}
			links++
			check(t, query)
		}
	})
	if panels < 6 || links < 50 {
		t.Errorf("%d panels and %d links ask Tempo", panels, links)
	}
}

// plainVariables puts a word where Grafana puts the value of a variable: braces are TraceQL's own.
func plainVariables(query string) string {
	query = reference.ReplaceAllStringFunc(query, func(v string) string {
		if strings.HasSuffix(v, ":doublequote}") {
			return `"x"`
		}
		return "1"
	})
	return query
}
