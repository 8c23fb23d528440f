package writer_test

import (
	"fmt"

	"github.com/otelagent/otelagent/internal/writer"
)

// A streamed reply gives the same result as a whole one; the body is what the HTTP response held.
func ExampleParseReply() {
	body := []byte(`data: {"model":"m-1","choices":[{"delta":{"role":"assistant","content":"21 "}}]}

data: {"model":"m-1","choices":[{"delta":{"content":"degrees."},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":12}}}

data: [DONE]
`)
	result, err := writer.ParseReply(body)
	if err != nil {
		fmt.Println(err) // names the key that is wrong; result holds what could be read
	}
	fmt.Println(result.Model, result.StopReason)
	fmt.Println(result.Usage.Input, result.Usage.CacheRead, result.Usage.Output, result.Usage.Rule)
	fmt.Println(string(result.Output.Raw))
	// turn.End(result)

	// Output:
	// m-1 stop
	// 30 12 7 includes_cache
	// {"role":"assistant","content":"21 degrees."}
}

// The messages of a request have their roles, and the ids of the tool calls that they answer.
func ExampleParseRequest() {
	request, err := writer.ParseRequest([]byte(`{"model":"claude-sonnet-4-5","max_tokens":1024,"messages":[
		{"role":"user","content":"How warm is it?"},
		{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"thermometer","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"21"}]}]}`))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(request.Model, *request.MaxTokens)
	for _, m := range request.Messages {
		fmt.Printf("%s %q\n", m.Role, m.ToolCallID)
	}
	// turn.Request(request)

	// Output:
	// claude-sonnet-4-5 1024
	// user ""
	// assistant ""
	// user "toolu_1"
}
