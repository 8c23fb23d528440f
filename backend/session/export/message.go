package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// A message is what one message says, whatever its dialect. It is read by way of the standard form of genaijson, which
// knows how loops and providers spell messages; what is here knows the standard form and the parts of the AI SDK, which
// the guide keeps.
type message struct {
	// role is that of the standard: user, assistant, system, tool, and any other as it came. A message that holds
	// nothing but results of tools is of the role tool, whatever it says itself. Empty where the message does not say.
	role string
	// id is the message's own, from its envelope or body; empty where it has none.
	id    string
	parts []messagePart
}

// partKind says what a part of a message is.
type partKind int

const (
	// partOther is what has no place in this list: raw holds it as it is spelled, name says of which type it is.
	partOther partKind = iota
	partText
	partReasoning
	// partCall is a call of a tool: id, name, args.
	partCall
	// partResult is what a tool gave back: id, name, content, isError.
	partResult
	// partFile is an image, a sound or another file: mediaType, and url or data.
	partFile
	// partError is what went wrong where a reply should be: text.
	partError
)

// messagePart is one part of a message. What its kind does not need is empty.
type messagePart struct {
	kind partKind
	// text of a text, a reasoning or an error.
	text string
	// signature is a provider's seal of a reasoning.
	signature string
	// id of the call; empty where the loop gives none. name of the tool, of an extension message, or the type of what
	// is partOther.
	id, name string
	// args is the JSON of a call's arguments, content that of a result: mostly a JSON string, or the blocks as they are
	// spelled. nil: none.
	args, content json.RawMessage
	isError       bool
	// mediaType, url, and data in base64 without line ends; fileName where there is one. modality is image, audio,
	// video or document.
	mediaType, modality, url, data, fileName string
	// raw is the part as it is spelled: always of partOther, and of a part of the AI SDK, which verbatim says. In these
	// one block may be a call and its result: the result follows its call and has embedded set, and the same raw.
	raw                []byte
	verbatim, embedded bool
}

// readMessage reads a message. It never fails: what is no message at all is a text.
func readMessage(body string) message {
	var m message
	raw := []byte(body)
	top := topOf(raw)
	m.id = top.id
	if parts, ok := aiParts(top.parts); ok {
		m.role, m.parts = top.role, parts
		return m
	}
	tools := true
	for _, standard := range standardMessages(raw) {
		switch standard.Role {
		case "tool":
		case "unknown":
			tools = false
		default:
			m.role, tools = standard.Role, false
		}
		for _, p := range standard.Parts {
			m.parts = append(m.parts, standardPart(p))
		}
	}
	if tools && m.role == "" {
		m.role = "tool"
	}
	m.sign(top.signatures)
	return m
}

// userSide reports whether the message was said to the model and is no result of a tool.
func (m *message) userSide() bool { return m.role != "assistant" && m.role != "tool" }

// top is what is read of a message itself.
type top struct {
	role, id   string
	parts      []byte
	signatures []string
}

func topOf(raw []byte) top {
	var m struct {
		Role, Type, ID, MessageID json.RawMessage
		Parts, Content            json.RawMessage
	}
	if json.Unmarshal(raw, &m) != nil {
		return top{}
	}
	t := top{parts: m.Parts}
	t.role, _ = text(m.Role)
	if typ, _ := text(m.Type); typ == "" || typ == "message" { // else it is a block, such as a call of a tool
		id, _ := text(m.ID)
		messageID, _ := text(m.MessageID)
		t.id = cmp.Or(id, messageID)
	}
	var blocks []struct{ Type, Signature string }
	_ = json.Unmarshal(m.Content, &blocks) // content that is no array has none
	for _, block := range blocks {
		if block.Type == "thinking" || block.Type == "reasoning" {
			t.signatures = append(t.signatures, block.Signature)
		}
	}
	return t
}

// sign puts signatures to the parts of reasoning, where there are as many of both: else nothing says which is whose.
func (m *message) sign(signatures []string) {
	var reasoning []*messagePart
	for i := range m.parts {
		if m.parts[i].kind == partReasoning {
			reasoning = append(reasoning, &m.parts[i])
		}
	}
	if len(reasoning) != len(signatures) {
		return
	}
	for i, p := range reasoning {
		p.signature = signatures[i]
	}
}

// standardMessage is a message in the standard form.
type standardMessage struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

func standardMessages(raw []byte) []standardMessage {
	var l []standardMessage
	// genaijson writes this form whatever it is given.
	_ = json.Unmarshal(genaijson.AppendMessages(nil, [][]byte{raw}, 0), &l)
	return l
}

// standardPart reads a part of the standard form.
func standardPart(raw json.RawMessage) messagePart {
	var p struct {
		Type      string          `json:"type"`
		Content   json.RawMessage `json:"content"`
		ID        *string         `json:"id"`
		Name      *string         `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Response  json.RawMessage `json:"response"`
		IsError   bool            `json:"is_error"`
		Modality  string          `json:"modality"`
		MimeType  string          `json:"mime_type"`
		URI       string          `json:"uri"`
	}
	other := messagePart{kind: partOther, raw: raw}
	if json.Unmarshal(raw, &p) != nil {
		var typ struct{ Type string }
		_ = json.Unmarshal(raw, &typ)
		other.name = typ.Type
		return other
	}
	other.name = p.Type
	content, isText := text(p.Content)
	id, name := deref(p.ID), deref(p.Name)
	switch p.Type {
	case "text", "reasoning", "error":
		if !isText {
			return other
		}
		kind := map[string]partKind{"text": partText, "reasoning": partReasoning, "error": partError}[p.Type]
		return messagePart{kind: kind, text: content}
	case "tool_call":
		return messagePart{kind: partCall, id: id, name: name, args: valueOf(p.Arguments)}
	case "tool_call_response":
		return messagePart{kind: partResult, id: id, name: name, content: valueOf(p.Response), isError: p.IsError}
	case "blob":
		if isText {
			return messagePart{kind: partFile, mediaType: p.MimeType, modality: p.Modality, data: content, fileName: name}
		}
	case "uri":
		return messagePart{kind: partFile, mediaType: p.MimeType, modality: p.Modality, url: p.URI, fileName: name}
	}
	return other
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// valueOf returns nil for null and for nothing.
func valueOf(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// aiParts reads the parts of a message as the AI SDK spells them, which the guide keeps verbatim. It reports whether
// they are such: a part of the standard form has other keys.
func aiParts(raw []byte) ([]messagePart, bool) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if len(raw) == 0 || !c.Open('[') {
		return nil, false
	}
	parts := []messagePart{}
	for c.More(']') {
		block := c.Value()
		p, ok := readAIPart(block)
		if !ok {
			return nil, false
		}
		parts = append(parts, p...)
	}
	return parts, true
}

// aiPart are the keys of an AI SDK part that say something here.
type aiPart struct {
	Type       *string         `json:"type"`
	Text       *string         `json:"text"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	State      string          `json:"state"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	ErrorText  string          `json:"errorText"`
	MediaType  string          `json:"mediaType"`
	URL        *string         `json:"url"`
	FileName   string          `json:"filename"`
	Approval   struct {
		Reason string `json:"reason"`
	} `json:"approval"`
	Provider map[string]struct {
		Signature string `json:"signature"`
	} `json:"providerMetadata"`
	// Of the standard form.
	Content  json.RawMessage `json:"content"`
	MimeType json.RawMessage `json:"mime_type"`
	FileID   json.RawMessage `json:"file_id"`
}

// standardTypes are those of the standard form that the AI SDK does not have.
var standardTypes = []string{"tool_call", "tool_call_response", "blob", "uri"}

func readAIPart(block []byte) ([]messagePart, bool) {
	var a aiPart
	if json.Unmarshal(block, &a) != nil || a.Type == nil {
		// No part of the AI SDK, but none of the standard either, which has a type everywhere.
		return []messagePart{{kind: partOther, raw: block, verbatim: true}}, true
	}
	typ := *a.Type
	p := messagePart{kind: partOther, name: typ, raw: block, verbatim: true}
	tool, isTool := strings.CutPrefix(typ, "tool-")
	switch {
	case slices.Contains(standardTypes, typ), typ == "file" && (a.FileID != nil || a.MimeType != nil):
		return nil, false
	case typ == "text" || typ == "reasoning":
		if a.Text == nil {
			return nil, false
		}
		p.kind, p.text = partText, *a.Text
		if typ == "reasoning" {
			p.kind = partReasoning
			for _, of := range a.Provider { // there is one
				p.signature = of.Signature
			}
		}
	case typ == "file" || typ == "reasoning-file":
		if a.URL == nil {
			break
		}
		p.kind, p.mediaType, p.fileName = partFile, a.MediaType, a.FileName
		if head, data, ok := strings.Cut(*a.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
			p.data = data
			if p.mediaType == "" {
				p.mediaType = strings.TrimPrefix(head, "data:")
			}
		} else {
			p.url = *a.URL
		}
		p.modality = modalityOf(p.mediaType)
	case isTool || typ == "dynamic-tool":
		if !isTool {
			tool = a.ToolName
		}
		p.kind, p.id, p.name, p.args = partCall, a.ToolCallID, tool, valueOf(a.Input)
		result := messagePart{kind: partResult, id: a.ToolCallID, name: tool, raw: block, verbatim: true, embedded: true}
		switch a.State {
		case "output-available":
			result.content = valueOf(a.Output)
		case "output-error":
			result.isError, result.content = true, quote(a.ErrorText)
		case "output-denied":
			result.isError = true
			if a.Approval.Reason != "" {
				result.content = quote(a.Approval.Reason)
			}
		default:
			return []messagePart{p}, true
		}
		return []messagePart{p, result}, true
	}
	return []messagePart{p}, true
}

// modalityOf returns what a media type is a type of.
func modalityOf(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); kind {
	case "image", "audio", "video":
		return kind
	}
	return "document"
}
