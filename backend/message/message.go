// Package message reads requests in the spelling of every source that otelagent records (Anthropic, OpenAI chat, OpenAI
// responses, Gemini, Ollama, phi-core, clark-agent, the AI SDK, the GenAI convention of OpenTelemetry), and writes them
// for three provider APIs. Package genaijson reads the messages.
//
// Arguments, results and schemas of tools stay as they are spelled. Reading and writing are linear in the input, do not
// change it and share its memory. Input that is nested deeper than 200 levels is not JSON to this package.
package message

import (
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
)

// Message is one message.
type Message struct {
	// Role is user, assistant, system or tool. Messages of role tool hold results of tool calls, and no other message
	// does.
	Role  string
	Parts []Part
	// Index is the position in the list of the request. Messages that came as one have the same.
	Index int
	// Fields are keys of the message that are neither role nor content: times, usage, names.
	Fields []string
}

// The types of parts that requests have, besides media. A part of any other type is of no provider API.
const (
	Text       = "text"
	Reasoning  = "reasoning"
	ToolCall   = "tool_call"
	ToolResult = "tool_call_response"
)

// Part is one piece of a message, and what its provider wants back. Only media have a modality: image, audio, video or
// document.
type Part struct {
	genaijson.Part
	// Signature is what the provider of reasoning wants back, Provider its name, empty where it is not stated.
	Signature, Provider string
	// Parts are those of a result.
	Parts []Part
	// Extra are keys of the block that have no place here.
	Extra []string
}

// media is the kind of images, sounds, videos and documents.
const media = "media"

// kinds are those that a provider API has.
var kinds = []string{Text, Reasoning, media, ToolCall, ToolResult}

func (p *Part) kind() string {
	if p.Modality != "" {
		return media
	}
	return p.Type
}

// text is the text of a text or of reasoning, the base64 of a blob, the address of a uri.
func (p *Part) text() string {
	s, _ := p.Text()
	return s
}

// Describe names the kind of a part.
func (p *Part) Describe() string {
	switch {
	case p.Modality != "":
		return p.Modality
	case p.Type == Text, p.Type == Reasoning:
		return p.Type
	case p.Type == ToolCall:
		return "tool call"
	case p.Type == ToolResult:
		return "tool result"
	}
	return "block of type " + Brief(p.Type)
}

// JoinText returns the texts of parts, a line feed between two. With names it names parts of other kinds in brackets.
func JoinText(parts []Part, names bool) string {
	var out []string
	for i := range parts {
		if p := &parts[i]; p.Type == Text {
			out = append(out, p.text())
		} else if names {
			out = append(out, "["+p.Describe()+"]")
		}
	}
	return strings.Join(out, "\n")
}

// Brief bounds a name from outside for output.
func Brief(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
