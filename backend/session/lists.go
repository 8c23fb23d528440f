package session

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

func (a *assembler) unknownList(s *Span, d *[]Defect, l *List) {
	if _, ok := s.Lists[l.Name]; ok {
		return
	}
	if s.Lists == nil {
		s.Lists = map[string]*Refs{}
	}
	s.Lists[l.Name] = a.refs(l, d)
	*d = append(*d, Defect{Code: spans.DefectListUnknown, Detail: clip(l.Name)})
}

// clip bounds text from outside in the detail of a defect.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// refs resolves a list. Whatever is wrong with it is said in d.
func (a *assembler) refs(l *List, d *[]Defect) *Refs {
	refs := &Refs{Count: l.Count, Complete: true}
	bad := int64(0)
	if end := a.index.end(l); end == nil {
		if len(l.Items) > 0 {
			refs.items = make([]Ref, len(l.Items))
		}
		for i, it := range l.Items {
			var ok bool
			if refs.items[i], ok = parseRef(it); !ok {
				bad++
			}
		}
	} else {
		refs.end, refs.known, refs.own = end, end.pos, int64(len(l.Items))
		// What a request repeats is looked at once all are there.
		whole := end.resolve() && (l.Name == spans.ListRequest || a.affords(end.pos-int64(len(l.Items))))
		if !whole {
			refs.known = int64(len(l.Items))
			a.unresolved(refs, listName(l), d)
		}
		bad = end.bad
	}
	if n := int64(refs.Len()); refs.Complete && (n != l.Count || bad > 0) {
		refs.Complete = false
		detail := listName(l) + ": " + strconv.FormatInt(n-bad, 10) + " of " + strconv.FormatInt(l.Count, 10) + " items"
		*d = append(*d, Defect{Code: spans.DefectListBroken, Detail: detail})
	}
	return refs
}

func (a *assembler) unresolved(refs *Refs, name string, d *[]Defect) {
	refs.Complete = false
	*d = append(*d, Defect{Code: spans.DefectListUnresolved, Detail: name})
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
			for _, q := range t.Requests {
				m := q.Messages
				if m == nil {
					continue
				}
				if m.Complete && before != nil {
					q.before, m.Same = before, before.Messages.shared(m, m.own+maxResolved-a.resolved)
				}
				if m.end != nil && m.known > m.own && !a.affords(max(0, m.known-m.Same-m.own)) {
					a.resolved = maxResolved // the next ones are not looked through
					m.known, m.Same = m.own, 0
					a.unresolved(m, requestName(spans.ListRequest, q.Attempt), &t.Defects)
				}
				if m.Complete {
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

// parseRef reads the wire form of an item. One that is not in that form comes whole as the name of its block.
func parseRef(s string) (Ref, bool) {
	it, err := spans.ParseItem(s)
	if err != nil {
		return Ref{Block: s}, false
	}
	return Ref{Block: s[:shortText], Provenance: it.Provenance}, true
}

// shortText is the length of a short id as text.
const shortText = 11

// node is the beginning of a list: one item, and the node before it. Lists that begin alike share their nodes, so a
// session has at most as many nodes as items came over the wire, however long its lists grow.
type node struct {
	parent *node // nil: the items before it are unknown
	item   string
	pos    int64 // items up to and with this one
	mark   spans.Mark

	// Of what resolve walked over: whether the walk came to the beginning, and the items in bad form on it.
	walked, whole bool
	bad           int64
}

// resolve reports whether everything up to n is known.
func (n *node) resolve() bool {
	var path []*node
	at := n
	for ; !at.walked && at.parent != nil; at = at.parent {
		path = append(path, at)
	}
	at.walked = true // a beginning, or nowhere
	for _, p := range slices.Backward(path) {
		q := p.parent
		p.walked, p.whole, p.bad = true, q.whole, q.bad
		if _, ok := parseRef(p.item); !ok {
			p.bad++
		}
	}
	return n.whole
}

// Shared returns how many first items r and o have in common, two complete lists of one session. Of nil and of an
// empty list it is 0.
func (r *Refs) Shared(o *Refs) int64 { return r.shared(o, math.MaxInt64) }

// shared is Shared, or 0 where more than most of the last items of o are not in r.
func (r *Refs) shared(o *Refs, most int64) int64 {
	if r.Len() == 0 || o.Len() == 0 || (r.end == nil) != (o.end == nil) { // an empty list has no end to begin from
		return 0
	}
	if r.end == nil {
		n := 0
		for n < min(len(r.items), len(o.items)) && r.items[n] == o.items[n] {
			n++
		}
		return int64(n)
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

// listIndex finds the beginnings of the lists of a session. It is nil while no list has a prefix.
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

// newListIndex makes nodes of all lists, if one of them has a prefix. Which of two items a node has when both come to
// one mark does not depend on the order of the lists; the digest shows whether it was the right one.
func newListIndex(entries []entry) *listIndex {
	x := &listIndex{nodes: map[nodeKey]*node{}, ends: map[*List]*node{}}
	var lists []*List
	prefixed := false
	add := func(r *Row) {
		for i := range r.Lists {
			lists = append(lists, &r.Lists[i])
			prefixed = prefixed || r.Lists[i].Prefix != ""
		}
	}
	for i := range entries {
		add(entries[i].row)
		for _, r := range entries[i].payloads {
			add(r)
		}
	}
	if !prefixed {
		return nil
	}
	root := x.at(nodeKey{})
	root.whole = true
	for _, l := range lists {
		if l.Prefix == "" {
			x.extend(root, l)
		} else if p, mark, err := spans.ParsePrefix(l.Prefix); err == nil {
			x.extend(x.at(nodeKey{min(p, nowhere), mark}), l)
		} else {
			x.extend(&node{pos: nowhere}, l)
		}
	}
	return x
}

// end returns the node of the last item of l.
func (x *listIndex) end(l *List) *node {
	if x == nil {
		return nil
	}
	return x.ends[l]
}

func (x *listIndex) at(k nodeKey) *node {
	n := x.nodes[k]
	if n == nil {
		n = &node{pos: k.pos, mark: k.mark}
		x.nodes[k] = n
	}
	return n
}

func (x *listIndex) extend(n *node, l *List) {
	for _, it := range l.Items {
		next := x.at(nodeKey{n.pos + 1, n.mark.Add(it)})
		if next.parent == nil || cmp.Or(strings.Compare(it, next.item),
			bytes.Compare(n.mark[:], next.parent.mark[:])) < 0 {
			next.parent, next.item = n, it
		}
		n = next
	}
	x.ends[l] = n
}
