package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"

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
	Roles      []rule          `yaml:"roles"`
	Usage      spans.UsageRule `yaml:"usage"`
	RollUp     rollUp          `yaml:"roll_up"`
	Utility    words           `yaml:"utility"`
	AgentTools words           `yaml:"agent_tools"`
	Keep       words           `yaml:"keep"`

	// Rules are the settings that the source is made of, as JSON: the value of RulesKey. Empty if there are none.
	Rules string `yaml:"-"`

	own     []any            // those settings
	classes map[string]Class // of attributes
	members map[string]string
	keys    map[field][]key
}

// rule gives the records that fit it a role. A program reports a turn or tool call once by each of its rules.
type rule struct {
	Role    role             `yaml:"role"`
	Name    words            `yaml:"name"`
	Signal  Signal           `yaml:"signal"`
	Is      map[string]words `yaml:"is"` // attributes have one of some values, any with "*", none with ""
	As      field            `yaml:"as"`
	Usage   spans.UsageRule  `yaml:"usage"` // else that of the source
	Failed  bool             `yaml:"failed"`
	Utility bool             `yaml:"utility"`
	Leaf    bool             `yaml:"leaf"`
	Prune   bool             `yaml:"prune"`
}

// key is one key of a field. A member, or a path of members with dots, is read from the JSON object of the attribute.
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

// allowed has the values of types that are one of some.
var allowed = map[reflect.Type]string{
	reflect.TypeFor[role]():            "none link run wrapper start turn tool permission compaction content note",
	reflect.TypeFor[Signal]():          "span event log any",
	reflect.TypeFor[rollUp]():          "never",
	reflect.TypeFor[bool]():            "true false",
	reflect.TypeFor[spans.UsageRule](): "includes_cache excludes_cache excludes_reasoning excludes_cache_and_reasoning",
	reflect.TypeFor[field]():           strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(fields))), "[]"),
}

// checkValue refuses what a type cannot be. A bool that stands for a text becomes its text: the library writes 1.
func checkValue(_, to reflect.Type, v any) (any, error) {
	text := fmt.Sprint(v)
	if words := strings.Fields(allowed[to]); len(words) > 0 && !slices.Contains(words, text) {
		return nil, fmt.Errorf("got %q: want one of %v", text, words)
	}
	if _, ok := v.(bool); ok && to.Kind() == reflect.String {
		return text, nil
	}
	return v, nil
}

type (
	words  []string // a list, or one word alone
	rollUp string
)

// readSources reads a list of sources. Errors name each wrong key and value.
func readSources(raw []any) (sources []Source, bad []error) {
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: &sources, RootName: "sources", TagName: "yaml",
		ErrorUnused: true, WeaklyTypedInput: true, DecodeHook: checkValue,
		MatchName: func(key, field string) bool { return key == field }})
	if err == nil {
		err = dec.Decode(raw)
	}
	if err != nil {
		lines := strings.Split(cmp.Or(errors.Unwrap(err), err).Error(), "\n")
		slices.Sort(lines) // the library reads maps in any order
		bad = []error{errors.New(strings.Join(lines, "\n"))}
	}
	for i, s := range sources {
		if s.Name == "" {
			bad = append(bad, fmt.Errorf("'sources[%d]' has no name", i))
		}
	}
	return sources, bad
}

// glob reports whether s is p, where a * at the begin or end of p stands for the rest.
func glob(p, s string) bool {
	p, more := strings.CutSuffix(p, "*")
	p, before := strings.CutPrefix(p, "*")
	at := strings.Index(s, p)
	if before && !more {
		at = strings.LastIndex(s, p)
	}
	return at >= 0 && (before || at == 0) && (more || at+len(p) == len(s))
}

func (w words) match(s string) bool {
	return slices.ContainsFunc(w, func(p string) bool { return glob(p, s) })
}

// fit reports whether a value is one of the words: any with "*", and none with "".
func (w words) fit(v session.Value) bool {
	return slices.ContainsFunc(w, func(want string) bool {
		switch {
		case want == "" || want == "*":
			return v.IsZero() == (want == "")
		case v.Type() == session.TypeString:
			return glob(want, v.Str())
		}
		return want == v.Text()
	})
}

// noMore ends the keys of a field: those of the source in `like` do not follow.
const noMore = "-"

// add puts what b has after what s has.
func (s *Source) add(b *Source) {
	keys := map[field]words{}
	maps.Copy(keys, s.Keys)
	for f, l := range b.Keys {
		if !slices.Contains(keys[f], noMore) {
			keys[f] = slices.Concat(keys[f], l)
		}
	}
	s.Keys, s.Roles, s.own = keys, slices.Concat(s.Roles, b.Roles), slices.Concat(s.own, b.own)
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
}

func (s *Source) compile() {
	s.Title = cmp.Or(s.Title, s.Name)
	s.classes, s.keys, s.members = map[string]Class{}, map[field][]key{}, map[string]string{}
	if text, err := json.Marshal(s.own); s.own != nil && err == nil {
		s.Rules = string(text)
	}
	for _, key := range s.Keep {
		s.classes[key] = Fact
	}
	for _, r := range s.Roles {
		for key := range r.Is {
			s.classes[key] = Fact
		}
	}
	for _, f := range slices.Sorted(maps.Keys(s.Keys)) {
		for _, name := range s.Keys[f] {
			if name == noMore {
				continue
			}
			attr, members, _ := strings.Cut(name, "#")
			for member := range strings.SplitSeq(members, "|") {
				s.keys[f] = append(s.keys[f], key{attr, member})
			}
			class := fields[f]
			if members != "" && class == Content { // a key that holds messages on other records
				class, s.members[attr] = Messages, members
			}
			if old := s.classes[attr]; old == Drop || class < old {
				s.classes[attr] = class
			}
		}
	}
}

// rule returns the first rule of the source for a record, nil if it has no role.
func (s *Source) rule(sig Signal, name string, get Get) *rule {
	short := strings.TrimPrefix(name, s.Prefix)
	for i := range s.Roles {
		if r := &s.Roles[i]; r.fits(sig, name, short, get) {
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
	for key, want := range r.Is {
		if !want.fit(get(key)) {
			return false
		}
	}
	return true
}
