package export

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// phi-core refuses a whole file for one word that it does not know, so nothing foreign may be written. The lists are those
// of src/types and src/session/model.rs, the same in 0.10.0 and 0.15.2.
var (
	phiStopReasons = []string{
		"stop", "length", "toolUse", "error", "aborted", "maxTurns", "userStop", "handoff", "guardRail", "contextCompacted", "paused",
	}
	phiThinkingLevels = []string{"off", "minimal", "low", "medium", "high"}
	phiProtocols      = []string{
		"anthropic_messages", "open_ai_completions", "open_ai_responses", "azure_open_ai_responses", "google_generative_ai",
		"google_vertex", "bedrock_converse_stream",
	}
	phiFormats         = []string{"text", "json-object", "json-schema"}
	phiProvenanceRoles = []string{"user-message", "assistant-response", "tool-call-request", "tool-call-result"}
)

// foreign says that phi-core has no such word; where and what name it, word is bounded.
func (p *phiCore) foreign(where, what, word string) {
	const most = 64
	if len(word) > most {
		word = word[:most] + "…"
	}
	p.miss(where, fmt.Sprintf("%s %q is no word of phi-core", what, word))
}

func (p *phiCore) continuation(where string, r *session.Run) []byte {
	tagged := func(word string) []byte {
		tag := object{}
		tag.str("tag", r.ContinuationTag)
		o := object{}
		o.raw(word, tag.bytes())
		return o.bytes()
	}
	switch r.Continuation {
	case "", spans.ContinuationInitial:
		return quote("Initial")
	case spans.ContinuationDefault:
		return quote("Default")
	case spans.ContinuationCompaction:
		return quote("Compaction")
	case spans.ContinuationRerun:
		return tagged("Rerun")
	case spans.ContinuationBranch:
		return tagged("Branch")
	}
	p.foreign(where, "continuation_kind", string(r.Continuation))
	if r.ParentID == "" {
		return quote("Initial")
	}
	return quote("Default")
}

func (p *phiCore) status(where string, r *session.Run, over bool) string {
	if !over {
		return "Aborted"
	}
	switch r.StatusWord {
	case "Pending", "Running", "Completed", "Rejected", "Aborted":
		return r.StatusWord
	}
	switch r.Status {
	case spans.RunStatusRejected:
		return "Rejected"
	case spans.RunStatusAborted:
		return "Aborted"
	case spans.RunStatusCompleted, spans.RunStatusError, spans.RunStatusCancelled, spans.RunStatusVetoed:
		return "Completed" // phi-core has no words for the others: its loops end as Completed then
	}
	p.foreign(where, "status", string(r.Status))
	return "Completed"
}

func (p *phiCore) trigger(where string, t *session.Turn) string {
	switch t.Trigger {
	case spans.TriggerUser:
		return "User"
	case spans.TriggerSubAgent:
		return "SubAgent"
	case spans.TriggerBranch:
		return "Branch"
	case spans.TriggerContinuation:
		return "Continuation"
	case "":
	default:
		p.foreign(where, "triggered_by", string(t.Trigger))
	}
	if t.Index == 0 {
		return "User"
	}
	return "Continuation"
}

// loadable reports whether raw is JSON that serde_json reads: of valid UTF-8, without half a surrogate pair, and not nested
// deeper than its limit of 128, of which the ledger around raw takes a few.
func loadable(raw []byte) bool {
	const mostDepth = 100
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			if depth++; depth > mostDepth {
				return false
			}
		case !inString && (c == '}' || c == ']'):
			depth--
		case c == '\\' && raw[i+1] == 'u':
			first := escaped(raw[i:])
			if i += 5; !utf16.IsSurrogate(first) {
				continue
			}
			if utf16.DecodeRune(first, escaped(raw[i+1:])) == utf8.RuneError {
				return false
			}
			i += 6
		case c == '\\':
			i++
		}
	}
	return true
}

// escaped returns the number of the escape \uXXXX that raw begins with, -1 when it begins with something else.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// phiMessage holds what phi-core demands of a message, an AgentMessage or a bare Message.
type phiMessage struct {
	Role       *string
	Content    *[]phiContent
	Timestamp  *uint64
	StopReason *string `json:"stopReason"`
	Model      *string
	Provider   *string
	Usage      *phiUsage
	ToolCallID *string `json:"toolCallId"`
	ToolName   *string `json:"toolName"`
	IsError    *bool   `json:"isError"`
	Kind       *string // of an extension message
	Data       *json.RawMessage
}

type phiContent struct {
	Type      *string
	Text      *string
	Data      *string
	MimeType  *string `json:"mimeType"`
	Thinking  *string
	ID        *string
	Name      *string
	Arguments *json.RawMessage
}

type phiUsage struct {
	Input, Output *uint64
}

// unloadable says why phi-core would refuse the message, "" when it would not. Extension messages are allowed where an
// AgentMessage may stand.
func unloadable(raw []byte, extensions bool) string {
	var m phiMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return "a message whose fields have other types than phi-core's"
	}
	why := m.unloadable()
	if why != "" && extensions && m.Role != nil && m.Kind != nil && hasKey(raw, "data") {
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
	if m.StopReason != nil && *m.Role == "assistant" && !slices.Contains(phiStopReasons, *m.StopReason) {
		return fmt.Sprintf("stopReason %.64q is no word of phi-core", *m.StopReason)
	}
	for _, c := range *m.Content {
		if c.Type == nil {
			return "content without type"
		}
		var complete bool
		switch *c.Type {
		case "text":
			complete = c.Text != nil
		case "image":
			complete = c.Data != nil && c.MimeType != nil
		case "thinking":
			complete = c.Thinking != nil
		case "toolCall":
			complete = c.ID != nil && c.Name != nil // arguments may be null, which reads as absent here
		default:
			return fmt.Sprintf("content type %.64q is no word of phi-core", *c.Type)
		}
		if !complete {
			return fmt.Sprintf("content of type %s without all keys that phi-core demands", *c.Type)
		}
	}
	return ""
}

func hasKey(raw []byte, key string) bool { return find(members(raw), key) != nil }

// knownConfig returns the configuration without the words that phi-core does not have.
func (p *phiCore) knownConfig(where string, raw []byte) []byte {
	var c struct{ Model, Provider *string }
	if json.Unmarshal(raw, &c) != nil || c.Model == nil || c.Provider == nil {
		p.miss(where, "config without model and provider")
		return null
	}
	o := object{}
	for _, m := range members(raw) {
		if words := map[string][]string{"api": phiProtocols, "thinking_level": phiThinkingLevels}[m.key]; words != nil {
			if word, ok := text(m.value); !ok && string(m.value) != "null" || ok && !slices.Contains(words, word) {
				p.foreign(where, "config."+m.key, word)
				continue
			}
		}
		o.raw(m.key, m.value)
	}
	return o.bytes()
}

// knownRest reports whether phi-core reads the words of a request that are no messages.
func (p *phiCore) knownRest(where, key string, value []byte) bool {
	switch key {
	case "thinking_level":
		if word, ok := text(value); !ok || !slices.Contains(phiThinkingLevels, word) {
			p.foreign(where, "request thinking_level", word)
			return false
		}
	case "response_format":
		var f struct{ Kind string }
		if json.Unmarshal(value, &f) != nil || !slices.Contains(phiFormats, f.Kind) {
			p.foreign(where, "request response_format", f.Kind)
			return false
		}
	case "provenance":
		var l []json.RawMessage
		if json.Unmarshal(value, &l) != nil {
			p.miss(where, "request provenance is no list")
			return false
		}
		for _, raw := range l {
			if !p.knownProvenance(where, raw) {
				return false
			}
		}
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
		ok = ok && v.Turn != nil && v.Message != nil && v.Role != nil && slices.Contains(phiProvenanceRoles, *v.Role)
	default:
		ok = false
	}
	if !ok {
		p.foreign(where, "request provenance", v.Kind)
	}
	return ok
}

func text(raw []byte) (string, bool) {
	var s string
	ok := json.Unmarshal(raw, &s) == nil && string(raw) != "null"
	return s, ok
}
