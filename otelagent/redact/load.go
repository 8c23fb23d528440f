package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/spans"
)

// maxFile bounds a file of rules.
const maxFile = 1 << 20

// Load reads rules from YAML or JSON, as docs/redaction.md describes them. What is not said about the default set is that it is
// looked for. The error joins everything that is wrong, each with its line; it holds nothing of the file but keys and values that
// are wrong, and these bounded.
func Load(r io.Reader) (*Rules, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("redact: reading rules: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("redact: rules are larger than %d bytes", maxFile)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decode(decoder, &doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("redact: no rules: want a mapping with defaults and rules")
	case err != nil:
		return nil, err
	}
	switch err := decode(decoder, &more); {
	case err == nil:
		return nil, fmt.Errorf("redact: line %d: a second document: want one", more.Line)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	f := file{defaults: true}
	f.document(doc.Content[0])
	if !f.defaults && len(f.rules) == 0 && len(f.problems) == 0 {
		f.problem(&doc, "defaults is false and there are no rules: nothing would be redacted; want one of them")
	}
	if len(f.problems) > 0 {
		slices.SortStableFunc(f.problems, func(a, b problem) int { return a.line - b.line })
		all := make([]error, len(f.problems))
		for i, p := range f.problems {
			all[i] = fmt.Errorf("redact: line %d: %s", p.line, p.text)
		}
		return nil, errors.Join(all...)
	}
	return &Rules{rules: f.rules, defaults: f.defaults}, nil
}

var yamlLine = regexp.MustCompile(`^yaml: line [0-9]+: [^"'` + "`" + `]*$`)

// decode reads one document. Where the library quotes the file in its error, that is left out.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("redact: rules are no YAML")
		}
	}()
	switch err := d.Decode(n); {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case yamlLine.MatchString(err.Error()):
		return fmt.Errorf("redact: rules are no YAML: %w", err)
	default:
		return errors.New("redact: rules are no YAML")
	}
}

// file is a file of rules as it is read.
type file struct {
	defaults bool
	rules    []*rule
	names    map[string]int // and their lines
	problems []problem
}

type problem struct {
	line int
	text string
}

func (f *file) problem(n *yaml.Node, format string, args ...any) {
	f.problems = append(f.problems, problem{max(n.Line, 1), fmt.Sprintf(format, args...)})
}

// members calls member for each member of a mapping, once for each key, and says what is wrong with it otherwise.
func (f *file) members(n *yaml.Node, what, allowed string, member func(key string, value *yaml.Node) (known bool)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case seen[key.Value]:
			f.problem(key, "key %s stands twice in %s: each key once", shown(key.Value), what)
		case key.Kind != yaml.ScalarNode || !member(key.Value, n.Content[i+1]):
			f.problem(key, "unknown key %s in %s: want %s", shown(key.Value), what, allowed)
		}
		seen[key.Value] = true
	}
}

const (
	fileKeys = "defaults, rules"
	ruleKeys = "name, regexp, path, provenance, role, place"
)

func (f *file) document(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.problem(n, "the file is %s: want a mapping with the keys %s", kind(n), fileKeys)
		return
	}
	f.members(n, "the file", fileKeys, func(key string, value *yaml.Node) bool {
		switch key {
		case "defaults":
			if value.Kind != yaml.ScalarNode || value.Tag != "!!bool" || value.Decode(&f.defaults) != nil {
				f.problem(value, "defaults is %s: want true or false", kind(value))
			}
		case "rules":
			if value.Kind != yaml.SequenceNode {
				f.problem(value, "rules is %s: want a list of rules", kind(value))
				return true
			}
			for i, n := range value.Content {
				f.rule(n, fmt.Sprintf("rules[%d]", i))
			}
		default:
			return false
		}
		return true
	})
}

func (f *file) rule(n *yaml.Node, what string) {
	var def Rule
	if n.Kind != yaml.MappingNode {
		f.problem(n, "%s is %s: want a mapping with the keys %s", what, kind(n), ruleKeys)
		return
	}
	at := map[string][]*yaml.Node{} // the nodes of a key's values
	bad := map[string]bool{}        // keys about which enough was said
	before := len(f.problems)
	text := func(key string, value *yaml.Node) string {
		if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
			f.problem(value, "%s.%s is %s: want text, in quotes where it looks like something else", what, key, kind(value))
			bad[key] = true
			return ""
		}
		if value.Value == "" {
			f.problem(value, "%s.%s is empty: want text, or leave the key out", what, key)
			bad[key] = true
		}
		at[key] = append(at[key], value)
		return value.Value
	}
	texts := func(key string, value *yaml.Node) (all []string) {
		if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			f.problem(value, "%s.%s is %s: want a list of at least one", what, key, kind(value))
			return nil
		}
		for _, n := range value.Content {
			all = append(all, text(key, n))
		}
		return all
	}
	f.members(n, what, ruleKeys, func(key string, value *yaml.Node) bool {
		switch key {
		case "name":
			def.Name = text(key, value)
		case "regexp":
			def.Regexp = text(key, value)
		case "path":
			def.Path = text(key, value)
		case "provenance":
			for _, s := range texts(key, value) {
				def.Provenance = append(def.Provenance, spans.ProvenanceKind(s))
			}
		case "role":
			def.Role = texts(key, value)
		case "place":
			def.Place = texts(key, value)
		default:
			return false
		}
		return true
	})
	bad[""] = len(f.problems) > before
	r, all := compile(def)
	for _, w := range all {
		if bad[w.key] {
			continue
		}
		node := n
		if nodes := at[w.key]; w.at < len(nodes) {
			node = nodes[w.at]
		}
		f.problem(node, "%s%s: %s", what, dotted(w.key), w.text)
	}
	if line, twice := f.names[def.Name]; twice && def.Name != "" {
		f.problem(at["name"][0], "%s.name: %s is the name of the rule in line %d too: each name once", what, shown(def.Name), line)
	}
	if f.names == nil {
		f.names = map[string]int{}
	}
	f.names[def.Name] = n.Line
	f.rules = append(f.rules, r)
}

// kind says what a node is, without what it holds.
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
		return shown(n.Value)
	}
}
