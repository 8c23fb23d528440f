package stats

// Report is the result of Collect.
type Report struct {
	Format int `json:"format"`
	By     By  `json:"by,omitempty"`
	// Total is of everything, Groups are parts of it, those with the most turns first (with ByTool: calls), then by
	// name. Groups by tool have tool calls only, groups by provider turns only.
	Total  Group   `json:"total"`
	Groups []Group `json:"groups,omitempty"`
	// Tools are the tool calls by name, those with the most calls first.
	Tools       []Tool       `json:"tools,omitempty"`
	Compactions []Compaction `json:"compactions,omitempty"`
	Permissions []Permission `json:"permissions,omitempty"`
	// NoPrice names the models of turns whose cost could not be computed, those with the most turns first.
	NoPrice []NoPrice `json:"no_price,omitempty"`
}

// Group are the statistics of some turns and tool calls. A Dist is nil where nothing is known.
type Group struct {
	// Name is empty for the total, and for what does not say by what it is grouped.
	Name     string `json:"name,omitempty"`
	Sessions int64  `json:"sessions"`
	Turns    int64  `json:"turns"`
	// Failed are turns whose reply is an error, Retries attempts beyond the first, WithoutUsage turns that report no
	// tokens.
	Failed       int64 `json:"failed"`
	Retries      int64 `json:"retries"`
	WithoutUsage int64 `json:"without_usage"`
	// Utility are the turns that are no part of the conversation.
	Utility int64 `json:"utility,omitempty"`
	// Tokens per turn. LowerBound says that the true sums are these or more.
	LowerBound bool  `json:"lower_bound,omitempty"`
	Input      *Dist `json:"input,omitempty"`
	Output     *Dist `json:"output,omitempty"`
	CacheRead  *Dist `json:"cache_read,omitempty"`
	CacheWrite *Dist `json:"cache_write,omitempty"`
	Reasoning  *Dist `json:"reasoning,omitempty"`
	// Nanoseconds per turn: from start to end, of the model call alone, to the first piece of the reply.
	Duration   *Dist `json:"duration_ns,omitempty"`
	ModelCall  *Dist `json:"model_call_ns,omitempty"`
	FirstChunk *Dist `json:"first_chunk_ns,omitempty"`
	// CacheRate is the part of input tokens that came from a cache; nil where no input, or nothing of caches, is known.
	// CacheIdle says that it is zero over two turns or more although the provider caches: one that is known for it, or
	// whose other turns show it.
	CacheRate *float64 `json:"cache_rate,omitempty"`
	CacheIdle bool     `json:"cache_idle,omitempty"`
	// Cost is what loops reported, by currency: of turns, and in the total and in groups by session of compactions.
	Cost []Cost `json:"cost,omitempty"`
	// Computed is what the turns cost by Options.Prices; nil without.
	Computed *Cost `json:"computed_cost,omitempty"`

	ToolCalls    int64            `json:"tool_calls"`
	ToolOutcomes map[string]int64 `json:"tool_outcomes,omitempty"`
	ToolDuration *Dist            `json:"tool_duration_ns,omitempty"`
}

// Cost is an amount of money, and of how many turns and compactions.
type Cost struct {
	Currency    string  `json:"currency"`
	Amount      float64 `json:"amount"`
	Turns       int64   `json:"turns"`
	Compactions int64   `json:"compactions,omitempty"`
}

// Tool are the calls of one tool.
type Tool struct {
	Name     string           `json:"name"`
	Calls    int64            `json:"calls"`
	Outcomes map[string]int64 `json:"outcomes"`
	Duration *Dist            `json:"duration_ns,omitempty"`
}

// Compaction are the compactions of one kind and trigger. Before and After are their tokens, UsedInput and UsedOutput
// those of their own model calls, which are part of no turn; LowerBound is as in Group.
type Compaction struct {
	Kind       string `json:"kind"`
	Trigger    string `json:"trigger"`
	N          int64  `json:"n"`
	Before     *Dist  `json:"input_tokens,omitempty"`
	After      *Dist  `json:"output_tokens,omitempty"`
	UsedInput  *Dist  `json:"used_input_tokens,omitempty"`
	UsedOutput *Dist  `json:"used_output_tokens,omitempty"`
	LowerBound bool   `json:"lower_bound,omitempty"`
}

// Permission are the permission evaluations of one action and source.
type Permission struct {
	Action string `json:"action"`
	Source string `json:"source"`
	N      int64  `json:"n"`
	Wait   *Dist  `json:"wait_ns,omitempty"`
}

// NoPrice is a model that has no price.
type NoPrice struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
	Turns    int64  `json:"turns"`
}
