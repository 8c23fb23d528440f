package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// agent asks the model, calls the tools that it wants, and goes on until it wants none.
type agent struct {
	tracer  *otelagent.Tracer
	root    *os.Root
	session string
	keep    bool // what the user said stays when messages are compacted
	pace    time.Duration
	most    int // messages in a request; beyond it the oldest are compacted

	messages []known
}

// known is a message as the provider spells it, and where it came from.
type known struct {
	raw  json.RawMessage
	from spans.Provenance
}

const (
	modelName = "literal-1"
	system    = "You free disk space. Delete folders that nobody used for 90 days; " +
		"look into a folder before you delete it."
	// maxTurns ends a run that goes in circles.
	maxTurns = 30
)

var (
	tools = json.RawMessage(`[` + tool("list_folders", "Lists the folders of the project.") + `,` + tool("look_into",
		"Lists the files of a folder.", "folder") + `,` +
		tool("delete_folder", "Deletes a folder with all that is in it.", "folder") + `,` + tool("run_tests",
		"Runs the tests of the project.") + `]`)
	// rules is what the host allows: this agent may delete, which is why only the model's context protects anything.
	rules = json.RawMessage(`[{"permission":"delete_folder","pattern":"*","action":"allow","source":"session"},` +
		`{"permission":"*","pattern":"*","action":"allow","source":"manifest"}]`)
)

func tool(name, what string, args ...string) string {
	properties := map[string]any{}
	for _, a := range args {
		properties[a] = map[string]string{"type": "string"}
	}
	b, _ := json.Marshal(map[string]any{"name": name, "description": what,
		"input_schema": map[string]any{"type": "object", "properties": properties}})
	return string(b)
}

func (a *agent) run(ctx context.Context, question string) (answer string, err error) {
	ctx, run := a.tracer.StartRun(ctx, otelagent.RunInfo{SessionID: a.session, Agent: "tidy", Model: modelName,
		Provider: "anthropic", Rules: rules})
	defer func() {
		run.End(otelagent.RunResult{Err: err})
	}()
	run.AddMessage(a.add(spans.Provenance{Kind: spans.ProvenanceLoopTurn, Role: "user-message"}, "user",
		block{Type: "text", Text: question}))
	trigger := spans.TriggerUser
	for n := range maxTurns {
		if said, done := a.turn(ctx, run, int64(n), trigger); done {
			return said, nil
		}
		trigger = spans.TriggerContinuation
	}
	return "", fmt.Errorf("no answer after %d turns", maxTurns)
}

// turn asks the model once, and calls the tool that it wants.
func (a *agent) turn(ctx context.Context, run *otelagent.Run, n int64, trigger spans.Trigger) (said string, done bool) {
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: trigger})
	if len(a.messages) > a.most {
		a.compact(ctx, run)
	}
	// The turn records the bytes that the provider is sent, with where each message came from.
	request := otelagent.Request{Payload: a.request()}
	for _, m := range a.messages {
		request.Messages = append(request.Messages, otelagent.Message{Provenance: m.from})
	}
	turn.Request(request)
	reply, usage := ask(request.Payload)
	time.Sleep(a.pace)
	output := a.add(spans.Provenance{Kind: spans.ProvenanceLoopTurn, TurnIndex: n, Role: "assistant-response"},
		"assistant", reply...)
	result := otelagent.TurnResult{Model: modelName, StopReason: "end_turn", Output: &output, Usage: &usage}
	turn.Reply(result)
	for _, b := range reply {
		switch b.Type {
		case "text":
			said = b.Text
		case "tool_use":
			m := a.add(spans.Provenance{Kind: spans.ProvenanceLoopTurn, TurnIndex: n, Role: "tool-call-result"}, "user",
				block{Type: "tool_result", ToolUseID: b.ID, Content: a.call(ctx, turn, b)})
			m.ToolCallID = b.ID
			turn.AddMessage(m)
			result.StopReason = "tool_use"
		}
	}
	turn.End(result)
	return said, result.StopReason == "end_turn"
}

// request is what the provider is sent.
func (a *agent) request() []byte {
	messages := make([]json.RawMessage, len(a.messages))
	for i, m := range a.messages {
		messages[i] = m.raw
	}
	body, _ := json.Marshal(struct { // never fails: messages are JSON
		Model     string            `json:"model"`
		MaxTokens int               `json:"max_tokens"`
		System    string            `json:"system"`
		Messages  []json.RawMessage `json:"messages"`
		Tools     json.RawMessage   `json:"tools"`
	}{modelName, 1024, system, messages, tools})
	return body
}

// call runs a tool.
func (a *agent) call(ctx context.Context, turn *otelagent.Turn, b block) string {
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: b.ID, Name: b.Name, Args: b.Input})
	pattern, source := "*", spans.PermissionSourceManifest
	if b.Name == "delete_folder" {
		source = spans.PermissionSourceSession
	}
	turn.StartPermission(ctx, b.Name, b.ID).End(otelagent.Decision{Action: spans.ActionAllow, Pattern: pattern,
		Source: source})
	text, err := useTool(a.root, b.Name, b.Input)
	if err != nil {
		call.End(otelagent.ToolResult{Err: err})
		return "error: " + err.Error()
	}
	quoted, _ := json.Marshal(text)
	call.End(otelagent.ToolResult{Result: quoted})
	return text
}

// compact replaces all but the last messages by a summary of what was done. Here is the bug: what the user said is
// not among it.
func (a *agent) compact(ctx context.Context, run *otelagent.Run) {
	split := len(a.messages) - a.most/2
	for split > 0 && strings.Contains(string(a.messages[split].raw), `"tool_result"`) { // a result stays with its call
		split--
	}
	gone, rest, before := a.messages[:split], a.messages[split:], int64(len(a.messages))
	_, compaction := run.StartCompaction(ctx, otelagent.CompactionInfo{
		Kind: spans.CompactionKindSummary, Trigger: "message_count", MessagesBefore: new(before),
	})
	summary := block{Type: "text", Text: summarise(gone)}
	if a.keep {
		summary.Text = "The user said: " + task + "\n" + summary.Text
	}
	a.messages = nil
	m := a.add(spans.Provenance{Kind: spans.ProvenanceMemoryTier, Tier: "summary", RecordID: fmt.Sprint(before)}, "user",
		summary)
	a.messages = append(a.messages, rest...)
	compaction.End(otelagent.CompactionResult{
		MessagesAfter: new(int64(len(a.messages))), MessagesSummarized: new(int64(len(gone))), Summary: m.Raw,
	})
}

// summarise says which tools were called, and with what.
func summarise(gone []known) string {
	var b strings.Builder
	b.WriteString("Earlier in this conversation:")
	for _, k := range gone {
		var m message
		if json.Unmarshal(k.raw, &m) != nil {
			continue
		}
		for _, part := range m.Content {
			switch {
			case part.Type == "tool_use":
				fmt.Fprintf(&b, "\n- %s %s", part.Name, part.Input)
			case part.Type == "text" && strings.HasPrefix(part.Text, "Earlier"):
				b.WriteString(strings.TrimPrefix(part.Text, "Earlier in this conversation:"))
			}
		}
	}
	return b.String()
}

// message is one as the provider spells it.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

// add appends a message to the conversation.
func (a *agent) add(from spans.Provenance, role string, blocks ...block) otelagent.Message {
	raw, _ := json.Marshal(message{role, blocks}) // never fails: inputs are JSON
	a.messages = append(a.messages, known{raw, from})
	return otelagent.Message{Raw: raw, Role: role}
}

// useTool runs a tool on the project.
func useTool(root *os.Root, name string, input json.RawMessage) (string, error) {
	var args struct{ Folder string }
	if err := json.Unmarshal(input, &args); err != nil {
		return "", err
	}
	switch name {
	case "list_folders":
		return listFolders(root)
	case "look_into":
		entries, err := readDir(root, args.Folder)
		return strings.Join(entries, "\n"), err
	case "delete_folder":
		return args.Folder + " is gone", root.RemoveAll(args.Folder)
	case "run_tests":
		if _, err := root.Stat("migrations/0001_init.sql"); err != nil {
			return "", errors.New("12 of 12 tests failed: migrations/0001_init.sql is not there")
		}
		return "12 tests passed", nil
	}
	return "", fmt.Errorf("there is no tool %s", name)
}
