package session

import (
	"strconv"

	"github.com/otelagent/otelagent/spans"
)

// compactions compares what compacted the history, one by one in their order: the summary by what it says, and the counts.
func (d *differ) compactions(a, b []*Compaction, captureA, captureB spans.Capture) (out []ValueChange, unknown []DiffUnknown) {
	if d.ignored[DiffCompaction] {
		return nil, nil
	}
	for i := range max(len(a), len(b)) {
		name := ""
		if max(len(a), len(b)) > 1 {
			name = "[" + strconv.Itoa(i+1) + "]."
		}
		x, y := &Compaction{}, &Compaction{}
		var inA, inB texts
		if i < len(a) {
			x = a[i]
			inA = d.a.texts(x.Summary, captureA)
		}
		if i < len(b) {
			y = b[i]
			inB = d.b.texts(y.Summary, captureB)
		}
		c := changes{}
		c.text(name+"kind", string(x.Kind), string(y.Kind))
		c.text(name+"trigger", x.Trigger, y.Trigger)
		for _, n := range []struct {
			name string
			a, b *int64
		}{
			{"messages_before", x.MessagesBefore, y.MessagesBefore}, {"messages_after", x.MessagesAfter, y.MessagesAfter},
			{"messages_summarized", x.MessagesSummarized, y.MessagesSummarized}, {"tokens_before", x.InputTokens, y.InputTokens}, {"tokens_after", x.OutputTokens, y.OutputTokens},
		} {
			c.optional(name+n.name, decimal(n.a), decimal(n.b))
		}
		c.flag(name+"applied", x.Applied == nil || *x.Applied, y.Applied == nil || *y.Applied)
		out = append(out, c.list...)
		l, u := d.texts(inA, inB)
		for j := range l {
			out = append(out, ValueChange{Path: name + "summary", Text: &l[j]})
		}
		if u != nil {
			unknown = append(unknown, u.of(DiffCompaction)...)
		}
	}
	return out, unknown
}

// compaction compares what was compacted on the turns.
func (t *turnDiffer) compaction() {
	if _, lost := t.lost(); lost {
		return
	}
	l, unknown := t.compactions(t.a.Compactions, t.b.Compactions, t.a.Capture, t.b.Capture)
	t.unknown(unknown...)
	if t.out.Compaction = l; len(l) > 0 {
		t.differs(DiffCompaction)
	}
}
