package rawjson

import (
	"bytes"
	"slices"
)

// AppendCanonical appends the canonical form of the JSON value raw to dst: keys sorted at every depth (by the bytes of
// the unescaped key; equal keys keep their order), no blanks between tokens, strings, numbers and keys as they are
// spelled. Members of the top level whose key is in strip are left out and returned as an object of their own, also
// canonical; envelope is nil when there were none. Envelope is newly allocated. After an error, a *SyntaxError, body is
// dst unchanged.
//
// It accepts what Valid accepts at MaxDepth.
func AppendCanonical(dst, raw []byte, strip []string) (body, envelope []byte, err error) {
	if err := Valid(raw, MaxDepth); err != nil {
		return dst, nil, err
	}
	c := NewCursor(raw, MaxDepth)
	body, envelope = appendCanonical(dst, &c, strip)
	return body, envelope, nil
}

// appendCanonical appends the next value at c, which is valid. It returns the members in strip as an object.
func appendCanonical(dst []byte, c *Cursor, strip []string) (body, envelope []byte) {
	switch {
	case c.Open('{'):
	case c.Open('['):
		dst = append(dst, '[')
		for n := 0; c.More(']'); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst, _ = appendCanonical(dst, c, nil)
		}
		return append(dst, ']'), nil
	default:
		return append(dst, c.Value()...), nil
	}
	type member struct{ key, text []byte }
	var members []member
	for c.More('}') {
		raw := c.RawKey()
		text, _ := appendCanonical(append(bytes.Clone(raw), ':'), c, nil)
		members = append(members, member{AppendString(nil, raw), text})
	}
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	object := func(dst []byte, of func(key []byte) bool) []byte {
		dst = append(dst, '{')
		begin := len(dst)
		for _, m := range members {
			if of(m.key) {
				dst = append(append(dst, m.text...), ',')
			}
		}
		if len(dst) > begin {
			dst = dst[:len(dst)-1]
		}
		return append(dst, '}')
	}
	stripped := func(key []byte) bool { return slices.Contains(strip, string(key)) }
	if slices.ContainsFunc(members, func(m member) bool { return stripped(m.key) }) {
		envelope = object(nil, stripped)
	}
	return object(dst, func(key []byte) bool { return !stripped(key) }), envelope
}
