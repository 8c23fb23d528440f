package otelagent

import (
	"context"

	"go.opentelemetry.io/otel/baggage"

	"github.com/otelagent/otelagent/spans"
)

// ContextWithBaggage returns ctx with W3C baggage that names the session, run and tool call that ctx is in, for a call of another
// process that runs an agent of its own. There [Tracer.StartRun] finds them: the run becomes a child of this run and tool call, in
// this session unless it names another one. Outside any run ctx comes back as it is.
//
//	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "ask_researcher", Args: args})
//	req, err := http.NewRequestWithContext(otelagent.ContextWithBaggage(ctx), "POST", url, body)
//	resp, err := client.Do(req) // with a transport that propagates, such as otelhttp's
//
// The members are session.id, otelagent.run.id, gen_ai.tool.call.id and, where we made the session up, otelagent.session.made_up. They
// are ids of at most 256 bytes each; others that ctx has are kept, as far as the 8,192 bytes that baggage may have allow. Baggage goes
// to every service that is called with the context, so give it to calls of your own agents only. What any call needs to be seen under
// its tool call, the traceparent, is in ctx anyway.
//
// A service whose callers are strangers takes such members off what it is sent, as it does with other headers that it believes:
// they decide in whose session a run is told to be.
func ContextWithBaggage(ctx context.Context) context.Context {
	in := scopeOf(orBackground(ctx))
	if in == nil {
		return ctx
	}
	bag := baggage.FromContext(ctx)
	set := func(key, value string) {
		if value == "" {
			bag = bag.DeleteMember(key) // that of a run further up
			return
		}
		// What makes no member, or has no room, stays out: calls must not fail for it.
		if m, err := baggage.NewMemberRaw(key, value); err == nil {
			if b, err := bag.SetMember(m); err == nil {
				bag = b
			}
		}
	}
	var madeUp, run, call string
	if in.span.madeUp {
		madeUp = "true"
	}
	if in.run != nil {
		run = in.run.run
	}
	if in.tool != nil {
		call = in.tool.callID
	}
	set(string(spans.SessionIDKey), in.span.session)
	set(string(spans.SessionMadeUpKey), madeUp)
	set(string(spans.RunIDKey), run)
	set(string(spans.ToolCallIDKey), call)
	return baggage.ContextWithBaggage(ctx, bag)
}

// fillFromBaggage takes from baggage what info does not say of the run's session and parents, and reports whether the session was made up
// by the process that named it.
func (info *RunInfo) fillFromBaggage(ctx context.Context) (madeUp bool) {
	bag := baggage.FromContext(ctx)
	if bag.Len() == 0 {
		return false
	}
	session, run := bag.Member(string(spans.SessionIDKey)).Value(), bag.Member(string(spans.RunIDKey)).Value()
	if info.SessionID == "" && session != "" {
		info.SessionID = session
		madeUp = bag.Member(string(spans.SessionMadeUpKey)).Value() == "true"
	}
	if run == "" || info.ParentID != "" && info.ParentID != run {
		return madeUp
	}
	info.ParentID = run
	if info.ParentSessionID == "" && session != info.SessionID {
		info.ParentSessionID = session
	}
	if info.ParentToolCallID == "" {
		info.ParentToolCallID = bag.Member(string(spans.ToolCallIDKey)).Value()
	}
	return madeUp
}
