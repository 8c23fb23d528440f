// Package otlprow turns OTLP spans and log records into session rows and blocks. It is the only package that knows
// both.
//
// Input may come from any process that can reach a collector. The package never panics, takes memory in proportion to
// the input, and does not change it.
package otlprow

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/otlpbounds"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Bounds. The decoder omits what exceeds them and counts it as Cut; it does not reject the span.
const (
	// maxAttrs bounds the attributes that a row keeps in addition to those of the registry.
	maxAttrs = 256
	// maxKey bounds an attribute key, the name, digest and prefix of a list, and the type of an event.
	maxKey = 256
	// maxID bounds an id; the hash replaces a longer one, as in the adapter.
	maxID = 256
	// maxValue bounds an item of a list and what was withheld. It is the default and the most of Limits.Attribute.
	maxValue = 1 << 20
	// maxBody is the default and the most of Limits.Block.
	maxBody = 64 << 20
	// maxTurn is the default and the most of Limits.Turn.
	maxTurn = 256 << 20
	// maxEvents bounds the span events that are read.
	maxEvents = 1024
	// maxDepth bounds how deep a structured attribute may be nested.
	maxDepth = 32
)

// instantLength is the length in nanoseconds of a span on the wire that has none.
const instantLength = 1000

// Reasons for which a span is rejected: the keys of Report.Rejected.
const (
	ReasonNoSession = "no_session_id"
	ReasonTraceID   = "zero_trace_id"
	ReasonSpanID    = "zero_span_id"
	ReasonRunStart  = "bad_run_start"
	ReasonTurnIndex = "bad_turn_index"
	ReasonTimes     = "bad_times"
)

// Report counts the spans or log records of one call. Spans = Stored + Foreign + the sum of Rejected.
type Report struct {
	// Spans counts all, Stored those that became rows, Foreign those that are of other programs and of no use here.
	Spans, Stored, Foreign int
	// Events counts the rows that were made of events of spans of other programs. Stored does not.
	Events int
	// Scopes counts those of Foreign whose instrumentation scope no rule describes: those of the first 32 scopes.
	Scopes []ScopeCount
	// Rejected counts malformed ones by reason; nil if there were none.
	Rejected map[string]int
	// Cut counts pieces of stored spans (attributes, lists, events, blocks) that a bound left out or shortened, or that
	// do not have the format.
	Cut int
	// Rejections are the first MaxRejections of those that Rejected counts, in the order of the input.
	Rejections []Rejection
}

// MaxRejections bounds Report.Rejections.
const MaxRejections = 100

// Rejection describes a span or log record that was not stored. It holds no content.
type Rejection struct {
	Reason string
	// Name is that of the span, or of the record's event; Service that of its resource. Each has at most 256 bytes.
	Name, Service string
	Trace         session.TraceID
	Span          session.SpanID
	// Session has an empty ID if the span has none that is a string.
	Session session.Key
}

// DecodeProto decodes an OTLP protobuf message (ExportTraceServiceRequest or TracesData). It refuses one that is
// nested so deep that decoding it would exhaust memory or the stack; Decode cannot do that, since its input is
// decoded.
func DecodeProto(b []byte, opts ...Option) (session.Batch, Report, error) {
	var u ptrace.ProtoUnmarshaler
	err := otlpbounds.Check(b)
	var td ptrace.Traces
	if err == nil {
		td, err = u.UnmarshalTraces(b)
	}
	if err != nil {
		return session.Batch{}, Report{}, fmt.Errorf("otlprow: decode protobuf of %d bytes: %w", len(b), err)
	}
	batch, report := Decode(td, opts...)
	return batch, report, nil
}

// Decode makes one row of each span of the five kinds and of session.payload, in the order of td, and one block of
// each body on them; it may return the same block more than once. It removes previews of content from a span that
// has lists. Of spans of other programs it keeps those that a rule of package foreign describes, as rows of kind
// session.KindForeign, and skips the others. It rejects malformed spans of this format, and counts all. It only reads
// td; the result shares its strings.
//
// It reads types leniently: see session.Value. Of an attribute that occurs twice the last one counts. It replaces
// each bad byte of text that is not UTF-8 by U+FFFD, except in block bodies. A session.run span without
// otelagent.run.start takes its own start.
func Decode(td ptrace.Traces, opts ...Option) (session.Batch, Report) {
	d := newDecoder(td.SpanCount(), opts)
	if n := d.report.Spans; n > 0 {
		d.batch.Rows = make([]session.Row, 0, min(n, 4096))
	}
	for _, rs := range td.ResourceSpans().All() {
		d.resource(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			d.enter(ss.Scope().Name())
			for _, span := range ss.Spans().All() {
				d.span(span)
			}
			d.leave()
		}
	}
	return d.result()
}

// DecodeLogs keeps log records of other programs like the spans of Decode. It only reads ld; the result shares its
// strings.
func DecodeLogs(ld plog.Logs, opts ...Option) (session.Batch, Report) {
	d := newDecoder(ld.LogRecordCount(), opts)
	for _, rl := range ld.ResourceLogs().All() {
		d.resource(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			d.enter(sl.Scope().Name())
			for _, r := range sl.LogRecords().All() {
				d.otherRecord(r)
			}
			d.leave()
		}
	}
	return d.result()
}

type decoder struct {
	config
	batch           session.Batch
	report          Report
	tenant, service string
	turns           map[turnKey]int // bytes of the bodies of a turn
	attrs           []session.Attr  // of the current span
	others
}

func newDecoder(n int, opts []Option) *decoder {
	d := &decoder{report: Report{Spans: n}, turns: map[turnKey]int{},
		config: config{table: foreign.Default(), redactor: func(s string) string { return s }}}
	d.get = d.lookup
	for _, o := range opts {
		o(&d.config)
	}
	d.limits = d.limits.bounded()
	d.fixed = boundID(d.fixed)
	return d
}

func (d *decoder) result() (session.Batch, Report) {
	d.report.Stored = len(d.batch.Rows) - d.report.Events
	return d.batch, d.report
}

// reject counts a span or record that cannot be kept.
func (d *decoder) reject(reason, name string, trace pcommon.TraceID, span pcommon.SpanID, attrs pcommon.Map) {
	if d.report.Rejected == nil {
		d.report.Rejected = map[string]int{}
	}
	d.report.Rejected[reason]++
	if len(d.report.Rejections) < MaxRejections {
		id := boundID(text(attrs, spans.SessionIDKey))
		d.report.Rejections = append(d.report.Rejections, Rejection{
			Reason: reason, Name: cut(name, maxKey), Service: d.service, Trace: session.TraceID(trace),
			Span: session.SpanID(span), Session: session.Key{Tenant: d.tenant, ID: id},
		})
	}
}

func (d *decoder) resource(attrs pcommon.Map) {
	d.tenant, d.service, d.others.resource = d.fixed, "", attrs
	for key, v := range attrs.All() {
		if v.Type() != pcommon.ValueTypeStr {
			continue
		}
		switch key {
		case string(spans.TenantKey):
			if !d.isFixed {
				d.tenant = boundID(v.Str())
			}
		case "service.name":
			d.service = cut(v.Str(), maxKey)
		}
	}
}

// span stores the row of a span, or rejects it.
func (d *decoder) span(span ptrace.Span) {
	kind, attrs := session.KindOf(span.Name()), span.Attributes()
	if v, ok := get(attrs, string(spans.KindKey)); ok && v.Type() == pcommon.ValueTypeStr {
		kind = session.KindOf(v.Str())
	}
	if kind == session.KindUnknown {
		d.otherSpan(span)
		return
	}
	row := session.Row{
		Trace: session.TraceID(span.TraceID()), Span: session.SpanID(span.SpanID()),
		Parent: session.SpanID(span.ParentSpanID()), Kind: kind, Failed: span.Status().Code() == ptrace.StatusCodeError,
		Session: session.Key{Tenant: d.tenant}, Service: d.service, Turn: session.NoTurn, Known: spans.KnownObserved,
	}
	cutBefore, blocks := d.report.Cut, len(d.batch.Blocks)
	reason := d.fill(&row, attrs, span.StartTimestamp(), span.EndTimestamp())
	if reason == "" {
		if d.events(&row, span.Events()); !d.hasPlace(&row) {
			reason = ReasonRunStart
		}
	}
	if reason == "" {
		d.partialOutput(&row, blocks)
		stated(&row)
		d.batch.Rows = append(d.batch.Rows, row)
		return
	}
	for _, b := range d.batch.Blocks[blocks:] {
		d.turns[turnOf(&row)] -= len(b.Body)
	}
	d.report.Cut, d.batch.Blocks = cutBefore, d.batch.Blocks[:blocks]
	d.reject(reason, span.Name(), span.TraceID(), span.SpanID(), attrs)
}

// stated adds what a span omits (spans/README.md, Absent attributes). A run or turn that is sent again with content
// supersedes the one without by these: of two rows that end at the same time session.Supersedes prefers the one with
// more attributes.
func stated(row *session.Row) {
	text := func(key attribute.Key, v string) { add(row, key, session.StringValue(v)) }
	switch {
	case row.Kind == session.KindRun:
		config := object.Of("", []byte(row.Attr(spans.RunConfigKey).Text()))
		text(spans.RunConfigIDKey, config.String("config_id"))
		text(spans.RunConfigAPIKey, config.String("api"))
		text(spans.RunContinuationKey, string(spans.ContinuationInitial))
		text(spans.CaptureLevelKey, string(spans.CaptureContent))
	case row.Kind == session.KindTurn && len(row.Lists) > 0:
		text(spans.CaptureLevelKey, string(spans.CaptureContent))
		for _, l := range slices.Backward(row.Lists) {
			if l.Name == spans.ListRequest {
				add(row, spans.RequestMessagesKey, session.IntValue(l.Count))
				return
			}
		}
	}
}

// add adds an attribute to a row that does not have it, unless it is empty.
func add(row *session.Row, key attribute.Key, v session.Value) {
	i, ok := slices.BinarySearchFunc(row.Attrs, string(key), func(a session.Attr, key string) int {
		return strings.Compare(a.Key, key)
	})
	if !ok && v.Text() != "" {
		row.Attrs = slices.Insert(row.Attrs, i, session.Attr{Key: string(key), Value: v})
	}
}

// hasAddress reports whether a record has an attribute of this format.
func hasAddress(attrs pcommon.Map) bool {
	for key := range attrs.All() {
		if strings.HasPrefix(key, "otelagent.") {
			return true
		}
	}
	return false
}

// hasPlace reports whether the content of the row has a place: a row without a run belongs to the session itself, which
// has facts, and blocks for them, but neither lists nor events.
func (d *decoder) hasPlace(row *session.Row) bool {
	if row.Kind != session.KindPayload || row.Run != "" || row.RunStart != 0 {
		return true
	}
	homeless := len(row.Lists) + len(row.Events)
	if homeless > 0 && len(row.Facts) == 0 {
		return false
	}
	d.report.Cut += homeless
	row.Lists, row.Events = nil, nil
	return true
}
