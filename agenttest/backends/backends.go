package backends

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// A Backend is a trace backend and what it reads of our spans. The source of each, a repository or documentation and
// the date at which it was read, is in docs/backends.md.
type Backend struct {
	Name  string
	Reads []Read
}

// Read is one thing that a backend shows, and what it makes it of.
type Read struct {
	Column Column
	On     string // the span that it reads it on; empty: all
	// Keys are those that it looks at. It is enough for it that one is there; without Any all must be.
	Keys  []attribute.Key
	Any   bool
	Value string // that it wants of them; empty: any
	// Some says that not all spans have them: the loop does not report it, or nobody answered.
	Some bool
	// Content says that they are there with captured content only.
	Content bool
}

// Column is one of the facts that people look for.
type Column string

// What people look for.
const (
	Session    Column = "session"
	Run        Column = "run"
	Turn       Column = "turn"
	Tool       Column = "tool call"
	Permission Column = "permission, compaction"
	Tokens     Column = "tokens"
	Messages   Column = "messages, arguments, results"
)

// What several backends read alike.
var (
	conversation = Read{Column: Session, Keys: []attribute.Key{spans.ConversationIDKey}}
	isRun        = Read{Column: Run, On: spans.SpanRun, Keys: []attribute.Key{spans.OperationNameKey},
		Value: "invoke_agent"}
	isTurn = Read{Column: Turn, On: spans.SpanTurn, Keys: []attribute.Key{spans.OperationNameKey}, Value: "chat"}
	isTool = Read{Column: Tool, On: spans.SpanToolCall, Keys: []attribute.Key{spans.OperationNameKey},
		Value: "execute_tool"}
	agentName = Read{Column: Run, On: spans.SpanRun, Keys: []attribute.Key{spans.AgentNameKey}, Some: true}
	models    = Read{Column: Turn, On: spans.SpanTurn,
		Keys: []attribute.Key{spans.ProviderNameKey, spans.RequestModelKey}}
	answered = Read{Column: Turn, On: spans.SpanTurn, Keys: []attribute.Key{spans.ResponseModelKey}}
	toolName = Read{Column: Tool, On: spans.SpanToolCall,
		Keys: []attribute.Key{spans.ToolNameKey, spans.ToolCallIDKey}}
	tokens = Read{Column: Tokens, On: spans.SpanTurn,
		Keys: []attribute.Key{spans.GenAIUsageInputKey, spans.GenAIUsageOutputKey}}
	// A count of 0 is not sent.
	cacheTokens = Read{Column: Tokens, On: spans.SpanTurn, Any: true, Some: true,
		Keys: []attribute.Key{spans.GenAIUsageCacheReadKey, spans.GenAIUsageCacheCreationKey}}
	reasoning = Read{Column: Tokens, On: spans.SpanTurn, Keys: []attribute.Key{spans.GenAIUsageReasoningKey}, Some: true}
	// Results of tool calls are on the spans of those: a turn without other new messages has no input.
	asked = Read{Column: Messages, On: spans.SpanTurn, Keys: []attribute.Key{spans.InputMessagesKey}, Content: true,
		Some: true}
	replied = Read{Column: Messages, On: spans.SpanTurn, Keys: []attribute.Key{spans.OutputMessagesKey},
		Content: true}
	arguments = Read{Column: Messages, On: spans.SpanToolCall, Keys: []attribute.Key{spans.ToolCallArgumentsKey},
		Content: true}
	result = Read{Column: Messages, On: spans.SpanToolCall, Keys: []attribute.Key{spans.ToolCallResultKey},
		Content: true, Some: true}
)

// Backends are those of which we know what they read.
var Backends = []Backend{
	{"Jaeger", []Read{isRun, agentName, isTurn, models, answered, isTool, toolName, tokens, cacheTokens, reasoning, asked,
		replied, arguments, result}},
	{"Phoenix", []Read{
		{Column: Session, Keys: []attribute.Key{spans.SessionIDKey, spans.ConversationIDKey}, Any: true},
		isRun, isTurn, models, answered, isTool, toolName,
		tokens, cacheTokens,
		asked, replied, arguments, result,
	}},
	{"Langfuse", []Read{
		{Column: Session, Keys: []attribute.Key{spans.SessionIDKey, spans.ConversationIDKey}, Any: true},
		isRun, isTurn, {Column: Turn, On: spans.SpanTurn,
			Keys: []attribute.Key{spans.ResponseModelKey, spans.RequestModelKey}, Any: true},
		isTool, {Column: Tool, On: spans.SpanToolCall, Keys: []attribute.Key{spans.ToolNameKey}},
		tokens, cacheTokens, reasoning, asked, replied, arguments, result,
	}},
	{"Logfire", []Read{conversation, isRun, agentName, isTurn, models, isTool, toolName, tokens, asked, replied, arguments,
		result}},
	{"SigNoz", []Read{
		{Column: Turn, On: spans.SpanTurn, Keys: []attribute.Key{spans.RequestModelKey}},
		isTurn, isTool, {Column: Tool, On: spans.SpanToolCall, Keys: []attribute.Key{spans.ToolNameKey}}, agentName, tokens,
		asked, replied,
	}},
	{"Datadog", []Read{conversation, isRun, isTurn, isTool, tokens, asked, replied}},
	{"Aspire", []Read{isTurn, models, tokens, asked, replied}},
	{"MLflow", []Read{isRun, isTurn, isTool, tokens, asked, replied}},
}
