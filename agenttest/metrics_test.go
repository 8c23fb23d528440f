package agenttest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
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

// closed is an end that nobody reported.
func closed(at writer.Moment) writer.Moment {
	at.Closed = true
	return at
}

// goLoop is a loop that has all there is to measure: two runs, one the other's sub-agent, retries, failures, refusals.
func goLoop(ctx context.Context, tracer *writer.Tracer) {
	ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Model: "opus",
		Provider: "anthropic", Start: at(0)})
	cost := 0.25
	{
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Start: at(0)})
		request := []byte(`{"messages":[{"role":"user","content":"What is there?"}]}`)
		turn.Request(writer.Request{At: at(0.5), Payload: request})
		turn.Discard(writer.DiscardedAttempt{At: at(1), Usage: &writer.Usage{Input: 7, Output: 7}})
		turn.Request(writer.Request{At: at(1), Attempt: 1, Payload: request})
		turn.Request(writer.Request{At: at(1), Attempt: 20, Payload: request}) // beyond what is kept
		turn.Reply(writer.TurnResult{End: at(4)})
		toolCtx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "bash", Type: "function",
			Args: []byte(`{"command":"ls"}`), Start: at(4)})
		writer.Decide(toolCtx, call, writer.PermissionEvaluation{Action: spans.ActionAllow, Source: "hook",
			Wait: 90 * time.Second, Start: at(4), End: at(4)})
		for range 33 {
			call.Progress("line", nil, at(4))
		}
		childCtx, child := tracer.StartRun(toolCtx, writer.RunInfo{ID: "r2", Agent: "searcher", Model: "haiku",
			Provider: "anthropic", Start: at(4.5)})
		_, childTurn := child.StartTurn(childCtx, writer.TurnInfo{Start: at(4.5)})
		childTurn.End(writer.TurnResult{End: at(5), Model: "haiku-2", ModelCall: 400 * time.Millisecond,
			FirstChunk: 30 * time.Millisecond,
			Usage:      &writer.Usage{Input: 5, Output: 2, CacheRead: 10, Rule: spans.UsageRuleExcludesCache}})
		child.End(writer.RunResult{End: at(5), Status: spans.RunStatusCancelled})
		call.End(writer.ToolResult{End: at(6), Result: []byte(`"main.go"`)})
		call.End(writer.ToolResult{End: at(7)}) // ends once
		turn.End(writer.TurnResult{End: at(7), Model: "opus-4-6", Provider: "anthropic", StopReason: "tool_use",
			Cost: &cost, Currency: "USD",
			Usage: &writer.Usage{Input: 1200, Output: 300, Reasoning: 40, CacheRead: 800, CacheWrite: 100}})
		turn.End(writer.TurnResult{End: at(9)})
	}
	{
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerContinuation, Start: at(7)})
		_, call := turn.StartTool(ctx, writer.ToolCall{ID: "c2", Name: "write_file", Start: at(8)})
		call.End(writer.ToolResult{End: at(8.5), Outcome: spans.OutcomeError, Error: "no such folder"})
		_, call = turn.StartTool(ctx, writer.ToolCall{ID: "c3", Name: "bash", Type: "function", Start: at(8)})
		writer.Decide(ctx, call, writer.PermissionEvaluation{Action: spans.ActionDeny, Source: spans.PermissionSourceProject,
			Start: at(8), End: at(8)})
		call.End(writer.ToolResult{End: at(8), Outcome: spans.OutcomeDenied})
		_, call = turn.StartTool(ctx, writer.ToolCall{ID: "c4", Name: "bash", Type: "function", Start: at(8)})
		call.End(writer.ToolResult{End: closed(at(9))})
		_, compaction := turn.StartCompaction(ctx, writer.Compaction{Trigger: "context_full",
			InputTokens: new(int64(90_000)), MessagesBefore: new(int64(40)), Start: at(9)})
		compaction.End(writer.CompactionResult{OutputTokens: new(int64(8_000)), MessagesAfter: new(int64(3)), End: at(9)})
		refused := false
		_, compaction = turn.StartCompaction(ctx, writer.Compaction{Trigger: "context_full", InputTokens: new(int64(1)),
			Start: at(9)})
		compaction.End(writer.CompactionResult{Applied: &refused, End: at(9)})
		turn.End(writer.TurnResult{End: at(10), Failed: true, Error: "overloaded"})
	}
	for range 4097 {
		run.AddMessage(writer.Message{Raw: []byte(`{"role":"user","content":"again"}`), Role: "user"})
	}
	run.End(writer.RunResult{End: at(11)})
	run.End(writer.RunResult{End: at(12)})
	_, left := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "s", ID: "r3", Agent: "coder",
		Start: at(12)})
	left.End(writer.RunResult{End: closed(at(13))})
	_, open := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "s", ID: "r4", Agent: "coder",
		Start: at(14)})
	_ = open // still active
}

// playFile plays a recording of any dialect, and measures it.
func playFile(t *testing.T, p *agenttest.Pipeline, path string, opts ...input.Settings) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	record(t, event.NewRecorder(p.Tracer(), event.WithReplayMetrics()), text, opts...)
}

// record plays an input of any dialect with rec, without its bad lines.
func record(t *testing.T, rec *event.Recorder, text []byte, opts ...input.Settings) {
	t.Helper()
	d, _, whole, err := dialects.Open(bytes.NewReader(text))
	must.Do(t, err)
	play.Lines(t, rec, d.New(opts...).Events(whole))
}

// The metrics of a loop in Go, and of a recording of each dialect, in each profile. What a profile does not have is
// in none.
func TestMetrics(t *testing.T) {
	cases := map[string]func(*testing.T, *agenttest.Pipeline){
		"go": func(t *testing.T, p *agenttest.Pipeline) { goLoop(t.Context(), (*writer.Tracer)(p.Tracer())) },
		// A run that nobody ends is aborted once, however often its recorder is closed, and is active no more.
		"aborted": func(t *testing.T, p *agenttest.Pipeline) {
			rec := event.NewRecorder(p.Tracer(), event.WithReplayMetrics())
			meta := event.Meta{Session: "s", Run: "r", Time: morning}
			rec.Record(t.Context(), &event.RunStarted{Meta: meta, RunInfo: writer.RunInfo{Agent: "coder"}})
			rec.Record(t.Context(), &event.TurnStarted{Meta: meta})
			rec.Record(t.Context(), &event.ToolStarted{Meta: meta, ToolCall: writer.ToolCall{ID: "c", Name: "bash"}})
			rec.Record(t.Context(), &event.ToolEnded{Meta: event.Meta{Session: "another", Time: morning}})
			rec.Close(t.Context())
			rec.Close(t.Context())
		},
	}
	for name, path := range map[string]string{
		"phi-core":    "phi/testdata/sample-session.ndjson",
		"clark-agent": "clark/testdata/sample.events.ndjson",
		"acp":         "acp/testdata/sample.ndjson",
		"guide":       "guide/testdata/session.jsonl",
		"otelagent":   "ndjson/testdata/examples.ndjson",
	} {
		cases[name] = func(t *testing.T, p *agenttest.Pipeline) {
			playFile(t, p, filepath.Join(repository, "dialects", filepath.FromSlash(path)), input.Settings{Session: "given"})
		}
	}
	seen := make(map[string]bool)
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			var got txtar.Archive
			for _, profile := range spans.Profiles() {
				p := agenttest.New(t, content, func(c *writer.Config) { c.MaxBlockBytes = 2000 },
					func(c *writer.Config) { c.Profile = profile })
				run(t, p)
				got.Files = append(got.Files, txtar.File{Name: string(profile), Data: []byte(p.MetricsText())})
				for _, m := range p.Metrics() {
					known, ok := spans.LookupMetric(m.Name)
					if !ok || !known.In(profile) || known.Unit != m.Unit || known.Brief != m.Description {
						t.Errorf("profile %s has metric %s (%s): %+v", profile, m.Name, m.Unit, known)
					}
					seen[m.Name] = true
					for _, p := range pointsOf(m) {
						for _, kv := range p.labels.ToSlice() {
							if !slices.Contains(known.Attributes, kv.Key) {
								t.Errorf("metric %s has a label %s that the registry does not give it", m.Name, kv.Key)
							}
						}
					}
				}
			}
			golden := filepath.Join("testdata", "metrics", name+".txtar")
			if *updateMetrics {
				must.Do(t, os.WriteFile(golden, txtar.Format(&got), 0o644))
			}
			want := must.Get(txtar.ParseFile(golden))(t)
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

// metricNamed returns a metric, and ends the test where there is none.
func metricNamed(t *testing.T, all []metricdata.Metrics, name string) metricdata.Metrics {
	t.Helper()
	i := slices.IndexFunc(all, func(m metricdata.Metrics) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no metric %s", name)
	}
	return all[i]
}

// A model that makes up ten thousand tools, and a host with as many of everything else, make 2,000 sets of labels of a
// metric, and every sample counts.
func TestCardinality(t *testing.T) {
	t.Parallel()
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
				ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: fmt.Sprint("s", i%7),
					Agent: name, Model: name, Provider: name})
				_, turn := run.StartTurn(ctx, writer.TurnInfo{})
				_, call := turn.StartTool(ctx, writer.ToolCall{ID: name, Name: name, Type: name})
				writer.Decide(ctx, call, writer.PermissionEvaluation{Action: spans.Action(name),
					Source: spans.PermissionSource(name)})
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
		values := map[attribute.KeyValue]bool{}
		perKey := map[attribute.Key]int{}
		for _, p := range pointsOf(m) {
			for _, kv := range p.labels.ToSlice() {
				if !values[kv] {
					values[kv] = true
					perKey[kv.Key]++
				}
			}
		}
		for key, n := range perKey {
			if n > 2000 {
				t.Errorf("%s: %d values of %s", m.Name, n, key)
			}
		}
	}
	calls := metricNamed(t, p.Metrics(), spans.MetricToolCalls)
	if got := sum(calls); got != float64(tools) {
		t.Errorf("%v tool calls counted of %d", got, tools)
	}
}

// point is one number of a metric, or the sum of a histogram, with its labels and the spans of its exemplars.
type point struct {
	labels    attribute.Set
	value     float64
	exemplars []exemplar
}

type exemplar struct{ trace, span string }

// pointsOf returns the points of a metric.
func pointsOf(m metricdata.Metrics) []point {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		return numbers(d.DataPoints)
	case metricdata.Sum[float64]:
		return numbers(d.DataPoints)
	case metricdata.Histogram[int64]:
		return histogram(d.DataPoints)
	case metricdata.Histogram[float64]:
		return histogram(d.DataPoints)
	}
	return nil
}

func numbers[N int64 | float64](points []metricdata.DataPoint[N]) (all []point) {
	for _, p := range points {
		all = append(all, point{p.Attributes, float64(p.Value), exemplarsOf(p.Exemplars)})
	}
	return all
}

func histogram[N int64 | float64](points []metricdata.HistogramDataPoint[N]) (all []point) {
	for _, p := range points {
		all = append(all, point{p.Attributes, float64(p.Sum), exemplarsOf(p.Exemplars)})
	}
	return all
}

func exemplarsOf[N int64 | float64](list []metricdata.Exemplar[N]) (all []exemplar) {
	for _, e := range list {
		all = append(all, exemplar{fmt.Sprintf("%x", e.TraceID), fmt.Sprintf("%x", e.SpanID)})
	}
	return all
}

// sum is the sum of all numbers of a metric.
func sum(m metricdata.Metrics) (sum float64) {
	for _, p := range pointsOf(m) {
		sum += p.value
	}
	return sum
}

// Sampling of the spans changes nothing of the metrics, and neither does it that there are no spans at all.
func TestMetricsWhateverIsSampled(t *testing.T) {
	measured := func(tracers trace.TracerProvider) (lines []string) {
		reader := sdkmetric.NewManualReader()
		goLoop(t.Context(), (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(tracers),
			otelagent.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))))
		var all metricdata.ResourceMetrics
		must.Do(t, reader.Collect(t.Context(), &all))
		for _, m := range all.ScopeMetrics[0].Metrics {
			if m.Name != spans.MetricDropped { // of notes on spans
				lines = append(lines, fmt.Sprint(m.Name, len(pointsOf(m)), sum(m)))
			}
		}
		return lines
	}
	want := measured(sdktrace.NewTracerProvider())
	if len(want) < 15 {
		t.Fatalf("%d metrics: %q", len(want), want)
	}
	never := sdktrace.WithSampler(sdktrace.NeverSample())
	for _, p := range []trace.TracerProvider{sdktrace.NewTracerProvider(never), noop.NewTracerProvider()} {
		if diff := cmp.Diff(want, measured(p)); diff != "" {
			t.Errorf("%T (-sampled +this):\n%s", p, diff)
		}
	}
}

// An exemplar of each sample leads to the span that it came from.
func TestExemplars(t *testing.T) {
	p := agenttest.New(t)
	tracer := (*writer.Tracer)(p.Tracer())
	runCtx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Start: at(0)})
	turnCtx, turn := run.StartTurn(runCtx, writer.TurnInfo{Start: at(0)})
	callCtx, call := turn.StartTool(turnCtx, writer.ToolCall{ID: "c", Name: "bash", Start: at(1)})
	call.End(writer.ToolResult{End: at(2)})
	turn.End(writer.TurnResult{End: at(3), Usage: &writer.Usage{Input: 5}})
	run.End(writer.RunResult{End: at(4)})
	for name, ctx := range map[string]context.Context{
		spans.MetricTurnTokens: turnCtx, spans.MetricTokenUsage: turnCtx, spans.MetricTurnDuration: turnCtx,
		spans.MetricToolDuration: callCtx, spans.MetricToolCalls: callCtx,
		spans.MetricRunTurns: runCtx, spans.MetricAgentDuration: runCtx,
	} {
		sc := trace.SpanContextFromContext(ctx)
		want := exemplar{sc.TraceID().String(), sc.SpanID().String()}
		for _, p := range pointsOf(metricNamed(t, p.Metrics(), name)) {
			if len(p.exemplars) == 0 || slices.ContainsFunc(p.exemplars, func(e exemplar) bool { return e != want }) {
				t.Errorf("%s: exemplars %v, want %v", name, p.exemplars, want)
			}
		}
	}
}

// A file gives no metrics unless asked, a session that was saved does not either, and a run that a fork copied never
// does.
func TestMetricsOfRecordings(t *testing.T) {
	live, asked := []input.Settings{{Live: true}}, []event.Option{event.WithReplayMetrics()}
	for _, tt := range []struct {
		name, run string
		input     []input.Settings
		options   []event.Option
		want      bool
	}{
		{name: "file"},
		{name: "file, asked", options: asked, want: true},
		{name: "pipe", input: live, want: true},
		{name: "ledger through a pipe", run: `,"recording":"ledger"`, input: live},
		{name: "ledger, asked", run: `,"recording":"ledger"`, options: asked, want: true},
		{name: "copied", run: `,"copied":true`, input: live},
		{name: "copied, asked", run: `,"copied":true`, options: asked},
	} {
		text := `{"type":"otelagent.run_started","ts":"2026-11-21T09:00:00Z","session":"s","run":"r"` + tt.run + "}\n" +
			reply("01", `{"input":5,"output":1}`) + "\n" +
			`{"type":"otelagent.run_ended","ts":"2026-11-21T09:01:00Z","run":"r","status":"completed"}` + "\n"
		p := agenttest.New(t)
		record(t, event.NewRecorder(p.Tracer(), tt.options...), []byte(text), tt.input...)
		if turns := p.Session().Runs[0].Turns; len(turns) != 1 || turns[0].Usage.Input != 5 {
			t.Errorf("%s: turns: %+v", tt.name, turns)
		}
		if got := p.MetricsText(); (got != "") != tt.want {
			t.Errorf("%s: metrics:\n%s", tt.name, got)
		}
	}
}
