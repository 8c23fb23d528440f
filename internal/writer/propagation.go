package writer

import (
	"context"

	"go.opentelemetry.io/otel/baggage"

	"github.com/otelagent/otelagent/spans"
)

// baggageKeys are the members that ContextWithBaggage writes.
var baggageKeys = [...]string{string(spans.SessionIDKey), string(spans.SessionMadeUpKey), string(spans.RunIDKey),
	string(spans.ToolCallIDKey)}

// What baggage may have, by the W3C and by OpenTelemetry's library, which loses members, or all of them, of more.
const (
	maxBaggageBytes   = 8192
	maxBaggageMembers = 64
)

// ContextWithBaggage returns ctx with W3C baggage that names the session, run and tool call that ctx is in; see
// otelagent.ContextWithBaggage. Outside any run ctx comes back as it is.
func ContextWithBaggage(ctx context.Context) context.Context {
	in := scopeOf(ctx)
	if in == nil {
		return ctx
	}
	theirs := baggage.FromContext(ctx)
	for _, key := range baggageKeys { // those of a run further up
		theirs = theirs.DeleteMember(key)
	}
	var generated, run, call string
	if in.span.generated {
		generated = "true"
	}
	if in.run != nil {
		run = in.run.run
	}
	if in.tool != nil {
		call = in.tool.callID
	}
	// Calls must not fail for members that do not fit, and a part of them would name another place.
	full, fits := theirs, true
	for i, value := range [...]string{in.span.session, generated, run, call} { // as baggageKeys has them
		if value == "" {
			continue
		}
		m, err := baggage.NewMemberRaw(baggageKeys[i], value)
		if err == nil {
			full, err = full.SetMember(m)
		}
		fits = fits && err == nil
	}
	if !fits || full.Len() > maxBaggageMembers || len(full.String()) > maxBaggageBytes {
		full = theirs
	}
	return baggage.ContextWithBaggage(ctx, full)
}

// readsBaggage reports whether a new span reads baggage. A span from a recording does not: the sender of a recording is
// not the caller of its run.
func (t *Tracer) readsBaggage(ctx context.Context, in *scope, info *RunInfo) bool {
	inRun := in != nil && in.run != nil // a group alone is no run
	live := info.Recording == "" || info.Recording == spans.RecordingEvents
	return live && !inRun && !t.config.NoBaggage && !sourceOf(ctx).Replayed
}

// withoutCaller returns ctx without the run and tool call that baggage names: they are the parents of the run that
// starts, and not of what other processes start for it.
func withoutCaller(ctx context.Context) context.Context {
	bag := baggage.FromContext(ctx)
	n := bag.Len()
	bag = bag.DeleteMember(string(spans.RunIDKey)).DeleteMember(string(spans.ToolCallIDKey))
	if bag.Len() == n {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// fillFromBaggage takes from baggage what info does not say of the run's session and parents. It reports whether the
// process that named the session generated its id.
func (info *RunInfo) fillFromBaggage(ctx context.Context) (generated bool) {
	bag := baggage.FromContext(ctx)
	if bag.Len() == 0 {
		return false
	}
	session, run := bag.Member(string(spans.SessionIDKey)).Value(), bag.Member(string(spans.RunIDKey)).Value()
	if info.SessionID == "" && session != "" {
		info.SessionID = session
		generated = bag.Member(string(spans.SessionMadeUpKey)).Value() == "true"
	}
	sameSession := session == "" || cleanID(session) == cleanID(info.SessionID)
	switch {
	case run == "", info.ParentID != "" && cleanID(info.ParentID) != cleanID(run):
		return generated
	case sameSession && info.ID != "" && cleanID(info.ID) == cleanID(run): // no run is its own parent
		return generated
	}
	info.ParentID = run
	if info.ParentSessionID == "" && !sameSession {
		info.ParentSessionID = session
	}
	if info.ParentToolCallID == "" {
		info.ParentToolCallID = bag.Member(string(spans.ToolCallIDKey)).Value()
	}
	return generated
}
