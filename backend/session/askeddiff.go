package session

import (
	"hash/maphash"
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// piece is one thing that a message says, by what it says: ids and times in it do not count.
type piece struct {
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
	more map[piece]int
}

// askedSide is what one side was asked, and what it said, so far.
type askedSide struct {
	last  *Refs
	begun bool
	read  map[string][]piece // by block
	seen  map[piece]bool
	fresh map[piece]bool // what turns told themselves since the request before
}

func newRequests() *requests {
	side := func() askedSide {
		return askedSide{read: map[string][]piece{}, seen: map[piece]bool{}, fresh: map[piece]bool{}}
	}
	return &requests{seed: maphash.MakeSeed(), sides: [2]askedSide{side(), side()}, more: map[piece]int{}}
}

// pieces reads what a message says. Of one that is not there it returns one that is blind.
func (q *requests) pieces(side int, s *diffed, ref Ref) (out []piece) {
	known := q.sides[side].read
	if l, ok := known[ref.Block]; ok {
		return l
	}
	body, ok := s.Blocks.Body(ref)
	if !ok {
		return []piece{{hash: maphash.String(q.seed, ref.Block), blind: true}}
	}
	add := func(later bool, parts ...string) {
		var h maphash.Hash
		h.SetSeed(q.seed)
		for _, p := range parts {
			_, _ = h.WriteString(p) // it never fails
			_ = h.WriteByte(0)
		}
		out = append(out, piece{hash: h.Sum64(), later: later})
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
			for _, x := range q.pieces(side, s, ref) {
				q.sides[side].fresh[x] = true
			}
		}
	}
}

// next takes the request of a turn of one side, and adds to touched what came or went since the one before. It returns why some of that
// is not known.
func (q *requests) next(side int, s *diffed, t *Turn, touched map[piece]int) DiffWhy {
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
			for _, x := range q.pieces(side, s, ref) {
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
func (q *requests) remember(side int, touched map[piece]int) {
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
func (q *requests) blind(touched map[piece]int) bool {
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
	q, touched := t.requests, map[piece]int{}
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

// tellAsked tells what of the pieces that came or went is a difference.
func (t *turnDiffer) tellAsked(touched map[piece]int, why [2]DiffWhy) {
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
	told := map[piece]bool{}
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
	messages := func(side int, s *diffed, l *Refs, n *int) (all [][]piece) {
		for _, ref := range l.From(0) {
			said := q.pieces(side, s, ref)
			all = append(all, said)
			if slices.ContainsFunc(said, func(x piece) bool { return told[x] && (q.more[x] > 0) == (side == 0) }) {
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
