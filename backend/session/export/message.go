package export

import (
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
)

// A chatMessage is the content of one message of any dialect. genaijson knows how loops and providers spell messages;
// this file knows the parts of the AI SDK, which the guide keeps.
type chatMessage struct {
	// role is that of the standard: user, assistant, system, tool, and any other as it came. A message that holds
	// nothing but results of tools has the role tool, whatever it states. Empty where the message states none.
	role string
	// id is the message's own, empty where it has none.
	id    string
	parts []messagePart
}

// messagePart is one part of a message.
type messagePart struct {
	genaijson.Part
	// block is the part as the AI SDK spells it; nil for parts of other spellings. One block may be a call and its result:
	// the result follows its call and has embedded set.
	block    []byte
	embedded bool
}

// The types of parts that have a place in a row or message of their own.
const (
	partCall   = "tool_call"
	partResult = "tool_call_response"
)

// readMessage reads a message. It never fails: anything that is no message is a text.
func readMessage(raw []byte) chatMessage {
	var m chatMessage
	top := parse(raw)
	if typ := top.Text("type"); typ == "" || typ == "message" { // else it is a block, such as a call of a tool
		m.id = top.Text("id", "messageId")
	}
	if m.parts = aiParts(top.Raw("parts")); m.parts != nil {
		m.role = top.Text("role")
		return m
	}
	in := genaijson.Read(raw)
	m.role = in.Role
	for _, p := range in.Parts {
		m.parts = append(m.parts, messagePart{Part: p})
	}
	return m
}

// userSide reports whether the message went to the model and is no result of a tool.
func (m *chatMessage) userSide() bool { return m.role != "assistant" && m.role != "tool" }

// text returns the text of a text, a reasoning or an error; the base64 or the address of a file. It reports whether
// there is one.
func (p *messagePart) text() (string, bool) {
	if s, ok := p.Text(); ok || p.Type != "error" {
		return s, ok
	}
	return text(parse(p.Content).Raw("content"))
}

// spelled returns the part as it is spelled, where it has no type of the AI SDK.
func (p *messagePart) spelled() []byte {
	switch {
	case p.Type == "extension":
		return fields("type", p.Type, "name", p.Name, "data", p.Content)
	case p.Type == "file":
		return fields("type", p.Type, "modality", p.Modality, "name", p.Name, "mime_type", p.MIME, "file_id", p.Content)
	case parse(p.Content).Text("type") != p.Type:
		return fields("type", p.Type, "value", p.Content)
	}
	return p.Content
}

// aiParts reads the parts of a message as the AI SDK spells them, which the guide keeps verbatim. It returns nil where
// they are no list of such: parts of the standard form and of Gemini have other keys.
func aiParts(raw []byte) []messagePart {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	parts := []messagePart{}
	for _, block := range elements(raw) {
		a := parse(block)
		_, hasText := text(a.Raw("text"))
		switch a.Text("type") {
		case "":
			if a != nil { // Gemini's have no type
				return nil
			}
		case partCall, partResult, "blob", "uri":
			return nil
		case "file":
			if a.Has("file_id", "mime_type") {
				return nil
			}
		case "text", "reasoning":
			if !hasText {
				return nil
			}
		}
		for i, p := range genaijson.Blocks(block) {
			part := messagePart{Part: p, block: block, embedded: i > 0}
			if p.Type == partCall {
				part.Content = a.Raw("input")
			}
			parts = append(parts, part)
		}
	}
	return parts
}

// aiType returns the type of a part that the AI SDK spelled, empty for any other.
func (p *messagePart) aiType() string {
	if p.block == nil {
		return ""
	}
	return parse(p.block).Text("type")
}

// dataURL returns the media type and the base64 of a data URL.
func dataURL(url string) (mediaType, data string, ok bool) {
	head, data, ok := strings.Cut(url, ";base64,")
	mediaType, isData := strings.CutPrefix(head, "data:")
	return mediaType, data, ok && isData
}
