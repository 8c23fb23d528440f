package main

import (
	"context"
	"fmt"

	"github.com/coder/acp-go-sdk"
)

// agent wants to delete a folder at each prompt, and asks.
type agent struct {
	acp.Agent
	conn      *acp.AgentSideConnection
	connected chan struct{}
	prompts   int
}

func (*agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo: &acp.Implementation{Name: "janitor", Version: "1"}}, nil
}

func (*agent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: "chat-1"}, nil
}

func (a *agent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	<-a.connected
	a.prompts++
	id, folder := acp.ToolCallId(fmt.Sprint("call-", a.prompts)), []string{"build", "src"}[a.prompts-1]
	update := func(u acp.SessionUpdate) error {
		return a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: u})
	}
	err := update(acp.StartToolCall(id, "Delete "+folder, acp.WithStartKind(acp.ToolKindDelete),
		acp.WithStartStatus(acp.ToolCallStatusInProgress), acp.WithStartRawInput(map[string]any{"path": folder})))
	if err != nil {
		return acp.PromptResponse{}, err
	}
	answer, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: p.SessionId,
		ToolCall: acp.ToolCallUpdate{ToolCallId: id},
		Options: []acp.PermissionOption{{Kind: acp.PermissionOptionKindAllowOnce, Name: "Yes", OptionId: "yes"},
			{Kind: acp.PermissionOptionKindRejectOnce, Name: "No", OptionId: "no"}}})
	if err != nil {
		return acp.PromptResponse{}, err
	}
	status, text := acp.ToolCallStatusFailed, "I left "+folder+" as it is."
	if answer.Outcome.Selected != nil && answer.Outcome.Selected.OptionId == "yes" {
		status, text = acp.ToolCallStatusCompleted, "I deleted "+folder+"."
	}
	if err := update(acp.UpdateToolCall(id, acp.WithUpdateStatus(status))); err != nil {
		return acp.PromptResponse{}, err
	}
	usage := acp.Usage{InputTokens: 40 * a.prompts, OutputTokens: 9, TotalTokens: 40*a.prompts + 9}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn, Usage: &usage}, update(acp.UpdateAgentMessageText(text))
}
