package genaijson

import (
	"bytes"
	"iter"
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Part is one part of a message in the standard form.
type Part struct {
	// Role of the message: that of a result of a tool is tool whoever carries it, and that of a message without one is
	// unknown.
	Role string
	// Type is text, reasoning, tool_call, tool_call_response, blob, uri, file, extension, error, encrypted_reasoning, or
	// the type of the block.
	Type string
	// ID and Name of a call, a result or a file; empty where there is none.
	ID, Name string
	// Modality and MIME are those of a blob, uri or file.
	Modality, MIME string
	// IsError reports that a result says that its call failed.
	IsError bool
	// Content is the JSON of the content, and the whole block where the type is none of those above.
	Content []byte

	key string // member that holds Content in the standard form; empty: Content is the part itself
}

// Text returns the text of a content that is one, and reports whether it is. That of a blob is its base64.
func (p *Part) Text() (string, bool) { return rawjson.String(p.Content) }

// Parts reads a message in any spelling that this package knows. A message that is none of them is a part of text.
func Parts(message []byte) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		r := reader{role: roleUnknown}
		for _, p := range r.read(message) {
			if p.Type != "" && !yield(p) { // a message without parts has one without a type
				return
			}
		}
	}
}

// Role returns the standard's value for the role of a message, in any spelling: user, assistant, system, tool, or the
// input itself.
func Role(role string) string {
	switch role {
	case "toolResult", "tool_result", "function":
		return "tool"
	case "model":
		return "assistant"
	case "developer":
		return "system"
	}
	return role
}

// Heading returns the role of a message in any spelling, as it is spelled, and the id of the tool call that it
// answers. An item of OpenAI's responses that states no role has that of its type: assistant or tool. Either is empty
// where there is none; the id also where the message answers several calls.
func Heading(message []byte) (role, callID string) {
	var typ, itemID string
	c := rawjson.NewCursor(message, rawjson.MaxDepth)
	if !c.Open('{') {
		return "", ""
	}
	var ids answered
	for c.More('}') {
		switch key, value := c.Key(), c.Value(); string(key) {
		case "role":
			role = roleOf(value)
		case "type":
			typ, _ = rawjson.String(value)
		case "tool_call_id", "toolCallId", "tool_use_id":
			callID, _ = rawjson.String(value)
		case "call_id":
			itemID, _ = rawjson.String(value)
		case "content", "parts":
			if role == "" || role == "user" || role == "function" { // others name the call themselves
				ids.read(value)
			}
		}
	}
	if role == "" {
		role = itemRole(typ)
	}
	switch {
	case callID != "":
	case role == "tool" && itemID != "":
		callID = itemID
	case ids.n == 1 && Role(role) != "assistant":
		callID = ids.id
	}
	return role, callID
}

// roleOf returns the role that a JSON string names, without an allocation where it is a usual one.
func roleOf(value []byte) string {
	switch string(value) {
	case `"user"`:
		return "user"
	case `"assistant"`:
		return "assistant"
	case `"tool"`:
		return "tool"
	}
	role, _ := rawjson.String(value)
	return role
}

// answered is what a list of blocks says about the calls that it answers: how many, and the id of the last one.
type answered struct {
	n  int
	id string
}

func (a *answered) read(blocks []byte) {
	c := rawjson.NewCursor(blocks, rawjson.MaxDepth)
	for ok := c.Open('['); ok && c.More(']'); {
		if c.Peek() != '{' {
			c.Value()
			continue
		}
		for c.Open('{'); c.More('}'); {
			switch key, value := c.Key(), c.Value(); string(key) {
			case "tool_use_id":
				a.take(value)
			case "functionResponse":
				o, _ := readObject(value)
				a.take(o.quoted("id"))
			}
		}
	}
}

func (a *answered) take(id []byte) {
	if text, ok := rawjson.String(id); ok {
		a.n, a.id = a.n+1, text
	}
}

// object is a JSON object: its members in their order.
type object []member

type member struct{ key, value []byte }

// readObject returns the members of raw and reports whether raw is a JSON object.
func readObject(raw []byte) (o object, ok bool) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if !c.Open('{') {
		return nil, false
	}
	o = make(object, 0, 8)
	for c.More('}') {
		key := c.Key()
		if !c.Plain() {
			key = bytes.Clone(key) // the cursor uses its memory again
		}
		if v := c.Value(); v != nil {
			o = append(o, member{key, v})
		}
	}
	return o, c.End() == nil
}

// get returns the value of the first of keys that o has and that is not null, or nil. The last of several equal keys
// counts.
func (o object) get(keys ...string) []byte {
	for _, key := range keys {
		for _, m := range slices.Backward(o) {
			if string(m.key) == key && len(m.value) > 0 && m.value[0] != 'n' {
				return m.value
			}
		}
	}
	return nil
}

// quoted is get of a JSON string; nil if the value is none.
func (o object) quoted(keys ...string) []byte {
	if v := o.get(keys...); isString(v) {
		return v
	}
	return nil
}

// text is the text of quoted; it is empty if there is none.
func (o object) text(keys ...string) string {
	text, _ := rawjson.String(o.quoted(keys...))
	return text
}

// each calls f with every element of the JSON array raw, and its members if it is an object.
func each(raw []byte, f func(o object, raw []byte)) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	for ok := c.Open('['); ok && c.More(']'); {
		v := c.Value()
		o, _ := readObject(v)
		f(o, v)
	}
}

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isArray(v []byte) bool  { return len(v) > 0 && v[0] == '[' }
func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }
