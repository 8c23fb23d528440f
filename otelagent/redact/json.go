package redact

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// json looks at all strings and keys of the body and reports whether it is JSON at all.
func (a *applier) json() bool {
	c := rawjson.NewCursor(a.body, maxDepth)
	a.value(&c)
	return c.End() == nil
}

func (a *applier) value(c *rawjson.Cursor) {
	switch c.Peek() {
	case '{':
		if !c.Open('{') {
			return
		}
		for c.More('}') {
			c.Peek() // steps over blanks
			start := c.Pos()
			key := c.RawKey()
			if key == nil {
				return
			}
			a.string(key, start)
			if a.defaults {
				a.member(c, key)
			} else {
				a.value(c)
			}
		}
	case '[':
		if !c.Open('[') {
			return
		}
		for c.More(']') {
			a.value(c)
		}
	case '"':
		start := c.Pos()
		if raw := c.Value(); raw != nil {
			a.string(raw, start)
		}
	default:
		c.Value()
	}
}

// member looks at the value of a member: one whose key says that it is a secret goes whole.
func (a *applier) member(c *rawjson.Cursor, key []byte) {
	first := c.Peek()
	if isNumber := first == '-' || '0' <= first && first <= '9'; first != '"' && !isNumber {
		a.value(c)
		return
	}
	class := classOf(key[1 : len(key)-1])
	if class == noSecret {
		a.value(c)
		return
	}
	start := c.Pos()
	raw := c.Value()
	if raw == nil {
		return
	}
	text := raw
	if first == '"' {
		text = a.unescape(raw)
	}
	switch {
	case secretMember(class, first == '"', text):
		a.edit(start, start+len(raw), defaultSet.secret.quoted)
	case first == '"':
		a.string(raw, start)
	}
}

// unescape returns what a JSON string says, until the next call.
func (a *applier) unescape(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	a.text = rawjson.AppendString(a.text[:0], raw)
	return a.text
}

// string looks at what a JSON string says, which begins at start.
func (a *applier) string(raw []byte, start int) {
	found := a.find(a.unescape(raw))
	if len(found) == 0 {
		return
	}
	m := mapper{raw: raw[1 : len(raw)-1]}
	for _, f := range found {
		from := m.to(f.start)
		to := m.to(f.end)
		inner := f.mark.quoted[1 : len(f.mark.quoted)-1]
		a.edit(start+1+from, start+1+to, inner)
	}
}

// mapper finds where a piece of what a string says stands in its spelling. Positions are asked for in ascending order.
type mapper struct {
	raw    []byte // without quotes
	in     int    // position in raw
	out    int    // position in what it says
	buffer [16]byte
}

func (m *mapper) to(out int) int {
	for m.out < out {
		run := bytes.IndexByte(m.raw[m.in:], '\\')
		if run < 0 {
			run = len(m.raw) - m.in
		}
		if run = min(run, out-m.out); run > 0 {
			m.in += run
			m.out += run
			continue
		}
		size := escapeLen(m.raw[m.in:])
		quoted := append(append(append(m.buffer[:0], '"'), m.raw[m.in:m.in+size]...), '"')
		m.in += size
		m.out += rawjson.StringLen(quoted)
	}
	return m.in
}

// escapeLen returns the length of the escape at the start of b, which may be a pair of surrogates.
func escapeLen(b []byte) int {
	if b[1] != 'u' {
		return 2
	}
	half := func(b []byte, third string) bool {
		return len(b) >= 6 && b[0] == '\\' && b[1] == 'u' && b[2]|0x20 == 'd' && strings.IndexByte(third, b[3]|0x20) >= 0
	}
	// Or-ing 0x20 makes letters small and leaves digits as they are.
	if half(b, "89ab") && half(b[6:], "cdef") {
		return 12
	}
	return 6
}

// withhold replaces the content of a message, or all of it where there is no content, in the shape that it has. A content of null
// is none.
func (a *applier) withhold(rule *rule) {
	c := rawjson.NewCursor(a.body, maxDepth)
	if c.Peek() == '{' {
		has := false
		c.Open('{')
		for c.More('}') {
			isContent := string(c.Key()) == "content"
			first := c.Peek()
			start := c.Pos()
			value := c.Value()
			if isContent {
				has = true
				if first != 'n' {
					a.edit(start, start+len(value), rule.shaped(first))
				}
			}
		}
		if has {
			return
		}
	}
	c = rawjson.NewCursor(a.body, maxDepth)
	first := c.Peek()
	start := c.Pos()
	value := c.Value()
	a.edit(start, start+len(value), rule.shaped(first))
}

// shaped returns the mark as the content of a message: blocks where there was an array, else a string.
func (r *rule) shaped(first byte) []byte {
	if first != '[' {
		return r.quoted
	}
	return append(append([]byte(`[{"type":"text","text":`), r.quoted...), "}]"...)
}
