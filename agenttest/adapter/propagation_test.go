package adapter_test

import (
	"context"
	"fmt"
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

// A sub-agent in another process is the child of the tool call that called it, in its session or in one of its own.
func TestContextWithBaggage(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		name    string
		session string // of the caller; empty: generated
		call    string
		child   writer.RunInfo
		// what the child is to be recorded with
		childSession, parent, parentSession, parentCall string
	}{
		{name: "same session", session: "caller", call: "c1", childSession: "caller", parent: "boss", parentCall: "c1"},
		{name: "own session", session: "caller", call: "c1", child: writer.RunInfo{SessionID: "own"},
			childSession: "own", parent: "boss", parentSession: "caller", parentCall: "c1"},
		{name: "another parent stated", session: "caller", call: "c1", child: writer.RunInfo{ParentID: "earlier"},
			childSession: "caller", parent: "earlier"},
		{name: "awkward ids", session: `a b,c;d="é"%20`, call: "läuft\t", childSession: `a b,c;d="é"%20`, parent: "boss", parentCall: "läuft\t"},
		{name: "long call id", session: "caller", call: long, childSession: "caller", parent: "boss",
			parentCall: "sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7"},
		{name: "call without id", session: "caller", childSession: "caller", parent: "boss"},
		{name: "generated", call: "c1", parent: "boss", parentCall: "c1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := agenttest.New(t)
			// A call further up names what must not come through.
			above, err := baggage.Parse("session.id=above,otelagent.run.id=above,gen_ai.tool.call.id=above,theirs=1")
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if tt.session != "" {
				ctx = baggage.ContextWithBaggage(ctx, above)
			}
			ctx, boss := (*writer.Tracer)(p.Tracer()).StartRun(ctx, writer.RunInfo{SessionID: tt.session, ID: "boss", ParentID: "none"})
			ctx, turn := boss.StartTurn(ctx, writer.TurnInfo{})
			ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: tt.call, Name: "ask"})
			there := across(writer.ContextWithBaggage(ctx))
			if tt.session != "" && baggage.FromContext(there).Member("theirs").Value() != "1" {
				t.Error("a member of others was lost")
			}
			_, child := (*writer.Tracer)(p.Tracer()).StartRun(there, tt.child)
			child.End(writer.RunResult{})
			call.End(writer.ToolResult{})
			turn.End(writer.TurnResult{})
			boss.End(writer.RunResult{})

			byID := map[string]*session.Run{}
			of := map[*session.Run]*session.Session{}
			for _, s := range p.Sessions() {
				for _, r := range s.Runs {
					name := "child"
					if r.ID == "boss" {
						name = "boss"
					}
					byID[name], of[r] = r, s
				}
			}
			got := byID["child"]
			if got == nil || byID["boss"] == nil {
				t.Fatalf("runs %v", byID)
			}
			wantSession := tt.childSession
			if tt.session == "" {
				wantSession = of[byID["boss"]].ID
				if !of[got].MadeUp {
					t.Error("the session that the caller generated is not marked")
				}
			}
			type place struct{ session, parent, parentSession, parentCall string }
			if diff := cmp.Diff(place{wantSession, tt.parent, tt.parentSession, tt.parentCall},
				place{of[got].ID, got.ParentID, got.ParentSessionID, got.ParentToolCallID}, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("child (-want +got):\n%s", diff)
			}
			var tool, under session.Row
			for _, row := range p.Batch().Rows {
				switch {
				case row.Kind == session.KindToolCall:
					tool = row
				case row.Kind == session.KindRun && row.Run != "boss":
					under = row
				}
			}
			if under.Parent != tool.Span || under.Trace != tool.Trace || tool.Span == (session.SpanID{}) {
				t.Errorf("the child's span is under %s, want the tool call's %s", under.Parent, tool.Span)
			}
		})
	}
}

// What baggage cannot hold stays out, and a context outside any run comes back as it is.
func TestContextWithBaggageOutsideAndFull(t *testing.T) {
	if ctx := writer.ContextWithBaggage(t.Context()); ctx != t.Context() {
		t.Error("a context outside any run came back as another one")
	}
	ours := len(",session.id=s,otelagent.run.id=boss")
	members := func(n int) string { // one member of few bytes n times
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("m%d=1", i))
		}
		return strings.Join(all, ",")
	}
	for _, tt := range []struct {
		name, theirs string
		ours         bool
	}{
		{"just room", "theirs=" + strings.Repeat("x", 8192-ours-len("theirs=")), true},
		{"a byte too much", "theirs=" + strings.Repeat("x", 8193-ours-len("theirs=")), false},
		{"full", "theirs=" + strings.Repeat("x", 8192-len("theirs=")), false},
		{"many members", members(62), true},
		{"too many members", members(63), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			theirs, err := baggage.Parse(tt.theirs)
			if err != nil {
				t.Fatal(err)
			}
			// An earlier run's members make room for this one's.
			above, err := baggage.Parse("session.id=s,otelagent.run.id=above,gen_ai.tool.call.id=c0,otelagent.session.made_up=true")
			if err != nil {
				t.Fatal(err)
			}
			bag := theirs
			for _, m := range above.Members() {
				if bag, err = bag.SetMember(m); err != nil {
					t.Fatal(err)
				}
			}
			p := agenttest.New(t)
			ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "boss"})
			there := baggage.FromContext(across(writer.ContextWithBaggage(baggage.ContextWithBaggage(ctx, bag))))
			run.End(writer.RunResult{})
			got := map[string]string{}
			for _, m := range there.Members() {
				got[m.Key()] = m.Value()
			}
			want := map[string]string{}
			for _, m := range theirs.Members() {
				want[m.Key()] = m.Value()
			}
			if tt.ours {
				want["session.id"], want["otelagent.run.id"] = "s", "boss"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Who is called from the middle of three processes without ContextWithBaggage is in the session, and no child of the first one's call.
func TestBaggageIsConsumed(t *testing.T) {
	p := agenttest.New(t)
	ctx, first := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{ID: "first"})
	ctx, turn := first.StartTurn(ctx, writer.TurnInfo{})
	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "ask"})
	theirs, err := baggage.Parse("theirs=1")
	if err != nil {
		t.Fatal(err)
	}
	there, second := (*writer.Tracer)(p.Tracer()).StartRun(across(writer.ContextWithBaggage(baggage.ContextWithBaggage(ctx, theirs))), writer.RunInfo{ID: "second"})
	beyond := across(there)
	if bag := baggage.FromContext(beyond); bag.Len() != 3 || bag.Member("theirs").Value() != "1" || bag.Member("session.id").Value() == "" ||
		bag.Member("otelagent.session.made_up").Value() != "true" {
		t.Errorf("baggage passed on: %s", bag)
	}
	_, third := (*writer.Tracer)(p.Tracer()).StartRun(beyond, writer.RunInfo{ID: "third"})
	third.End(writer.RunResult{})
	second.End(writer.RunResult{})
	call.End(writer.ToolResult{})
	turn.End(writer.TurnResult{})
	first.End(writer.RunResult{})
	if s := p.Session(); !s.MadeUp {
		t.Error("the session is not marked as generated")
	}
	if diff := cmp.Diff([]string{"first under  ", "second under first c1", "third under  "}, parents(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// parents returns the runs of the one session, each with what it is under.
func parents(p *agenttest.Pipeline) (all []string) {
	for _, r := range p.Session().Runs {
		all = append(all, r.ID+" under "+r.ParentID+" "+r.ParentToolCallID)
	}
	slices.Sort(all)
	return all
}

// Baggage has no effect on a run from a recording, nor where WithoutBaggage is set, and makes no run its own parent.
func TestBaggageIsNotBelieved(t *testing.T) {
	bag, err := baggage.Parse("session.id=s,otelagent.run.id=far,gen_ai.tool.call.id=c9")
	if err != nil {
		t.Fatal(err)
	}
	start := func(info writer.RunInfo) func(context.Context, *writer.Tracer) {
		return func(ctx context.Context, tracer *writer.Tracer) {
			_, run := tracer.StartRun(ctx, info)
			run.End(writer.RunResult{})
		}
	}
	record := func(arrived time.Time) func(context.Context, *writer.Tracer) {
		return func(ctx context.Context, tracer *writer.Tracer) {
			rec := event.NewRecorder((*otelagent.Tracer)(tracer))
			meta := event.Meta{Run: "r", Session: "own", Time: time.Unix(1e9, 0), Arrived: arrived}
			rec.Record(ctx, &event.RunStarted{Meta: meta})
			rec.Record(ctx, &event.RunEnded{Meta: meta})
			rec.Close(ctx)
		}
	}
	for _, tt := range []struct {
		name   string
		opts   []otelagent.Option
		record func(context.Context, *writer.Tracer)
		want   string
	}{
		{name: "believed", record: start(writer.RunInfo{SessionID: "own", ID: "r"}), want: "r under far c9"},
		{name: "events named", record: start(writer.RunInfo{SessionID: "own", ID: "r", Recording: spans.RecordingEvents}), want: "r under far c9"},
		{name: "recording", record: start(writer.RunInfo{SessionID: "own", ID: "r", Recording: spans.RecordingLedger}), want: "r under  "},
		{name: "stranger", opts: []otelagent.Option{otelagent.WithoutBaggage()}, record: start(writer.RunInfo{SessionID: "own", ID: "r"}), want: "r under  "},
		{name: "own parent", record: start(writer.RunInfo{ID: "far"}), want: "far under  "},
		{name: "same id in another session", record: start(writer.RunInfo{SessionID: "own", ID: "far"}), want: "far under far c9"},
		{name: "events arriving", record: record(time.Now()), want: "r under far c9"},
		{name: "events replayed", record: record(time.Time{}), want: "r under  "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := agenttest.New(t, tt.opts...)
			tt.record(baggage.ContextWithBaggage(t.Context(), bag), (*writer.Tracer)(p.Tracer()))
			if diff := cmp.Diff([]string{tt.want}, parents(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Baggage of a caller is for the outermost run: runs inside it are placed by the run that they are in.
func TestBaggageIsForTheOutermostRun(t *testing.T) {
	p := agenttest.New(t)
	bag, err := baggage.Parse("session.id=s,otelagent.run.id=far,gen_ai.tool.call.id=c9")
	if err != nil {
		t.Fatal(err)
	}
	ctx, outer := (*writer.Tracer)(p.Tracer()).StartRun(baggage.ContextWithBaggage(t.Context(), bag), writer.RunInfo{ID: "outer"})
	_, inner := (*writer.Tracer)(p.Tracer()).StartRun(ctx, writer.RunInfo{ID: "inner"})
	inner.End(writer.RunResult{})
	outer.End(writer.RunResult{})
	if diff := cmp.Diff([]string{"inner under outer ", "outer under far c9"}, parents(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
