package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Source is a program, library or convention that emits records: an entry of sources.yaml or of the exporter's setting
// `sources`. The comments of sources.yaml say what each key means.
type Source struct {
	// Name is a word such as claude-code, Title how views name the source, such as Claude Code.
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// Lacks is what the source never reports, for views: phrases such as "permissions".
	Lacks words `yaml:"lacks"`

	Like       string          `yaml:"like"`
	Scopes     words           `yaml:"scopes"`
	Marks      words           `yaml:"marks"`
	Prefix     string          `yaml:"prefix"`
	Keys       map[field]words `yaml:"keys"`
	Roles      []*rule         `yaml:"roles"`
	Usage      usageRule       `yaml:"usage"`
	RollUp     rollUp          `yaml:"roll_up"`
	Utility    words           `yaml:"utility"`
	AgentTools words           `yaml:"agent_tools"`
	NoSession  words           `yaml:"no_session"`
	Keep       words           `yaml:"keep"`

	classes map[string]Class // of attributes
	keys    map[field][]key
}

// rule gives the records that fit it a role. A program reports a turn or tool call once by each of its rules.
type rule struct {
	Role    role       `yaml:"role"`
	Name    words      `yaml:"name"`
	Signal  Signal     `yaml:"signal"`
	Is      conditions `yaml:"is"`
	As      field      `yaml:"as"`
	Failed  bool       `yaml:"failed"`
	Utility bool       `yaml:"utility"`
	Leaf    bool       `yaml:"leaf"`
	Prune   bool       `yaml:"prune"`
}

// key is one key of a field. A member is read from the JSON object that the attribute holds.
type key struct{ attr, member string }

// role is what a record is to a session.
type role string

const (
	roleNone    role = "none"    // plumbing, which is not kept
	roleLink    role = "link"    // plumbing that parent links lead through
	roleRun     role = "run"     // a run
	roleWrapper role = "wrapper" // a run only if turns belong to it and none is around it
	roleStart   role = "start"   // a log record that begins a run

	roleTurn       role = "turn"
	roleTool       role = "tool"
	rolePermission role = "permission"
	roleCompaction role = "compaction"
	roleContent    role = "content" // content of the turn or tool call that it belongs to
	roleNote       role = "note"    // an event of a run
)

// field is what keys of a source stand for.
type field string

// fields has how the values of each field are kept.
var fields = func() map[field]Class {
	m := map[field]Class{"error": Text, "reason": Text, "tools": Messages, "request": Messages, "reply": Messages}
	for _, f := range []field{"session", "run", "agent", "agent_name", "call", "tool", "model", "answered_model",
		"provider", "response", "input", "output", "reasoning", "cache_read", "cache_write", "cost", "attempts", "stop",
		"duration_ms", "first_ms", "success", "exit", "error_type", "decision", "decider", "purpose", "before", "after",
		"removed", "trigger", "order", "time"} {
		m[f] = Fact
	}
	for _, f := range []field{"prompt", "system", "args", "result", "message"} {
		m[f] = Content
	}
	return m
}()

// The types below are words of a list in YAML. An error of theirs does not end the reading of a source.
type (
	words     []string
	usageRule string
	rollUp    string
)

func oneOf[T ~string](n *yaml.Node, to *T, what string, known ...T) error {
	if *to = T(n.Value); !slices.Contains(known, *to) {
		text := fmt.Sprintf("line %d: got %s %q: want one of %v", n.Line, what, n.Value, known)
		return &yaml.TypeError{Errors: []string{text}}
	}
	return nil
}

func (r *role) UnmarshalYAML(n *yaml.Node) error {
	return oneOf(n, r, "role", roleNone, roleLink, roleRun, roleWrapper, roleStart, roleTurn, roleTool, rolePermission,
		roleCompaction, roleContent, roleNote)
}

func (f *field) UnmarshalYAML(n *yaml.Node) error {
	return oneOf(n, f, "field", slices.Sorted(maps.Keys(fields))...)
}

// UnmarshalYAML reads the name of a signal. Another word is an error that names it and the allowed ones.
func (s *Signal) UnmarshalYAML(n *yaml.Node) error {
	return oneOf(n, s, "signal", Span, SpanEvent, Log, anySignal)
}

func (u *usageRule) UnmarshalYAML(n *yaml.Node) error {
	return oneOf(n, u, "usage", usageRule(spans.UsageRuleIncludesCache), usageRule(spans.UsageRuleExcludesCache),
		usageRule(spans.UsageRuleExcludesReasoning), usageRule(spans.UsageRuleExcludesCacheAndReasoning))
}

func (r *rollUp) UnmarshalYAML(n *yaml.Node) error { return oneOf(n, r, "roll_up", "never") }

// UnmarshalYAML also reads one word alone.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = words{n.Value}
		return nil
	}
	return n.Decode((*[]string)(w))
}

// conditions are that attributes have one of some values, any with "*", and none with "".
type conditions []condition

type condition struct {
	key    string
	values words
}

func (c *conditions) UnmarshalYAML(n *yaml.Node) error {
	var m map[string]words
	err := n.Decode(&m)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		*c = append(*c, condition{key, m[key]})
	}
	return err
}

func (c *condition) holds(v session.Value) bool {
	for _, want := range c.values {
		switch {
		case want == "" && v.IsZero(), want == "*" && !v.IsZero():
			return true
		case want == "" || want == "*":
		case v.Type() == session.TypeString && glob(want, v.Str()), v.Type() != session.TypeString && want == v.Text():
			return true
		}
	}
	return false
}

// glob reports whether s equals p, begins with p without the * at its end, or ends with p without the * at its begin.
func glob(p, s string) bool {
	if head, ok := strings.CutSuffix(p, "*"); ok {
		return strings.HasPrefix(s, head)
	}
	if tail, ok := strings.CutPrefix(p, "*"); ok {
		return strings.HasSuffix(s, tail)
	}
	return p == s
}

func (w words) match(s string) bool {
	return slices.ContainsFunc(w, func(p string) bool { return glob(p, s) })
}

// What errors of the library say of lines, keys and types, which readers of settings do not know.
var (
	lineNumber = regexp.MustCompile(`^line (\d+): `)
	unknownKey = regexp.MustCompile(`^field \S+ not found.*`)
)

// read reads one source. Errors name each wrong key and value.
func (s *Source) read(path string, v any) (bad []error) {
	wrong := func(path, text string) { bad = append(bad, fmt.Errorf("%s: %s", path, text)) }
	text, err := yaml.Marshal(v)
	if err == nil {
		dec := yaml.NewDecoder(strings.NewReader(string(text)))
		dec.KnownFields(true)
		err = dec.Decode(s)
	}
	if list, ok := errors.AsType[*yaml.TypeError](err); ok {
		var root yaml.Node
		_ = yaml.Unmarshal(text, &root) // it was just written
		at := map[string]string{}
		paths(&root, path, at)
		for _, text := range list.Errors {
			where := path
			if m := lineNumber.FindStringSubmatch(text); m != nil {
				where, text = cmp.Or(at[m[1]], path), text[len(m[0]):]
			}
			wrong(where, strings.ReplaceAll(unknownKey.ReplaceAllString(text, "no such key"), "foreign.", ""))
		}
	} else if err != nil {
		wrong(path, err.Error())
	}
	if _, isMap := v.(map[string]any); isMap && s.Name == "" {
		wrong(path, "name is missing")
	}
	for _, m := range s.Marks {
		if m == "" || len(m) >= maxMark {
			wrong(path, fmt.Sprintf("mark %q has not 1 to %d bytes", m, maxMark-1))
		}
	}
	return bad
}

// paths puts the path of the key or item on each line of n, such as roles[0].role, into at.
func paths(n *yaml.Node, path string, at map[string]string) {
	for i, child := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			paths(child, fmt.Sprintf("%s[%d]", path, i), at)
		case n.Kind == yaml.MappingNode && i%2 == 0:
			below, value := path+"."+child.Value, n.Content[i+1]
			at[strconv.Itoa(value.Line)], at[strconv.Itoa(child.Line)] = below, below
			paths(value, below, at)
		case n.Kind == yaml.DocumentNode:
			paths(child, path, at)
		}
	}
}

// noMore ends the keys of a field: those of the source in `like` do not follow.
const noMore = "-"

// add puts what b has behind what s has.
func (s *Source) add(b *Source) {
	keys := map[field]words{}
	maps.Copy(keys, s.Keys)
	for f, l := range b.Keys {
		if !slices.Contains(keys[f], noMore) {
			keys[f] = slices.Concat(keys[f], l)
		}
	}
	s.Keys, s.Roles = keys, slices.Concat(s.Roles, b.Roles)
	if s.Name == b.Name {
		s.Scopes, s.Marks = slices.Concat(s.Scopes, b.Scopes), slices.Concat(s.Marks, b.Marks)
		s.Like, s.Title = cmp.Or(s.Like, b.Like), cmp.Or(s.Title, b.Title)
	}
	s.Usage, s.Prefix = cmp.Or(s.Usage, b.Usage), cmp.Or(s.Prefix, b.Prefix)
	if s.Lacks == nil {
		s.Lacks = b.Lacks
	}
	s.Utility, s.Keep = slices.Concat(s.Utility, b.Utility), slices.Concat(s.Keep, b.Keep)
	s.AgentTools = slices.Concat(s.AgentTools, b.AgentTools)
	s.NoSession = slices.Concat(s.NoSession, b.NoSession)
}

func (s *Source) compile() {
	s.Title = cmp.Or(s.Title, s.Name)
	s.classes, s.keys = map[string]Class{}, map[field][]key{}
	for _, key := range s.Keep {
		s.classes[key] = Fact
	}
	for _, r := range s.Roles {
		for _, c := range r.Is {
			s.classes[c.key] = Fact
		}
	}
	for _, f := range slices.Sorted(maps.Keys(s.Keys)) {
		for _, name := range s.Keys[f] {
			if name == noMore {
				continue
			}
			attr, member, _ := strings.Cut(name, "#")
			s.keys[f] = append(s.keys[f], key{attr, member})
			if old := s.classes[attr]; old == Drop || fields[f] < old {
				s.classes[attr] = fields[f]
			}
		}
	}
}

// rule returns the first rule of the source for a record, nil if it has no role.
func (s *Source) rule(sig Signal, name string, get Get) *rule {
	short := strings.TrimPrefix(name, s.Prefix)
	for _, r := range s.Roles {
		if r.fits(sig, name, short, get) {
			if r.Role == roleNone {
				return nil
			}
			return r
		}
	}
	return nil
}

func (r *rule) fits(sig Signal, name, short string, get Get) bool {
	if r.Signal == "" && sig == SpanEvent || r.Signal != "" && r.Signal != anySignal && r.Signal != sig ||
		len(r.Name) > 0 && !r.Name.match(short) && !r.Name.match(name) {
		return false
	}
	for i := range r.Is {
		if !r.Is[i].holds(get(r.Is[i].key)) {
			return false
		}
	}
	return true
}
