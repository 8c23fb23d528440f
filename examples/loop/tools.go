package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The tools of each role, as the provider wants them.
var (
	keeperTools = json.RawMessage(`[
{"type":"function","function":{"name":"list_files","description":"Lists the files of the folder.",` +
		`"parameters":{"type":"object","properties":{}}}},
{"type":"function","function":{"name":"read_file","description":"Reads a file.","parameters":{"type":"object",` +
		`"properties":{"path":{"type":"string"}},"required":["path"]}}},
{"type":"function","function":{"name":"write_file","description":"Writes a file.","parameters":{"type":"object",` +
		`"properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"]}}},
{"type":"function","function":{"name":"review","description":"Asks a reviewer about a file.",` +
		`"parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}
]`)
	reviewerTools = json.RawMessage(`[
{"type":"function","function":{"name":"read_file","description":"Reads a file.","parameters":{"type":"object",` +
		`"properties":{"path":{"type":"string"}},"required":["path"]}}}
]`)
)

// maxResult bounds what a tool gives back, in bytes.
const maxResult = 2000

// fileTool runs a tool that works on the folder. Cut says that the result was longer.
func fileTool(root *os.Root, name string, args json.RawMessage) (result string, cut bool, err error) {
	var a struct{ Path, Text string }
	if err := json.Unmarshal(args, &a); err != nil {
		return "", false, fmt.Errorf("arguments: %w", err)
	}
	switch name {
	case "list_files":
		var names []string
		err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, path)
			}
			return err
		})
		result = strings.Join(names, "\n")
	case "read_file":
		var text []byte
		text, err = root.ReadFile(a.Path)
		result = string(text)
	case "write_file":
		err = root.WriteFile(a.Path, []byte(a.Text), 0o600)
		result = fmt.Sprintf("%d bytes written", len(a.Text))
	default:
		return "", false, fmt.Errorf("there is no tool %s", name)
	}
	if err != nil {
		return "", false, err
	}
	if len(result) > maxResult {
		return strings.ToValidUTF8(result[:maxResult], ""), true, nil
	}
	return result, false, nil
}

// summarise says what messages were about: which tools were called, and with what. An agent in earnest asks a model.
func summarise(gone []known) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Summary of %d earlier messages.", len(gone))
	for _, m := range gone {
		var a answer
		if json.Unmarshal(m.raw, &a) != nil {
			continue
		}
		switch roleOf(m.raw) {
		case "user":
			fmt.Fprintf(&b, "\nThe user asked: %s", a.Content)
		case "assistant":
			for _, c := range a.ToolCalls {
				fmt.Fprintf(&b, "\nCalled %s(%s).", c.Function.Name, c.Function.Arguments)
			}
		}
	}
	return b.String()
}
