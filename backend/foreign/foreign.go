// Package foreign makes sessions of the spans and log records that other programs emit. Its rules are data:
// sources.yaml, to which users add sources of their own. It knows no wire and no store.
//
// A decoder asks Match for each record, which decides from that record alone. It keeps a record that matches as one row
// of kind session.KindForeign (Row describes its form). Readers give the rows of a session, and those of the traces
// that these name, to Map, which returns rows of the five kinds for session.Assemble.
package foreign

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

// Signal is what a record came as. It is the value of SignalKey.
type Signal string

// The signals. An event of a span is a record of its own: its parent is the span.
const (
	Span      Signal = "span"
	SpanEvent Signal = "event"
	Log       Signal = "log"

	anySignal Signal = "any" // of a rule
)

// Class says how the decoder keeps an attribute of a record.
type Class uint8

// The classes.
const (
	// Drop keeps nothing.
	Drop Class = iota
	// Fact keeps the value as an attribute: a number, an id, or a name that a programmer chose.
	Fact
	// Text is content that stays an attribute: an error message, the reason of a decision.
	Text
	// Content keeps the value as a block, and a list of one item under the key.
	Content
	// Messages is content, too: a JSON array has a block for each element, any other value is one block.
	Messages
)

// IsContent reports whether redaction and the setting `content` of the exporter apply.
func (c Class) IsContent() bool { return c >= Text }

// Keys of what a row holds besides the attributes of its record.
const (
	// SourceKey has the name of the source, ScopeKey that of the instrumentation scope, NameKey that of the span or
	// event, SignalKey the Signal. All are strings.
	SourceKey = "otelagent.foreign.source"
	ScopeKey  = "otelagent.foreign.scope"
	NameKey   = "otelagent.foreign.name"
	SignalKey = "otelagent.foreign.signal"
	// StatusKey has the message of a span's status. Its class is Text.
	StatusKey = "otelagent.foreign.status"
	// StatusOKKey is true where the status of a span is OK, and not merely unset.
	StatusOKKey = "otelagent.foreign.status_ok"
	// RulesKey has the entries of the exporter's setting `sources` that recognised the record (Source.Rules): readers
	// have no such setting.
	RulesKey = "otelagent.foreign.rules"
)

// Get returns an attribute of a record, else of its resource; the zero Value if there is none.
type Get func(key string) session.Value

// TraceSession returns the id of the session of a trace whose records name none.
func TraceSession(trace session.TraceID) string { return tracePrefix + trace.String() }

const tracePrefix = "trace:"

// ParseTraceSession returns the trace whose session has that id, false for the id of any other session.
func ParseTraceSession(id string) (trace session.TraceID, ok bool) {
	text, ok := strings.CutPrefix(id, tracePrefix)
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != len(trace) {
		return trace, false
	}
	trace = session.TraceID(b)
	return trace, TraceSession(trace) == id
}

// TraceOf returns the trace id of a log record that has none: it follows from the session.
func TraceOf(s session.Key) session.TraceID {
	sum := sha256.Sum256([]byte("otelagent.foreign\x00" + s.Tenant + "\x00" + s.ID))
	return session.TraceID(sum[:16])
}
