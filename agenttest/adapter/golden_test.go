package adapter_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// maxTurnAttributes bounds the attributes of a turn. A turn carries its own facts and its address; its run has the
// rest.
const maxTurnAttributes = 30

// TestGolden plays events into a Recorder and compares every byte of what its spans say. Each file of testdata names
// its input and the capture level in its first line: a fixture of the phi-core dialect, or `here` for events in the
// file itself.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			arc := must.Get(txtar.ParseFile(file))(t)
			events, opts := goldenInput(t, arc)
			all := played(t, bytes.NewReader(events), opts...)
			for _, s := range all {
				if n := len(s.Attributes); n > maxTurnAttributes && attr(s, spans.KindKey).AsString() == spans.SpanTurn {
					t.Errorf("turn %d has %d attributes, want at most %d", intOf(s, spans.TurnIndexKey), n, maxTurnAttributes)
				}
			}
			got := printSpans(all)
			i := slices.IndexFunc(arc.Files, func(f txtar.File) bool { return f.Name == "spans" })
			if i < 0 {
				arc.Files = append(arc.Files, txtar.File{Name: "spans"})
				i = len(arc.Files) - 1
			}
			if *update {
				arc.Files[i].Data = []byte(got)
				must.Do(t, os.WriteFile(file, txtar.Format(arc), 0o644))
				return
			}
			if diff := gocmp.Diff(string(arc.Files[i].Data), got); diff != "" {
				t.Errorf("spans differ (-golden +got); go test -update writes them anew:\n%s", diff)
			}
		})
	}
}

// goldenInput reads the first line of a golden file: `capture LEVEL events FILE`.
func goldenInput(t *testing.T, arc *txtar.Archive) ([]byte, []otelagent.Option) {
	t.Helper()
	line, _, _ := strings.Cut(string(arc.Comment), "\n")
	var level string
	var name string
	if _, err := fmt.Sscanf(line, "capture %s events %s", &level, &name); err != nil {
		t.Fatalf("first line %q: %v", line, err)
	}
	opts := []otelagent.Option{writer.WithDerivedIDs}
	if level == "content" {
		opts = append(opts, otelagent.WithCapture(otelagent.CaptureContent))
	}
	if name == "here" {
		for _, f := range arc.Files {
			if f.Name == "events.ndjson" {
				return f.Data, opts
			}
		}
		t.Fatal("no events.ndjson in the file")
	}
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "dialects", "phi", "testdata", filepath.FromSlash(name))))(t)
	return b, opts
}

// played sends phi-core events through a Recorder and returns its spans.
func played(t testing.TB, events io.Reader, opts ...otelagent.Option) tracetest.SpanStubs {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	keep := &keptExporter{InMemoryExporter: exp}
	p := must.Get(otelsetup.Setup(
		t.Context(),
		otelsetup.WithExporter(keep),
		otelsetup.WithBlocking(),
		otelsetup.WithoutGlobal(),
	))(t)
	rec := event.NewRecorder(otelagent.NewTracer(append(opts, otelagent.WithTracerProvider(p.TracerProvider()))...))
	text := must.Get(io.ReadAll(events))(t)
	var decoder input.Decoder = phi.NewDecoder()
	if input.Own(text) {
		decoder = ndjson.NewDecoder()
	}
	play.Lines(t, rec, decoder.Events(bytes.NewReader(text)))
	must.Do(t, p.Shutdown(context.WithoutCancel(t.Context())))
	return exp.GetSpans()
}

// keptExporter keeps its spans over a shutdown.
type keptExporter struct{ *tracetest.InMemoryExporter }

func (keptExporter) Shutdown(context.Context) error { return nil }

// printSpans writes spans as a tree, siblings in the order of their starts.
func printSpans(all tracetest.SpanStubs) string {
	children := map[api.SpanID][]tracetest.SpanStub{}
	known := map[api.SpanID]bool{}
	for _, s := range all {
		known[s.SpanContext.SpanID()] = true
	}
	for _, s := range all {
		parent := s.Parent.SpanID()
		if !known[parent] {
			parent = api.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var under func(parent api.SpanID, depth int)
	under = func(parent api.SpanID, depth int) {
		l := children[parent]
		slices.SortStableFunc(l, func(x, y tracetest.SpanStub) int {
			return cmp.Or(x.StartTime.Compare(y.StartTime), cmp.Compare(intOf(x, spans.SeqKey), intOf(y, spans.SeqKey)))
		})
		for _, s := range l {
			printSpan(&b, s, strings.Repeat("    ", depth))
			under(s.SpanContext.SpanID(), depth+1)
		}
	}
	under(api.SpanID{}, 0)
	return b.String()
}

func intOf(s tracetest.SpanStub, k attribute.Key) int64 {
	for _, kv := range s.Attributes {
		if kv.Key == k {
			return kv.Value.AsInt64()
		}
	}
	return 0
}

func printSpan(b *strings.Builder, s tracetest.SpanStub, indent string) {
	const clock = "2006-01-02T15:04:05.999999999Z"
	fmt.Fprintf(b, "%s%s %s trace %s span %s", indent, s.Name, s.SpanKind, s.SpanContext.TraceID(), s.SpanContext.SpanID())
	if s.Status.Code != codes.Unset {
		fmt.Fprintf(b, " %s (%s)", s.Status.Code, s.Status.Description)
	}
	fmt.Fprintf(b, "\n%s  %s to %s\n", indent, s.StartTime.UTC().Format(clock), s.EndTime.UTC().Format(clock))
	for _, l := range s.Links {
		fmt.Fprintf(b, "%s  link %s %s\n", indent, l.SpanContext.TraceID(), l.SpanContext.SpanID())
	}
	for _, kv := range s.Attributes {
		fmt.Fprintf(b, "%s  %s = %s\n", indent, kv.Key, printValue(kv))
	}
	for _, e := range s.Events {
		fmt.Fprintf(b, "%s  * %s %s\n", indent, e.Name, e.Time.UTC().Format(clock))
		for _, kv := range e.Attributes {
			fmt.Fprintf(b, "%s    %s = %s\n", indent, kv.Key, printValue(kv))
			if inLines(kv.Key) {
				for _, text := range kv.Value.AsStringSlice() {
					fmt.Fprintf(b, "%s      %s\n", indent, strings.ReplaceAll(text, "\n", "\n"+indent+"        "))
				}
			}
		}
	}
}

// inLines reports whether the strings of an attribute follow on lines of their own.
func inLines(k attribute.Key) bool {
	return k == spans.BlockBodiesKey || k == spans.BlockWithheldKey || k == spans.ListsKey
}

func printValue(kv attribute.KeyValue) string {
	if inLines(kv.Key) {
		return fmt.Sprint(len(kv.Value.AsStringSlice()))
	}
	return kv.Value.String()
}

// stamp makes a time: so many milliseconds into the day of the tests.
func stamp(ms int) time.Time { return time.UnixMilli(1_790_000_000_000 + int64(ms)).UTC() }
