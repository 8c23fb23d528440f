package inspect

import (
	"cmp"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
)

// Origin says which records of another program a session is made of.
type Origin struct {
	// Name is that of the program and of the signals, such as Claude Code logs.
	Name string `json:"name"`
	// Lacks names what the program never reports.
	Lacks []string `json:"lacks,omitempty"`
}

// OriginOf returns nil for a session of the events or spans of its own loop. Where several programs report a session it
// is that of the first run.
func OriginOf(s *session.Session) *Origin {
	for _, r := range s.Runs {
		if !r.Foreign() {
			continue
		}
		o := &Origin{Name: cmp.Or(r.Dialect, s.Dialect)}
		o.Name, o.Lacks = program(o.Name)
		o.Name += " " + string(r.Recording)
		return o
	}
	return nil
}

// program returns the name of the program whose records a dialect reads, and what it never reports.
func program(dialect string) (name string, lacks []string) {
	if source := foreign.Default().Source(dialect); source != nil {
		return cmp.Or(source.Title, dialect), source.Lacks
	}
	return dialect, nil
}
