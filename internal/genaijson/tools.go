package genaijson

import (
	"bytes"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// AppendTools appends the array of gen_ai.tool.definitions: {type: function, name, description, parameters}. Raw is an
// array of tools as phi-core, clark-agent, Anthropic or OpenAI spell them. Tools of other types than function stay as
// they are, and an element that is no tool becomes {type: unknown, name: unknown, definition}. The first tools are
// kept, each whole, while they fit.
func AppendTools(dst, raw []byte, bound int) []byte {
	raw = bytes.TrimSpace(validUTF8(raw))
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return append(dst, `[]`...)
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		raw = append(rawjson.Quote([]byte(`[`), string(raw)), ']')
	case !isArray(raw):
		raw = append(append([]byte(`[`), raw...), ']')
	}
	room, full := limit(bound)-len(`[]`), false
	dst = append(dst, '[')
	each(raw, func(o object, raw []byte) {
		tool := definition(o, raw)
		if full = full || len(tool) > room; full {
			return
		}
		room -= len(tool) + len(`,`)
		dst = append(append(dst, tool...), ',')
	})
	return append(bytes.TrimSuffix(dst, []byte(`,`)), ']')
}

// definition returns a tool in the standard form.
func definition(o object, raw []byte) []byte {
	if f := o.get("function"); isObject(f) {
		o, _ = readObject(f)
	}
	parameters := o.get("parameters", "input_schema", "inputSchema")
	switch typ := o.text("type"); {
	case o.quoted("name") == nil:
		return append(append([]byte(`{"type":"unknown","name":"unknown","definition":`), raw...), '}')
	case typ != "" && typ != "function" && !isObject(parameters):
		return raw
	}
	tool := append([]byte(`{"type":"function","name":`), o.quoted("name")...)
	if description := o.quoted("description"); description != nil {
		tool = append(append(tool, `,"description":`...), description...)
	}
	if parameters != nil {
		tool = append(append(tool, `,"parameters":`...), parameters...)
	}
	return append(tool, '}')
}
