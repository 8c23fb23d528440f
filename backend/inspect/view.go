package inspect

import (
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Outline is a session at a glance: the data of a list of turns, a timeline and charts, with one short line of
// content a turn. docs/api.md describes its JSON form.
type Outline struct {
	// Format is session.TreeFormat.
	Format  int             `json:"format"`
	Summary session.Summary `json:"summary"`
	// Origin is nil for a session of its own loop.
	Origin *Origin `json:"origin,omitempty"`
	// Status is that of Summary as of now: open runs whose process sent no heartbeat for too long are aborted.
	Status spans.SessionStatus `json:"status"`
	// Mark grows with arriving data.
	Mark int64 `json:"mark"`
	// Facts are those that count, as people read them.
	Facts   []OutlineFact `json:"facts,omitempty"`
	Defects []Finding     `json:"defects,omitempty"`
	// Runs in the order of the tree: OutlineTurn.Run counts them from 1.
	Runs []OutlineRun `json:"runs"`
	// Turns of all runs, in the order of the tree.
	Turns []OutlineTurn `json:"turns"`
	// Marks are compactions, decisions and tool calls that belong to no turn.
	Marks []OutlineMark `json:"marks,omitempty"`
	// Children are runs of other sessions that this one spawned, and sessions that were forked from it.
	Children []OutlineChild `json:"children,omitempty"`
	// Tools by name: how often they were called, and how that ended.
	Tools []OutlineTool `json:"tools,omitempty"`
	// Fork says from where the session was forked.
	Fork *OutlineFork `json:"fork,omitempty"`
	// Messages are those that were rewound, wait for their turn, or were taken off the queue.
	Messages []OutlineMessage `json:"messages,omitempty"`
	// Captured says whether any content of the session is there.
	Captured bool `json:"captured"`
	// TurnDefects are the first 100 defects of turns, and of what belongs to them; OutlineTurn.Defects counts all.
	TurnDefects []OutlineDefect `json:"turn_defects,omitempty"`
}

// OutlineDefect is a defect of a turn, or of a tool call, permission evaluation or compaction that belongs to it.
type OutlineDefect struct {
	// Turn is its position in Outline.Turns.
	Turn int `json:"turn"`
	Finding
}

// OutlineFact is one fact: its subject, its key, and its value as JSON.
type OutlineFact struct {
	Subject string          `json:"subject"`
	Key     string          `json:"key"`
	Value   session.RawJSON `json:"value,omitempty"`
	At      time.Time       `json:"at"`
}

// Finding is a defect or an observation in words.
type Finding struct {
	Code spans.DefectCode `json:"code"`
	Text string           `json:"text"`
	// Observation says that nothing need be wrong.
	Observation bool `json:"observation,omitempty"`
}

// OutlineRun is a run without its turns.
type OutlineRun struct {
	Number  int             `json:"number"`
	ID      string          `json:"id"`
	Address string          `json:"address"`
	Status  spans.RunStatus `json:"status"`
	Word    string          `json:"status_word,omitempty"`
	Agent   string          `json:"agent,omitempty"`
	Model   string          `json:"model,omitempty"`
	Start   time.Time       `json:"start,omitzero"`
	End     time.Time       `json:"end,omitzero"` // zero while it is open
	// Estimated says that a time is only a bound.
	Estimated bool          `json:"estimated,omitempty"`
	Usage     session.Usage `json:"usage"`
	// UsageReported says that tokens were reported; else the counts of Usage are zero and say nothing.
	UsageReported bool `json:"usage_told,omitempty"`
	Turns         int  `json:"turns"`
	// Parent is the number of the run of this session that it continues, or that spawned it; 0 for none. Relation is
	// continues, rerun, branch, compaction or sub-agent.
	Parent   int    `json:"parent,omitempty"`
	Relation string `json:"relation,omitempty"`
	// SpawnedBy is the address of the turn whose tool call spawned it, with the id of the call after '#'.
	SpawnedBy string `json:"spawned_by,omitempty"`
	// Hidden says that it was rewound, Copied that a fork took it over.
	Hidden bool   `json:"hidden,omitempty"`
	Copied bool   `json:"copied,omitempty"`
	Group  string `json:"group,omitempty"` // role in a parallel group: member, selected, judge
	Error  string `json:"error,omitempty"`

	Defects []Finding `json:"defects,omitempty"`
}

// OutlineTurn is a turn in a line.
type OutlineTurn struct {
	Run     int       `json:"run"`
	Index   int64     `json:"index"`
	Address string    `json:"address"`
	Start   time.Time `json:"start,omitzero"`
	End     time.Time `json:"end,omitzero"` // zero while it is open
	// State is empty for a turn that ended, else open, closed (no end was seen) or missing (its span did not arrive).
	State         string        `json:"state,omitempty"`
	Trigger       spans.Trigger `json:"trigger,omitempty"`
	Purpose       spans.Purpose `json:"purpose,omitempty"` // utility: no part of the conversation
	Model         string        `json:"model,omitempty"`
	StopReason    string        `json:"stop_reason,omitempty"`
	Failed        bool          `json:"failed,omitempty"`
	Attempts      int64         `json:"attempts,omitempty"`
	Usage         session.Usage `json:"usage"`
	UsageReported bool          `json:"usage_told,omitempty"` // as OutlineRun.UsageReported
	Cost          *float64      `json:"cost,omitempty"`
	Currency      string        `json:"currency,omitempty"`
	ModelCallNS   int64         `json:"model_call_ns,omitempty"`
	Messages      int64         `json:"request_messages,omitempty"`
	Bytes         int64         `json:"request_bytes,omitempty"`
	// PromptChanged and ToolsChanged say that system prompt or tool catalogue is another one than on the turn before.
	PromptChanged bool `json:"prompt_changed,omitempty"`
	ToolsChanged  bool `json:"tools_changed,omitempty"`
	// Text is the beginning of what the model replied, else of what was new for it; one line of at most 160 characters.
	Text  string        `json:"text,omitempty"`
	Calls []OutlineCall `json:"calls,omitempty"`
	Marks []OutlineMark `json:"marks,omitempty"`
	// Defects is how many the turn has, and what belongs to it.
	Defects int `json:"defects,omitempty"`
	// Hidden says that it was rewound: hidden history, not deleted.
	Hidden bool `json:"hidden,omitempty"`
	// Live says that it is known from a copy that was sent while it was open.
	Live bool `json:"live,omitempty"`
}

// OutlineCall is a tool call in a line.
type OutlineCall struct {
	ID      string        `json:"id,omitempty"`
	Name    string        `json:"name"`
	Outcome spans.Outcome `json:"outcome,omitempty"`
	// State as of OutlineTurn.
	State string    `json:"state,omitempty"`
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// OutlineMark is a compaction, a decision or, of Outline.Marks, a tool call at a point of the timeline.
type OutlineMark struct {
	Kind string    `json:"kind"` // compaction, permission or tool_call
	Run  int       `json:"run"`
	At   time.Time `json:"at"`
	// Text says it in a few words.
	Text   string       `json:"text"`
	Action spans.Action `json:"action,omitempty"` // of a permission
}

// OutlineChild is a run of another session that belongs below this one, or a session that was forked from it.
type OutlineChild struct {
	Session string              `json:"session"`
	Run     string              `json:"run,omitempty"`
	Kind    string              `json:"kind"` // sub-agent or fork
	Agent   string              `json:"agent,omitempty"`
	Status  spans.SessionStatus `json:"status,omitempty"`
	// From is the address of the turn that spawned it, with the id of its tool call after '#', as far as known.
	From string `json:"from,omitempty"`
}

// OutlineFork is the source of a fork. Run is the number of the last run that the fork took over, 0 for none.
type OutlineFork struct {
	session.Fork
	Run int `json:"run,omitempty"`
}

// OutlineMessage is the state of a message. Run is the number of its run, 0 for none.
type OutlineMessage struct {
	session.MessageState
	Waiting bool `json:"waiting,omitempty"`
	Run     int  `json:"run,omitempty"`
}

// OutlineTool counts the calls of one tool.
type OutlineTool struct {
	Name   string `json:"name"`
	Calls  int    `json:"calls"`
	Failed int    `json:"failed,omitempty"`
	Denied int    `json:"denied,omitempty"`
}

// TurnView is one turn with its content. docs/api.md describes its JSON form.
type TurnView struct {
	Format int `json:"format"`
	OutlineTurn
	Variant     string         `json:"variant,omitempty"`
	Level       string         `json:"reasoning_level,omitempty"`
	Temperature *float64       `json:"temperature,omitempty"`
	MaxTokens   *int64         `json:"max_tokens,omitempty"`
	Provider    string         `json:"provider,omitempty"`
	Discarded   *session.Usage `json:"discarded_usage,omitempty"`
	FirstChunk  int64          `json:"first_chunk_ns,omitempty"`
	TraceID     string         `json:"trace_id,omitempty"`
	SpanID      string         `json:"span_id,omitempty"`
	ErrorType   string         `json:"error_type,omitempty"`
	Error       string         `json:"error,omitempty"`
	Capture     spans.Capture  `json:"capture,omitempty"`

	// PromptDigest names the system prompt; System is it, where it changed or the turn is the first of its run.
	PromptDigest string `json:"prompt_digest,omitempty"`
	System       *Body  `json:"system,omitempty"`
	// Offered are the names of the tools of the catalogue, nil where it is unknown; Called those that the turn
	// called.
	Offered []string `json:"offered,omitempty"`
	Called  []string `json:"called,omitempty"`
	// Rules are the permission rules in force, and RulesState why they are not there: "not recorded", "not captured".
	Rules      *Body  `json:"rules,omitempty"`
	RulesState string `json:"rules_state,omitempty"`

	// Input is the new input of this turn, Output the reply. Partial says that the reply broke off.
	Input   []MessageText `json:"input,omitempty"`
	Output  []MessageText `json:"output,omitempty"`
	Partial bool          `json:"partial,omitempty"`

	ToolCalls   []CallView       `json:"tool_calls,omitempty"`
	Permissions []PermissionView `json:"permissions,omitempty"`
	Compactions []CompactionView `json:"compactions,omitempty"`
	Events      []EventView      `json:"events,omitempty"`
	// Requests by attempt.
	Requests []RequestView `json:"requests,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`

	of *viewTurn
}

// MessageText is one text of a message.
type MessageText struct {
	// Label says who, or what it is: session.MessagePart.Label.
	Label string `json:"label"`
	Text  Body   `json:"text"`
	// From says in words where it came from, where the request states it.
	From string `json:"from,omitempty"`

	message, part int  // positions of the message in its list, and of the text in the message
	more          int  // in place of so many messages
	outside       bool // the run has the message too
}

// Body is content, or why it is not there.
type Body struct {
	// Text is at most the bound that was asked for; Cut says that it goes on, and Block names the whole (API: block).
	Text  string `json:"text,omitempty"`
	Cut   bool   `json:"cut,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	Block string `json:"block,omitempty"`
	// State is empty when it is there, else one of the words State….
	State string `json:"state,omitempty"`

	have int64 // bytes that are there, of one that was cut
}

// CallView is a tool call with input and output.
type CallView struct {
	OutlineCall
	Address   string   `json:"address"` // of its turn, with the id of the call after '#'
	Input     *Body    `json:"input,omitempty"`
	Output    *Body    `json:"output,omitempty"`
	Error     string   `json:"error,omitempty"`
	Truncated bool     `json:"truncated,omitempty"`
	Children  []string `json:"children,omitempty"` // addresses of the runs that it spawned
	// Permission says under which permission state it ran: the decisions on it, and "not recorded" where there is none.
	Permissions     []PermissionView `json:"permissions,omitempty"`
	PermissionState string           `json:"permission_state,omitempty"`
	Events          []EventView      `json:"events,omitempty"`
	Findings        []Finding        `json:"findings,omitempty"`

	of   *session.ToolCall
	kids []place
}

// PermissionView is one decision.
type PermissionView struct {
	At        time.Time    `json:"at,omitzero"`
	Action    spans.Action `json:"action,omitempty"`
	Tool      string       `json:"tool,omitempty"`
	Rule      string       `json:"rule,omitempty"`
	Source    string       `json:"source,omitempty"`
	DecidedBy string       `json:"decided_by,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Answer    string       `json:"answer,omitempty"`
	WaitNS    int64        `json:"wait_ns,omitempty"`
	Waiting   bool         `json:"waiting,omitempty"` // somebody was asked and has not answered
	Inferred  bool         `json:"inferred,omitempty"`

	of *session.Permission
}

// CompactionView is one compaction. Nil counts are not known.
type CompactionView struct {
	At             time.Time            `json:"at,omitzero"`
	Kind           spans.CompactionKind `json:"kind"`
	Trigger        string               `json:"trigger,omitempty"`
	Reason         string               `json:"reason,omitempty"`
	MessagesBefore *int64               `json:"messages_before,omitempty"`
	MessagesAfter  *int64               `json:"messages_after,omitempty"`
	TokensBefore   *int64               `json:"tokens_before,omitempty"`
	TokensAfter    *int64               `json:"tokens_after,omitempty"`
	Applied        *bool                `json:"applied,omitempty"`
	// Usage is that of its own model calls.
	Usage   *session.Usage `json:"usage,omitempty"`
	Summary *Body          `json:"summary,omitempty"`

	of *session.Compaction
}

// EventView is an event that the five kinds of spans do not model.
type EventView struct {
	At   time.Time `json:"at,omitzero"`
	Type string    `json:"type"`
	Text *Body     `json:"text,omitempty"`

	of session.Note
}

// runView is a run, and what belongs to it outside its turns, as that of a turn.
type runView struct {
	OutlineRun
	own TurnView
}

// RequestView is one request of a turn in a line; the whole of it is Request.
type RequestView struct {
	Address  string `json:"address"`
	Attempt  int64  `json:"attempt"`
	Messages int64  `json:"messages"`
	New      int    `json:"new"` // messages that the last request of another turn before did not have
	Bytes    int64  `json:"bytes,omitempty"`
	// Exact says that the bytes are those of the loop, Missing the number of missing parts. Both are of a turn that
	// is read alone.
	Exact   *bool `json:"exact,omitempty"`
	Missing int   `json:"missing,omitempty"`
}
