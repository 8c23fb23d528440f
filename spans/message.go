package spans

import "time"

// Message is one message, or the result of a tool call. Only Raw is required.
type Message struct {
	// Raw is its JSON as the loop spells it (content).
	Raw []byte
	// Role is user, assistant, toolResult, or what the loop says.
	Role string
	// ToolCallID is the call that a tool result answers.
	ToolCallID string
	// Time is the time inside the message; zero when it has none.
	Time time.Time
	// Provenance says where the message came from when it is part of a request.
	Provenance Provenance
}

// Usage are the counts of tokens as a provider reports them, and the rule that normalises them.
type Usage struct {
	Input, Output, Reasoning, CacheRead, CacheWrite, Total int64
	// Rule says whether Input includes cached tokens, and Output reasoning; empty means that they do.
	Rule UsageRule
	// LowerBound says that the true usage is this or more: the source does not have all of it.
	LowerBound bool
}

// Parameters are what a request asks for in addition to its messages. A zero field is not stated. Where a payload has
// system prompt and tools, those count.
type Parameters struct {
	// System and Tools are the raw JSON of system prompt and tool catalogue (content).
	System, Tools []byte
	// Model is the one asked for, Level the reasoning effort, Format the format of the output, as the provider spells
	// them.
	Model, Level, Format string
	// MaxTokens is the limit of output tokens.
	MaxTokens   *int64
	Temperature *float64
}
