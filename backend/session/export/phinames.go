package export

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// phi-core refuses a whole file for one name or shape that it does not know, so PhiCore writes none. The names are
// those of src/types and src/session/model.rs, the same in 0.10.0 and 0.15.2.

// foreign notes a value that phi-core does not know; where and what name it, value is bounded.
func (p *phiCore) foreign(where, what, value string) {
	p.miss(where, fmt.Sprintf("%s %.64q is no word of phi-core", what, value))
}

// known returns phi-core's name for a value, "" where it has none. It notes a value that has none, unless that is
// empty.
func known[T ~string](p *phiCore, where, what string, value T, names map[T]string) string {
	name := names[value]
	if name == "" && value != "" {
		p.foreign(where, what, string(value))
	}
	return name
}

var phiContinuations = map[spans.Continuation]string{
	"": "Initial", spans.ContinuationInitial: "Initial", spans.ContinuationDefault: "Default",
	spans.ContinuationCompaction: "Compaction", spans.ContinuationRerun: "Rerun", spans.ContinuationBranch: "Branch",
}

func (p *phiCore) continuation(where string, r *session.Run) []byte {
	name := known(p, where, "continuation_kind", r.Continuation, phiContinuations)
	switch {
	case name == "Rerun" || name == "Branch":
		return fields(name, fields("tag", &r.ContinuationTag))
	case name == "" && r.ParentID == "":
		name = "Initial"
	}
	return quote(cmp.Or(name, "Default"))
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
	case slices.Contains([]string{"Pending", "Running", "Completed", "Rejected", "Aborted"}, r.StatusWord):
		return r.StatusWord
	}
	return cmp.Or(known(p, where, "status", r.Status, phiRunStatuses), "Completed")
}

var phiTriggers = map[spans.Trigger]string{
	spans.TriggerUser: "User", spans.TriggerSubAgent: "SubAgent", spans.TriggerBranch: "Branch",
	spans.TriggerContinuation: "Continuation",
}

func (p *phiCore) trigger(where string, t *session.Turn) string {
	name := known(p, where, "triggered_by", t.Trigger, phiTriggers)
	if name == "" && t.Index == 0 {
		name = "User"
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

// phiWords are the values of members of a configuration, or a request, that phi-core knows.
var phiWords = map[string]string{
	"thinking_level": "off minimal low medium high", "response_format": "text json-object json-schema",
	"api": "anthropic_messages open_ai_completions open_ai_responses azure_open_ai_responses google_generative_ai " +
		"google_vertex bedrock_converse_stream",
}

// phiMessages, phiContents and phiProvenances are the members that phi-core demands, each with its type, by the role of
// a message, the type of its content and the kind of a provenance.
var (
	phiMessages = map[string]string{
		"user":       "content:contents timestamp:count",
		"assistant":  "content:contents timestamp:count stopReason:stop model:string provider:string usage:usage",
		"toolResult": "content:contents timestamp:count toolCallId:string toolName:string isError:bool",
	}
	phiContents = map[string]string{"text": "text:string", "image": "data:string mimeType:string",
		"thinking": "thinking:string", "toolCall": "id:string name:string"}
	phiProvenances = map[string]string{
		"system-prompt": "", "steering": "", "follow-up": "", "unknown": "", "identity-block": "name:string order:count",
		"memory-tier": "tier:string record_id:string", "loop-turn": "turn_index:count message_index:count role:source",
	}
	// phiTypes are these types; other names are those of phiStrings.
	phiTypes = map[string]func(raw []byte) bool{
		"string": func(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' },
		"bool":   func(raw []byte) bool { return string(raw) == "true" || string(raw) == "false" },
		"count": func(raw []byte) bool {
			_, err := strconv.ParseUint(string(raw), 10, 64)
			return err == nil
		},
	}
	phiStrings = map[string]string{
		"stop":   "stop length toolUse error aborted maxTurns userStop handoff guardRail contextCompacted paused",
		"source": "user-message assistant-response tool-call-request tool-call-result",
	}
)

// refusal returns why phi-core refuses an object of which a member, its tag, states the shape; "" when it does not.
func refusal(raw []byte, tag string, shapes map[string]string) string {
	o := parse(raw)
	name, isText := text(o.get(tag))
	shape, isKnown := shapes[name]
	switch {
	case !isText:
		return "without " + tag
	case !isKnown:
		return fmt.Sprintf("%s %.64q is no word of phi-core", tag, name)
	}
	for _, demand := range strings.Fields(shape) {
		key, typ, _ := strings.Cut(demand, ":")
		value := o.get(key)
		var complete bool
		switch typ {
		case "contents":
			complete = len(value) > 0 && value[0] == '['
			for _, c := range elements(value) {
				if why := refusal(c, "type", phiContents); why != "" {
					return "content " + why
				}
			}
		case "usage":
			u := parse(value)
			complete = phiTypes["count"](u.get("input")) && phiTypes["count"](u.get("output"))
		case "stop", "source":
			word, ok := text(value)
			if complete = ok; ok && !slices.Contains(strings.Fields(phiStrings[typ]), word) {
				return fmt.Sprintf("%s %.64q is no word of phi-core", key, word)
			}
		default:
			complete = phiTypes[typ](value)
		}
		if !complete {
			return fmt.Sprintf("of %s %s without all keys that phi-core demands, or with other types", tag, name)
		}
	}
	return ""
}

// unloadable returns why phi-core would refuse the message, "" when it would not. An AgentMessage may be an extension
// message.
func unloadable(raw []byte, extensions bool) string {
	why := refusal(raw, "role", phiMessages)
	if o := parse(raw); why == "" ||
		extensions && phiTypes["string"](o.get("role")) && phiTypes["string"](o.get("kind")) &&
			o.get("data") != nil {
		return ""
	}
	return "a message " + why
}

// knownWord reports whether phi-core knows the value of a member that is one of phiWords, and notes one that it does
// not.
func (p *phiCore) knownWord(where, what, key string, value []byte) bool {
	word, isText := text(value)
	if key == "response_format" {
		word, isText = text(parse(value).get("kind"))
	}
	if isText && slices.Contains(strings.Fields(phiWords[key]), word) {
		return true
	}
	p.foreign(where, what+key, word)
	return false
}

// knownProvenance reports whether phi-core reads the provenance, and notes one that it does not.
func (p *phiCore) knownProvenance(where string, raw []byte) bool {
	why := refusal(raw, "kind", phiProvenances)
	if why != "" {
		p.miss(where, "request provenance "+why)
	}
	return why == ""
}
