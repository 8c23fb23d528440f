// Package otlprow turns OTLP spans and log records into session rows and blocks. It is the only place that knows both.
//
// It trusts nobody: what it is given comes from any process that can reach a collector. It never panics, takes memory
// in proportion to what it is given, and does not change that.
package otlprow

import (
	"fmt"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/otlpnesting"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Bounds. What exceeds them is left out and counted as Cut; a span is never refused for it.
const (
	// maxAttrs bounds the attributes that a row keeps beside those of the registry.
	maxAttrs = 256
	// maxKey bounds an attribute key, the name, digest and prefix of a list, and the type of an event.
	maxKey = 256
	// maxID bounds an id; a longer one is replaced by its hash, as the adapter does.
	maxID = 256
	// maxValue bounds an item of a list and what was withheld. It is the default and the most of Limits.Attribute.
	maxValue = 1 << 20
	// maxBody is the default and the most of Limits.Block.
	maxBody = 64 << 20
	// maxTurn is the default and the most of Limits.Turn.
	maxTurn = 256 << 20
	// maxEvents bounds the span events that are looked at.
	maxEvents = 1024
	// maxDepth bounds how deep a structured attribute may be nested.
	maxDepth = 32
)

// instantLength is the length in nanoseconds that a span without one has on the wire.
const instantLength = 1000

// Reasons for which a span is rejected: the keys of Report.Rejected.
const (
	ReasonNoSession = "no_session_id"
	ReasonTraceID   = "zero_trace_id"
	ReasonSpanID    = "zero_span_id"
	ReasonRunStart  = "bad_run_start"
	ReasonTurnIndex = "bad_turn_index"
	ReasonTimes     = "bad_times"
	// ReasonForeign is that of foreign spans and records in Rejections; they are not rejected.
	ReasonForeign = "foreign"
)

// Report counts what became of the spans, or log records, of one call. Spans = Stored + Foreign + the sum of Rejected.
type Report struct {
	// Spans is how many there were, Stored how many became rows, Foreign how many are of other kinds.
	Spans, Stored, Foreign int
	// Rejected counts malformed ones by reason; nil when there were none.
	Rejected map[string]int
	// Cut counts pieces of stored spans (attributes, lists, events, blocks) that were left out or shortened because of
	// a bound, or because they are not what the format says.
	Cut int
	// Rejections are the first MaxRejections of what Rejected counts, and of Foreign with WithForeign, in the order of the input.
	Rejections []Rejection
}

// MaxRejections is how many rejections a Report describes.
const MaxRejections = 100

// Rejection says of a span or log record that was not stored what it is, as far as it says so. It holds no content.
type Rejection struct {
	Reason string
	// Name is that of the span, or of the record's event; Service that of its resource. At most 256 bytes each.
	Name, Service string
	Trace         session.TraceID
	Span          session.SpanID
	// Session has an empty ID where there is none. An id that is no string is none here.
	Session session.Key
}

// DecodeProto decodes an OTLP protobuf message (ExportTraceServiceRequest or TracesData). One that is nested so deep that decoding it
// would take memory without measure, or end the process, is refused; Decode cannot do that for what somebody else decoded.
func DecodeProto(b []byte, opts ...Option) (session.Batch, Report, error) {
	var u ptrace.ProtoUnmarshaler
	err := otlpnesting.Check(b)
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

// Decode makes one row of each span of ours, in the order of td, and one block of each body that rode on them; the same
// block may occur more than once. Previews of content (attributes for eyes) are left out of a span that has lists. Foreign spans are skipped, malformed ones left out, and all are counted. td is only
// read; the result shares its strings.
//
// Types are read leniently: see session.Value. Of an attribute that occurs twice the last one counts. Text that is not
// UTF-8 has each bad byte replaced by U+FFFD, block bodies excepted. A session.run span without otelagent.run.start takes
// its own start, which is the same by definition. A pending span of Logfire's SDK becomes the live row of the span that it announces.
func Decode(td ptrace.Traces, opts ...Option) (session.Batch, Report) {
	d := newDecoder(td.SpanCount(), opts)
	if n := d.report.Spans; n > 0 {
		d.batch.Rows = make([]session.Row, 0, min(n, 4096))
	}
	for _, rs := range td.ResourceSpans().All() {
		d.resource(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				d.span(span)
			}
		}
	}
	d.report.Stored = len(d.batch.Rows)
	return d.batch, d.report
}

type decoder struct {
	config
	batch           session.Batch
	report          Report
	tenant, service string
	brought         brought

	// Of the span at hand: its attributes as they came, and their order by key.
	attrs []session.Attr
	order []int
}

func newDecoder(n int, opts []Option) decoder {
	d := decoder{report: Report{Spans: n}}
	for _, o := range opts {
		o(&d.config)
	}
	d.limits = d.limits.bounded()
	d.fixed = boundID(d.fixed)
	return d
}

// reject counts a span or record that is not stored, and says what it is.
func (d *decoder) reject(reason, name string, row *session.Row, attrs pcommon.Map) {
	if d.report.Rejected == nil {
		d.report.Rejected = make(map[string]int)
	}
	d.report.Rejected[reason]++
	d.describe(reason, name, row.Trace, row.Span, attrs)
}

// foreign counts one that is of another kind.
func (d *decoder) foreign(name string, trace pcommon.TraceID, span pcommon.SpanID, attrs pcommon.Map) {
	d.report.Foreign++
	if d.listForeign {
		d.describe(ReasonForeign, name, session.TraceID(trace), session.SpanID(span), attrs)
	}
}

func (d *decoder) describe(reason, name string, trace session.TraceID, span session.SpanID, attrs pcommon.Map) {
	if len(d.report.Rejections) == MaxRejections {
		return
	}
	r := Rejection{
		Reason: reason, Name: cut(name, maxKey), Service: d.service, Trace: trace, Span: span, Session: session.Key{Tenant: d.tenant},
	}
	if v, ok := get(attrs, string(spans.SessionIDKey)); ok {
		r.Session.ID = boundID(str(v))
	}
	d.report.Rejections = append(d.report.Rejections, r)
}

func (d *decoder) resource(attrs pcommon.Map) {
	d.tenant, d.service = d.fixed, ""
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

func (d *decoder) span(span ptrace.Span) {
	kind := kindOf(span)
	if kind == session.KindUnknown {
		d.foreign(span.Name(), span.TraceID(), span.SpanID(), span.Attributes())
		return
	}
	row := session.Row{
		Trace:   session.TraceID(span.TraceID()),
		Span:    session.SpanID(span.SpanID()),
		Parent:  session.SpanID(span.ParentSpanID()),
		Session: session.Key{Tenant: d.tenant},
		Turn:    session.NoTurn,
		Kind:    kind,
		Known:   spans.KnownObserved,
		Failed:  span.Status().Code() == ptrace.StatusCodeError,
		Service: d.service,
	}
	before := d.report.Cut
	reason := d.fill(&row, span.Attributes(), nil, span.StartTimestamp(), span.EndTimestamp())
	if reason == "" && pending(span.Attributes()) {
		if d.announce(&row); row.Span == (session.SpanID{}) {
			reason = ReasonSpanID
		}
	}
	if reason != "" {
		d.report.Cut = before
		d.reject(reason, span.Name(), &row, span.Attributes())
		return
	}
	blocks := len(d.batch.Blocks)
	d.brought.begin()
	d.events(&row, span.Events())
	if !d.placed(&row) {
		d.report.Cut, d.batch.Blocks = before, d.batch.Blocks[:blocks]
		d.brought.forget()
		d.reject(ReasonRunStart, span.Name(), &row, span.Attributes())
		return
	}
	d.partialOutput(&row, blocks)
	stated(&row)
	d.brought.end(len(d.batch.Rows), &row)
	d.batch.Rows = append(d.batch.Rows, row)
}

// stated adds what the lists of a turn say and the span does not repeat: that its content was captured, and how many
// messages the last request has.
func stated(row *session.Row) {
	if row.Kind != session.KindTurn || len(row.Lists) == 0 {
		return
	}
	add := func(key attribute.Key, v session.Value) {
		i, ok := slices.BinarySearchFunc(row.Attrs, string(key), func(a session.Attr, key string) int {
			return strings.Compare(a.Key, key)
		})
		if !ok {
			row.Attrs = slices.Insert(row.Attrs, i, session.Attr{Key: string(key), Value: v})
		}
	}
	add(spans.CaptureLevelKey, session.StringValue(string(spans.CaptureContent)))
	for i := len(row.Lists) - 1; i >= 0; i-- {
		if l := &row.Lists[i]; l.Name == spans.ListRequest {
			add(spans.RequestMessagesKey, session.IntValue(l.Count))
			return
		}
	}
}

// kindOf returns the kind that the attribute otelagent.kind of a span states, else that of which it has the exact name.
func kindOf(span ptrace.Span) session.Kind {
	if v, ok := get(span.Attributes(), string(spans.KindKey)); ok && v.Type() == pcommon.ValueTypeStr {
		return session.KindOf(v.Str())
	}
	return session.KindOf(span.Name())
}

// placed reports whether what the row carries has a place: one of no run belongs to the session itself, which has facts, and blocks for
// them, but neither lists nor events.
func (d *decoder) placed(row *session.Row) bool {
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

// fill sets what follows from times and attributes but those without, or returns why the row cannot be kept.
func (d *decoder) fill(row *session.Row, attrs pcommon.Map, without []string, start, end pcommon.Timestamp) string {
	switch {
	case row.Trace == session.TraceID{}:
		return ReasonTraceID
	case row.Span == session.SpanID{}:
		return ReasonSpanID
	case start == 0 || start > math.MaxInt64 || end > math.MaxInt64:
		return ReasonTimes
	}
	row.Start, row.End = int64(start), int64(end)

	var runStart, conversation session.Value
	instant := false
	d.attrs = d.attrs[:0]
	for key, pv := range attrs.All() {
		if len(key) > maxKey {
			d.report.Cut++
			continue
		}
		if slices.Contains(without, key) {
			continue
		}
		v := d.value(pv, key)
		switch key {
		case string(spans.SessionIDKey):
			row.Session.ID = boundID(v.Text())
		case string(spans.RunIDKey):
			row.Run = boundID(v.Text())
		case string(spans.RunStartKey):
			runStart = v
		case string(spans.TurnIndexKey):
			row.Turn = session.NoTurn
			if n, ok := v.Int(); ok && n >= 0 {
				row.Turn = n
			}
		case string(spans.SeqKey):
			row.Seq = v.IntOr(0)
		case string(spans.EndSeqKey):
			row.EndSeq = v.IntOr(0)
		case string(spans.ConversationIDKey):
			conversation = v
		case string(spans.InstantKey):
			instant, _ = v.Bool()
		case string(spans.KindKey): // it is the row's, or was copied to a log record
		case session.PartialOutputKey: // ours alone
			d.report.Cut++
		case string(spans.KnownAsKey):
			switch word := spans.Known(v.Str()); word {
			case spans.KnownLive, spans.KnownClosed, spans.KnownObserved:
				row.Known = word
			default: // a later version's word: not ended by the loop, as far as we understand
				row.Known = spans.KnownClosed
				d.attrs = append(d.attrs, session.Attr{Key: key, Value: v})
			}
		default:
			d.attrs = append(d.attrs, session.Attr{Key: valid(key), Value: v})
		}
		if len(d.attrs) >= 4*maxAttrs { // hostile: bring it down again before it grows
			d.settle()
			d.boundAttrs()
		}
	}

	if instant && row.End-row.Start == instantLength {
		row.End = row.Start
	}
	if row.Session.ID == "" {
		return ReasonNoSession
	}
	switch n, ok := runStart.Int(); {
	case ok && n > 0:
		row.RunStart = n
	case runStart.IsZero() && row.Kind == session.KindRun:
		row.RunStart = row.Start
	case runStart.IsZero() && row.Kind == session.KindPayload && row.Run == "": // it belongs to the session itself
	default:
		return ReasonRunStart
	}
	switch row.Kind {
	case session.KindRun:
		row.Turn = session.NoTurn
	case session.KindTurn:
		if row.Turn == session.NoTurn {
			return ReasonTurnIndex
		}
	}
	if !conversation.IsZero() && boundID(conversation.Text()) != row.Session.ID {
		d.attrs = append(d.attrs, session.Attr{Key: string(spans.ConversationIDKey), Value: conversation})
	}
	d.settle()
	d.boundAttrs()
	if len(d.order) > 0 {
		row.Attrs = make([]session.Attr, len(d.order))
		for i, j := range d.order {
			row.Attrs[i] = d.attrs[j]
		}
	}
	return ""
}

// settle makes d.order the indices of d.attrs sorted by key: the last one of equal keys, and none without a value.
func (d *decoder) settle() {
	o := d.order[:0]
	for i := range d.attrs {
		o = append(o, i)
	}
	if l := d.attrs; len(o) <= 64 {
		// Binary insertion: faster than a general sort for the 20 to 40 attributes of a span.
		for i := 1; i < len(o); i++ {
			lo, hi := 0, i
			for lo < hi {
				if mid := int(uint(lo+hi) >> 1); l[o[mid]].Key <= l[i].Key {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			copy(o[lo+1:i+1], o[lo:i])
			o[lo] = i
		}
	} else {
		slices.SortFunc(o, func(a, b int) int {
			if c := strings.Compare(l[a].Key, l[b].Key); c != 0 {
				return c
			}
			return a - b
		})
	}
	kept := o[:0]
	for i, j := range o {
		if i+1 < len(o) && d.attrs[o[i+1]].Key == d.attrs[j].Key {
			continue
		}
		if !d.attrs[j].Value.IsZero() && !openInference(d.attrs[j].Key) {
			kept = append(kept, j)
		}
	}
	d.order = kept
}

// boundAttrs takes out of d.order what the registry does not know beyond maxAttrs, and brings d.attrs down to d.order when
// it has grown large.
func (d *decoder) boundAttrs() {
	if len(d.attrs) <= maxAttrs {
		return
	}
	known := 0
	for _, j := range d.order {
		if _, ok := spans.Lookup(attrKey(d.attrs[j].Key)); ok {
			known++
		}
	}
	room := max(0, maxAttrs-known)
	l := make([]session.Attr, 0, len(d.order))
	for _, j := range d.order {
		if _, ok := spans.Lookup(attrKey(d.attrs[j].Key)); !ok {
			if room == 0 {
				d.report.Cut++
				continue
			}
			room--
		}
		l = append(l, d.attrs[j])
	}
	d.attrs, d.order = l, d.order[:0]
	for i := range l {
		d.order = append(d.order, i)
	}
}

func (d *decoder) value(v pcommon.Value, key string) session.Value {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		s := v.Str()
		if len(s) > maxID {
			if a, ok := spans.Lookup(attrKey(key)); ok && a.Class == spans.ClassID {
				return session.StringValue(boundID(s))
			}
		}
		if len(s) > d.limits.Attribute {
			d.report.Cut++
		}
		return session.StringValue(cut(s, d.limits.Attribute))
	case pcommon.ValueTypeInt:
		return session.IntValue(v.Int())
	case pcommon.ValueTypeDouble:
		return session.DoubleValue(v.Double())
	case pcommon.ValueTypeBool:
		return session.BoolValue(v.Bool())
	case pcommon.ValueTypeEmpty:
		return session.Value{}
	case pcommon.ValueTypeSlice:
		if l, ok := d.strings(v.Slice()); ok {
			return session.StringsValue(l)
		}
	}
	text, ok := appendJSON(nil, v, 0, d.limits.Attribute)
	if !ok {
		d.report.Cut++
		return session.Value{}
	}
	return session.StringValue(string(text))
}

// strings returns a slice that holds only strings, within bounds.
func (d *decoder) strings(s pcommon.Slice) ([]string, bool) {
	l := make([]string, 0, min(s.Len(), 64))
	size := 0
	for _, v := range s.All() {
		if v.Type() != pcommon.ValueTypeStr {
			return nil, false
		}
		if size += len(v.Str()); size > d.limits.Attribute {
			d.report.Cut++
			break
		}
		l = append(l, valid(v.Str()))
	}
	return l, true
}

func (d *decoder) events(row *session.Row, events ptrace.SpanEventSlice) {
	n := events.Len()
	if n > maxEvents {
		d.report.Cut += n - maxEvents
		n = maxEvents
	}
	for i := range n {
		e := events.At(i)
		d.event(row, e.Name(), e.Timestamp(), e.Attributes())
	}
	// A decision and a compaction have no content of their own kind that their previews could stand for.
	if len(row.Lists) > 0 || row.Kind == session.KindPermission || row.Kind == session.KindCompaction {
		row.Attrs = slices.DeleteFunc(row.Attrs, func(a session.Attr) bool { return slices.Contains(previews, a.Key) })
	}
}

// previews are the attributes that show, for eyes, what is in the blocks.
var previews = []string{
	string(spans.InputMessagesKey), string(spans.OutputMessagesKey), string(spans.ToolCallArgumentsKey), string(spans.ToolCallResultKey),
	string(spans.SystemInstructionsKey), string(spans.RequestMessagesOmittedKey),
}

// openInference reports whether key says again, in the words of OpenInference, what another key of ours says.
func openInference(key string) bool {
	switch key {
	case string(spans.OpenInferenceKindKey), string(spans.OpenInferenceAgentKey), string(spans.OpenInferenceModelKey), string(spans.OpenInferenceToolKey),
		string(spans.OpenInferencePromptKey), string(spans.OpenInferenceCompletionKey), string(spans.OpenInferenceTotalKey),
		string(spans.OpenInferenceReasoningKey), string(spans.OpenInferenceCacheReadKey), string(spans.OpenInferenceCacheWriteKey),
		string(spans.OpenInferenceInputKey), string(spans.OpenInferenceInputTypeKey),
		string(spans.OpenInferenceOutputKey), string(spans.OpenInferenceOutputTypeKey):
		return true
	}
	return false
}

// event takes one event of ours, and passes over any other.
func (d *decoder) event(row *session.Row, name string, at pcommon.Timestamp, attrs pcommon.Map) {
	switch name {
	case spans.EventBlocks:
		d.blocks(row, attrs)
	case spans.EventOther:
		d.other(row, at, attrs)
	case spans.EventFact:
		d.fact(row, at, attrs)
	}
}

func (d *decoder) blocks(row *session.Row, attrs pcommon.Map) {
	for text := range d.texts(attrs, spans.BlockWithheldKey) {
		d.withheld(row, text)
	}
	for text := range d.texts(attrs, spans.ListsKey) {
		d.list(row, text)
	}
	bodies, ok := get(attrs, string(spans.BlockBodiesKey))
	if !ok {
		return
	}
	if bodies.Type() != pcommon.ValueTypeSlice {
		d.block(row, bodies)
		return
	}
	for _, body := range bodies.Slice().All() {
		d.block(row, body)
	}
}

// texts yields the strings of a list, or one string alone. What is neither is counted.
func (d *decoder) texts(attrs pcommon.Map, key attribute.Key) iter.Seq[string] {
	return func(yield func(string) bool) {
		v, ok := get(attrs, string(key))
		switch {
		case !ok:
		case v.Type() == pcommon.ValueTypeStr:
			yield(v.Str())
		case v.Type() == pcommon.ValueTypeSlice:
			for _, e := range v.Slice().All() {
				if e.Type() != pcommon.ValueTypeStr {
					d.report.Cut++
				} else if !yield(e.Str()) {
					return
				}
			}
		default:
			d.report.Cut++
		}
	}
}

// withheld takes what is said of a block that was cut or withheld.
func (d *decoder) withheld(row *session.Row, text string) {
	w, err := spans.ParseWithheld(text)
	if err != nil || len(text) > maxValue {
		d.report.Cut++
		return
	}
	if !d.affords(row, len(w.Beginning)) {
		d.report.Cut++
		w.Beginning = ""
	}
	d.batch.Blocks = append(d.batch.Blocks, session.Block{Session: row.Session, ID: w.Block, Body: w.Beginning, Size: w.Size})
}

func (d *decoder) list(row *session.Row, text string) {
	if len(text) > d.limits.list() {
		d.report.Cut++ // the list stays and is broken
		text, _, _ = strings.Cut(text, "\n")
	}
	p, err := spans.ParseList(valid(text))
	if err != nil || len(p.Name) > maxKey || len(p.Whole) > maxKey {
		d.report.Cut++
		return
	}
	for i, it := range p.Items {
		if len(it) > maxValue {
			d.report.Cut++ // the list stays and is broken at this item
			p.Items[i] = ""
		}
	}
	row.Lists = append(row.Lists, session.List{
		Name: p.Name, Attempt: p.Attempt, Count: p.Count, Whole: p.Whole, Prefix: p.Prefix, Items: p.Items,
	})
}

func (d *decoder) block(row *session.Row, v pcommon.Value) {
	var body string
	switch v.Type() {
	case pcommon.ValueTypeStr:
		body = v.Str()
	case pcommon.ValueTypeBytes:
		body = string(v.Bytes().AsRaw())
	default:
		d.report.Cut++
		return
	}
	d.body(row, body)
}

// body takes a body; one that a limit does not allow without its bytes.
func (d *decoder) body(row *session.Row, body string) {
	b := session.Block{Session: row.Session, ID: spans.BlockOfString(body), Body: body}
	if len(body) > d.limits.Block || !d.affords(row, len(body)) {
		d.report.Cut++
		b.Body, b.Size = "", int64(len(body))
	}
	d.batch.Blocks = append(d.batch.Blocks, b)
}

func (d *decoder) other(row *session.Row, at pcommon.Timestamp, attrs pcommon.Map) {
	var o session.Event
	if at <= math.MaxInt64 {
		o.Time = int64(at)
	}
	for key, v := range attrs.All() {
		switch key {
		case string(spans.EventTypeKey):
			o.Type = cut(str(v), maxKey)
		case string(spans.EventBodyKey):
			o.Body = str(v)
		case string(spans.EventSeqKey):
			o.Seq, _ = intOf(v)
		}
	}
	if len(o.Body) > maxKey {
		d.report.Cut++
		o.Body = ""
	}
	row.Events = append(row.Events, o)
}

// fact takes one fact of a session.payload span; on other spans it has no meaning and is counted.
func (d *decoder) fact(row *session.Row, at pcommon.Timestamp, attrs pcommon.Map) {
	if row.Kind != session.KindPayload || at > math.MaxInt64 {
		d.report.Cut++
		return
	}
	f := session.RowFact{Time: int64(at)}
	for key, v := range attrs.All() {
		switch key {
		case string(spans.FactSubjectKey):
			f.Subject = boundID(str(v))
		case string(spans.FactKeyKey):
			f.Key = cut(str(v), maxKey)
		case string(spans.FactValueKey):
			f.Value = str(v)
		case string(spans.EventSeqKey):
			f.Seq, _ = intOf(v)
		}
	}
	if len(f.Value) > maxKey {
		d.report.Cut++
		f.Value = ""
	}
	row.Facts = append(row.Facts, f)
}
