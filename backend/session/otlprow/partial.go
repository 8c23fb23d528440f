package otlprow

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// partialOutput moves the bodies of the output of a turn that is open from the blocks that its span brought, which begin at from, into the row: see
// session.PartialOutputKey. Where not all of them are there, or they are larger than an attribute may be, all stays as it is.
func (d *decoder) partialOutput(row *session.Row, from int) {
	if row.Kind != session.KindTurn || row.Known != spans.KnownLive {
		return
	}
	if p, _ := row.Attr(spans.PartialKey).Bool(); !p {
		return
	}
	at := slices.IndexFunc(row.Lists, func(l session.List) bool { return l.Name == spans.ListOutput })
	if at < 0 || row.Lists[at].Prefix != "" {
		return
	}
	brought := d.batch.Blocks[from:]
	var bodies []string
	moved := map[int]bool{}
	size := 0
	for _, item := range row.Lists[at].Items {
		it, err := spans.ParseItem(item)
		n := slices.IndexFunc(brought, func(b session.Block) bool { return b.Size == 0 && b.ID.Short() == it.Block })
		if err != nil || n < 0 {
			return
		}
		if size += len(brought[n].Body); size > d.limits.Attribute {
			return
		}
		bodies, moved[n] = append(bodies, strings.ToValidUTF8(brought[n].Body, "\ufffd")), true
	}
	kept := d.batch.Blocks[:from]
	for i, b := range brought {
		if !moved[i] {
			kept = append(kept, b)
		}
	}
	d.batch.Blocks = kept
	row.Lists = slices.Delete(row.Lists, at, at+1)
	n, _ := slices.BinarySearchFunc(row.Attrs, session.PartialOutputKey, func(a session.Attr, key string) int { return strings.Compare(a.Key, key) })
	row.Attrs = slices.Insert(row.Attrs, n, session.Attr{Key: session.PartialOutputKey, Value: session.StringsValue(bodies)})
}
