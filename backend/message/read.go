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
func Read(raw []byte) []Message {
	if !valid(raw) {
		return []Message{{Role: User, Parts: []Part{{Kind: Text, Text: string(raw)}}}}
	}
	return read(raw, 0)
}

func read(raw []byte, index int) []Message {
	top, list := genaijson.Read(raw)
	m := Message{Role: User, Index: index, Parts: parts(top, list)}
	if top == nil { // a text, or an item of OpenAI's responses
		for _, p := range m.Parts {
			switch {
			case p.Kind == ToolResult:
				m.Role = Tool
			case p.Kind == ToolCall, p.Kind == Reasoning, p.Kind == Unknown && strings.HasSuffix(p.Type, "_call"):
				m.Role = Assistant
			}
		}
		return []Message{m}
	}
	role := Role(genaijson.Role(top.Text("role")))
	if slices.Contains([]Role{Assistant, System, Tool}, role) {
		m.Role = role
	}
	if len(m.Parts) == 1 && m.Parts[0].Type == extension {
		return []Message{m}
	}
	if m.Role == Tool && slices.ContainsFunc(m.Parts, isContent) {
		m.Parts = []Part{{Kind: ToolResult, ID: top.Text("tool_call_id"), Parts: m.Parts}}
	}
	at := 0
	if len(m.Parts) > 0 && m.Parts[0].Kind == Reasoning && top.Has("reasoning_content", "reasoning", "thinking") {
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
	if m.Fields = top.Unread(); role != m.Role && role != "" {
		m.Fields = append(m.Fields, "role")
	}
	return split(m)
}

func isContent(p Part) bool { return p.Kind == Text || p.Kind == MediaPart }

const (
	stepStart = "step-start"        // type of a block of the AI SDK between two replies of a model
	extension = "extension message" // type of a message of a loop's own kind, which no model gets
)

// split moves results of tools into messages of their own, after the calls that they answer.
func split(m Message) (out []Message) {
	isSplit := func(p Part) bool { return p.Kind == ToolResult || p.Type == stepStart }
	if m.Role == Tool || !slices.ContainsFunc(m.Parts, isSplit) {
		return []Message{m}
	}
	var rest, results []Part
	flush := func() {
		if rest != nil {
			out = append(out, Message{Role: m.Role, Parts: rest, Index: m.Index, Fields: m.Fields})
		}
		if results != nil {
			out = append(out, Message{Role: Tool, Parts: results, Index: m.Index})
		}
		rest, results = nil, nil
	}
	for _, p := range m.Parts {
		switch {
		case p.Type == stepStart:
			flush()
		case p.Kind == ToolResult:
			results = append(results, p)
		case results != nil && p.Kind != ToolCall:
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

// kinds are those of the types that genaijson reads.
var kinds = map[string]Kind{
	"text": Text, "reasoning": Reasoning, "tool_call": ToolCall, "tool_call_response": ToolResult,
	"blob": MediaPart, "uri": MediaPart, "file": MediaPart,
}

// parts adds what providers want back to the parts of the message top, or of content, and reads types of theirs that
// the standard has no form of.
func parts(top *object.Object, list []genaijson.Part) (out []Part) {
	for i := range list {
		in, o := &list[i], list[i].Block
		text, _ := in.Text()
		p := Part{Kind: cmp.Or(kinds[in.Type], Unknown), Type: o.Text("type"), ID: in.ID, Name: in.Name, IsError: in.IsError}
		switch in.Type {
		case "text":
			if p.Text = text; in.Plain {
				p.Kind, p.Text = Unknown, ""
			}
		case "reasoning":
			if i > 0 && list[i-1].Type == in.Type && list[i-1].Block == o && o != top {
				out[len(out)-1].Text += "\n" + text
				continue
			}
			p.Text = text
		case "encrypted_reasoning", "redacted_thinking", "reasoning.text", "reasoning.encrypted", "reasoning.summary":
			p.Kind, p.Text = Reasoning, o.Text("text", "summary")
		case "reasoning_details":
			out = append(out, Blocks(o.Raw("details"))...)
			continue
		case "tool_call":
			p.JSON = arguments(in.Content)
		case "tool_call_response":
			p.result(in.Content)
			switch {
			case o == top && p.ID+p.Name == "" && p.Parts != nil && !slices.ContainsFunc(p.Parts, isContent):
				out = append(out, p.Parts...) // results, as the AI SDK has them
				continue
			case p.Parts == nil && o.Has("state"): // the AI SDK sends null as a text
				p.Parts = []Part{{Kind: Text, Text: "null"}}
			}
		case "custom", "custom_tool_call":
			f := cmp.Or(object.Of("", o.Raw("custom")), o)
			p.Kind, p.ID, p.Name, p.JSON = ToolCall, o.Text("call_id", "id"), f.Text("name"), arguments(f.Raw("input"))
		case "custom_tool_call_output":
			p.ID = o.Text("call_id")
			p.result(o.Raw("output"))
		case "blob", "uri", "file":
			p.media(in, text)
		}
		switch {
		case p.Kind == Unknown && (in.Type == "extension" || in.Plain && o != nil && o == top):
			p.Type = extension
		case o == nil || o == top || p.Kind == Unknown:
		case p.Kind == Reasoning:
			p.sign(o)
		case p.Kind != Text && o.Has("state"): // of the AI SDK, whose other members describe the call
		default:
			o.Use("id", "annotations", "state", "logprobs", "status", "index", "thought", "modality")
			p.Extra = o.Unread()
		}
		if out = append(out, p); p.Kind == ToolCall && o.Text("state") == "output-denied" { // the AI SDK sends this text
			denied := []Part{{Kind: Text, Text: "Tool execution denied."}}
			out = append(out, Part{Kind: ToolResult, ID: p.ID, Name: p.Name, IsError: true, Parts: denied})
		}
	}
	return out
}

// sign reads what the provider of the reasoning o wants back.
func (p *Part) sign(o *object.Object) {
	p.ID, p.Signature = o.Text("id"), o.Text("encrypted_content", "signature", "data")
	switch format := o.Text("format"); {
	case p.Type == "redacted_thinking", strings.HasPrefix(format, "anthropic"):
		p.Provider = "anthropic"
	case o.Has("encrypted_content"), strings.HasPrefix(format, "openai"):
		p.Provider = "openai"
	case strings.HasPrefix(p.Type, "reasoning."):
		p.Provider = cmp.Or(format, "unknown")
	case p.Type == "": // of Gemini
		p.Provider, p.Signature = "google", o.Text("thoughtSignature", "thought_signature")
	}
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
func ReadResult(raw []byte) (p Part) {
	if !valid(raw) {
		raw = Quote(string(raw))
	}
	if o := object.Of("", raw); o.Has("content", "output", "response") {
		p.IsError = string(o.Raw("is_error", "isError")) == "true"
		raw = o.Raw("content", "output", "response")
	}
	p.result(raw)
	return p
}

// result reads the value of a result: a text, a list of blocks, or any other JSON, which a model sees as text.
func (p *Part) result(raw []byte) {
	p.Kind = ToolResult
	in := object.Of("", raw)
	typ := in.Text("type")
	denied := strings.HasPrefix(typ, "execution-")
	wrapped := denied || in.Has("value") // of the AI SDK
	if wrapped {
		p.IsError = p.IsError || denied || strings.HasPrefix(typ, "error")
		raw = in.Raw("value", "reason")
	}
	p.Parts = Blocks(raw)
	foreign := slices.ContainsFunc(p.Parts, func(q Part) bool { return q.Kind == Unknown && q.Type == "" })
	if s, ok := rawjson.String(raw); wrapped && typ != "content" ||
		raw != nil && string(raw) != "null" && !ok && (foreign || !is(raw, '[')) {
		if !ok {
			s = cmp.Or(string(raw), "null")
		}
		p.Parts = []Part{{Kind: Text, Text: s}}
	}
}

// media reads an image, sound, video or file, whose data, address or id is text.
func (p *Part) media(in *genaijson.Part, text string) {
	o, m := in.Block, &p.Media
	m.Modality, m.MIME, m.Detail = in.Modality, in.MIME, cmp.Or(child(o, "image_url").Text("detail"), o.Text("detail"))
	switch in.Type {
	case "blob":
		m.Data = text
	case "uri":
		m.URL = text
	default:
		m.FileID = text
	}
	if !slices.Contains([]string{"image", "audio", "video", "document"}, m.Modality) {
		m.Modality = "document"
	}
	if m.Modality == "image" && m.MIME == "" && m.URL == "" {
		m.MIME = "image/png"
	}
}
