package otelagent

import (
	"bytes"
	"slices"
)

// maxDepth is how deep JSON may nest before it is taken as it came.
const maxDepth = 200

// canonical rewrites the JSON value src in the form under which messages are hashed: keys sorted at every depth, blanks
// between tokens dropped, strings and numbers as they were spelled. From the top level of an object it takes off the
// keys named in strip; they come back as a JSON object of their own, empty when there was none.
//
// ok is false when src is not one JSON value, or nests deeper than 200.
func canonical(src []byte, strip []string) (body, envelope []byte, ok bool) {
	w := rewriter{src: src, dst: make([]byte, 0, len(src)), strip: strip}
	w.blanks()
	if !w.value(0) {
		return nil, nil, false
	}
	w.blanks()
	if w.pos != len(src) {
		return nil, nil, false
	}
	return w.dst, w.envelope, true
}

// rewriter reads src and writes its canonical form to dst.
type rewriter struct {
	src      []byte
	pos      int
	dst      []byte
	strip    []string
	envelope []byte
}

// member is one member of an object in dst: `"key":value`, of which key is the spelling between the quotes.
type member struct {
	start, end, keyEnd int
}

func (w *rewriter) blanks() {
	for w.pos < len(w.src) {
		switch w.src[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return
		}
	}
}

func (w *rewriter) value(depth int) bool {
	if w.pos == len(w.src) || depth > maxDepth {
		return false
	}
	switch c := w.src[w.pos]; {
	case c == '{':
		return w.object(depth)
	case c == '[':
		return w.array(depth)
	case c == '"':
		return w.string()
	case c == 't':
		return w.literal("true")
	case c == 'f':
		return w.literal("false")
	case c == 'n':
		return w.literal("null")
	default:
		return w.number()
	}
}

func (w *rewriter) object(depth int) bool {
	var space [16]member
	members, sorted := space[:0], true
	w.pos++
	w.dst = append(w.dst, '{')
	open := len(w.dst)
	for w.blanks(); !w.byte('}'); w.blanks() {
		if len(members) > 0 {
			if !w.byte(',') {
				return false
			}
			w.blanks()
		}
		m := member{start: len(w.dst)}
		if w.pos == len(w.src) || w.src[w.pos] != '"' || !w.string() {
			return false
		}
		m.keyEnd = len(w.dst) - 1
		w.blanks()
		if !w.byte(':') {
			return false
		}
		w.dst = append(w.dst, ':')
		w.blanks()
		if !w.value(depth + 1) {
			return false
		}
		m.end = len(w.dst)
		if n := len(members); n > 0 && w.compare(members[n-1], m) > 0 {
			sorted = false
		}
		members = append(members, m)
	}
	if !sorted {
		slices.SortStableFunc(members, w.compare)
	}
	if depth == 0 && len(w.strip) > 0 {
		members = w.takeOff(members)
		sorted = false // there may be gaps now
	}
	if sorted {
		// In order already, but the commas are missing between them: move from the back.
		w.spread(open, members)
		return true
	}
	w.rewrite(open, members)
	return true
}

// key returns the spelling of a member's key.
func (w *rewriter) key(m member) []byte { return w.dst[m.start+1 : m.keyEnd] }

func (w *rewriter) compare(a, b member) int { return bytes.Compare(w.key(a), w.key(b)) }

// takeOff moves the members named in strip to the envelope.
func (w *rewriter) takeOff(members []member) []member {
	var off []member
	kept := members[:0]
	for _, m := range members {
		if slices.Contains(w.strip, string(w.key(m))) {
			off = append(off, m)
		} else {
			kept = append(kept, m)
		}
	}
	if len(off) > 0 {
		w.envelope = w.join(nil, off)
	}
	return kept
}

// join appends an object of members to to.
func (w *rewriter) join(to []byte, members []member) []byte {
	to = append(to, '{')
	for i, m := range members {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, w.dst[m.start:m.end]...)
	}
	return append(to, '}')
}

// rewrite puts members in their order where the object that opens before open stands in dst.
func (w *rewriter) rewrite(open int, members []member) {
	object := w.join(make([]byte, 0, len(w.dst)-open+len(members)+2), members)
	w.dst = append(w.dst[:open-1], object...)
}

// spread puts commas between members that stand in dst in order and without gaps, and closes the object.
func (w *rewriter) spread(open int, members []member) {
	n := len(members)
	for range max(n-1, 0) + 1 {
		w.dst = append(w.dst, '}')
	}
	for i := n - 1; i > 0; i-- {
		m := members[i]
		copy(w.dst[m.start+i:m.end+i], w.dst[m.start:m.end])
		w.dst[m.start+i-1] = ','
	}
}

func (w *rewriter) array(depth int) bool {
	w.pos++
	w.dst = append(w.dst, '[')
	first := true
	for w.blanks(); !w.byte(']'); w.blanks() {
		if !first {
			if !w.byte(',') {
				return false
			}
			w.dst = append(w.dst, ',')
			w.blanks()
		}
		if first = false; !w.value(depth + 1) {
			return false
		}
	}
	w.dst = append(w.dst, ']')
	return true
}

func (w *rewriter) byte(c byte) bool {
	if w.pos < len(w.src) && w.src[w.pos] == c {
		w.pos++
		return true
	}
	return false
}

func (w *rewriter) literal(word string) bool {
	if !bytes.HasPrefix(w.src[w.pos:], []byte(word)) {
		return false
	}
	w.pos += len(word)
	w.dst = append(w.dst, word...)
	return true
}

func (w *rewriter) string() bool {
	start := w.pos
	for i := start + 1; i < len(w.src); i++ {
		switch c := w.src[i]; {
		case c == '"':
			w.pos = i + 1
			w.dst = append(w.dst, w.src[start:w.pos]...)
			return true
		case c == '\\':
			if i++; i == len(w.src) || !escape(w.src[i:]) {
				return false
			}
		case c < ' ':
			return false
		}
	}
	return false
}

// escape reports whether s starts with what may stand behind a backslash.
func escape(s []byte) bool {
	switch s[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if len(s) < 5 {
			return false
		}
		for _, c := range s[1:5] {
			if c|0x20 < 'a' && (c < '0' || c > '9') || c|0x20 > 'f' {
				return false
			}
		}
		return true
	}
	return false
}

func (w *rewriter) number() bool {
	start := w.pos
	w.byte('-')
	if !w.byte('0') && !w.digits() {
		return false
	}
	if w.byte('.') && !w.digits() {
		return false
	}
	if w.byte('e') || w.byte('E') {
		if !w.byte('+') {
			w.byte('-')
		}
		if !w.digits() {
			return false
		}
	}
	w.dst = append(w.dst, w.src[start:w.pos]...)
	return true
}

func (w *rewriter) digits() bool {
	start := w.pos
	for w.pos < len(w.src) && w.src[w.pos] >= '0' && w.src[w.pos] <= '9' {
		w.pos++
	}
	return w.pos > start
}
