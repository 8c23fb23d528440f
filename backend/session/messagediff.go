package session

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/spans"
)

// said compares what was new for the model, and what it said.
func (t *turnDiffer) said() {
	if u, lost := t.lost(); lost {
		u.Part = DiffReply
		t.unknown(u)
		return
	}
	var inA, inB, outA, outB texts
	if t.a != nil {
		inA, outA = t.differ.a.told(t.runA, t.a), t.differ.a.texts(t.a.Output, t.a.Capture)
	}
	if t.b != nil {
		inB, outB = t.differ.b.told(t.runB, t.b), t.differ.b.texts(t.b.Output, t.b.Capture)
	}
	if !t.ignored[DiffInput] {
		l, unknown := t.texts(inA, inB)
		if t.out.Input = l; len(l) > 0 {
			t.differs(DiffInput)
		}
		if unknown != nil {
			t.unknown(unknown.of(DiffInput)...)
		}
	}
	leave := func(x texts, name string) texts {
		x.without = append(x.without, name)
		return x
	}
	switch {
	case t.ignored[DiffReply] && t.ignored[DiffThinking]:
		return
	case t.ignored[DiffThinking]:
		outA, outB = leave(outA, string(SaidThinking)), leave(outB, string(SaidThinking))
	case t.ignored[DiffReply]:
		outA.only, outB.only = string(SaidThinking), string(SaidThinking)
	}
	l, unknown := t.texts(outA, outB)
	t.out.Output = l
	for i := range l {
		if l[i].Name == string(SaidThinking) {
			t.differs(DiffThinking)
		} else {
			t.differs(DiffReply)
		}
	}
	if unknown != nil {
		part := DiffReply
		if t.ignored[part] {
			part = DiffThinking
		}
		t.unknown(unknown.of(part)...)
	}
}

// texts is a list of messages of one side.
type texts struct {
	there   bool // the side has such a turn
	refs    *Refs
	blocks  *BlockSet
	capture spans.Capture
	only    string   // the name of those that count; empty: all
	without []string // names of those that do not
}

func (s *diffed) texts(refs *Refs, capture spans.Capture) texts {
	return texts{there: true, refs: refs, blocks: s.Blocks, capture: capture}
}

// blind says why nothing is known of a list that is not there; empty: there is nothing.
func (x *texts) blind() DiffWhy {
	if x.refs == nil && (x.capture == spans.CaptureNone || x.capture == "") {
		return DiffNotCaptured
	}
	return ""
}

// read returns what the messages say, or why that is not known.
func (x *texts) read(refs []Ref) (said []namedText, why DiffWhy) {
	for _, ref := range refs {
		body, ok := x.blocks.Body(ref)
		if !ok {
			return nil, bodyLost(x.blocks, ref, x.capture)
		}
		l, _ := readSaid(body)
		for _, s := range l {
			if slices.Contains(x.without, s.name) || x.only != "" && s.name != x.only {
				continue
			}
			if n := len(said); n > 0 && said[n-1].name == s.name && s.name != ByUser {
				said[n-1].text += "\n" + s.text // a reply in several parts
				continue
			}
			said = append(said, s)
		}
	}
	return said, ""
}

// texts compares two lists of messages by what they say. Ids and times in them do not count.
func (d *differ) texts(x, y texts) ([]TextDiff, *unknownSides) {
	if u := (unknownSides{x.blind(), y.blind()}); x.there && y.there && u != (unknownSides{}) {
		return nil, &u
	}
	a, b := x.refs.From(0), y.refs.From(0)
	whole := func(r *Refs) bool { return r == nil || r.Complete }
	if !whole(x.refs) || !whole(y.refs) {
		u := unknownSides{}
		if !whole(x.refs) {
			u.a = DiffMissing
		}
		if !whole(y.refs) {
			u.b = DiffMissing
		}
		return nil, &u
	}
	// What both have by its digest needs no body.
	for len(a) > 0 && len(b) > 0 && a[0].Block == b[0].Block {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1].Block == b[len(b)-1].Block {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	was, whyA := x.read(a)
	is, whyB := y.read(b)
	if whyA != "" || whyB != "" {
		return nil, &unknownSides{whyA, whyB}
	}
	pairs := match(len(was), len(is),
		func(side, i int) string { // those that say the same first
			l := [][]namedText{was, is}[side]
			return l[i].name + "\x00" + l[i].text
		},
		func(side, i int) string { return [][]namedText{was, is}[side][i].name },
	)
	var out []TextDiff
	for _, p := range ordered(pairs, len(was), len(is)) {
		switch {
		case p.a < 0:
			out = append(out, d.compare(is[p.b].name, "", is[p.b].text))
		case p.b < 0:
			out = append(out, d.compare(was[p.a].name, was[p.a].text, ""))
		case was[p.a].text != is[p.b].text:
			out = append(out, d.compare(was[p.a].name, was[p.a].text, is[p.b].text))
		}
	}
	return out, nil
}

// askedCall is a call of a tool in a message, or what a tool gave back.
type askedCall struct {
	id, name, args, result string
	hasResult              bool
}

// readSaid parts what a message says into texts, under the names that differences have for them, and the calls and results of tools.
func readSaid(body string) (said []namedText, calls []askedCall) {
	for _, s := range Sayings(body) {
		switch s.Kind {
		case SaidCall:
			calls = append(calls, askedCall{id: s.ID, name: s.Name, args: s.JSON})
		case SaidResult:
			calls = append(calls, askedCall{id: s.ID, name: s.Name, result: s.JSON, hasResult: true})
		case SaidThinking:
			if s.Text != "" {
				said = append(said, namedText{s.Label(), s.Text})
			}
		case SaidFile:
			text := s.Text
			if s.Data != "" { // the bytes say nothing to eyes
				text = "[" + strconv.Itoa(len(s.Data)) + " characters of base64, " + spans.BlockOfString(s.Data).Short().String() + "]"
			}
			said = append(said, namedText{string(SaidFile), text})
		case SaidOther:
			said = append(said, namedText{cmp.Or(s.Type, s.By), canonical(s.JSON)})
		default:
			said = append(said, namedText{s.Label(), s.Text})
		}
	}
	return said, calls
}

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
