package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// shownPart is what somebody said, as far as it is shown: neighbours of one label are one.
type shownPart struct {
	label string // session.MessagePart.Label
	text  string
}

// shortLabels are labels for little room.
var shortLabels = map[string]string{string(session.PartThinking): "think", "extension": "ext"}

func shortLabel(label string) string {
	return cmp.Or(shortLabels[label], cut(Clean(label), labelWidth-1))
}

// shownParts returns what a message says. An assistant's tool calls are not among it: they are in the tree.
func shownParts(body string) []shownPart {
	var out []shownPart
	for _, s := range session.MessageParts(body) {
		if s.Kind == session.PartCall || strings.TrimSpace(s.Text) == "" {
			continue
		}
		label := s.Label()
		if n := len(out); n > 0 && out[n-1].label == label {
			out[n-1].text += " " + s.Text
			continue
		}
		out = append(out, shownPart{label, s.Text})
	}
	return out
}

// resultText returns a tool result in one line: its texts, or its JSON.
func resultText(body string) string {
	said := session.MessageParts(body)
	isMessage := len(said) > 0 && said[0].Kind == session.PartResult // else what members it has are its own
	if !isMessage && !fields(body).Has("content") {
		return valueText([]byte(body))
	}
	texts := each(shownParts(body), func(p shownPart) string { return p.text })
	return cmp.Or(strings.Join(texts, " "), valueText([]byte(body)))
}

// argsText returns arguments as they would be between the parentheses of a call: name: value, name: value.
func argsText(body string) string {
	o := fields(body)
	if o == nil || len(body) > maxScan { // of a long one the beginning is enough
		return valueText([]byte(body))
	}
	var out []string
	for name, value := range o.All() {
		out = append(out, name+": "+valueText(value))
	}
	return strings.Join(out, ", ")
}

// eventText returns an event in words, without its address.
func eventText(body string) string {
	o := fields(body)
	if o == nil {
		return valueText([]byte(body))
	}
	var out []string
	last := ""
	for name, value := range o.All() {
		switch name {
		case "type", "session_id", "loop_id", "agent_id", "turn_index", "tool_call_id", "tool_name", "timestamp":
			continue
		}
		last = string(value)
		text := cmp.Or(saidText(value), valueText(value))
		if u := (session.Usage{}); name == "usage" && fields(last).Has("input") && json.Unmarshal(value, &u) == nil {
			text = strings.Join(usageWords(u), separator)
		}
		out = append(out, name+": "+text)
	}
	if len(out) == 1 {
		return resultText(last)
	}
	return strings.Join(out, ", ")
}

// saidText returns what a value that is a message says, its calls by name; empty of any other.
func saidText(value []byte) string {
	if fields(string(value)).Text("role") == "" {
		return ""
	}
	var out []string
	for _, s := range session.MessageParts(string(value)) {
		switch {
		case s.Kind == session.PartCall:
			out = append(out, "[calls "+s.Name+"]")
		case strings.TrimSpace(s.Text) != "":
			out = append(out, s.Text)
		}
	}
	return strings.Join(out, " ")
}

// fields reads a JSON object, nil for anything else.
func fields(body string) *object.Object {
	o, err := object.Parse([]byte(body))
	if err != nil {
		return nil
	}
	return o
}

// systemText returns the texts of a system prompt in any spelling, else valueText.
func systemText(body string) string {
	var texts []string
	for _, s := range session.MessageParts(body) {
		if s.Kind == session.PartText && !s.Plain {
			texts = append(texts, s.Text)
		}
	}
	return cmp.Or(strings.Join(texts, "\n"), valueText([]byte(body)))
}

// valueText returns a JSON string as its text and anything else as compact JSON.
func valueText(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	if s, ok := rawjson.String(b.Bytes()); ok {
		return s
	}
	return b.String()
}
