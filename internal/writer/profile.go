package writer

import (
	"github.com/otelagent/otelagent/spans"
)

// The keys of OpenTelemetry's GenAI conventions (spans.Profile) are written in this file and nowhere else, but for
// those that are part of an address (session.id, gen_ai.conversation.id, gen_ai.agent.name, gen_ai.tool.call.id).

// Operation names.
const (
	operationRun  = "invoke_agent"
	operationTurn = "chat"
	operationTool = "execute_tool"
)

// profileModel says who is asked.
func (a *attrs) profileModel(operation, provider, model string) {
	a.kv = append(a.kv, spans.OperationNameKey.String(operation))
	a.name(spans.ProviderNameKey, provider)
	a.name(spans.RequestModelKey, model)
}

// profileTool says which tool is called.
func (a *attrs) profileTool(name, kind string) {
	a.kv = append(a.kv, spans.OperationNameKey.String(operationTool))
	a.name(spans.ToolNameKey, name)
	a.name(spans.ToolTypeKey, kind)
}

// profileRequest says what was asked for.
func (a *attrs) profileRequest(req *Request) {
	a.name(spans.RequestModelKey, req.Model)
	a.name(spans.RequestReasoningLevelKey, req.Level)
	if req.MaxTokens != nil {
		a.int(spans.RequestMaxTokensKey, *req.MaxTokens)
	}
	if req.Temperature != nil {
		a.kv = append(a.kv, spans.RequestTemperatureKey.Float64(*req.Temperature))
	}
	switch req.Format {
	case "":
	case "text":
		a.kv = append(a.kv, spans.OutputTypeKey.String("text"))
	default: // every other format that loops know is a form of JSON
		a.kv = append(a.kv, spans.OutputTypeKey.String("json"))
	}
}

// profileReply says what came back.
func (a *attrs) profileReply(res *TurnResult) {
	a.name(spans.ResponseModelKey, res.Model)
	a.id(spans.ResponseIDKey, res.ResponseID)
	if r := finishReason(res); r != "" {
		a.kv = append(a.kv, spans.FinishReasonsKey.StringSlice([]string{r}))
	}
	if res.FirstChunk > 0 {
		a.kv = append(a.kv, spans.TimeToFirstChunkKey.Float64(res.FirstChunk.Seconds()))
	}
}

// finishReason is the loop's stop reason in the values of the conventions; a value without a counterpart stays.
func finishReason(res *TurnResult) string {
	if res.Failed {
		return "error"
	}
	switch res.StopReason {
	case "end_turn", "endTurn", "stop_sequence", "completed", "STOP":
		return "stop"
	case "max_tokens", "maxTokens", "max_output_tokens", "MAX_TOKENS":
		return "length"
	case "toolUse", "tool_use", "tool_calls", "toolCalls", "function_call":
		return "tool_call"
	case "SAFETY":
		return "content_filter"
	case "aborted":
		return "error"
	}
	return cleanName(res.StopReason)
}

// profileUsageKeys returns the standard keys of the normalised counts.
func profileUsageKeys(p spans.Profile) usageKeys {
	written := spans.GenAIUsageCacheCreationKey
	if p == spans.Profile202610 {
		written = spans.GenAIUsageCacheWriteKey
	}
	return usageKeys{spans.GenAIUsageInputKey, spans.GenAIUsageOutputKey, spans.GenAIUsageReasoningKey,
		spans.GenAIUsageCacheReadKey, written, spans.UsageLowerBoundKey}
}
