package spans

import (
	"math"
	"time"
)

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

// ExcludesCache reports that input does not include cached tokens.
func (r UsageRule) ExcludesCache() bool {
	return r == UsageRuleExcludesCache || r == UsageRuleExcludesCacheAndReasoning
}

// ExcludesReasoning reports that output does not include reasoning.
func (r UsageRule) ExcludesReasoning() bool {
	return r == UsageRuleExcludesReasoning || r == UsageRuleExcludesCacheAndReasoning
}

// Normalised returns the counts under one rule for all providers: input includes cached tokens, output includes
// reasoning.
func (u Usage) Normalised() Usage {
	if u.Rule.ExcludesCache() {
		u.Input = AddCounts(u.Input, AddCounts(u.CacheRead, u.CacheWrite))
	}
	if u.Rule.ExcludesReasoning() {
		u.Output = AddCounts(u.Output, u.Reasoning)
	}
	u.Rule = UsageRuleIncludesCache
	return u
}

// AddCounts adds counts within the bounds of an int64: a source may state nonsense.
func AddCounts(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
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
