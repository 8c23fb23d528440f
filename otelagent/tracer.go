package otelagent

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// ScopeName is the name of the instrumentation scope of every span that this package starts, and of every metric.
const ScopeName = "github.com/otelagent/otelagent"

// Tracer starts runs. Make one per process and keep it: it remembers which blocks of content each session has sent.
// The nil Tracer does nothing. Safe for concurrent use.
type Tracer struct {
	otel     trace.Tracer
	metrics  *metrics
	config   config
	sessions *sessions
	memories *memories
}

type config struct {
	provider     trace.TracerProvider
	derivedIDs   bool
	detailed     bool          // names of spans
	generateIDs  func() string // nil: random bits
	newRoot      bool
	sessionTrace bool
	noBaggage    bool
	maxBlockIDs  int
	profile      spans.Profile
	meters       metric.MeterProvider
	measuring    measuring

	capture    Capture
	captureFor func(RunInfo) Capture
	redactor   Redactor
	scope      BlockScope
	maxBlock   int
	maxTurn    int
	maxSpan    int
	preview    int

	live         Live
	partialEvery time.Duration // zero: nothing is kept of partial output

	delivery Delivery
}

// Option configures a Tracer.
type Option interface {
	apply(config) config
}

type optionFunc func(config) config

func (f optionFunc) apply(c config) config { return f(c) }

// WithTracerProvider sets where spans go. Default, and with nil: the global provider, also one installed later.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c config) config {
		if p != nil {
			c.provider = p
		}
		return c
	})
}

// WithDerivedIDs makes the ids of spans follow from their address, so that the same input sent again gives the same
// spans. It needs a provider whose IDGenerator reads [DerivedIDs], as that of otelsetup does; others ignore it.
func WithDerivedIDs() Option {
	return optionFunc(func(c config) config { c.derivedIDs = true; return c })
}

// WithMadeUpIDs sets what makes the ids of sessions and runs that come without one: next is called for each, from any
// goroutine, and must return another id every time. It is for those who read the same input again and want the same
// ids. Default, and with nil: 128 random bits.
func WithMadeUpIDs(next func() string) Option {
	return optionFunc(func(c config) config { c.generateIDs = next; return c })
}

// WithNewRoot starts each top-level run in a trace of its own, linked to the span in the caller's context. Default: the
// run is a child of that span. A run started inside another run stays its child.
func WithNewRoot() Option {
	return optionFunc(func(c config) config { c.newRoot = true; return c })
}

// WithSessionTrace puts all top-level runs of a session into one trace whose id follows from the session, linked to the
// span in the caller's context. It needs a provider whose IDGenerator reads [DerivedIDs]; with another one it does what
// WithNewRoot does. Mind that backends bound the size of a trace.
func WithSessionTrace() Option {
	return optionFunc(func(c config) config { c.sessionTrace = true; return c })
}

// WithMaxBlockIDs bounds what the Tracer remembers of content that was sent (ids of blocks, the last requests), in
// units of about 200 bytes, over all sessions. Where it is reached the sessions unused for longest are forgotten whole:
// their blocks are sent again. Default, and below 1: 262,144, some 50 MB. A session that needs more than all of it is
// forgotten with each request, and sent again.
func WithMaxBlockIDs(n int) Option {
	return optionFunc(func(c config) config {
		if n < 1 {
			n = defaultBlockIDs
		}
		c.maxBlockIDs = n
		return c
	})
}

// NewTracer returns a Tracer. It never fails and never returns nil; nil options are ignored.
func NewTracer(opts ...Option) *Tracer {
	c := config{profile: spans.DefaultProfile, maxBlockIDs: defaultBlockIDs, maxSpan: DefaultMaxSpanBytes,
		preview: DefaultPreviewBytes}
	for _, o := range opts {
		if o != nil {
			c = o.apply(c)
		}
	}
	if c.provider == nil {
		c.provider = otel.GetTracerProvider()
	}
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	t := &Tracer{
		otel:     c.provider.Tracer(ScopeName),
		metrics:  newMetrics(&c),
		config:   c,
		sessions: newSessions(),
		memories: newMemories(c.maxBlockIDs),
	}
	if c.delivery != nil {
		c.delivery.OnLost(t.memories.lost)
	}
	return t
}

// Late counts an event that came for a run that had ended, or for none.
func (t *Tracer) Late(ctx context.Context) {
	if t != nil && t.metrics.enabled(orBackground(ctx), "") {
		t.metrics.dropped(spans.DroppedKindLate)
	}
}

// scope is a context that knows what was started in it. Handles carry theirs inside them, so that it costs no
// allocation of its own.
type scope struct {
	context.Context
	span  *handle // the innermost span
	run   *Run    // the innermost run, its turn and its tool call, also around a group
	turn  *Turn
	tool  *Tool
	group *Group // only where no run was started in it
}

type scopeKey struct{}

func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// scopeOf returns the innermost scope of ctx, nil when there is none.
func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}
