// Package recorded holds the facts that the recorder of dialects/event passes to package otelagent and that a caller of
// its API never has.
package recorded

import "context"

type replayKey struct{}

// WithReplay returns a context that says whether the spans that start in it come from events that did not arrive now.
// Such spans read no baggage, and metrics are taken of them only on demand.
func WithReplay(ctx context.Context, replay bool) context.Context {
	if replay == IsReplay(ctx) {
		return ctx
	}
	return context.WithValue(ctx, replayKey{}, replay)
}

// IsReplay reports what the innermost WithReplay of ctx says; false without one.
func IsReplay(ctx context.Context) bool {
	replay, _ := ctx.Value(replayKey{}).(bool)
	return replay
}
