package writer

import (
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// How much of a request's list is sent: the items since the request before the last one, and with every windowTurns-th
// request those since that many more.
const (
	windowTurns = 12
	windowMost  = 256
	// completeShare is the part of new bytes that complete lists may cost, one in completeShare.
	completeShare = 80
	// paramsTurns is how often a list of params is sent whole that stays the same.
	paramsTurns  = 8
	itemBytes    = 20 // of an item on the wire, about
	maxHistories = 8
	// entryBytes is what Config.MaxBlockIDs counts as one entry.
	entryBytes = 200
	itemEntry  = 160 // of an item in a history in addition to its text
)

// begin is called for a run before each of its requests. A run that is recorded again, as by a file that is sent twice,
// has the same derived ids and replaces what was sent of it. Its lists must not refer to those: they begin anew. Blocks
// stay, because nothing replaces them.
func (m *memory) begin(r *Run) {
	if !r.tracer.config.DerivedIDs || r.asked.Swap(m) == m {
		return
	}
	id := r.span.SpanContext().SpanID() // which follows from the address of the run
	if _, again := m.runs[id]; again {
		m.histories = nil
	}
	m.runs[id] = struct{}{}
}

// history is the list of a request as it was last sent, and what later ones are compared with. Parallel runs,
// sub-agents and branches have their own.
type history struct {
	of      *memory // guards it
	entries int64
	items   []sentItem
	// starts are the lengths of the last requests, or where an edit began, newest last.
	starts []int
	asked  int  // requests
	whole  bool // the list that was sent last was complete
	due    int  // this many complete lists come next, whatever they cost

	// What the request came to up to and with its last message, of which there are summed; head is the SHA-256 of what
	// is before the first.
	sum    whole
	head   spans.BlockID
	sep    string
	summed int

	system spans.BlockID // of the request before; zero where previews are off

	params      string // the whole list of the request before
	paramsSince int    // requests since it was sent
}

// sentItem is one message: the text as it came, which blocks on their way out share memory with, its wire form, and the
// mark of the list up to and with it.
type sentItem struct {
	raw  string
	from spans.Provenance
	mark spans.Mark
	text string
}

// longest returns the history that begins with the most messages of a request, and how many those are.
func (m *memory) longest(q *outgoing) (best *history, n int) {
	for _, h := range m.histories {
		same, most := 0, min(len(h.items), q.count)
		// The texts of two histories share memory as far as one was continued from the other, which makes this fast.
		for same < min(n, most) && h.items[same].raw == best.items[same].raw {
			same++
		}
		for same >= n && same < most && h.items[same].raw == string(q.raw(same)) {
			same++
		}
		if same > n {
			best, n = h, same
		}
	}
	return best, n
}

// continued returns the history of a request whose first n messages are those of h, which may be nil: h itself where it
// has no more, else a new one.
func (m *memory) continued(h *history, n int) *history {
	if n == 0 {
		if i := slices.IndexFunc(m.histories, func(h *history) bool { return len(h.items) == 0 }); i >= 0 {
			h = m.histories[i]
		}
	}
	switch {
	case h == nil || n == 0 && len(h.items) > 0:
		h = &history{of: m}
	case n < len(h.items):
		f := &history{of: m, items: slices.Clone(h.items[:n]), starts: slices.Clone(h.starts), due: h.due, asked: h.asked,
			system: h.system}
		for i := range f.starts {
			f.starts[i] = min(f.starts[i], n)
		}
		for _, it := range f.items {
			f.entries += it.entries()
		}
		h = f
	}
	if i := slices.Index(m.histories, h); i >= 0 {
		m.histories = slices.Delete(m.histories, i, i+1)
	} else if len(m.histories) == maxHistories {
		m.histories = m.histories[:maxHistories-1]
	}
	m.histories = slices.Insert(m.histories, 0, h)
	return h
}

// entries returns what Config.MaxBlockIDs counts of an item.
func (it *sentItem) entries() int64 { return int64(len(it.raw)+itemEntry)/entryBytes + 1 }

// add appends a message.
func (h *history) add(raw string, from spans.Provenance, it spans.Item) {
	var mark spans.Mark
	if n := len(h.items); n > 0 {
		mark = h.items[n-1].mark
	}
	text := it.Encode()
	h.items = append(h.items, sentItem{raw, from, mark.Add(text), text})
	h.entries += h.items[len(h.items)-1].entries()
}

// complete makes the next two lists complete: nothing they could refer to may have arrived.
func (h *history) complete() { h.due, h.params = 2, "" }

// requestList makes the list of a request, of which the first same items were sent before.
func (m *memory) requestList(h *history, same int) spans.List {
	start := h.window()
	if start > same { // some new messages would be missing
		h.complete()
	}
	if h.starts = append(h.starts, len(h.items)); len(h.starts) > windowTurns+1 {
		h.starts = slices.Delete(h.starts, 0, len(h.starts)-windowTurns-1)
	}
	if start > 0 {
		switch {
		case h.due > 0:
			start = 0
			h.due--
		case m.credit >= h.cost():
			start = 0
			m.credit -= h.cost()
		}
	}
	h.whole = start == 0
	return h.list(start)
}

// sameParams makes of a list of params that is the one of the request before a reference to that, most of the time.
func (h *history) sameParams(l *spans.List) {
	var mark spans.Mark
	for _, text := range l.Items {
		mark = mark.Add(text)
	}
	prefix := spans.EncodePrefix(l.Count, mark)
	if prefix != h.params || h.paramsSince == paramsTurns {
		h.params, h.paramsSince = prefix, 1
		return
	}
	h.paramsSince++
	l.Prefix, l.Items = prefix, nil
}

// cost is how many bytes the complete list takes, about.
func (h *history) cost() int64 { return int64(len(h.items)) * itemBytes }

// list returns the list with the items from start on.
func (h *history) list(start int) spans.List {
	l := spans.List{Count: int64(len(h.items))}
	if start > 0 {
		l.Prefix = spans.EncodePrefix(int64(start), h.items[start-1].mark)
	}
	for _, it := range h.items[start:] {
		l.Items = append(l.Items, it.text)
	}
	return l
}

// last returns the complete list of h to end a run with, if it was not sent complete and costs are within their bound;
// it may take what is yet to be earned.
func (m *memory) last(h *history) (spans.List, bool) {
	if h == nil || h.of != m || h.whole || m.credit <= 0 { // of another one: that was forgotten since
		return spans.List{}, false
	}
	m.credit -= h.cost()
	h.whole = true
	return h.list(0), true
}

// window returns the first item that is sent.
func (h *history) window() int {
	h.asked++
	back := 2
	if h.asked%windowTurns == 0 {
		back += windowTurns - 1
	}
	if len(h.starts) < back {
		return 0
	}
	return max(h.starts[len(h.starts)-back], len(h.items)-windowMost, 0)
}
