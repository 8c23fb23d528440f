package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// saying is one thing that was said: who, and what in one line.
type saying struct {
	label string // system, user, think, reply, ...
	text  string
}

// message is what the spellings of messages have in common. Raw pieces are of the body, which is read in one pass.
type message struct {
	role, kind, err string
	content         []byte
	parts           []byte // of the GenAI convention
	data            []byte
}

// readMessage reads a body as a message, and reports whether it is one.
func readMessage(body string) (message, bool) {
	var m message
	c := rawjson.NewCursor([]byte(body), rawjson.MaxDepth)
	if !c.Open('{') {
		return m, false
	}
	ok := true
	for c.More('}') {
		switch key := c.Key(); string(key) {
		case "role":
			ok = text(c.Value(), &m.role) && ok
		case "kind":
			ok = text(c.Value(), &m.kind) && ok
		case "errorMessage":
			ok = text(c.Value(), &m.err) && ok
		case "content":
			m.content = c.Value()
		case "parts":
			m.parts = c.Value()
		case "data":
			m.data = c.Value()
		default:
			c.Value()
		}
	}
	return m, c.End() == nil && ok
}

// text puts what a JSON string says where s points to, nothing for null. It reports false of anything else.
func text(raw []byte, s *string) bool {
	if string(raw) == "null" {
		return true
	}
	said, ok := rawjson.String(raw)
	if ok {
		*s = said
	}
	return ok
}

// part is one piece of a message's content. Tool calls are left out: they are in the tree.
type part struct {
	kind, text, thinking      string
	mimeType, name, path, uri string
	content, response         []byte
}

// readPart reads a valid JSON value as a part, and reports whether it is one: what of it can be read is there in any case.
func readPart(raw []byte) (part, bool) {
	var p part
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if !c.Open('{') {
		return p, string(raw) == "null"
	}
	ok := true
	for c.More('}') {
		var s *string
		switch key := c.Key(); string(key) {
		case "type":
			s = &p.kind
		case "text":
			s = &p.text
		case "thinking":
			s = &p.thinking
		case "mimeType":
			s = &p.mimeType
		case "name":
			s = &p.name
		case "path":
			s = &p.path
		case "uri":
			s = &p.uri
		case "content":
			p.content = c.Value()
			continue
		case "response":
			p.response = c.Value()
			continue
		}
		if value := c.Value(); s != nil {
			ok = text(value, s) && ok
		}
	}
	return p, ok
}

// sayings returns the lines of a message; nothing for one that cannot be read as a message. An assistant's tool calls
// are not among them.
func sayings(body string) []saying {
	m, ok := readMessage(body)
	if !ok {
		return []saying{{"text", valueText([]byte(body))}}
	}
	return m.sayings(body)
}

// sayings is the function of that name for a body that was read.
func (m *message) sayings(body string) []saying {
	label := m.role
	switch m.role {
	case "assistant":
		label = "reply"
	case "toolResult", "tool_result", "tool":
		label = "result"
	case "":
		label = "text"
	}
	content := m.content
	if len(content) == 0 {
		content = m.parts
	}
	if len(content) == 0 {
		if len(m.data) > 0 { // an extension message
			return []saying{{label, strings.TrimSpace(m.kind + " " + compact(m.data))}}
		}
		return []saying{{label, compact([]byte(body))}}
	}
	var out []saying
	add := func(label, text string) {
		if strings.TrimSpace(text) == "" {
			return
		}
		if n := len(out); n > 0 && out[n-1].label == label {
			out[n-1].text += " " + text
			return
		}
		out = append(out, saying{label, text})
	}
	for _, p := range parts(content) {
		if p.text == "" {
			p.text, _ = rawjson.String(p.content) // the GenAI convention has text there
		}
		if p.text == "" && len(p.content) > 0 { // and ACP a block
			if inner, ok := readPart(p.content); ok {
				p.text = inner.text
			}
		}
		switch {
		case p.thinking != "":
			add("think", p.thinking)
		case p.kind == "thinking" || p.kind == "reasoning":
			add("think", p.text)
		case len(p.response) > 0:
			add(label, valueText(p.response))
		case p.text != "":
			add(label, p.text)
		case strings.HasPrefix(strings.ToLower(p.kind), "tool"), p.kind == "dynamic-tool", p.kind == "step-start":
		case p.kind == "resource_link" || p.kind == "file-ref":
			add(label, "["+strings.TrimSpace(p.kind+" "+cmp.Or(p.name, p.path, p.uri))+"]")
		case p.kind == "diff":
			add(label, "["+strings.TrimSpace("diff "+p.path)+"]")
		case p.kind != "" && p.kind != "text":
			add(label, strings.TrimSpace("["+p.kind+" "+p.mimeType)+"]")
		}
	}
	if m.err != "" {
		add("error", m.err)
	}
	return out
}

// parts reads a content, which is valid JSON: a string, a list of parts, or one part.
func parts(raw []byte) []part {
	if s := ""; text(raw, &s) {
		return []part{{kind: "text", text: s}}
	}
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if !c.Open('[') {
		return []part{onePart(raw)}
	}
	var out []part
	for c.More(']') {
		out = append(out, onePart(c.Value()))
	}
	return out
}

// onePart is readPart with a text for what is no part.
func onePart(raw []byte) part {
	p, ok := readPart(raw)
	if !ok && !text(raw, &p.text) {
		p.text = compact(raw)
	}
	return p
}

// resultText returns a tool result in one line: its texts, or its JSON.
func resultText(body string) string {
	if m, ok := readMessage(body); ok && len(m.content) > 0 {
		var texts []string
		for _, s := range m.sayings(body) {
			texts = append(texts, s.text)
		}
		if len(texts) > 0 {
			return strings.Join(texts, " ")
		}
	}
	return valueText([]byte(body))
}

// argsText returns arguments as they would stand between the parentheses of a call: name: value, name: value.
func argsText(body string) string {
	fields, ok := members(body)
	if !ok || len(body) > maxScan { // of a long one members finds the first only
		return valueText([]byte(body))
	}
	var out []string
	for _, f := range fields {
		out = append(out, f.name+": "+valueText(f.value))
	}
	return strings.Join(out, ", ")
}

// eventText returns what an event says beside where it belongs, which its place in the tree tells.
func eventText(body string) string {
	fields, ok := members(body)
	if !ok {
		return valueText([]byte(body))
	}
	fields = slices.DeleteFunc(fields, func(f member) bool {
		switch f.name {
		case "type", "session_id", "loop_id", "agent_id", "turn_index", "tool_call_id", "tool_name", "timestamp":
			return true
		}
		return false
	})
	if len(fields) == 1 {
		return resultText(string(fields[0].value))
	}
	var out []string
	for _, f := range fields {
		out = append(out, f.name+": "+valueText(f.value))
	}
	return strings.Join(out, ", ")
}

type member struct {
	name  string
	value []byte
}

// members returns the first members of a JSON object, in their order; enough of them for a preview.
func members(body string) ([]member, bool) {
	c := rawjson.NewCursor([]byte(body), rawjson.MaxDepth)
	if !c.Open('{') {
		return nil, false
	}
	var out []member
	for size := 0; size < maxScan && c.More('}'); {
		m := member{name: string(c.Key())}
		m.value = c.Value()
		size += len(m.name) + len(m.value)
		out = append(out, m)
	}
	return out, c.Err() == nil
}

// valueText returns a JSON string as its text and anything else as compact JSON.
func valueText(raw []byte) string {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if c.Peek() == '"' {
		if value := c.Value(); c.End() == nil {
			s, _ := rawjson.String(value)
			return s
		}
	}
	return compact(raw)
}

func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
