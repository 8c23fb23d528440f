// Package dashboards holds Grafana dashboards to what they ask: that the metrics, keys and columns they name exist,
// that their SQL runs on real
// stores, and that each panel says what it means. They are written by interop/dashboards.
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
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
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

func TestEachPanelSaysWhatItMeans(t *testing.T) {
	questions(t, func(t *testing.T, d *dashboard, p *panel) {
		if !strings.HasSuffix(p.Title, "?") || len(p.Title) > 60 {
			t.Errorf("the title is no question, or too long: %q", p.Title)
		}
		if p.FieldConfig.Defaults.Unit == "" {
			t.Error("no unit")
		}
		means, bad, ok := strings.Cut(p.Description, "\n\n**When it looks bad:** ")
		if !ok || len(means) < 20 || len(bad) < 10 {
			t.Errorf("the description does not say what it means and what to do: %q", p.Description)
		}
		if len(p.Targets) == 0 {
			t.Error("it asks nothing")
		}
		if len(p.Links) == 0 {
			t.Error("no link")
		}
		titles := 0
		for _, other := range d.Panels {
			if other.Title == p.Title {
				titles++
			}
		}
		if titles != 1 {
			t.Errorf("%d panels of this title", titles)
		}
	})
}

// The grid is 24 wide. Nothing overlaps, no line has a hole, ids are unique.
func TestGrid(t *testing.T) {
	for name, d := range read(t) {
		taken := map[[2]int]int{}
		ids := map[int]bool{}
		bottom := 0
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %s: id %d is none or another's", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.W < 3 || g.H < 1 || g.X < 0 || g.X+g.W > 24 || p.Type != "row" && g.H < 4 {
				t.Errorf("%s: %s: stands at %+v", name, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != 0 {
						t.Fatalf("%s: %s lies on panel %d", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.ID
				}
			}
			bottom = max(bottom, g.Y+g.H)
		}
		if len(taken) != 24*bottom {
			t.Errorf("%s: %d of %d cells are taken", name, len(taken), 24*bottom)
		}
	}
}

var (
	reference = regexp.MustCompile(`\$\{([^}:]+)(?::[a-z]+)?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
	// builtin are variables of Grafana itself.
	builtin = regexp.MustCompile(`^(__all|__from|__to|__interval|__rate_interval|__range|__url_time_range|__value\.raw|__data\.fields\.[a-z]+)$`)
)

// What a dashboard refers to is there: variables, data sources, columns of a row, other dashboards.
func TestReferences(t *testing.T) {
	all := read(t)
	uids := map[string]bool{}
	for name, d := range all {
		if uids[d.UID] || len(d.UID) < 8 || len(d.UID) > 40 {
			t.Errorf("%s: uid %q", name, d.UID)
		}
		uids[d.UID] = true
	}
	for name, d := range all {
		variables := map[string]bool{}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
			if v.Label == "" || v.Description == "" {
				t.Errorf("%s: variable %s has no label or description", name, v.Name)
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			if v := m[1] + m[2]; !variables[v] && !builtin.MatchString(v) {
				t.Errorf("%s: refers to %q, which is no variable", name, m[0])
			}
		}
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			for _, ds := range append([]datasource{p.Datasource}, sources(p.Targets)...) {
				variable := strings.Trim(ds.UID, "${}")
				if ds != p.Datasource || !slices.Contains(plugins[variable], ds.Type) || !variables[variable] {
					t.Errorf("%s: %s: asks %+v", name, p.Title, ds)
				}
			}
		}
		if len(d.Links) == 0 || d.Links[0].Type != "dashboards" || !slices.Contains(d.Tags, "otelagent") {
			t.Errorf("%s: does not lead to the others", name)
		}
	}
	questions(t, func(t *testing.T, d *dashboard, p *panel) {
		for _, l := range p.allLinks(t) {
			where, query, _ := strings.Cut(l.URL, "?")
			switch {
			case where == "/explore":
				if _, err := exploreQuery(l.URL); err != nil {
					t.Errorf("%s: %v", l.Title, err)
				}
			case strings.HasPrefix(where, "/d/"):
				if !uids[where[3:]] || query == "" {
					t.Errorf("%s: leads to %s", l.Title, l.URL)
				}
			case !strings.HasPrefix(where, "${jaeger}/trace/"):
				t.Errorf("%s: leads to %s", l.Title, l.URL)
			}
			if l.Title == "" {
				t.Errorf("a link to %s has no title", l.URL)
			}
		}
	})
}

func sources(targets []target) []datasource {
	var out []datasource
	for _, t := range targets {
		out = append(out, t.Datasource)
	}
	return out
}

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
			if err := json.Unmarshal(property.Value, &links); err != nil {
				t.Fatal(err)
			}
			out = append(out, links...)
		}
	}
	return out
}

// inLink is a value as it stands in addresses, and as Grafana encodes it.
const inLink, inLinkEncoded = "it's 50% & #1", "it%27s%2050%25%20%26%20%231"

// exploreQuery returns the TraceQL in a link to Grafana's Explore, after Grafana put values in: 1 where a number or
// an id stands, inLink for those
// that are encoded.
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
	if len(panes) != 1 || values.Get("schemaVersion") != "1" {
		return "", fmt.Errorf("%d panes", len(panes))
	}
	for _, pane := range panes {
		if pane.Datasource != "the-tempo" || len(pane.Queries) != 1 || pane.Queries[0].Query == "" ||
			pane.Range.From == "" || pane.Range.To == "" {
			return "", fmt.Errorf("asks %+v", pane)
		}
		return pane.Queries[0].Query, nil
	}
	panic("unreachable")
}

// A thing has one colour wherever it stands: classes of tokens, outcomes, decisions.
func TestColours(t *testing.T) {
	words := []string{
		"new input", "cache write", "cache read", "reply", "reasoning", "input", "output", "ok", "error", "denied",
		"skipped", "cancelled", "allow", "deny", "ask",
		"turn", "turns", "tool calls", "p50", "p90", "p95", "p99", "accepted", "refused", "stored", "foreign", "rejected",
	}
	type use struct{ colour, where string }
	seen := map[string]use{}
	note := func(word, colour, where string) {
		if !slices.Contains(words, word) || colour == "" {
			return
		}
		if first, ok := seen[word]; ok && first.colour != colour {
			t.Errorf("%s is %s in %s and %s in %s", word, first.colour, first.where, colour, where)
		}
		seen[word] = use{colour, where}
	}
	for name, d := range read(t) {
		for _, p := range d.Panels {
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					if property.ID == "color" && o.Matcher.ID == "byName" {
						var c struct{ FixedColor string }
						if err := json.Unmarshal(property.Value, &c); err != nil {
							t.Fatal(err)
						}
						note(o.Matcher.Options, c.FixedColor, name+": "+p.Title)
					}
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d of the words have a colour", len(seen))
	}
}
