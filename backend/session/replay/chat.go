package replay

import "strings"

// chat writes the body of OpenAI's Chat Completions API.
func (w *writer) chat() []byte {
	w.common()
	w.settle(nil)
	p := &w.params
	var b builder
	b.opt("model", w.model)
	var messages [][]byte
	if len(w.system) > 0 {
		if m := w.chatMessage("system", w.system, &message{}); m != nil {
			messages = append(messages, m)
		}
	}
	for i := range w.messages {
		messages = append(messages, w.chatTurn(&w.messages[i])...)
	}
	b.raw("messages", array(messages))
	b.raw("max_completion_tokens", p.maxTokens)
	b.raw("temperature", p.temperature)
	b.raw("top_p", p.topP)
	b.raw("seed", p.seed)
	b.raw("frequency_penalty", p.frequency)
	b.raw("presence_penalty", p.presence)
	if len(p.stop) > 0 {
		b.raw("stop", array(p.stop))
	}
	b.opt("reasoning_effort", w.level("minimal", "low", "medium", "high", "xhigh", "max"))
	b.opt("user", p.user)
	w.not(map[string]bool{"top_k": p.topK != nil, "reasoning tokens": p.budget != nil})
	switch p.format {
	case "json":
		b.raw("response_format", obj("type", "json_object"))
	case "schema":
		var f builder
		f.str("type", "json_schema")
		f.raw("json_schema", w.jsonSchema().bytes())
		b.raw("response_format", f.bytes())
	}
	var tools [][]byte
	for _, t := range w.offered() {
		var f, o builder
		f.str("name", t.name)
		f.opt("description", t.description)
		if isObject(t.schema) {
			f.raw("parameters", t.schema)
		}
		f.raw("strict", t.strict)
		o.str("type", "function")
		o.raw("function", f.bytes())
		tools = append(tools, o.bytes())
	}
	if w.same {
		tools = nil
		for _, t := range w.tools {
			tools = append(tools, t.raw)
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
		var o builder
		o.str("type", "function")
		o.raw("function", obj("name", p.choiceName))
		b.raw("tool_choice", o.bytes())
	}
	if len(tools) > 0 {
		b.raw("parallel_tool_calls", p.parallel)
	}
	return b.bytes()
}

// jsonSchema is the schema that an answer must have, with the name that OpenAI wants.
func (w *writer) jsonSchema() *builder {
	p := &w.params
	var s builder
	if p.schemaName == "" {
		w.add(Added, "name of the schema of the answer, which this form demands", "")
		s.str("name", "answer")
	} else {
		s.str("name", p.schemaName)
	}
	s.raw("schema", p.schema)
	s.raw("strict", p.schemaStrict)
	return &s
}

// chatTurn writes a message; its results of tools are a message each.
func (w *writer) chatTurn(m *message) [][]byte {
	name := "user"
	switch m.role {
	case assistant:
		name = "assistant"
	case system:
		name = "system"
	}
	var out [][]byte
	var rest []part
	for i := range m.parts {
		p := &m.parts[i]
		if p.kind != result {
			rest = append(rest, *p)
			continue
		}
		var b builder
		b.str("role", "tool")
		b.str("tool_call_id", p.id)
		if p.isError {
			w.leave("that a tool result is an error", m)
		}
		if s, ok := lone(p.parts, true); ok {
			b.str("content", s)
		} else {
			var blocks [][]byte
			for j := range p.parts {
				if q := &p.parts[j]; q.kind == text {
					blocks = append(blocks, obj("type", "text", "text", q.text))
				} else {
					w.leave(q.what()+" in a tool result", m)
				}
			}
			if len(blocks) == 0 {
				b.str("content", "")
			} else {
				b.raw("content", array(blocks))
			}
		}
		out = append(out, b.bytes())
	}
	if len(out) > 0 && len(rest) == 0 {
		return out
	}
	if b := w.chatMessage(name, rest, m); b != nil {
		out = append(out, b)
	}
	return out
}

func (w *writer) chatMessage(name string, parts []part, m *message) []byte {
	var blocks, calls [][]byte
	var texts []part
	for i := range parts {
		p := &parts[i]
		if p.kind == call && name == "assistant" {
			var f, o builder
			f.str("name", p.name)
			f.raw("arguments", argsText(p))
			o.str("id", p.id)
			o.str("type", "function")
			o.raw("function", f.bytes())
			if w.same && p.raw != nil && p.typ == "function" {
				calls = append(calls, p.raw)
			} else {
				calls = append(calls, o.bytes())
			}
			continue
		}
		if b := w.chatBlock(name, p, m); b != nil {
			blocks = append(blocks, b)
			texts = append(texts, *p)
		}
	}
	if len(blocks) == 0 && len(calls) == 0 {
		return nil
	}
	var b builder
	b.str("role", name)
	if s, ok := lone(texts, !w.same); ok {
		b.str("content", s)
	} else if len(blocks) > 0 {
		b.raw("content", array(blocks))
	} else {
		b.raw("content", []byte("null"))
	}
	if len(calls) > 0 {
		b.raw("tool_calls", array(calls))
	}
	return b.bytes()
}

func (w *writer) chatBlock(name string, p *part, m *message) []byte {
	switch {
	case w.same && isObject(p.raw) && (p.kind == text || p.kind == media):
		return p.raw
	case p.kind == text && p.typ == "refusal" && name == "assistant":
		return obj("type", "refusal", "refusal", p.text)
	case p.kind == text:
		return obj("type", "text", "text", p.text)
	case p.kind == media && name == "user":
		if b := chatMedia(p); b != nil {
			return b
		}
		w.leave(unplaced(p), m)
		return nil
	case p.kind == media:
		w.leave(p.what()+" that is not the user's", m)
		return nil
	}
	w.leave(p.what(), m)
	return nil
}

// unplaced names media that a form does not take.
func unplaced(p *part) string {
	switch {
	case p.fileID != "":
		return p.what() + " that another provider keeps"
	case p.data == "":
		return p.what() + " by address"
	case p.mime != "":
		return p.what() + " of type " + word(p.mime)
	}
	return p.what()
}

func chatMedia(p *part) []byte {
	var b, in builder
	switch {
	case p.media == "image" && (p.data != "" || web(p.url)):
		address := p.url
		if p.data != "" {
			address = p.dataURL()
		}
		in.str("url", address)
		in.opt("detail", p.detail)
		b.str("type", "image_url")
		b.raw("image_url", in.bytes())
	case p.media == "audio" && p.data != "" && audioFormat(p.mime) != "":
		b.str("type", "input_audio")
		b.raw("input_audio", obj("data", p.data, "format", audioFormat(p.mime)))
	case p.media == "document" && p.data != "":
		in.opt("filename", p.name)
		in.str("file_data", p.dataURL())
		b.str("type", "file")
		b.raw("file", in.bytes())
	default:
		return nil
	}
	return b.bytes()
}

// audioFormat returns OpenAI's word for a kind of sound, or "".
func audioFormat(mime string) string {
	switch strings.TrimPrefix(strings.TrimPrefix(mime, "audio/"), "x-") {
	case "wav", "wave":
		return "wav"
	case "mp3", "mpeg":
		return "mp3"
	}
	return ""
}
