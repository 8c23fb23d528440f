package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// phi-core refuses a whole file for one name that it does not know, so PhiCore writes none. The lists are those of
// src/types and src/session/model.rs, the same in 0.10.0 and 0.15.2.
var (
	phiStopReasons = []string{"stop", "length", "toolUse", "error", "aborted", "maxTurns", "userStop", "handoff",
		"guardRail", "contextCompacted", "paused"}
	phiThinkingLevels = []string{"off", "minimal", "low", "medium", "high"}
	phiProtocols      = []string{"anthropic_messages", "open_ai_completions", "open_ai_responses",
		"azure_open_ai_responses", "google_generative_ai", "google_vertex", "bedrock_converse_stream"}
	phiFormats         = []string{"text", "json-object", "json-schema"}
	phiProvenanceRoles = []string{"user-message", "assistant-response", "tool-call-request", "tool-call-result"}
	phiStatuses        = []string{"Pending", "Running", "Completed", "Rejected", "Aborted"}
)

// foreign notes a value that phi-core does not know; where and what name it, value is bounded.
func (p *phiCore) foreign(where, what, value string) {
	const most = 64
	if len(value) > most {
		value = value[:most] + "…"
	}
	p.miss(where, fmt.Sprintf("%s %q is no word of phi-core", what, value))
}

// known returns phi-core's name for a value, and reports whether it has one. It notes a value that has none, unless
// that
// is empty.
func known[T ~string](p *phiCore, where, what string, value T, names map[T]string) (string, bool) {
	name, ok := names[value]
	if !ok && value != "" {
		p.foreign(where, what, string(value))
	}
	return name, ok
}

var phiContinuations = map[spans.Continuation]string{
	"": "Initial", spans.ContinuationInitial: "Initial", spans.ContinuationDefault: "Default",
	spans.ContinuationCompaction: "Compaction", spans.ContinuationRerun: "Rerun", spans.ContinuationBranch: "Branch",
}

func (p *phiCore) continuation(where string, r *session.Run) []byte {
	name, ok := known(p, where, "continuation_kind", r.Continuation, phiContinuations)
	switch {
	case name == "Rerun" || name == "Branch":
		return fields(name, fields("tag", &r.ContinuationTag))
	case ok:
		return quote(name)
	case r.ParentID == "":
		return quote("Initial")
	}
	return quote("Default")
}

// phiRunStatuses: phi-core's loops end as Completed where it has no other status.
var phiRunStatuses = map[spans.RunStatus]string{
	spans.RunStatusRejected: "Rejected", spans.RunStatusAborted: "Aborted", spans.RunStatusCompleted: "Completed",
	spans.RunStatusError: "Completed", spans.RunStatusCancelled: "Completed", spans.RunStatusVetoed: "Completed",
}

func (p *phiCore) status(where string, r *session.Run, over bool) string {
	switch {
	case !over:
		return "Aborted"
	case slices.Contains(phiStatuses, r.StatusWord):
		return r.StatusWord
	}
	name, _ := known(p, where, "status", r.Status, phiRunStatuses)
	return cmp.Or(name, "Completed")
}

var phiTriggers = map[spans.Trigger]string{
	spans.TriggerUser: "User", spans.TriggerSubAgent: "SubAgent", spans.TriggerBranch: "Branch",
	spans.TriggerContinuation: "Continuation",
}

func (p *phiCore) trigger(where string, t *session.Turn) string {
	name, ok := known(p, where, "triggered_by", t.Trigger, phiTriggers)
	if !ok && t.Index == 0 {
		return "User"
	}
	return cmp.Or(name, "Continuation")
}

// escapes are escapes in JSON strings but for those of one half of a surrogate pair, which halfPair finds.
var (
	escapes  = regexp.MustCompile(`\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..`)
	halfPair = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// loadable reports whether raw is JSON that serde_json reads: of valid UTF-8, without half a surrogate pair, and not
// nested deeper than its limit of 128, of which the ledger around raw takes a few.
func loadable(raw []byte) bool {
	const mostDepth = 100
	return rawjson.Valid(raw, mostDepth) == nil &&
		(!halfPair.Match(raw) || !halfPair.Match(escapes.ReplaceAll(raw, nil)))
}

// phiMessage holds the keys that phi-core demands of a message, an AgentMessage or a bare Message.
type phiMessage struct {
	Role, StopReason, Model, Provider, ToolCallID, ToolName, Kind *string
	Content                                                       *[]phiContent
	Timestamp                                                     *uint64
	Usage                                                         *struct{ Input, Output *uint64 }
	IsError                                                       *bool
}

type phiContent struct{ Type, Text, Data, MimeType, Thinking, ID, Name *string }

// unloadable returns why phi-core would refuse the message, "" when it would not. An AgentMessage may be an extension
// message.
func unloadable(raw []byte, extensions bool) string {
	var m phiMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return "a message whose fields have other types than phi-core's"
	}
	why := m.unloadable()
	if why != "" && extensions && m.Role != nil && m.Kind != nil && parse(raw).get("data") != nil {
		return ""
	}
	return why
}

func (m *phiMessage) unloadable() string {
	if m.Role == nil {
		return "a message without role"
	}
	complete := m.Content != nil && m.Timestamp != nil
	switch *m.Role {
	case "user":
	case "assistant":
		complete = complete && m.StopReason != nil && m.Model != nil && m.Provider != nil &&
			m.Usage != nil && m.Usage.Input != nil && m.Usage.Output != nil
	case "toolResult":
		complete = complete && m.ToolCallID != nil && m.ToolName != nil && m.IsError != nil
	default:
		return fmt.Sprintf("a message of role %.64q, which is no word of phi-core", *m.Role)
	}
	if !complete {
		return fmt.Sprintf("a message of role %s without all keys that phi-core demands", *m.Role)
	}
	if *m.Role == "assistant" && !slices.Contains(phiStopReasons, *m.StopReason) {
		return fmt.Sprintf("stopReason %.64q is no word of phi-core", *m.StopReason)
	}
	for _, c := range *m.Content {
		complete, known := map[string]bool{
			"text": c.Text != nil, "image": c.Data != nil && c.MimeType != nil, "thinking": c.Thinking != nil,
			"toolCall": c.ID != nil && c.Name != nil, // arguments may be null, which reads as absent here
		}[deref(c.Type)], slices.Contains([]string{"text", "image", "thinking", "toolCall"}, deref(c.Type))
		switch {
		case c.Type == nil:
			return "content without type"
		case !known:
			return fmt.Sprintf("content type %.64q is no word of phi-core", *c.Type)
		case !complete:
			return fmt.Sprintf("content of type %s without all keys that phi-core demands", *c.Type)
		}
	}
	return ""
}

// knownConfig returns the configuration without the names that phi-core does not know.
func (p *phiCore) knownConfig(where string, raw []byte) []byte {
	c := parse(raw)
	_, hasModel := text(c.get("model"))
	if _, hasProvider := text(c.get("provider")); !hasModel || !hasProvider {
		p.miss(where, "config without model and provider")
		return null
	}
	known := map[string][]string{"api": phiProtocols, "thinking_level": phiThinkingLevels}
	return slices.DeleteFunc(c, func(m member) bool {
		word, isText := text(m.value)
		if known[m.key] == nil || !isText && string(m.value) == "null" || isText && slices.Contains(known[m.key], word) {
			return false
		}
		p.foreign(where, "config."+m.key, word)
		return true
	}).bytes()
}

// knownRest reports whether phi-core reads a member of a request other than the messages.
func (p *phiCore) knownRest(where, key string, value []byte) bool {
	word, known := "", phiThinkingLevels
	switch key {
	case "thinking_level":
		word, _ = text(value)
	case "response_format":
		word, known = parse(value).text("kind"), phiFormats
	case "provenance":
		if len(value) == 0 || value[0] != '[' {
			p.miss(where, "request provenance is no list")
			return false
		}
		return !slices.ContainsFunc(elements(value), func(raw json.RawMessage) bool { return !p.knownProvenance(where, raw) })
	default:
		return true
	}
	if !slices.Contains(known, word) {
		p.foreign(where, "request "+key, word)
		return false
	}
	return true
}

// knownProvenance reports whether phi-core reads the provenance.
func (p *phiCore) knownProvenance(where string, raw []byte) bool {
	var v struct {
		Kind     string
		Name     *string
		Order    *uint32
		Tier     *string
		RecordID *string `json:"record_id"`
		Turn     *uint32 `json:"turn_index"`
		Role     *string
		Message  *uint32 `json:"message_index"`
	}
	ok := json.Unmarshal(raw, &v) == nil
	switch spans.ProvenanceKind(v.Kind) {
	case spans.ProvenanceSystemPrompt, spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown:
	case spans.ProvenanceIdentityBlock:
		ok = ok && v.Name != nil && v.Order != nil
	case spans.ProvenanceMemoryTier:
		ok = ok && v.Tier != nil && v.RecordID != nil
	case spans.ProvenanceLoopTurn:
		ok = ok && v.Turn != nil && v.Message != nil && slices.Contains(phiProvenanceRoles, deref(v.Role))
	default:
		ok = false
	}
	if !ok {
		p.foreign(where, "request provenance", v.Kind)
	}
	return ok
}
