package tempo

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Vocabulary is what spans/registry.yaml says of names, keys and words.
type Vocabulary struct {
	spans, events map[string]bool
	keys          map[string]key
	enums         map[string][]string
}

type key struct {
	Key, Type, Enum, On string
}

// letters of the spans in "on", as the head of registry.yaml has them.
var letters = map[string]string{
	"session.run": "R", "session.turn": "T", "tool.call": "C", "compaction.run": "M", "permission.evaluate": "P",
	"session.payload": "L",
}

// ReadVocabulary reads the text of spans/registry.yaml.
func ReadVocabulary(registry []byte) (*Vocabulary, error) {
	var r struct {
		Spans, Events []struct{ Name string }
		Enums         []struct {
			Name   string
			Values []struct{ Value string }
		}
		Attributes []key
	}
	if err := yaml.Unmarshal(registry, &r); err != nil {
		return nil, err
	}
	v := &Vocabulary{spans: map[string]bool{}, events: map[string]bool{}, keys: map[string]key{},
		enums: map[string][]string{}}
	for _, s := range r.Spans {
		v.spans[s.Name] = true
		if letters[s.Name] == "" {
			return nil, fmt.Errorf("span %s has no letter", s.Name)
		}
	}
	for _, e := range r.Events {
		v.events[e.Name] = true
	}
	for _, e := range r.Enums {
		for _, value := range e.Values {
			v.enums[e.Name] = append(v.enums[e.Name], value.Value)
		}
	}
	for _, k := range r.Attributes {
		v.keys[k.Key] = k
	}
	return v, nil
}

var (
	// spanset is { … }, which holds no other.
	spanset = regexp.MustCompile(`\{[^{}]*\}`)
	// scoped is a key with its scope.
	scoped = regexp.MustCompile(`\b(span|resource|event|link|instrumentation)\.([A-Za-z_][A-Za-z0-9_.]*)`)
	// compared is a key or name and the literal that it is compared with.
	compared = regexp.MustCompile(
		`((?:span|resource|event)\.[A-Za-z_][A-Za-z0-9_.]*|(?:span:|event:)?\bname)\s*` +
			`(=~|!~|!=|>=|<=|=|>|<)\s*("(?:[^"\\]|\\.)*"|[^\s})&|]+)`,
	)
	// standard are keys of resources that are not ours.
	standard = []string{"service.name", "service.namespace", "service.version", "service.instance.id",
		"deployment.environment.name"}
)

// kindKey is the attribute that holds the kind of a span, whose name may say more.
const kindKey = "span.otelagent.kind"

// Check says what is wrong with a TraceQL query by the vocabulary: names of spans and events, keys in their scope and
// on spans that carry them, words of closed lists, and numbers for text. It is no parser: Tempo is. Variables of
// Grafana are let through.
func (v *Vocabulary) Check(query string) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var named []string // of all spansets: what stands behind them may ask for keys of each
	for _, set := range spanset.FindAllString(query, -1) {
		on := ""
		for _, m := range compared.FindAllStringSubmatch(set, -1) {
			wrong = append(wrong, v.comparison(m[1], m[2], m[3])...)
			if name := strings.Trim(m[3], `"`); m[2] == "=" && m[1] == kindKey {
				on = name
			}
		}
		if on != "" {
			named = append(named, on)
		}
		for _, m := range scoped.FindAllStringSubmatch(set, -1) {
			if on != "" && m[1] == "span" && v.keys[m[2]].Key != "" && !v.carries(on, m[2]) {
				add("%s never stands on %s", m[2], on)
			}
		}
	}
	for _, m := range scoped.FindAllStringSubmatch(query, -1) {
		scope, name := m[1], m[2]
		k, known := v.keys[name]
		switch {
		case scope == "resource" && slices.Contains(standard, name):
		case !known:
			add("the registry has no key %s", name)
		case (scope == "resource") != (k.On == "resource"), scope == "event" && k.On != "event", scope == "span" &&
			(k.On == "event" || k.On == "metric"):
			add("%s is no key of the scope %s", name, scope)
		case scope == "span" && len(named) > 0 && !slices.ContainsFunc(named, func(on string) bool {
			return v.carries(on,
				name)
		}):
			add("%s never stands on %s", name, strings.Join(named, " or "))
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

func (v *Vocabulary) carries(span, name string) bool {
	on := v.keys[name].On
	return on == "A" || strings.Contains(on, cmp.Or(letters[span], "?"))
}

func (v *Vocabulary) comparison(left, operator, right string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	text, quoted := strings.CutPrefix(right, `"`)
	text = strings.TrimSuffix(text, `"`)
	if strings.Contains(right, "$") {
		return nil
	}
	words := []string{text}
	if operator == "=~" || operator == "!~" {
		words = strings.Split(text, "|")
	}
	switch left {
	case "name", "span:name":
		add("the name of a span may hold more than its kind: want %s", kindKey)
		return wrong
	case kindKey:
		for _, w := range words {
			if !v.spans[w] {
				add("the registry has no span %s", w)
			}
		}
		return wrong
	case "event:name":
		for _, w := range words {
			if !v.events[w] {
				add("the registry has no span event %s", w)
			}
		}
		return wrong
	}
	_, name, _ := strings.Cut(left, ".")
	k, known := v.keys[name]
	if !known || right == "nil" {
		return nil
	}
	switch k.Type {
	case "int", "double":
		if quoted {
			add("%s is a number and never %s", name, right)
		}
	case "bool":
		if right != "true" && right != "false" {
			add("%s is true or false and never %s", name, right)
		}
	default:
		if !quoted {
			add("%s is text and never %s", name, right)
		}
	}
	// A word outside a closed list is never written, but for keys of class name, whose list is open.
	if list := v.enums[k.Enum]; quoted && list != nil && k.Type == "string" {
		for _, w := range words {
			if !slices.Contains(list, w) {
				add("%s is never %q", name, w)
			}
		}
	}
	return wrong
}
