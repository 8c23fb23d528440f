package writer

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
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
	c, generated := in.caller(), ""
	if c.generated {
		generated = "true"
	}
	// Calls must not fail for members that do not fit, and a part of them would name another place.
	full, fits := theirs, true
	for i, value := range [...]string{c.session, generated, c.run, c.call} { // as baggageKeys has them
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

// caller is what a run starts in: ids of this process, or of the one that wrote the baggage; empty where there is none.
type caller struct {
	session    string
	generated  bool   // the session id
	run, call  string // the innermost run and its tool call
	runSession string
}

func (s *scope) caller() (c caller) {
	if s == nil {
		return c
	}
	c.session, c.generated = s.span.session, s.span.generated
	if s.run != nil {
		c.run, c.runSession = s.run.run, s.run.session
	}
	if s.tool != nil {
		c.call = s.tool.callID
	}
	return c
}

func callerInBaggage(ctx context.Context) caller {
	bag := baggage.FromContext(ctx)
	value := func(key attribute.Key) string { return bag.Member(string(key)).Value() }
	session := value(spans.SessionIDKey)
	return caller{session: session, generated: value(spans.SessionMadeUpKey) == "true", run: value(spans.RunIDKey),
		call: value(spans.ToolCallIDKey), runSession: session}
}

// fill takes from the caller what info does not say of the run's session and parents. It reports whether the session id
// is one that was generated.
func (info *RunInfo) fill(c caller) (generated bool) {
	if info.SessionID == "" {
		info.SessionID, generated = c.session, c.generated
	}
	sameSession := c.runSession == "" || cleanID(c.runSession) == cleanID(info.SessionID)
	switch {
	case c.run == "", info.ParentID != "" && cleanID(info.ParentID) != cleanID(c.run):
		return generated
	case sameSession && info.ID != "" && cleanID(info.ID) == cleanID(c.run): // no run is its own parent
		return generated
	}
	info.ParentID = c.run
	if info.ParentSessionID == "" && !sameSession {
		info.ParentSessionID = c.runSession
	}
	info.ParentToolCallID = cmp.Or(info.ParentToolCallID, c.call)
	return generated
}
