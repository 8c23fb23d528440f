package rawjson

import (
	"bytes"
	"slices"
)

// AppendCanonical appends the canonical form of the JSON value raw to dst: keys sorted at every depth (by the bytes of
// the unescaped key; equal keys keep their order), no blanks between tokens, strings, numbers and keys as they are
// spelled. Members of the top level whose key is in strip are left out. After an error, a *SyntaxError, body is dst
// unchanged.
//
// It accepts what Valid accepts at MaxDepth.
func AppendCanonical(dst, raw []byte, strip []string) (body []byte, err error) {
	if err := Valid(raw, MaxDepth); err != nil {
		return dst, err
	}
	c := NewCursor(raw, MaxDepth)
	return appendCanonical(dst, &c, strip), nil
}

// appendCanonical appends the next value at c, which is valid, without the members in strip.
func appendCanonical(dst []byte, c *Cursor, strip []string) []byte {
	start := len(dst)
	switch {
	case c.Open('['):
		for c.More(']') {
			dst = appendCanonical(append(dst, ','), c, nil)
		}
		return Enclose(dst, start, "[]")
	case !c.Open('{'):
		return append(dst, c.Value()...)
	}
	type member struct{ key, text []byte }
	var members []member
	for c.More('}') {
		raw := c.RawKey()
		text := appendCanonical(append(bytes.Clone(raw), ':'), c, nil)
		if key := AppendString(nil, raw); !slices.Contains(strip, string(key)) {
			members = append(members, member{key, text})
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	for _, m := range members {
		dst = append(append(dst, ','), m.text...)
	}
	return Enclose(dst, start, "{}")
}

// Enclose puts dst[start:], elements or members with a comma before each, between brackets, which are [] or {}.
func Enclose(dst []byte, start int, brackets string) []byte {
	if len(dst) == start {
		return append(dst, brackets...)
	}
	dst[start] = brackets[0]
	return append(dst, brackets[1])
}
