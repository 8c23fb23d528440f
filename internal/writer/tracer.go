package writer

import (
	"cmp"
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// ScopeName is the name of the instrumentation scope of every span that this package starts, and of every metric.
const ScopeName = "github.com/otelagent/otelagent"

// Tracer starts runs. Make one per process and keep it: it remembers which blocks of content each session has sent.
// The nil Tracer does nothing. Safe for concurrent use.
type Tracer struct {
	otel     trace.Tracer
	metrics  *metrics
	config   Config
	sessions *sessions
	global   bool        // spans go to the global provider
	listens  atomic.Bool // for losses
}

// Config configures a Tracer. The zero value sends no content, to the global providers.
type Config struct {
	// TracerProvider and MeterProvider are where spans and metrics go; nil: the global ones, also installed later.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Profile is the dated state of OpenTelemetry's GenAI conventions; empty or unknown: spans.DefaultProfile.
	Profile spans.Profile
	// DerivedIDs makes the ids of spans follow from their address. SessionTrace puts all top-level runs of a session into
	// one trace. Both need an IDGenerator that reads [DerivedIDs].
	DerivedIDs, SessionTrace bool
	// Detailed adds what distinguishes spans of one kind to their names.
	Detailed bool
	// NoBaggage ignores the baggage of callers.
	NoBaggage bool

	// Capture is how much content is sent, CaptureFor the level of a run; nil: Capture. A panic of it is CaptureNone.
	Capture    spans.Capture
	CaptureFor func(RunInfo) spans.Capture
	Redactor   spans.Redactor
	// MaxBlockBytes cuts longer bodies. Below 1: no bound.
	MaxBlockBytes int
	// MaxSpanBytes bounds the content that one span carries; the rest goes on in children. Below 64 KiB: 1 MiB.
	MaxSpanBytes int
	// PreviewBytes bounds each preview; 0 is 1,200, negative is none, below 320 is 320.
	PreviewBytes int
	// MaxBlockIDs bounds the memory of content that was sent, in units of about 200 bytes. Below 1: 262,144.
	MaxBlockIDs int
	// PerRun sends a block once for each run, not once for each session: each run can be read without the others.
	PerRun bool

	// Live sends copies of open spans; nil: none.
	Live Live
	// PartialEvery keeps the last 64 KiB of a reply as it comes in, and is how often copies renew it. Zero: not kept.
	PartialEvery time.Duration
	// Delivery reports content that was lost; nil: TracerProvider, where that is one.
	Delivery Delivery
}

// Delivery reports content that could not be delivered. The Exporter and the TracerProvider of otelsetup do.
type Delivery interface {
	// OnLost registers f, which is then called with the id of a session of which content was lost.
	OnLost(f func(session string))
}

// WithDerivedIDs is an option of a tracer: see Config.DerivedIDs.
func WithDerivedIDs(c *Config) { c.DerivedIDs = true }

// Defaults of a Config.
const (
	DefaultMaxSpanBytes = 1 << 20
	DefaultPreviewBytes = 1200
)

// complete sets what c omits.
func (c *Config) complete() {
	c.TracerProvider = cmp.Or(c.TracerProvider, otel.GetTracerProvider())
	c.MeterProvider = cmp.Or(c.MeterProvider, otel.GetMeterProvider())
	if !c.Profile.Known() {
		c.Profile = spans.DefaultProfile
	}
	c.Capture = soundCapture(c.Capture)
	if c.MaxSpanBytes < 64<<10 {
		c.MaxSpanBytes = DefaultMaxSpanBytes
	}
	switch {
	case c.PreviewBytes == 0:
		c.PreviewBytes = DefaultPreviewBytes
	case c.PreviewBytes > 0:
		c.PreviewBytes = max(c.PreviewBytes, genaijson.Min)
	}
	c.PreviewBytes = max(c.PreviewBytes, 0)
	if c.MaxBlockIDs < 1 {
		c.MaxBlockIDs = defaultBlockIDs
	}
	if l := reflect.ValueOf(c.Live); l.Kind() == reflect.Pointer && l.IsNil() { // its methods would panic in the host
		c.Live = nil
	}
	if c.Delivery == nil {
		c.Delivery, _ = c.TracerProvider.(Delivery)
	}
}

// NewTracer returns a Tracer. It never fails and never returns nil.
func NewTracer(c Config) *Tracer {
	global := c.TracerProvider == nil
	c.complete()
	t := &Tracer{
		global:   global,
		otel:     c.TracerProvider.Tracer(ScopeName),
		metrics:  newMetrics(&c),
		config:   c,
		sessions: newSessions(c.MaxBlockIDs),
	}
	t.listen()
	return t
}

// listen registers with what reports losses, once. A global provider may be installed after the Tracer is made.
func (t *Tracer) listen() {
	d := t.config.Delivery
	if d == nil && t.global {
		d, _ = otel.GetTracerProvider().(Delivery)
	}
	if d != nil && t.listens.CompareAndSwap(false, true) {
		d.OnLost(t.sessions.lost)
	}
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
	group *Run // only where no run was started in it
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
	s, _ := orBackground(ctx).Value(scopeKey{}).(*scope)
	return s
}
