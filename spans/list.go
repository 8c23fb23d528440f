package spans

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// Item is one entry of a list: a block, and where it came from. On the wire it is `SHORTID[ PROVENANCE]`.
type Item struct {
	// Block is the short id of the body.
	Block ShortID
	// Provenance says where the block came from, in the form of Provenance.Encode. Empty when nothing is known.
	Provenance string
}

// Encode returns the wire form of the item.
func (it Item) Encode() string {
	if it.Provenance == "" {
		return it.Block.String()
	}
	return it.Block.String() + " " + it.Provenance
}

// ParseItem reads the wire form of an item. The result's strings share memory with s.
func ParseItem(s string) (Item, error) {
	text, from, more := strings.Cut(s, " ")
	id, err := ParseShortID(text)
	if err != nil || more && from == "" || strings.Contains(from, " ") {
		return Item{}, ErrEncoding
	}
	return Item{id, from}, nil
}

// WholeOf returns the wire form of what blocks are put together to, of that size and SHA-256: `SIZE:SUM`, with the
// first 12 bytes of the SHA-256 as 16 characters of base64url.
func WholeOf(size int64, sum BlockID) string {
	return strconv.FormatInt(size, 10) + ":" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// List is one list as it is in otelagent.lists:
//
//	NAME[.ATTEMPT] COUNT[ P MARK][ WHOLE]
//	ITEM
//	...
//
// A line feed separates the lines; the last line has none. WHOLE is in the list `params` only and describes the
// request. With P, the items are those after the first P, which are the first P items of any list that has Mark MARK
// there.
type List struct {
	Name    string
	Attempt int64
	Count   int64
	// Prefix is `P MARK`, empty on a complete list.
	Prefix string
	// Whole is that of WholeOf, empty where the list has none.
	Whole string
	// Items are the wire forms of Item.
	Items []string
}

// Add appends an item.
func (l *List) Add(it Item) {
	l.Items = append(l.Items, it.Encode())
	l.Count++
}

// Encode returns the wire form. Names hold no blank, dot or line feed.
func (l *List) Encode() string {
	n := 96
	for _, it := range l.Items {
		n += len(it) + 1
	}
	dst := append(make([]byte, 0, n), l.Name...)
	if l.Attempt != 0 {
		dst = strconv.AppendInt(append(dst, '.'), l.Attempt, 10)
	}
	dst = strconv.AppendInt(append(dst, ' '), l.Count, 10)
	if l.Prefix != "" {
		dst = append(append(dst, ' '), l.Prefix...)
	}
	if l.Whole != "" {
		dst = append(append(dst, ' '), l.Whole...)
	}
	for _, it := range l.Items {
		dst = append(append(dst, '\n'), it...)
	}
	return string(dst)
}

// ParseList reads what Encode wrote. Items and the whole are not looked into.
func ParseList(s string) (List, error) {
	head, rest, more := strings.Cut(s, "\n")
	f := strings.Split(head, " ")
	name, attempt, again := strings.Cut(f[0], ".")
	if !again {
		attempt = "0"
	}
	if name == "" || !isIndex(attempt) || len(f) < 2 || len(f) > 5 || !isIndex(f[1]) ||
		len(f) >= 4 && (!isIndex(f[2]) || len(f[3]) != shortText) {
		return List{}, ErrEncoding
	}
	l := List{Name: name}
	l.Attempt, _ = strconv.ParseInt(attempt, 10, 64)
	l.Count, _ = strconv.ParseInt(f[1], 10, 64)
	if len(f) >= 4 {
		l.Prefix = f[2] + " " + f[3]
	}
	if len(f)%2 == 1 {
		l.Whole = f[len(f)-1]
	}
	if more {
		l.Items = strings.Split(rest, "\n")
	}
	return l, nil
}

// isIndex reports whether s is a decimal number as strconv writes it.
func isIndex(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// Mark names the beginning of a list by what is on the wire: it can be computed without the bodies, so that a
// prefix is found in lists whose blocks were lost. The zero value is that of the empty list.
//
// m(0) is 8 zero bytes; m(i) = the first 8 bytes of SHA-256(m(i-1) | wire form of the item).
type Mark [8]byte

// Add appends one item in its wire form and returns the new mark.
func (m Mark) Add(item string) Mark {
	var fixed [256]byte
	sum := sha256.Sum256(append(append(fixed[:0], m[:]...), item...))
	return Mark(sum[:8])
}

// String returns the mark as it is on the wire: 11 characters of base64url.
func (m Mark) String() string { return ShortID(m).String() }

// EncodePrefix returns `P MARK`.
func EncodePrefix(p int64, m Mark) string { return strconv.FormatInt(p, 10) + " " + m.String() }

// ParsePrefix reads `P MARK`.
func ParsePrefix(s string) (p int64, m Mark, err error) {
	count, mark, _ := strings.Cut(s, " ")
	if decodeBase64(m[:], mark) != nil || !isIndex(count) {
		return 0, Mark{}, ErrEncoding
	}
	p, _ = strconv.ParseInt(count, 10, 64)
	return p, m, nil
}

// Withheld is a block of which at most the beginning was sent. On the wire, in otelagent.block.withheld, it is `SHA256
// SIZE[ BEGINNING]`, with the SHA-256 as 43 characters of base64url.
type Withheld struct {
	Block BlockID
	// Size is the length of the whole in bytes; at least 1.
	Size int64
	// Beginning is what was sent of it; nothing confirms that.
	Beginning string
}

// Encode returns the wire form.
func (w Withheld) Encode() string {
	s := base64.RawURLEncoding.EncodeToString(w.Block[:]) + " " + strconv.FormatInt(w.Size, 10)
	if w.Beginning != "" {
		s += " " + w.Beginning
	}
	return s
}

// ParseWithheld reads what Encode wrote.
func ParseWithheld(s string) (w Withheld, err error) {
	id, rest, _ := strings.Cut(s, " ")
	size, beginning, _ := strings.Cut(rest, " ")
	w.Beginning = beginning
	w.Size, _ = strconv.ParseInt(size, 10, 64)
	if decodeBase64(w.Block[:], id) != nil || !isIndex(size) || w.Size == 0 || int64(len(beginning)) > w.Size {
		return Withheld{}, ErrEncoding
	}
	return w, nil
}
