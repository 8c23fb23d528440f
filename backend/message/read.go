package message

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Read reads a message in any spelling: an object with a role, an item of OpenAI's responses, a block, or a text. Input
// that is not JSON is a text. It returns several messages where one holds results of tools next to other parts.
func Read(raw []byte) []Message { return read(text(raw), 0) }

// text returns input that is not JSON as a JSON string.
func text(raw []byte) []byte {
	if valid(raw) {
		return raw
	}
	return Quote(string(raw))
}

func read(raw []byte, index int) []Message {
	in := genaijson.Read(raw)
	m, top := Message{Role: in.Role, Index: index, Parts: parts(in.Top, in.Parts)}, in.Top
	if !slices.Contains([]string{user, assistant, system, tool}, m.Role) {
		m.Role = user
	}
	if len(m.Parts) == 1 && m.Parts[0].Type == extension {
		return []Message{m}
	}
	if m.Role == tool && slices.ContainsFunc(m.Parts, isContent) {
		result := genaijson.Part{Type: ToolResult, ID: top.Text("tool_call_id")}
		m.Parts = []Part{{Part: result, Parts: m.Parts}}
	}
	at := 0
	if len(m.Parts) > 0 && m.Parts[0].Type == Reasoning && top.Has("reasoning_content", "reasoning", "thinking") {
		at = 1
	}
	m.Parts = slices.Insert(m.Parts, at, Blocks(top.Raw("reasoning_details"))...)
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Signature != "" && p.Provider == "" {
			p.Provider = top.Text("provider")
			top.Keep("provider")
		}
	}
	top.Use("id")
	if m.Fields = top.Unread(); m.Role == user && in.Role != user && in.Role != "" {
		m.Fields = append(m.Fields, "role")
	}
	return split(m)
}

func isContent(p Part) bool { return p.kind() == Text || p.kind() == media }

// The roles of messages.
const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
	tool      = "tool"
)

const (
	stepStart = "step-start"        // type of a block of the AI SDK between two replies of a model
	extension = "extension message" // type of a message of a loop's own kind, which no model gets
)

// split moves results of tools into messages of their own, after the calls that they answer.
func split(m Message) (out []Message) {
	isSplit := func(p Part) bool { return p.Type == ToolResult || p.Type == stepStart }
	if m.Role == tool || !slices.ContainsFunc(m.Parts, isSplit) {
		return []Message{m}
	}
	var rest, results []Part
	flush := func() {
		if rest != nil {
			out = append(out, Message{Role: m.Role, Parts: rest, Index: m.Index, Fields: m.Fields})
		}
		if results != nil {
			out = append(out, Message{Role: tool, Parts: results, Index: m.Index})
		}
		rest, results = nil, nil
	}
	for _, p := range m.Parts {
		switch {
		case p.Type == stepStart:
			flush()
		case p.Type == ToolResult:
			results = append(results, p)
		case results != nil && p.Type != ToolCall:
			flush()
			fallthrough
		default:
			rest = append(rest, p)
		}
	}
	flush()
	return out
}

// Blocks reads content, which must be valid JSON: a text, a block, or an array of these.
func Blocks(raw []byte) []Part { return parts(nil, genaijson.Blocks(raw)) }

// parts adds what providers want back to the parts of the message top, or of content, and reads types of theirs that
// the standard has no form of.
func parts(top *object.Object, list []genaijson.Part) (out []Part) {
	for i := range list {
		p, o := Part{Part: list[i]}, list[i].Block
		switch {
		case p.Type == "extension", p.Plain && o != nil && o == top:
			p.Type = extension
		case p.Plain:
			p.Type = "unknown"
		}
		switch p.Type {
		case Reasoning:
			if i > 0 && list[i-1].Type == Reasoning && list[i-1].Block == o && o != top {
				last := &out[len(out)-1]
				last.Content = Quote(last.text() + "\n" + p.text())
				continue
			}
		case "encrypted_reasoning", "redacted_thinking", "reasoning.text", "reasoning.encrypted", "reasoning.summary":
			p.Type, p.Content = Reasoning, o.Literal("text", "summary")
		case "reasoning_details":
			out = append(out, Blocks(o.Raw("details"))...)
			continue
		case ToolCall:
			p.Content = arguments(p.Content)
		case ToolResult:
			p.Parts = p.result()
		}
		switch {
		case p.Modality == "":
		case p.Modality == "image" && p.MIME == "" && p.Type != "uri":
			p.MIME = "image/png"
		case !slices.Contains([]string{"image", "audio", "video"}, p.Modality):
			p.Modality = "document"
		}
		switch {
		case o == nil, o == top:
		case p.Type == Reasoning:
			p.ID = o.Text("id")
			p.Provider, p.Signature = Signature(o)
		case p.Type != Text && o.Has("state"): // of the AI SDK, whose other members describe the call
		case slices.Contains(kinds, p.kind()):
			o.Use("id", "type", "annotations", "state", "logprobs", "status", "index", "thought", "modality", "detail")
			p.Extra = o.Unread()
		}
		out = append(out, p)
	}
	return out
}

// Signature returns what the provider of a block of reasoning wants back, and the provider, as far as they are stated.
func Signature(o *object.Object) (provider, signature string) {
	typ, format := o.Text("type"), o.Text("format")
	switch signature = o.Text("encrypted_content", "signature", "data"); {
	case typ == "redacted_thinking", strings.HasPrefix(format, "anthropic"):
		provider = "anthropic"
	case o.Has("encrypted_content"), strings.HasPrefix(format, "openai"):
		provider = "openai"
	case strings.HasPrefix(typ, "reasoning."):
		provider = cmp.Or(format, "unknown")
	case typ == "": // of Gemini
		provider, signature = "google", o.Text("thoughtSignature", "thought_signature")
	}
	for name, metadata := range child(o, "providerMetadata", "providerOptions").All() { // of the AI SDK
		if s := object.Of("", metadata).Text("signature", "redactedData"); s != "" {
			provider, signature = name, s
		}
	}
	return provider, signature
}

// arguments returns arguments as JSON: the JSON in a string, where the string is one.
func arguments(raw []byte) []byte {
	s, ok := rawjson.String(raw)
	switch s = strings.TrimSpace(s); {
	case raw == nil, string(raw) == "null", ok && s == "":
		return []byte("{}")
	case ok && rawjson.Valid([]byte(s), rawjson.MaxDepth-2) == nil: // a body has it two levels deeper
		return []byte(s)
	}
	return raw
}

// ReadResult reads the result of a tool, in any spelling: a result, blocks, or any other JSON or text.
func ReadResult(raw []byte) Part {
	raw = text(raw)
	o := object.Of("", raw)
	if o.Has("content", "output", "response") {
		raw = o.Raw("content", "output", "response")
	}
	return Blocks(Build("type", ToolResult, "is_error", o.Raw("is_error", "isError"), "output", raw))[0]
}

// result returns the content of a result: a text, a list of blocks, or any other JSON, which a model sees as text. The
// AI SDK sends all JSON so, but for a list that it names content.
func (p *Part) result() []Part {
	o := p.Block
	isJSON := (o.Has("state") || o.Text("type") == "tool-result") && child(o, "output").Text("type") != "content"
	list := Blocks(p.Content)
	foreign := slices.ContainsFunc(list, func(q Part) bool { return q.Plain })
	if _, ok := rawjson.String(p.Content); !ok &&
		(isJSON || string(p.Content) != "null" && (foreign || !is(p.Content, '['))) {
		return Blocks(Quote(string(p.Content)))
	}
	return list
}
