package store

import (
	"fmt"

	"github.com/otelagent/otelagent/backend/session"
)

// MaxValue bounds the canonical bytes of a row and the body of a block, in bytes: 64 MiB, far above what one OTLP
// message holds and far below what every store can keep.
const MaxValue = 64 << 20

// CheckBatch reports whether b can be kept: each row has a session id, a trace id, a span id, a known kind, and
// attributes sorted by key without repetition; each block has a session id, an id, a body of at most MaxValue bytes and
// a size that is not negative. Whether a body is the one that its id names is the decoder's to see to. The error names
// the first offender by its index and wraps ErrData.
func CheckBatch(b session.Batch) error {
	for i := range b.Rows {
		if what := checkRow(&b.Rows[i]); what != "" {
			return fmt.Errorf("row %d: %s: %w", i, what, ErrData)
		}
	}
	for i := range b.Blocks {
		k := &b.Blocks[i]
		what := ""
		switch {
		case k.Session.ID == "":
			what = "no session id"
		case k.ID.IsZero():
			what = "no block id"
		case k.Size < 0:
			what = fmt.Sprintf("size %d is negative", k.Size)
		case len(k.Body) > MaxValue:
			what = fmt.Sprintf("body of %d bytes, at most %d", len(k.Body), MaxValue)
		}
		if what == "" {
			continue
		}
		return fmt.Errorf("block %d: %s: %w", i, what, ErrData)
	}
	return nil
}

func checkRow(r *session.Row) string {
	switch {
	case r.Session.ID == "":
		return "no session id"
	case r.Trace == session.TraceID{}:
		return "no trace id"
	case r.Span == session.SpanID{}:
		return "no span id"
	case r.Kind > session.KindForeign:
		return fmt.Sprintf("unknown kind %d", r.Kind)
	}
	for i := 1; i < len(r.Attrs); i++ {
		if r.Attrs[i-1].Key >= r.Attrs[i].Key {
			return fmt.Sprintf("attributes %q and %q are not in order", r.Attrs[i-1].Key, r.Attrs[i].Key)
		}
	}
	return ""
}
