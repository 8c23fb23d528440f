package inspect

import (
	"encoding/json"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
)

// catalogueNames returns the names of a catalogue of tools, at most 1,000: a list as phi-core, Anthropic (name),
// OpenAI (function.name, or name), Bedrock (toolSpec.name) and Gemini (functionDeclarations) spell it, the tools of a
// provider by their type, or an object with a member a tool. ok is false for any other value.
func catalogueNames(raw string) (names []string, ok bool) {
	const most = 1000
	type named struct{ Name string }
	type tool struct {
		named
		Type         string
		Function     named
		Spec         named   `json:"toolSpec"`
		Declarations []named `json:"functionDeclarations"`
	}
	add := func(name string) bool {
		if name != "" && len(names) < most {
			names = append(names, name)
		}
		return name != ""
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(raw), &list) != nil {
		fields, isObject := members(raw)
		for _, f := range fields {
			add(f.name)
		}
		return names, isObject
	}
	for _, e := range list {
		var x tool
		var name string
		if json.Unmarshal(e, &name) == nil {
			add(name)
			continue
		}
		if json.Unmarshal(e, &x) != nil {
			return nil, false
		}
		found := add(x.Name) || add(x.Function.Name) || add(x.Spec.Name)
		for _, d := range x.Declarations {
			found = add(d.Name) || found
		}
		if !found {
			add(x.Type)
		}
	}
	return names, true
}

// called returns the names of the tools that a turn called, each once, in their order.
func called(turn *session.Turn) []string {
	var names []string
	for _, c := range turn.ToolCalls {
		if c.Name != "" && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
