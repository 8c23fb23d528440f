package backends_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// sources are two adapters' real output: a Go loop that holds the handles itself, and events of a phi-core agent.
var sources = map[string]func(*testing.T, *otelagent.Tracer){
	"Go loop": func(t *testing.T, tracer *otelagent.Tracer) { backends.Play(t.Context(), (*writer.Tracer)(tracer)) },
	"phi-core": func(t *testing.T, tracer *otelagent.Tracer) {
		f, err := os.Open(filepath.FromSlash("../../dialects/phi/testdata/phi-core-0.15.2/sub-agent-built-in.events.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rec := event.NewRecorder(tracer)
		for ev, err := range phi.Events(f) {
			if err != nil {
				t.Fatal(err)
			}
			rec.Record(t.Context(), ev)
		}
		rec.Close(t.Context())
	},
}

// sent returns the spans that a source makes, as OTLP has them.
func sent(t *testing.T, play func(*testing.T, *otelagent.Tracer), p *agenttest.Pipeline) []ptrace.Span {
	t.Helper()
	play(t, p.Tracer())
	var list []ptrace.Span
	for _, b := range p.OTLP() {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// Every key that a backend reads is on the spans on which it reads it, with what it wants to see there: by default
// or with captured content, as the table says. Without that it is not there, so the table claims no more than is needed.
func TestSpansCarryWhatBackendsRead(t *testing.T) {
	levels := map[bool]otelagent.Capture{false: otelagent.CaptureNone, true: otelagent.CaptureContent}
	for name, play := range sources {
		byContent := map[bool][]ptrace.Span{}
		for content, level := range levels {
			byContent[content] = sent(t, play, agenttest.New(t, otelagent.WithCapture(level)))
		}
		for _, b := range backends.Backends {
			for _, r := range b.Reads {
				with, of := carried(r, byContent[r.Content])
				switch {
				case of == 0 && name == "Go loop":
					t.Errorf("%s: %s: there is no %s", name, b.Name, r.On)
				case of == 0 || r.Some && name != "Go loop": // not everything happens in each, but in the loop it does
				case with == 0 || with < of && !r.Some:
					t.Errorf("%s: %s reads %s of %v on %s: %d of %d have it", name, b.Name, r.Column, r.Keys, r.On, with, of)
				}
				if r.Content {
					if with, _ := carried(r, byContent[false]); with > 0 {
						t.Errorf("%s: %s: %v is there without captured content", name, b.Name, r.Keys)
					}
				}
			}
		}
	}
}

// carried returns how many spans have what r reads, and of how many it reads it.
func carried(r backends.Read, list []ptrace.Span) (with, of int) {
	for _, s := range list {
		if r.On != "" && s.Name() != r.On || s.Name() == spans.SpanPayload {
			continue
		}
		of++
		found := 0
		for _, k := range r.Keys {
			if v, ok := s.Attributes().Get(string(k)); ok && v.AsString() != "" && (r.Value == "" || v.AsString() == r.Value) {
				found++
			}
		}
		if found == len(r.Keys) || r.Any && found > 0 {
			with++
		}
	}
	return with, of
}

// The keys are those of the registry, and docs/backends.md names every backend.
func TestKeysAndDocument(t *testing.T) {
	for _, b := range backends.Backends {
		for _, r := range b.Reads {
			for _, k := range r.Keys {
				if a, ok := spans.Lookup(k); !ok {
					t.Errorf("%s: %s is not in the registry", b.Name, k)
				} else if (a.Class == spans.ClassContent) != r.Content {
					t.Errorf("%s: %s is of class %v, content: %t", b.Name, k, a.Class, r.Content)
				}
			}
		}
	}
	const file = "../../docs/backends.md"
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends.Backends { // every backend of the table has its line of limits
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(l string) bool {
			return strings.HasPrefix(l,
				"| **"+b.Name)
		}) {
			t.Errorf("%s says nothing of what %s shows and cuts", file, b.Name)
		}
	}
}
