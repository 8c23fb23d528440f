package otelagent

import (
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Event is one thing that happened in a loop, neutral between loops. The set is closed: a dialect turns its own events into
// these, and what has no place among them into Other.
//
// Events are pointers. Whoever yields one may reuse it for the next; a Recorder keeps nothing of it.
type Event interface {
	meta() *Meta
}

// Meta is what all events share.
type Meta struct {
	// Session and Run address the run the event belongs to, as the producer named them. Session may be empty where the
	// wire names it only at a run's start. Loops reuse run ids: the run meant is the one that is open, the last to start of
	// several. An empty Run means the run that is open, the innermost one where the open runs spawned each other; where that
	// is not certain the event is lost, and counted.
	Session, Run string
	// Time is what the producer stated; zero for an untimed event.
	Time time.Time
	// Arrived is when the event reached this process, with its monotonic reading. Zero in a replay, where arrival
	// means nothing, and of which no metrics are taken (see [WithReplayMetrics]).
	Arrived time.Time
	// Seq is the position of the event in its input (a line number), from 1. Zero: the recorder counts.
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
	// RunEnded ends a run. Without an open run of that id it makes one whose start was not seen, or, with status vetoed, one
	// that never began.
	RunEnded struct {
		Meta
		RunResult
	}
	// GroupStarted begins a parallel group. Runs that start while it is open belong to it: its members by id, and as its judge
	// the first other run without a parent that starts when those members that started are over.
	GroupStarted struct {
		Meta
		GroupInfo
	}
	// GroupEnded ends the group that holds its selected run.
	GroupEnded struct {
		Meta
		GroupResult
	}
	// TurnStarted begins a turn; a turn of the same run that is still open is ended by us.
	TurnStarted struct {
		Meta
		TurnInfo
	}
	// TurnEnded ends the open turn of its run.
	TurnEnded struct {
		Meta
		TurnResult
	}
	// RequestPrepared tells what the model will receive.
	RequestPrepared struct {
		Meta
		Request
	}
	// MessageAdded tells of a message other than the reply.
	MessageAdded struct {
		Meta
		Message
	}
	// ReplyReceived tells that the model call is over. The reply comes with TurnEnded; what is told of it here, if anything, is shown
	// until then to who looks at the session while it runs (see [Turn.Reply]). The time in Message is that of the reply.
	ReplyReceived struct {
		Meta
		Message
		// Usage, StopReason, Model, Provider and ResponseID are those that the turn will end with, as far as they are known.
		Usage                                   *Usage
		StopReason, Model, Provider, ResponseID string
	}
	// ReplyDelta tells that a piece of the reply came in. Deltas are never span events; see [WithPartialOutput] for what may be kept
	// of them.
	ReplyDelta struct {
		Meta
		// Bytes is the length of the piece.
		Bytes int
		// Kind and Text are the piece itself, where the loop tells it apart: Text is a JSON string as it stands in the input, with its
		// quotes (content). Nil where it is no text.
		Kind PartialKind
		Text []byte
	}
	// ToolStarted begins a tool call in the open turn of its run, or in the run itself.
	ToolStarted struct {
		Meta
		ToolCall
	}
	// ToolProgressed tells of a partial result or progress message of a tool call.
	ToolProgressed struct {
		Meta
		CallID, Name string
		// Type is the producer's word for the event; Body the event as JSON (content).
		Type string
		Body []byte
	}
	// ToolEnded ends a tool call, of several open ones of that id the last to start, by name if names differ. Without an open
	// call of that id it makes one.
	ToolEnded struct {
		Meta
		CallID, Name string
		ToolResult
	}
	// CompactionStarted begins a compaction.
	CompactionStarted struct {
		Meta
		Compaction
	}
	// CompactionEnded ends the open compaction of its run, if that is of its kind or it names none; else Compaction tells of
	// a whole one.
	CompactionEnded struct {
		Meta
		Compaction
		CompactionResult
	}
	// AttemptDiscarded tells of an attempt of the open turn whose reply the loop threw away to ask again.
	AttemptDiscarded struct {
		Meta
		DiscardedAttempt
	}
	// PermissionEvaluated tells of one decision.
	PermissionEvaluated struct {
		Meta
		PermissionEvaluation
	}
	// PermissionAsked begins a permission evaluation for which somebody is asked; PermissionEvaluated with that tool and call ends it, and
	// has the time between as its wait, unless it states another one. One without an answer is ended by us, with the action ask.
	PermissionAsked struct {
		Meta
		PermissionEvaluation
	}
	// UserAsked tells that the loop asked the user something other than for permission, UserAnswered that there is an answer, or will be
	// none. They are only of use to who looks at a session while it runs.
	UserAsked    struct{ Meta }
	UserAnswered struct{ Meta }
	// FactStated tells of facts about the session or a thing in it that arose outside any run, or later than the thing: a title,
	// a rewind, the rows of a format that are to be given back as they were. Run is not used. An empty Session is that of the run
	// that started last; without one they are lost, and counted.
	FactStated struct {
		Meta
		// Dialect is that of the input; empty for the Go API. Recording is what it is told from; empty means events.
		Dialect   string
		Recording spans.Recording
		Facts     []Fact
	}
	// DefectFound tells of something that the source of the events says, or shows, to be wrong with them: events that it lost,
	// lines that cannot be attributed. It is kept on the run; when it names none, on the innermost of those that are open, or on the last
	// of them to start. Where none is open it is lost, and counted.
	DefectFound struct {
		Meta
		Code spans.DefectCode
		// Detail says which, in plain words, from ids and numbers only. At most 256 bytes are kept.
		Detail string
	}
	// Other is what has no place among the events above: unknown types, and known ones that change nothing. It is kept
	// on the innermost open span of its run.
	Other struct {
		Meta
		// Type is the producer's word; Body the event as JSON (content).
		Type string
		Body []byte
	}
)
