package session

import (
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// runLists takes the lists of a row that belongs to the run itself. Of equal names the first counts.
func (a *assembler) runLists(run *Run, r *Row) {
	for i := range r.Lists {
		l := &r.Lists[i]
		var dst **Refs
		switch l.Name {
		case spans.ListMessages:
			dst = &run.Messages
		case spans.ListOutside:
			dst = &run.Outside
		case spans.ListMetadata:
			dst = &run.Metadata
		case spans.ListRules:
			dst = &run.Rules
		default:
			a.unknownList(&run.Span, &run.Defects, l)
			continue
		}
		if *dst == nil {
			*dst = a.refs(l, &run.Defects)
		}
	}
}

// turnLists takes the lists of a row that belongs to a turn. Of equal names the first counts.
func (a *assembler) turnLists(t *Turn, r *Row) {
	for i := range r.Lists {
		l := &r.Lists[i]
		var dst **Refs
		switch l.Name {
		case spans.ListInput:
			dst = &t.Input
		case spans.ListOutput:
			dst = &t.Output
		case spans.ListResults:
			dst = &t.Results
		case spans.ListRequest:
			dst = &a.request(t, l.Attempt).Messages
		case spans.ListParams:
			dst = &a.request(t, l.Attempt).Params
		default:
			a.unknownList(&t.Span, &t.Defects, l)
			continue
		}
		if *dst == nil {
			*dst = a.refs(l, &t.Defects)
		}
	}
}

// request returns the request of an attempt of the turn at hand, made when it is not there.
func (a *assembler) request(t *Turn, attempt int64) *Request {
	if r := a.requests[attempt]; r != nil {
		return r
	}
	if a.requests == nil {
		a.requests = map[int64]*Request{}
	}
	r := &Request{Attempt: attempt}
	a.requests[attempt] = r
	t.Requests = append(t.Requests, r)
	return r
}

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

// notes appends what rode as otelagent.event on r.
func (a *assembler) notes(dst []Note, r *Row) []Note {
	if len(r.Events) == 0 {
		return dst
	}
	if dst == nil {
		dst = make([]Note, 0, len(r.Events))
	}
	for i := range r.Events {
		e := &r.Events[i]
		n := Note{Time: nsTime(e.Time), Type: e.Type, Seq: e.Seq}
		if e.Body != "" {
			n.Body = &Ref{Block: e.Body}
		}
		dst = append(dst, n)
	}
	return dst
}

// refs resolves a list. Whatever is wrong with it is said in d.
func (a *assembler) refs(l *List, d *[]Defect) *Refs {
	refs := &Refs{Count: l.Count, Complete: true, Digest: l.Digest}
	items, ok := l.Items, l.Prefix == ""
	if !ok && a.resolved < maxResolved {
		items, ok = a.index.resolve(l)
		a.resolved += len(items)
	}
	if !ok {
		refs.Complete = false
		*d = append(*d, Defect{Code: spans.DefectListUnresolved, Detail: listName(l)})
	}
	bad := 0
	if len(items) > 0 {
		refs.Items = make([]Ref, len(items))
		for i, it := range items {
			if refs.Items[i], ok = parseRef(it); !ok {
				bad++
			}
		}
	}
	if refs.Complete && (int64(len(items)) != l.Count || bad > 0) {
		refs.Complete = false
		detail := listName(l) + ": " + strconv.Itoa(len(items)-bad) + " of " + strconv.FormatInt(l.Count, 10) + " items"
		*d = append(*d, Defect{Code: spans.DefectListBroken, Detail: detail})
	}
	return refs
}

func listName(l *List) string {
	if l.Attempt == 0 {
		return clip(l.Name)
	}
	return clip(l.Name) + " of attempt " + strconv.FormatInt(l.Attempt, 10)
}

// parseRef reads the wire form of an item. One that is not in that form comes whole as the name of its block.
func parseRef(s string) (Ref, bool) {
	id, rest, more := strings.Cut(s, " ")
	if _, err := spans.ParseShortID(id); err != nil {
		return Ref{Block: s}, false
	}
	ref := Ref{Block: id}
	if !more {
		return ref, true
	}
	if !strings.HasPrefix(rest, "{") {
		ref.Provenance, rest, more = strings.Cut(rest, " ")
		if ref.Provenance == "" {
			return Ref{Block: s}, false
		}
		if !more {
			return ref, true
		}
	}
	if !strings.HasPrefix(rest, "{") {
		return Ref{Block: s}, false
	}
	ref.Envelope = RawJSON(rest)
	return ref, true
}

// item returns the ref as spans has it, for the chain digest.
func (r *Ref) item() spans.Item {
	it := spans.Item{Provenance: r.Provenance, Envelope: string(r.Envelope)}
	it.Block, _ = spans.ParseShortID(r.Block)
	return it
}

// maxResolved bounds the items that prefixes of one session are resolved to: they are what a few bytes on the wire can
// multiply. Lists beyond it stay unresolved.
const maxResolved = 1 << 24

// listIndex finds lists of a session by count and digest. It is nil while no list has a prefix.
type listIndex map[listKey]*List

type listKey struct {
	count  int64
	digest string
}

func (x listIndex) add(r *Row) {
	for i := range r.Lists {
		l := &r.Lists[i]
		k := listKey{l.Count, l.Digest}
		// A complete list is preferred, else any: lists of one count and digest have the same items.
		if old := x[k]; old == nil || old.Prefix != "" && (l.Prefix == "" || len(l.Items) > len(old.Items)) {
			x[k] = l
		}
	}
}

// resolve returns the items of the whole list, or those known of its end and false.
func (x listIndex) resolve(l *List) ([]string, bool) {
	parts := [][]string{l.Items}
	total := len(l.Items)
	for at := l; at.Prefix != ""; {
		text, digest, ok := strings.Cut(at.Prefix, " ")
		n, err := strconv.ParseInt(text, 10, 64)
		next := x[listKey{n, digest}]
		// A prefix is shorter than the list that refers to it, so this ends.
		if !ok || err != nil || next == nil || n >= at.Count || n+int64(len(at.Items)) != at.Count {
			at, next = nil, nil
		}
		if next == nil {
			return join(parts, total), false
		}
		parts = append(parts, next.Items)
		total += len(next.Items)
		at = next
	}
	return join(parts, total), true
}

// join returns parts, last one first, as one slice.
func join(parts [][]string, total int) []string {
	if len(parts) == 1 {
		return parts[0]
	}
	out := make([]string, 0, total)
	for i := len(parts) - 1; i >= 0; i-- {
		out = append(out, parts[i]...)
	}
	return out
}
