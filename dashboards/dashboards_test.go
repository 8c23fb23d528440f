// Package dashboards holds Grafana dashboards to what they ask: that the metrics, keys and columns they name exist,
// that their SQL runs on real stores, and that each panel says what it means. They are written by interop/dashboards.
package dashboards

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/internal/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dashboard is what the tests read of one. Unknown fields are left to Grafana's own types
// (interop/dashboards/validate.mjs).
type dashboard struct {
	UID, Title, Description string
	Panels                  []panel
	Templating              struct{ List []variable }
	Links                   []link
	Tags                    []string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               datasource
	Targets                  []target
	Links                    []link
	Options                  struct {
		XField        string
		ReduceOptions struct{ Fields string }
	}
	FieldConfig struct {
		Defaults struct {
			Unit  string
			Links []link
		}
		Overrides []override
	}
	Transformations []struct {
		ID      string
		Options struct{ RenameByName map[string]string }
	}
}

type override struct {
	Matcher    struct{ ID, Options string }
	Properties []struct {
		ID    string
		Value json.RawMessage
	}
}

type datasource struct{ Type, UID string }

type target struct {
	RefID        string
	Datasource   datasource
	Expr         string // PromQL
	LegendFormat string
	Query        string // TraceQL
	RawQueryText string // SQLite
	QueryText    string
	TimeColumns  []string
	RawSQL       string `json:"rawSql"` // ClickHouse
}

// sql is the statement of a target, empty for others.
func (t *target) sql() string { return t.RawQueryText + t.RawSQL }

type variable struct {
	Name, Label, Type, Description string
	Query                          json.RawMessage
	Datasource                     datasource
}

type link struct{ Title, Type, URL string }

// plugins are the data sources, by the variable that names them.
var plugins = map[string][]string{
	"prometheus": {"prometheus"}, "tempo": {"tempo"}, "store": {"frser-sqlite-datasource",
		"grafana-clickhouse-datasource"},
}

// read returns all dashboards by file name.
func read(t *testing.T) map[string]*dashboard {
	t.Helper()
	names, err := filepath.Glob("*.json")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d dashboards, %v", len(names), err)
	}
	all := map[string]*dashboard{}
	for _, name := range names {
		text := must.Get(os.ReadFile(name))(t)
		d := &dashboard{}
		if err := json.Unmarshal(text, d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = d
	}
	return all
}

// questions calls f with each panel that is not a row.
func questions(t *testing.T, f func(t *testing.T, d *dashboard, p *panel)) {
	t.Helper()
	for name, d := range read(t) {
		for i := range d.Panels {
			if p := &d.Panels[i]; p.Type != "row" {
				t.Run(name+"/"+p.Title, func(t *testing.T) { f(t, d, p) })
			}
		}
	}
}

var (
	reference = regexp.MustCompile(`\$\{([^}:]+)(?::[a-z]+)?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
	// builtin are variables of Grafana itself.
	builtin = regexp.MustCompile(
		`^(__all|__from|__to|__interval|__rate_interval|__range|__url_time_range|__value\.raw|__data\.fields\.[a-z]+)$`,
	)
)

// allLinks are those of the panel and those of its cells.
func (p *panel) allLinks(t *testing.T) []link {
	t.Helper()
	out := slices.Concat(p.Links, p.FieldConfig.Defaults.Links)
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if property.ID != "links" {
				continue
			}
			var links []link
			must.Do(t, json.Unmarshal(property.Value, &links))
			out = append(out, links...)
		}
	}
	return out
}

// inLink is a value as it is in addresses, and as Grafana encodes it.
const inLink, inLinkEncoded = "it's 50% & #1", "it%27s%2050%25%20%26%20%231"

// TestPanels checks that a panel names its question, its meaning and its unit, and that the variables, data sources,
// dashboards and columns that a dashboard refers to exist.
func TestPanels(t *testing.T) {
	all := read(t)
	uids := map[string]bool{}
	for _, d := range all {
		uids[d.UID] = true
	}
	if len(uids) != len(all) {
		t.Errorf("%d uids of %d dashboards", len(uids), len(all))
	}
	for name, d := range all {
		variables := map[string]bool{}
		for _, v := range d.Templating.List {
			variables[v.Name] = v.Label != "" && v.Description != ""
		}
		text := must.Get(os.ReadFile(name))(t)
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			if v := m[1] + m[2]; !variables[v] && !builtin.MatchString(v) {
				t.Errorf("%s: refers to %q, which is no variable with a label and a description", name, m[0])
			}
		}
		if len(d.Links) == 0 || d.Links[0].Type != "dashboards" || !slices.Contains(d.Tags, "otelagent") {
			t.Errorf("%s: does not lead to the others", name)
		}
	}
	titles := map[string]bool{}
	questions(t, func(t *testing.T, d *dashboard, p *panel) {
		means, bad, ok := strings.Cut(p.Description, "\n\n**When it looks bad:** ")
		switch title := d.UID + p.Title; {
		case !strings.HasSuffix(p.Title, "?") || len(p.Title) > 60 || titles[title]:
			t.Errorf("the title is no question, too long or not unique: %q", p.Title)
		case !ok || len(means) < 20 || len(bad) < 10:
			t.Errorf("the description does not say the meaning and the action: %q", p.Description)
		case p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || len(p.Links) == 0:
			t.Error("no unit, query or link")
		default:
			titles[title] = true
		}
		for _, target := range append(p.Targets, target{Datasource: p.Datasource}) {
			variable := strings.Trim(target.Datasource.UID, "${}")
			if target.Datasource != p.Datasource || !slices.Contains(plugins[variable], p.Datasource.Type) {
				t.Errorf("asks %+v", target.Datasource)
			}
		}
		for _, l := range p.allLinks(t) {
			where, query, _ := strings.Cut(l.URL, "?")
			_, err := exploreQuery(l.URL)
			known := where == "/explore" && err == nil || strings.HasPrefix(where, "${jaeger}/trace/") ||
				strings.HasPrefix(where, "/d/") && uids[where[3:]] && query != ""
			if !known || l.Title == "" {
				t.Errorf("%q leads to %s: %v", l.Title, l.URL, err)
			}
		}
	})
}

// exploreQuery returns the TraceQL in a link to Grafana's Explore with values in place of variables: 1 for a number or
// an id, inLink for an encoded value.
func exploreQuery(link string) (string, error) {
	_, query, _ := strings.Cut(link, "?")
	query = reference.ReplaceAllStringFunc(query, func(v string) string {
		switch {
		case strings.HasPrefix(v, "${tempo"):
			return "the-tempo"
		case strings.HasSuffix(v, ":percentencode}"):
			return inLinkEncoded
		case strings.HasSuffix(v, ":doublequote}"):
			return `"1"`
		}
		return "1"
	})
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", err
	}
	var panes map[string]struct {
		Datasource string
		Queries    []target
		Range      struct{ From, To string }
	}
	if err := json.Unmarshal([]byte(values.Get("panes")), &panes); err != nil {
		return "", err
	}
	for _, pane := range panes {
		if len(panes) == 1 && values.Get("schemaVersion") == "1" && pane.Datasource == "the-tempo" &&
			len(pane.Queries) == 1 && pane.Queries[0].Query != "" && pane.Range.From != "" && pane.Range.To != "" {
			return pane.Queries[0].Query, nil
		}
	}
	return "", fmt.Errorf("asks %+v", panes)
}
