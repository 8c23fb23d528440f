package otlprow

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// fill sets what follows from times and attributes, or returns the reason to reject the row.
func (d *decoder) fill(row *session.Row, attrs pcommon.Map, start, end pcommon.Timestamp) string {
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
		case string(spans.KindKey): // of the row
		case session.PartialOutputKey: // only the decoder sets it
			d.report.Cut++
		case string(spans.KnownAsKey):
			switch word := spans.Known(v.Str()); word {
			case spans.KnownLive, spans.KnownClosed, spans.KnownObserved:
				row.Known = word
			default: // of a later version
				row.Known = spans.KnownClosed
				d.attrs = append(d.attrs, session.Attr{Key: key, Value: v})
			}
		default:
			d.attrs = append(d.attrs, session.Attr{Key: valid(key), Value: v})
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
	d.settle(openInference)
	if len(d.attrs) > 0 {
		row.Attrs = slices.Clone(d.attrs)
	}
	return ""
}

// openInference are the keys that repeat another one in the words of OpenInference.
var openInference = []attribute.Key{
	spans.OpenInferenceKindKey, spans.OpenInferenceAgentKey, spans.OpenInferenceModelKey, spans.OpenInferenceToolKey,
	spans.OpenInferencePromptKey, spans.OpenInferenceCompletionKey, spans.OpenInferenceTotalKey,
	spans.OpenInferenceReasoningKey, spans.OpenInferenceCacheReadKey, spans.OpenInferenceCacheWriteKey,
	spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey, spans.OpenInferenceOutputKey,
	spans.OpenInferenceOutputTypeKey,
}

// settle sorts d.attrs by key. It keeps the last one of equal keys, none without a value, and of those that are not in
// the registry at most maxAttrs. It drops those of without.
func (d *decoder) settle(without []attribute.Key) {
	slices.SortStableFunc(d.attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	isKnown := func(key string) bool {
		_, ok := spans.Lookup(attribute.Key(key))
		return ok
	}
	kept := d.attrs[:0]
	unknown, many := 0, len(d.attrs) > maxAttrs
	for i, a := range d.attrs {
		if i+1 < len(d.attrs) && d.attrs[i+1].Key == a.Key || a.Value.IsZero() ||
			slices.Contains(without, attribute.Key(a.Key)) {
			continue
		}
		if many && !isKnown(a.Key) {
			if unknown++; unknown > maxAttrs {
				d.report.Cut++
				continue
			}
		}
		kept = append(kept, a)
	}
	d.attrs = kept
}

func (d *decoder) value(v pcommon.Value, key string) session.Value {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		s := v.Str()
		if len(s) > maxID {
			if a, ok := spans.Lookup(attribute.Key(key)); ok && a.Class == spans.ClassID {
				return session.StringValue(boundID(s))
			}
		}
		if len(s) > d.limits.Attribute {
			d.report.Cut++
		}
		return session.StringValue(cut(s, d.limits.Attribute))
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
		return scalar(v)
	case pcommon.ValueTypeEmpty:
		return session.Value{}
	case pcommon.ValueTypeSlice:
		if l, ok := d.strings(v.Slice()); ok {
			return session.StringsValue(l)
		}
	}
	var text []byte
	if !deep(v, maxDepth) {
		text, _ = json.Marshal(v.AsRaw()) // it fails for a number that JSON cannot hold
	}
	if len(text) == 0 || len(text) > d.limits.Attribute {
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
