package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// saying is one thing that was said: who, and what in one line.
type saying struct {
	label string // system, user, think, reply, ...
	text  string
}

// message is what the spellings of messages have in common.
type message struct {
	Role    string          `json:"role"`
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
	Parts   json.RawMessage `json:"parts"` // of the GenAI convention
	Data    json.RawMessage `json:"data"`
	Error   string          `json:"errorMessage"`
}

// part is one piece of a message's content. Tool calls are left out: they are in the tree.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Content  json.RawMessage `json:"content"`
	Response json.RawMessage `json:"response"`
	MimeType string          `json:"mimeType"`
	Name     string          `json:"name"`
	Path     string          `json:"path"`
	URI      string          `json:"uri"`
}

// sayings returns the lines of a message; nothing for one that cannot be read as a message. An assistant's tool calls
// are not among them.
func sayings(body string) []saying {
	var m message
	if json.Unmarshal([]byte(body), &m) != nil {
		return []saying{{"text", valueText([]byte(body))}}
	}
	label := m.Role
	switch m.Role {
	case "assistant":
		label = "reply"
	case "toolResult", "tool_result", "tool":
		label = "result"
	case "":
		label = "text"
	}
	if len(m.Content) == 0 {
		m.Content = m.Parts
	}
	if len(m.Content) == 0 {
		if len(m.Data) > 0 { // an extension message
			return []saying{{label, strings.TrimSpace(m.Kind + " " + compact(m.Data))}}
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
	for _, p := range parts(m.Content) {
		if p.Text == "" {
			_ = json.Unmarshal(p.Content, &p.Text) // the GenAI convention has text there
		}
		if p.Text == "" && len(p.Content) > 0 { // and ACP a block
			var inner part
			if json.Unmarshal(p.Content, &inner) == nil {
				p.Text = inner.Text
			}
		}
		switch {
		case p.Thinking != "":
			add("think", p.Thinking)
		case p.Type == "thinking" || p.Type == "reasoning":
			add("think", p.Text)
		case len(p.Response) > 0:
			add(label, valueText(p.Response))
		case p.Text != "":
			add(label, p.Text)
		case strings.HasPrefix(strings.ToLower(p.Type), "tool"), p.Type == "dynamic-tool", p.Type == "step-start":
		case p.Type == "resource_link" || p.Type == "file-ref":
			add(label, "["+strings.TrimSpace(p.Type+" "+cmp.Or(p.Name, p.Path, p.URI))+"]")
		case p.Type == "diff":
			add(label, "["+strings.TrimSpace("diff "+p.Path)+"]")
		case p.Type != "" && p.Type != "text":
			add(label, strings.TrimSpace("["+p.Type+" "+p.MimeType)+"]")
		}
	}
	if m.Error != "" {
		add("error", m.Error)
	}
	return out
}

// parts reads a content: a string, a list of parts, or one part.
func parts(raw json.RawMessage) []part {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []part{{Type: "text", Text: s}}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []part
	for _, e := range list {
		var p part
		if json.Unmarshal(e, &p) != nil {
			if json.Unmarshal(e, &p.Text) != nil {
				p.Text = compact(e)
			}
		}
		out = append(out, p)
	}
	return out
}

// resultText returns a tool result in one line: its texts, or its JSON.
func resultText(body string) string {
	var r message
	if json.Unmarshal([]byte(body), &r) == nil && len(r.Content) > 0 {
		var texts []string
		for _, s := range sayings(body) {
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
	value json.RawMessage
}

// members returns the first members of a JSON object, in their order; enough of them for a preview.
func members(body string) ([]member, bool) {
	dec := json.NewDecoder(strings.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var out []member
	for size := 0; dec.More() && size < maxScan; {
		name, err := dec.Token()
		m := member{}
		if err != nil || dec.Decode(&m.value) != nil {
			return nil, false
		}
		m.name, _ = name.(string)
		size += len(m.name) + len(m.value)
		out = append(out, m)
	}
	return out, true
}

// valueText returns a JSON string as its text and anything else as compact JSON.
func valueText(raw []byte) string {
	var s string
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'"'}) && json.Unmarshal(raw, &s) == nil {
		return s
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
