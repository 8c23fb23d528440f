// Package message is the one model of a message: a role and a list of parts.
//
// It reads messages and requests in the spelling of every source that otelagent records (Anthropic, OpenAI chat, OpenAI
// responses, Gemini, Ollama, phi-core, clark-agent, the AI SDK, the GenAI convention of OpenTelemetry), and writes
// requests for three provider APIs. A block that it does not know stays a part of kind Unknown.
//
// Arguments, results and schemas of tools stay as they are spelled. Reading and writing are linear in the input, do not
// change it and share its memory. Input that is nested deeper than 200 levels is not JSON to this package.
package message

import (
	"cmp"
	"strings"
)

// Role says who speaks in a message.
type Role string

// The roles. Messages of role Tool hold results of tool calls, and no other message does.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	System    Role = "system"
	Tool      Role = "tool"
)

// Message is one message.
type Message struct {
	Role  Role
	Parts []Part
	// Index is the position in the list of the request. Messages that came as one have the same.
	Index int
	// Fields are keys of the message that are neither role nor content: times, usage, names.
	Fields []string
}

// Kind says which kind of part a Part is.
type Kind string

// The kinds of parts.
const (
	Text       Kind = "text"
	Reasoning  Kind = "reasoning"
	ToolCall   Kind = "tool_call"
	ToolResult Kind = "tool_result"
	MediaPart  Kind = "media"
	Unknown    Kind = "unknown"
)

// Part is one piece of a message.
type Part struct {
	Kind Kind
	// Type is the type of the block as it is spelled, empty where the block has none.
	Type string
	// Text of a text or of reasoning.
	Text string
	// ID of a call, of the call that a result answers, or of reasoning. Name of the tool or of the file.
	ID, Name string
	// Signature is what the provider of reasoning wants back, Provider its name, empty where it is not stated.
	Signature, Provider string
	// JSON are the arguments of a call.
	JSON []byte
	// Parts and IsError are of a result.
	Parts   []Part
	IsError bool
	Media   Media
	// Extra are keys of the block that have no field here.
	Extra []string
}

// Media is an image, a sound, a video or a document: base64 data, an address, or the id of a file at a provider.
type Media struct {
	Modality                        string // image, audio, video or document
	MIME, Data, URL, FileID, Detail string
}

// Describe names the kind of a part.
func (p *Part) Describe() string {
	switch p.Kind {
	case MediaPart:
		return p.Media.Modality
	case Unknown:
		return "block of type " + Brief(cmp.Or(p.Type, "unknown"))
	}
	return strings.ReplaceAll(string(p.Kind), "_", " ")
}

// JoinText returns the texts of parts, a line feed between two. With names it names parts of other kinds in brackets.
func JoinText(parts []Part, names bool) string {
	var out []string
	for i := range parts {
		if parts[i].Kind == Text {
			out = append(out, parts[i].Text)
		} else if names {
			out = append(out, "["+parts[i].Describe()+"]")
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
