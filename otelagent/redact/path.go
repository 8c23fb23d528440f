package redact

import (
	"bytes"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// tree is the body as the JSONPath library wants it. Line and Column of a node are not that, but where its value starts and
// ends in the body: so what a path selects is found there without a search.
type tree struct {
	root *yaml.Node
	// Members of one object that share a key, and the objects. JSONPath knows only the first one of them.
	same    map[*yaml.Node][]*yaml.Node
	objects map[*yaml.Node]struct{}
}

// locate notes an edit for each value that the path of the rule selects.
func (a *applier) locate(rule *rule) {
	if a.tree == nil {
		a.tree = &tree{}
		c := rawjson.NewCursor(a.body, maxDepth)
		a.tree.root = a.tree.node(&c)
	}
	nodes, ok := a.tree.query(rule)
	if !ok {
		// The library failed on a path that it took. Nothing is known of the body then, so nothing of it leaves.
		a.edit(0, len(a.body), rule.quoted)
		return
	}
	for _, n := range nodes {
		a.edit(n.Line, n.Column, rule.quoted)
	}
}

// query returns what the path selects. Where objects name a key more than once it asks twice, with their members in order and in
// reverse, as readers differ in which of the members they take.
func (t *tree) query(rule *rule) (nodes []*yaml.Node, ok bool) {
	defer func() {
		if recover() != nil {
			nodes, ok = nil, false
		}
	}()
	nodes = rule.path.Query(t.root)
	if len(t.same) == 0 {
		return nodes, true
	}
	for range 2 { // the second time puts them back
		for o := range t.objects {
			for i, j := 0, len(o.Content)-2; i < j; i, j = i+2, j-2 {
				o.Content[i], o.Content[j] = o.Content[j], o.Content[i]
				o.Content[i+1], o.Content[j+1] = o.Content[j+1], o.Content[i+1]
			}
		}
		nodes = append(nodes, rule.path.Query(t.root)...)
	}
	for _, n := range nodes {
		nodes = append(nodes, t.same[n]...)
	}
	return nodes, true
}

// node returns the next value of valid JSON.
func (t *tree) node(c *rawjson.Cursor) *yaml.Node {
	first := c.Peek()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: c.Pos()}
	switch first {
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		byKey := map[string]int{}
		c.Open('{')
		for c.More('}') {
			key := string(c.Key())
			value := t.node(c)
			if first, twice := byKey[key]; twice {
				t.twice(n, first, value)
			} else {
				byKey[key] = len(n.Content) + 1
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
		}
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		c.Open('[')
		for c.More(']') {
			n.Content = append(n.Content, t.node(c))
		}
	case '"':
		n.Tag = "!!str"
		n.Value, _ = rawjson.String(c.Value())
	default:
		raw := c.Value()
		n.Tag, n.Value = scalar(raw), string(raw)
	}
	n.Column = c.Pos()
	return n
}

// twice notes that value has the key of an earlier member of the object, whose value is at position first.
func (t *tree) twice(object *yaml.Node, first int, value *yaml.Node) {
	if t.same == nil {
		t.same = map[*yaml.Node][]*yaml.Node{}
		t.objects = map[*yaml.Node]struct{}{}
	}
	t.objects[object] = struct{}{}
	head := object.Content[first]
	t.same[head] = append(t.same[head], value)
	t.same[value] = []*yaml.Node{head}
}

// scalar returns the tag by which the library knows what a scalar is. It reads integers as int: larger ones are floats to it.
func scalar(raw []byte) string {
	switch raw[0] {
	case 't', 'f':
		return "!!bool"
	case 'n':
		return "!!null"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "!!float"
	}
	if _, err := strconv.Atoi(string(raw)); err != nil {
		return "!!float"
	}
	return "!!int"
}
