package foreign

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
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
	marks   map[string]Marks
	version string
}

const maxSources = 64 // Marks has a bit for each

// Default returns the table of sources.yaml.
func Default() *Table { return defaultTable() }

var defaultTable = sync.OnceValue(func() *Table {
	var file struct{ Sources []any }
	err := yaml.Unmarshal(sourcesYAML, &file)
	t, bad := newTable(nil, file.Sources)
	if err = errors.Join(err, bad); err != nil {
		panic("foreign: sources.yaml: " + err.Error())
	}
	return t
})

// With returns a table with further sources in front, in the format of the list `sources` of sources.yaml. A source of
// a name that exists adds to that one: its keys and roles come first. Settings are decoded YAML. An error names every
// wrong key and value.
func (t *Table) With(sources []any) (*Table, error) {
	if len(sources) == 0 {
		return t, nil
	}
	return newTable(sources, t.raw)
}

// withRules are tables of rules that rows bring along.
var withRules, _ = lru.New[string, *Table](64) // it fails for no size only

// source returns the source of a row, nil if there is none. That of a row with rules of its own has these in front.
func (t *Table) source(row *session.Row) *Source {
	if rules := row.Attr(RulesKey).Str(); rules != "" {
		with, ok := withRules.Get(rules)
		if !ok {
			var own []any
			_ = json.Unmarshal([]byte(rules), &own)
			with, _ = Default().With(own)
			with = cmp.Or(with, Default()) // of another version
			withRules.Add(rules, with)
		}
		t = with
	}
	return t.byName[row.Attr(SourceKey).Str()]
}

// newTable returns the table of some settings and of the sources that follow them.
func newTable(own, base []any) (*Table, error) {
	t := &Table{raw: slices.Concat(own, base), byName: map[string]*Source{}, marks: map[string]Marks{}}
	list, bad := readSources(t.raw)
	for i := range list {
		s := &list[i]
		if i < len(own) {
			s.own = own[i : i+1]
		}
		if first := t.byName[s.Name]; first != nil {
			first.add(s)
			continue
		}
		t.byName[s.Name] = s
		t.sources = append(t.sources, s)
	}
	if len(t.sources) > maxSources {
		bad = append(bad, fmt.Errorf("sources: more than %d", maxSources))
	}
	for _, s := range t.sources {
		for like, n := s.Like, 0; like != "" && n < len(t.sources); n++ {
			base := t.byName[like]
			if base == nil || base == s {
				bad = append(bad, fmt.Errorf("sources: %s: there is no other source %q to be like", s.Name, like))
				break
			}
			s.add(base)
			like = base.Like
		}
	}
	if bad != nil {
		return nil, errors.Join(bad...)
	}
	for i, s := range t.sources {
		s.compile()
		for _, key := range s.Marks {
			t.marks[key] |= 1 << i
		}
	}
	sum := sha256.Sum256(fmt.Append(nil, t.raw))
	t.version = rulesVersion + "-" + hex.EncodeToString(sum[:8])
	return t, nil
}

// rulesVersion is the version of the rules in code. Increase it when Map changes.
const rulesVersion = "9"

// Version names the rules: it changes when they do. Summaries keep it.
func (t *Table) Version() string { return t.version }

// Source returns the source of a name, nil if there is none.
func (t *Table) Source(name string) *Source { return t.byName[name] }

// Marks is a set of sources of a table.
type Marks uint64

// Scope recognises the records of one instrumentation scope.
type Scope struct {
	table   *Table
	claimed Marks // by the name of the scope
}

// Scope returns the recogniser for a scope.
func (t *Table) Scope(name string) Scope {
	s := Scope{table: t}
	for i, src := range t.sources {
		if src.Scopes.match(name) {
			s.claimed |= 1 << i
		}
	}
	return s
}

// Known reports whether a source claims the scope by its name.
func (s Scope) Known() bool { return s.claimed != 0 }

// Mark returns the sources that one key of a record points to. For several keys join them with |. It allocates nothing.
func (s Scope) Mark(key string) Marks { return s.table.marks[key] }

// Match decides from one record alone whether it is kept: from its name, the marks of its keys, and its attributes. It
// returns the source that recognises it, nil if it is not kept, and the id of the session that the record itself names;
// without one it belongs to the session of its trace. Sources that claim the scope decide alone; else those that marks
// point to are asked, and for a log record and an event those of whose names it has the prefix. It allocates nothing if
// the record is not kept.
func (s Scope) Match(sig Signal, name string, marks Marks, get Get) (src *Source, session string) {
	for i, src := range s.table.sources {
		asked := s.claimed&(1<<i) != 0
		if s.claimed == 0 {
			asked = marks&(1<<i) != 0 || sig != Span && src.Prefix != "" && strings.HasPrefix(name, src.Prefix)
		}
		if asked && src.rule(sig, name, get) != nil {
			return src, src.session(get)
		}
	}
	return nil, ""
}

// session returns the id of the session that a record names. It is a string: Codex has the number of a thread under the
// same key. One that a reply also has is none.
func (s *Source) session(get Get) string {
	var id string
	for _, k := range s.keys["session"] {
		id = cmp.Or(id, get(k.attr).Str())
	}
	if slices.ContainsFunc(s.keys["response"], func(k key) bool { return get(k.attr).Str() == id }) {
		return ""
	}
	return id
}

// Class returns how an attribute of a record is kept. Keys that no rule names are dropped. It allocates nothing.
func (s *Source) Class(key string) Class { return s.classes[key] }

// Member returns the member that is kept of an attribute with content which is a JSON object with such a member; empty
// where the attribute is kept whole.
func (s *Source) Member(key string) string { return s.members[key] }

// Time returns the time of a log record that has none itself, from its attributes; 0 if they have none.
func (s *Source) Time(get Get) int64 {
	var at int64
	for _, k := range s.keys["time"] {
		at = cmp.Or(at, timeOf(get(k.attr)))
	}
	return at
}
