package genaijson

import (
	"iter"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Part is one part of a message in the words of the standard: what AppendMessages would write of it.
type Part struct {
	// Role of the message that it stands in: a result of a tool is of the role tool whoever carries it. That of a message without one is "unknown".
	Role string
	// Type is text, reasoning, tool_call, tool_call_response, blob, uri, file, extension, error, encrypted_reasoning, or that of the block.
	Type string
	// ID and Name of a call, a result or a file; empty where there is none.
	ID, Name string
	// Modality and MIME are those of a blob, uri or file.
	Modality, MIME string
	// Content is the JSON of what the part holds, and the whole block where its type is none of those above. It is valid until the next part.
	Content []byte

	form form
}

// Text returns the text that the content is, and reports whether it is one. That of a blob is its base64.
func (p *Part) Text() (string, bool) {
	switch p.form {
	case plain:
		return string(p.Content), true
	case binary:
		return strings.TrimSuffix(string(p.Content), `"`), true
	}
	return rawjson.String(p.Content)
}

// Parts reads a message in any spelling that this package knows. What is no message is a part of text.
func Parts(message []byte) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		r := readers.Get().(*reader)
		defer r.free()
		r.fallback, r.most = roleUnknown, limit(0)
		r.message(0, message)
		for i := range r.parts {
			p := &r.parts[i]
			if p.typ == nil {
				continue // of a message without parts
			}
			if !yield(Part{
				Role: word(p.role), Type: word(p.typ), ID: word(p.id), Name: word(p.name), Modality: p.modality, MIME: string(p.mime), Content: p.content, form: p.form,
			}) {
				return
			}
		}
	}
}

// Role returns the standard's word for the role of a message, in any spelling: user, assistant, system, tool, or the word itself.
func Role(word string) string {
	switch word {
	case "toolResult", "tool_result", "function":
		return "tool"
	case "model":
		return "assistant"
	case "developer":
		return "system"
	}
	return word
}

// word returns what a JSON string says; nothing of nil.
func word(raw []byte) string {
	s, _ := rawjson.String(raw)
	return s
}
