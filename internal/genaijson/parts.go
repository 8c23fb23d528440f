package genaijson

import (
	"iter"

	"github.com/otelagent/otelagent/internal/object"
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
		for _, p := range read(message, reader{role: roleUnknown}) {
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
	o := object.Of("", message)
	if role = o.Text("role"); role == "" {
		role = itemRole(o.Text("type"))
	}
	callID = o.Text("tool_call_id", "toolCallId", "tool_use_id")
	switch {
	case callID != "", Role(role) == "assistant":
	case role == "tool" && literal(o, "call_id") != nil:
		callID = o.Text("call_id")
	case role == "" || role == "user" || role == "function": // others name the call themselves
		answers := 0
		for _, key := range []string{"content", "parts"} {
			each(get(o, key), func(block *object.Object, _ []byte) {
				for _, id := range [][]byte{
					literal(block, "tool_use_id"), literal(object.Of("", get(block, "functionResponse")), "id"),
				} {
					if id != nil {
						answers++
						callID, _ = rawjson.String(id)
					}
				}
			})
		}
		if answers > 1 {
			callID = ""
		}
	}
	return role, callID
}

// get returns the value of the first of keys that o has and that is not null; nil when there is none.
func get(o *object.Object, keys ...string) []byte {
	for _, key := range keys {
		if v := o.Raw(key); v != nil {
			return v
		}
	}
	return nil
}

// literal is get of a JSON string; nil if the value is none.
func literal(o *object.Object, keys ...string) []byte {
	if v := get(o, keys...); isString(v) {
		return v
	}
	return nil
}

// each calls f with every element of the JSON array raw, and as an object if it is one.
func each(raw []byte, f func(o *object.Object, raw []byte)) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	for ok := c.Open('['); ok && c.More(']'); {
		v := c.Value()
		f(object.Of("", v), v)
	}
}

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isArray(v []byte) bool  { return len(v) > 0 && v[0] == '[' }
func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }
