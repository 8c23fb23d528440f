package replay

import "strings"

// responses writes the body of OpenAI's Responses API.
func (w *writer) responses() []byte {
	w.common()
	w.settle(nil)
	p := &w.params
	var b builder
	b.opt("model", w.model)
	if s := textOf(w.system); s != "" {
		b.str("instructions", s)
	}
	for i := range w.system {
		if q := &w.system[i]; q.kind != text {
			w.leave(q.what()+" where only text may stand", &message{})
		}
	}
	var items [][]byte
	for i := range w.messages {
		items = append(items, w.items(&w.messages[i])...)
	}
	b.raw("input", array(items))
	b.raw("max_output_tokens", p.maxTokens)
	b.raw("temperature", p.temperature)
	b.raw("top_p", p.topP)
	if level := w.level("minimal", "low", "medium", "high", "xhigh", "max"); level != "" {
		b.raw("reasoning", obj("effort", level))
	}
	b.opt("user", p.user)
	w.not(map[string]bool{"top_k": p.topK != nil, "reasoning tokens": p.budget != nil, "seed": p.seed != nil, "frequency_penalty": p.frequency != nil,
		"presence_penalty": p.presence != nil, "stop sequences": len(p.stop) > 0})
	switch p.format {
	case "json", "schema":
		f := &builder{}
		if p.format == "json" {
			f.str("type", "json_object")
		} else {
			f = w.jsonSchema()
			f.str("type", "json_schema")
		}
		var t builder
		t.raw("format", f.bytes())
		b.raw("text", t.bytes())
	}
	var tools [][]byte
	if w.same {
		for _, t := range w.tools {
			tools = append(tools, t.raw)
		}
	} else {
		for _, t := range w.offered() {
			var o builder
			o.str("type", "function")
			o.str("name", t.name)
			o.opt("description", t.description)
			o.raw("parameters", w.schema(&t))
			if t.strict == nil {
				t.strict = []byte("false") // where nothing is said this API is strict, and the others are not
			}
			o.raw("strict", t.strict)
			tools = append(tools, o.bytes())
		}
	}
	if len(tools) > 0 {
		b.raw("tools", array(tools))
	}
	switch p.choice {
	case "auto", "none":
		b.str("tool_choice", p.choice)
	case "any":
		b.str("tool_choice", "required")
	case "tool":
		b.raw("tool_choice", obj("type", "function", "name", p.choiceName))
	}
	b.raw("parallel_tool_calls", p.parallel)
	return b.bytes()
}

// items writes a message as items, in the order of its parts.
func (w *writer) items(m *message) [][]byte {
	name := "user"
	switch m.role {
	case assistant:
		name = "assistant"
	case system:
		name = "developer"
	}
	var out, blocks [][]byte
	var said []part
	flush := func() {
		if len(blocks) > 0 {
			var b builder
			b.str("role", name)
			if s, ok := lone(said, true); ok {
				b.str("content", s)
			} else {
				b.raw("content", array(blocks))
			}
			out = append(out, b.bytes())
		}
		blocks, said = nil, nil
	}
	for i := range m.parts {
		p := &m.parts[i]
		if p.kind == text || p.kind == media {
			if b := w.responsesBlock(p, m); b != nil {
				if name == "assistant" { // what a model said is a string: blocks are for what it is given
					flush()
				}
				blocks, said = append(blocks, b), append(said, *p)
			}
			continue
		}
		flush()
		if b := w.responsesItem(p, m); b != nil {
			out = append(out, b)
		}
	}
	flush()
	return out
}

func (w *writer) responsesItem(p *part, m *message) []byte {
	var b builder
	switch p.kind {
	case thinking:
		if p.signature == "" || !strings.Contains(p.vendor, "openai") || p.id == "" {
			w.leave("reasoning that is not this provider's", m)
			return nil
		}
		b.str("type", "reasoning")
		b.str("id", p.id)
		summary := [][]byte{}
		if p.text != "" {
			summary = append(summary, obj("type", "summary_text", "text", p.text))
		}
		b.raw("summary", array(summary))
		b.str("encrypted_content", p.signature)
	case call:
		b.str("type", "function_call")
		b.str("call_id", p.id)
		b.str("name", p.name)
		b.raw("arguments", argsText(p))
	case result:
		if p.isError {
			w.leave("that a tool result is an error", m)
		}
		b.str("type", "function_call_output")
		b.str("call_id", p.id)
		if s, ok := lone(p.parts, true); ok || len(p.parts) == 0 {
			b.str("output", s)
			break
		}
		blocks := [][]byte{}
		for i := range p.parts {
			if e := w.responsesBlock(&p.parts[i], m); e != nil {
				blocks = append(blocks, e)
			}
		}
		b.raw("output", array(blocks))
	default:
		w.leave(p.what(), m)
		return nil
	}
	return b.bytes()
}

// responsesBlock writes a block of content that a model is given.
func (w *writer) responsesBlock(p *part, m *message) []byte {
	if p.kind == text {
		return obj("type", "input_text", "text", p.text)
	}
	var b builder
	switch {
	case p.kind != media, m.role == assistant:
	case p.media == "image" && (p.data != "" || web(p.url)):
		address := p.url
		if p.data != "" {
			address = p.dataURL()
		}
		detail := p.detail
		if detail == "" {
			detail = "auto" // what it is unless said, and demanded
		}
		return obj("type", "input_image", "detail", detail, "image_url", address)
	case p.media == "document" && p.data != "":
		b.str("type", "input_file")
		b.opt("filename", p.name)
		b.str("file_data", p.dataURL())
		return b.bytes()
	case p.media == "document" && web(p.url):
		return obj("type", "input_file", "file_url", p.url)
	}
	if p.kind == media && m.role == assistant {
		w.leave(p.what()+" that is not the user's", m)
	} else {
		w.leave(unplaced(p), m)
	}
	return nil
}
