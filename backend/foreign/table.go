package foreign

// Table recognises records and maps them. It is immutable and safe for concurrent use.
type Table struct{}

// Source is a program, library or convention that emits records.
type Source struct{ name string }

// Name returns the name of the source in sources.yaml, such as claude-code.
func (s *Source) Name() string { return s.name }

// Title returns how views name the source, such as Claude Code.
func (s *Source) Title() string { return s.name }

// Lacks returns what the source never reports, for views: phrases such as "permissions".
func (s *Source) Lacks() []string { return nil }

// Default returns the table of sources.yaml.
func Default() *Table { return &Table{} }

// With returns a table with further sources in front, in the format of the list `sources` of sources.yaml. A source of a
// name that exists adds to that one: its keys come first. Settings are decoded YAML. An error names every wrong key
// and value with its path.
func (t *Table) With(sources []any) (*Table, error) { return t, nil }

// Version names the rules: it changes when they do. Summaries keep it.
func (t *Table) Version() string { return "" }

// Source returns the source of a name, nil if there is none.
func (t *Table) Source(name string) *Source { return nil }

// Scope recognises the records of one instrumentation scope.
type Scope struct{}

// Scope returns the recogniser for a scope, by one look-up; it is never nil.
func (t *Table) Scope(name string) *Scope { return &Scope{} }

// Known reports whether a source claims the scope by its name.
func (s *Scope) Known() bool { return false }

// Marks says which sources the keys of a record point to. Of several keys it is their Marks joined with |.
type Marks uint64

// Mark returns the marks of one key. It allocates nothing.
func (s *Scope) Mark(key string) Marks { return 0 }

// Match decides from one record alone whether it is kept: from its name, the marks of its keys, and its attributes. The
// name of a log record is that of EventName. It allocates nothing if the record is not kept.
func (s *Scope) Match(sig Signal, name string, marks Marks, get Get) (Match, bool) {
	return Match{}, false
}

// EventName returns the name of the event of a log record from its attribute event.name, its field and its body. The
// empty string stands for one that is no text.
func EventName(attr, field, body string) string {
	switch {
	case attr != "":
		return attr
	case field != "":
		return field
	}
	return body
}

// Match is a record that is kept.
type Match struct {
	// Session is the id that the record itself names; empty: it belongs to the session of its trace.
	Session string
	// Source is the one that recognised it.
	Source *Source
}

// Class returns how an attribute of the record is kept. Keys that no rule names are dropped. It allocates nothing.
func (m *Match) Class(key string) Class { return Drop }

// Time returns the time of a log record that has none itself, from its attributes; 0 if they have none.
func (m *Match) Time(get Get) int64 { return 0 }
