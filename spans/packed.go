package spans

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// PackedList is one list as it stands in otelagent.lists:
//
//	NAME[.ATTEMPT] COUNT DIGEST[ P MARK]
//	ITEM
//	...
//
// The lines are parted by line feeds, without one at the end. DIGEST is Chain.Short of the whole list. With P, the items
// are those behind the first P, which are the first P items of any list that has Mark MARK there. An envelope of an item
// that is just phi-core's turn id of the span's own run, {"turnId":{"loopId":RUN,"turnIndex":N}}, is written @N. A provenance
// t:TURN:ROLE:INDEX is written .ROLE where the last such one of the list has the same turn and the index before, and ,ROLE
// where it has the turn before and INDEX is 0.
type PackedList struct {
	Name    string
	Attempt int64
	Count   int64
	Digest  string
	// Prefix is `P MARK`, empty on a complete list.
	Prefix string
	// Items are the wire forms of Item.
	Items []string
}

// turnIDParts returns what stands around the index in an envelope that is only the turn id of run.
func turnIDParts(run string) (before, after string) {
	b := append(make([]byte, 0, len(run)+40), ` {"turnId":{"loopId":`...)
	return string(append(rawjson.Quote(b, run), `,"turnIndex":`...)), "}}"
}

// Encode returns the wire form; run is the id of the span's run. Names hold no blank, dot or line feed.
func (l *PackedList) Encode(run string) string {
	text, written := l.encode(run, true)
	if written > maxWrittenOut*len(text) { // a reader would take it for an attack: a long run id of control characters, and items of nothing else
		text, _ = l.encode(run, false)
	}
	return text
}

// encode returns the wire form, with @N for turn ids if shorten says so, and how long the items with @N are when written out.
func (l *PackedList) encode(run string, shorten bool) (text string, written int) {
	n := 64
	for _, it := range l.Items {
		n += len(it) + 1
	}
	var dst strings.Builder
	dst.Grow(n)
	dst.WriteString(l.Name)
	var number [20]byte
	if l.Attempt != 0 {
		dst.WriteByte('.')
		dst.Write(strconv.AppendInt(number[:0], l.Attempt, 10))
	}
	dst.WriteByte(' ')
	dst.Write(strconv.AppendInt(number[:0], l.Count, 10))
	dst.WriteByte(' ')
	dst.WriteString(l.Digest)
	if l.Prefix != "" {
		dst.WriteByte(' ')
		dst.WriteString(l.Prefix)
	}
	var before, after string
	var last loopTurn
	for _, whole := range l.Items {
		dst.WriteByte('\n')
		it := last.shorten(&dst, whole)
		if shorten && strings.HasSuffix(it, "}}") {
			if before == "" {
				before, after = turnIDParts(run)
			}
			if i := strings.Index(it, before); i >= 0 {
				if n := strings.TrimSuffix(it[i+len(before):], after); isIndex(n) {
					dst.WriteString(it[:i])
					dst.WriteString(" @")
					dst.WriteString(n)
					written += len(whole)
					continue
				}
			}
		}
		dst.WriteString(it)
	}
	return dst.String(), written
}

// loopTurn is the place of the last item of a list that came from a turn.
type loopTurn struct {
	known       bool
	turn, index int64
}

// follow takes over the place of an item whose provenance is t:TURN:ROLE:INDEX. It returns the role, and how the place follows
// from the one before: '.', ',' or 0.
func (l *loopTurn) follow(provenance string) (role string, how byte) {
	rest, ok := strings.CutPrefix(provenance, "t:")
	turn, rest, ok1 := strings.Cut(rest, ":")
	role, index, ok2 := strings.Cut(rest, ":")
	if !ok || !ok1 || !ok2 || !isIndex(turn) || !isIndex(index) {
		return "", 0
	}
	next := loopTurn{known: true}
	next.turn, _ = strconv.ParseInt(turn, 10, 64)
	next.index, _ = strconv.ParseInt(index, 10, 64)
	switch {
	case l.known && next.turn == l.turn && next.index == l.index+1:
		how = '.'
	case l.known && next.turn == l.turn+1 && next.index == 0:
		how = ','
	}
	*l = next
	return role, how
}

// shorten writes the block id and provenance of an item, if that is shorter, and returns what is left of it.
func (l *loopTurn) shorten(dst *strings.Builder, it string) (rest string) {
	id, tail, ok := strings.Cut(it, " ")
	if !ok {
		return it
	}
	provenance, _, _ := strings.Cut(tail, " ")
	role, how := l.follow(provenance)
	if how == 0 {
		return it
	}
	dst.WriteString(id)
	dst.WriteByte(' ')
	dst.WriteByte(how)
	dst.WriteString(role)
	return tail[len(provenance):]
}

// widen is the reverse of shorten for a whole item.
func (l *loopTurn) widen(it string) string {
	id, tail, ok := strings.Cut(it, " ")
	if !ok {
		return it
	}
	provenance, _, _ := strings.Cut(tail, " ")
	if l.known && provenance != "" && (provenance[0] == '.' || provenance[0] == ',') {
		next := loopTurn{known: true, turn: l.turn, index: l.index + 1}
		if provenance[0] == ',' {
			next.turn, next.index = l.turn+1, 0
		}
		*l = next
		return id + " t:" + strconv.FormatInt(next.turn, 10) + ":" + provenance[1:] + ":" + strconv.FormatInt(next.index, 10) + tail[len(provenance):]
	}
	l.follow(provenance)
	return it
}

// isIndex reports whether s is a decimal number as strconv writes it.
func isIndex(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// maxWrittenOut bounds how much longer a list may grow when its turn ids are written out: the longest run id of printed
// characters, on items that say nothing else, comes to 21.
const maxWrittenOut = 24

// ParsePackedList reads what Encode wrote for a span of that run. Items are not looked into but for @N; a list that grows to
// more than 24 times its length by that is refused. Errors wrap ErrEncoding and hold nothing of s.
func ParsePackedList(s, run string) (PackedList, error) {
	var l PackedList
	bad := func(what string) (PackedList, error) {
		return PackedList{}, fmt.Errorf("spans: packed list: %s: %w", what, ErrEncoding)
	}
	head, rest, more := strings.Cut(s, "\n")
	f := strings.Split(head, " ")
	if len(f) != 3 && len(f) != 5 {
		return bad("head")
	}
	name, attempt, has := strings.Cut(f[0], ".")
	if l.Name = name; name == "" {
		return bad("name")
	}
	var err error
	if has {
		if l.Attempt, err = strconv.ParseInt(attempt, 10, 64); err != nil || l.Attempt < 0 {
			return bad("attempt")
		}
	}
	if l.Count, err = strconv.ParseInt(f[1], 10, 64); err != nil || l.Count < 0 {
		return bad("count")
	}
	l.Digest = f[2]
	if len(f) == 5 {
		if !isIndex(f[3]) || len(f[4]) != markLen {
			return bad("prefix")
		}
		l.Prefix = f[3] + " " + f[4]
	}
	if !more {
		return l, nil
	}
	l.Items = make([]string, 0, strings.Count(rest, "\n")+1)
	var before, after string
	written := 0
	var last loopTurn
	for more {
		var it string
		it, rest, more = strings.Cut(rest, "\n")
		it = last.widen(it)
		if i := strings.LastIndexByte(it, ' '); i >= 0 && i+1 < len(it) && it[i+1] == '@' && isIndex(it[i+2:]) {
			if before == "" {
				before, after = turnIDParts(run)
			}
			it = it[:i] + before + it[i+2:] + after
			if written += len(it); written > maxWrittenOut*len(s) {
				return bad("turn ids")
			}
		}
		l.Items = append(l.Items, it)
	}
	return l, nil
}

// Mark names the beginning of a list by what stands on the wire: it can be computed without the bodies, so that a prefix
// is found in lists whose blocks were lost. The chain digest, which covers full ids, then tells whether it was the right one.
// The zero value is that of the empty list.
//
// m(0) is 8 zero bytes; m(i) = the first 8 bytes of SHA-256(m(i-1) | wire form of the item, turn ids written out).
type Mark [8]byte

const markLen = 11

// Add appends one item in its wire form and returns the new mark.
func (m Mark) Add(item string) Mark {
	var fixed [256]byte
	buf := append(append(fixed[:0], m[:]...), item...)
	sum := sha256.Sum256(buf)
	return Mark(sum[:8])
}

// String returns the mark as it stands on the wire: 11 characters of base64url.
func (m Mark) String() string { return base64.RawURLEncoding.EncodeToString(m[:]) }

// EncodePrefix returns `P MARK`.
func EncodePrefix(p int64, m Mark) string { return strconv.FormatInt(p, 10) + " " + m.String() }

// ParsePrefix reads `P MARK`. Errors wrap ErrEncoding.
func ParsePrefix(s string) (p int64, m Mark, err error) {
	count, mark, _ := strings.Cut(s, " ")
	if !isIndex(count) {
		return 0, Mark{}, fmt.Errorf("spans: prefix: count: %w", ErrEncoding)
	}
	if err := decodeBase64(m[:], mark); err != nil {
		return 0, Mark{}, fmt.Errorf("spans: prefix: mark: %w", err)
	}
	p, _ = strconv.ParseInt(count, 10, 64)
	return p, m, nil
}

// shortChain is the length of Chain.Short, 18 bytes of the digest.
const shortChain = 24

// Short returns the part of the digest that stands in packed lists: its first 24 characters.
func (c Chain) Short() string {
	b := c.text()
	return string(b[:shortChain])
}

// Fits reports whether digest, as it stood on the wire, is that of the list: the whole of it or Short.
func (c Chain) Fits(digest string) bool {
	return len(digest) >= shortChain && strings.HasPrefix(c.String(), digest)
}

// AppendEcho appends one block to a stretch that is sent once more: a body, or the text of a recipe. The stretch is
// compressed as one zstd frame.
//
// An entry is a byte, 0 for a body and 1 for a recipe, its length as an unsigned varint, and the text.
func AppendEcho(dst []byte, text string, recipe bool) []byte {
	kind := byte(0)
	if recipe {
		kind = 1
	}
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(text)))
	return append(dst, text...)
}

// Echo calls f for each entry that AppendEcho wrote. An error wraps ErrEncoding; what stood before was handed out.
func Echo(stretch []byte, f func(text []byte, recipe bool)) error {
	for len(stretch) > 0 {
		kind := stretch[0]
		n, used := binary.Uvarint(stretch[1:])
		if kind > 1 || used <= 0 || n > uint64(len(stretch)-1-used) {
			return fmt.Errorf("spans: echo: %w", ErrEncoding)
		}
		start := 1 + used
		f(stretch[start:start+int(n)], kind == 1)
		stretch = stretch[start+int(n):]
	}
	return nil
}
