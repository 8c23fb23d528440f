package otelagent

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// How much of a request's list is sent: the items since the request before the last windowTurns ones, within bounds.
const (
	windowTurns = 12
	windowLeast = 24
	windowMost  = 256
	// completeShare is the part of new bytes that complete lists may cost, one in completeShare.
	completeShare = 40
	// paramsTurns is how often a list of params is sent whole that stays the same.
	paramsTurns  = 8
	itemBytes    = 24 // of an item on the wire, about
	maxHistories = 8
	chainsApart  = 64
	itemsAnEntry = 4 // of a history, in what WithMaxBlockIDs counts
)

// requests is what is remembered of the requests of a session: the last histories, to be told which items are new, and
// what complete lists may cost.
type requests struct {
	histories []*history
	runs      map[toldRun]struct{} // that had requests; only with derived ids
	used      int64
	credit    int64 // bytes that complete lists may take
	shapes    spans.Shapes

	prompt, tools namedID

	framed spans.Frame // the last frame, and its block
	body   []byte      // empty when it cannot leave
}

// toldRun is a run by its address within the session.
type toldRun struct {
	id        string
	startNS   int64
	recording string
}

// asks hears of a run before each of its requests. One that is told again, as by a file that is sent twice, takes the place of what was sent of
// it, by its derived ids, so that its lists must not refer to those: they begin anew. Blocks stay, they have no place that could be taken.
func (m *memory) asks(r *Run) {
	if !r.tracer.config.derivedIDs || r.asked.Swap(m) == m {
		return
	}
	q, run := &m.request, toldRun{r.run, r.startNS, r.origin.recording}
	if _, again := q.runs[run]; again {
		for _, h := range q.histories {
			m.count(-int64(len(h.items) / itemsAnEntry))
		}
		q.histories = nil
		return
	}
	if q.runs == nil {
		q.runs = make(map[toldRun]struct{})
	}
	q.runs[run] = struct{}{}
	m.count(1)
}

// namedID is an id that mostly stays the same, with its text.
type namedID struct {
	id   spans.BlockID
	name string
}

func (n *namedID) text(id spans.BlockID) string {
	if n.id != id || n.name == "" {
		n.id, n.name = id, id.String()
	}
	return n.name
}

// frame returns the block of a frame with the shapes of the session, empty when readers would refuse it or the redactor has
// something against it. It is shared: nobody may change it.
func (r *requests) frame(of *spans.Frame, c *config) []byte {
	f := &r.framed
	if r.body == nil || len(f.Shapes) != len(r.shapes) || f.System != of.System || f.Messages != of.Messages || f.Provenance != of.Provenance ||
		f.Tools != of.Tools || !slices.Equal(f.Keys, of.Keys) {
		*f = *of
		f.Keys, f.Shapes = slices.Clone(of.Keys), slices.Clone(r.shapes)
		r.body = f.Encode()
		read, err := spans.ParseFrame(string(r.body))
		if err != nil || !slices.Equal(read.Keys, f.Keys) {
			r.body = []byte{}
		}
		if body, _ := c.redact(Piece{Body: r.body, JSON: true, Place: PlaceRest}); string(body) != string(r.body) {
			r.body = []byte{}
		}
	}
	return r.body
}

// history is the list of a request as it was last sent, and what later ones are compared with. Parallel runs, sub-agents and
// branches have their own.
type history struct {
	of    *memory // guards it
	items []sentItem
	chain spans.Chain // of all items
	// chains[i] is the chain digest of the first (i+1)*chainsApart items.
	chains []spans.Chain
	// starts are the lengths of the last requests, or where an edit began, newest last.
	starts []int
	used   int64
	whole  bool // the list that was sent last was complete
	due    int  // this many complete lists come next, whatever they cost

	params      spans.Chain // of the request before
	paramsSince int         // requests since they were sent whole
}

// sentItem is one item: a seeded hash that tells it from others, its wire form, and the mark of the list up to and with it.
type sentItem struct {
	hash uint64
	mark spans.Mark
	text string
}

// listItem is an item of a request to be sent.
type listItem struct {
	id   spans.BlockID
	item spans.Item // Provenance is not filled in
	from *spans.Provenance
	hash uint64
}

// itemHash tells items apart by the message (its key), where it came from, and what it was taken for.
func (s *memories) itemHash(key memoKey, it *listItem) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seedA)
	var b [8 * 5]byte
	binary.LittleEndian.PutUint64(b[:], key.a)
	binary.LittleEndian.PutUint64(b[8:], key.b)
	p := it.from
	binary.LittleEndian.PutUint64(b[16:], uint64(p.TurnIndex))
	binary.LittleEndian.PutUint64(b[24:], uint64(p.MessageIndex))
	binary.LittleEndian.PutUint64(b[32:], uint64(p.Order))
	_, _ = h.Write(b[:])
	for _, text := range [...]string{string(p.Kind), p.Role, p.Name, p.Tier, p.RecordID, p.Raw} {
		binary.LittleEndian.PutUint64(b[:], uint64(len(text)))
		_, _ = h.Write(b[:4])
		_, _ = h.WriteString(text)
	}
	_, _ = h.Write(it.id[:8])
	return h.Sum64()
}

// complete makes the next two lists of every history complete.
func (r *requests) complete() {
	for _, h := range r.histories {
		h.complete()
	}
}

// complete makes the next two lists complete: nothing they could refer to may have arrived.
func (h *history) complete() { h.due, h.params = 2, spans.Chain{} }

// earn adds what new content allows complete lists to cost.
func (r *requests) earn(bytes int) { r.credit += int64(bytes) / completeShare }

// nearest returns the history that shares most items with the list from its beginning, up to there, and how many these are; a new
// history for a list that continues none.
func (m *memory) nearest(items []listItem) (*history, int) {
	r := &m.request
	var best *history
	most := -1
	for _, h := range r.histories {
		n := 0
		for n < len(h.items) && n < len(items) && h.items[n].hash == items[n].hash {
			n++
		}
		if n > most || n == most && h.used > best.used {
			best, most = h, n
		}
	}
	r.used++
	if best != nil && (most > 0 || len(best.items) == 0) {
		if most < len(best.items) {
			best = best.fork(most)
			m.keepHistory(best)
		}
		best.used = r.used
		return best, most
	}
	best = &history{of: m, used: r.used}
	m.keepHistory(best)
	return best, 0
}

func (m *memory) keepHistory(h *history) {
	r := &m.request
	if len(r.histories) < maxHistories {
		r.histories = append(r.histories, h)
	} else {
		oldest := 0
		for i := range r.histories {
			if r.histories[i].used < r.histories[oldest].used {
				oldest = i
			}
		}
		m.count(-int64(len(r.histories[oldest].items) / itemsAnEntry))
		r.histories[oldest] = h
	}
	m.count(int64(len(h.items) / itemsAnEntry))
}

// fork returns a copy of the first n items, as a history that was edited there.
func (h *history) fork(n int) *history {
	f := &history{
		of:     h.of,
		items:  slices.Clone(h.items[:n]),
		chains: slices.Clone(h.chains[:min(len(h.chains), n/chainsApart)]),
		starts: slices.Clone(h.starts),
		due:    h.due,
	}
	for i := range f.starts {
		f.starts[i] = min(f.starts[i], n)
	}
	return f
}

// requestList makes the list of a request: its digest, and the items that are sent. It returns the history it became, and how many items
// were in a request before.
func (m *memory) requestList(items []listItem) (l contentList, h *history, same int) {
	r := &m.request
	h, same = m.nearest(items)

	chain, at := h.chain, same
	if len(h.items) > 0 && chain == (spans.Chain{}) { // forked: begin at the last digest that was kept
		at = len(h.chains) * chainsApart
		if at > 0 {
			chain = h.chains[len(h.chains)-1]
		}
	}
	var mark spans.Mark
	if same > 0 {
		mark = h.items[same-1].mark
	}
	for i := at; i < len(items); i++ {
		it := &items[i]
		it.item.Provenance = cleanText(it.from.Encode())
		chain = chain.Add(it.id, it.item)
		if (i+1)%chainsApart == 0 {
			h.chains = append(h.chains, chain)
		}
		if i >= same {
			text := it.item.Encode()
			mark = mark.Add(text)
			h.items = append(h.items, sentItem{it.hash, mark, text})
		}
	}
	h.chain = chain
	m.count(int64(len(h.items)/itemsAnEntry - same/itemsAnEntry))

	start := h.window()
	if start > same { // not all that is new would be told
		h.complete()
	}
	if h.starts = append(h.starts, len(items)); len(h.starts) > windowTurns {
		h.starts = slices.Delete(h.starts, 0, len(h.starts)-windowTurns)
	}
	if start > 0 {
		switch {
		case h.due > 0:
			start = 0
			h.due--
		case r.credit >= h.cost():
			start = 0
			r.credit -= h.cost()
		}
	}
	h.whole = start == 0
	return m.list(h, start), h, same
}

// sameParams makes of a list of params that is the one of the request before a reference to that, most of the time.
func (h *history) sameParams(l *contentList) {
	if l.digest != h.params || h.paramsSince == paramsTurns || len(l.items) == 0 {
		h.params, h.paramsSince = l.digest, 1
		return
	}
	h.paramsSince++
	var mark spans.Mark
	for _, text := range l.items {
		mark = mark.Add(text)
	}
	l.prefix, l.items = spans.EncodePrefix(l.count, mark), nil
}

// cost is how many bytes the complete list takes, about.
func (h *history) cost() int64 { return int64(len(h.items)) * itemBytes }

// list returns the list with the items from start on, which are valid until the next call: it is to be packed at once.
func (m *memory) list(h *history, start int) contentList {
	l := contentList{count: int64(len(h.items)), digest: h.chain}
	if start > 0 {
		l.prefix = spans.EncodePrefix(int64(start), h.items[start-1].mark)
	}
	m.texts = m.texts[:0]
	for _, it := range h.items[start:] {
		m.texts = append(m.texts, it.text)
	}
	if l.items = m.texts; cap(m.texts) > maxScratchItems {
		m.texts = nil
	}
	return l
}

// last returns the complete list of h to end a run with, if it was not sent complete and costs are within their bound; it may
// take what is yet to be earned.
func (m *memory) last(h *history) (contentList, bool) {
	r := &m.request
	if h == nil || h.of != m || h.whole || r.credit <= 0 { // of another one: that was forgotten since
		return contentList{}, false
	}
	r.credit -= h.cost()
	h.whole = true
	return m.list(h, 0), true
}

// window returns the first item that is sent.
func (h *history) window() int {
	if len(h.starts) == 0 {
		return 0
	}
	n := len(h.items)
	return max(min(h.starts[0], n-windowLeast), n-windowMost, 0)
}
