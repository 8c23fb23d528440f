package replay

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// defaultMaxTokens is put in where the request does not say how long the answer may be, which this form demands.
const defaultMaxTokens = "4096"

var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// anthropic writes the body of the Messages API.
func (w *writer) anthropic() []byte {
	w.common()
	w.settle(anthropicID)
	for len(w.messages) > 0 && w.messages[0].role == system { // in this form no conversation begins so
		w.add(Changed, "a first message of the system stands in the system prompt", w.messages[0].where())
		w.system, w.messages = append(slices.Clip(w.system), w.messages[0].parts...), w.messages[1:]
	}
	p := &w.params
	var b builder
	b.opt("model", w.model)
	if p.maxTokens != nil {
		b.raw("max_tokens", p.maxTokens)
	} else {
		b.raw("max_tokens", []byte(defaultMaxTokens))
		w.add(Added, "max_tokens "+defaultMaxTokens+", which this form demands", "")
	}
	b.raw("temperature", p.temperature)
	b.raw("top_p", p.topP)
	b.raw("top_k", p.topK)
	if len(p.stop) > 0 {
		b.raw("stop_sequences", array(p.stop))
	}
	w.anthropicReasoning(&b)
	if p.user != "" {
		b.raw("metadata", obj("user_id", p.user))
	}
	w.not(map[string]bool{"seed": p.seed != nil, "frequency_penalty": p.frequency != nil, "presence_penalty": p.presence != nil, "answer as JSON": p.format == "json"})
	if s, ok := lone(w.system, !w.same); ok {
		b.str("system", s)
	} else if blocks := w.anthropicBlocks(w.system, &message{}, text); len(blocks) > 0 {
		b.raw("system", array(blocks))
	}
	b.raw("messages", w.anthropicMessages())
	var tools [][]byte
	if w.same {
		for _, t := range w.tools {
			tools = append(tools, t.raw)
		}
	} else {
		for _, t := range w.offered() {
			var o builder
			o.str("name", t.name)
			o.opt("description", t.description)
			o.raw("input_schema", w.schema(&t))
			if string(t.strict) == "true" {
				o.raw("strict", t.strict)
			}
			tools = append(tools, o.bytes())
		}
	}
	if len(tools) > 0 {
		b.raw("tools", array(tools))
	}
	w.anthropicChoice(&b)
	return b.bytes()
}

func (w *writer) anthropicReasoning(b *builder) {
	p := &w.params
	if p.budget != nil {
		var t builder
		t.str("type", "enabled")
		t.raw("budget_tokens", p.budget)
		b.raw("thinking", t.bytes())
	} else if p.level == "off" && w.same {
		b.raw("thinking", obj("type", "disabled"))
	}
	var c builder
	if p.level != "off" || !w.same {
		if level := w.level("low", "medium", "high", "xhigh", "max"); level != "" {
			c.str("effort", level)
			if !w.same {
				w.add(Changed, "the level of reasoning stands as output_config.effort, which not every model takes", "")
			}
		}
	}
	if p.format == "schema" {
		var f builder
		f.str("type", "json_schema")
		f.raw("schema", p.schema)
		c.raw("format", f.bytes())
	}
	if c.b != nil {
		b.raw("output_config", c.bytes())
	}
}

func (w *writer) anthropicChoice(b *builder) {
	p := &w.params
	choice := p.choice
	if choice == "" && string(p.parallel) == "false" {
		choice = "auto"
	}
	if choice == "" {
		return
	}
	var o builder
	o.str("type", choice)
	if choice == "tool" {
		o.str("name", p.choiceName)
	}
	if string(p.parallel) == "false" && choice != "none" {
		o.raw("disable_parallel_tool_use", []byte("true"))
	}
	b.raw("tool_choice", o.bytes())
}

func (w *writer) anthropicMessages() []byte {
	type turn struct {
		role   string
		at     int
		tools  bool // holds results of tools
		blocks [][]byte
		text   *string // instead of blocks
	}
	var turns []turn
	for i := range w.messages {
		m := &w.messages[i]
		t := turn{role: "user", at: m.at, tools: m.role == results}
		switch m.role {
		case assistant:
			t.role = "assistant"
		case system:
			t.role = "system"
		}
		if s, ok := lone(m.parts, false); ok && s != "" {
			t.text = &s
		} else if t.blocks = w.anthropicBlocks(m.parts, m, text, thinking, media, call, result, other); len(t.blocks) == 0 {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].role == t.role && t.role != "system" {
			last := &turns[n-1]
			if t.at == last.at || t.tools && last.tools {
				if t.text != nil {
					t.blocks = [][]byte{obj("type", "text", "text", *t.text)}
				}
				if last.text != nil {
					last.blocks, last.text = [][]byte{obj("type", "text", "text", *last.text)}, nil
				}
				last.blocks = append(last.blocks, t.blocks...)
				continue
			}
		}
		turns = append(turns, t)
	}
	var out [][]byte
	for _, t := range turns {
		var b builder
		b.str("role", t.role)
		if t.text != nil {
			b.str("content", *t.text)
		} else {
			b.raw("content", array(t.blocks))
		}
		out = append(out, b.bytes())
	}
	return array(out)
}

// anthropicBlocks writes the parts of a message, of those kinds.
func (w *writer) anthropicBlocks(parts []part, m *message, kinds ...kind) [][]byte {
	var out [][]byte
	for i := range parts {
		p := &parts[i]
		switch {
		case !slices.Contains(kinds, p.kind):
			w.leave(p.what()+" where only text may stand", m)
		case w.same && isObject(p.raw):
			out = append(out, p.raw)
		default:
			if b := w.anthropicBlock(p, m); b != nil {
				out = append(out, b)
			}
		}
	}
	return out
}

func (w *writer) anthropicBlock(p *part, m *message) []byte {
	switch p.kind {
	case text:
		if p.text == "" {
			w.leave("an empty text", m)
			return nil
		}
		if p.typ == "refusal" {
			w.add(Changed, "a refusal stands as a text", m.where())
		}
		return obj("type", "text", "text", p.text)
	case thinking:
		switch {
		case p.signature == "":
			w.leave("reasoning without a signature", m)
		case p.vendor != "" && !strings.Contains(p.vendor, "anthropic"):
			w.leave("reasoning that another provider signed", m)
		case p.hidden:
			return obj("type", "redacted_thinking", "data", p.signature)
		default:
			return obj("type", "thinking", "thinking", p.text, "signature", p.signature)
		}
		return nil
	case media:
		return w.anthropicMedia(p, m)
	case call:
		var b builder
		b.str("type", "tool_use")
		b.str("id", p.id)
		b.str("name", p.name)
		b.raw("input", w.args(p, m))
		return b.bytes()
	case result:
		var b builder
		b.str("type", "tool_result")
		b.str("tool_use_id", p.id)
		if s, ok := lone(p.parts, true); ok {
			b.str("content", s)
		} else if blocks := w.anthropicBlocks(p.parts, m, text, media); len(blocks) > 0 {
			b.raw("content", array(blocks))
		}
		if p.isError {
			b.raw("is_error", []byte("true"))
		}
		return b.bytes()
	}
	w.leave(p.what(), m)
	return nil
}

func (w *writer) anthropicMedia(p *part, m *message) []byte {
	var source []byte
	typ := p.media
	switch {
	case typ != "image" && typ != "document":
	case p.fileID != "":
		source = obj("type", "file", "file_id", p.fileID)
	case p.data == "" && web(p.url):
		source = obj("type", "url", "url", p.url)
	case p.data == "":
	case typ == "image" && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, p.mime),
		typ == "document" && p.mime == "application/pdf":
		source = obj("type", "base64", "media_type", p.mime, "data", p.data)
	case typ == "document" && strings.HasPrefix(p.mime, "text/"):
		if raw, err := base64.StdEncoding.DecodeString(p.data); err == nil && utf8.Valid(raw) {
			source = obj("type", "text", "media_type", "text/plain", "data", string(raw))
		}
	}
	if source == nil {
		what := p.what()
		if p.mime != "" {
			what += " of type " + word(p.mime)
		} else if p.url != "" {
			what += " by an address that nobody else can fetch"
		}
		w.leave(what, m)
		return nil
	}
	if p.detail != "" && p.detail != "auto" {
		w.leave("detail of an image", m)
	}
	var b builder
	b.str("type", typ)
	b.raw("source", source)
	if typ == "document" {
		b.opt("title", p.name)
	}
	return b.bytes()
}
