package adapter_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// scene uses handles. The tracer is the one to test, the caller another tracer of the same provider.
type scene func(ctx context.Context, tracer *writer.Tracer, caller api.Tracer)

// public is a scene that needs the public API alone.
func public(f func(context.Context, *otelagent.Tracer)) scene {
	return func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) { f(ctx, (*otelagent.Tracer)(tracer)) }
}

// traced returns the spans of a scene in the order of their ends.
func traced(t *testing.T, opts []otelagent.Option, f scene) tracetest.SpanStubs {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithExporter(&keptExporter{exp}), otelsetup.WithoutGlobal(),
		otelsetup.WithTenant("acme")))(t)
	opts = append(opts, nil, otelagent.WithTracerProvider(p.TracerProvider()))
	f(t.Context(), (*writer.Tracer)(otelagent.NewTracer(opts...)), p.TracerProvider().Tracer("caller"))
	must.Do(t, p.Shutdown(context.WithoutCancel(t.Context())))
	return exp.GetSpans()
}

var (
	capturing = otelagent.WithCapture(otelagent.CaptureContent)
	madeUp    = regexp.MustCompile(`^[A-Z2-7]{26}$`)
	// boilerplate are attributes of every span, and those that depend on the clock.
	boilerplate = []attribute.Key{spans.KindKey, spans.SchemaKey, spans.SeqKey, spans.EndSeqKey, spans.RunOrdinalFromKey,
		spans.TurnModelCallDurationKey, spans.OperationNameKey}
	// usual are values that say nothing new.
	usual = map[attribute.Key]string{spans.SessionIDKey: "s", spans.ConversationIDKey: "s", spans.RunIDKey: "r"}
)

// sketch writes spans as a tree without what differs from one run to the next: ids, and times that no caller stated.
func sketch(all tracetest.SpanStubs) string {
	names, traces, starts := map[api.SpanID]string{}, map[api.TraceID]int{}, map[int64]bool{}
	ids := map[string]string{}
	for _, s := range all {
		names[s.SpanContext.SpanID()] = s.Name
		starts[s.StartTime.UnixNano()] = true
	}
	at := func(t time.Time) string {
		if ms := t.Sub(stamp(0)); ms.Abs() < time.Hour {
			return ms.String()
		} else if time.Since(t).Abs() < 2*time.Hour {
			return "now"
		}
		return t.UTC().Format(time.DateOnly)
	}
	var b strings.Builder
	var under func(parent api.SpanID, indent string)
	under = func(parent api.SpanID, indent string) {
		children := slices.DeleteFunc(slices.Clone(all), func(s tracetest.SpanStub) bool {
			_, known := names[s.Parent.SpanID()]
			return s.Parent.SpanID() != parent && (known || parent.IsValid())
		})
		slices.SortStableFunc(children, func(x, y tracetest.SpanStub) int {
			return cmp.Or(x.StartTime.Compare(y.StartTime), cmp.Compare(intOf(x, spans.SeqKey), intOf(y, spans.SeqKey)))
		})
		for _, s := range children {
			if traces[s.SpanContext.TraceID()] == 0 {
				traces[s.SpanContext.TraceID()] = len(traces) + 1
			}
			trace := traces[s.SpanContext.TraceID()]
			fmt.Fprintf(&b, "%s%s, trace %d, %s to %s", indent, s.Name, trace, at(s.StartTime), at(s.EndTime))
			if _, known := names[s.Parent.SpanID()]; s.Parent.SpanID().IsValid() && !known {
				b.WriteString(", parent " + s.Parent.SpanID().String())
			}
			for _, l := range s.Links {
				b.WriteString(", link " + cmp.Or(names[l.SpanContext.SpanID()], l.SpanContext.SpanID().String()))
			}
			if s.Status.Code != codes.Unset {
				fmt.Fprintf(&b, ", %s (%s)", s.Status.Code, s.Status.Description)
			}
			if kind := strOf(s, spans.KindKey); kind != "" && kind != s.Name {
				b.WriteString(", kind " + kind)
			}
			b.WriteString("\n")
			for _, kv := range s.Attributes {
				text := printValue(kv)
				if slices.Contains(boilerplate, kv.Key) || kv.Key == spans.RunStartKey && starts[kv.Value.AsInt64()] ||
					usual[kv.Key] == text {
					continue
				}
				if madeUp.MatchString(text) {
					if ids[text] == "" {
						ids[text] = fmt.Sprint("made-", len(ids)+1)
					}
					text = ids[text]
				}
				fmt.Fprintf(&b, "%s  %s = %s\n", indent, kv.Key, text)
			}
			for _, e := range s.Events {
				for _, kv := range e.Attributes {
					fmt.Fprintf(&b, "%s  * %s %s\n", indent, kv.Key, strings.ReplaceAll(kv.Value.String(), "\n", `\n`))
				}
			}
			under(s.SpanContext.SpanID(), indent+"    ")
		}
	}
	under(api.SpanID{}, "")
	return b.String()
}

// TestHandles compares the spans of each scene with testdata/handles/spans.txtar.
func TestHandles(t *testing.T) {
	const file = "testdata/handles/spans.txtar"
	want := map[string]string{}
	if arc, err := txtar.ParseFile(file); err == nil {
		for _, f := range arc.Files {
			want[f.Name] = string(f.Data)
		}
	} else if !*update {
		t.Fatal(err)
	}
	var got txtar.Archive
	for _, c := range handles() {
		t.Run(c.name, func(t *testing.T) {
			text := sketch(traced(t, c.opts, c.play))
			got.Files = append(got.Files, txtar.File{Name: c.name, Data: []byte(text)})
			if diff := gocmp.Diff(want[c.name], text); diff != "" && !*update {
				t.Errorf("(-golden +got); go test -update writes it anew:\n%s", diff)
			}
		})
	}
	if *update {
		must.Do(t, os.WriteFile(file, txtar.Format(&got), 0o644))
	}
}

type handleCase struct {
	name string
	opts []otelagent.Option
	play scene
}

// handles are the scenes: one for each fact of the API that a caller relies on.
func handles() []handleCase {
	at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
	session := writer.RunInfo{SessionID: "s", ID: "r", Start: at(0)}
	own := otelagent.RunInfo{SessionID: "s", ID: "r"}
	content := []otelagent.Option{capturing}
	redacted := []otelagent.Option{capturing, otelagent.WithRedactor(&shout{})}
	return append(slices.Concat(roots(), failures()), []handleCase{
		{"the session of baggage, of the run outside", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			bag, _ := baggage.Parse("session.id=from-baggage")
			_, a := tracer.StartRun(baggage.ContextWithBaggage(ctx, bag), writer.RunInfo{ID: "a"})
			a.End(writer.RunResult{})
			ctx, b := tracer.StartRun(ctx, writer.RunInfo{ID: "b"})
			_, c := tracer.StartRun(ctx, writer.RunInfo{ID: "c"})
			c.End(writer.RunResult{})
			b.End(writer.RunResult{})
		}},
		{"a sub-agent is a child of its tool call", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			ctx, run := tracer.StartRun(writer.WithSource(ctx, &writer.Source{NewRoot: true}), session)
			ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Start: at(1)})
			ctx, tool := turn.StartTool(ctx, writer.ToolCall{ID: "call", Name: "researcher", Start: at(2)})
			_, sub := tracer.StartRun(ctx, writer.RunInfo{SessionID: "other", ID: "sub", Start: at(3)})
			sub.End(writer.RunResult{End: at(4)})
			tool.End(writer.ToolResult{ChildRunID: "sub", End: at(5)})
			turn.End(writer.TurnResult{End: at(6)})
			run.End(writer.RunResult{End: at(7)})
		}},
		{"a continuation is linked", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			_, run := tracer.StartRun(ctx, session)
			run.End(writer.RunResult{End: at(1)})
			_, run = tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r2", ParentID: "r", Start: at(2),
				Continuation: spans.ContinuationDefault})
			run.End(writer.RunResult{End: at(3)})
		}},
		{"ends before starts, and times that cannot be", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			far := func(year int) writer.Moment { return writer.Moment{Time: time.Date(year, 2, 3, 4, 5, 6, 7, time.UTC)} }
			for _, m := range [][2]writer.Moment{{at(10), at(5)}, {far(1), far(9999)}, {{Time: time.Now().Add(time.Hour)}, {}}} {
				_, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: m[0]})
				run.End(writer.RunResult{End: m[1]})
			}
		}},
		{"a span without length has 1 µs", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			ns := func(n int) writer.Moment { return writer.Moment{Time: stamp(10).Add(time.Duration(n))} }
			ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: ns(0)})
			for _, end := range []int{0, 1, 1000, -5} {
				_, turn := run.StartTurn(ctx, writer.TurnInfo{Start: ns(0)})
				turn.End(writer.TurnResult{End: ns(end)})
			}
			writer.Decide(ctx, run, writer.PermissionEvaluation{Start: ns(3), End: ns(3)})
			run.End(writer.RunResult{End: ns(5000)})
			tracer.StateFacts(ctx, writer.RunInfo{SessionID: "s"}, writer.Fact{Subject: "session", Key: "k", At: ns(0)})
		}},
		{"statuses", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			for _, status := range []spans.RunStatus{"", "rejected", "cancelled", "vetoed"} {
				ctx, run := tracer.StartRun(ctx, session)
				_, turn := run.StartTurn(ctx, writer.TurnInfo{Start: at(1)})
				_, tool := turn.StartTool(ctx, writer.ToolCall{Start: at(2)})
				switch status {
				case "":
					tool.End(writer.ToolResult{Outcome: spans.OutcomeDenied, End: at(3)})
					turn.End(writer.TurnResult{End: at(4)})
				default:
					tool.End(writer.ToolResult{End: closed(at(3))})
					turn.End(writer.TurnResult{Failed: true, Cancelled: true, End: at(4)})
				}
				run.End(writer.RunResult{Status: status, Error: "secret", End: at(5)})
			}
			_, run := tracer.StartRun(ctx, session)
			run.End(writer.RunResult{End: closed(at(6))})
		}},
		{"a group inside a tool call", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			ctx, run := tracer.StartRun(ctx, session)
			ctx, tool := run.StartTool(ctx, writer.ToolCall{ID: "call", Start: at(1)})
			ctx, group := tracer.StartGroup(ctx, writer.GroupInfo{SessionID: "s2", Members: []string{"m"}, Start: at(2)})
			ctx, m := tracer.StartRun(ctx, writer.RunInfo{ID: "m", Start: at(3)})
			_, sub := tracer.StartRun(ctx, writer.RunInfo{ID: "sub", Start: at(4)})
			sub.End(writer.RunResult{End: at(5)})
			m.End(writer.RunResult{End: at(5)})
			group.EndGroup(writer.GroupResult{End: at(6)})
			tool.End(writer.ToolResult{End: at(6)})
			run.End(writer.RunResult{End: at(7)})
		}},
		{"userinfo is taken off the configuration", []otelagent.Option{capturing},
			func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
				_, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: at(0),
					Config: []byte(`{"base_url":"https://me:secret@host/x?a@b","n":1.0}`)})
				run.End(writer.RunResult{End: at(1)})
			}},
		{"detailed names", []otelagent.Option{otelagent.WithSpanNames(true)},
			func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
				ctx, r := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "run-7", Agent: "coder", Start: at(0)})
				ctx, tn := r.StartTurn(ctx, writer.TurnInfo{Index: new(int64(3)), Model: "m", Start: at(1)})
				_, bash := tn.StartTool(ctx, writer.ToolCall{ID: "call-1", Name: "bash", Start: at(2)})
				writer.Decide(ctx, bash, writer.PermissionEvaluation{Action: spans.ActionDeny, Start: at(2), End: at(3)})
				allowed := writer.Ask(ctx, bash, writer.PermissionEvaluation{Action: spans.ActionAsk, Start: at(3)})
				allowed.End(writer.PermissionEvaluation{Action: spans.ActionAllow, End: at(4)})
				writer.Ask(ctx, bash, writer.PermissionEvaluation{Action: spans.ActionAsk, Start: at(4)}).End(
					writer.PermissionEvaluation{End: closed(at(5))})
				bash.End(writer.ToolResult{End: at(5)})
				_, nameless := tn.StartTool(ctx, writer.ToolCall{ID: "call-2", Start: at(6)})
				nameless.End(writer.ToolResult{End: at(7)})
				writer.Decide(ctx, tn, writer.PermissionEvaluation{Action: spans.ActionAllow, Target: spans.PermissionTargetInput,
					Start: at(7), End: at(8)})
				_, c := tn.StartCompaction(ctx, writer.Compaction{Start: at(8)})
				c.End(writer.CompactionResult{End: at(9)})
				tn.End(writer.TurnResult{End: at(10)})
				r.End(writer.RunResult{End: at(10)})
				_, g := tracer.StartGroup(context.Background(), writer.GroupInfo{SessionID: "s", Start: at(11)})
				g.EndGroup(writer.GroupResult{End: at(12)})
			}},
		{"what is no message has a view, redacted", redacted, summaries},
		{"no views with digests", []otelagent.Option{otelagent.WithCapture(otelagent.CaptureDigests)}, summaries},
		{"the zero TurnInfo is the next turn", nil, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			ctx, run := tracer.StartRun(ctx, session)
			for i, index := range []*int64{nil, nil, new(int64(5)), nil, new(int64(-1))} {
				_, turn := run.StartTurn(ctx, writer.TurnInfo{Index: index, Start: at(i)})
				turn.End(writer.TurnResult{End: at(i + 1)})
			}
			run.End(writer.RunResult{End: at(9)})
		}},
		{"counts that a compaction omits are unknown", nil, public(func(ctx context.Context, tracer *otelagent.Tracer) {
			ctx, run := tracer.StartRun(ctx, own)
			_, c := run.StartCompaction(ctx, otelagent.CompactionInfo{})
			c.End(otelagent.CompactionResult{MessagesAfter: new(int64(0))})
			run.End(otelagent.RunResult{})
		})},
		{"End replaces what Reply reported", content, public(func(ctx context.Context, tracer *otelagent.Tracer) {
			ctx, run := tracer.StartRun(ctx, own)
			reply := otelagent.TurnResult{Model: "m", StopReason: "tool_use", Usage: &otelagent.Usage{Input: 7, Output: 3},
				Output: &otelagent.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":"hello"}`)}}
			for _, end := range []otelagent.TurnResult{{}, {StopReason: "end_turn", Usage: &otelagent.Usage{Input: 8}}} {
				_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
				turn.Reply(reply)
				turn.End(end)
			}
			run.End(otelagent.RunResult{})
		})},
		{"a new root for one run", nil, func(ctx context.Context, tracer *writer.Tracer, caller api.Tracer) {
			ctx, span := caller.Start(ctx, "caller")
			for _, root := range []bool{false, true} {
				_, run := (*otelagent.Tracer)(tracer).StartRun(ctx, otelagent.RunInfo{SessionID: "s", ID: "r", NewRoot: root})
				run.End(otelagent.RunResult{})
			}
			span.End()
		}},
		{"the error of an attempt that was made again", content, public(func(ctx context.Context, tracer *otelagent.Tracer) {
			ctx, run := tracer.StartRun(ctx, own)
			_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
			turn.Request(otelagent.Request{Payload: []byte(`{"messages":[]}`)})
			turn.Discard(0, otelagent.TurnResult{Err: errors.New("529 overloaded"), Usage: &otelagent.Usage{Input: 3}})
			turn.Request(otelagent.Request{Attempt: 1, Payload: []byte(`{"messages":[]}`)})
			turn.End(otelagent.TurnResult{StopReason: "stop"})
			run.End(otelagent.RunResult{})
		})},
		{"a parsed request with provenance, and messages of a turn", []otelagent.Option{capturing},
			public(func(ctx context.Context, tracer *otelagent.Tracer) {
				req, _ := otelagent.ParseRequest([]byte(
					`{"model":"m","system":"Be brief.","max_tokens":9,"tools":[{"name":"bash"}],` +
						`"thinking":{"budget_tokens":1},"messages":[{"role":"user","content":"x"},{"role":"user","content":` +
						`[{"type":"tool_result","tool_use_id":"c1","content":"y"}]}]}`))
				req.Messages[0].Provenance = spans.Provenance{Kind: spans.ProvenanceSteering}
				ctx, run := tracer.StartRun(ctx, own)
				_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
				turn.Request(req)
				for _, m := range req.Messages {
					turn.AddMessage(m)
				}
				turn.End(otelagent.TurnResult{})
				run.End(otelagent.RunResult{})
			})},
	}...)
}

// roots are runs with every parent that a context and metadata can name.
func roots() (all []handleCase) {
	stated := []byte(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
	for _, tt := range []struct {
		name            string
		opts            []otelagent.Option
		newRoot, called bool
		metadata        []byte
	}{
		{name: "alone"},
		{name: "called", called: true},
		{name: "stated in metadata", metadata: stated},
		{name: "called, and stated in metadata", called: true, metadata: stated},
		{name: "called, a new root", newRoot: true, called: true, metadata: stated},
		{name: "called, a trace for each session", opts: []otelagent.Option{otelagent.WithSessionTrace()}, called: true},
		{name: "metadata that is no JSON", metadata: []byte(`{"traceparent"`)},
		{name: "a traceparent that is none", metadata: []byte(`{"traceparent":"00-0-0-0"}`)},
	} {
		play := func(ctx context.Context, tracer *writer.Tracer, caller api.Tracer) {
			ctx = writer.WithSource(ctx, &writer.Source{NewRoot: tt.newRoot})
			if tt.called {
				var span api.Span
				ctx, span = caller.Start(ctx, "caller")
				defer span.End()
			}
			_, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Metadata: tt.metadata})
			run.End(writer.RunResult{})
		}
		all = append(all, handleCase{"root: " + tt.name, tt.opts, play})
	}
	return all
}

// failures are every handle with the error of its result. An error that wraps context.Canceled is a cancellation. The
// text of an error is sent only with content, redacted and bounded.
func failures() (all []handleCase) {
	long := fmt.Errorf("SECRET %s", strings.Repeat("x", 300))
	content := []otelagent.Option{capturing, otelagent.WithRedactor(&shout{})}
	for _, tt := range []struct {
		name string
		opts []otelagent.Option
		err  error
	}{
		{"none", content, nil}, {"an error", content, long},
		{"a cancellation", content, fmt.Errorf("stopped: %w", context.Canceled)},
		{"an error without content", nil, long},
		{"an error with digests", []otelagent.Option{otelagent.WithCapture(otelagent.CaptureDigests)}, long},
	} {
		play := public(func(ctx context.Context, tracer *otelagent.Tracer) {
			own := otelagent.RunInfo{SessionID: "s", ID: "r"}
			runCtx, run := tracer.StartRun(ctx, own)
			turnCtx, turn := run.StartTurn(runCtx, otelagent.TurnInfo{})
			_, compaction := run.StartCompaction(turnCtx, otelagent.CompactionInfo{})
			compaction.End(otelagent.CompactionResult{Err: tt.err})
			callCtx, call := turn.StartTool(turnCtx, otelagent.ToolCall{ID: "c", Name: "bash"})
			turn.StartPermission(callCtx, "bash", "c").End(otelagent.Decision{Err: tt.err})
			call.End(otelagent.ToolResult{Err: tt.err})
			turn.End(otelagent.TurnResult{Err: tt.err})
			run.End(otelagent.RunResult{Err: tt.err})
			_, run = tracer.StartRun(ctx, own)
			run.End(otelagent.RunResult{Status: spans.RunStatusRejected, Err: tt.err})
		})
		all = append(all, handleCase{"failure: " + tt.name, tt.opts, play})
	}
	return all
}

// summaries has what GenAI views show of permissions, compactions and errors.
func summaries(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
	at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
	ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: at(0)})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{Start: at(1)})
	writer.Decide(ctx, turn, writer.PermissionEvaluation{Tool: "bash", Action: spans.ActionDeny, Pattern: "rm *",
		Source: spans.PermissionSourceProject, Reason: "SECRET", Wait: 1500 * time.Millisecond, Start: at(2), End: at(3)})
	_, c := turn.StartCompaction(ctx, writer.Compaction{
		MessagesBefore: new(int64(40)), InputTokens: new(int64(9000)), Start: at(4)})
	c.End(writer.CompactionResult{
		MessagesAfter: new(int64(6)), Reason: "full", Summary: []byte(`"The \"gist\""`), End: at(5)})
	turn.End(writer.TurnResult{Failed: true, Error: "overloaded", End: at(6),
		Output: &writer.Message{Raw: []byte(`{"role":"assistant","content":"Let me"}`)}})
	_, turn = run.StartTurn(ctx, writer.TurnInfo{Start: at(7)})
	turn.End(writer.TurnResult{Failed: true, Error: "overloaded", End: at(8)})
	_, turn = run.StartTurn(ctx, writer.TurnInfo{Start: at(9)})
	turn.End(writer.TurnResult{Failed: true, Error: "it \"broke\"", End: at(10), Output: &writer.Message{
		Raw: []byte(`{"role":"assistant","content":"Sorry, it \"broke\"."}`)}})
	run.End(writer.RunResult{End: at(11)})
}

// closed is an end that nobody reported.
func closed(at writer.Moment) writer.Moment {
	at.Closed = true
	return at
}
