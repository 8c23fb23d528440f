package diff

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

var seed = maphash.MakeSeed()

// piece is one text, call or result in a message, by what it says: ids and times in it do not count.
type piece struct {
	hash  uint64
	later bool // the turn before reports it too, maybe in another spelling: a reply, a call, a result
}

func pieces(body string) (out []piece) {
	add := func(later bool, parts ...string) {
		out = append(out, piece{maphash.String(seed, strings.Join(parts, "\x00")), later})
	}
	texts, tools := read(body)
	for _, t := range texts {
		add(t.name == session.ByModel || t.name == string(session.SaidThinking), t.name, t.text)
	}
	for _, c := range tools {
		text := canonical(c.JSON)
		if v, ok := decode(c.JSON, true); ok && c.Kind == session.SaidResult {
			text = marshal(plain(result(v)))
		}
		add(true, string(c.Kind), c.Name, text)
	}
	return out
}

// reported reports whether an earlier turn says the piece. It reads what the turns say only when a request holds more.
func (s *side) reported(x piece) bool {
	for _, refs := range s.said {
		for _, ref := range refs.Items() {
			body, _ := s.Blocks.Body(ref)
			for _, x := range pieces(body) {
				s.known[x.hash] = true
			}
		}
	}
	s.said = nil
	return s.known[x.hash]
}

// extra is a message of a request that no turn reports.
type extra struct {
	says  string
	blind bool // the message is not here; says is its digest
	at    session.Message
}

// extras returns what the request of a turn holds besides what this turn and earlier ones report, how many messages it
// omits from the request before, and why that is not known. The calls of it follow the order of the turns.
func (s *side) extras(r *session.Run, t *session.Turn) (list []extra, gone int, why Why) {
	if t.Missing {
		return nil, 0, NotReported
	}
	news, _ := s.news(r, t)
	s.said = append(s.said, news)
	defer func() { s.said = append(s.said, t.Output, t.Results) }()
	q, l := messagesOf(t), fieldList{capture: t.Capture}
	switch {
	case q == nil:
		return nil, 0, l.untold()
	case !q.Complete:
		return nil, 0, Missing
	}
	before := s.before(r, t)
	if s.Turn != nil { // two turns are compared with all that stands before
		before = nil
	}
	left, _ := without(before, q)
	fresh, positions := without(q, before)
	for i, ref := range fresh {
		x := extra{at: session.Message{Ref: ref, Position: positions[i]}}
		body, ok := s.Blocks.Body(ref)
		for _, p := range pieces(body) {
			if ok && !(p.later && before != nil) && !s.reported(p) {
				x.says += strconv.FormatUint(p.hash, 36) + " "
				s.known[p.hash] = true
			}
		}
		if !ok {
			x.says, x.blind = ref.Block, true
		}
		if x.says != "" {
			list = append(list, x)
		}
	}
	return list, len(left), ""
}

// asked compares the requests of two turns besides what turns report: messages that something else put in or took out.
// Either turn may be nil.
func (d *differ) asked(p *Pair, runA, runB *session.Run, a, b *session.Turn) {
	if d.ignored[Request] {
		return
	}
	var lists [2][]extra
	var gone [2]int
	whys := [2]Why{NotReported, NotReported}
	if a != nil {
		lists[0], gone[0], whys[0] = d.a.extras(runA, a)
	}
	if b != nil {
		lists[1], gone[1], whys[1] = d.b.extras(runB, b)
	}
	switch {
	case a == nil || b == nil || a.Missing || b.Missing || whys == [2]Why{NotReported, NotReported}:
		return
	case whys != [2]Why{}:
		d.unknown(p, Request, whys[0], whys[1])
		return
	}
	var changes []Change
	if gone[0] != gone[1] {
		changes = append(changes, Change{Part: Request, Path: "request.left_out", Change: changed,
			Before: session.RawJSON(strconv.Itoa(gone[0])), After: session.RawJSON(strconv.Itoa(gone[1]))})
	}
	says := func(n, i int) string { return lists[n][i].says }
	for _, m := range ordered(match(nil, len(lists[0]), len(lists[1]), says), len(lists[0]), len(lists[1])) {
		if m.a >= 0 && m.b >= 0 {
			continue
		}
		c, x := Change{Part: Request, Change: removed}, at(lists[0], m.a)
		if c.A = &x.at; m.a < 0 {
			x = lists[1][m.b]
			c = Change{Part: Request, Change: added, B: &x.at}
		}
		if x.blind {
			d.unknown(p, Request, blind(d.a, a), blind(d.b, b))
			return
		}
		c.Path = fmt.Sprintf("request[%d]", x.at.Position)
		changes = append(changes, c)
	}
	p.Changes = append(p.Changes, changes...)
}

// blind returns why not all messages of the request of a turn are here; nothing where they are.
func blind(s *side, t *session.Turn) Why {
	_, why := (&field{of: s, refs: messagesOf(t).Items(), capture: t.Capture}).read()
	return why
}
