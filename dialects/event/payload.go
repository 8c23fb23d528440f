package event

import (
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// The payloads of events are those of the handles, with what only events say: where a time comes from (Moment), the
// kind of source of a run, and all that is known of its end.
type (
	// Moment is a time, where it comes from, and its position in an input.
	Moment = writer.Moment

	RunInfo              = writer.RunInfo
	RunResult            = writer.RunResult
	GroupInfo            = writer.GroupInfo
	GroupResult          = writer.GroupResult
	TurnInfo             = writer.TurnInfo
	TurnResult           = writer.TurnResult
	Request              = writer.Request
	Parameters           = writer.Parameters
	Message              = writer.Message
	Usage                = writer.Usage
	UsageKeys            = writer.UsageKeys
	ToolCall             = writer.ToolCall
	ToolResult           = writer.ToolResult
	Compaction           = writer.Compaction
	CompactionResult     = writer.CompactionResult
	DiscardedAttempt     = writer.DiscardedAttempt
	PermissionEvaluation = writer.PermissionEvaluation
	Fact                 = writer.Fact
	PartialKind          = writer.PartialKind
)

// The kinds of pieces of a reply.
const (
	PartialText      = writer.PartialText
	PartialReasoning = writer.PartialReasoning
	PartialToolInput = writer.PartialToolInput
)

// Bound returns the moment of an event that is only known not to be later, or not to be earlier, than t: zero where t
// is.
func Bound(t time.Time) (m Moment) {
	if !t.IsZero() {
		m = Moment{Time: t, Source: spans.TimeSourceBound}
	}
	return m
}

// ParseRequest reads the request of a model API from its payload: model, parameters, system prompt, tools and messages.
func ParseRequest(payload []byte) (Request, error) { return writer.ParseRequest(payload) }

// ReadRequest is ParseRequest for a dialect that has its own way to read a message, of which only Raw is set.
func ReadRequest(payload []byte, read func(*Message)) (Request, error) {
	return writer.ReadRequest(payload, read)
}
