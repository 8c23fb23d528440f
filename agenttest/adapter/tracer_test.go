package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// traced runs f with a tracer and another tracer of the same provider, and returns the spans by name.
func traced(t *testing.T, opts []otelagent.Option, f func(*writer.Tracer, api.Tracer)) map[string][]tracetest.SpanStub {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(&keptExporter{exp}), otelsetup.WithoutGlobal(),
		otelsetup.WithTenant("acme"))
	if err != nil {
		t.Fatal(err)
	}
	f((*writer.Tracer)(otelagent.NewTracer(append(opts, nil, otelagent.WithTracerProvider(p.TracerProvider()))...)),
		p.TracerProvider().Tracer("caller"))
	if err := p.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	out := map[string][]tracetest.SpanStub{}
	for _, s := range exp.GetSpans() {
		out[s.Name] = append(out[s.Name], s)
	}
	return out
}

func attrOf(s tracetest.SpanStub, k attribute.Key) (attribute.Value, bool) {
	for _, kv := range s.Attributes {
		if kv.Key == k {
			return kv.Value, true
		}
	}
	return attribute.Value{}, false
}

func strOf(s tracetest.SpanStub, k attribute.Key) string {
	v, _ := attrOf(s, k)
	return v.AsString()
}

const aTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestRoots(t *testing.T) {
	metadata := []byte(`{"traceparent":"` + aTraceparent + `"}`)
	for _, tt := range []struct {
		name     string
		opts     []otelagent.Option
		newRoot  bool
		caller   bool
		metadata []byte
		parent   string // caller, stated or none
		links    []string
	}{
		{name: "alone", parent: "none"},
		{name: "caller", caller: true, parent: "caller"},
		{name: "stated in metadata", metadata: metadata, parent: "stated"},
		{name: "caller before metadata", caller: true, metadata: metadata, parent: "caller", links: []string{"stated"}},
		{name: "new root", newRoot: true, caller: true, metadata: metadata,
			parent: "none", links: []string{"caller", "stated"}},
		{name: "session trace", opts: []otelagent.Option{writer.WithSessionTrace}, caller: true,
			parent: "none", links: []string{"caller"}},
		{name: "metadata that is no JSON", metadata: []byte(`{"traceparent"`), parent: "none"},
		{name: "a traceparent that is none", metadata: []byte(`{"traceparent":"00-0-0-0"}`), parent: "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := map[string]string{"b7ad6b7169203331": "stated", "0000000000000000": "none"}
			got := traced(t, tt.opts, func(tracer *writer.Tracer, caller api.Tracer) {
				ctx := writer.WithSource(t.Context(), &writer.Source{NewRoot: tt.newRoot})
				if tt.caller {
					var span api.Span
					ctx, span = caller.Start(ctx, "caller")
					defer span.End()
					names[span.SpanContext().SpanID().String()] = "caller"
				}
				_, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", Metadata: tt.metadata})
				run.End(writer.RunResult{})
			})
			run := got[spans.SpanRun][0]
			if parent := names[run.Parent.SpanID().String()]; parent != tt.parent {
				t.Errorf("parent is %q, want %q", parent, tt.parent)
			}
			var links []string
			for _, l := range run.Links {
				links = append(links, names[l.SpanContext.SpanID().String()])
			}
			if strings.Join(links, " ") != strings.Join(tt.links, " ") {
				t.Errorf("links %v, want %v", links, tt.links)
			}
		})
	}
}

func TestSessionIsFoundInContext(t *testing.T) {
	member, err := baggage.NewMember(string(spans.SessionIDKey), "from-baggage")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		_, a := tracer.StartRun(baggage.ContextWithBaggage(t.Context(), bag), writer.RunInfo{ID: "a"})
		a.End(writer.RunResult{})
		ctx, b := tracer.StartRun(t.Context(), writer.RunInfo{ID: "b"})
		_, c := tracer.StartRun(ctx, writer.RunInfo{ID: "c"})
		c.End(writer.RunResult{})
		b.End(writer.RunResult{})
	})
	byID := map[string]tracetest.SpanStub{}
	for _, s := range got[spans.SpanRun] {
		byID[strOf(s, spans.RunIDKey)] = s
	}
	if id := strOf(byID["a"], spans.ConversationIDKey); id != "from-baggage" {
		t.Errorf("session of a is %q", id)
	}
	if strOf(byID["b"], spans.SessionIDKey) == "" || strOf(byID["b"], spans.SessionIDKey) != strOf(byID["c"], spans.SessionIDKey) {
		t.Error("a run inside another one is not in its session")
	}
	for _, id := range []string{"b", "c"} {
		if v, _ := attrOf(byID[id], spans.SessionMadeUpKey); !v.AsBool() {
			t.Errorf("the session of %s is not marked as generated", id)
		}
		if _, there := attrOf(byID[id], spans.ConversationIDKey); there {
			t.Errorf("%s carries a generated conversation id", id)
		}
	}
}

func TestSubAgentIsChildOfItsToolCall(t *testing.T) {
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(writer.WithSource(t.Context(), &writer.Source{NewRoot: true}), writer.RunInfo{SessionID: "s", ID: "r"})
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		ctx, tool := turn.StartTool(ctx, writer.ToolCall{ID: "call", Name: "researcher"})
		_, sub := tracer.StartRun(ctx, writer.RunInfo{SessionID: "other", ID: "sub"})
		sub.End(writer.RunResult{})
		tool.End(writer.ToolResult{ChildRunID: "sub"})
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	})
	sub := got[spans.SpanRun][0]
	if want := got[spans.SpanToolCall][0].SpanContext.SpanID(); sub.Parent.SpanID() != want {
		t.Error("the sub-agent is no child of its tool call")
	}
	for k, want := range map[attribute.Key]string{
		spans.RunParentIDKey: "r", spans.RunParentSessionIDKey: "s", spans.RunParentToolCallIDKey: "call",
	} {
		if v := strOf(sub, k); v != want {
			t.Errorf("%s = %q, want %q", k, v, want)
		}
	}
}

func TestContinuationIsLinked(t *testing.T) {
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		for i, id := range []string{"r1", "r2"} {
			info := writer.RunInfo{SessionID: "s", ID: id}
			if i == 1 {
				info.ParentID, info.Continuation = "r1", spans.ContinuationDefault
			}
			_, run := tracer.StartRun(t.Context(), info)
			run.End(writer.RunResult{})
		}
	})[spans.SpanRun]
	if l := got[1].Links; len(l) != 1 || l[0].SpanContext.SpanID() != got[0].SpanContext.SpanID() {
		t.Errorf("links %v, want one to the run that it continues", l)
	}
	for i, s := range got {
		if n := intOf(s, spans.RunOrdinalKey); n != int64(i+1) {
			t.Errorf("ordinal %d, want %d", n, i+1)
		}
	}
}

// Ids that hold the byte between the fields of an address do not come to the ids of another address.
func TestDerivedIDsOfNames(t *testing.T) {
	type ids struct {
		trace api.TraceID
		span  api.SpanID
	}
	met := map[ids]bool{}
	for _, name := range [][2]string{{"a\x00b", "c"}, {"a", "b\x00c"}, {"a\x00", "b\x00c"}, {"a", "\x00b\x00c"}} {
		all := traced(t, []otelagent.Option{writer.WithDerivedIDs}, func(tracer *writer.Tracer, _ api.Tracer) {
			_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: name[0], ID: name[1], Start: writer.Moment{Time: stamp(0)}})
			run.End(writer.RunResult{End: writer.Moment{Time: stamp(1)}})
		})
		for _, s := range all[spans.SpanRun] {
			id := ids{s.SpanContext.TraceID(), s.SpanContext.SpanID()}
			if met[id] {
				t.Errorf("session %q, run %q has the ids of another", name[0], name[1])
			}
			met[id] = true
		}
	}
	if len(met) != 4 {
		t.Errorf("%d runs", len(met))
	}
}

func TestDerivedIDsAreTheSameEachTime(t *testing.T) {
	record := func(opts ...otelagent.Option) (ids []string, trace string) {
		all := traced(t, append([]otelagent.Option{writer.WithDerivedIDs}, opts...), func(tracer *writer.Tracer, caller api.Tracer) {
			at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
			ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Start: at(0)})
			for i := range 3 { // the same index twice
				tctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i / 2)), Start: at(10 * i)})
				for range 2 { // the same call id twice
					cctx, tool := turn.StartTool(tctx, writer.ToolCall{ID: "c", Start: at(10*i + 1)})
					tool.Permission(cctx, writer.PermissionEvaluation{Start: at(2), End: at(3)})
					_, foreign := caller.Start(cctx, "foreign")
					foreign.End()
					tool.End(writer.ToolResult{End: at(10*i + 2)})
				}
				_, c := turn.StartCompaction(tctx, writer.Compaction{Start: at(10 * i)})
				c.End(writer.CompactionResult{End: at(10 * i)})
				turn.End(writer.TurnResult{End: at(10*i + 5)})
			}
			run.End(writer.RunResult{End: at(100)})
		})
		seen := map[api.SpanID]bool{}
		for name, l := range all {
			for _, s := range l {
				if seen[s.SpanContext.SpanID()] {
					t.Errorf("two spans of one id, one of them %s", name)
				}
				seen[s.SpanContext.SpanID()] = true
				if name != "foreign" {
					ids = append(ids, name+s.SpanContext.SpanID().String())
				}
				trace = s.SpanContext.TraceID().String()
			}
		}
		return ids, trace
	}
	a, ta := record()
	b, tb := record()
	_, whole := record(writer.WithDerivedIDs, writer.WithSessionTrace)
	if len(a) != 19 || ta != tb {
		t.Errorf("%d spans in trace %s, then trace %s", len(a), ta, tb)
	}
	have := map[string]bool{}
	for _, id := range a {
		have[id] = true
	}
	for _, id := range b {
		if !have[id] {
			t.Errorf("%s is new the second time", id)
		}
	}
	// spans/README.md: SHA-256("trace" 0 tenant 0 session 0 run id 0 run start), computed with sha256sum.
	if want := "85e64c63e5ba63145b30b98753d3e230"; ta != want {
		t.Errorf("trace id %s, want %s", ta, want)
	}
	if want := "a60471d7fb283d36878c2f3b531089ee"; whole != want {
		t.Errorf("trace id of the session %s, want %s", whole, want)
	}
}

func TestEndBeforeStart(t *testing.T) {
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{Start: writer.Moment{Time: stamp(10)}})
		run.End(writer.RunResult{End: writer.Moment{Time: stamp(5)}})
		_, run = tracer.StartRun(t.Context(), writer.RunInfo{Start: writer.Moment{Time: time.Date(1, 2, 3, 4, 5, 6, 7, time.UTC)}})
		run.End(writer.RunResult{End: writer.Moment{Time: time.Date(9999, 2, 3, 4, 5, 6, 7, time.UTC)}})
	})[spans.SpanRun]
	for _, s := range got {
		if s.EndTime.Before(s.StartTime) || strOf(s, spans.EndTimeKey) != string(spans.TimeSourceBound) {
			t.Errorf("%v to %v, end %q", s.StartTime, s.EndTime, strOf(s, spans.EndTimeKey))
		}
		if n := intOf(s, spans.RunStartKey); n != s.StartTime.UnixNano() || n <= 0 {
			t.Errorf("run start %d, span start %d", n, s.StartTime.UnixNano())
		}
	}
}

// A span without length has 1 µs on the wire and says so; others keep their times to the nanosecond.
func TestInstant(t *testing.T) {
	at := func(n int) writer.Moment { return writer.Moment{Time: stamp(10).Add(time.Duration(n))} }
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Start: at(0)})
		for i, end := range []int{0, 1, 1000, -5} {
			_, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i)), Start: at(0)})
			turn.End(writer.TurnResult{End: at(end)})
		}
		run.Permission(ctx, writer.PermissionEvaluation{Start: at(3), End: at(3)})
		run.End(writer.RunResult{End: at(5000)})
		tracer.StateFacts(t.Context(), writer.SessionInfo{SessionID: "s"}, writer.Fact{Subject: "session", Key: "k", At: at(0)})
	})
	check := func(name string, want ...string) {
		t.Helper()
		var length []string
		for _, s := range got[name] {
			instant, _ := attrOf(s, spans.InstantKey)
			length = append(length, fmt.Sprint(s.EndTime.Sub(s.StartTime), instant.AsBool()))
		}
		if diff := cmp.Diff(want, length); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check(spans.SpanTurn, "1µs true", "1ns false", "1µs false", "1µs true")
	check(spans.SpanPermission, "1µs true")
	check(spans.SpanRun, "5µs false")
	check(spans.SpanPayload, "1µs true")
}

func TestStatus(t *testing.T) {
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		for _, status := range []spans.RunStatus{"", spans.RunStatusRejected, spans.RunStatusError, spans.RunStatusCancelled, spans.RunStatusVetoed} {
			ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			_, tool := turn.StartTool(ctx, writer.ToolCall{})
			switch status {
			case "":
				tool.End(writer.ToolResult{Outcome: spans.OutcomeDenied})
				turn.End(writer.TurnResult{})
			case spans.RunStatusRejected:
				tool.End(writer.ToolResult{Outcome: spans.OutcomeError, Error: "secret"})
				turn.End(writer.TurnResult{Failed: true, Error: "secret"})
			default:
				tool.Close(writer.Moment{})
				turn.End(writer.TurnResult{Failed: true, Cancelled: true})
			}
			run.End(writer.RunResult{Status: status, Error: "secret"})
		}
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		run.Close(writer.Moment{})
	})
	check := func(name string, want ...string) {
		t.Helper()
		for i, s := range got[name] {
			code, typ := s.Status.Code, strOf(s, spans.ErrorTypeKeyKey)
			if typ != want[i] || (code == codes.Error) != (want[i] != "") || s.Status.Description != want[i] {
				t.Errorf("%s %d: status %v %q, error.type %q, want %q", name, i, code, s.Status.Description, typ, want[i])
			}
			if _, there := attrOf(s, spans.ErrorMessageKey); there {
				t.Errorf("%s %d says what the error was, with capture none", name, i)
			}
		}
	}
	check(spans.SpanRun, "", "rejected", "cancelled", "", "", "aborted")
	check(spans.SpanTurn, "", "provider_error", "cancelled", "cancelled", "cancelled")
	check(spans.SpanToolCall, "", "tool_error", "", "", "")
}

func TestNotesAreBounded(t *testing.T) {
	s := traced(t, []otelagent.Option{otelagent.WithCapture(otelagent.CaptureContent)}, func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, tool := run.StartTool(ctx, writer.ToolCall{})
		for range 40 {
			tool.Progress(strings.Repeat("x", 300), []byte("\xff"), writer.Moment{})
		}
		tool.End(writer.ToolResult{})
		run.End(writer.RunResult{})
	})[spans.SpanToolCall][0]
	notes := 0
	for _, e := range s.Events {
		if e.Name == spans.EventOther {
			notes++
			if n := len(e.Attributes[0].Value.AsString()); n != 128 {
				t.Fatalf("a type of %d bytes", n)
			}
		}
	}
	if notes != 32 || intOf(s, spans.EventsDroppedKey) != 8 || intOf(s, spans.ToolProgressCountKey) != 40 {
		t.Errorf("%d notes, %d dropped, %d counted", notes, intOf(s, spans.EventsDroppedKey), intOf(s, spans.ToolProgressCountKey))
	}
}

func TestUserinfoIsTakenOffConfig(t *testing.T) {
	s := traced(t, []otelagent.Option{otelagent.WithCapture(otelagent.CaptureContent)}, func(tracer *writer.Tracer, _ api.Tracer) {
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{Config: []byte(`{"base_url":"https://me:secret@host/x?a@b","n":1.0}`)})
		run.End(writer.RunResult{})
	})[spans.SpanRun][0]
	if got, want := strOf(s, spans.RunConfigKey), `{"base_url":"https://host/x?a@b","n":1.0}`; got != want {
		t.Errorf("config %s, want %s", got, want)
	}
}

func TestGroupInsideAToolCall(t *testing.T) {
	got := traced(t, nil, func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
		ctx, tool := run.StartTool(ctx, writer.ToolCall{ID: "call"})
		ctx, group := tracer.StartGroup(ctx, writer.GroupInfo{SessionID: "s2", Members: []string{"m"}})
		ctx, m := tracer.StartRun(ctx, writer.RunInfo{ID: "m"})
		_, sub := tracer.StartRun(ctx, writer.RunInfo{ID: "sub"})
		sub.End(writer.RunResult{})
		m.End(writer.RunResult{})
		group.End(writer.GroupResult{})
		tool.End(writer.ToolResult{})
		run.End(writer.RunResult{})
	})
	for _, s := range got[spans.SpanRun] {
		var parent, call, from, role string
		switch strOf(s, spans.RunIDKey) {
		case "m":
			parent, call, from, role = "r", "call", "s", "member"
		case "sub":
			parent = "m"
		default:
			continue
		}
		if strOf(s, spans.SessionIDKey) != "s2" || strOf(s, spans.RunParentIDKey) != parent || strOf(s, spans.GroupRoleKeyKey) != role ||
			strOf(s, spans.RunParentToolCallIDKey) != call || strOf(s, spans.RunParentSessionIDKey) != from {
			t.Errorf("%s: %v", strOf(s, spans.RunIDKey), s.Attributes)
		}
	}
}
