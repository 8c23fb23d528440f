package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// saying is what somebody said, as far as it is shown: neighbours of one label are one.
type saying struct {
	label string // session.Saying.Label
	text  string
}

// ofModel reports whether a model said it.
func ofModel(s *saying) bool {
	return s.label == session.ByModel || s.label == string(session.SaidThinking)
}

// shortLabel is a label for little room.
func shortLabel(label string) string {
	switch label {
	case string(session.SaidThinking):
		return "think"
	case "extension":
		return "ext"
	}
	return cut(Clean(label), labelWidth-1)
}

// sayings returns what a message says. An assistant's tool calls are not among it: they are in the tree.
func sayings(body string) []saying {
	var out []saying
	for _, s := range session.Sayings(body) {
		if s.Kind == session.SaidCall || strings.TrimSpace(s.Text) == "" {
			continue
		}
		label := s.Label()
		if n := len(out); n > 0 && out[n-1].label == label {
			out[n-1].text += " " + s.Text
			continue
		}
		out = append(out, saying{label, s.Text})
	}
	return out
}

// resultText returns a tool result in one line: its texts, or its JSON.
func resultText(body string) string {
	fields, ok := members(body)
	isMessage := slices.ContainsFunc(fields, func(m member) bool { return m.name == "content" })
	var texts []string
	if ok && isMessage { // else what members it has are its own
		for _, s := range sayings(body) {
			texts = append(texts, s.text)
		}
	}
	if len(texts) == 0 {
		return valueText([]byte(body))
	}
	return strings.Join(texts, " ")
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

// eventText returns an event in words, without its address.
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
		text := valueText(f.value)
		if said := saidText(f.value); said != "" {
			text = said
		} else if words := usageText(f); words != "" {
			text = words
		}
		out = append(out, f.name+": "+text)
	}
	return strings.Join(out, ", ")
}

// saidText returns what a value that is a message says, its calls by name; empty of any other.
func saidText(value []byte) string {
	var head struct{ Role string }
	if json.Unmarshal(value, &head) != nil || head.Role == "" {
		return ""
	}
	var out []string
	for _, s := range session.Sayings(string(value)) {
		switch {
		case s.Kind == session.SaidCall:
			out = append(out, "[calls "+s.Name+"]")
		case strings.TrimSpace(s.Text) != "":
			out = append(out, s.Text)
		}
	}
	return strings.Join(out, " ")
}

// usageText returns a member of an event that has tokens in words; empty for any other.
func usageText(f member) string {
	var u struct {
		session.Usage
		Input  *int64 `json:"input"`
		Output *int64 `json:"output"`
	}
	if f.name != "usage" || json.Unmarshal(f.value, &u) != nil || u.Input == nil || u.Output == nil {
		return ""
	}
	u.Usage.Input, u.Usage.Output = *u.Input, *u.Output
	return strings.Join(usageWords(u.Usage), separator)
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
