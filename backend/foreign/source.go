package foreign

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// settings are a source as sources.yaml and the settings of the exporter have it. The comments of sources.yaml say what
// each key means.
type settings struct {
	Name       string              `yaml:"name"`
	Title      string              `yaml:"title"`
	Like       string              `yaml:"like"`
	Scopes     []string            `yaml:"scopes"`
	Marks      []string            `yaml:"marks"`
	Prefix     string              `yaml:"prefix"`
	Keys       map[string][]string `yaml:"keys"`
	Roles      []rule              `yaml:"roles"`
	Usage      string              `yaml:"usage"`
	RollUp     string              `yaml:"roll_up"`
	Utility    []string            `yaml:"utility"`
	AgentTools []string            `yaml:"agent_tools"`
	NoSession  []string            `yaml:"no_session"`
	Keep       []string            `yaml:"keep"`
	Lacks      []string            `yaml:"lacks"`
}

// rule gives the records that fit it a role.
type rule struct {
	Role    string              `yaml:"role"`
	Name    []string            `yaml:"name"`
	Signal  string              `yaml:"signal"`
	Is      map[string][]string `yaml:"is"`
	As      string              `yaml:"as"`
	Failed  bool                `yaml:"failed"`
	Utility bool                `yaml:"utility"`
	Leaf    bool                `yaml:"leaf"`
	Prune   bool                `yaml:"prune"`

	role       role
	conditions []condition
	id         int // number of the rule in its source
}

// Source is a program, library or convention that emits records.
type Source struct {
	settings
	classes map[string]Class
	keys    [fieldCount][]key
	rule1   spans.UsageRule
}

// key is one key of a field. A member is read from the JSON object that the attribute holds.
type key struct{ attr, member string }

// Name returns the name of the source in sources.yaml, such as claude-code.
func (s *Source) Name() string { return s.settings.Name }

// Title returns how views name the source, such as Claude Code.
func (s *Source) Title() string { return s.settings.Title }

// Lacks returns what the source never reports, for views: phrases such as "permissions".
func (s *Source) Lacks() []string { return slices.Clone(s.settings.Lacks) }

// role is what a record is to a session.
type role uint8

const (
	roleNone    role = iota // plumbing, which is not kept
	roleLink                // plumbing that parent links lead through
	roleRun                 // a run
	roleWrapper             // a run only if turns belong to it and none is around it
	roleStart               // a log record that begins a run
	roleTurn
	roleTool
	rolePermission
	roleCompaction
	roleContent // content of the turn or tool call that it belongs to
	roleNote    // an event of a run
)

var roles = map[string]role{
	"none": roleNone, "link": roleLink, "run": roleRun, "wrapper": roleWrapper, "start": roleStart, "turn": roleTurn,
	"tool": roleTool, "permission": rolePermission, "compaction": roleCompaction, "content": roleContent,
	"note": roleNote,
}

// field is what the keys of a source stand for.
type field uint8

const (
	fieldSession field = iota
	fieldRun
	fieldAgent     // id of a sub-agent
	fieldAgentName // its name
	fieldCall
	fieldTool
	fieldModel
	fieldAnswered
	fieldProvider
	fieldResponse
	fieldInput
	fieldOutput
	fieldReasoning
	fieldCacheRead
	fieldCacheWrite
	fieldCost
	fieldAttempts
	fieldStop
	fieldDuration // milliseconds
	fieldFirst    // milliseconds
	fieldSuccess
	fieldExit
	fieldErrorType
	fieldDecision
	fieldDecider
	fieldPurpose
	fieldBefore
	fieldAfter
	fieldRemoved
	fieldTrigger
	fieldOrder
	fieldTime
	fieldError
	fieldReason
	fieldPrompt
	fieldSystem
	fieldTools
	fieldRequest
	fieldReply
	fieldArgs
	fieldResult
	fieldMessage
	fieldCount
)

// fieldWords has the word of each field in `keys`, and how values are kept.
var fieldWords = [fieldCount]struct {
	word  string
	class Class
}{
	{"session", Fact}, {"run", Fact}, {"agent", Fact}, {"agent_name", Fact}, {"call", Fact}, {"tool", Fact},
	{"model", Fact}, {"answered_model", Fact}, {"provider", Fact}, {"response", Fact}, {"input", Fact},
	{"output", Fact}, {"reasoning", Fact}, {"cache_read", Fact}, {"cache_write", Fact}, {"cost", Fact},
	{"attempts", Fact}, {"stop", Fact}, {"duration_ms", Fact}, {"first_ms", Fact}, {"success", Fact}, {"exit", Fact},
	{"error_type", Fact}, {"decision", Fact}, {"decider", Fact}, {"purpose", Fact}, {"before", Fact}, {"after", Fact},
	{"removed", Fact}, {"trigger", Fact}, {"order", Fact}, {"time", Fact}, {"error", Text}, {"reason", Text},
	{"prompt", Content}, {"system", Content}, {"tools", Messages}, {"request", Messages}, {"reply", Messages},
	{"args", Content}, {"result", Content}, {"message", Content},
}

var usageWords = map[string]spans.UsageRule{
	"": "", "includes_cache": spans.UsageRuleIncludesCache, "excludes_cache": spans.UsageRuleExcludesCache,
	"excludes_reasoning":           spans.UsageRuleExcludesReasoning,
	"excludes_cache_and_reasoning": spans.UsageRuleExcludesCacheAndReasoning,
}

// check returns what is wrong with the values of a source.
func (s *Source) check(path string) (bad []error) {
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Errorf(path+"."+format, args...)) }
	if s.settings.Name == "" {
		wrong("name: missing")
	}
	for _, word := range slices.Sorted(maps.Keys(s.Keys)) {
		if fieldOf(word) == fieldCount {
			wrong("keys.%s: no such field", word)
		}
	}
	for _, m := range s.Marks {
		if m == "" || len(m) >= maxMark {
			wrong("marks: %q has not 1 to %d bytes", m, maxMark-1)
		}
	}
	if _, ok := usageWords[s.Usage]; !ok {
		wrong("usage: no rule %q", s.Usage)
	}
	if s.RollUp != "" && s.RollUp != "never" {
		wrong("roll_up: %q is not never", s.RollUp)
	}
	for i := range s.Roles {
		r := &s.Roles[i]
		if _, ok := roles[r.Role]; !ok {
			wrong("roles[%d].role: no role %q", i, r.Role)
		}
		if !slices.Contains([]string{"", "span", "event", "log", "any"}, r.Signal) {
			wrong("roles[%d].signal: %q is not span, event, log or any", i, r.Signal)
		}
		if r.As != "" && fieldOf(r.As) == fieldCount {
			wrong("roles[%d].as: no field %q", i, r.As)
		}
	}
	return bad
}

func fieldOf(word string) field {
	for f := range fieldWords {
		if fieldWords[f].word == word {
			return field(f)
		}
	}
	return fieldCount
}

// noMore ends the keys of a field: those of the source in `like` do not follow.
const noMore = "-"

// add puts what b has behind what s has.
func (s *Source) add(b *Source) {
	keys := map[string][]string{}
	for word, l := range s.Keys {
		keys[word] = slices.Clip(l)
	}
	for word, l := range b.Keys {
		if !slices.Contains(keys[word], noMore) {
			keys[word] = append(keys[word], l...)
		}
	}
	s.Keys = keys
	s.Roles = slices.Concat(s.Roles, b.Roles)
	if s.settings.Name == b.settings.Name {
		s.Scopes, s.Marks = slices.Concat(s.Scopes, b.Scopes), slices.Concat(s.Marks, b.Marks)
		if s.Like == "" {
			s.Like = b.Like
		}
		if s.settings.Title == "" {
			s.settings.Title = b.settings.Title
		}
	}
	if s.Usage == "" {
		s.Usage = b.Usage
	}
	if s.Prefix == "" {
		s.Prefix = b.Prefix
	}
	s.Utility, s.Keep = slices.Concat(s.Utility, b.Utility), slices.Concat(s.Keep, b.Keep)
	s.AgentTools = slices.Concat(s.AgentTools, b.AgentTools)
	s.NoSession = slices.Concat(s.NoSession, b.NoSession)
}

func (s *Source) compile() {
	if s.settings.Title == "" {
		s.settings.Title = s.settings.Name
	}
	s.rule1 = usageWords[s.Usage]
	s.classes = map[string]Class{}
	for _, key := range s.Keep {
		s.classes[key] = Fact
	}
	for i := range s.Roles {
		r := &s.Roles[i]
		r.role, r.id = roles[r.Role], i
		for _, key := range slices.Sorted(maps.Keys(r.Is)) {
			r.conditions = append(r.conditions, condition{key, r.Is[key]})
			s.classes[key] = Fact
		}
	}
	for f := range fieldWords {
		for _, name := range s.Keys[fieldWords[f].word] {
			if name == noMore {
				continue
			}
			attr, member, _ := strings.Cut(name, "#")
			s.keys[f] = append(s.keys[f], key{attr, member})
			if old, ok := s.classes[attr]; !ok || old == Drop {
				s.classes[attr] = fieldWords[f].class
			}
		}
	}
}

// reader reads decoded YAML into settings and notes what does not fit.
type reader struct {
	path string
	bad  []error
}

func (r *reader) read(v any, dst *Source) { r.value(r.path, v, reflect.ValueOf(&dst.settings).Elem()) }

func (r *reader) wrong(path, format string, args ...any) {
	r.bad = append(r.bad, fmt.Errorf(path+": "+format, args...))
}

func (r *reader) value(path string, v any, dst reflect.Value) {
	switch dst.Kind() {
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			r.wrong(path, "not a map")
			return
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			i := 0
			for i < dst.NumField() && dst.Type().Field(i).Tag.Get("yaml") != k {
				i++
			}
			if i == dst.NumField() || k == "" {
				r.wrong(path+"."+k, "no such key")
				continue
			}
			r.value(path+"."+k, m[k], dst.Field(i))
		}
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			r.wrong(path, "not a map")
			return
		}
		dst.Set(reflect.MakeMap(dst.Type()))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			e := reflect.New(dst.Type().Elem()).Elem()
			r.value(path+"."+k, m[k], e)
			dst.SetMapIndex(reflect.ValueOf(k), e)
		}
	case reflect.Slice:
		l, ok := v.([]any)
		if !ok {
			l = []any{v} // one alone
		}
		for i, v := range l {
			e := reflect.New(dst.Type().Elem()).Elem()
			r.value(path+"["+strconv.Itoa(i)+"]", v, e)
			dst.Set(reflect.Append(dst, e))
		}
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			r.wrong(path, "not true or false")
		}
		dst.SetBool(b)
	default:
		switch v.(type) {
		case string, bool, int, int64, float64:
			dst.SetString(fmt.Sprint(v))
		default:
			r.wrong(path, "not a text")
		}
	}
}

// timeOf reads a time: RFC 3339, or unix seconds, milliseconds, microseconds or nanoseconds, by their size.
func timeOf(v session.Value) int64 {
	if at, err := time.Parse(time.RFC3339Nano, v.Str()); err == nil && at.Year() > 1970 && at.Year() < 2262 {
		return at.UnixNano()
	}
	n, _ := v.Double()
	for _, unit := range []float64{1e9, 1e6, 1e3, 1} {
		if ns := n * unit; ns > 1e17 && ns < 9e18 { // 1973 to 2255
			return int64(ns)
		}
	}
	return 0
}
