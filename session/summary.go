package session

import (
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Summary is what a list of sessions shows of one. Stores keep it as a projection: it may lag and can be made anew.
type Summary struct {
	Key
	Status    spans.SessionStatus `json:"status"`
	Agent     string              `json:"agent,omitempty"`
	AgentID   string              `json:"agent_id,omitempty"`
	Model     string              `json:"model,omitempty"`
	Dialect   string              `json:"dialect,omitempty"`
	Start     time.Time           `json:"start"`
	Last      time.Time           `json:"last"`
	Runs      int64               `json:"runs"`
	Turns     int64               `json:"turns"`
	ToolCalls int64               `json:"tool_calls"`
	// Errors counts failed turns and tool calls, Denied denied tool calls and inputs, Defects what was not reconciled
	// (observations left out).
	Errors  int64 `json:"errors"`
	Denied  int64 `json:"denied"`
	Defects int64 `json:"defects"`
	Usage   Usage `json:"usage"`
}
