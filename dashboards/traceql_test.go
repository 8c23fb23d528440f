package dashboards

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/internal/must"
)

// vocabulary is what spans/registry.yaml says of spans, keys and words.
type vocabulary struct {
	Spans, Events []struct{ Name string }
	Enums         []struct {
		Name   string
		Values []struct{ Value string }
	}
	Attributes []vocabularyKey
}

type vocabularyKey struct{ Key, Type, Enum, On string }

// letters of the spans in "on", as the head of registry.yaml has them.
var letters = map[string]string{
	"session.run": "R", "session.turn": "T", "tool.call": "C", "compaction.run": "M", "permission.evaluate": "P",
	"session.payload": "L",
}

var (
	spanset = regexp.MustCompile(`\{[^{}]*\}`)
	scoped  = regexp.MustCompile(`\b(span|resource|event)\.([A-Za-z_][A-Za-z0-9_.]*)` +
		`(?:\s*(=~|!~|!=|>=|<=|=|>|<)\s*("[^"]*"|[^\s})&|]+))?`)
	spanName = regexp.MustCompile(`(^|[{&|(]|span:)\s*name\s*(=|!|<|>)`)
)

// check says what is wrong with a TraceQL query by the vocabulary: kinds of spans, keys in their scope and on spans
// that carry them, words of closed lists, and literals of the wrong type. Variables of Grafana are let through.
func (v *vocabulary) check(query string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if spanName.MatchString(query) {
		add("the name of a span may hold more than its kind: want span.otelagent.kind")
	}
	var kinds []string // of all spansets
	for _, part := range append(spanset.FindAllString(query, -1), spanset.ReplaceAllString(query, "")) {
		on := kinds // behind the spansets a key may be that of any of them
		for _, m := range scoped.FindAllStringSubmatch(part, -1) {
			if m[2] == "otelagent.kind" && m[3] == "=" {
				on = []string{strings.Trim(m[4], `"`)}
				kinds = append(kinds, on...)
			}
		}
		for _, m := range scoped.FindAllStringSubmatch(part, -1) {
			scope, name, literal := m[1], m[2], m[4]
			i := slices.IndexFunc(v.Attributes, func(k vocabularyKey) bool { return k.Key == name })
			if scope == "resource" && strings.HasPrefix(name, "service.") {
				continue
			}
			if i < 0 {
				add("the registry has no key %s", name)
				continue
			}
			k := v.Attributes[i]
			carried := func(kind string) bool { return k.On == "A" || strings.Contains(k.On, cmp.Or(letters[kind], "?")) }
			switch {
			case (scope == "resource") != (k.On == "resource"), scope == "event" && k.On != "event",
				scope == "span" && (k.On == "event" || k.On == "metric"):
				add("%s is no key of the scope %s", name, scope)
			case scope == "span" && len(on) > 0 && !slices.ContainsFunc(on, carried):
				add("%s never stands on %s", name, strings.Join(on, " or "))
			case literal != "" && literal != "nil" && !strings.Contains(literal, "$"):
				v.literal(k, literal, add)
			}
		}
	}
	return wrong
}

// literal compares what a key is compared with with its type and its closed list.
func (v *vocabulary) literal(k vocabularyKey, literal string, add func(string, ...any)) {
	text := strings.HasPrefix(literal, `"`)
	if want := k.Type != "int" && k.Type != "double" && k.Type != "bool"; text != want {
		add("%s is of type %s and never %s", k.Key, k.Type, literal)
	}
	var words []string
	if k.Key == "otelagent.kind" {
		for _, s := range v.Spans {
			words = append(words, s.Name)
		}
	}
	for _, e := range v.Enums {
		for _, value := range e.Values {
			if e.Name == k.Enum && k.Type == "string" {
				words = append(words, value.Value)
			}
		}
	}
	for _, w := range strings.Split(strings.Trim(literal, `"`), "|") {
		if words != nil && !slices.Contains(words, w) {
			add("%s is never %q", k.Key, w)
		}
	}
}

func readVocabulary(t *testing.T) *vocabulary {
	t.Helper()
	registry := must.Get(os.ReadFile("../spans/registry.yaml"))(t)
	var v vocabulary
	must.Do(t, yaml.Unmarshal(registry, &v))
	for _, s := range v.Spans {
		if letters[s.Name] == "" {
			t.Fatalf("span %s has no letter", s.Name)
		}
	}
	return &v
}

func TestTraceQLCheck(t *testing.T) {
	v := readVocabulary(t)
	for query, want := range map[string]string{
		`{ span.otelagent.kind = "session.turn" && resource.service.name = "x" }`:          "",
		`{ span.otelagent.kind = "session.run" } >> { span.otelagent.kind = "tool.call" }`: "",

		`{ span.otelagent.kind =~ "tool.call|tool.cal" }`: `otelagent.kind is never "tool.cal"`,
		`{ name = "tool.call" }`: "the name of a span may hold more than its kind: " +
			"want span.otelagent.kind",
		`{ span.otelagent.kind = "session.turn" } | rate() by (span.gen_ai.model)`: "the registry has no key " +
			"gen_ai.model",
		`{ span.otelagent.kind = "session.turn" } | rate() by (span.gen_ai.tool.name)`: "gen_ai.tool.name never stands " +
			"on session.turn",
		`{ span.otelagent.tool.outcome =~ "denied|refused" }`: `otelagent.tool.outcome is never "refused"`,
		`{ span.gen_ai.usage.input_tokens = "12" }`:           `gen_ai.usage.input_tokens is of type int and never "12"`,
		`{ resource.session.id = "x" }`:                       "session.id is no key of the scope resource",
	} {
		if got := strings.Join(v.check(query), "; "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// Span names, keys and words in TraceQL, of panels and of links, are those of the registry.
func TestTraceQL(t *testing.T) {
	vocabulary := readVocabulary(t)
	panels, links := 0, 0
	check := func(t *testing.T, query string) {
		t.Helper()
		for _, wrong := range vocabulary.check(plainVariables(query)) {
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
			query := must.Get(exploreQuery(l.URL))(t)
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
	document := must.Get(os.ReadFile("tempo/README.md"))(t)
	listed := regexp.MustCompile("(?s)```traceql\n(.*?)\n```").FindAllStringSubmatch(string(document), -1)
	for _, m := range listed {
		check(t, m[1])
	}
	if len(listed) < 20 {
		t.Errorf("tempo/README.md has %d queries", len(listed))
	}
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
