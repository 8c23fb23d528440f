package otelagent

import (
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Tool is one open tool call: a tool.call span. The nil Tool does nothing. Safe for concurrent use.
type Tool writer.Tool

// ToolCall describes a tool call when it starts.
type ToolCall struct {
	ID, Name string
	// Args are the arguments as JSON (content). Nil when there were none; the JSON text null is kept as such.
	Args []byte
	// Start is when the call started.
	Start time.Time
}

// ToolResult says how a tool call ended. The zero value is a call that succeeded.
type ToolResult struct {
	// Outcome is how the call ended. Empty: ok, or with Err error, or cancelled.
	Outcome spans.Outcome
	// Err is why the call failed, or did not run.
	Err error
	// Result is the result as JSON (content).
	Result []byte
	// Truncated says whether the result was cut before the model saw it; nil when that is not known.
	Truncated *bool
	// End is when the call ended.
	End time.Time
}

// Progress records a partial result or progress message of the call: typ is the producer's name of it, body JSON
// (content). All are counted, the first 32 kept.
func (t *Tool) Progress(typ string, body []byte) {
	(*writer.Tool)(t).Progress(typ, body, writer.Moment{})
}

// End ends the call, once; later calls do nothing.
func (t *Tool) End(res ToolResult) {
	(*writer.Tool)(t).End(writer.ToolResult{End: moment(res.End), Error: text(res.Err), Result: res.Result,
		Truncated: res.Truncated,
		Outcome:   outcome(res.Outcome, res.Err, spans.OutcomeError, spans.OutcomeCancelled)})
}
