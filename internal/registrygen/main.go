// Command registrygen turns spans/registry.yaml into spans/registry_gen.go and docs/spans.md.
// It is run by `go generate ./spans` and refuses a registry with a duplicate or dangling name.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

type registry struct {
	Schema     int         `yaml:"schema"`
	Profile    string      `yaml:"profile"`
	Spans      []span      `yaml:"spans"`
	Enums      []enum      `yaml:"enums"`
	Attributes []attribute `yaml:"attributes"`
	Events     []named     `yaml:"events"`
	Lists      []named     `yaml:"lists"`
	Defects    []defect    `yaml:"defects"`
}

type span struct {
	Name, Const, Kind, Brief string
}

type enum struct {
	Name, Brief string
	Values      []struct{ Value, Const, Brief string }
}

type attribute struct {
	Key, Const, Type, Unit, Class, On, Enum, Floor, Brief string
	Standard                                              bool
}

type named struct {
	Name, Const, On, Brief string
}

type defect struct {
	Code, Const, Brief string
	Observation        bool
}

//go:embed registry_gen.go.tmpl
var goTemplate string

//go:embed spans.md.tmpl
var docTemplate string

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
	doc, err := render("spans.md", docTemplate, reg)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, "spans", "registry_gen.go"), code, 0o644),
		os.WriteFile(filepath.Join(root, "docs", "spans.md"), doc, 0o644),
	)
}

// validate reports every problem at once.
func (r registry) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := map[string]bool{}
	once := func(what, name string) {
		if name == "" {
			bad("%s without a name", what)
		}
		if seen[what+name] {
			bad("%s %q stands twice", what, name)
		}
		seen[what+name] = true
	}
	enums := map[string]bool{}
	for _, e := range r.Enums {
		once("enum", e.Name)
		enums[e.Name] = true
		for _, v := range e.Values {
			once("constant", e.Name+v.Const)
		}
	}
	for _, a := range r.Attributes {
		once("attribute", a.Key)
		once("constant", a.Const+"Key")
		switch a.Class {
		case "id", "number", "enum", "name", "content":
		default:
			bad("attribute %q: class %q; allowed: id, number, enum, name, content", a.Key, a.Class)
		}
		switch a.Type {
		case "string", "int", "double", "bool", "bytes", "string[]", "int[]":
		default:
			bad("attribute %q: type %q; allowed: string, int, double, bool, bytes, string[], int[]", a.Key, a.Type)
		}
		if a.Enum != "" && !enums[a.Enum] {
			bad("attribute %q: enum %q is not declared", a.Key, a.Enum)
		}
		if a.Brief == "" {
			bad("attribute %q has no brief", a.Key)
		}
	}
	for _, e := range r.Events {
		once("event", e.Name)
	}
	for _, l := range r.Lists {
		once("list", l.Name)
	}
	for _, d := range r.Defects {
		once("defect", d.Code)
	}
	return errors.Join(errs...)
}

func render(name, text string, reg registry) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"on": func(s string) string {
			switch s {
			case "A":
				return "all"
			case "resource", "event":
				return s
			}
			var names []string
			for _, c := range s {
				names = append(names, carriers[c])
			}
			return strings.Join(names, ", ")
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
