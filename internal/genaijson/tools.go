package genaijson

import (
	"bytes"
	"fmt"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// AppendTools appends the array of gen_ai.tool.definitions: {type: function, name, description, parameters}. Raw is an array of
// tools as phi-core, clark-agent, Anthropic or OpenAI spell them. Tools of other types than function stay as they are, and an
// element that is no tool becomes {type: unknown, name: unknown, definition}. The first tools are kept while they fit; if that
// is not all of them, a last element of the type cut says how many are missing.
func AppendTools(dst, raw []byte, max int) []byte {
	raw = bytes.TrimSpace(validUTF8(raw))
	w := newWriter(max)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return append(dst, `[]`...)
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		raw = append(rawjson.Quote([]byte(`[`), string(raw)), ']')
	case !isArray(raw):
		raw = append(append([]byte(`[`), raw...), ']')
	}
	all := 0
	each(raw, func(object, []byte) { all++ })
	room := w.room - len(`[],{"type":"cut","name":"…[+999999999 tools]"}`)
	dst = append(dst, '[')
	i, full := 0, false
	each(raw, func(o object, raw []byte) {
		tool := w.tool(o, raw, room/(all-i)-len(`,`))
		if full = full || len(tool) >= room; full {
			return
		}
		room -= len(tool) + len(`,`)
		if i++; i > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, tool...)
	})
	if i < all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"type":"cut","name":"…[+%d tools]"}`, all-i)
	}
	return append(dst, ']')
}

// tool writes one definition in room bytes, or a little more if that is less than it needs.
func (w *writer) tool(o object, raw []byte, room int) []byte {
	if f := o.get("function"); isObject(f) {
		o, _ = readObject(f)
	}
	typ, parameters, key := o.text("type"), o.get("parameters", "input_schema", "inputSchema"), "parameters"
	name, description := o.text("name"), o.quoted("description")
	switch {
	case o.quoted("name") == nil:
		typ, name, description, parameters, key = "unknown", "unknown", nil, raw, "definition"
	case typ == "" || isObject(parameters):
		typ = "function"
	case typ != "function" && len(raw) <= room:
		return raw
	}
	dst := w.word(append(w.word([]byte(`{"type":`), typ), `,"name":`...), name)
	for _, m := range [...]struct {
		key   string
		value []byte
	}{{"description", description}, {key, parameters}} {
		left := room - len(dst) - len(m.key) - len(`,"":}`)
		if m.value != nil && (len(m.value) <= left || left >= minContent) {
			dst = appendValue(append(append(append(dst, `,"`...), m.key...), `":`...), m.value, left)
		}
	}
	return append(dst, '}')
}
