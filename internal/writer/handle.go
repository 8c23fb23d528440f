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
	capture      Capture
	address      []attribute.KeyValue // attributes that every span carries; never changed once made
	seq          atomic.Int64
	tally
}

// init sets what info says of the run, or of the session alone; the start and the address are the caller's.
func (o *origin) init(ctx context.Context, t *Tracer, info *RunInfo, generated bool) {
	o.tracer, o.session, o.run, o.generated = t, cleanID(info.SessionID), cleanID(info.ID), generated
	o.recording = recordingName(info.Recording)
	o.capture = t.captureOf(info)
	o.measured = !info.Copied && t.metrics.enabled(ctx, o.recording)
}

// outsideRun is init of what is no run. It returns the scope that it is in, and its address in the session.
func (o *origin) outsideRun(ctx context.Context, t *Tracer, info *RunInfo) (*scope, []attribute.KeyValue) {
	in := scopeOf(ctx)
	o.init(ctx, t, info, t.placeInSession(ctx, in, info, t.readsBaggage(ctx, in, info)))
	a := attrs{}
	a.sessionAddress(o)
	a.name(spans.RecordingKindKey, o.recording)
	return in, a.kv
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
}

func newKind(name string, kind trace.SpanKind) spanKind {
	return spanKind{name, spans.KindKey.String(name), trace.WithSpanKind(kind)}
}

var (
	kindRun        = newKind(spans.SpanRun, trace.SpanKindInternal)
	kindTurn       = newKind(spans.SpanTurn, trace.SpanKindClient)
	kindTool       = newKind(spans.SpanToolCall, trace.SpanKindInternal)
	kindCompaction = newKind(spans.SpanCompaction, trace.SpanKindInternal)
	kindPermission = newKind(spans.SpanPermission, trace.SpanKindInternal)
	kindPayload    = newKind(spans.SpanPayload, trace.SpanKindInternal)
)

// handle is one open span: what Run, Group, Turn, Tool and Compacting have in common.
type handle struct {
	*origin
	span      trace.Span
	recording bool
	sent      bool                 // recorded, and sampled: the process sends it
	began     time.Time            // start of the span as it was stated, else zero
	since     time.Time            // the same, else when it began; only where metrics are taken
	vague     bool                 // its start is only a bound
	whole     bool                 // it is all of its origin: a run or a group, and not something in it
	index     int64                // of the turn; noTurn outside
	turn      string               // decimal turn index, empty outside a turn; only with derived ids
	at        string               // start of the turn where its index does not name it; only with derived ids
	id        seed                 // of the span; only with derived ids
	open      OpenSpan             // what a Live sees of it
	live      *OpenSpan            // open; nil where no copies of it are sent
	labels    []attribute.KeyValue // of its metrics

	mu      sync.Mutex
	ended   bool
	notes   int64
	dropped int64
	content content
	counts  counts
}

// counts are the direct children of a span.
type counts struct {
	turns, tools, compactions, permissions int64
}

// maxNotes is the number of otelagent.event events that a span carries; the rest is counted.
const maxNotes = 32

// begin starts the span of h with the attributes of a, which it frees, and returns the context with that span. The
// parent is parent's span; the one in ctx when parent is nil.
func (h *handle) begin(ctx context.Context, parent *handle, kind *spanKind, at Moment, a *attrs,
	id seed) context.Context {
	h.whole = kind == &kindRun
	ctx = orBackground(ctx)
	if parent != nil && !sameSpan(trace.SpanContextFromContext(ctx), parent.span.SpanContext()) {
		ctx = trace.ContextWithSpan(ctx, parent.span)
	}
	at = at.sound()
	a.add(kind.attr)
	a.add(h.address...)
	if h.whole {
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
	ctx, h.span = h.startSpan(ctx, kind, h.tracer.spanName(kind, a.detail), &id, a.opts)
	h.id = id
	a.free()
	h.recording = h.span.IsRecording()
	h.sent = h.recording && h.span.SpanContext().IsSampled()
	h.began = at.Time
	if h.measured {
		h.since, h.vague = at.Time, at.Source == spans.TimeSourceBound
		if h.since.IsZero() {
			h.since = time.Now()
		}
	}
	return ctx
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

// sameSpan compares by ids: spans themselves may be of types that cannot be compared.
func sameSpan(a, b trace.SpanContext) bool {
	return a.SpanID() == b.SpanID() && a.TraceID() == b.TraceID()
}

// started counts a direct child; one that is not sent is not counted, or it would be missed.
func (h *handle) started(child *handle, count *int64) {
	if child.sent {
		h.mu.Lock()
		*count++
		h.mu.Unlock()
	}
}

// capturing reports whether content of this span is taken.
func (h *handle) capturing() bool {
	return h.sent && h.capture != CaptureNone
}

// note adds an otelagent.event. Limits: 32 a span, the rest is counted; types are cut at 128 bytes.
func (h *handle) note(typ string, body []byte, at Moment) {
	if !h.recording {
		return
	}
	seq := h.next(at)
	at = at.sound()
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
		kv = append(kv, spans.EventBodyKey.String(h.content.reference(h.origin,
			spans.Redactable{Body: body, JSON: true, Place: spans.PlaceEvent})))
	}
	if at.Time.IsZero() {
		h.span.AddEvent(spans.EventOther, trace.WithAttributes(kv...))
	} else {
		h.span.AddEvent(spans.EventOther, trace.WithAttributes(kv...), trace.WithTimestamp(at.Time))
	}
}

// finish ends the span with the attributes of a, once. failed is empty unless the span's status is Error. An end before
// the start is moved to the start, and its time becomes a bound. It returns the end, and whether metrics are to be
// taken of what ended; the time of the end is always there then.
func (h *handle) finish(at Moment, known spans.Known, a *attrs, failed spans.ErrorType) (end Moment, measure bool) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return Moment{}, false
	}
	h.ended = true
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
		h.close(at, known, a, failed)
	}
	h.mu.Unlock()
	if h.live != nil {
		h.tracer.config.Live.Ended(h.live)
	}
	end = at
	if h.measured { // before the processors of spans take their time; the span's own end is its provider's
		end = at.now()
	}
	// The host's callbacks for ends may use the handle. No call changes its content any more, and it is gone once it is
	// emitted.
	h.measureContent()
	h.emit(at.Time)
	if at.Time.IsZero() {
		h.span.End()
	} else {
		h.span.End(trace.WithTimestamp(wire))
	}
	return end, h.measured
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
func (h *handle) close(at Moment, known spans.Known, a *attrs, failed spans.ErrorType) {
	a.int(spans.EndSeqKey, h.next(at))
	a.source(spans.EndTimeKey, at.Source)
	if known == spans.KnownClosed {
		a.kv = append(a.kv, spans.KnownAsKey.String(string(known)))
	}
	a.count(spans.CountTurnsKey, h.counts.turns)
	a.count(spans.CountToolCallsKey, h.counts.tools)
	a.count(spans.CountCompactionsKey, h.counts.compactions)
	a.count(spans.CountPermissionsKey, h.counts.permissions)
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
