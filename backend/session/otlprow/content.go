package otlprow

import (
	"iter"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

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
	// Permission evaluations and compactions have no content of which a preview could be all there is.
	if len(row.Lists) > 0 || row.Kind == session.KindPermission || row.Kind == session.KindCompaction {
		row.Attrs = slices.DeleteFunc(row.Attrs, func(a session.Attr) bool { return slices.Contains(previews, a.Key) })
	}
}

// previews are the attributes that show what is in the blocks.
var previews = []string{
	string(spans.InputMessagesKey), string(spans.OutputMessagesKey), string(spans.ToolCallArgumentsKey),
	string(spans.ToolCallResultKey), string(spans.SystemInstructionsKey), string(spans.RequestMessagesOmittedKey),
}

// event reads an event of this format, and skips any other.
func (d *decoder) event(row *session.Row, name string, at pcommon.Timestamp, attrs pcommon.Map) {
	switch name {
	case spans.EventBlocks:
		for v := range items(attrs, spans.BlockWithheldKey) {
			d.withheld(row, v)
		}
		for v := range items(attrs, spans.ListsKey) {
			d.list(row, v)
		}
		for v := range items(attrs, spans.BlockBodiesKey) {
			switch v.Type() {
			case pcommon.ValueTypeStr:
				d.body(row, v.Str())
			case pcommon.ValueTypeBytes:
				d.body(row, string(v.Bytes().AsRaw()))
			default:
				d.report.Cut++
			}
		}
	case spans.EventOther:
		o := session.Event{Type: cut(text(attrs, spans.EventTypeKey), maxKey), Body: d.short(attrs, spans.EventBodyKey),
			Seq: number(attrs, spans.EventSeqKey)}
		if at <= math.MaxInt64 {
			o.Time = int64(at)
		}
		row.Events = append(row.Events, o)
	case spans.EventFact: // of a session.payload span: on others it has no meaning
		if row.Kind != session.KindPayload || at > math.MaxInt64 {
			d.report.Cut++
			return
		}
		row.Facts = append(row.Facts, session.RowFact{
			Time: int64(at), Subject: boundID(text(attrs, spans.FactSubjectKey)),
			Key: cut(text(attrs, spans.FactKeyKey), maxKey), Value: d.short(attrs, spans.FactValueKey),
			Seq: number(attrs, spans.EventSeqKey),
		})
	}
}

// items yields the elements of a list, or the value itself where it is no list.
func items(attrs pcommon.Map, key attribute.Key) iter.Seq[pcommon.Value] {
	return func(yield func(pcommon.Value) bool) {
		v, ok := get(attrs, string(key))
		if !ok || v.Type() != pcommon.ValueTypeSlice {
			_ = ok && yield(v)
			return
		}
		for _, e := range v.Slice().All() {
			if !yield(e) {
				return
			}
		}
	}
}

// withheld reads the description of a block that was cut or withheld at the source.
func (d *decoder) withheld(row *session.Row, v pcommon.Value) {
	w, err := spans.ParseWithheld(v.Str())
	if err != nil || len(v.Str()) > maxValue {
		d.report.Cut++
		return
	}
	if !d.affords(row, len(w.Beginning)) {
		d.report.Cut++
		w.Beginning = ""
	}
	b := session.Block{Session: row.Session, ID: w.Block, Body: w.Beginning, Size: w.Size}
	d.batch.Blocks = append(d.batch.Blocks, b)
}

func (d *decoder) list(row *session.Row, v pcommon.Value) {
	text := v.Str()
	if len(text) > max(d.limits.Block, maxValue) {
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

// body keeps a body as a block, one that a limit does not allow without its bytes.
func (d *decoder) body(row *session.Row, body string) {
	b := session.Block{Session: row.Session, ID: spans.BlockOfString(body), Body: body}
	if len(body) > d.limits.Block || !d.affords(row, len(body)) {
		d.report.Cut++
		b.Body, b.Size = "", int64(len(body))
	}
	d.batch.Blocks = append(d.batch.Blocks, b)
}

// short returns the name of a block. It counts one that is too long as Cut.
func (d *decoder) short(attrs pcommon.Map, key attribute.Key) string {
	id := text(attrs, key)
	if len(id) > maxKey {
		d.report.Cut++
		return ""
	}
	return id
}

// partialOutput moves the bodies of the output of an open turn from the blocks of its span, which begin at from, into
// the row: see session.PartialOutputKey. It changes nothing if a body is missing, or if they exceed the bound of an
// attribute.
func (d *decoder) partialOutput(row *session.Row, from int) {
	if p, _ := row.Attr(spans.PartialKey).Bool(); !p || row.Kind != session.KindTurn || row.Known != spans.KnownLive {
		return
	}
	at := slices.IndexFunc(row.Lists, func(l session.List) bool { return l.Name == spans.ListOutput })
	if at < 0 || row.Lists[at].Prefix != "" {
		return
	}
	var bodies []string
	var moved []spans.BlockID
	size := 0
	for _, item := range row.Lists[at].Items {
		it, err := spans.ParseItem(item)
		n := slices.IndexFunc(d.batch.Blocks[from:], func(b session.Block) bool {
			return b.Size == 0 && b.ID.Short() == it.Block
		})
		if err != nil || n < 0 {
			return
		}
		b := &d.batch.Blocks[from+n]
		if size += len(b.Body); size > d.limits.Attribute {
			return
		}
		bodies, moved = append(bodies, valid(b.Body)), append(moved, b.ID)
	}
	kept := slices.DeleteFunc(d.batch.Blocks[from:], func(b session.Block) bool { return slices.Contains(moved, b.ID) })
	d.batch.Blocks = d.batch.Blocks[:from+len(kept)]
	row.Lists = slices.Delete(row.Lists, at, at+1)
	add(row, session.PartialOutputKey, session.StringsValue(bodies))
}
