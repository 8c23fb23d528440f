package writer

import (
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Moment is a time and where it came from.
//
// The zero Moment means now, taken when the call is made. A Moment with a time and no source was stated by the
// producer.
type Moment struct {
	Time   time.Time
	Source spans.TimeSource
	// Seq is the position of the event in its input (a line number), which orders spans of one run. Zero takes the
	// next number of the run's own counter.
	Seq int64
	// Closed says of an end that nobody reported it: Time should be when something of the run was seen last. The span says
	// so. What the result does not have it keeps from before; a run is aborted, a tool call has no outcome, and a
	// permission evaluation no decision.
	Closed bool
}

// RunInfo describes a run when it starts. The zero value is a run of which nothing is known; all fields are
// optional.
//
// Strings are ids, names or values of closed lists; ids over 256 bytes are replaced by their hash. Byte slices are
// copied before the call returns.
type RunInfo struct {
	// SessionID is the session. Empty: that of the enclosing run in the context, else the baggage member session.id, else
	// an id that the tracer generates and marks as such.
	SessionID string
	// ID is the run as the loop names it. Empty: the tracer generates one.
	ID string
	// Agent and AgentID name who runs.
	Agent, AgentID string
	// Model and Provider are those asked for; turns may differ.
	Model, Provider string
	// Dialect names the loop or wire that the run comes from; empty for the Go API.
	Dialect string
	// Start is when the run started.
	Start Moment

	// ParentID is the run that this one continues or was spawned by, as the loop names it. ParentSessionID is its
	// session where that is another one, ParentToolCallID the call that spawned this run.
	ParentID, ParentSessionID, ParentToolCallID string
	// Continuation says how the run relates to its parent; empty means initial. Tag is the loop's tag of it.
	Continuation    spans.Continuation
	ContinuationTag string
	// ForkParentID is the session from which this session was forked.
	ForkParentID string

	// Config is the loop's configuration as JSON; users and passwords are taken off its URLs. It is content; ConfigID and
	// API are not.
	Config        []byte
	ConfigID, API string
	// Metadata is what the caller attached to the run, as JSON. Content.
	Metadata []byte
	// Rules are the permission rules in force, as JSON. Content.
	Rules []byte

	// GroupStart is the start of the parallel group that the run belongs to, GroupRole what it is there.
	GroupStart time.Time
	GroupRole  spans.GroupRole

	// Recording is the kind of source of the run; empty means the events of its loop. A run from a ledger has ids of its
	// own. Where the same run is known from events, those are preferred (backend/session/README.md).
	Recording spans.Recording
	// Copied marks a run that this session took over from the one it was forked from. It is shown, and its usage is part
	// of no sum.
	Copied bool
	// Inferred marks a run of which the start was not seen.
	Inferred bool
}

// RunResult says how a run ended. The zero value is a completed run of which nothing more is known.
type RunResult struct {
	End Moment
	// Status is the run's status; empty means completed. Word is the loop's own name of it.
	Status spans.RunStatus
	Word   string
	// Rejected and Rejection say that the input was refused, and why (content).
	Rejected  bool
	Rejection string
	// Error is what the loop said about a failure (content).
	Error string
	// Usage is the loop's own roll-up; nil when it reported none. It is never computed here.
	Usage *Usage
	// Messages is everything the run added, as the loop reported it at its end; nil when it reported nothing.
	Messages []Message
}

// GroupInfo describes a parallel group when it starts.
type GroupInfo struct {
	SessionID string
	Dialect   string
	// Members are the ids of the runs among which one will be selected.
	Members []string
	Start   Moment
	// Recording is as in RunInfo.
	Recording spans.Recording
	// Inferred marks a group of which the start was not seen.
	Inferred bool
}

// GroupResult says how a parallel group ended.
type GroupResult struct {
	End           Moment
	SelectedID    string
	SelectedIndex *int64
	// Evaluation is the usage of the evaluation as reported. It is the judge's own and never added to it.
	Evaluation *Usage
}

// TurnInfo describes a turn when it starts.
type TurnInfo struct {
	// Index is the zero-based number of the turn as the loop counts; nil is the next turn of the run. A negative number is
	// nil.
	Index   *int64
	Trigger spans.Trigger
	// Purpose is empty for a turn of the conversation.
	Purpose spans.Purpose
	// Model and Provider are those asked for; empty takes the run's.
	Model, Provider string
	Variant         string
	Start           Moment
}

// TurnResult says how a turn ended.
type TurnResult struct {
	End Moment
	// Model and Provider are those that answered.
	Model, Provider string
	ResponseID      string
	// StopReason is the loop's own value.
	StopReason string
	// Failed says that the reply is an error; Error is what was said about it (content). Cancelled says that it failed
	// because user or host stopped it.
	Failed, Cancelled bool
	Error             string
	Usage             *Usage
	// Cost is money in Currency (ISO 4217), as the loop reported it; nil when it did not.
	Cost     *float64
	Currency string
	// ModelCall is the time of the model call alone; zero when it is not known.
	ModelCall time.Duration
	// FirstChunk is the time to the first piece of the reply; zero when it is not known.
	FirstChunk time.Duration
	// Output is the reply; nil when there was none. Results are the tool results in the order of the calls.
	Output  *Message
	Results []Message
	// Partial says that Output is not the whole reply.
	Partial bool
}

// These types are part of the public API.
type (
	Message    = spans.Message
	Usage      = spans.Usage
	Parameters = spans.Parameters
)

// Request is what the model received in one attempt of a turn. With Payload the tracer finds System, Tools and Messages
// in it, as ParseRequest does. Byte slices are copied before the call returns, as far as they are kept.
type Request struct {
	// At is when it was ready.
	At Moment
	// Attempt counts from 0.
	Attempt int
	// Payload is the request as the loop emitted it, nil when it did not. With it the request can be given back byte for
	// byte.
	Payload []byte
	// Messages in the order of the request, with provenance. Where Payload has as many messages, those of Payload count,
	// and Messages add what is known of each in addition to its JSON.
	Messages []Message
	Parameters
	// Bytes is the size of the request as the loop emitted it; zero takes that of Payload.
	Bytes int64
}

// DiscardedAttempt is an attempt of a turn whose reply was thrown away. Its tokens were billed, so they are kept, apart
// from those of the turn; its reply is no part of the conversation.
type DiscardedAttempt struct {
	At Moment
	// Attempt counts from 0.
	Attempt int
	// Reason is the loop's own value for why, such as max_tokens.
	Reason string
	// Error is what the loop said about a failure (content).
	Error string
	// Usage as reported; nil when it is not known.
	Usage *Usage
	// Reply is the message thrown away; nil when it is not known.
	Reply *Message
}

// Fact is one statement about a session, or about a part of it, that is true from a time on.
type Fact struct {
	// Subject is what it is about: "session", or a kind and an id as the source has them: "message/msg_1". At most 256
	// bytes. An id that is a SHA-256 in hexadecimal names content, and is sent only with it.
	Subject string
	// Key is what it says of it: "title", "archived_at". At most 128 bytes.
	Key string
	// Value is JSON (content). Null takes the fact back.
	Value []byte
	// At is since when. Of facts of one subject and key the latest counts; all are kept.
	At Moment
}

// ToolCall describes a tool call when it starts.
type ToolCall struct {
	ID, Name string
	// Type is function, extension or datastore; empty when not known.
	Type string
	// Args are the arguments as JSON (content). Nil when there were none; the JSON text null is kept as such.
	Args  []byte
	Start Moment
}

// ToolResult says how a tool call ended.
type ToolResult struct {
	End Moment
	// Outcome is ok when empty.
	Outcome spans.Outcome
	// Error is what was said about a failure (content).
	Error string
	// Result is the result as JSON (content).
	Result []byte
	// Truncated says whether the result was cut before the model saw it; nil when the loop does not report it.
	Truncated *bool
	// ChildRunID and ChildSessionID name the run that the call spawned.
	ChildRunID, ChildSessionID string
}

// Compaction describes a compaction when it starts.
type Compaction struct {
	Kind    spans.CompactionKind
	Trigger string
	// MessagesBefore and InputTokens are what there was before, as the loop estimates; nil when unknown.
	MessagesBefore, InputTokens *int64
	Start                       Moment
}

// CompactionResult describes what a compaction did. A nil count is unknown.
type CompactionResult struct {
	End                            Moment
	MessagesBefore, MessagesAfter  *int64
	InputTokens, OutputTokens      *int64
	MessagesSummarized, TokensGone *int64
	Runs                           *int64
	// Removed are ids of removed messages in the loop's terms; at most 1,024 are kept.
	Removed []string
	// Applied says whether it took effect; nil when the loop does not report it.
	Applied          *bool
	Category, Target string
	// Usage is that of the compaction's own model calls, which are no turns, Cost their money in Currency (ISO 4217), as
	// the loop reported it; nil when it is not known.
	Usage    *Usage
	Cost     *float64
	Currency string
	// Reason is why (content); Summary is what replaced the messages, as JSON (content).
	Reason  string
	Summary []byte
	// Before and After are the messages before and after (content).
	Before, After []Message
}

// PermissionEvaluation is one decision whether something may run.
type PermissionEvaluation struct {
	Tool, CallID string
	// Pattern is the rule that matched (content).
	Pattern string
	Action  spans.Action
	// Source is where the rule is defined; values outside manifest, session and project are kept as they came.
	Source spans.PermissionSource
	// Target is tool when empty.
	Target spans.PermissionTarget
	// Reason is why, DecidedBy who decided (both content).
	Reason, DecidedBy string
	// Wait is how long somebody was waited for.
	Wait time.Duration
	// Options are the answers that were offered, as JSON (content). Option is the id of the one that was chosen, Outcome
	// the loop's own value for how it ended.
	Options         []byte
	Option, Outcome string
	// RulesDigest names the rule set (content).
	RulesDigest string
	// Derived says that it was inferred from other events.
	Derived    bool
	Start, End Moment
}
