package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot/copilottest"
)

type object = copilottest.Data

// script starts a runtime and a model that play one question: a command that needs a permission, and an answer.
func script() (url string, stop func(), err error) {
	model := httptest.NewServer(http.HandlerFunc(answer))
	runtime, err := copilottest.Start(func(p *copilottest.Prompt) {
		messages := []object{{"role": "user", "content": p.Text}}
		p.Says("", "user.message", object{"content": p.Text})
		ask(p, "0", model.URL, messages)
		call := object{"toolCallId": "c1", "toolName": "bash", "arguments": object{"command": "go test ./..."}}
		p.Says("", "tool.execution_start", call)
		p.Decide("", "permission.requested", object{"requestId": "p1", "permissionRequest": object{"kind": "shell",
			"toolCallId": "c1", "fullCommandText": "go test ./...", "intention": "test", "commands": []any{},
			"possiblePaths": []any{}, "possibleUrls": []any{}}})
		p.Says("", "permission.completed", object{"requestId": "p1", "result": object{"kind": "approved"}})
		p.Says("", "tool.execution_complete", object{"toolCallId": "c1", "success": true,
			"result": object{"content": "FAIL TestParse"}})
		p.Says("", "assistant.turn_end", object{"turnId": "0"})
		messages = append(messages, object{"role": "tool", "tool_call_id": "c1", "content": "FAIL TestParse"})
		text := ask(p, "1", model.URL, messages)
		p.Says("", "assistant.message", object{"messageId": "m1", "content": text, "turnId": "1"})
		p.Says("", "assistant.turn_end", object{"turnId": "1"})
		p.Says("", "session.idle", object{})
	})
	if err != nil {
		model.Close()
		return "", nil, err
	}
	return runtime.URL, func() { runtime.Close(); model.Close() }, nil
}

// ask begins a turn and asks the model, through the program.
func ask(p *copilottest.Prompt, turn, url string, messages []object) string {
	p.Says("", "assistant.turn_start", object{"turnId": turn, "model": "scripted-1"})
	body, _ := json.Marshal(object{"model": "scripted-1", "messages": messages}) // never fails
	text, _ := p.Model("", "conversation-agent", url+"/chat/completions", string(body))
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if json.Unmarshal([]byte(text), &reply) != nil || len(reply.Choices) == 0 {
		return ""
	}
	return reply.Choices[0].Message.Content
}

// answer is the model: it wants a command, and answers when it is asked with the result.
func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var request struct{ Messages []json.RawMessage }
	if json.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	message, reason := `"content":"TestParse fails."`, "stop"
	if len(request.Messages) == 1 {
		message, reason = `"content":null,"tool_calls":[{"id":"c1","type":"function",`+
			`"function":{"name":"bash","arguments":"{\"command\":\"go test ./...\"}"}}]`, "tool_calls"
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"chatcmpl-%d","model":"scripted-1","choices":[{"index":0,"finish_reason":%q,`+
		`"message":{"role":"assistant",%s}}],"usage":{"prompt_tokens":%d,"completion_tokens":6,"total_tokens":%d}}`,
		len(request.Messages), reason, message, len(body), len(body)+6)
}
