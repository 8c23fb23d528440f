// Package rawjson looks into JSON text without decoding it: one pass that validates and hands out pieces of the input.
//
// Nothing here copies, allocates (except where documented) or keeps its input. Accepted is what encoding/json.Valid and
// unicode/utf8.Valid both accept, nested no deeper than asked; so lone surrogate escapes pass, and come out of
// [AppendString] as U+FFFD. Errors never hold a piece of the input.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf8"
)

// MaxDepth is the depth of nesting that functions without a parameter for it accept.
const MaxDepth = 200

// SyntaxError says what is wrong with JSON text, and where. It holds nothing of the text.
type SyntaxError struct {
	// Offset is the number of bytes before the one that is wrong.
	Offset int
	// Reason is one of a fixed list of texts.
	Reason string
	// Cut says that the text ended too early.
	Cut bool
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("rawjson: %s at byte %d", e.Reason, e.Offset)
}

const (
	cut       = "JSON ends too early"
	badValue  = "no JSON value"
	badString = "control character in a JSON string"
	badEscape = "bad escape in a JSON string"
	badNumber = "bad JSON number"
	badKey    = "object key is no JSON string"
	badColon  = "no colon after an object key"
	badComma  = "no comma or end after a JSON value"
	tooDeep   = "JSON nested too deeply"
	trailing  = "text after the JSON value"
	notUTF8   = "text that is not UTF-8"
)

// Cursor walks over JSON text once, front to back, and validates what it passes. It is a value: copies go on
// independently. The first error sticks and ends all loops; look at [Cursor.Err] or [Cursor.End] after them.
//
//	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
//	if c.Open('{') {
//		for c.More('}') {
//			key := c.Key()
//			value := c.Value() // or another Open
//		}
//	}
//	err := c.End()
//
// UTF-8 is not checked: see [ValidUTF8].
type Cursor struct {
	b      []byte
	i      int
	depth  int // how many more levels may be opened
	first  bool
	plain  bool // the last key had no escape
	reason string
	key    []byte // memory for keys with escapes
}

// NewCursor returns a cursor at the start of raw that accepts maxDepth levels of arrays and objects.
func NewCursor(raw []byte, maxDepth int) Cursor { return Cursor{b: raw, depth: maxDepth} }

// Reset makes c what NewCursor returns, keeping its memory.
func (c *Cursor) Reset(raw []byte, maxDepth int) {
	*c = Cursor{b: raw, depth: maxDepth, key: c.key[:0]}
}

// Err returns the first error, a *SyntaxError, or nil.
func (c *Cursor) Err() error {
	if c.reason == "" {
		return nil
	}
	return &SyntaxError{Offset: c.i, Reason: c.reason, Cut: c.reason == cut}
}

// End returns Err, or an error when something but blanks follows.
func (c *Cursor) End() error {
	if c.reason == "" {
		if c.i = blank(c.b, c.i); c.i < len(c.b) {
			c.reason = trailing
		}
	}
	return c.Err()
}

// Pos returns the number of bytes passed.
func (c *Cursor) Pos() int { return c.i }

// Since returns what was passed since Pos was i, without blanks before it.
func (c *Cursor) Since(i int) []byte {
	i = min(blank(c.b, i), c.i)
	return c.b[i:c.i:c.i]
}

// Peek returns the first byte of the next value or token, or 0 at the end or after an error.
func (c *Cursor) Peek() byte {
	if c.reason != "" {
		return 0
	}
	if c.i = blank(c.b, c.i); c.i == len(c.b) {
		return 0
	}
	return c.b[c.i]
}

// Open steps into the next value if it begins with bracket, `{` or `[`, and reports whether it did.
func (c *Cursor) Open(bracket byte) bool {
	if c.Peek() != bracket {
		return false
	}
	if c.depth == 0 {
		c.reason = tooDeep
		return false
	}
	c.depth--
	c.i++
	c.first = true
	return true
}

// More reports whether another member or element follows before bracket, `}` or `]`, and steps over comma or bracket.
func (c *Cursor) More(bracket byte) bool {
	b := c.Peek()
	switch {
	case b == bracket:
		c.depth++
		c.i++
		c.first = false
		return false
	case c.reason != "":
		return false
	case c.i == len(c.b):
		return c.fail(c.i, cut)
	case c.first:
		c.first = false
		return true
	case b == ',':
		c.i++
		return true
	default:
		return c.fail(c.i, badComma)
	}
}

func (c *Cursor) fail(i int, reason string) bool {
	c.i, c.reason = i, reason
	return false
}

// Key returns the next object key, unescaped, and steps over its colon. It is valid until the next call of Key.
func (c *Cursor) Key() []byte {
	raw := c.RawKey()
	if raw == nil {
		return nil
	}
	raw = raw[1 : len(raw)-1]
	if c.plain {
		return raw
	}
	c.key = appendUnescaped(c.key[:0], raw)
	return c.key
}

// Plain reports whether the last key was spelled without escapes, and so says what stands between its quotes.
func (c *Cursor) Plain() bool { return c.plain }

// RawKey returns the next object key as it is spelled, quotes included, and steps over its colon.
func (c *Cursor) RawKey() []byte {
	switch b := c.Peek(); {
	case b == '"':
	case c.reason != "":
		return nil
	case c.i == len(c.b):
		c.fail(c.i, cut)
		return nil
	default:
		c.fail(c.i, badKey)
		return nil
	}
	start := c.i
	end := start + 1
	for end < len(c.b) && c.b[end] != '"' && c.b[end] != '\\' && c.b[end] >= 0x20 {
		end++
	}
	if c.plain = end < len(c.b) && c.b[end] == '"'; c.plain {
		end++
	} else {
		var reason string
		if end, reason = skipString(c.b, start); reason != "" {
			c.fail(end, reason)
			return nil
		}
	}
	c.i = end
	switch {
	case end < len(c.b) && c.b[end] == ':':
	case c.Peek() == ':':
	case c.i == len(c.b):
		c.fail(c.i, cut)
		return nil
	default:
		c.fail(c.i, badColon)
		return nil
	}
	c.i++
	return c.b[start:end:end]
}

// Value returns the next value as it is spelled, without blanks around it; nil after an error.
func (c *Cursor) Value() []byte {
	if c.reason != "" {
		return nil
	}
	start := blank(c.b, c.i)
	end, reason := skip(c.b, start, c.depth)
	if reason != "" {
		c.fail(end, reason)
		return nil
	}
	c.i = end
	return c.b[start:end:end]
}

// Known steps over the next value if it is an array or object spelled like value, and reports whether it did. A cursor
// must have passed value before at this depth: it is only compared, not validated again.
func (c *Cursor) Known(value string) bool {
	if b := c.Peek(); b != '{' && b != '[' || len(c.b)-c.i < len(value) || string(c.b[c.i:c.i+len(value)]) != value {
		return false
	}
	c.i += len(value)
	return true
}

// ValidUTF8 returns nil, or a *SyntaxError that says where raw is not UTF-8.
func ValidUTF8(raw []byte) error {
	if utf8.Valid(raw) {
		return nil
	}
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return &SyntaxError{Offset: i, Reason: notUTF8}
		}
		i += n
	}
	return nil
}

// Valid returns nil if raw is one JSON value in UTF-8, nested no deeper than maxDepth, else a *SyntaxError.
func Valid(raw []byte, maxDepth int) error {
	if err := ValidUTF8(raw); err != nil {
		return err
	}
	c := NewCursor(raw, maxDepth)
	c.Value()
	return c.End()
}

// AppendCanonical appends the canonical form of the JSON value raw to dst: keys sorted at every depth (by the bytes of
// the unescaped key; equal keys keep their order), no blanks between tokens, strings, numbers and keys as they are
// spelled. Members of the top level whose key is in strip are left out and returned as an object of their own, also
// canonical; envelope is nil when there were none. Envelope is newly allocated. After an error, a *SyntaxError, body is
// dst unchanged.
//
// It accepts what Valid accepts at MaxDepth.
func AppendCanonical(dst, raw []byte, strip []string) (body, envelope []byte, err error) {
	if err := ValidUTF8(raw); err != nil {
		return dst, nil, err
	}
	w := canons.Get().(*canon)
	defer w.free()
	w.c.Reset(raw, MaxDepth)
	body = w.value(dst, strip)
	if err := w.c.End(); err != nil {
		return dst, nil, err
	}
	if w.envelope != nil {
		w.envelope = append(w.envelope, '}')
	}
	return body, w.envelope, nil
}

var canons = sync.Pool{New: func() any { return new(canon) }}

type canon struct {
	c        Cursor
	members  []member // of all open objects
	envelope []byte
	scratch  []byte
}

// free gives the memory of w back, but not what was ever as large as a message seldom is, and no reference to the
// input.
func (w *canon) free() {
	const most = 1 << 16
	w.c.Reset(nil, 0)
	w.envelope = nil
	clear(w.members[:cap(w.members)])
	w.members = w.members[:0]
	if cap(w.scratch) <= most && cap(w.members) <= most/64 {
		canons.Put(w)
	}
}

// member is one member of an open object as it stands in dst.
type member struct {
	key        []byte // unescaped
	start, end int
}

func (w *canon) value(dst []byte, strip []string) []byte {
	switch {
	case w.c.Open('{'):
		return w.object(dst, strip)
	case w.c.Open('['):
		dst = append(dst, '[')
		for n := 0; w.c.More(']'); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = w.value(dst, nil)
		}
		return append(dst, ']')
	default:
		return append(dst, w.c.Value()...)
	}
}

func (w *canon) object(dst []byte, strip []string) []byte {
	base := len(w.members)
	stripped := false
	dst = append(dst, '{')
	begin := len(dst)
	sorted := true
	for w.c.More('}') {
		raw := w.c.RawKey()
		if raw == nil {
			break
		}
		key := raw[1 : len(raw)-1]
		if !w.c.plain {
			key = appendUnescaped(nil, key)
		}
		if n := len(w.members); n > base && string(w.members[n-1].key) > string(key) {
			sorted = false
		}
		if len(strip) > 0 && slices.Contains(strip, string(key)) {
			stripped = true
		}
		m := member{key: key, start: len(dst)}
		dst = append(dst, raw...)
		dst = append(dst, ':')
		dst = w.value(dst, nil)
		m.end = len(dst)
		dst = append(dst, ',')
		w.members = append(w.members, m)
	}
	members := w.members[base:]
	if !sorted || stripped {
		slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
		w.scratch = append(w.scratch[:0], dst[begin:]...)
		dst = dst[:begin]
		for _, m := range members {
			text := w.scratch[m.start-begin : m.end-begin]
			if !stripped || !slices.Contains(strip, string(m.key)) {
				dst = append(append(dst, text...), ',')
				continue
			}
			if w.envelope == nil {
				w.envelope = append(w.envelope, '{')
			} else {
				w.envelope = append(w.envelope, ',')
			}
			w.envelope = append(w.envelope, text...)
		}
	}
	w.members = w.members[:base]
	if len(dst) > begin {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// String returns what the JSON string raw says, and whether raw is a string at all. Raw must be valid JSON.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if !hasEscape(inner) {
		return string(inner), true
	}
	return string(appendUnescaped(nil, inner)), true
}

// AppendString appends what the JSON string raw says to dst. Raw must be a valid JSON string.
func AppendString(dst, raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if !hasEscape(inner) {
		return append(dst, inner...)
	}
	return appendUnescaped(dst, inner)
}

// StringLen returns the number of bytes of what the JSON string raw says. Raw must be a valid JSON string.
func StringLen(raw []byte) int {
	inner := raw[1 : len(raw)-1]
	n := len(inner)
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return n
		}
		r, size := Unescape(inner[i:])
		n += utf8.RuneLen(r) - size
		inner = inner[i+size:]
	}
}

// Quote appends text as a JSON string to dst. Bytes that are not UTF-8 become U+FFFD.
func Quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

func hasEscape(inner []byte) bool { return bytes.IndexByte(inner, '\\') >= 0 }

func appendUnescaped(dst, inner []byte) []byte {
	for len(inner) > 0 {
		if inner[0] != '\\' {
			n := bytes.IndexByte(inner, '\\')
			if n < 0 {
				n = len(inner)
			}
			dst = append(dst, inner[:n]...)
			inner = inner[n:]
			continue
		}
		r, size := Unescape(inner)
		dst = utf8.AppendRune(dst, r)
		inner = inner[size:]
	}
	return dst
}

// Unescape returns the character that the escape at the start of b stands for, and its length. B must be the rest of a
// valid JSON string from there.
func Unescape(b []byte) (rune, int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(b[1]), 2
	}
	r := hex4(b[2:])
	if r < 0xd800 || r >= 0xe000 {
		return r, 6
	}
	if r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low := hex4(b[8:]); low >= 0xdc00 && low < 0xe000 {
			return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		r = r<<4 | rune(hexDigit(c))
	}
	return r
}

// hexDigit returns the value of a hexadecimal digit, or 255.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	default:
		return 255
	}
}

// skip returns the position behind the value at i and "", or the position of what is wrong and the reason.
func skip(b []byte, i, depth int) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{':
		return skipObject(b, i, depth)
	case '[':
		return skipArray(b, i, depth)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return skipNumber(b, i)
	default:
		return i, badValue
	}
}

func skipObject(b []byte, i, depth int) (int, string) {
	if depth == 0 {
		return i, tooDeep
	}
	if i = blank(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, ""
	}
	var reason string
	for {
		if i >= len(b) {
			return i, cut
		}
		if b[i] != '"' {
			return i, badKey
		}
		if i, reason = skipString(b, i); reason != "" {
			return i, reason
		}
		if i = blank(b, i); i >= len(b) {
			return i, cut
		}
		if b[i] != ':' {
			return i, badColon
		}
		i = blank(b, i+1)
		if i < len(b) && b[i] == '"' {
			i, reason = skipString(b, i)
		} else {
			i, reason = skip(b, i, depth-1)
		}
		if reason != "" {
			return i, reason
		}
		if i = blank(b, i); i >= len(b) {
			return i, cut
		}
		switch b[i] {
		case ',':
			i = blank(b, i+1)
		case '}':
			return i + 1, ""
		default:
			return i, badComma
		}
	}
}

func skipArray(b []byte, i, depth int) (int, string) {
	if depth == 0 {
		return i, tooDeep
	}
	if i = blank(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, ""
	}
	var reason string
	for {
		if i, reason = skip(b, i, depth-1); reason != "" {
			return i, reason
		}
		if i = blank(b, i); i >= len(b) {
			return i, cut
		}
		switch b[i] {
		case ',':
			i = blank(b, i+1)
		case ']':
			return i + 1, ""
		default:
			return i, badComma
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString looks at eight bytes at once for a quote, a backslash or a control character: a byte of w is zero after
// the xor, or less than 0x20, exactly where the lowest bit of stops is set.
func skipString(b []byte, i int) (int, string) {
	i++
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			stops := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
			if stops != 0 {
				i += bits.TrailingZeros64(stops) >> 3
				if b[i] == '"' {
					return i + 1, ""
				}
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
			i++
		}
		switch {
		case i >= len(b):
			return i, cut
		case b[i] == '"':
			return i + 1, ""
		case b[i] != '\\':
			return i, badString
		}
		if i+1 >= len(b) {
			return i, cut
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if k >= len(b) {
					return k, cut
				}
				if hexDigit(b[k]) == 255 {
					return k, badEscape
				}
			}
			i += 6
		default:
			return i, badEscape
		}
	}
}

func skipLiteral(b []byte, i int, literal string) (int, string) {
	for k := range len(literal) {
		if i+k >= len(b) {
			return i + k, cut
		}
		if b[i+k] != literal[k] {
			return i + k, badValue
		}
	}
	return i + len(literal), ""
}

func skipNumber(b []byte, i int) (int, string) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else {
		n := digits(b, i)
		if n == i {
			return number(b, i)
		}
		i = n
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b, i+1)
		if n == i+1 {
			return number(b, n)
		}
		i = n
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b, i)
		if n == i {
			return number(b, n)
		}
		i = n
	}
	return i, ""
}

// number is the answer where digits are missing.
func number(b []byte, i int) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	return i, badNumber
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

func blank(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// KindOf names the type of a JSON value, for errors: "an object", "a string". Of no bytes it is "nothing".
func KindOf(value []byte) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
