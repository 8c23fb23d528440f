package otelcopilot

import (
	"encoding/json"
	"errors"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// record records an event of an agent.
func (s *session) record(a *agent, id string, e *copilot.SessionEvent) {
	at := e.Timestamp
	switch d := e.Data.(type) {
	case *copilot.SessionStartData:
		s.model = value(d.SelectedModel)
	case *copilot.SessionResumeData:
		s.model = value(d.SelectedModel)
	case *copilot.SessionModelChangeData:
		s.model = d.NewModel
	case *copilot.UserMessageData:
		s.start(a, at, spans.ContinuationDefault)
		a.input = append(a.input, otelagent.Message{Role: "user", Time: at,
			Raw: encode(map[string]any{"role": "user", "content": d.Content})})
	case *copilot.AssistantTurnStartData:
		s.begin(a, at, d.TurnID, value(d.Model))
	case *copilot.AssistantMessageDeltaData:
		s.turnOf(a, nil, at).handle.Partial("text", []byte(d.DeltaContent))
	case *copilot.AssistantReasoningDeltaData:
		s.turnOf(a, nil, at).handle.Partial("reasoning", []byte(d.DeltaContent))
	case *copilot.AssistantMessageData:
		t := s.turnOf(a, d.TurnID, at)
		t.said.Output, t.said.Err = message(d), nil
	case *copilot.AssistantUsageData:
		if kind := value(d.InteractionType); ofConversation(kind) {
			t := s.turnOf(a, nil, at)
			t.said.Usage, t.said.Model, t.said.Err = usage(d), d.Model, nil
			t.said.ResponseID, t.said.StopReason = value(d.APICallID), value(d.FinishReason)
		}
	case *copilot.ModelCallFailureData:
		if len(a.turns) > 0 {
			s.turnOf(a, nil, at).said.Err = errors.New(value(d.ErrorMessage))
		}
	case *copilot.AssistantTurnEndData:
		if len(a.turns) > 0 {
			a.finish(s.turnOf(a, &d.TurnID, at), at)
		}
	case *copilot.ToolExecutionStartData:
		s.callBegins(s.turnOf(a, d.TurnID, at), a, d, at)
	case *copilot.ToolExecutionCompleteData:
		s.callEnds(d, at)
	case *copilot.PermissionRequestedData:
		s.asks(a, d, at)
	case *copilot.PermissionCompletedData:
		s.decides(d)
	case *copilot.SessionCompactionStartData:
		s.compactionBegins(a, d.ConversationTokens, (*string)(d.Trigger), at)
	case *copilot.SessionCompactionCompleteData:
		s.compactionEnds(a, d, at)
	case *copilot.SubagentStartedData:
		a.name, a.parentCall = d.AgentName, d.ToolCallID
		if id != "" {
			s.start(a, at, "")
		}
	case *copilot.SubagentCompletedData:
		s.leave(a, id, at, nil)
	case *copilot.SubagentFailedData:
		s.leave(a, id, at, errors.New(d.Error))
	case *copilot.AbortData:
		for _, x := range s.agents {
			x.aborted = true
		}
	case *copilot.SessionErrorData:
		if d.EligibleForAutoSwitch == nil || !*d.EligibleForAutoSwitch {
			s.closeAll(at, otelagent.RunResult{Err: errors.New(d.Message)})
		}
	case *copilot.SessionIdleData:
		a.aborted = a.aborted || d.Aborted != nil && *d.Aborted
		s.closeAll(at, otelagent.RunResult{})
	case *copilot.SessionShutdownData:
		s.closeAll(at, otelagent.RunResult{Status: spans.RunStatusAborted})
	}
}

// leave ends the run of a sub-agent. The main agent has no such end.
func (s *session) leave(a *agent, id string, at time.Time, err error) {
	if id != "" {
		s.close(a, at, otelagent.RunResult{Err: err})
		delete(s.agents, id)
	}
}

func (s *session) callBegins(t *turn, a *agent, d *copilot.ToolExecutionStartData, at time.Time) {
	if len(s.calls) >= maxOpen {
		return
	}
	c := &call{agent: a, name: d.ToolName}
	c.ctx, c.tool = t.handle.StartTool(t.ctx, otelagent.ToolCall{ID: d.ToolCallID, Name: d.ToolName,
		Args: encode(d.Arguments), Start: at})
	s.calls[d.ToolCallID] = c
	if begun := s.begun[d.ToolCallID]; begun != nil {
		close(begun)
		delete(s.begun, d.ToolCallID)
	}
}

func (s *session) callEnds(d *copilot.ToolExecutionCompleteData, at time.Time) {
	c := s.calls[d.ToolCallID]
	if c == nil {
		return
	}
	delete(s.calls, d.ToolCallID)
	res := otelagent.ToolResult{End: at}
	if d.Result != nil {
		res.Result = encode(d.Result.Content)
	}
	if !d.Success {
		res.Outcome, res.Err = spans.OutcomeError, errors.New("it failed")
		if d.Error != nil {
			res.Err = errors.New(d.Error.Message)
		}
		switch {
		case c.denied:
			res.Outcome = spans.OutcomeDenied
		case c.agent.aborted:
			res.Outcome = spans.OutcomeCancelled
		}
	}
	c.tool.End(res)
}

// asks begins the evaluation of a permission. Its request is one of many types, most of which name a call.
func (s *session) asks(a *agent, d *copilot.PermissionRequestedData, at time.Time) {
	if d.PermissionRequest == nil {
		return
	}
	var about struct {
		ToolCallID string `json:"toolCallId"`
	}
	_ = json.Unmarshal(encode(d.PermissionRequest), &about) // else it names none
	t := s.turnOf(a, nil, at)
	ctx, tool := t.ctx, string(d.PermissionRequest.Kind())
	if c := s.calls[about.ToolCallID]; c != nil {
		ctx, tool = c.ctx, c.name
	}
	if len(s.asked) < maxWaiting {
		s.asked[d.RequestID] = &question{t.handle.StartPermission(ctx, tool, about.ToolCallID), about.ToolCallID}
	}
}

func (s *session) decides(d *copilot.PermissionCompletedData) {
	q := s.asked[d.RequestID]
	if q == nil || d.Result == nil {
		return
	}
	delete(s.asked, d.RequestID)
	decision := otelagent.Decision{Action: spans.ActionDeny, Reason: string(d.Result.Kind())}
	switch d.Result.(type) {
	case *copilot.PermissionApproved:
		decision.Action, decision.Source = spans.ActionAllow, "once"
	case *copilot.PermissionApprovedForSession:
		decision.Action, decision.Source = spans.ActionAllow, spans.PermissionSourceSession
	case *copilot.PermissionApprovedForLocation:
		decision.Action, decision.Source = spans.ActionAllow, spans.PermissionSourceProject
	case *copilot.PermissionDeniedInteractivelyByUser:
		decision.Source = "once"
	case *copilot.PermissionDeniedByRules:
		decision.Source = "rules"
	case *copilot.PermissionDeniedByPermissionRequestHook:
		decision.Source = "hook"
	case *copilot.PermissionCancelled:
		decision.Action = spans.ActionAsk
	}
	if c := s.calls[q.call]; c != nil {
		c.denied = decision.Action == spans.ActionDeny
	}
	q.handle.End(decision)
}

// compactionBegins begins a compaction: of the run that is open, else of a run of its own.
func (s *session) compactionBegins(a *agent, before *int64, trigger *string, at time.Time) {
	if a.run == nil {
		s.start(a, at, spans.ContinuationCompaction)
		a.compacts = true
	}
	ctx := a.ctx
	if n := len(a.turns); n > 0 {
		ctx = a.turns[n-1].ctx
	}
	_, a.compaction = a.run.StartCompaction(ctx, otelagent.CompactionInfo{Trigger: value(trigger), InputTokens: before})
}

func (s *session) compactionEnds(a *agent, d *copilot.SessionCompactionCompleteData, at time.Time) {
	if a.compaction == nil {
		s.compactionBegins(a, d.PreCompactionTokens, (*string)(d.Trigger), at)
	}
	res := otelagent.CompactionResult{OutputTokens: d.PostCompactionTokens, MessagesSummarized: d.MessagesRemoved}
	if d.SummaryContent != nil {
		res.Summary = encode(*d.SummaryContent)
	}
	if u := d.CompactionTokensUsed; u != nil {
		res.Usage = &otelagent.Usage{Input: value(u.InputTokens), Output: value(u.OutputTokens),
			CacheRead: value(u.CacheReadTokens), CacheWrite: value(u.CacheWriteTokens)}
	}
	if !d.Success {
		res.Err = errors.New("it failed")
		if d.Error != nil {
			res.Err = errors.New(*d.Error)
		}
	}
	a.compaction.End(res)
	if a.compaction = nil; a.compacts {
		s.close(a, at, otelagent.RunResult{})
	}
}

// message is a reply in the form of OpenAI's chat completions.
func message(d *copilot.AssistantMessageData) *otelagent.Message {
	m := map[string]any{"role": "assistant", "content": d.Content}
	if d.ReasoningText != nil {
		m["reasoning_content"] = *d.ReasoningText
	}
	var calls []map[string]any
	for _, c := range d.ToolRequests {
		calls = append(calls, map[string]any{"id": c.ToolCallID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": string(encode(c.Arguments))}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return &otelagent.Message{Role: "assistant", Raw: encode(m)}
}

// usage is that of a model call; nil where it has no counts. Input includes cached tokens, as in OpenAI's vocabulary,
// to which the runtime converts.
func usage(d *copilot.AssistantUsageData) *otelagent.Usage {
	if d.InputTokens == nil && d.OutputTokens == nil {
		return nil
	}
	return &otelagent.Usage{Input: value(d.InputTokens), Output: value(d.OutputTokens),
		Reasoning: value(d.ReasoningTokens), CacheRead: value(d.CacheReadTokens), CacheWrite: value(d.CacheWriteTokens)}
}

func encode(v any) []byte {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

// value returns what p points at; the zero value for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
