package adapter_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// played returns the spans of the loop of package backends, in the order of their starts. They go through wrap.
func played(t *testing.T, wrap func(sdktrace.SpanExporter) sdktrace.SpanExporter,
	opts ...otelagent.Option) tracetest.SpanStubs {
	t.Helper()
	keep := tracetest.NewInMemoryExporter()
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(wrap(&keptExporter{keep})), otelsetup.WithBlocking(),
		otelsetup.WithoutGlobal())
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, otelagent.WithTracerProvider(p.TracerProvider()), writer.WithDerivedIDs)
	backends.Play(t.Context(), (*writer.Tracer)(otelagent.NewTracer(opts...)))
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := keep.GetSpans()
	slices.SortStableFunc(list, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), strings.Compare(a.Name, b.Name))
	})
	return list
}

func unchanged(e sdktrace.SpanExporter) sdktrace.SpanExporter { return e }

// ofOpenInference reports whether a key is one of OpenInference.
func ofOpenInference(kv attribute.KeyValue) bool {
	return strings.HasPrefix(string(kv.Key), "llm.") || slices.Contains([]attribute.Key{spans.OpenInferenceKindKey,
		spans.OpenInferenceAgentKey, spans.OpenInferenceToolKey, spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey,
		spans.OpenInferenceOutputKey, spans.OpenInferenceOutputTypeKey}, kv.Key)
}

// The keys of OpenInference on every span of a session, with content and without. The exporter adds them and changes
// nothing that is there without it.
func TestOpenInference(t *testing.T) {
	var b bytes.Buffer
	for _, level := range []otelagent.Capture{otelagent.CaptureContent, otelagent.CaptureDigests, otelagent.CaptureNone} {
		fmt.Fprintf(&b, "-- %s --\n", level)
		with := played(t, otelsetup.OpenInference, otelagent.WithCapture(level))
		for i, s := range with {
			fmt.Fprintln(&b, s.Name)
			for _, kv := range s.Attributes {
				if ofOpenInference(kv) {
					text := kv.Value.String()
					if len(text) > 300 {
						text = fmt.Sprintf("%.120s ... %s (%d bytes)", text, text[len(text)-60:], len(text))
					}
					fmt.Fprintf(&b, "    %s %s\n", kv.Key, strings.ReplaceAll(text, "\n", `\n`))
				}
			}
			with[i].Attributes = slices.DeleteFunc(s.Attributes, ofOpenInference)
		}
		without := played(t, unchanged, otelagent.WithCapture(level))
		if diff := gocmp.Diff(printSpans(without), printSpans(with)); diff != "" {
			t.Errorf("(-without +with):\n%s", diff)
		}
	}
	file := filepath.Join("testdata", "openinference.golden")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("keys differ (-golden +got); go test -update writes them anew:\n%s", diff)
	}
}
