package otlprow

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// eventName is the attribute that names the event of a log record whose field for it is empty.
const eventName = "event.name"

// DecodeLogs makes one row of kind session.payload of each log record that is one of our events, in the order of ld, and blocks like
// Decode. A record stands for an event of the span whose trace and span id it has; its row has an id of its own that follows from what
// it says, so that one that comes twice is one row. Other records are foreign. ld is only read; the result shares its strings.
func DecodeLogs(ld plog.Logs, opts ...Option) (session.Batch, Report) {
	d := newDecoder(ld.LogRecordCount(), opts)
	for _, rl := range ld.ResourceLogs().All() {
		d.resource(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				d.record(r)
			}
		}
	}
	d.report.Stored = len(d.batch.Rows)
	return d.batch, d.report
}

func (d *decoder) record(r plog.LogRecord) {
	name := r.EventName()
	if v, ok := get(r.Attributes(), eventName); ok && name == "" {
		name = str(v)
	}
	switch name {
	case spans.EventBlocks, spans.EventOther, spans.EventFact:
	default:
		d.foreign(name, r.TraceID(), r.SpanID(), r.Attributes())
		return
	}
	at := r.Timestamp()
	if at == 0 {
		at = r.ObservedTimestamp()
	}
	row := session.Row{
		Trace:   session.TraceID(r.TraceID()),
		Span:    session.SpanID(r.SpanID()),
		Parent:  session.SpanID(r.SpanID()),
		Session: session.Key{Tenant: d.tenant},
		Turn:    session.NoTurn,
		Kind:    session.KindPayload,
		Known:   spans.KnownObserved,
		Service: d.service,
	}
	before := d.report.Cut
	if reason := d.fill(&row, r.Attributes(), contentKeys, at, at); reason != "" {
		d.report.Cut = before
		d.reject(reason, name, &row, r.Attributes())
		return
	}
	row.Span = recordID(r, name, at)
	blocks := len(d.batch.Blocks)
	d.brought.begin()
	d.event(&row, name, at, r.Attributes())
	if !d.placed(&row) {
		d.report.Cut, d.batch.Blocks = before, d.batch.Blocks[:blocks]
		d.brought.forget()
		d.reject(ReasonRunStart, name, &row, r.Attributes())
		return
	}
	d.brought.end(len(d.batch.Rows), &row)
	d.batch.Rows = append(d.batch.Rows, row)
}

// contentKeys are the attributes of events, which a row does not keep as attributes.
var contentKeys = []string{
	eventName,
	string(spans.BlockBodiesKey), string(spans.BlockWithheldKey), string(spans.ListsKey),
	string(spans.EventTypeKey), string(spans.EventBodyKey), string(spans.EventSeqKey),
	string(spans.FactSubjectKey), string(spans.FactKeyKey), string(spans.FactValueKey),
}

// recordID names a record by what it says: the first 8 bytes of SHA-256 over "log", trace and span id, the time, the name of the event
// and the attributes by key.
func recordID(r plog.LogRecord, name string, at pcommon.Timestamp) session.SpanID {
	h := sha256.New()
	trace, span := r.TraceID(), r.SpanID()
	h.Write([]byte("log"))
	h.Write(trace[:])
	h.Write(span[:])
	hashNumber(h, uint64(at))
	hashText(h, name)
	type attr struct {
		key   string
		value pcommon.Value
	}
	var l []attr
	for key, v := range r.Attributes().All() {
		if key != eventName {
			l = append(l, attr{key, v})
		}
	}
	slices.SortStableFunc(l, func(a, b attr) int { return strings.Compare(a.key, b.key) })
	for _, a := range l {
		hashText(h, a.key)
		hashValue(h, a.value, 0)
	}
	id := session.SpanID(h.Sum(nil)[:8])
	if id == (session.SpanID{}) {
		id[7] = 1
	}
	return id
}

func hashNumber(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func hashText(h hash.Hash, s string) {
	hashNumber(h, uint64(len(s)))
	h.Write([]byte(s))
}

// hashValue adds a value. What is nested deeper than anything that is read counts as one thing.
func hashValue(h hash.Hash, v pcommon.Value, depth int) {
	h.Write([]byte{byte(v.Type())})
	if depth > maxDepth {
		return
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		hashText(h, v.Str())
	case pcommon.ValueTypeBytes:
		hashText(h, string(v.Bytes().AsRaw()))
	case pcommon.ValueTypeInt:
		hashNumber(h, uint64(v.Int()))
	case pcommon.ValueTypeDouble:
		hashNumber(h, math.Float64bits(v.Double()))
	case pcommon.ValueTypeBool:
		if v.Bool() {
			h.Write([]byte{1})
		} else {
			h.Write([]byte{0})
		}
	case pcommon.ValueTypeSlice:
		hashNumber(h, uint64(v.Slice().Len()))
		for _, e := range v.Slice().All() {
			hashValue(h, e, depth+1)
		}
	case pcommon.ValueTypeMap:
		keys := make([]string, 0, v.Map().Len())
		values := map[string]pcommon.Value{}
		for k, e := range v.Map().All() {
			if _, twice := values[k]; !twice {
				keys = append(keys, k)
			}
			values[k] = e
		}
		slices.Sort(keys)
		hashNumber(h, uint64(len(keys)))
		for _, k := range keys {
			hashText(h, k)
			hashValue(h, values[k], depth+1)
		}
	}
}
