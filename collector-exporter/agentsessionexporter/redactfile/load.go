// Package redactfile reads the files of rules that docs/redaction.md describes.
package redactfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// maxFile bounds a file of rules.
const maxFile = 1 << 20

// Default names the built-in set in place of a file.
const Default = "default"

// Load reads the rules of a file of YAML or JSON; Default, and no path, is the built-in set. It applies in addition to
// those of a file, unless the file turns it off. The error has a line for everything that is wrong, with its place in
// the file. It quotes nothing of the file but wrong keys and values, and these bounded.
func Load(path string) (*redact.Rules, error) {
	if path == "" || path == Default {
		return redact.Defaults(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(path, f)
}

// read reads rules. Errors begin with the name.
func read(name string, r io.Reader) (*redact.Rules, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s: rules are larger than %d bytes", name, maxFile)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decode(name, decoder, &doc); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: no rules: want a mapping with defaults and rules", name)
	case err != nil:
		return nil, err
	}
	switch err := decode(name, decoder, &more); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document: want one", name, more.Line)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return load(name, doc.Content[0])
}

var yamlLine = regexp.MustCompile(`^yaml: line [0-9]+: [^"'` + "`" + `]*$`)

// decode reads one document. Where the error of the library quotes the file, the returned error omits the quote.
func decode(name string, d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%s: rules are no YAML", name)
		}
	}()
	switch err := d.Decode(n); {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case yamlLine.MatchString(err.Error()):
		return fmt.Errorf("%s: rules are no YAML: %w", name, err)
	default:
		return fmt.Errorf("%s: rules are no YAML", name)
	}
}

// load compiles the rules of a document.
func load(name string, doc *yaml.Node) (*redact.Rules, error) {
	f := file{nodes: map[string]*yaml.Node{}, bad: map[string]bool{}}
	defaults := true
	var c redact.Config
	f.mapping(doc, "the file", []string{"defaults", "rules"}, func(key string, value *yaml.Node) {
		switch {
		case key == "rules":
			f.rules(value, &c)
		case value.Kind != yaml.ScalarNode || value.Tag != "!!bool" || value.Decode(&defaults) != nil:
			f.wrong(value, key, " is %s: want true or false", kind(value))
		}
	})
	c.WithoutDefaults = !defaults
	if !defaults && len(c.Rules) == 0 && len(f.problems) == 0 {
		f.wrong(doc, "defaults", " is false and there are no rules: nothing would be redacted; want one of them")
	}
	rules, err := redact.New(c)
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			f.invalid(err)
		}
	}
	if len(f.problems) == 0 {
		return rules, err
	}
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	all := make([]error, len(f.problems))
	for i, p := range f.problems {
		all[i] = fmt.Errorf("%s:%d: %s", name, p.line, p.text)
	}
	return nil, errors.Join(all...)
}

// file is a document as load reads it. Its values have paths such as rules[0].role[1].
type file struct {
	problems []problem
	nodes    map[string]*yaml.Node
	bad      map[string]bool // paths with a problem that make what New says of them a consequence
}

type problem struct {
	line int
	text string
}

func (f *file) wrong(n *yaml.Node, path, format string, args ...any) {
	f.problems = append(f.problems, problem{max(n.Line, 1), path + fmt.Sprintf(format, args...)})
	f.bad[path] = true
}

// invalid adds an error of redact.New.
func (f *file) invalid(err error) {
	var p *redact.Problem
	if !errors.As(err, &p) {
		p = &redact.Problem{Text: err.Error()}
	}
	path := fmt.Sprintf("rules[%d]", p.Rule)
	n := f.nodes[path]
	if p.Key != "" {
		path += "." + p.Key
		n = cmp.Or(f.nodes[fmt.Sprintf("%s[%d]", path, p.At)], f.nodes[path], n)
	}
	if !f.bad[path] {
		f.problems = append(f.problems, problem{max(n.Line, 1), path + ": " + p.Text})
	}
}

// mapping calls member for each member of a mapping that has one of keys, and reports the others.
func (f *file) mapping(n *yaml.Node, path string, keys []string, member func(key string, value *yaml.Node)) {
	allowed := strings.Join(keys, ", ")
	if n.Kind != yaml.MappingNode {
		f.wrong(n, path, " is %s: want a mapping with the keys %s", kind(n), allowed)
	}
	seen := map[string]bool{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case seen[key.Value]:
			f.wrong(key, "", "key %.64q stands twice in %s: each key once", key.Value, path)
		case key.Kind != yaml.ScalarNode || !slices.Contains(keys, key.Value):
			f.wrong(key, "", "unknown key %.64q in %s: want %s", key.Value, path, allowed)
			f.bad[path] = true
		default:
			member(key.Value, n.Content[i+1])
		}
		seen[key.Value] = true
	}
}

func (f *file) rules(list *yaml.Node, c *redact.Config) {
	if list.Kind != yaml.SequenceNode {
		f.wrong(list, "rules", " is %s: want a list of rules", kind(list))
		return
	}
	for i, n := range list.Content {
		rule := fmt.Sprintf("rules[%d]", i)
		f.nodes[rule] = n
		f.bad[rule+".name"] = n.Kind != yaml.MappingNode
		var r redact.Rule
		keys := []string{"name", "regexp", "key", "provenance", "role", "place"}
		f.mapping(n, rule, keys, func(key string, value *yaml.Node) {
			path := rule + "." + key
			switch key {
			case "name":
				r.Name = f.text(value, path)
			case "regexp":
				r.Regexp = f.text(value, path)
			case "key":
				r.Key = f.text(value, path)
			case "provenance":
				for _, s := range f.texts(value, path) {
					r.Provenance = append(r.Provenance, spans.ProvenanceKind(s))
				}
			case "role":
				r.Role = f.texts(value, path)
			case "place":
				r.Place = f.texts(value, path)
			}
			f.bad[rule] = f.bad[rule] || f.bad[path]
		})
		c.Rules = append(c.Rules, r)
	}
}

func (f *file) text(n *yaml.Node, path string) string {
	f.nodes[path] = n
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
		f.wrong(n, path, " is %s: want text, in quotes where it looks like something else", kind(n))
		return ""
	case n.Value == "":
		f.wrong(n, path, " is empty: want text, or leave the key out")
	}
	return n.Value
}

func (f *file) texts(n *yaml.Node, path string) (all []string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		f.wrong(n, path, " is %s: want a list of at least one", kind(n))
		return nil
	}
	for i, n := range n.Content {
		f.nodes[fmt.Sprintf("%s[%d]", path, i)] = n
		all = append(all, f.text(n, path))
	}
	return all
}

// kind describes a node without its content, except for a bounded scalar.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Tag == "!!null":
		return "empty"
	default:
		return fmt.Sprintf("%.64q", n.Value)
	}
}
