// Command registrygen turns spans/registry.yaml into spans/registry_gen.go, spans/ATTRIBUTES.md and docs/metrics.md. It
// is run by `go generate ./spans` and refuses a registry with a duplicate or dangling name, or with a label that could
// have too many values or is of another profile.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

type registry struct {
	Schema     int         `yaml:"schema"`
	Profiles   []profile   `yaml:"profiles"`
	Spans      []span      `yaml:"spans"`
	Enums      []enum      `yaml:"enums"`
	Attributes []attribute `yaml:"attributes"`
	Events     []named     `yaml:"events"`
	Lists      []named     `yaml:"lists"`
	Metrics    []metric    `yaml:"metrics"`
	Defects    []defect    `yaml:"defects"`
}

type profile struct {
	Name, Const, Brief string
}

type span struct {
	Name, Const, Kind, Brief string
}

type enum struct {
	Name, Brief string
	List        string // the function that returns all values; empty for none
	Values      []struct{ Value, Const, Brief string }
}

type attribute struct {
	Key, Const, Type, Unit, Class, On, Enum, Floor, Brief string
	Standard                                              bool
	Profiles                                              []string
}

type named struct {
	Name, Const, On, Brief string
}

type metric struct {
	Name, Const, Instrument, Type, Unit, Brief, Question string
	Boundaries                                           []float64
	Attributes, Profiles                                 []string
}

type defect struct {
	Code, Const, Brief string
	Observation        bool
}

//go:embed registry_gen.go.tmpl
var goTemplate string

//go:embed attributes.md.tmpl
var spansTemplate string

//go:embed metrics.md.tmpl
var metricsTemplate string

// letters of the `on` column in registry.yaml.
var carriers = map[rune]string{
	'R': "session.run", 'T': "session.turn", 'C': "tool.call",
	'M': "compaction.run", 'P': "permission.evaluate", 'L': "session.payload",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: registrygen ROOT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "registrygen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	raw, err := os.ReadFile(filepath.Join(root, "spans", "registry.yaml"))
	if err != nil {
		return err
	}
	var reg registry
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&reg); err != nil {
		return err
	}
	if err := reg.validate(); err != nil {
		return err
	}
	code, err := render("registry_gen.go", goTemplate, reg)
	if err != nil {
		return err
	}
	if code, err = format.Source(code); err != nil {
		return err
	}
	spansDoc, err := render("ATTRIBUTES.md", spansTemplate, reg)
	if err != nil {
		return err
	}
	metricsDoc, err := render("metrics.md", metricsTemplate, reg)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, "spans", "registry_gen.go"), code, 0o644),
		os.WriteFile(filepath.Join(root, "spans", "ATTRIBUTES.md"), spansDoc, 0o644),
		os.WriteFile(filepath.Join(root, "docs", "metrics.md"), metricsDoc, 0o644),
	)
}

// validate reports every problem at once. The Go compiler finds others in the constants: unknown classes and
// instruments, and equal names.
func (r registry) validate() error {
	c := check{seen: map[string]bool{}}
	for _, p := range r.Profiles {
		c.once("profile", p.Name)
	}
	if len(r.Profiles) == 0 {
		c.bad("no profile")
	}
	for _, e := range r.Enums {
		c.once("enum", e.Name)
	}
	attributes := make(map[string]attribute)
	for _, a := range r.Attributes {
		c.attribute(a)
		attributes[a.Key] = a
	}
	for _, e := range r.Events {
		c.once("event", e.Name)
	}
	for _, l := range r.Lists {
		c.once("list", l.Name)
	}
	for _, m := range r.Metrics {
		c.metric(m, attributes)
	}
	for _, d := range r.Defects {
		c.once("defect", d.Code)
	}
	return errors.Join(c.errs...)
}

// check collects what is wrong with a registry.
type check struct {
	errs []error
	seen map[string]bool
}

func (c *check) bad(format string, args ...any) { c.errs = append(c.errs, fmt.Errorf(format, args...)) }

// once refuses a name that is empty or comes twice.
func (c *check) once(what, name string) {
	if name == "" {
		c.bad("%s without a name", what)
	}
	if c.seen[what+" "+name] {
		c.bad("%s %q stands twice", what, name)
	}
	c.seen[what+" "+name] = true
}

// profiles refuses names of profiles that are not declared.
func (c *check) profiles(of string, names []string) {
	for _, p := range names {
		if !c.seen["profile "+p] {
			c.bad("%s: profile %q is not declared", of, p)
		}
	}
}

func (c *check) attribute(a attribute) {
	c.once("attribute", a.Key)
	switch a.Type {
	case "string", "int", "double", "bool", "bytes", "string[]", "int[]":
	default:
		c.bad("attribute %q: type %q; allowed: string, int, double, bool, bytes, string[], int[]", a.Key, a.Type)
	}
	if a.Enum != "" && !c.seen["enum "+a.Enum] {
		c.bad("attribute %q: enum %q is not declared", a.Key, a.Enum)
	}
	if a.Brief == "" {
		c.bad("attribute %q has no brief", a.Key)
	}
	c.profiles(fmt.Sprintf("attribute %q", a.Key), a.Profiles)
}

func (c *check) metric(m metric, attributes map[string]attribute) {
	c.once("metric", m.Name)
	c.once("metric in Prometheus", m.prometheus())
	if m.Type != "int" && m.Type != "double" {
		c.bad("metric %q: type %q; allowed: int, double", m.Name, m.Type)
	}
	if m.Unit == "" || m.Brief == "" || m.Question == "" {
		c.bad("metric %q lacks a unit, a brief or a question", m.Name)
	}
	if (m.Instrument == "histogram") != (len(m.Boundaries) > 0) {
		c.bad("metric %q: a histogram, and nothing else, has boundaries", m.Name)
	}
	if !slices.IsSorted(m.Boundaries) || len(slices.Compact(slices.Clone(m.Boundaries))) != len(m.Boundaries) {
		c.bad("metric %q: boundaries do not grow", m.Name)
	}
	c.profiles(fmt.Sprintf("metric %q", m.Name), m.Profiles)
	for i, key := range m.Attributes {
		a, known := attributes[key]
		switch {
		case !known:
			c.bad("metric %q: label %q is no attribute of the registry", m.Name, key)
		case slices.Contains(m.Attributes[:i], key):
			c.bad("metric %q: label %q stands twice", m.Name, key)
		case a.Class != "name" && a.Class != "enum":
			c.bad("metric %q: label %q is of class %s; a label has few values: allowed are name and enum", m.Name, key, a.Class)
		case !within(m.Profiles, a.Profiles):
			c.bad("metric %q: label %q is not in all profiles that the metric is in", m.Name, key)
		case a.Type != "string":
			c.bad("metric %q: label %q is of type %s; allowed: string", m.Name, key, a.Type)
		}
	}
}

// within reports whether all profiles of one list are in another; an empty list is all there are.
func within(profiles, others []string) bool {
	if len(others) == 0 {
		return true
	}
	return len(profiles) > 0 && !slices.ContainsFunc(profiles, func(p string) bool { return !slices.Contains(others, p) })
}

// unitSuffixes are the names that Prometheus has for units; a unit in braces has none.
var unitSuffixes = map[string]string{"s": "seconds", "By": "bytes"}

// prometheus is the name of the metric in Prometheus, as OpenTelemetry's compatibility document makes it of name, unit
// and instrument. Of a histogram it is the part before _bucket, _sum and _count.
func (m metric) prometheus() string {
	parts := strings.FieldsFunc(m.Name, func(c rune) bool { return c == '.' || c == '_' })
	if unit := unitSuffixes[m.Unit]; unit != "" && !slices.Contains(parts, unit) {
		parts = append(parts, unit)
	}
	if m.Instrument == "counter" {
		parts = append(parts, "total")
	}
	return strings.Join(parts, "_")
}

// buckets are boundaries and the metrics that have them.
type buckets struct {
	Boundaries []float64
	Metrics    []string
}

func render(name, text string, reg registry) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"on": func(s string) string {
			switch s {
			case "A":
				return "all"
			case "resource", "event", "metric":
				return s
			}
			var names []string
			for _, c := range s {
				names = append(names, carriers[c])
			}
			return strings.Join(names, ", ")
		},
		"profiles": func(names []string) string {
			if len(names) == 0 {
				return "all"
			}
			return strings.Join(names, ", ")
		},
		"constOf": func(key string) string {
			i := slices.IndexFunc(reg.Attributes, func(a attribute) bool { return a.Key == key })
			return reg.Attributes[i].Const + "Key"
		},
		"profileOf": func(name string) string {
			i := slices.IndexFunc(reg.Profiles, func(p profile) bool { return p.Name == name })
			return "Profile" + reg.Profiles[i].Const
		},
		"number":     func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) },
		"title":      func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		"prometheus": metric.prometheus,
		"buckets": func() []buckets {
			var all []buckets
			for _, m := range reg.Metrics {
				i := slices.IndexFunc(all, func(b buckets) bool { return slices.Equal(b.Boundaries, m.Boundaries) })
				switch {
				case len(m.Boundaries) == 0:
				case i < 0:
					all = append(all, buckets{m.Boundaries, []string{m.Name}})
				default:
					all[i].Metrics = append(all[i].Metrics, m.Name)
				}
			}
			return all
		},
		"cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"class": func(s string) string {
			if s == "id" {
				return "ClassID"
			}
			return "Class" + strings.ToUpper(s[:1]) + s[1:]
		},
		"floors": func() []attribute {
			var out []attribute
			for _, a := range reg.Attributes {
				for _, f := range strings.Split(a.Floor, ",") {
					if f = strings.TrimSpace(f); f != "" {
						b := a
						b.Floor = f
						out = append(out, b)
					}
				}
			}
			return out
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = t.Execute(&buf, reg)
	return buf.Bytes(), err
}
