// Package rawjson looks into JSON text without decoding it: one pass that validates and hands out pieces of the input.
//
// Nothing here copies, allocates (except where documented) or keeps its input. Accepted is what encoding/json.Valid and
// unicode/utf8.Valid both accept, nested no deeper than asked; so lone surrogate escapes pass, and come out of
// [AppendString] as U+FFFD. Errors never hold a piece of the input.
package rawjson

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	reason string
}

// NewCursor returns a cursor at the start of raw that accepts maxDepth levels of arrays and objects.
func NewCursor(raw []byte, maxDepth int) Cursor { return Cursor{b: raw, depth: maxDepth} }

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

// Key returns the next object key, unescaped, and steps over its colon.
func (c *Cursor) Key() []byte { return Text(c.RawKey()) }

// RawKey returns the next object key as it is spelled, quotes included, and steps over its colon.
func (c *Cursor) RawKey() []byte {
	if !c.expect('"', badKey) {
		return nil
	}
	key := c.Value()
	if !c.expect(':', badColon) {
		return nil
	}
	c.i++
	return key
}

// expect reports whether b is the next byte.
func (c *Cursor) expect(b byte, reason string) bool {
	next := c.Peek()
	if c.reason == "" && next != b {
		c.i, c.reason = wrong(c.b, c.i, reason)
	}
	return c.reason == ""
}

// Value returns the next value as it is spelled, without blanks around it; nil after an error.
func (c *Cursor) Value() []byte {
	c.Peek()
	if c.reason != "" {
		return nil
	}
	start := c.i
	if c.i, c.reason = skip(c.b, start, c.depth); c.reason != "" {
		return nil
	}
	return c.b[start:c.i:c.i]
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
		switch {
		case !utf8.FullRune(raw[i:]):
			return &SyntaxError{Offset: i, Reason: cut, Cut: true}
		case r == utf8.RuneError && n == 1:
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

// Elements returns the elements of the JSON array raw as they are spelled; nil for anything else.
func Elements(raw []byte) []json.RawMessage {
	c := NewCursor(raw, MaxDepth+8)
	if !c.Open('[') {
		return nil
	}
	list := []json.RawMessage{}
	for c.More(']') {
		list = append(list, c.Value())
	}
	if c.End() != nil {
		return nil
	}
	return list
}

// KindOf names the type of a JSON value, for errors: "an object", "a string". Of no bytes it is "nothing".
func KindOf(value []byte) string {
	if len(value) == 0 {
		return "nothing"
	}
	return cmp.Or(kinds[value[0]], "a number")
}

var kinds = map[byte]string{
	'{': "an object", '[': "an array", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null",
}
