package session

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// Key names a session in a store. Tenant comes first in every store key and is empty by default.
type Key struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// RunKey names a run: loops reuse run ids, so the start belongs to it. For a parallel group ID is empty.
type RunKey struct {
	Session Key
	ID      string
	// Start in unix nanoseconds.
	Start int64
}

// TraceID and SpanID are those of OTLP.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// String returns the id in hexadecimal.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String returns the id in hexadecimal.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Kind is the kind of span that a row holds. Its order is the order of siblings that start at the same position.
type Kind uint8

// The kinds.
const (
	KindUnknown Kind = iota
	KindRun
	KindTurn
	KindCompaction
	KindPermission
	KindToolCall
	KindPayload
	// KindForeign is a record of another program as it came: see backend/foreign. Assemble skips it.
	KindForeign
)

var kindNames = [...]string{
	KindRun: spans.SpanRun, KindTurn: spans.SpanTurn, KindCompaction: spans.SpanCompaction,
	KindPermission: spans.SpanPermission, KindToolCall: spans.SpanToolCall, KindPayload: spans.SpanPayload,
}

// KindOf returns the kind of a span of that name, KindUnknown for a foreign one.
func KindOf(name string) Kind {
	for k, n := range kindNames {
		if n == name && n != "" {
			return Kind(k)
		}
	}
	return KindUnknown
}

// String returns the span name of the kind; empty for one that no span of this format has.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// NoTurn is the Turn of a row that belongs to its run itself.
const NoTurn = -1

// Row is one span as stores keep it. Rows are values: once decoded they are never changed, and whoever holds one may
// share its slices for reading.
type Row struct {
	Trace  TraceID
	Span   SpanID
	Parent SpanID // zero: none

	Session  Key
	Run      string
	RunStart int64 // unix ns
	Turn     int64 // NoTurn: none
	Kind     Kind
	Known    spans.Known // never empty: observed when the span does not say

	Start, End  int64 // unix ns
	Seq, EndSeq int64
	Failed      bool   // span status Error
	Service     string // service.name of the resource

	// Attrs is every other attribute of the span, sorted by key, keys unique.
	Attrs []Attr
	// Lists and Events are what rode in span events, in the order of the span.
	Lists  []List
	Events []Event
	// Facts are those that a session.payload row states.
	Facts []RowFact
}

// PartialOutputKey is the attribute of a live row that holds the output of its turn so far, a body each. No span has
// it. Blocks stay as long as their session, and a reply that grows sends ever longer ones; the next copy of the span
// replaces the row and these with it.
const PartialOutputKey = "otelagent.partial.output"

// RowFact is one otelagent.fact event.
type RowFact struct {
	Time         int64 // unix ns
	Subject, Key string
	Value        string // short block id; empty when no content was captured
	Seq          int64
}

// Attr is one attribute.
type Attr struct {
	Key   string
	Value Value
}

// List is one list as it came.
type List struct {
	Name    string
	Attempt int64
	Count   int64
	Whole   string   // that of spans.WholeOf, empty where the list has none
	Prefix  string   // `P MARK`; empty: complete
	Items   []string // wire form of spans.Item
}

// Event is one otelagent.event event.
type Event struct {
	Time int64 // unix ns
	Type string
	Body string // short block id; empty when no content was captured
	Seq  int64
}

// Block is one content-addressed text or template (package spans). Blocks belong to a session: nobody can name a
// block of another one.
type Block struct {
	Session Key
	// ID is the SHA-256 of the whole body.
	ID   spans.BlockID
	Body string
	// Size is the original size of a body that was cut or withheld at the source, else 0.
	Size int64
}

// Batch is what one delivery of spans comes to. The zero value is empty.
type Batch struct {
	Rows   []Row
	Blocks []Block
}

// Attr returns the value of key, or the zero Value.
func (r *Row) Attr(key attribute.Key) Value {
	from, to := 0, len(r.Attrs) // slices.BinarySearchFunc copies an Attr for each comparison
	for from < to {
		mid := (from + to) / 2
		switch c := strings.Compare(r.Attrs[mid].Key, string(key)); {
		case c == 0:
			return r.Attrs[mid].Value
		case c < 0:
			from = mid + 1
		default:
			to = mid
		}
	}
	return Value{}
}

// RunKey returns the run that the row belongs to.
func (r *Row) RunKey() RunKey { return RunKey{Session: r.Session, ID: r.Run, Start: r.RunStart} }
