package otlprow

import (
	"encoding/hex"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Logfire's SDK sends, when a span starts, a second one that says so: of its name and attributes as they are then, no duration, an id of its own,
// the span that started as its parent, and these two attributes: PendingSpanProcessor in
// github.com/pydantic/logfire. See interop/logfire.
const (
	logfireSpanType      = "logfire.span_type"
	logfirePendingParent = "logfire.pending_parent_id"
	logfirePending       = "pending_span"
)

// pending reports whether the attributes are those of a pending span.
func pending(attrs pcommon.Map) bool {
	v, ok := get(attrs, logfireSpanType)
	return ok && v.Type() == pcommon.ValueTypeStr && v.Str() == logfirePending
}

// announce makes the row of a pending span the live row of the span that it announces. One that does not say which has no id then.
func (d *decoder) announce(row *session.Row) {
	row.Known = spans.KnownLive
	row.Span, row.Parent = row.Parent, session.SpanID{}
	row.Attrs = slices.DeleteFunc(row.Attrs, func(a session.Attr) bool {
		switch a.Key {
		case logfirePendingParent:
			id, err := hex.DecodeString(a.Value.Text())
			if err != nil || len(id) != len(row.Parent) {
				d.report.Cut++
				return true
			}
			row.Parent = session.SpanID(id)
			return true
		case logfireSpanType:
			return true
		}
		return false
	})
}
