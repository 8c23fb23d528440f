package writer

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// origin is what all spans of one run (or group) share: its address, and the counter that orders them.
type origin struct {
	tracer       *Tracer
	session, run string
	recording    string // kind of source of the run; empty for events
	generated    bool   // the tracer generated the session id
	startNS      int64  // start of the run, unix ns
	capture      spans.Capture
	address      []attribute.KeyValue // attributes that every span carries; never changed once made
	seq          atomic.Int64
	tally
}

// init sets what info says of the run, or of the session alone, and the address of that; the rest of the address and
// the start are the caller's.
func (o *origin) init(ctx context.Context, t *Tracer, info *RunInfo, generated bool) {
	o.tracer, o.session, o.run, o.generated = t, cleanID(info.SessionID), cleanID(info.ID), generated
	if info.Recording != spans.RecordingEvents {
		o.recording = cleanName(string(info.Recording))
	}
	o.capture = t.captureOf(info)
	o.measured = !info.Copied && t.metrics.enabled(ctx, o.recording)
	a := attrs{kv: make([]attribute.KeyValue, 0, 8)}
	a.kv = append(a.kv, spans.SessionIDKey.String(o.session))
	if generated {
		a.kv = append(a.kv, spans.SessionMadeUpKey.Bool(true))
	} else {
		a.kv = append(a.kv, spans.ConversationIDKey.String(o.session))
	}
	a.name(spans.RecordingKindKey, o.recording)
	o.address = a.kv
}

// next returns the position of something in the order of the run.
func (o *origin) next(at Moment) int64 {
	if at.Seq != 0 {
		return at.Seq
	}
	return o.seq.Add(1)
}

// spanKind is a kind of span: its exact name, the attribute that says it, and the option that goes with it, made once.
type spanKind struct {
	name   string
	attr   attribute.KeyValue
	option trace.SpanStartOption
	// count is the attribute of the parent with the number of its direct children of the kind, index its place in counts.
	count attribute.Key
	index int
}

func newKind(name string, kind trace.SpanKind, count attribute.Key, index int) spanKind {
	return spanKind{name, spans.KindKey.String(name), trace.WithSpanKind(kind), count, index}
}

var (
	kindRun        = newKind(spans.SpanRun, trace.SpanKindInternal, "", 0)
	kindPayload    = newKind(spans.SpanPayload, trace.SpanKindInternal, "", 0)
	kindTurn       = newKind(spans.SpanTurn, trace.SpanKindClient, spans.CountTurnsKey, 1)
	kindTool       = newKind(spans.SpanToolCall, trace.SpanKindInternal, spans.CountToolCallsKey, 2)
	kindCompaction = newKind(spans.SpanCompaction, trace.SpanKindInternal, spans.CountCompactionsKey, 3)
	kindPermission = newKind(spans.SpanPermission, trace.SpanKindInternal, spans.CountPermissionsKey, 4)

	countedKinds = [...]*spanKind{&kindTurn, &kindTool, &kindCompaction, &kindPermission}
)

// counts are the numbers of a span's direct children, by the index of their kind.
type counts [1 + len(countedKinds)]int64

// handle is one open span: what Run, Turn, Tool, Compacting and Asking have in common. Its scope is where it is,
// and the context of what starts in it.
type handle struct {
	*origin
	scope     scope
	place     *handle // the run or turn that numbers what starts in it: itself, or the parent
	span      trace.Span
	recording bool
	sent      bool                 // recorded, and sampled: the process sends it
	live      bool                 // copies of it are sent
	began     time.Time            // start of the span as it was stated, else zero
	since     time.Time            // the same, else when it began; only where metrics are taken
	vague     bool                 // its start is only a bound, or was not seen
	index     int64                // of the turn; noTurn outside
	id        seed                 // of the span; only with derived ids
	labels    []attribute.KeyValue // of its metrics

	mu          sync.Mutex
	ended       bool
	notes       int64
	dropped     int64
	content     content
	counts      counts
	early       int      // children that carried nothing but blocks before the end
	tools       ordinals // of what starts in it
	permissions ordinals
}

const noTurn = -1

// maxNotes is the number of otelagent.event events that a span carries; the rest is counted.
const maxNotes = 32

// attrs returns a collector for the attributes that a child of h starts with.
func (h *handle) attrs() *attrs {
	a := startAttrs(h.origin)
	if h.index != noTurn {
		a.int(spans.TurnIndexKey, h.index)
	}
	return a
}

// child starts c as a child of h, in the place of h, and counts it, as far as it is sent: else it would be missed.
func (h *handle) child(ctx context.Context, c *handle, kind *spanKind, at Moment, a *attrs, id seed) {
	c.origin, c.index, c.place = h.origin, h.index, h.place
	c.scope.run, c.scope.turn = h.scope.run, h.scope.turn
	if in := scopeOf(ctx); c.scope.turn == nil && in != nil && in.run == h.scope.run {
		c.scope.turn = in.turn
	}
	id.turn = h.place.id.turn
	c.begin(ctx, h, kind, at, a, id)
	h.started(c, kind)
}

// started counts a child.
func (h *handle) started(c *handle, kind *spanKind) {
	if c.sent {
		h.mu.Lock()
		h.counts[kind.index]++
		h.mu.Unlock()
	}
}

// ordinal returns how often key was used before in the place of h, by what of counts, and adds it to a.
func (h *handle) ordinal(of *ordinals, key string, a *attrs) int64 {
	h.place.mu.Lock()
	n := of.next(key)
	h.place.mu.Unlock()
	a.count(spans.OrdinalKey, n)
	return n
}

// begin starts the span of h with the attributes of a, which it frees. The parent is parent's span; the one in ctx when
// parent is nil.
func (h *handle) begin(ctx context.Context, parent *handle, kind *spanKind, at Moment, a *attrs, id seed) {
	ctx = orBackground(ctx)
	if parent != nil { // by ids: spans themselves may be of types that cannot be compared
		in, above := trace.SpanContextFromContext(ctx), parent.span.SpanContext()
		if in.SpanID() != above.SpanID() || in.TraceID() != above.TraceID() {
			ctx = trace.ContextWithSpan(ctx, parent.span)
		}
	}
	at = at.sound()
	a.add(kind.attr)
	a.add(h.address...)
	if kind == &kindRun {
		a.int(spans.SchemaKey, spans.SchemaVersion)
	}
	a.int(spans.SeqKey, h.next(at))
	a.source(spans.StartTimeKey, at.Source)
	h.content.redacted = a.redacted
	h.labelled(a.kv...)
	a.opts = append(a.opts, kind.option, trace.WithAttributes(a.kv...))
	if !at.Time.IsZero() {
		a.opts = append(a.opts, trace.WithTimestamp(at.Time))
	}
	h.scope.span = h
	h.scope.Context, h.span = h.startSpan(ctx, kind, h.tracer.spanName(kind, a.detail), &id, a.opts)
	h.id = id
	a.free()
	h.recording = h.span.IsRecording()
	h.sent = h.recording && h.span.SpanContext().IsSampled()
	h.live = h.sent && h.tracer.config.Live != nil && kind != &kindPayload
	h.began = at.Time
	if h.measured {
		h.since, h.vague = at.now().Time, at.Source == spans.TimeSourceBound
	}
}

// startSpan starts a span under that of ctx, with the ids that follow from id where they are to be derived.
func (h *handle) startSpan(
	ctx context.Context, kind *spanKind, name string, id *seed, opts []trace.SpanStartOption,
) (context.Context, trace.Span) {
	c := &h.tracer.config
	if !c.DerivedIDs && !c.SessionTrace {
		return h.tracer.otel.Start(ctx, name, opts...)
	}
	id.span, id.session, id.run, id.start, id.recording = kind.name, h.session, h.run, h.startNS, h.origin.recording
	id.spanID, id.wholeSession = c.DerivedIDs, c.SessionTrace
	// The seed must not stay in the context: spans of others started in it would get the same id.
	_, span := h.tracer.otel.Start(context.WithValue(ctx, seedKey{}, id), name, opts...)
	return trace.ContextWithSpan(ctx, span), span
}

// orBackground returns ctx, or an empty context instead of none.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// capturing reports whether content of this span is taken.
func (h *handle) capturing() bool {
	return h.sent && h.capture != spans.CaptureNone
}

// Handle is what other spans can be started in: a *Run, *Turn, *Tool or *Compacting.
type Handle interface {
	// node returns the handle of what starts something, or is nil where nothing is to start.
	node() *handle
}

// Note records an event of in that has no field of its own: typ is the producer's name of it (at most 128 bytes), body
// JSON (content), at when. Limit: 32 a span, the rest is counted.
func Note(in Handle, typ string, body []byte, at Moment) {
	h := in.node()
	if h == nil || !h.recording {
		return
	}
	seq := h.next(at)
	at = at.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	defer h.changed(0)
	if h.notes == maxNotes {
		h.dropped++
		h.drop(spans.DroppedKindEvent)
		return
	}
	h.notes++
	kv := make([]attribute.KeyValue, 0, 3)
	kv = append(kv, spans.EventTypeKey.String(cutName(typ, 128)), spans.EventSeqKey.Int64(seq))
	if body != nil && h.capturing() {
		id, _ := h.content.reference(h.origin, spans.Redactable{Body: body, JSON: true, Place: spans.PlaceEvent})
		kv = append(kv, spans.EventBodyKey.String(id.String()))
	}
	h.span.AddEvent(spans.EventOther, trace.WithAttributes(kv...), trace.WithTimestamp(at.Time))
}

// ends reports whether this is the first end of h. From then on other calls change nothing: the end, which is under
// way, needs no lock for what h has, but for its counts.
func (h *handle) ends() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.ended
	h.ended = true
	return !before
}

// finish ends the span with the attributes of a. failed is empty unless the span's status is Error. An end before the
// start is moved to the start, and its time becomes a bound. It returns the end, with a time where metrics are taken.
func (h *handle) finish(at Moment, a *attrs, failed spans.ErrorType) (end Moment) {
	if t := h.scope.turn; t.node() == h {
		cause := failed
		t.scope.run.cause.Store(&cause)
	}
	at = at.sound()
	if !h.content.empty() || !h.began.IsZero() {
		at = at.now()
	}
	if !at.Time.IsZero() {
		if start := h.start().Round(0); at.Time.Before(start) { // by the wall clock, as they go out
			at.Time, at.Source = start, spans.TimeSourceBound
		}
	}
	wire := at.Time
	if !wire.IsZero() && wire.Equal(h.start()) {
		wire = a.instant(wire)
	}
	h.labelled(a.kv...)
	if failed != "" {
		h.labelled(spans.ErrorTypeKeyKey.String(string(failed)))
	}
	if h.recording {
		h.close(at, a, failed)
	}
	if h.live {
		h.tracer.config.Live.Ended((*OpenSpan)(h))
	}
	end = at
	if h.measured { // before the processors of spans take their time; the span's own end is its provider's
		end = at.now()
		h.positive(spans.MetricCaptureNew, float64(h.content.bytes))
		h.positive(spans.MetricCaptureKnown, float64(h.content.known))
		h.positive(spans.MetricCaptureWithheldBodies, float64(h.content.kept))
	}
	h.carry(&h.content, "", at.Time)
	h.content = content{}
	if at.Time.IsZero() {
		h.span.End()
	} else {
		h.span.End(trace.WithTimestamp(wire))
	}
	return end
}

// instantLength is the length that a span without one has on the wire: backends warn of spans without length.
const instantLength = time.Microsecond

// instant says that the span ends when it starts, and returns its end on the wire.
func (a *attrs) instant(at time.Time) time.Time {
	end := at.Add(instantLength)
	if end.After(latest) {
		return at
	}
	a.yes(spans.InstantKey, true)
	return end
}

// start returns the start of the span, zero when only its provider knows it.
func (h *handle) start() time.Time {
	if s, ok := h.span.(interface{ StartTime() time.Time }); ok && h.began.IsZero() {
		return s.StartTime()
	}
	return h.began
}

// close puts on the span what it ends with.
func (h *handle) close(at Moment, a *attrs, failed spans.ErrorType) {
	a.int(spans.EndSeqKey, h.next(at))
	a.source(spans.EndTimeKey, at.Source)
	if at.Closed {
		a.kv = append(a.kv, spans.KnownAsKey.String(string(spans.KnownClosed)))
	}
	h.mu.Lock()
	for _, kind := range countedKinds {
		a.count(kind.count, h.counts[kind.index])
	}
	h.mu.Unlock()
	a.count(spans.EventsDroppedKey, h.dropped)
	c := &h.content
	a.count(spans.CaptureWithheldKey, c.kept)
	a.count(spans.RedactedKey, c.redacted+a.redacted)
	if failed != "" {
		a.kv = append(a.kv, spans.ErrorTypeKeyKey.String(string(failed)))
		h.span.SetStatus(codes.Error, a.description(failed))
	}
	h.span.SetAttributes(a.kv...)
}

// startText is the start of something as a seed holds it.
func startText(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// now returns at with the present time where it has none.
func (at Moment) now() Moment {
	if at.Time.IsZero() {
		at.Time = time.Now()
	}
	return at.sound()
}

// The times that unix nanoseconds can hold, from 1970 on; 0 means none on the wire.
var (
	earliest = time.Unix(0, 1)
	latest   = time.Unix(0, math.MaxInt64)
)

// sound returns at with a time that the wire can hold; one out of its range becomes a bound.
func (at Moment) sound() Moment {
	switch {
	case at.Time.IsZero():
	case at.Time.Before(earliest):
		at.Time, at.Source = earliest, spans.TimeSourceBound
	case at.Time.After(latest):
		at.Time, at.Source = latest, spans.TimeSourceBound
	}
	return at
}

// ordinals numbers uses of the same key.
type ordinals map[string]int64

// maxOrdinals bounds the keys that are remembered; beyond it they are forgotten and count from 0 again.
const maxOrdinals = 1 << 14

// next returns how often key was used before. The caller holds the lock.
func (o *ordinals) next(key string) int64 {
	if *o == nil || len(*o) == maxOrdinals {
		*o = make(ordinals)
	}
	n := (*o)[key]
	(*o)[key] = n + 1
	return n
}
