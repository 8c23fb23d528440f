package session

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

func (a *assembler) unknownList(p part, l *List) {
	s := p.span()
	if _, ok := s.Lists[l.Name]; ok {
		return
	}
	if s.Lists == nil {
		s.Lists = map[string]*Refs{}
	}
	s.Lists[l.Name] = a.refs(l, p.remarks())
	p.remarks().defect(spans.DefectListUnknown, clip(l.Name))
}

// clip bounds text from outside in the detail of a defect.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// refs resolves a list. It adds what is wrong with it to the defects of remarks.
func (a *assembler) refs(l *List, remarks *Remarks) *Refs {
	end, own := a.index.ends[l], int64(len(l.Items))
	refs := &Refs{Count: l.Count, Complete: true, end: end, known: end.pos, own: own}
	// repeated looks at requests once all are there.
	if !end.resolve() || l.Name != spans.ListRequest && !a.affords(end.pos-own) {
		refs.known, refs.Complete = own, false
		remarks.defect(spans.DefectListUnresolved, listName(l))
	}
	if refs.Complete && (refs.known != l.Count || end.bad > 0) {
		refs.Complete = false
		detail := fmt.Sprintf("%s: %d of %d items", listName(l), refs.known-end.bad, l.Count)
		remarks.defect(spans.DefectListBroken, detail)
	}
	return refs
}

// maxResolved bounds the items that the tree shows beyond those that came over the wire: a few bytes can multiply them.
// Lists beyond it stay unresolved.
const maxResolved = 1 << 24

// affords reports whether n more items than came over the wire may be shown.
func (a *assembler) affords(n int64) bool {
	if n > maxResolved-a.resolved {
		return false
	}
	a.resolved += n
	return true
}

// repeated finds, for each request, what it repeats of the one before it in the tree.
func (a *assembler) repeated() {
	var before *Request
	for _, r := range a.s.Runs {
		for _, t := range r.Turns {
			ofTurn := before
			for _, q := range t.Requests {
				m := q.Messages
				if m == nil {
					continue
				}
				if m.Complete && before != nil && !t.Utility() {
					q.before, m.Same = ofTurn, before.Messages.shared(m, m.own+maxResolved-a.resolved)
				}
				if m.known > m.own && !a.affords(max(0, m.known-m.Same-m.own)) {
					a.resolved = maxResolved // the next ones are not looked through
					m.known, m.Same, m.Complete = m.own, 0, false
					t.defect(spans.DefectListUnresolved, requestName(spans.ListRequest, q.Attempt))
				}
				if m.Complete && !t.Utility() {
					before = q
				}
			}
		}
	}
}

func listName(l *List) string { return requestName(clip(l.Name), l.Attempt) }

// requestName names a list of a request.
func requestName(list string, attempt int64) string {
	if attempt == 0 {
		return list
	}
	return list + " of attempt " + strconv.FormatInt(attempt, 10)
}

// shortText is the length of a short id as text.
const shortText = 11

// node is the beginning of a list: one item, and the node before it. Lists that begin alike share their nodes, so a
// session has at most as many nodes as items came over the wire, however long its lists grow.
type node struct {
	parent    *node // nil: the items before it are unknown
	ref       Ref
	malformed bool  // the item has no good form
	pos       int64 // items up to and with this one
	mark      spans.Mark

	// Of what resolve walked over: whether the walk came to the beginning, and the malformed items on it.
	walked, whole bool
	bad           int64
}

// root is the beginning of every list.
var root = &node{walked: true, whole: true}

// resolve reports whether everything up to n is known.
func (n *node) resolve() bool {
	var path []*node
	at := n
	for ; !at.walked && at.parent != nil; at = at.parent {
		path = append(path, at)
	}
	if !at.walked { // a prefix of nowhere
		at.walked = true
	}
	for _, p := range slices.Backward(path) {
		p.walked, p.whole, p.bad = true, p.parent.whole, p.parent.bad
		if p.malformed {
			p.bad++
		}
	}
	return n.whole
}

// Without returns the items of r whose blocks o does not have, two complete lists of one session. O may be nil.
func (r *Refs) Without(o *Refs) []Ref {
	same := r.shared(o, math.MaxInt64)
	has := map[string]bool{}
	for _, ref := range o.From(same) {
		has[ref.Block] = true
	}
	return slices.DeleteFunc(r.From(same), func(ref Ref) bool { return has[ref.Block] })
}

// shared returns how many first items r and o have in common. It is 0 for nil and an empty list, and where more than
// most of the last items of o are not in r.
func (r *Refs) shared(o *Refs, most int64) int64 {
	if r.Len() == 0 || o.Len() == 0 {
		return 0
	}
	x, y := r.end, o.end
	for x != y && o.end.pos-y.pos <= most {
		switch {
		case x.pos > y.pos:
			x = x.parent
		case y.pos > x.pos:
			y = y.parent
		default:
			x, y = x.parent, y.parent
		}
	}
	if x != y {
		return 0
	}
	return x.pos
}

// listIndex finds the beginnings of the lists of a session.
type listIndex struct {
	nodes map[nodeKey]*node
	ends  map[*List]*node
}

// nowhere is the position of what a prefix in bad form names.
const nowhere = math.MaxInt64 / 2

type nodeKey struct {
	pos  int64
	mark spans.Mark
}

// newListIndex makes nodes of all lists. Which of two items a node has when both come to one mark does not depend on
// the order of the lists; the digest shows whether it was the right one.
func newListIndex(entries []entry) *listIndex {
	x := &listIndex{nodes: map[nodeKey]*node{{}: root}, ends: map[*List]*node{}}
	for i := range entries {
		entries[i].each(x.add)
	}
	return x
}

func (x *listIndex) add(r *Row) {
	for i := range r.Lists {
		l := &r.Lists[i]
		n := root
		if l.Prefix != "" {
			n = &node{pos: nowhere}
			if p, mark, err := spans.ParsePrefix(l.Prefix); err == nil {
				n = x.at(nodeKey{min(p, nowhere), mark})
			}
		}
		for _, it := range l.Items {
			next := x.at(nodeKey{n.pos + 1, n.mark.Add(it)})
			ref := Ref{Block: it} // of an item in a bad form
			parsed, err := spans.ParseItem(it)
			if err == nil {
				ref = Ref{Block: it[:shortText], Provenance: parsed.Provenance}
			}
			if next.parent == nil || cmp.Or(strings.Compare(ref.Block, next.ref.Block),
				strings.Compare(ref.Provenance, next.ref.Provenance),
				bytes.Compare(n.mark[:], next.parent.mark[:])) < 0 {
				next.parent, next.ref, next.malformed = n, ref, err != nil
			}
			n = next
		}
		x.ends[l] = n
	}
}

func (x *listIndex) at(k nodeKey) *node {
	n := x.nodes[k]
	if n == nil {
		n = &node{pos: k.pos, mark: k.mark}
		x.nodes[k] = n
	}
	return n
}
