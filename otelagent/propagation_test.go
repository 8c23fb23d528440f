package otelagent_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/session"
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
		session string // of the caller; empty: made up
		call    string
		child   otelagent.RunInfo
		// what the child is to be told with
		childSession, parent, parentSession, parentCall string
	}{
		{name: "same session", session: "caller", call: "c1", childSession: "caller", parent: "boss", parentCall: "c1"},
		{name: "own session", session: "caller", call: "c1", child: otelagent.RunInfo{SessionID: "own"},
			childSession: "own", parent: "boss", parentSession: "caller", parentCall: "c1"},
		{name: "another parent stated", session: "caller", call: "c1", child: otelagent.RunInfo{ParentID: "earlier"},
			childSession: "caller", parent: "earlier"},
		{name: "awkward ids", session: `a b,c;d="é"%20`, call: "läuft\t", childSession: `a b,c;d="é"%20`, parent: "boss", parentCall: "läuft\t"},
		{name: "long call id", session: "caller", call: long, childSession: "caller", parent: "boss",
			parentCall: "sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7"},
		{name: "call without id", session: "caller", childSession: "caller", parent: "boss"},
		{name: "made up", call: "c1", parent: "boss", parentCall: "c1"},
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
			ctx, boss := p.Tracer().StartRun(ctx, otelagent.RunInfo{SessionID: tt.session, ID: "boss", ParentID: "none"})
			ctx, turn := boss.StartTurn(ctx, otelagent.TurnInfo{})
			ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: tt.call, Name: "ask"})
			there := across(otelagent.ContextWithBaggage(ctx))
			if tt.session != "" && baggage.FromContext(there).Member("theirs").Value() != "1" {
				t.Error("a member of others was lost")
			}
			_, child := p.Tracer().StartRun(there, tt.child)
			child.End(otelagent.RunResult{})
			call.End(otelagent.ToolResult{})
			turn.End(otelagent.TurnResult{})
			boss.End(otelagent.RunResult{})

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
					t.Error("the session that the caller made up is not marked")
				}
			}
			type told struct{ session, parent, parentSession, parentCall string }
			if diff := cmp.Diff(told{wantSession, tt.parent, tt.parentSession, tt.parentCall},
				told{of[got].ID, got.ParentID, got.ParentSessionID, got.ParentToolCallID}, cmp.AllowUnexported(told{})); diff != "" {
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
	if ctx := otelagent.ContextWithBaggage(t.Context()); ctx != t.Context() {
		t.Error("a context outside any run came back as another one")
	}
	full, err := baggage.Parse("theirs=" + strings.Repeat("x", 8170))
	if err != nil {
		t.Fatal(err)
	}
	p := agenttest.New(t)
	ctx, run := p.Tracer().StartRun(baggage.ContextWithBaggage(t.Context(), full), otelagent.RunInfo{SessionID: "s", ID: "boss"})
	got := baggage.FromContext(otelagent.ContextWithBaggage(ctx))
	if v := got.Member("theirs").Value(); len(v) != 8170 {
		t.Errorf("%d bytes are left of the member that was there", len(v))
	}
	run.End(otelagent.RunResult{})
}

// Baggage of a caller is for the outermost run: runs inside it are placed by the run that they are in.
func TestBaggageIsForTheOutermostRun(t *testing.T) {
	p := agenttest.New(t)
	bag, err := baggage.Parse("session.id=s,otelagent.run.id=far,gen_ai.tool.call.id=c9")
	if err != nil {
		t.Fatal(err)
	}
	ctx, outer := p.Tracer().StartRun(baggage.ContextWithBaggage(t.Context(), bag), otelagent.RunInfo{ID: "outer"})
	_, inner := p.Tracer().StartRun(ctx, otelagent.RunInfo{ID: "inner"})
	inner.End(otelagent.RunResult{})
	outer.End(otelagent.RunResult{})
	var got []string
	for _, r := range p.Session().Runs {
		got = append(got, r.ID+" under "+r.ParentID+" "+r.ParentToolCallID)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"inner under outer ", "outer under far c9"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
