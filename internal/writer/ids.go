package writer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// seed is what the ids of one span are derived from: its address. See spans/README.md, Derived ids.
type seed struct {
	span         string // span name
	session, run string
	start        int64  // of the run
	turn         string // decimal, empty outside a turn
	call         string // call id or compaction kind
	ordinal      int64
	at           string // start of turn or compaction where the address needs it
	recording    string // kind of source of the run; empty for events
	// spanID is false when only the trace id is derived; wholeSession is true when it is derived from the session alone.
	spanID, wholeSession bool
}

type seedKey struct{}

// DerivedIDs returns the ids that follow from the address of the span that is being started in ctx: for the IDGenerator
// of a provider, which calls it with the tenant of its resource. ok is false when ctx asks for no derived ids. An id
// that is not to be derived comes back as zero; the generator then makes a random one.
func DerivedIDs(ctx context.Context, tenant string) (traceID trace.TraceID, spanID trace.SpanID, ok bool) {
	s, ok := ctx.Value(seedKey{}).(*seed)
	if !ok {
		return trace.TraceID{}, trace.SpanID{}, false
	}
	start := strconv.FormatInt(s.start, 10)
	if s.wholeSession {
		traceID = trace.TraceID(hashed("trace", tenant, s.session)[:16])
	} else {
		traceID = trace.TraceID(hashed("trace", tenant, s.session, s.run, start)[:16])
	}
	if s.spanID {
		fields := []string{"span", s.span, tenant, s.session, s.run, start, s.turn, s.call, strconv.FormatInt(s.ordinal, 10),
			s.at}
		if s.recording != "" {
			fields = append(fields, s.recording)
		}
		spanID = trace.SpanID(hashed(fields...)[:8])
	}
	return traceID, spanID, true
}

// hashed is the SHA-256 of the fields with zero bytes between them. One in a field is followed by 0xff, which begins no
// text, so that other fields never come to the same.
func hashed(fields ...string) []byte {
	var b []byte
	for i, f := range fields {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, strings.ReplaceAll(f, "\x00", "\x00\xff")...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// generateID returns an id for what came without one: 128 random bits, unless the source of the events makes ids.
func (t *Tracer) generateID(ctx context.Context) string {
	if next := sourceOf(ctx).NewID; next != nil {
		return next()
	}
	return rand.Text()
}
