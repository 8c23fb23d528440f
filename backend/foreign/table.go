package foreign

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/backend/session"
)

//go:embed sources.yaml
var sourcesYAML []byte

// Table recognises records and maps them. It is immutable and safe for concurrent use.
type Table struct {
	sources []*Source // in the order in which they are asked
	raw     []any     // as they were read, the base of With
	byName  map[string]*Source
	byScope map[string]*Scope
	globs   []*Source // with patterns of scopes
	marks   map[string]Marks
	lengths [maxMark]uint64 // by the length of a mark: bits of its first byte
	none    Scope           // of scopes that no source claims
	version string
}

// maxMark bounds the length of a key that is a mark.
const maxMark = 96

// Default returns the table of sources.yaml.
func Default() *Table { return defaultTable() }

var defaultTable = sync.OnceValue(func() *Table {
	var file struct{ Sources []any }
	if err := yaml.Unmarshal(sourcesYAML, &file); err != nil {
		panic("foreign: sources.yaml: " + err.Error())
	}
	t, err := newTable(file.Sources)
	if err != nil {
		panic("foreign: sources.yaml: " + err.Error())
	}
	return t
})

// With returns a table with further sources in front, in the format of the list `sources` of sources.yaml. A source of
// a name that exists adds to that one: its keys and roles come first. Settings are decoded YAML. An error names every
// wrong key and value with its path.
func (t *Table) With(sources []any) (*Table, error) {
	if len(sources) == 0 {
		return t, nil
	}
	return newTable(slices.Concat(sources, t.raw))
}

func newTable(raw []any) (*Table, error) {
	t := &Table{raw: raw, byName: map[string]*Source{}, byScope: map[string]*Scope{}, marks: map[string]Marks{}}
	var bad []error
	var all []*Source
	for i, v := range raw {
		s := &Source{}
		r := reader{path: fmt.Sprintf("sources[%d]", i)}
		r.read(v, s)
		bad = append(bad, r.bad...)
		if r.bad == nil {
			bad = append(bad, s.check(r.path)...)
			all = append(all, s)
		}
	}
	if bad != nil {
		return nil, errors.Join(bad...)
	}
	for _, s := range all {
		if first := t.byName[s.settings.Name]; first != nil {
			first.add(s)
			continue
		}
		t.byName[s.settings.Name] = s
		t.sources = append(t.sources, s)
	}
	for _, s := range t.sources {
		for like, n := s.Like, 0; like != "" && n < len(t.sources); n++ {
			base := t.byName[like]
			if base == nil || base == s {
				return nil, fmt.Errorf("sources: %s.like: there is no other source %q", s.settings.Name, like)
			}
			s.add(base)
			like = base.Like
		}
	}
	if len(t.sources) > 64 {
		return nil, errors.New("sources: more than 64")
	}
	t.compile()
	return t, nil
}

func (t *Table) compile() {
	sum := sha256.New()
	for i, s := range t.sources {
		s.compile()
		fmt.Fprintf(sum, "%+v\n", s.settings)
		for _, key := range s.Marks {
			t.marks[key] |= 1 << i
			t.lengths[len(key)] |= 1 << (key[0] & 63)
		}
		for _, scope := range s.Scopes {
			if strings.HasSuffix(scope, "*") {
				t.globs = append(t.globs, s)
				continue
			}
			at := t.byScope[scope]
			if at == nil {
				at = &Scope{table: t}
				t.byScope[scope] = at
			}
			at.claimed = append(at.claimed, s)
		}
	}
	t.none.table = t
	t.version = hex.EncodeToString(sum.Sum(nil)[:8])
}

// Version names the rules: it changes when they do. Summaries keep it.
func (t *Table) Version() string { return rulesVersion + "-" + t.version }

// rulesVersion is the version of the rules in code. Increase it when Map changes.
const rulesVersion = "1"

// Source returns the source of a name, nil if there is none.
func (t *Table) Source(name string) *Source { return t.byName[name] }

// Scope recognises the records of one instrumentation scope.
type Scope struct {
	table   *Table
	claimed []*Source // that name the scope
}

// Scope returns the recogniser for a scope, by one look-up; it is never nil.
func (t *Table) Scope(name string) *Scope {
	if s := t.byScope[name]; s != nil {
		return s
	}
	for _, s := range t.globs {
		if slices.ContainsFunc(s.Scopes, func(p string) bool { return glob(p, name) }) {
			return &Scope{t, []*Source{s}}
		}
	}
	return &t.none
}

// Known reports whether a source claims the scope by its name.
func (s *Scope) Known() bool { return len(s.claimed) > 0 }

// Marks says which sources the keys of a record point to. Of several keys it is their Marks joined with |.
type Marks uint64

// Mark returns the marks of one key. It allocates nothing.
func (s *Scope) Mark(key string) Marks {
	t := s.table
	if len(key) >= maxMark || len(key) == 0 || t.lengths[len(key)]&(1<<(key[0]&63)) == 0 {
		return 0
	}
	return t.marks[key]
}

// Match decides from one record alone whether it is kept: from its name, the marks of its keys, and its attributes. The
// name of a log record is that of EventName. A source that claims the scope decides alone; else those that marks point
// to are asked, and for a log record and an event those of whose names it has the prefix. It allocates nothing if the
// record is not kept.
func (s *Scope) Match(sig Signal, name string, marks Marks, get Get) (Match, bool) {
	for _, src := range s.claimed {
		if r := src.rule(sig, name, get); r != nil {
			return src.match(get), true
		}
	}
	if s.claimed != nil || marks == 0 && sig == Span {
		return Match{}, false
	}
	for i, src := range s.table.sources {
		if marks&(1<<i) == 0 && (sig == Span || src.Prefix == "" || !strings.HasPrefix(name, src.Prefix)) {
			continue
		}
		if r := src.rule(sig, name, get); r != nil {
			return src.match(get), true
		}
	}
	return Match{}, false
}

// EventName returns the name of the event of a log record from its attribute event.name, its field and its body. The
// empty string stands for one that is no text.
func EventName(attr, field, body string) string { return cmp.Or(attr, field, body) }

// Match is a record that is kept.
type Match struct {
	// Session is the id that the record itself names; empty: it belongs to the session of its trace.
	Session string
	// Source is the one that recognised it.
	Source *Source
}

// Class returns how an attribute of the record is kept. Keys that no rule names are dropped. It allocates nothing.
func (m *Match) Class(key string) Class { return m.Source.classes[key] }

// Time returns the time of a log record that has none itself, from its attributes; 0 if they have none.
func (m *Match) Time(get Get) int64 {
	for _, key := range m.Source.Keys["time"] {
		if at := timeOf(get(key)); at > 0 {
			return at
		}
	}
	return 0
}

// match returns what is kept of a record with a role. The id of a session is a string: Codex has the number of a thread
// under the same key.
func (s *Source) match(get Get) Match {
	m := Match{Source: s}
	for _, key := range s.Keys["session"] {
		m.Session = get(key).Str()
		if slices.ContainsFunc(s.NoSession, func(p string) bool { return glob(p, m.Session) }) {
			m.Session = ""
		}
		if m.Session != "" {
			break
		}
	}
	for _, key := range s.Keys["response"] {
		if m.Session != "" && get(key).Str() == m.Session {
			m.Session = ""
		}
	}
	return m
}

// rule returns the first rule of the source for a record, nil if it has no role.
func (s *Source) rule(sig Signal, name string, get Get) *rule {
	short := strings.TrimPrefix(name, s.Prefix)
	for i := range s.Roles {
		if r := &s.Roles[i]; r.fits(sig, name, short, get) {
			if r.role == roleNone {
				return nil
			}
			return r
		}
	}
	return nil
}

func (r *rule) fits(sig Signal, name, short string, get Get) bool {
	if r.Signal == "" && sig == SpanEvent || r.Signal != "" && r.Signal != "any" && r.Signal != sig.String() {
		return false
	}
	named := len(r.Name) == 0
	for _, p := range r.Name {
		named = named || glob(p, short) || glob(p, name)
	}
	if !named {
		return false
	}
	for i := range r.conditions {
		if !r.conditions[i].holds(get(r.conditions[i].key)) {
			return false
		}
	}
	return true
}

// condition is that an attribute has one of some values, any with "*", and none with "".
type condition struct {
	key    string
	values []string
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
