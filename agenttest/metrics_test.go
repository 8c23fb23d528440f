package agenttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var updateMetrics = flag.Bool("update-metrics", false, "write testdata/metrics anew")

var morning = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// at is a time that a loop states.
func at(seconds float64) writer.Moment {
	return writer.Moment{Time: morning.Add(time.Duration(seconds * float64(time.Second)))}
}

// goLoop is a loop that has all there is to measure: two runs, one the other's sub-agent, retries, failures, refusals.
func goLoop(ctx context.Context, tracer *writer.Tracer) {
	ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Model: "opus", Provider: "anthropic", Start: at(0)})
	cost := 0.25
	{
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Start: at(0)})
		request := []byte(`{"messages":[{"role":"user","content":"What is there?"}]}`)
		turn.Request(writer.Request{At: at(0.5), Payload: request})
		turn.Discard(writer.DiscardedAttempt{At: at(1), Usage: &writer.Usage{Input: 7, Output: 7}})
		turn.Request(writer.Request{At: at(1), Attempt: 1, Payload: request})
		turn.Request(writer.Request{At: at(1), Attempt: 20, Payload: request}) // beyond what is kept
		turn.Replied(at(4))
		toolCtx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "bash", Type: "function", Args: []byte(`{"command":"ls"}`), Start: at(4)})
		call.Permission(toolCtx, writer.PermissionEvaluation{Action: spans.ActionAllow, Source: "hook", Wait: 90 * time.Second, Start: at(4), End: at(4)})
		for range 33 {
			call.Progress("line", nil, at(4))
		}
		childCtx, child := tracer.StartRun(toolCtx, writer.RunInfo{ID: "r2", Agent: "searcher", Model: "haiku", Provider: "anthropic", Start: at(4.5)})
		_, childTurn := child.StartTurn(childCtx, writer.TurnInfo{Start: at(4.5)})
		childTurn.End(writer.TurnResult{End: at(5), Model: "haiku-2", ModelCall: 400 * time.Millisecond, FirstChunk: 30 * time.Millisecond,
			Usage: &writer.Usage{Input: 5, Output: 2, CacheRead: 10, Rule: spans.UsageRuleExcludesCache}})
		child.End(writer.RunResult{End: at(5), Status: spans.RunStatusCancelled})
		call.End(writer.ToolResult{End: at(6), Result: []byte(`"main.go"`)})
		call.End(writer.ToolResult{End: at(7)}) // ends once
		turn.End(writer.TurnResult{End: at(7), Model: "opus-4-6", Provider: "anthropic", StopReason: "tool_use", Cost: &cost, Currency: "USD",
			Usage: &writer.Usage{Input: 1200, Output: 300, Reasoning: 40, CacheRead: 800, CacheWrite: 100}})
		turn.End(writer.TurnResult{End: at(9)})
	}
	{
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerContinuation, Start: at(7)})
		_, call := turn.StartTool(ctx, writer.ToolCall{ID: "c2", Name: "write_file", Start: at(8)})
		call.End(writer.ToolResult{End: at(8.5), Outcome: spans.OutcomeError, Error: "no such folder"})
		_, call = turn.StartTool(ctx, writer.ToolCall{ID: "c3", Name: "bash", Type: "function", Start: at(8)})
		call.Permission(ctx, writer.PermissionEvaluation{Action: spans.ActionDeny, Source: spans.PermissionSourceProject, Start: at(8), End: at(8)})
		call.End(writer.ToolResult{End: at(8), Outcome: spans.OutcomeDenied})
		_, call = turn.StartTool(ctx, writer.ToolCall{ID: "c4", Name: "bash", Type: "function", Start: at(8)})
		call.Close(at(9))
		_, compaction := turn.StartCompaction(ctx, writer.Compaction{Trigger: "context_full", InputTokens: new(int64(90_000)), MessagesBefore: new(int64(40)), Start: at(9)})
		compaction.End(writer.CompactionResult{OutputTokens: new(int64(8_000)), MessagesAfter: new(int64(3)), End: at(9)})
		refused := false
		_, compaction = turn.StartCompaction(ctx, writer.Compaction{Trigger: "context_full", InputTokens: new(int64(1)), Start: at(9)})
		compaction.End(writer.CompactionResult{Applied: &refused, End: at(9)})
		turn.End(writer.TurnResult{End: at(10), Failed: true, Error: "overloaded"})
	}
	for range 4097 {
		run.AddMessage(writer.Message{Raw: []byte(`{"role":"user","content":"again"}`), Role: "user"})
	}
	run.End(writer.RunResult{End: at(11)})
	run.End(writer.RunResult{End: at(12)})
	_, left := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "s", ID: "r3", Agent: "coder", Start: at(12)})
	left.Close(at(13))
	_, open := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "s", ID: "r4", Agent: "coder", Start: at(14)})
	_ = open // still active
}

// playFile plays a recording of any dialect, and measures it.
func playFile(t *testing.T, p *agenttest.Pipeline, path string, opts ...input.Option) {
	t.Helper()
	record(t, event.NewRecorder(p.Tracer(), event.WithReplayMetrics()), path, opts...)
}

// record plays a recording of any dialect with rec.
func record(t *testing.T, rec *event.Recorder, path string, opts ...input.Option) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, _, whole, err := dialects.Open(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for ev, err := range d.New(opts...).Events(whole) {
		var bad *input.LineError
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("%s: %v", path, err)
		}
		if err == nil {
			rec.Record(context.Background(), ev)
		}
	}
	rec.Close(context.Background())
}

// The metrics of a loop in Go, and of a recording of each dialect, in each profile. What a profile does not have is in none.
func TestMetrics(t *testing.T) {
	cases := map[string]func(*testing.T, *agenttest.Pipeline){
		"go": func(t *testing.T, p *agenttest.Pipeline) { goLoop(t.Context(), (*writer.Tracer)(p.Tracer())) },
	}
	for name, path := range map[string]string{
		"phi-core":    "phi/testdata/sample-session.ndjson",
		"clark-agent": "clark/testdata/sample.events.ndjson",
		"acp":         "acp/testdata/sample.ndjson",
		"guide":       "guide/testdata/session.jsonl",
		"otelagent":   "ndjson/testdata/examples.ndjson",
	} {
		cases[name] = func(t *testing.T, p *agenttest.Pipeline) {
			playFile(t, p, filepath.Join(repository, "dialects", filepath.FromSlash(path)), input.WithSession("given"))
		}
	}
	seen := make(map[string]bool)
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			var got txtar.Archive
			for _, profile := range spans.Profiles() {
				p := agenttest.New(t, content, func(c *writer.Config) { c.MaxBlockBytes = 2000 }, func(c *writer.Config) { c.Profile = profile })
				run(t, p)
				got.Files = append(got.Files, txtar.File{Name: string(profile), Data: []byte(p.MetricsText())})
				for _, m := range p.Metrics() {
					known, ok := spans.LookupMetric(m.Name)
					if !ok || !known.In(profile) || known.Unit != m.Unit || known.Brief != m.Description {
						t.Errorf("profile %s has metric %s (%s): %+v", profile, m.Name, m.Unit, known)
					}
					seen[m.Name] = true
					for key := range labelsOf(m) {
						if !slices.Contains(known.Attributes, key) {
							t.Errorf("metric %s has a label %s that the registry does not give it", m.Name, key)
						}
					}
				}
			}
			golden := filepath.Join("testdata", "metrics", name+".txtar")
			if *updateMetrics {
				if err := os.WriteFile(golden, txtar.Format(&got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := txtar.ParseFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(&got))); diff != "" {
				t.Errorf("-update-metrics writes it anew (-want +got):\n%s", diff)
			}
		})
	}
	for _, m := range spans.Metrics() {
		if !seen[m.Name] {
			t.Errorf("nothing here has the metric %s", m.Name)
		}
	}
}

// labelsOf returns the labels of a metric with their values.
func labelsOf(m metricdata.Metrics) map[attribute.Key]map[string]bool {
	all := make(map[attribute.Key]map[string]bool)
	for _, set := range setsOf(m) {
		for _, kv := range set.ToSlice() {
			if all[kv.Key] == nil {
				all[kv.Key] = make(map[string]bool)
			}
			all[kv.Key][kv.Value.AsString()] = true
		}
	}
	return all
}

func setsOf(m metricdata.Metrics) (sets []attribute.Set) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	return sets
}

// metricNamed returns a metric, and ends the test where there is none.
func metricNamed(t *testing.T, all []metricdata.Metrics, name string) metricdata.Metrics {
	t.Helper()
	i := slices.IndexFunc(all, func(m metricdata.Metrics) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no metric %s", name)
	}
	return all[i]
}

// Sampling of the spans changes nothing of the metrics, and neither does it that there are no spans at all. Captured
// bytes are those that are sent.
func TestMetricsWhateverIsSampled(t *testing.T) {
	measured := func(tracers trace.TracerProvider) string {
		reader := sdkmetric.NewManualReader()
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		goLoop(t.Context(), (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(tracers), otelagent.WithMeterProvider(meters))))
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, s := range all.ScopeMetrics {
			for _, m := range s.Metrics {
				if m.Name != spans.MetricDropped { // of notes on spans
					fmt.Fprintln(&b, m.Name, len(setsOf(m)), sumOf(m))
				}
			}
		}
		return b.String()
	}
	want := measured(sdktrace.NewTracerProvider())
	if n := strings.Count(want, "\n"); n < 15 {
		t.Fatalf("%d metrics:\n%s", n, want)
	}
	for name, p := range map[string]trace.TracerProvider{
		"unsampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())), "no SDK for spans": noop.NewTracerProvider(),
	} {
		if diff := cmp.Diff(want, measured(p)); diff != "" {
			t.Errorf("%s (-sampled +this):\n%s", name, diff)
		}
	}
}

// sumOf is the sum of all numbers of a metric.
func sumOf(m metricdata.Metrics) (sum float64) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			sum += float64(p.Value)
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			sum += p.Value
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			sum += float64(p.Sum)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			sum += p.Sum
		}
	}
	return sum
}

// An exemplar of each sample leads to the span that it came from.
func TestExemplars(t *testing.T) {
	p := agenttest.New(t)
	tracer := (*writer.Tracer)(p.Tracer())
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Start: at(0)})
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Start: at(0)})
	callCtx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c", Name: "bash", Start: at(1)})
	call.End(writer.ToolResult{End: at(2)})
	turn.End(writer.TurnResult{End: at(3), Usage: &writer.Usage{Input: 5}})
	run.End(writer.RunResult{End: at(4)})

	ids := map[string]string{
		spans.MetricTurnTokens: trace.SpanContextFromContext(ctx).SpanID().String(), spans.MetricTokenUsage: trace.SpanContextFromContext(ctx).SpanID().String(),
		spans.MetricTurnDuration: trace.SpanContextFromContext(ctx).SpanID().String(),
		spans.MetricToolDuration: trace.SpanContextFromContext(callCtx).SpanID().String(),
		spans.MetricToolCalls:    trace.SpanContextFromContext(callCtx).SpanID().String(),
		spans.MetricRunTurns:     "", spans.MetricAgentDuration: "",
	}
	for name, span := range ids {
		found := exemplarsOf(metricNamed(t, p.Metrics(), name))
		if len(found) == 0 {
			t.Errorf("%s has no exemplar", name)
		}
		for _, e := range found {
			if e.trace != trace.SpanContextFromContext(ctx).TraceID().String() || span != "" && e.span != span {
				t.Errorf("%s: exemplar of trace %s, span %s; want span %q of trace %s", name, e.trace, e.span, span, trace.SpanContextFromContext(ctx).TraceID())
			}
		}
	}
}

type exemplar struct{ trace, span string }

func exemplarsOf(m metricdata.Metrics) (found []exemplar) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			for _, e := range p.Exemplars {
				found = append(found, exemplar{fmt.Sprintf("%x", e.TraceID), fmt.Sprintf("%x", e.SpanID)})
			}
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			for _, e := range p.Exemplars {
				found = append(found, exemplar{fmt.Sprintf("%x", e.TraceID), fmt.Sprintf("%x", e.SpanID)})
			}
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			for _, e := range p.Exemplars {
				found = append(found, exemplar{fmt.Sprintf("%x", e.TraceID), fmt.Sprintf("%x", e.SpanID)})
			}
		}
	}
	return found
}

// A model that makes up ten thousand tools, and a host with as many of everything else, make 2,000 sets of labels of a
// metric, and every sample counts.
func TestCardinality(t *testing.T) {
	p := agenttest.New(t)
	tools := 10_000
	if testing.Short() {
		tools = 3000
	}
	var group sync.WaitGroup
	for part := range 4 { // from several goroutines
		group.Go(func() {
			for i := part; i < tools; i += 4 {
				name := fmt.Sprint("made-up-", i)
				ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: fmt.Sprint("s", i%7), Agent: name, Model: name, Provider: name})
				_, turn := run.StartTurn(ctx, writer.TurnInfo{})
				_, call := turn.StartTool(ctx, writer.ToolCall{ID: name, Name: name, Type: name})
				call.Permission(ctx, writer.PermissionEvaluation{Action: spans.Action(name), Source: spans.PermissionSource(name)})
				call.End(writer.ToolResult{Outcome: spans.Outcome(name)})
				cost := 1.0
				turn.End(writer.TurnResult{Model: name, Provider: name, Usage: &writer.Usage{}, Cost: &cost, Currency: name})
				_, c := run.StartCompaction(ctx, writer.Compaction{Kind: spans.CompactionKind(name), Trigger: name})
				c.End(writer.CompactionResult{})
				run.End(writer.RunResult{Status: spans.RunStatus(name)})
			}
		})
	}
	group.Wait()
	for _, m := range p.Metrics() {
		for key, values := range labelsOf(m) {
			if len(values) > 2000 {
				t.Errorf("%s: %d values of %s", m.Name, len(values), key)
			}
		}
	}
	calls := metricNamed(t, p.Metrics(), spans.MetricToolCalls)
	if got := sumOf(calls); got != float64(tools) {
		t.Errorf("%v tool calls counted of %d", got, tools)
	}
}

// A file gives no metrics unless asked, a session that was saved does not either, and a run that a fork copied never does.
func TestMetricsOfRecordings(t *testing.T) {
	lines := func(run string) string {
		return `{"type":"otelagent.run_started","ts":"2026-11-21T09:00:00Z","session":"s","run":"r"` + run + `}` + "\n" + reply("01", `{"input":5,"output":1}`) + "\n" +
			`{"type":"otelagent.run_ended","ts":"2026-11-21T09:01:00Z","run":"r","status":"completed"}` + "\n"
	}
	for _, tt := range []struct {
		name    string
		run     string
		input   []input.Option
		options []event.Option
		want    bool
	}{
		{name: "file"},
		{name: "file, asked", options: []event.Option{event.WithReplayMetrics()}, want: true},
		{name: "pipe", input: []input.Option{input.WithLive()}, want: true},
		{name: "ledger through a pipe", run: `,"recording":"ledger"`, input: []input.Option{input.WithLive()}},
		{name: "ledger, asked", run: `,"recording":"ledger"`, options: []event.Option{event.WithReplayMetrics()}, want: true},
		{name: "copied", run: `,"copied":true`, input: []input.Option{input.WithLive()}},
		{name: "copied, asked", run: `,"copied":true`, options: []event.Option{event.WithReplayMetrics()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.ndjson")
			if err := os.WriteFile(path, []byte(lines(tt.run)), 0o600); err != nil {
				t.Fatal(err)
			}
			p := agenttest.New(t)
			record(t, event.NewRecorder(p.Tracer(), tt.options...), path, tt.input...)
			if turns := p.Session().Runs[0].Turns; len(turns) != 1 || turns[0].Usage.Input != 5 {
				t.Fatalf("turns: %+v", turns)
			}
			if got := p.MetricsText(); (got != "") != tt.want {
				t.Errorf("metrics:\n%s", got)
			}
		})
	}
}

// A run that nobody ends counts as aborted, once, however often its recorder is closed, and is active no more.
func TestMetricsOfWhatNobodyEnds(t *testing.T) {
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer(), event.WithReplayMetrics())
	rec.Record(t.Context(), &event.RunStarted{Meta: event.Meta{Session: "s", Run: "r", Time: morning}, RunInfo: writer.RunInfo{Agent: "coder"}})
	rec.Record(t.Context(), &event.TurnStarted{Meta: event.Meta{Run: "r", Time: morning}})
	rec.Record(t.Context(), &event.ToolStarted{Meta: event.Meta{Run: "r", Time: morning}, ToolCall: writer.ToolCall{ID: "c", Name: "bash"}})
	rec.Record(t.Context(), &event.ToolEnded{Meta: event.Meta{Session: "another", Run: "", Time: morning}})
	rec.Close(t.Context())
	rec.Close(t.Context())
	const want = `gen_ai.invoke_agent.inference_calls, histogram of {inference_call}
  {gen_ai.agent.name="coder"} 1 samples, sum 1: 1 ≤1
gen_ai.invoke_agent.tool_calls, histogram of {tool_call}
  {gen_ai.agent.name="coder"} 1 samples, sum 1: 1 ≤1
otelagent.run.active, up-down counter of {run}
  {gen_ai.agent.name="coder"} 0
otelagent.run.turns, histogram of {turn}
  {gen_ai.agent.name="coder" otelagent.run.status="aborted"} 1 samples, sum 1: 1 ≤1
otelagent.tool.calls, counter of {tool_call}
  {gen_ai.agent.name="coder" gen_ai.tool.name="bash"} 1
otelagent.dropped, counter of {thing}
  {otelagent.dropped.kind="late"} 1
`
	if diff := cmp.Diff(want, p.MetricsText()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The key of tokens written to cache follows the profile, and both spellings are read.
func TestProfileOfSpans(t *testing.T) {
	for profile, key := range map[spans.Profile]attribute.Key{
		spans.Profile202608: spans.GenAIUsageCacheCreationKey, spans.Profile202610: spans.GenAIUsageCacheWriteKey, "unheard of": spans.GenAIUsageCacheCreationKey,
	} {
		p := agenttest.New(t, func(c *writer.Config) { c.Profile = profile })
		ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		turn.End(writer.TurnResult{Usage: &writer.Usage{Input: 10, CacheWrite: 3}})
		run.End(writer.RunResult{})
		sent := bytes.Join(p.OTLP(), nil)
		for _, k := range []attribute.Key{spans.GenAIUsageCacheCreationKey, spans.GenAIUsageCacheWriteKey} {
			if bytes.Contains(sent, []byte(k)) != (k == key) {
				t.Errorf("profile %s: %s is there: %t", profile, k, k != key)
			}
		}
		if got := p.Session().Runs[0].Turns[0].Usage.CacheWrite; got != 3 {
			t.Errorf("profile %s: %d tokens written to cache are read, want 3", profile, got)
		}
	}
	// Spans of others have the standard key alone.
	for _, key := range []attribute.Key{spans.GenAIUsageCacheCreationKey, spans.GenAIUsageCacheWriteKey} {
		p := agenttest.New(t)
		ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		trace.SpanFromContext(ctx).SetAttributes(key.Int64(4))
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
		if got := p.Session().Runs[0].Turns[0].Usage.CacheWrite; got != 4 {
			t.Errorf("%s: %d is read, want 4", key, got)
		}
	}
}

// No id and no content of any fixture is in any byte of metrics that is sent, with everything captured: not in a label,
// not in an exemplar.
func TestNoIDOrContentInMetrics(t *testing.T) {
	searched, spelled := 0, 0
	check := func(t *testing.T, path string, opts ...input.Option) {
		p := agenttest.New(t, content)
		playFile(t, p, path, opts...)
		sent := exportedMetrics(t, p)
		secret, public := wordsOf(t, p.OTLP())
		for word := range public {
			if bytes.Contains(sent, []byte(word)) {
				spelled++
			}
		}
		known := strings.Join(slices.Collect(maps.Keys(public)), "\n") + registryText()
		for word := range secret {
			if len(word) < 6 || strings.Contains(known, word) {
				continue
			}
			searched++
			if bytes.Contains(sent, []byte(word)) {
				t.Errorf("is sent: %q", word)
			}
		}
	}
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.ndjson")
			if err := os.WriteFile(path, f.Events, 0o600); err != nil {
				t.Fatal(err)
			}
			check(t, path)
		})
	}
	for _, path := range foreignFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { check(t, path, input.WithSession("given-session")) })
	}
	t.Logf("%d values were searched for; %d names were found", searched, spelled)
	if searched < 2000 || spelled < 100 {
		t.Errorf("%d values were searched for and %d names found: the test is blind", searched, spelled)
	}
}

// registryText is everything that stands in metrics whatever happens.
func registryText() string {
	var b strings.Builder
	for _, m := range spans.Metrics() {
		fmt.Fprintln(&b, m.Name, m.Unit, m.Brief, m.Attributes)
	}
	return b.String() + writer.ScopeName
}

// exportedMetrics returns the metrics of p as they go over OTLP.
func exportedMetrics(t *testing.T, p *agenttest.Pipeline) (sent []byte) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	exporter, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(server.URL+"/v1/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(exporter.Export(t.Context(), &metricdata.ResourceMetrics{
		Resource:     resource.Empty(),
		ScopeMetrics: []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: writer.ScopeName}, Metrics: p.Metrics()}},
	}), exporter.Shutdown(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// wordsOf returns the strings on spans that are ids or content, with those inside of content that is JSON, and those that are names.
func wordsOf(t *testing.T, otlp [][]byte) (secret, public map[string]bool) {
	t.Helper()
	secret, public = make(map[string]bool), make(map[string]bool)
	take := func(kv *commonpb.KeyValue) {
		known, ok := spans.Lookup(attribute.Key(kv.Key))
		if !ok {
			return
		}
		for _, v := range append([]*commonpb.AnyValue{kv.Value}, kv.Value.GetArrayValue().GetValues()...) {
			text := v.GetStringValue()
			switch known.Class {
			case spans.ClassName, spans.ClassEnum:
				public[text] = true
			case spans.ClassID, spans.ClassContent:
				secret[text] = true
				var body any
				if json.Unmarshal([]byte(text), &body) == nil {
					contentOf(body, secret, make(map[string]bool), false)
				}
			}
		}
	}
	for _, request := range otlp {
		var got coltracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(request, &got); err != nil {
			t.Fatal(err)
		}
		for _, r := range got.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					for _, kv := range span.Attributes {
						take(kv)
					}
					for _, e := range span.Events {
						for _, kv := range e.Attributes {
							take(kv)
						}
					}
				}
			}
		}
	}
	delete(public, "")
	return secret, public
}
