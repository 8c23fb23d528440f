package export

import (
	"cmp"
	"encoding/json"
	"slices"
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

// partKind is the kind of a part of a message.
type partKind int

const (
	// partOther has no place in this list: raw holds it as it is spelled, name is its type.
	partOther partKind = iota
	partText
	partReasoning
	// partCall is a call of a tool: id, name, args.
	partCall
	// partResult is the result of a tool: id, name, content, isError.
	partResult
	// partFile is an image, a sound or another file: mediaType, and url or data.
	partFile
	// partError is an error where a reply should be: text.
	partError
)

// messagePart is one part of a message. What its kind does not need is empty.
type messagePart struct {
	kind partKind
	// text of a text, a reasoning or an error.
	text string
	// signature is a provider's seal of a reasoning.
	signature string
	// id of the call; empty where the loop gives none. name of the tool, of an extension message, or the type of a
	// partOther.
	id, name string
	// args is the JSON of a call's arguments, content that of a result: mostly a JSON string, or the blocks as they are
	// spelled. nil: none.
	args, content json.RawMessage
	isError       bool
	// mediaType, url, and data in base64 without line ends; fileName where there is one. modality is image, audio,
	// video or document.
	mediaType, modality, url, data, fileName string
	// raw is the part as it is spelled: always of partOther, and of a part of the AI SDK, which verbatim marks. In these
	// one block may be a call and its result: the result follows its call and has embedded set, and the same raw.
	raw                []byte
	verbatim, embedded bool
}

// readMessage reads a message. It never fails: anything that is no message is a text.
func readMessage(raw []byte) chatMessage {
	var m chatMessage
	top := parse(raw)
	role := top.text("role")
	if typ := top.text("type"); typ == "" || typ == "message" { // else it is a block, such as a call of a tool
		m.id = cmp.Or(top.text("id"), top.text("messageId"))
	}
	if m.parts = aiParts(top.get("parts")); m.parts != nil {
		m.role = role
		return m
	}
	if top == nil || role == "" {
		role, _ = genaijson.Heading(raw)
	}
	role = cmp.Or(genaijson.Role(role), "unknown")
	roles := map[string]bool{}
	for p := range genaijson.Parts(raw) {
		m.parts = append(m.parts, standardPart(&p))
		if role = p.Role; p.Role != "tool" && p.Role != "unknown" {
			m.role = p.Role
		}
		roles[p.Role] = true
	}
	if len(m.parts) == 0 {
		roles[role] = true
		if m.role = role; role == "unknown" {
			m.role = ""
		}
	}
	if len(roles) == 1 && roles["tool"] {
		m.role = "tool"
	}
	m.sign(top)
	return m
}

// userSide reports whether the message went to the model and is no result of a tool.
func (m *chatMessage) userSide() bool { return m.role != "assistant" && m.role != "tool" }

// sign sets the signatures of parts of reasoning, where there are as many of both: else nothing states which is whose.
func (m *chatMessage) sign(top object) {
	var signatures []string
	for _, block := range elements(top.get("content")) {
		if o := parse(block); o.text("type") == "thinking" || o.text("type") == "reasoning" {
			signatures = append(signatures, o.text("signature"))
		}
	}
	var reasoning []*messagePart
	for i := range m.parts {
		if m.parts[i].kind == partReasoning {
			reasoning = append(reasoning, &m.parts[i])
		}
	}
	if len(reasoning) == len(signatures) {
		for i, p := range reasoning {
			p.signature = signatures[i]
		}
	}
}

// standardPart reads a part in the standard form.
func standardPart(p *genaijson.Part) messagePart {
	content, isText := p.Text()
	if p.Type == "error" && !isText {
		content, isText = text(parse(p.Content).get("content"))
	}
	file := messagePart{kind: partFile, mediaType: p.MIME, modality: p.Modality, fileName: p.Name}
	switch {
	case p.Type == "tool_call":
		return messagePart{kind: partCall, id: p.ID, name: p.Name, args: valueOf(p.Content)}
	case p.Type == "tool_call_response":
		return messagePart{kind: partResult, id: p.ID, name: p.Name, content: valueOf(p.Content), isError: p.IsError}
	case !isText:
	case p.Type == "text":
		return messagePart{kind: partText, text: content}
	case p.Type == "reasoning":
		return messagePart{kind: partReasoning, text: content}
	case p.Type == "error":
		return messagePart{kind: partError, text: content}
	case p.Type == "blob":
		file.data = content
		return file
	case p.Type == "uri":
		file.url = content
		return file
	}
	other := messagePart{kind: partOther, name: p.Type, raw: p.Content}
	switch {
	case p.Type == "extension":
		other.raw = fields("type", p.Type, "name", p.Name, "data", p.Content)
	case p.Type == "file":
		other.raw = fields("type", p.Type, "modality", p.Modality, "name", p.Name, "mime_type", p.MIME, "file_id", p.Content)
	case parse(p.Content).text("type") != p.Type:
		other.raw = fields("type", p.Type, "value", p.Content)
	}
	return other
}

// aiParts reads the parts of a message as the AI SDK spells them, which the guide keeps verbatim. It returns nil where
// they are no list of such: a part of the standard form has other keys.
func aiParts(raw []byte) []messagePart {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	parts := []messagePart{}
	for _, block := range elements(raw) {
		p := readAIPart(block)
		if p == nil {
			return nil
		}
		parts = append(parts, p...)
	}
	return parts
}

// standardTypes are those of the standard form that the AI SDK does not have.
var standardTypes = []string{"tool_call", "tool_call_response", "blob", "uri"}

// readAIPart returns the parts of a block: a call may have its result, which follows it. It returns nil of a block of
// the standard form.
func readAIPart(block []byte) []messagePart {
	a := parse(block)
	typ, ok := text(a.get("type"))
	if !ok { // no part of the AI SDK, but none of the standard either, which has a type everywhere
		return []messagePart{{kind: partOther, raw: block, verbatim: true}}
	}
	p := messagePart{kind: partOther, name: typ, raw: block, verbatim: true}
	tool, isTool := strings.CutPrefix(typ, "tool-")
	url, hasURL := text(a.get("url"))
	switch {
	case slices.Contains(standardTypes, typ), typ == "file" && (a.get("file_id") != nil || a.get("mime_type") != nil):
		return nil
	case typ == "text" || typ == "reasoning":
		if p.text, ok = text(a.get("text")); !ok {
			return nil
		}
		if p.kind = partText; typ == "reasoning" {
			p.kind = partReasoning
			for _, m := range a.object("providerMetadata") { // there is one
				p.signature = parse(m.value).text("signature")
			}
		}
	case (typ == "file" || typ == "reasoning-file") && hasURL:
		p.kind, p.mediaType, p.fileName, p.url = partFile, a.text("mediaType"), a.text("filename"), url
		if mediaType, data, ok := dataURL(url); ok {
			p.url, p.data, p.mediaType = "", data, cmp.Or(p.mediaType, mediaType)
		}
		p.modality = modalityOf(p.mediaType)
	case isTool || typ == "dynamic-tool":
		if !isTool {
			tool = a.text("toolName")
		}
		p.kind, p.id, p.name, p.args = partCall, a.text("toolCallId"), tool, valueOf(a.get("input"))
		result := messagePart{kind: partResult, id: p.id, name: tool, raw: block, verbatim: true, embedded: true}
		switch a.text("state") {
		case "output-available":
			result.content = valueOf(a.get("output"))
		case "output-error":
			result.isError, result.content = true, quote(a.text("errorText"))
		case "output-denied":
			result.isError = true
			if reason := a.object("approval").text("reason"); reason != "" {
				result.content = quote(reason)
			}
		default:
			return []messagePart{p}
		}
		return []messagePart{p, result}
	}
	return []messagePart{p}
}

// dataURL returns the media type and the base64 of a data URL.
func dataURL(url string) (mediaType, data string, ok bool) {
	head, data, ok := strings.Cut(url, ";base64,")
	mediaType, isData := strings.CutPrefix(head, "data:")
	return mediaType, data, ok && isData
}

// modalityOf returns the modality of a media type.
func modalityOf(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); kind {
	case "image", "audio", "video":
		return kind
	}
	return "document"
}
