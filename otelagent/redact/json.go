package redact

import (
	"bytes"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// maxDepth is the depth of nesting up to which a body counts as JSON, that of encoding/json.
const maxDepth = 10_000

// json redacts the body and reports whether it is JSON at all.
func (a *applier) json() bool {
	c := rawjson.NewCursor(a.body, maxDepth)
	a.value(&c, 0)
	if c.End() != nil {
		a.out, a.done, a.places = nil, 0, 0
		return false
	}
	if a.whole != nil && !a.hasContent {
		a.out, a.done, a.places = nil, 0, 0
		c = rawjson.NewCursor(a.body, maxDepth)
		a.withhold(&c)
	}
	return true
}

// value redacts the next value, which is below depth objects and arrays.
func (a *applier) value(c *rawjson.Cursor, depth int) {
	switch c.Peek() {
	case '{':
		for c.Open('{'); c.More('}'); {
			c.Peek() // steps over blanks
			start := c.Pos()
			key := c.RawKey()
			if key == nil {
				return
			}
			a.string(key, start)
			outer := len(a.path)
			a.member(c, depth+1, rawjson.Text(key))
			a.path = a.path[:outer]
		}
	case '[':
		for c.Open('['); c.More(']'); {
			a.value(c, depth+1)
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

// member redacts the value of a member of an object.
func (a *applier) member(c *rawjson.Cursor, depth int, key []byte) {
	first := c.Peek()
	start := c.Pos()
	isContent := a.whole != nil && depth == 1 && string(key) == "content"
	a.hasContent = a.hasContent || isContent
	if isContent && first != 'n' {
		a.withhold(c)
		return
	}
	if rule := a.keyed(key); rule != nil {
		value := c.Value()
		a.replace(start, start+len(value), quote(rule.mark))
		return
	}
	class := noSecret
	if a.defaults && (first == '"' || first == '-' || '0' <= first && first <= '9') {
		class = classOf(key)
	}
	if class == noSecret {
		a.value(c, depth)
		return
	}
	value := c.Value()
	switch text := rawjson.Text(value); {
	case value == nil:
	case secretMember(class, first == '"', text):
		a.replace(start, start+len(value), quote(markOf("secret")))
	case first == '"':
		a.string(value, start)
	}
}

// maxNameBytes bounds how much of a member's name keys are compared with.
const maxNameBytes = 512

// keyed adds the name of a member to the path, and returns the first rule whose key matches it.
func (a *applier) keyed(name []byte) *rule {
	if len(a.keys) == 0 {
		return nil
	}
	a.path = append(append(a.path, '.'), name[:min(len(name), maxNameBytes)]...)
	for _, rule := range a.keys {
		start := len(a.path)
		for n := rule.names; n > 0 && start >= 0; n-- {
			start = bytes.LastIndexByte(a.path[:start], '.')
		}
		if start >= 0 && rule.key.Match(a.path[start:]) {
			return rule
		}
	}
	return nil
}

// withhold replaces the next value by the mark of whole, in the shape that content has: blocks for an array, else a
// string.
func (a *applier) withhold(c *rawjson.Cursor) {
	with := quote(a.whole.mark)
	if c.Peek() == '[' {
		with = append(append([]byte(`[{"type":"text","text":`), with...), "}]"...)
	}
	start := c.Pos()
	value := c.Value()
	a.replace(start, start+len(value), with)
}

// string redacts the JSON string raw, which begins at start.
func (a *applier) string(raw []byte, start int) {
	in, out := 1, 0 // how much of raw spells how much of its text
	spelled := func(text int) int {
		for out < text {
			if raw[in] != '\\' {
				in++
				out++
				continue
			}
			r, size := rawjson.Unescape(raw[in:])
			in += size
			out += utf8.RuneLen(r)
		}
		return start + in
	}
	for _, f := range a.find(rawjson.Text(raw)) {
		from := spelled(f.start)
		mark := quote(f.mark)
		a.replace(from, spelled(f.end), mark[1:len(mark)-1])
	}
}
