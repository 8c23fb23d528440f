// Package event holds the events that dialects decode, neutral between loops, and the Recorder that turns them into
// spans.
package event

import (
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Event is one event of a loop, neutral between loops. The set is closed: a dialect turns its own events
// into these, and what has no place among them into Other.
//
// Events are pointers. Whoever yields one may reuse it for the next; a Recorder keeps nothing of it.
type Event interface {
	meta() *Meta
}

// Meta is what all events share.
type Meta struct {
	// Session and Run address the run the event belongs to, as the producer named them. Session may be empty where the
	// wire names it only at a run's start. Loops reuse run ids: the run meant is the one that is open, the last to start
	// of several. An empty Run means the run that is open, the innermost one where the open runs spawned each other;
	// where that is not certain the event is lost, and counted.
	Session, Run string
	// Time is what the producer stated; zero for an untimed event.
	Time time.Time
	// Arrived is when the event reached this process, with its monotonic reading. Zero in a replay, where arrival
	// means nothing, and of which no metrics are taken (see [WithReplayMetrics]).
	Arrived time.Time
	// Seq is the position of the event in its input (a line number), from 1. Zero: the run counts.
	Seq int64
}

func (m *Meta) meta() *Meta { return m }

// The events.
type (
	// RunStarted begins a run. A run of the same id that is still open is ended as aborted.
	RunStarted struct {
		Meta
		RunInfo
	}
	// RunEnded ends a run. Without an open run of that id it makes one whose start was not seen, or, with status vetoed,
	// one that never began.
	RunEnded struct {
		Meta
		RunResult
	}
	// GroupStarted begins a parallel group. Runs that start while it is open belong to it: its members by id, and as its
	// judge the first other run without a parent that starts when those members that started are over.
	GroupStarted struct {
		Meta
		GroupInfo
	}
	// GroupEnded ends the group that holds its selected run; the last to start where none was selected.
	GroupEnded struct {
		Meta
		GroupResult
	}
	// TurnStarted begins a turn; the Recorder ends a turn of the same run that is still open.
	TurnStarted struct {
		Meta
		TurnInfo
	}
	// TurnEnded ends the open turn of its run.
	TurnEnded struct {
		Meta
		TurnResult
	}
	// RequestPrepared reports what the model will receive.
	RequestPrepared struct {
		Meta
		Request
	}
	// MessageAdded reports a message other than the reply.
	MessageAdded struct {
		Meta
		Message
	}
	// ReplyReceived reports that the model call is over. The reply comes with TurnEnded. What this event already reports
	// of it is shown in copies of the open turn until then (see [writer.Turn.Reply]). The time in Message is that of
	// the reply.
	ReplyReceived struct {
		Meta
		Message
		// Usage, StopReason, Model, Provider and ResponseID are those that the turn will end with, as far as they are
		// known.
		Usage                                   *Usage
		StopReason, Model, Provider, ResponseID string
	}
	// ReplyDelta reports that a piece of the reply came in. Deltas are never span events; see docs/live.md for what
	// may be kept of them.
	ReplyDelta struct {
		Meta
		// Bytes is the length of the piece, where the producer states it. The Recorder does not use it.
		Bytes int
		// Kind and Text are the piece itself, where the loop reports it separately: Text is a JSON string as it is in
		// the input, with its quotes (content). Nil where it is no text.
		Kind PartialKind
		Text []byte
	}
	// ToolStarted begins a tool call in the open turn of its run, or in the run itself.
	ToolStarted struct {
		Meta
		ToolCall
	}
	// ToolProgressed reports a partial result or progress message of a tool call.
	ToolProgressed struct {
		Meta
		CallID, Name string
		// Type is the producer's name of the event; Body the event as JSON (content).
		Type string
		Body []byte
	}
	// ToolEnded ends a tool call, of several open ones of that id the last to start, by name if names differ. Without an
	// open call of that id it makes one.
	ToolEnded struct {
		Meta
		CallID, Name string
		ToolResult
	}
	// CompactionStarted begins a compaction. A run has one at a time: the Recorder ends one of it that is still open.
	CompactionStarted struct {
		Meta
		Compaction
	}
	// CompactionEnded ends the open compaction of its run, if that is of its kind or it names none. Otherwise Compaction
	// is a complete one.
	CompactionEnded struct {
		Meta
		Compaction
		CompactionResult
	}
	// AttemptDiscarded reports an attempt of the open turn whose reply the loop threw away to ask again.
	AttemptDiscarded struct {
		Meta
		DiscardedAttempt
	}
	// PermissionEvaluated reports one decision.
	PermissionEvaluated struct {
		Meta
		PermissionEvaluation
	}
	// PermissionAsked begins a permission evaluation for which somebody is asked; PermissionEvaluated with that tool and
	// call ends it, and has the time between as its wait, unless it states another one. The Recorder
	// ends one without an answer with the action ask.
	PermissionAsked struct {
		Meta
		PermissionEvaluation
	}
	// UserAsked reports that the loop asked the user something other than for permission. UserAnswered reports that there
	// is an answer, or will be none. Both are shown only in copies of open spans.
	UserAsked    struct{ Meta }
	UserAnswered struct{ Meta }
	// FactStated reports facts about the session or a part of it that arose outside any run, or later than their subject:
	// a title, a rewind, the rows of a format that an export returns as they were. Run is not used. An empty Session is
	// that of the run that started last. Where no run started, the facts are lost, and counted.
	FactStated struct {
		Meta
		// Dialect is that of the input; empty for the Go API. Recording is the kind of source; empty means events.
		Dialect   string
		Recording spans.Recording
		Facts     []Fact
	}
	// DefectFound reports a defect that the source of the events states or shows: events that it lost, lines that cannot
	// be attributed. The run that it names keeps it. When it names none, the innermost open run keeps it, or the last to
	// start. Where no run is open it is lost, and counted.
	DefectFound struct {
		Meta
		Code spans.DefectCode
		// Detail says which, in plain text, from ids and numbers only. At most 256 bytes are kept.
		Detail string
	}
	// Other is what has no place among the events above: unknown types, and known ones that change nothing. It is kept
	// on the innermost open span of its run.
	Other struct {
		Meta
		// Type is the producer's name of it; Body the event as JSON (content).
		Type string
		Body []byte
	}
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
