package writer

import "context"

// Source says where the events come from that start spans in a context. The zero value is the calls of a loop.
type Source struct {
	// Replayed says that the events did not arrive now: what they start reads no baggage.
	Replayed bool
	// Measured says that metrics are taken of replayed and recorded runs too.
	Measured bool
	// NewID makes the ids of sessions and runs that come without one; nil: 128 random bits.
	NewID func() string
	// NewRoot starts top-level runs in traces of their own, linked to the span in the caller's context.
	NewRoot bool
}

type sourceKey struct{}

// WithSource returns a context for what events of s start.
func WithSource(ctx context.Context, s *Source) context.Context {
	return context.WithValue(orBackground(ctx), sourceKey{}, s)
}

func sourceOf(ctx context.Context) Source {
	if s, ok := ctx.Value(sourceKey{}).(*Source); ok {
		return *s
	}
	return Source{}
}
