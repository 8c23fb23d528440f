package phi

import (
	"bytes"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// key numbers the keys that stand at the top of an AgentEvent of any variant.
type key uint8

const (
	kType key = iota
	kLoopID
	kTimestamp
	kAgentID
	kSessionID
	kParentLoopID
	kContinuationKind
	kMetadata
	kConfigSnapshot
	kMessages
	kUsage
	kRejection
	kTurnIndex
	kTriggeredBy
	kPayload
	kMessage
	kToolResults
	kDelta
	kToolCallID
	kToolName
	kArgs
	kPartialResult
	kResult
	kIsError
	kChildLoopID
	kText
	kReason
	kLoopIDs
	kSelectedLoopID
	kSelectedConfigIndex
	kEvaluationUsage
	kEstimatedTokens
	kMessageCount
	kMessagesBefore
	kMessagesAfter
	kEstimatedTokensBefore
	kEstimatedTokensAfter
	kLoopsCompacted
	kTokensRemoved
	kMessagesRemoved
	kMemo
	kPrunedTimestamps
	kCategory
	kTarget
	kAbandonedNodeIDs
	kSummary
	kApplied
	kTS // of no variant and of all
	keys
)

var keyNames = [keys]string{
	"type", "loop_id", "timestamp", "agent_id", "session_id", "parent_loop_id", "continuation_kind", "metadata",
	"config_snapshot", "messages", "usage", "rejection", "turn_index", "triggered_by", "payload", "message", "tool_results",
	"delta", "tool_call_id", "tool_name", "args", "partial_result", "result", "is_error", "child_loop_id", "text", "reason",
	"loop_ids", "selected_loop_id", "selected_config_index", "evaluation_usage", "estimated_tokens", "message_count",
	"messages_before", "messages_after", "estimated_tokens_before", "estimated_tokens_after", "loops_compacted",
	"tokens_removed", "messages_removed", "memo", "pruned_timestamps", "category", "target", "abandoned_node_ids", "summary",
	"applied", input.Key,
}

// keyOf returns the number of a key, and whether it has one. A switch takes a third of the time of a map here.
func keyOf(name []byte) (key, bool) {
	switch string(name) {
	case "type":
		return kType, true
	case "loop_id":
		return kLoopID, true
	case "timestamp":
		return kTimestamp, true
	case "agent_id":
		return kAgentID, true
	case "session_id":
		return kSessionID, true
	case "parent_loop_id":
		return kParentLoopID, true
	case "continuation_kind":
		return kContinuationKind, true
	case "metadata":
		return kMetadata, true
	case "config_snapshot":
		return kConfigSnapshot, true
	case "messages":
		return kMessages, true
	case "usage":
		return kUsage, true
	case "rejection":
		return kRejection, true
	case "turn_index":
		return kTurnIndex, true
	case "triggered_by":
		return kTriggeredBy, true
	case "payload":
		return kPayload, true
	case "message":
		return kMessage, true
	case "tool_results":
		return kToolResults, true
	case "delta":
		return kDelta, true
	case "tool_call_id":
		return kToolCallID, true
	case "tool_name":
		return kToolName, true
	case "args":
		return kArgs, true
	case "partial_result":
		return kPartialResult, true
	case "result":
		return kResult, true
	case "is_error":
		return kIsError, true
	case "child_loop_id":
		return kChildLoopID, true
	case "text":
		return kText, true
	case "reason":
		return kReason, true
	case "loop_ids":
		return kLoopIDs, true
	case "selected_loop_id":
		return kSelectedLoopID, true
	case "selected_config_index":
		return kSelectedConfigIndex, true
	case "evaluation_usage":
		return kEvaluationUsage, true
	case "estimated_tokens":
		return kEstimatedTokens, true
	case "message_count":
		return kMessageCount, true
	case "messages_before":
		return kMessagesBefore, true
	case "messages_after":
		return kMessagesAfter, true
	case "estimated_tokens_before":
		return kEstimatedTokensBefore, true
	case "estimated_tokens_after":
		return kEstimatedTokensAfter, true
	case "loops_compacted":
		return kLoopsCompacted, true
	case "tokens_removed":
		return kTokensRemoved, true
	case "messages_removed":
		return kMessagesRemoved, true
	case "memo":
		return kMemo, true
	case "pruned_timestamps":
		return kPrunedTimestamps, true
	case "category":
		return kCategory, true
	case "target":
		return kTarget, true
	case "abandoned_node_ids":
		return kAbandonedNodeIDs, true
	case "summary":
		return kSummary, true
	case "applied":
		return kApplied, true
	case input.Key:
		return kTS, true
	}
	return 0, false
}

// keySet is a set of keys.
type keySet uint64

func setOf(ks ...key) keySet {
	var s keySet
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

// variant numbers the kinds of AgentEvent.
type variant uint8

const (
	unknownVariant variant = iota
	vAgentStart
	vAgentEnd
	vTurnStart
	vTurnRequest
	vTurnEnd
	vMessageStart
	vMessageUpdate
	vMessageEnd
	vToolExecutionStart
	vToolExecutionUpdate
	vToolExecutionEnd
	vProgressMessage
	vInputRejected
	vParallelLoopStart
	vParallelLoopEnd
	vCompactionStarted
	vCompactionEnded
	vPrunApplied
	vRevertApplied
)

// variants names each variant and its keys.
var variants = [...]struct {
	name string
	keys keySet
}{
	unknownVariant:       {},
	vAgentStart:          {"AgentStart", setOf(kType, kLoopID, kTimestamp, kAgentID, kSessionID, kParentLoopID, kContinuationKind, kMetadata, kConfigSnapshot)},
	vAgentEnd:            {"AgentEnd", setOf(kType, kLoopID, kTimestamp, kMessages, kUsage, kRejection)},
	vTurnStart:           {"TurnStart", setOf(kType, kLoopID, kTimestamp, kTurnIndex, kTriggeredBy)},
	vTurnRequest:         {"TurnRequest", setOf(kType, kLoopID, kTimestamp, kTurnIndex, kPayload)},
	vTurnEnd:             {"TurnEnd", setOf(kType, kLoopID, kTimestamp, kMessage, kUsage, kToolResults)},
	vMessageStart:        {"MessageStart", setOf(kType, kLoopID, kMessage)},
	vMessageUpdate:       {"MessageUpdate", setOf(kType, kLoopID, kMessage, kDelta)},
	vMessageEnd:          {"MessageEnd", setOf(kType, kLoopID, kMessage)},
	vToolExecutionStart:  {"ToolExecutionStart", setOf(kType, kLoopID, kToolCallID, kToolName, kArgs)},
	vToolExecutionUpdate: {"ToolExecutionUpdate", setOf(kType, kLoopID, kToolCallID, kToolName, kPartialResult)},
	vToolExecutionEnd:    {"ToolExecutionEnd", setOf(kType, kLoopID, kToolCallID, kToolName, kResult, kIsError, kChildLoopID)},
	vProgressMessage:     {"ProgressMessage", setOf(kType, kLoopID, kToolCallID, kToolName, kText)},
	vInputRejected:       {"InputRejected", setOf(kType, kLoopID, kReason)},
	vParallelLoopStart:   {"ParallelLoopStart", setOf(kType, kTimestamp, kSessionID, kLoopIDs)},
	vParallelLoopEnd:     {"ParallelLoopEnd", setOf(kType, kTimestamp, kSessionID, kSelectedLoopID, kSelectedConfigIndex, kEvaluationUsage)},
	vCompactionStarted:   {"CompactionStarted", setOf(kType, kLoopID, kTimestamp, kEstimatedTokens, kMessageCount)},
	vCompactionEnded:     {"CompactionEnded", setOf(kType, kLoopID, kTimestamp, kMessagesBefore, kMessagesAfter, kEstimatedTokensBefore, kEstimatedTokensAfter, kLoopsCompacted)},
	vPrunApplied:         {"PrunApplied", setOf(kType, kLoopID, kTimestamp, kTokensRemoved, kMessagesRemoved, kMemo, kPrunedTimestamps)},
	vRevertApplied:       {"RevertApplied", setOf(kType, kLoopID, kTimestamp, kCategory, kTarget, kAbandonedNodeIDs, kSummary, kApplied, kReason)},
}

// variantOf returns the number of a variant, unknownVariant for all that are not phi-core's.
func variantOf(name []byte) variant {
	switch string(name) {
	case "AgentStart":
		return vAgentStart
	case "AgentEnd":
		return vAgentEnd
	case "TurnStart":
		return vTurnStart
	case "TurnRequest":
		return vTurnRequest
	case "TurnEnd":
		return vTurnEnd
	case "MessageStart":
		return vMessageStart
	case "MessageUpdate":
		return vMessageUpdate
	case "MessageEnd":
		return vMessageEnd
	case "ToolExecutionStart":
		return vToolExecutionStart
	case "ToolExecutionUpdate":
		return vToolExecutionUpdate
	case "ToolExecutionEnd":
		return vToolExecutionEnd
	case "ProgressMessage":
		return vProgressMessage
	case "InputRejected":
		return vInputRejected
	case "ParallelLoopStart":
		return vParallelLoopStart
	case "ParallelLoopEnd":
		return vParallelLoopEnd
	case "CompactionStarted":
		return vCompactionStarted
	case "CompactionEnded":
		return vCompactionEnded
	case "PrunApplied":
		return vPrunApplied
	case "RevertApplied":
		return vRevertApplied
	default:
		return unknownVariant
	}
}

// member is one member of an object as it is spelled.
type member struct{ key, value []byte }

// message is what stands at the top of a message, as it is spelled; nil where it does not.
type message struct {
	raw, role, content, toolCallID, isError, timestamp     []byte
	stopReason, model, provider, usage, errorMessage, data []byte
	kind                                                   []byte
	// same is what is known of a message of a request that stood at the same place of the request before; then only raw
	// is set.
	same *knownMessage
}

// knownMessage is a message of the request before.
type knownMessage struct {
	start, end   int // in history.text
	role, callID string
	time         time.Time
}

// history is the messages of the last request. A request begins with those of the one before, mostly: comparing them takes
// a twentieth of the time of reading them again.
type history struct {
	text     []byte
	messages []knownMessage
}

// keep remembers the messages of a request, which were read as list.
func (h *history) keep(list []message, read []otelagent.Message) {
	same := 0
	for same < len(list) && list[same].same != nil {
		same++
	}
	h.messages = h.messages[:same]
	h.text = h.text[:0]
	if same > 0 {
		h.text = h.text[:h.messages[same-1].end]
	}
	for _, m := range read[same:] {
		start := len(h.text)
		h.text = append(h.text, m.Raw...)
		h.messages = append(h.messages, knownMessage{start, len(h.text), m.Role, m.ToolCallID, m.Time})
	}
}

// payload is what stands at the top of a TurnRequest's payload, as it is spelled; nil where it does not.
type payload struct {
	system, tools, model, level, maxTokens, temperature, format []byte
	messages, provenance                                        []byte
	// all are all its members in order; messageList and provenanceList the elements of these two.
	all            []member
	messageList    []message
	provenanceList [][]byte
}

// eventLine is one AgentEvent taken apart: every value as it is spelled, and the parts of messages and payload. All of it
// points into the line.
type eventLine struct {
	c       rawjson.Cursor
	scratch []byte // for keys with escapes

	raw   []byte
	typ   []byte // value of type if that is a string, unquoted
	event []byte // value of event
	has   keySet
	twice string // a known key that stands there twice
	// crowded says that a list of messages has more than maxItems.
	crowded bool
	values  [keys][]byte
	others  []member // unknown keys

	message     message
	messages    []message // of messages
	toolResults []message
	payload     payload
	history     history
}

// parse takes raw apart and validates it on the way. The error is a *rawjson.SyntaxError.
func (l *eventLine) parse(raw []byte) error {
	l.raw, l.typ, l.event, l.has, l.twice, l.crowded = raw, nil, nil, 0, "", false
	l.others = l.others[:0]
	c := &l.c
	c.Reset(raw, maxDepth)
	if !c.Open('{') {
		c.Value()
		return c.End()
	}
	for c.More('}') {
		name, spelled := l.name()
		if spelled == nil {
			break
		}
		k, known := keyOf(name)
		if !known {
			value := c.Value()
			if string(name) == "event" {
				l.event = value
			}
			l.others = append(l.others, member{spelled, value})
			continue
		}
		if l.has&(1<<k) != 0 {
			l.twice = keyNames[k]
		}
		l.has |= 1 << k
		switch k {
		case kMessage:
			l.parseMessage(&l.message)
			l.values[k] = l.message.raw
		case kMessages:
			l.messages, l.values[k] = l.parseMessages(l.messages[:0], nil)
		case kToolResults:
			l.toolResults, l.values[k] = l.parseMessages(l.toolResults[:0], nil)
		case kPayload:
			l.values[k] = l.parsePayload()
		default:
			l.values[k] = c.Value()
		}
	}
	if err := c.End(); err != nil {
		return err
	}
	if t := l.values[kType]; l.has&(1<<kType) != 0 && t[0] == '"' {
		l.typ = l.unescaped(t)
	}
	return nil
}

// name returns the next key, valid until its next call, and how it is spelled, quotes included; nil after an error.
func (l *eventLine) name() (name, spelled []byte) {
	switch spelled = l.c.RawKey(); {
	case spelled == nil:
		return nil, nil
	case l.c.Plain():
		return spelled[1 : len(spelled)-1], spelled
	default:
		return l.unescaped(spelled), spelled
	}
}

// unescaped returns what a string says, valid until its next call.
func (l *eventLine) unescaped(spelled []byte) []byte {
	if inner := spelled[1 : len(spelled)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	l.scratch = rawjson.AppendString(l.scratch[:0], spelled)
	return l.scratch
}

func (l *eventLine) parseMessage(m *message) {
	*m = message{}
	c := &l.c
	start := c.Pos()
	if !c.Open('{') {
		m.raw = c.Value()
		return
	}
	for c.More('}') {
		name, spelled := l.name()
		if spelled == nil {
			return
		}
		var to *[]byte
		switch string(name) {
		case "role":
			to = &m.role
		case "content":
			to = &m.content
		case "timestamp":
			to = &m.timestamp
		case "toolCallId":
			to = &m.toolCallID
		case "isError":
			to = &m.isError
		case "stopReason":
			to = &m.stopReason
		case "model":
			to = &m.model
		case "provider":
			to = &m.provider
		case "usage":
			to = &m.usage
		case "error_message":
			to = &m.errorMessage
		case "kind":
			to = &m.kind
		case "data":
			to = &m.data
		default:
			c.Value()
			continue
		}
		*to = c.Value()
	}
	m.raw = c.Since(start)
}

// parseMessages takes an array of messages apart. Those of known are in history.text.
func (l *eventLine) parseMessages(list []message, known []knownMessage) ([]message, []byte) {
	c := &l.c
	start := c.Pos()
	if !c.Open('[') {
		return list, c.Value()
	}
	for c.More(']') {
		if len(list) == maxItems {
			l.crowded = true
			c.Value()
			continue
		}
		if len(list) == cap(list) {
			list = append(list, message{})
		} else {
			list = list[:len(list)+1]
		}
		m := &list[len(list)-1]
		if n := len(list); n <= len(known) {
			k := &known[n-1]
			at := c.Pos()
			if c.Known(l.history.text[k.start:k.end]) {
				*m = message{raw: c.Since(at), same: k}
				continue
			}
		}
		l.parseMessage(m)
	}
	return list, c.Since(start)
}

func (l *eventLine) parsePayload() []byte {
	c, p := &l.c, &l.payload
	*p = payload{all: p.all[:0], messageList: p.messageList[:0], provenanceList: p.provenanceList[:0]}
	start := c.Pos()
	if !c.Open('{') {
		return c.Value()
	}
	for c.More('}') {
		name, spelled := l.name()
		if spelled == nil {
			return nil
		}
		var value []byte
		var to *[]byte
		switch string(name) {
		case "messages":
			p.messageList, value = l.parseMessages(p.messageList[:0], l.history.messages)
			to = &p.messages
		case "provenance":
			p.provenanceList, value = l.parseArray(p.provenanceList[:0])
			to = &p.provenance
		case "system_prompt":
			to = &p.system
		case "tools":
			to = &p.tools
		case "model_id":
			to = &p.model
		case "thinking_level":
			to = &p.level
		case "max_tokens":
			to = &p.maxTokens
		case "temperature":
			to = &p.temperature
		case "response_format":
			to = &p.format
		}
		if to != nil && *to != nil {
			l.twice = "payload." + string(name)
		}
		if value == nil {
			value = c.Value()
		}
		if to != nil {
			*to = value
		}
		p.all = append(p.all, member{spelled, value})
	}
	return c.Since(start)
}

func (l *eventLine) parseArray(list [][]byte) ([][]byte, []byte) {
	c := &l.c
	start := c.Pos()
	if !c.Open('[') {
		return list, c.Value()
	}
	for c.More(']') {
		list = append(list, c.Value())
	}
	return list, c.Since(start)
}
