package adapter_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// across returns the context that another process has after a call with ctx: nothing but what the headers carry.
func across(ctx context.Context) context.Context {
	w3c := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	headers := http.Header{}
	w3c.Inject(ctx, propagation.HeaderCarrier(headers))
	return w3c.Extract(context.Background(), propagation.HeaderCarrier(headers))
}

// bag parses members of baggage.
func bag(t *testing.T, members string) baggage.Baggage {
	t.Helper()
	b := must.Get(baggage.Parse(members))(t)
	return b
}

// members are those of baggage by name.
func members(b baggage.Baggage) map[string]string {
	all := map[string]string{}
	for _, m := range b.Members() {
		all[m.Key()] = m.Value()
	}
	return all
}

// placed returns the runs, each with its session and what it is under. An id that was generated is ID.
func placed(p *agenttest.Pipeline) (all []string) {
	for _, s := range p.Sessions() {
		for _, r := range s.Runs {
			all = append(all, strings.TrimRight(fmt.Sprintf("%s/%s under %s/%s %s",
				s.ID, r.ID, r.ParentSessionID, r.ParentID, r.ParentToolCallID), " "))
			if s.MadeUp {
				all[len(all)-1] = "generated" + strings.TrimPrefix(all[len(all)-1], s.ID)
			}
			if madeUp.MatchString(r.ID) {
				all[len(all)-1] = strings.Replace(all[len(all)-1], r.ID, "ID", 1)
			}
		}
	}
	slices.Sort(all)
	return all
}

// A sub-agent in another process is the child of the tool call that called it, in its session or in one of its own.
func TestContextWithBaggage(t *testing.T) {
	for name, tt := range map[string]struct {
		session, call string // of the caller; without a session it is generated
		child         writer.RunInfo
		want          string
	}{
		"same session":          {"caller", "c1", writer.RunInfo{}, "caller/ID under /boss c1"},
		"own session":           {"caller", "c1", writer.RunInfo{SessionID: "own"}, "own/ID under caller/boss c1"},
		"another parent stated": {"caller", "c1", writer.RunInfo{ParentID: "earlier"}, "caller/ID under /earlier"},
		"awkward ids": {`a b,c;d="é"%20`, "läuft\t!", writer.RunInfo{},
			"a b,c;d=\"é\"%20/ID under /boss läuft\t!"},
		"long call id": {"caller", strings.Repeat("x", 300), writer.RunInfo{},
			"caller/ID under /boss sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7"},
		"call without id": {"caller", "", writer.RunInfo{}, "caller/ID under /boss"},
		"generated":       {"", "c1", writer.RunInfo{}, "generated/ID under /boss c1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := agenttest.New(t)
			tracer := (*writer.Tracer)(p.Tracer())
			ctx := t.Context()
			if tt.session != "" { // a call further up names what must not come through
				above := "session.id=above,otelagent.run.id=above,gen_ai.tool.call.id=above,theirs=1"
				ctx = baggage.ContextWithBaggage(ctx, bag(t, above))
			}
			ctx, boss := tracer.StartRun(ctx, writer.RunInfo{SessionID: tt.session, ID: "boss", ParentID: "none"})
			ctx, turn := boss.StartTurn(ctx, writer.TurnInfo{})
			ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: tt.call, Name: "ask"})
			there := across(writer.ContextWithBaggage(ctx))
			if tt.session != "" && baggage.FromContext(there).Member("theirs").Value() != "1" {
				t.Error("a member of others was lost")
			}
			_, child := tracer.StartRun(there, tt.child)
			child.End(writer.RunResult{})
			call.End(writer.ToolResult{})
			turn.End(writer.TurnResult{})
			boss.End(writer.RunResult{})
			if got := placed(p); !slices.Contains(got, tt.want) {
				t.Errorf("runs %q, want %q", got, tt.want)
			}
			byKind := map[session.Kind]session.Row{}
			for _, row := range p.Batch().Rows {
				if row.Run != "boss" || row.Kind != session.KindRun {
					byKind[row.Kind] = row
				}
			}
			under, tool := byKind[session.KindRun], byKind[session.KindToolCall]
			if under.Parent != tool.Span || under.Trace != tool.Trace || tool.Span == (session.SpanID{}) {
				t.Errorf("the child's span is under %s, want the tool call's %s", under.Parent, tool.Span)
			}
		})
	}
}

// What baggage cannot hold stays out, and a context outside any run comes back as it is. Members of an earlier run make
// room for those of this one.
func TestContextWithBaggageOutsideAndFull(t *testing.T) {
	if ctx := writer.ContextWithBaggage(t.Context()); ctx != t.Context() {
		t.Error("a context outside any run came back as another one")
	}
	long := func(n int) string { return "theirs=" + strings.Repeat("x", n-len("theirs=")) }
	many := func(n int) string { // one member of few bytes n times
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("m%d=1", i))
		}
		return strings.Join(all, ",")
	}
	own := len(",session.id=s,otelagent.run.id=boss")
	for _, tt := range []struct {
		name, theirs string
		own          bool
	}{
		{"just room", long(8192 - own), true}, {"a byte too much", long(8193 - own), false}, {"full", long(8192), false},
		{"many members", many(62), true}, {"too many members", many(63), false},
	} {
		want := members(bag(t, tt.theirs))
		all := bag(t, tt.theirs)
		above := bag(t, "session.id=s,otelagent.run.id=above,gen_ai.tool.call.id=c0,otelagent.session.made_up=true")
		for _, m := range above.Members() {
			var err error
			if all, err = all.SetMember(m); err != nil {
				t.Fatal(err)
			}
		}
		p := agenttest.New(t)
		ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "boss"})
		got := members(baggage.FromContext(across(writer.ContextWithBaggage(baggage.ContextWithBaggage(ctx, all)))))
		run.End(writer.RunResult{})
		if tt.own {
			maps.Copy(want, map[string]string{"session.id": "s", "otelagent.run.id": "boss"})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Whoever is called from the middle of three processes without ContextWithBaggage is in the session, and no child of
// the first one's call.
func TestBaggageIsConsumed(t *testing.T) {
	p := agenttest.New(t)
	tracer := (*writer.Tracer)(p.Tracer())
	ctx, first := tracer.StartRun(t.Context(), writer.RunInfo{ID: "first"})
	ctx, turn := first.StartTurn(ctx, writer.TurnInfo{})
	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "ask"})
	ctx = baggage.ContextWithBaggage(ctx, bag(t, "theirs=1"))
	there, second := tracer.StartRun(across(writer.ContextWithBaggage(ctx)), writer.RunInfo{ID: "second"})
	beyond := across(there)
	passed := members(baggage.FromContext(beyond))
	if len(passed) != 3 || passed["theirs"] != "1" || passed["session.id"] == "" ||
		passed["otelagent.session.made_up"] != "true" {
		t.Errorf("baggage passed on: %s", passed)
	}
	_, third := tracer.StartRun(beyond, writer.RunInfo{ID: "third"})
	third.End(writer.RunResult{})
	second.End(writer.RunResult{})
	call.End(writer.ToolResult{})
	turn.End(writer.TurnResult{})
	first.End(writer.RunResult{})
	want := []string{"generated/first under /", "generated/second under /first c1", "generated/third under /"}
	if diff := cmp.Diff(want, placed(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Baggage has no effect on a run from a recording, nor where WithoutBaggage is set, and makes no run its own parent. It
// is for the outermost run: a run inside that is placed by the run that it is in.
func TestBaggageIsForTheOutermostRun(t *testing.T) {
	start := func(infos ...writer.RunInfo) func(context.Context, *writer.Tracer) {
		return func(ctx context.Context, tracer *writer.Tracer) {
			for _, info := range infos {
				var run *writer.Run
				ctx, run = tracer.StartRun(ctx, info)
				defer run.End(writer.RunResult{})
			}
		}
	}
	record := func(arrived time.Time) func(context.Context, *writer.Tracer) {
		return func(ctx context.Context, tracer *writer.Tracer) {
			rec := event.NewRecorder((*otelagent.Tracer)(tracer))
			meta := event.Meta{Run: "r", Session: "own", Time: time.Unix(1e9, 0), Arrived: arrived}
			rec.Record(ctx, &event.RunStarted{Meta: meta})
			rec.Close(ctx)
		}
	}
	own := writer.RunInfo{SessionID: "own", ID: "r"}
	events, ledger := own, own
	events.Recording, ledger.Recording = spans.RecordingEvents, spans.RecordingLedger
	for _, tt := range []struct {
		name   string
		opts   []otelagent.Option
		record func(context.Context, *writer.Tracer)
		want   []string
	}{
		{"believed", nil, start(own), []string{"own/r under s/far c9"}},
		{"events named", nil, start(events), []string{"own/r under s/far c9"}},
		{"recording", nil, start(ledger), []string{"own/r under /"}},
		{"stranger", []otelagent.Option{otelagent.WithoutBaggage()}, start(own), []string{"own/r under /"}},
		{"own parent", nil, start(writer.RunInfo{ID: "far"}), []string{"s/far under /"}},
		{"same id elsewhere", nil, start(writer.RunInfo{SessionID: "own", ID: "far"}), []string{"own/far under s/far c9"}},
		{"events arriving", nil, record(time.Now()), []string{"own/r under s/far c9"}},
		{"events replayed", nil, record(time.Time{}), []string{"own/r under /"}},
		{"a run inside", nil, start(writer.RunInfo{ID: "outer"}, writer.RunInfo{ID: "inner"}),
			[]string{"s/inner under /outer", "s/outer under /far c9"}},
	} {
		p := agenttest.New(t, tt.opts...)
		tt.record(baggage.ContextWithBaggage(t.Context(), bag(t, "session.id=s,otelagent.run.id=far,gen_ai.tool.call.id=c9")),
			(*writer.Tracer)(p.Tracer()))
		if diff := cmp.Diff(tt.want, placed(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// No run is its own parent, also where a loop starts it again inside itself.
func TestRunInsideItself(t *testing.T) {
	p, exp := collect(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p)))
	ctx, outer := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	_, inner := tracer.StartRun(ctx, writer.RunInfo{ID: "r"})
	inner.End(writer.RunResult{})
	outer.End(writer.RunResult{})
	for _, s := range exp.GetSpans() {
		if parent := attr(s, spans.RunParentIDKey).AsString(); parent != "" {
			t.Errorf("the run has the parent %q", parent)
		}
	}
}
