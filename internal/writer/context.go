package writer

import "context"

// InContext returns the innermost run whose context ctx is, or derives from, its turn and its tool call; nil what there
// is not. In the context of a tool call or a compaction the turn is the one that the context was started in.
func InContext(ctx context.Context) (*Run, *Turn, *Tool) {
	if s := scopeOf(ctx); s != nil {
		return s.run, s.turn, s.tool
	}
	return nil, nil, nil
}

// ModelCallIn returns what a model request with the context ctx belongs to: the turn whose own context it is, else the
// run whose own context it is, with utility where that is the context of a compaction. It returns nothing in the
// context of a tool call: who asks a model there is another agent.
func ModelCallIn(ctx context.Context) (r *Run, t *Turn, utility bool) {
	switch s := scopeOf(ctx); {
	case s == nil || s.run == nil || s.tool != nil:
		return nil, nil, false
	case s.turn != nil && s.span == &s.turn.handle:
		return s.run, s.turn, false
	default:
		return s.run, nil, s.span != &s.run.handle
	}
}

// SessionID returns the id of the run's session: that of [RunInfo], else that of the enclosing run, else a generated
// one. Empty for nil.
func (r *Run) SessionID() string {
	if r == nil {
		return ""
	}
	return r.session
}

// ID returns the id of the run: that of [RunInfo], else a generated one. Empty for nil.
func (r *Run) ID() string {
	if r == nil {
		return ""
	}
	return r.handle.run
}

// OutsideRuns returns a context in which a run that starts is not enclosed by those that ctx is in. It has everything
// else that ctx has.
func OutsideRuns(ctx context.Context) context.Context {
	if scopeOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, scopeKey{}, (*scope)(nil))
}
