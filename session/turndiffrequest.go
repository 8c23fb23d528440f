package session

import (
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// told returns the messages that were new for the model: those that the loop told, else those of the request that the request before in the
// run did not have, but for what stands at the turns before as their replies. A request of which not all messages are known is
// returned as it is: it says that it is not complete.
func (s *diffed) told(r *Run, t *Turn) texts {
	if q := messagesOf(t); t.Input.Len() == 0 && q != nil {
		out := s.texts(q, t.Capture)
		if q.Complete {
			out.refs, out.without = NewRefs(news(s.requestBefore(r, t), q)...), []string{ByModel, string(SaidThinking)}
		}
		return out
	}
	return s.texts(t.Input, t.Capture)
}

// messagesOf returns those of the request that was answered; nil where none were told.
func messagesOf(t *Turn) *Refs {
	if n := len(t.Requests); n > 0 {
		return t.Requests[n-1].Messages
	}
	return nil
}

// requestBefore returns the messages of the last request that the run, or the one that it goes on from, sent before a turn; nil where there
// is none. Requests of runs beside it, which may come in any order, do not count.
func (s *diffed) requestBefore(r *Run, t *Turn) *Refs {
	last := func(turns []*Turn) *Refs {
		for _, o := range slices.Backward(turns) {
			if m := messagesOf(o); m != nil && m.Complete {
				return m
			}
		}
		return nil
	}
	if m := last(r.Turns[:max(0, slices.Index(r.Turns, t))]); m != nil {
		return m
	}
	if st := s.history.Run(r); st.Parent != nil && st.Relation != RelationSubAgent {
		return last(st.Parent.Turns)
	}
	return nil
}

// news returns the messages of a list that one before it has not.
func news(before, after *Refs) []Ref {
	fresh := after.From(inCommon(before, after))
	seen := map[string]bool{}
	for _, ref := range before.From(0) {
		seen[ref.Block] = true
	}
	return slices.DeleteFunc(slices.Clone(fresh), func(ref Ref) bool { return seen[ref.Block] })
}

// inCommon is shared for lists of which one may be nil, or told in another way.
func inCommon(a, b *Refs) int64 {
	if a == nil || b == nil || (a.end == nil) != (b.end == nil) {
		return 0
	}
	return shared(a, b)
}

// saying is a piece of a message, by what it says: ids and times in it do not count.
type saying struct {
	hash uint64
	// later says that it is of a kind that the turn before tells too: a reply, a call, a result.
	later bool
	// blind says that the hash is that of the block's digest: what the message says is not here.
	blind bool
}

// requests compares what two sides were asked, turn after turn. It looks at what a request changes of the one before alone, so that a
// long session costs what it says.
type requests struct {
	seed  maphash.Seed
	sides [2]askedSide
	// more is how many more times A's request says something than B's.
	more map[saying]int
}

// askedSide is what one side was asked, and what it said, so far.
type askedSide struct {
	last  *Refs
	begun bool
	read  map[string][]saying // by block
	seen  map[saying]bool
	fresh map[saying]bool // what turns told themselves since the request before
}

func newRequests() *requests {
	side := func() askedSide {
		return askedSide{read: map[string][]saying{}, seen: map[saying]bool{}, fresh: map[saying]bool{}}
	}
	return &requests{seed: maphash.MakeSeed(), sides: [2]askedSide{side(), side()}, more: map[saying]int{}}
}

// sayings reads what a message says. Of one that is not there it returns one that is blind.
func (q *requests) sayings(side int, s *diffed, ref Ref) (out []saying) {
	known := q.sides[side].read
	if l, ok := known[ref.Block]; ok {
		return l
	}
	body, ok := s.Blocks.Body(ref)
	if !ok {
		return []saying{{hash: maphash.String(q.seed, ref.Block), blind: true}}
	}
	add := func(later bool, parts ...string) {
		var h maphash.Hash
		h.SetSeed(q.seed)
		for _, p := range parts {
			_, _ = h.WriteString(p) // it never fails
			_ = h.WriteByte(0)
		}
		out = append(out, saying{hash: h.Sum64(), later: later})
	}
	said, calls := readSaid(body)
	for _, t := range said {
		add(t.name == ByModel || t.name == string(SaidThinking), t.name, t.text)
	}
	for _, c := range calls {
		if c.hasResult {
			text, rest := resultParts(c.result)
			add(true, "result", text, rest)
			continue
		}
		args := c.args
		if rawjson.Valid([]byte(args), rawjson.MaxDepth) == nil {
			args = canonical(args)
		}
		add(true, "call", c.name, args)
	}
	known[ref.Block] = out
	return out
}

// note remembers what a turn of one side said itself.
func (q *requests) note(side int, s *diffed, lists ...*Refs) {
	for _, l := range lists {
		for _, ref := range l.From(0) {
			for _, x := range q.sayings(side, s, ref) {
				q.sides[side].fresh[x] = true
			}
		}
	}
}

// next takes the request of a turn of one side, and adds to touched what came or went since the one before. It returns why some of that
// is not known.
func (q *requests) next(side int, s *diffed, t *Turn, touched map[saying]int) DiffWhy {
	at := &q.sides[side]
	list := messagesOf(t)
	switch {
	case list == nil:
		return ""
	case !list.Complete:
		return DiffMissing
	}
	by := 1 - 2*side
	var why DiffWhy
	count := func(refs []Ref, by int) {
		for _, ref := range refs {
			for _, x := range q.sayings(side, s, ref) {
				if x.blind {
					why = bodyLost(s.Blocks, ref, t.Capture)
				}
				if _, ok := touched[x]; !ok {
					touched[x] = q.more[x]
				}
				if q.more[x] += by; q.more[x] == 0 {
					delete(q.more, x)
				}
			}
		}
	}
	same := inCommon(at.last, list)
	count(at.last.From(same), -by)
	count(list.From(same), by)
	at.last = list
	return why
}

// remember ends what a turn told of one side.
func (q *requests) remember(side int, touched map[saying]int) {
	at := &q.sides[side]
	for x := range at.fresh {
		at.seen[x] = true
	}
	clear(at.fresh)
	if at.last != nil {
		at.begun = true
	}
	for x := range touched {
		if n := q.more[x]; side == 0 && n > 0 || side == 1 && n < 0 || n == 0 {
			at.seen[x] = true
		}
	}
}

// blind says whether one side has more of a message that cannot be read.
func (q *requests) blind(touched map[saying]int) bool {
	for x := range touched {
		if x.blind && q.more[x] != 0 {
			return true
		}
	}
	return false
}

// asked compares what the requests say beyond what was new on the turn, and beyond what earlier turns told on their own: a message that
// something put there, or that is gone on one side.
func (t *turnDiffer) asked() {
	if t.ignored[DiffRequest] {
		return
	}
	q, touched := t.requests, map[saying]int{}
	sides := []struct {
		of   *diffed
		run  *Run
		turn *Turn
	}{{t.differ.a, t.runA, t.a}, {t.differ.b, t.runB, t.b}}
	var why [2]DiffWhy
	for i, s := range sides {
		if s.turn == nil || s.turn.Missing {
			continue
		}
		if in := s.of.told(s.run, s.turn); in.refs != nil && in.refs.Complete {
			q.note(i, s.of, in.refs)
		}
		why[i] = q.next(i, s.of, s.turn, touched)
	}
	if t.a != nil && t.b != nil && !t.a.Missing && !t.b.Missing {
		t.tellAsked(touched, why)
	}
	for i, s := range sides {
		q.remember(i, touched)
		if s.turn != nil {
			q.note(i, s.of, s.turn.Output, s.turn.Results)
		}
	}
}

// tellAsked tells what of the sayings that came or went is a difference.
func (t *turnDiffer) tellAsked(touched map[saying]int, why [2]DiffWhy) {
	q := t.requests
	x, y := messagesOf(t.a), messagesOf(t.b)
	if x == nil || y == nil {
		t.untold(DiffRequest, x != nil, y != nil)
		return
	}
	// What both have by its digest needs no body; of a request that did not arrive whole nothing is known.
	if u := (unknownSides{why[0], why[1]}); u != (unknownSides{}) && (!x.Complete || !y.Complete || q.blind(touched)) {
		t.unknown(u.of(DiffRequest)...)
		return
	}
	told := map[saying]bool{}
	for s, was := range touched {
		n := q.more[s]
		if s.blind || n == 0 || was > 0 && n > 0 || was < 0 && n < 0 {
			continue
		}
		own, other := &q.sides[0], &q.sides[1]
		if n < 0 {
			own, other = other, own
		}
		switch {
		case own.fresh[s], own.seen[s] && !other.seen[s]: // told where it was said
		case s.later && !own.seen[s] && own.begun: // told by the turn before, maybe in another spelling
		default:
			told[s] = true
		}
	}
	if len(told) == 0 {
		return
	}
	out := &RequestCompared{}
	messages := func(side int, s *diffed, l *Refs, n *int) (all [][]saying) {
		for _, ref := range l.From(0) {
			said := q.sayings(side, s, ref)
			all = append(all, said)
			if slices.ContainsFunc(said, func(x saying) bool { return told[x] && (q.more[x] > 0) == (side == 0) }) {
				*n++
			}
		}
		return all
	}
	before, after := messages(0, t.differ.a, x, &out.OnlyA), messages(1, t.differ.b, y, &out.OnlyB)
	for int(out.Same) < min(len(before), len(after)) && slices.Equal(before[out.Same], after[out.Same]) {
		out.Same++
	}
	t.out.Request = out
	t.differs(DiffRequest)
}

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
