package genaijson

import (
	"bytes"
	"math"

	"github.com/otelagent/otelagent/internal/rawjson"
)

var (
	typeFunction = []byte(`"function"`)
	typeUnknown  = []byte(`"unknown"`)
)

// AppendTools appends the array that gen_ai.tool.definitions wants: {type: function, name, description, parameters}. Raw is an
// array of tools as phi-core, clark-agent, Anthropic or OpenAI spell them; those of other types than function stay as they are, and what
// is no tool at all becomes {type: unknown, name: unknown, definition}. A tool that has to be shorter loses its parameters,
// then the end of its description, and says so in a property "cut". The first tools are kept; a last one of the type "cut"
// says how many are missing.
func AppendTools(dst, raw []byte, max int) []byte {
	raw = validUTF8(raw)
	room := limit(max) - len(`[]`) + len(`,`) // there is none before the first
	var memory [16]tool
	tools, all, least, kept := memory[:0], 0, 0, 0
	add := func(v []byte) {
		if all++; least > room {
			return
		}
		t := readTool(v, max > 0)
		least += min(t.whole, t.least)
		tools = append(tools, t)
		if least <= room-maxNote {
			kept = len(tools)
		}
	}
	switch value := bytes.TrimSpace(raw); {
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		if len(value) > 0 {
			add(appendPlain(nil, raw, room))
		}
	case isArray(value):
		c := rawjson.NewCursor(value, rawjson.MaxDepth)
		for c.Open('['); c.More(']'); {
			add(c.Value())
		}
	case value[0] != 'n':
		add(value)
	}
	if least <= room {
		kept = len(tools)
	} else {
		room -= maxNote
	}
	share := math.MaxInt
	if max > 0 {
		var s shares
		for _, t := range tools[:kept] {
			room -= min(t.whole, t.least)
			s.add(t.whole - min(t.whole, t.least))
		}
		share = s.share(room)
	}
	dst = append(dst, '[')
	for i, t := range tools[:kept] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.append(dst, share)
	}
	if kept < all {
		if kept > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"cut","name":"[left out: `...)
		dst = append(appendUnits(dst, all-kept, "tool"), `]"}`...)
	}
	return append(dst, ']')
}

// A tool is the definition of a tool, in pieces of the input.
type tool struct {
	typ, name, description []byte // JSON strings, description also nil
	key                    string // property that holds definition; "": definition is the tool
	definition             []byte // or nil

	whole, least int // sizes with a comma: of all, and if description and definition are cut
}

// readTool reads raw, valid JSON.
func readTool(raw []byte, cut bool) tool {
	var typ, function []byte
	t := tool{typ: typeFunction, key: "parameters"}
	read := func(raw []byte) {
		c := rawjson.NewCursor(raw, rawjson.MaxDepth)
		if !c.Open('{') {
			return
		}
		for c.More('}') {
			key := c.Key()
			v := c.Value()
			switch string(key) {
			case "type":
				typ = v
			case "name":
				t.name = v
			case "description":
				t.description = v
			case "parameters", "input_schema", "inputSchema":
				t.definition = v
			case "function":
				function = v
			}
		}
	}
	if read(raw); isObject(function) {
		typ = nil
		read(function)
	}
	switch {
	case !isString(t.name):
		t = tool{typ: typeUnknown, name: typeUnknown, key: "definition", definition: raw}
	case isString(typ) && !bytes.Equal(typ, typeFunction) && !isObject(t.definition):
		t = tool{typ: typ, name: t.name, definition: raw}
	}
	if !isString(t.description) {
		t.description = nil
	}
	if cut {
		t.typ, t.name = short(t.typ), short(t.name)
	}
	head := len(`{"type":,"name":},`) + len(t.typ) + len(t.name)
	t.least = head + len(`,"cut":"[cut: 999,999,999,999 bytes]"`)
	t.whole = head
	if t.description != nil {
		t.whole += len(`,"description":`) + len(t.description)
	}
	if t.definition != nil {
		t.whole += len(`,"":`) + len(t.key) + len(t.definition)
	}
	if t.key == "" {
		t.whole = len(t.definition) + len(`,`)
	}
	return t
}

// append writes t with share bytes more than its least size.
func (t *tool) append(dst []byte, share int) []byte {
	whole := t.whole-min(t.whole, t.least) <= share
	if whole && t.key == "" {
		return append(dst, t.definition...)
	}
	dst = append(append(dst, `{"type":`...), t.typ...)
	dst = append(append(dst, `,"name":`...), t.name...)
	gone := len(t.definition)
	if t.description != nil {
		room := share - len(`,"description":`)
		if whole {
			dst = append(append(dst, `,"description":`...), t.description...)
		} else if room >= leastRoom {
			dst = appendValue(append(dst, `,"description":`...), t.description, room)
		} else {
			gone += len(t.description)
		}
	}
	if !whole {
		dst = append(appendCount(append(dst, `,"cut":"[cut: `...), gone), ` bytes]"`...)
	} else if t.definition != nil {
		dst = append(append(append(dst, `,"`...), t.key...), `":`...)
		dst = append(dst, t.definition...)
	}
	return append(dst, '}')
}
