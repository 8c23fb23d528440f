package foreign

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
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

const (
	maxMark    = 96 // bytes of a key that is a mark
	maxSources = 64 // Marks has a bit for each
)

// Default returns the table of sources.yaml.
func Default() *Table { return defaultTable() }

var defaultTable = sync.OnceValue(func() *Table {
	var file struct{ Sources []any }
	err := yaml.Unmarshal(sourcesYAML, &file)
	t, bad := newTable(file.Sources)
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
	return newTable(slices.Concat(sources, t.raw))
}

func newTable(raw []any) (*Table, error) {
	t := &Table{raw: raw, byName: map[string]*Source{}, byScope: map[string]*Scope{}, marks: map[string]Marks{}}
	t.none.table = t
	list, bad := readSources(raw)
	for i := range list {
		s := &list[i]
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
	sum := sha256.Sum256(fmt.Append(nil, raw))
	t.version = rulesVersion + "-" + hex.EncodeToString(sum[:8])
	return t, nil
}

// rulesVersion is the version of the rules in code. Increase it when Map changes.
const rulesVersion = "4"

// Version names the rules: it changes when they do. Summaries keep it.
func (t *Table) Version() string { return t.version }

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
		if s.Scopes.match(name) {
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

// Match decides from one record alone whether it is kept: from its name, the marks of its keys, and its attributes. A
// source that claims the scope decides alone; else those that marks point to are asked, and for a log record and an
// event those of whose names it has the prefix. It allocates nothing if the record is not kept.
func (s *Scope) Match(sig Signal, name string, marks Marks, get Get) (Match, bool) {
	asked := s.claimed
	if asked == nil && (marks != 0 || sig != Span) {
		asked = s.table.sources
	}
	for i, src := range asked {
		if s.claimed == nil && marks&(1<<i) == 0 &&
			(sig == Span || src.Prefix == "" || !strings.HasPrefix(name, src.Prefix)) {
			continue
		}
		if src.rule(sig, name, get) != nil {
			return src.match(get), true
		}
	}
	return Match{}, false
}

// Match is a record that is kept.
type Match struct {
	// Session is the id that the record itself names; empty: it belongs to the session of its trace.
	Session string
	// Source is the one that recognised it.
	Source *Source
}

// match returns what is kept of a record with a role. The id of a session is a string: Codex has the number of a thread
// under the same key. One that a reply also has is none.
func (s *Source) match(get Get) Match {
	for _, k := range s.keys["session"] {
		id := get(k.attr).Str()
		if id == "" || s.NoSession.match(id) {
			continue
		}
		if slices.ContainsFunc(s.keys["response"], func(k key) bool { return get(k.attr).Str() == id }) {
			break
		}
		return Match{id, s}
	}
	return Match{"", s}
}

// Class returns how an attribute of the record is kept. Keys that no rule names are dropped. It allocates nothing.
func (m *Match) Class(key string) Class { return m.Source.classes[key] }

// Time returns the time of a log record that has none itself, from its attributes; 0 if they have none.
func (m *Match) Time(get Get) int64 {
	for _, k := range m.Source.keys["time"] {
		if at := timeOf(get(k.attr)); at > 0 {
			return at
		}
	}
	return 0
}
