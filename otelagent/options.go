package otelagent

import (
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Option configures a Tracer.
type Option func(*writer.Config)

// WithTracerProvider sets where spans go. Default, and with nil: the global provider, also one installed later. The
// tracer sends the next request of a session whole when the provider reports that content was lost, as the providers
// of otelsetup do; any provider may, with a method OnLost(func(session string)).
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *writer.Config) { c.TracerProvider = p }
}

// WithMeterProvider sets where metrics go (docs/metrics.md). Default, and with nil: the global provider, also one
// installed later. With the provider of go.opentelemetry.io/otel/metric/noop nothing is measured.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *writer.Config) { c.MeterProvider = p }
}

// Capture says how much of the content class (what a model, user, tool or provider wrote) the process may send.
// Empty is CaptureNone.
type Capture = spans.Capture

// The levels of capture.
const (
	// CaptureNone lets ids, numbers, names and values of closed lists be sent, and no content.
	CaptureNone = spans.CaptureNone
	// CaptureDigests lets the skeleton of requests and replies be sent: the order of their messages with provenance, and
	// of each piece its size and SHA-256, but no content. Mind that a short text can be guessed from its hash.
	CaptureDigests = spans.CaptureDigests
	// CaptureContent lets everything be sent: requests, replies, arguments, results, error texts.
	CaptureContent = spans.CaptureContent
)

// WithCapture sets how much content the process sends. Default: CaptureNone. An unknown level is CaptureNone.
func WithCapture(level Capture) Option {
	return func(c *writer.Config) { c.Capture = level }
}

// WithCaptureFor sets for each run how much content the process sends. The tracer calls decide as the run starts, with
// the session filled in. The answer holds for everything in the run. Default, and with nil: the level of WithCapture. A
// panic of decide is CaptureNone.
func WithCaptureFor(decide func(RunInfo) Capture) Option {
	return func(c *writer.Config) {
		c.CaptureFor = nil
		if decide != nil {
			c.CaptureFor = func(info writer.RunInfo) Capture { return decide(runInfo(&info)) }
		}
	}
}

// WithRedactor lets r see every piece of content before it is sent, and before it is hashed. Default, and with nil:
// none.
func WithRedactor(r spans.Redactor) Option {
	return func(c *writer.Config) { c.Redactor = r }
}

// Limits bounds the content that the process sends. A zero field is the default.
type Limits struct {
	// Block cuts every body over that many bytes: its beginning (at most 512 KiB) is sent, with its size and SHA-256, and
	// readers show the cut. A request with such a body cannot be given back byte for byte. Default: no bound.
	Block int
	// Span bounds the content that one span carries, in bytes; what is beyond goes on in zero-length children, spans named
	// session.payload. Default, and below 64 KiB: 1 MiB, a quarter of what receivers over gRPC take.
	Span int
	// Preview bounds each preview: gen_ai.system_instructions, gen_ai.input.messages and gen_ai.output.messages on turns,
	// gen_ai.tool.call.arguments and gen_ai.tool.call.result on tool calls. Each is valid JSON that says what was cut.
	// Default: 1,200 bytes; negative: no previews; below 320: 320.
	Preview int
}

// WithLimits bounds the content that the process sends.
func WithLimits(l Limits) Option {
	return func(c *writer.Config) { c.MaxBlockBytes, c.MaxSpanBytes, c.PreviewBytes = l.Block, l.Span, l.Preview }
}

// partialInterval is how often copies of an open turn renew the reply as it comes in.
const partialInterval = time.Second

// WithLive lets l send copies of spans while they are open, so that a session can be watched as it runs: l is made by
// otelsetup, with NewLive or WithLive. The request of a turn and the arguments of a tool call are then sent as soon as
// they are known, on a session.payload span of their own. See docs/live.md. Default, and with nil: nothing is sent
// before its span ends.
func WithLive(l writer.Live) Option {
	return func(c *writer.Config) { c.Live = l }
}

// WithSessionTrace puts all top-level runs of a session into one trace whose id follows from the session, linked to the
// span in the caller's context; where the generator of the provider does not make such ids, each into a trace of its
// own. Mind that backends bound the size of a trace. Default: a run is in the trace of the caller's context, else in
// its own.
func WithSessionTrace() Option {
	return func(c *writer.Config) { c.SessionTrace = true }
}

// WithSpanNames sets whether the names of spans have details, such as tool.call bash or session.run coder: names of
// tools and agents and values of the registry, never numbers, ids or content. Default: the kind alone, tool.call. The
// attribute otelagent.kind holds the kind either way.
func WithSpanNames(detailed bool) Option {
	return func(c *writer.Config) { c.Detailed = detailed }
}

// WithoutBaggage makes runs ignore the baggage of their callers (see [ContextWithBaggage]). Use it in a service whose
// callers are strangers: baggage names the session of a run, and WithCaptureFor sees that session. The baggage is
// passed on as it is. Default: baggage is believed.
func WithoutBaggage() Option {
	return func(c *writer.Config) { c.NoBaggage = true }
}
