package otelagent

import (
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Message is one message or tool result: its JSON as the loop spells it (Raw, content), its Role (user, assistant,
// toolResult, or the loop's own), the call that a tool result answers (ToolCallID), the time inside the message (Time),
// and in a request where it came from (Provenance). Only Raw is required.
type Message = spans.Message

// Usage are the counts of tokens as a provider reports them (Input, Output, Reasoning, CacheRead, CacheWrite, Total),
// and the Rule that normalises them: whether Input includes cached tokens. An empty Rule means that it does. LowerBound
// says that the true usage is this or more.
type Usage = spans.Usage

// ParseReply reads the reply of a model API from the body of the HTTP response, whole or streamed. It recognizes the
// API by its keys:
//
//   - Anthropic messages
//   - OpenAI chat completions, and servers that are compatible with it
//   - OpenAI responses
//   - Gemini generateContent
//   - Ollama chat
//   - phi-core: an assistant message, or AgentEvents of which the last assistant message counts
//
// A streamed reply is a sequence of server-sent events, JSON lines, or a JSON array. It gives the result that the
// whole reply gives.
//
// ParseReply sets Model, ResponseID, StopReason (the API's own value), Usage with its Rule, and Output: the message as
// the next request repeats it; that of OpenAI responses is the array of output items. Of several choices or candidates
// the first counts. Usage is nil when the reply states no count, and when a count is no integer from 0. A reply that is
// an error of the API gives Err, and a nil error.
//
// The error names the key and what is allowed there; the result then holds what could be read. The error of a body
// that ends before its reply wraps [io.ErrUnexpectedEOF]. The result may refer to body, and is valid as long as that
// does not change.
//
// Limits: 208 levels of nesting, 1,024 members of an object, 65,536 elements of an array.
func ParseReply(body []byte) (TurnResult, error) {
	res, err := writer.ParseReply(body)
	return turnResult(&res), err
}
