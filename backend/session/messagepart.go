package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// PartKind is the kind of a MessagePart.
type PartKind string

// The kinds. Trees as text and as JSON, differences and search results all use these words and those for the speaker.
const (
	PartText     PartKind = "text"
	PartThinking PartKind = "thinking"
	PartCall     PartKind = "call"
	PartResult   PartKind = "result"
	PartError    PartKind = "error"
	PartFile     PartKind = "file"
	PartOther    PartKind = "other"
)

// The speakers, besides roles as their sources spell them.
const (
	ByUser   = "user"
	BySystem = "system"
	ByModel  = "reply"
	ByTool   = "result"
	ByNobody = "text"
)

// MessagePart is one part of a message, as people read it.
type MessagePart struct {
	genaijson.Part
	Kind PartKind
	// By is the speaker: one of the words By…, or the role as its source spells it.
	By string
	// Text is what people read: of a file a few words in brackets, of a result its texts, and nothing of a call.
	// Empty where there is nothing for them.
	Text string
}

// Label returns one word for a reader: the speaker of a text, else the kind.
func (s *MessagePart) Label() string {
	switch s.Kind {
	case PartThinking, PartCall, PartResult, PartError:
		return string(s.Kind)
	}
	return s.By
}

// Speaker returns the word for the speaker of messages of that role, in any spelling.
func Speaker(role string) string {
	switch role := genaijson.Role(role); role {
	case "assistant":
		return ByModel
	case "tool":
		return ByTool
	case "unknown", "":
		return ByNobody
	default:
		return role
	}
}

// MessageParts reads the parts of a message in their order, in any spelling that genaijson knows. Any other input is a
// text without a speaker. It is linear in the size of the body.
func MessageParts(body string) []MessagePart {
	var out []MessagePart
	for _, p := range genaijson.Read([]byte(body)).Parts {
		out = append(out, messagePart(&p))
	}
	return out
}

// kinds are those of the types of the standard.
var kinds = map[string]PartKind{
	"text": PartText, "reasoning": PartThinking, "error": PartError, "tool_call": PartCall,
	"tool_call_response": PartResult, "blob": PartFile, "uri": PartFile, "file": PartFile, "extension": PartText,
}

func messagePart(p *genaijson.Part) MessagePart {
	s := MessagePart{Part: *p, Kind: cmp.Or(kinds[p.Type], PartOther), By: Speaker(p.Role)}
	text, isText := p.Text()
	switch {
	case p.Type == "extension":
		var data bytes.Buffer
		_ = json.Compact(&data, p.Content) // it is valid
		s.Text = strings.TrimSpace(p.Name + " " + data.String())
	case s.Kind == PartFile && p.Type == "blob":
		s.Text = bracketed(cmp.Or(p.Modality, "file"), p.MIME, p.Name)
	case s.Kind == PartFile:
		s.Text = bracketed(cmp.Or(p.Modality, "file"), p.MIME, cmp.Or(p.Name, text))
	case s.Kind == PartCall:
	case s.Kind == PartResult && bytes.HasPrefix(p.Content, []byte("[")):
		s.Text = blocksText(p.Content)
	case s.Kind == PartResult && !isText:
		s.Text = string(p.Content)
	case s.Kind != PartOther && isText:
		s.Text = text
	default:
		s.Kind, s.Text = PartOther, otherText(p.Type, p.Content)
	}
	return s
}

// bracketed puts words for something that is no text between brackets.
func bracketed(words ...string) string {
	return "[" + strings.Join(strings.Fields(strings.Join(words, " ")), " ") + "]"
}

// otherText describes a block of another type in a few words. Calls of tools are in the tree, and steps of a user
// interface have no content: it returns nothing for them.
func otherText(kind string, raw []byte) string {
	lower := strings.ToLower(kind)
	switch {
	case strings.HasPrefix(lower, "tool"), lower == "dynamic-tool", lower == "step-start",
		lower == "encrypted_reasoning":
		return ""
	}
	o := object.Of("", raw)
	if content := o.Spelled("content"); content != nil && lower == "content" { // a block of ACP around a block
		return blocksText(content)
	}
	var mime, name string
	for key, value := range o.All() {
		text, _ := rawjson.String(value)
		switch key {
		case "mimeType", "mediaType", "mime_type":
			mime = text
		case "name", "path", "uri", "filename":
			name = cmp.Or(name, text)
		}
	}
	return bracketed(kind, mime, name)
}

// blocksText returns what content says: a block or a list of them, a line each.
func blocksText(raw []byte) string {
	var out []string
	for _, p := range genaijson.Read(raw).Parts {
		if text, ok := p.Text(); ok && p.Type == "text" {
			out = append(out, text)
			continue
		}
		switch strings.ToLower(p.Type) { // that may hold others, as otherText knows them: no more are looked into
		case "content":
			if inner := object.Of("", p.Content).Object("content"); inner.Has("text") {
				out = append(out, inner.String("text"))
			}
			continue
		case "tool_call_response":
			continue
		}
		if s := messagePart(&p); s.Text != "" {
			out = append(out, s.Text)
		}
	}
	return strings.Join(out, "\n")
}
