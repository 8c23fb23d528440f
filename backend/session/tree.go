package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// The tree. It is what Assemble makes of a set of rows, what exports are written from, and, as JSON, what
// `otelagent show --output json` prints (README.md). Order of slices is part of the shape; a nil slice is empty.

// TreeFormat is the version of the tree's JSON form: Session.Format. Later versions add fields and never change one.
const TreeFormat = 1

// Session is everything one conversation produced.
type Session struct {
	// Format is TreeFormat.
	Format int    `json:"format"`
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
	// MadeUp reports that the adapter generated the id.
	MadeUp  bool                `json:"made_up,omitempty"`
	Status  spans.SessionStatus `json:"status"`
	Agent   string              `json:"agent,omitempty"`
	AgentID string              `json:"agent_id,omitempty"`
	Dialect string              `json:"dialect,omitempty"`
	Service string              `json:"service,omitempty"`
	// Start is the earliest start of a run, Last the latest time seen.
	Start time.Time `json:"start"`
	Last  time.Time `json:"last"`
	// Usage is the sum over the runs of this session, but for those that it took over from another one. Discarded is
	// what attempts cost besides whose replies were thrown away: both together were billed.
	Usage     Usage  `json:"usage"`
	Discarded *Usage `json:"discarded_usage,omitempty"`
	// CompactionUsage is what the compactions' own model calls used, which was billed as well and is part of no turn.
	CompactionUsage *Usage `json:"compaction_usage,omitempty"`
	// Runs by start, then id; groups by start.
	Runs   []*Run   `json:"runs"`
	Groups []*Group `json:"groups,omitempty"`
	// Facts by subject, key and time; see Session.Fact.
	Facts   []Fact   `json:"facts,omitempty"`
	Defects []Defect `json:"defects,omitempty"`

	// Links is nil for a session without records of other programs. Assemble does not set it.
	Links *Links `json:"-"`
}

// Links says what else of a store belongs to a session of records of other programs (package mapped).
type Links struct {
	// Traces are those of its records.
	Traces []TraceID
	// Parts are the sessions of traces whose records belong to it.
	Parts []Key
	// Revision is that of the session and of all that hold records of Traces, as of before they were read.
	Revision int64
}

// Keys returns the sessions that hold blocks of session k, k first.
func (l *Links) Keys(k Key) []Key {
	if l == nil {
		return []Key{k}
	}
	return append([]Key{k}, l.Parts...)
}

// Fact is a statement about the session, or a part of it, from a time until a later fact of the same subject and key.
type Fact struct {
	// Subject is "session", or a kind and an id as the source has them.
	Subject string    `json:"subject"`
	Key     string    `json:"key"`
	At      time.Time `json:"at"`
	// Value names the block that holds it, as JSON; nil when no content was captured.
	Value *Ref  `json:"value,omitempty"`
	Seq   int64 `json:"seq,omitempty"`
}

// Fact returns the fact of that subject and key that counts, the latest; nil when there is none.
func (s *Session) Fact(subject, key string) *Fact {
	after := sort.Search(len(s.Facts), func(i int) bool {
		return cmp.Or(strings.Compare(s.Facts[i].Subject, subject), strings.Compare(s.Facts[i].Key, key)) > 0
	})
	if after > 0 && s.Facts[after-1].Subject == subject && s.Facts[after-1].Key == key {
		return &s.Facts[after-1]
	}
	return nil
}

// Span says which span something came from and how its times are known.
type Span struct {
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
	// Known is how the end is known. Missing reports that the span did not arrive and was inferred.
	Known   spans.Known `json:"known,omitempty"`
	Missing bool        `json:"missing,omitempty"`
	Start   time.Time   `json:"start,omitzero"`
	// End is zero while the span is open. Seen is the time of the source's last sign of that, and HeartbeatNS the
	// interval of these signs in ns; both are zero unless Known is live.
	End         time.Time `json:"end,omitzero"`
	Seen        time.Time `json:"seen,omitzero"`
	HeartbeatNS int64     `json:"heartbeat_ns,omitempty" attr:"otelagent.live.heartbeat"`
	// StartSource and EndSource are empty where the event stated the time.
	StartSource spans.TimeSource `json:"start_source,omitempty" attr:"otelagent.time"`
	EndSource   spans.TimeSource `json:"end_source,omitempty" attr:"otelagent.end.time"`
	Seq         int64            `json:"seq,omitempty"`
	EndSeq      int64            `json:"end_seq,omitempty"`
	// Recording is empty for a span from the events of its loop.
	Recording spans.Recording `json:"recording,omitempty" attr:"otelagent.recording"`
	// EventsDropped is how many notes the source left out because the bound of the span was reached.
	EventsDropped int64 `json:"events_dropped,omitempty" attr:"otelagent.events.dropped"`
	// Redacted counts places that a redactor changed in what this span was the first to carry.
	Redacted int64 `json:"redacted,omitempty" attr:"otelagent.redacted"`
	// Extra are attributes of the span that the tree has no field for, kept as they came.
	Extra map[string]any `json:"extra,omitempty"`
	// Lists are lists of names that this version does not know for the kind of span.
	Lists map[string]*Refs `json:"lists,omitempty"`
}

// Remarks holds the notes and the defects of a part of the tree.
type Remarks struct {
	Events  []Note   `json:"events,omitempty"`
	Defects []Defect `json:"defects,omitempty" attr:"otelagent.run.defects"`
}

// Run is one execution of an agent loop.
type Run struct {
	Span
	ID string `json:"id"`
	// Ordinal is the run's number in its process, OrdinalFrom the start of the run that has number 1 there.
	Ordinal     int64     `json:"ordinal,omitempty" attr:"otelagent.run.ordinal,header"`
	OrdinalFrom time.Time `json:"ordinal_from,omitzero" attr:"otelagent.run.ordinal.from,header"`
	Agent       string    `json:"agent,omitempty" attr:"gen_ai.agent.name,header"`
	AgentID     string    `json:"agent_id,omitempty" attr:"otelagent.agent.id,header"`
	// Model and Provider are those asked for.
	Model    string `json:"model,omitempty" attr:"gen_ai.request.model,header"`
	Provider string `json:"provider,omitempty" attr:"gen_ai.provider.name,header"`
	Dialect  string `json:"dialect,omitempty" attr:"otelagent.dialect,header"`

	// ParentID is the run that this one continues or was spawned by, as the loop named it; RunState.Parent is that run.
	ParentID         string `json:"parent_id,omitempty" attr:"otelagent.run.parent.id,header,relative"`
	ParentSessionID  string `json:"parent_session_id,omitempty" attr:"otelagent.run.parent.session.id,header,relative"`
	ParentToolCallID string `json:"parent_tool_call_id,omitempty" attr:"otelagent.run.parent.tool_call.id,header,relative"`
	// ParentCut says that runs name each other as parents and that the link of this one is not followed.
	ParentCut       bool               `json:"parent_cut,omitempty"`
	Continuation    spans.Continuation `json:"continuation,omitempty" attr:"otelagent.run.continuation,header"`
	ContinuationTag string             `json:"continuation_tag,omitempty" attr:"otelagent.run.continuation.tag,header"`
	ForkParentID    string             `json:"fork_parent_id,omitempty" attr:"otelagent.run.fork.parent.id,header"`
	GroupStart      time.Time          `json:"group_start,omitzero" attr:"otelagent.group.start,header"`
	GroupRole       spans.GroupRole    `json:"group_role,omitempty" attr:"otelagent.group.role,header"`

	// Config is the verbatim configuration snapshot; nil when it was not captured or not there.
	Config    RawJSON `json:"config,omitempty" attr:"otelagent.run.config"`
	ConfigID  string  `json:"config_id,omitempty" attr:"otelagent.run.config.id"`
	ConfigAPI string  `json:"config_api,omitempty" attr:"otelagent.run.config.api"`
	Metadata  *Refs   `json:"metadata,omitempty" list:"metadata"`
	Rules     *Refs   `json:"rules,omitempty" list:"rules"`

	Status     spans.RunStatus `json:"status" attr:"otelagent.run.status"`
	StatusWord string          `json:"status_word,omitempty" attr:"otelagent.run.status.word"`
	Rejected   bool            `json:"rejected,omitempty" attr:"otelagent.run.rejected"`
	Rejection  string          `json:"rejection,omitempty" attr:"otelagent.run.rejection"`
	ErrorType  spans.ErrorType `json:"error_type,omitempty" attr:"error.type"`
	Error      string          `json:"error,omitempty" attr:"otelagent.error.message"`

	// Copied says that the session took the run over from the one it was forked from.
	Copied bool `json:"copied,omitempty" attr:"otelagent.run.copied,header"`
	// Usage is the sum over the turns that arrived; where none of them reports any, the loop's own sum. Discarded
	// sums up the attempts whose replies were thrown away and is not part of it. RollUp and Reported are the loop's
	// own sum, normalised and as it came.
	Usage     Usage  `json:"usage"`
	Discarded *Usage `json:"discarded_usage,omitempty"`
	// CompactionUsage is the sum over the compactions, part of neither.
	CompactionUsage *Usage          `json:"compaction_usage,omitempty"`
	RollUp          *Usage          `json:"roll_up_usage,omitempty" attr:"otelagent.run.usage.*_tokens"`
	Reported        *ReportedUsage  `json:"reported_usage,omitempty" attr:"otelagent.run.usage.reported.*"`
	Rule            spans.UsageRule `json:"usage_rule,omitempty" attr:"otelagent.usage.rule"`

	// RulesDigest names the permission rules in force.
	RulesDigest string `json:"rules_digest,omitempty" attr:"otelagent.rules.digest"`

	Capture spans.Capture `json:"capture,omitempty" attr:"otelagent.capture,header"`
	// Turns by index, then start. ToolCalls, Compactions and Permissions are those that belong to no turn.
	Turns       []*Turn       `json:"turns"`
	ToolCalls   []*ToolCall   `json:"tool_calls,omitempty"`
	Compactions []*Compaction `json:"compactions,omitempty"`
	Permissions []*Permission `json:"permissions,omitempty"`
	Messages    *Refs         `json:"messages,omitempty" list:"messages"`
	Outside     *Refs         `json:"outside,omitempty" list:"outside"`
	Remarks
}

// Group is a parallel group: runs started together, of which one is selected.
type Group struct {
	Span
	Members       []string `json:"members,omitempty" attr:"otelagent.group.members"`
	SelectedID    string   `json:"selected_id,omitempty" attr:"otelagent.group.selected.id"`
	SelectedIndex int64    `json:"selected_index" attr:"otelagent.group.selected.index"`
	// Evaluation is the usage of the evaluation as reported. It is the judge's own and part of no sum.
	Evaluation *ReportedUsage  `json:"evaluation_usage,omitempty" attr:"otelagent.group.evaluation.usage.*"`
	Dialect    string          `json:"dialect,omitempty" attr:"otelagent.dialect"`
	Status     spans.RunStatus `json:"status" attr:"otelagent.run.status"`
	Remarks
}

// Turn is one model request, its reply, and the tool calls that reply caused.
type Turn struct {
	Span
	Index   int64         `json:"index"`
	Trigger spans.Trigger `json:"trigger,omitempty" attr:"otelagent.turn.trigger"`
	// Purpose is empty for a turn of the conversation.
	Purpose  spans.Purpose `json:"purpose,omitempty" attr:"otelagent.turn.purpose"`
	Model    string        `json:"model,omitempty" attr:"gen_ai.request.model"`
	Answered string        `json:"answered_model,omitempty" attr:"gen_ai.response.model"`
	Provider string        `json:"provider,omitempty" attr:"gen_ai.provider.name"`
	Variant  string        `json:"variant,omitempty" attr:"otelagent.model.variant"`
	Level    string        `json:"reasoning_level,omitempty" attr:"gen_ai.request.reasoning.level"`
	Format   string        `json:"format,omitempty" attr:"gen_ai.output.type,otelagent.request.format"`

	MaxTokens   *int64   `json:"max_tokens,omitempty" attr:"gen_ai.request.max_tokens"`
	Temperature *float64 `json:"temperature,omitempty" attr:"gen_ai.request.temperature"`
	Attempts    int64    `json:"attempts,omitempty" attr:"otelagent.turn.attempts"`
	// Replied says that the model answered the last attempt of an open turn.
	Replied bool `json:"replied,omitempty" attr:"otelagent.replied"`

	// Waiting is what an open turn waits for, other than model, tools and approval.
	Waiting    spans.Waiting   `json:"waiting,omitempty" attr:"otelagent.waiting"`
	StopReason string          `json:"stop_reason,omitempty" attr:"otelagent.turn.stop_reason"`
	Failed     bool            `json:"failed,omitempty"`
	ErrorType  spans.ErrorType `json:"error_type,omitempty" attr:"error.type"`
	Error      string          `json:"error,omitempty" attr:"otelagent.error.message"`

	Usage    Usage           `json:"usage" attr:"otelagent.usage.*_tokens,genai"`
	Reported *ReportedUsage  `json:"reported_usage,omitempty" attr:"otelagent.usage.reported.*"`
	Rule     spans.UsageRule `json:"usage_rule,omitempty" attr:"otelagent.usage.rule"`
	// DiscardedAttempts is how many replies were thrown away, Discarded what they cost besides, no part of Usage.
	DiscardedAttempts int64    `json:"discarded_attempts,omitempty" attr:"otelagent.attempts.discarded"`
	Discarded         *Usage   `json:"discarded_usage,omitempty" attr:"otelagent.discarded.usage.*_tokens"`
	Cost              *float64 `json:"cost,omitempty" attr:"otelagent.turn.cost"`
	Currency          string   `json:"currency,omitempty" attr:"otelagent.turn.cost.currency"`
	// ModelCallNS is the time of the model call alone, FirstChunkNS the time to the first piece of the reply, in ns;
	// 0 when it is not known.
	ModelCallNS  int64 `json:"model_call_ns,omitempty" attr:"otelagent.turn.model_call.duration"`
	FirstChunkNS int64 `json:"first_chunk_ns,omitempty" attr:"gen_ai.response.time_to_first_chunk,seconds"`

	// These are known of the request and the reply without their content.
	ResponseID      string `json:"response_id,omitempty" attr:"gen_ai.response.id"`
	RequestMessages int64  `json:"request_messages,omitempty" attr:"otelagent.request.messages"`
	RequestBytes    int64  `json:"request_bytes,omitempty" attr:"otelagent.request.bytes"`
	PromptDigest    string `json:"prompt_digest,omitempty" attr:"otelagent.prompt.digest"`

	Capture spans.Capture `json:"capture,omitempty" attr:"otelagent.capture"`
	// Requests by attempt.
	Requests []*Request `json:"requests,omitempty"`
	Input    *Refs      `json:"input,omitempty" list:"input"`
	// Output is the reply. Partial reports that the reply was not complete when the source last sent it.
	Output      *Refs         `json:"output,omitempty" list:"output" attr:"otelagent.partial.output"`
	Partial     bool          `json:"partial,omitempty" attr:"otelagent.partial"`
	Results     *Refs         `json:"results,omitempty" list:"results"`
	ToolCalls   []*ToolCall   `json:"tool_calls,omitempty"`
	Compactions []*Compaction `json:"compactions,omitempty"`
	Permissions []*Permission `json:"permissions,omitempty"`
	Remarks
}

// Request is what the model received in one attempt.
type Request struct {
	Attempt  int64 `json:"attempt"`
	Messages *Refs `json:"messages,omitempty"`
	Params   *Refs `json:"params,omitempty"`

	before   *Request
	whole    string // size and SHA-256
	stated   int64  // bytes of the request as the loop emitted it, 0 when that is not known
	redacted bool   // something of it was changed before it left
}

// Equal reports whether r and o say the same.
func (r *Request) Equal(o *Request) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Attempt == o.Attempt && r.Messages.Equal(o.Messages) && r.Params.Equal(o.Params) && r.whole == o.whole
}

// Before returns the last request of another turn before r in the tree whose messages are complete: by runs, turns and
// attempts in their order, without utility turns. It is nil of the first one, of one whose messages are not complete,
// and of those of a utility turn.
func (r *Request) Before() *Request { return r.before }

// New returns the messages of the request that the one before (Before) lacks.
func (r *Request) New() []Ref { return r.Messages.Without(cmp.Or(r.before, &Request{}).Messages) }

// ToolCall is one execution of one tool.
type ToolCall struct {
	Span
	ID        string          `json:"id" attr:"gen_ai.tool.call.id"`
	Name      string          `json:"name,omitempty" attr:"gen_ai.tool.name"`
	Type      string          `json:"type,omitempty" attr:"gen_ai.tool.type"`
	Ordinal   int64           `json:"ordinal,omitempty" attr:"otelagent.ordinal"`
	Outcome   spans.Outcome   `json:"outcome,omitempty" attr:"otelagent.tool.outcome"`
	ErrorType spans.ErrorType `json:"error_type,omitempty" attr:"error.type"`
	Error     string          `json:"error,omitempty" attr:"otelagent.error.message"`
	Truncated *bool           `json:"truncated,omitempty" attr:"otelagent.tool.truncated"`

	ChildRunID     string `json:"child_run_id,omitempty" attr:"otelagent.tool.child.run.id,relative"`
	ChildSessionID string `json:"child_session_id,omitempty" attr:"otelagent.tool.child.session.id,relative"`

	Args        *Refs         `json:"args,omitempty" list:"args"`
	Result      *Refs         `json:"result,omitempty" list:"result"`
	Progress    int64         `json:"progress,omitempty" attr:"otelagent.tool.progress.count"`
	Permissions []*Permission `json:"permissions,omitempty"`
	Remarks
}

// Calls yields the tool calls of a run: those that belong to no turn, then those of its turns, in the order of the
// tree.
func (r *Run) Calls() iter.Seq[*ToolCall] {
	return func(yield func(*ToolCall) bool) {
		for n := range r.Walk() {
			if n.Kind() == KindToolCall && !yield(n.Call) {
				return
			}
		}
	}
}

// Compaction replaced messages by fewer. Nil counts are not known.
type Compaction struct {
	Span
	Kind    spans.CompactionKind `json:"kind" attr:"otelagent.compaction.kind"`
	Trigger string               `json:"trigger,omitempty" attr:"otelagent.compaction.trigger"`

	MessagesBefore     *int64 `json:"messages_before,omitempty" attr:"otelagent.compaction.messages.before"`
	MessagesAfter      *int64 `json:"messages_after,omitempty" attr:"otelagent.compaction.messages.after"`
	MessagesSummarized *int64 `json:"messages_summarized,omitempty" attr:"otelagent.compaction.messages.summarized"`
	InputTokens        *int64 `json:"input_tokens,omitempty" attr:"otelagent.compaction.input_tokens"`
	OutputTokens       *int64 `json:"output_tokens,omitempty" attr:"otelagent.compaction.output_tokens"`
	RemovedTokens      *int64 `json:"removed_tokens,omitempty" attr:"otelagent.compaction.removed_tokens"`
	// Usage is that of the compaction's own model calls, part of no turn, Cost what the loop reports of them; nil when
	// it is not known.
	Usage    *Usage   `json:"usage,omitempty" attr:"otelagent.compaction.usage.*_tokens"`
	Cost     *float64 `json:"cost,omitempty" attr:"otelagent.compaction.cost"`
	Currency string   `json:"currency,omitempty" attr:"otelagent.compaction.cost.currency"`
	Runs     *int64   `json:"runs,omitempty" attr:"otelagent.compaction.runs"`
	Removed  []string `json:"removed,omitempty" attr:"otelagent.compaction.removed"`
	Applied  *bool    `json:"applied,omitempty" attr:"otelagent.compaction.applied"`
	Category string   `json:"category,omitempty" attr:"otelagent.compaction.category"`
	Target   string   `json:"target,omitempty" attr:"otelagent.compaction.target"`
	Reason   string   `json:"reason,omitempty" attr:"otelagent.compaction.reason"`
	Summary  *Refs    `json:"summary,omitempty" list:"summary"`
	Before   *Refs    `json:"before,omitempty" list:"before"`
	After    *Refs    `json:"after,omitempty" list:"after"`
	Remarks
}

// Permission is one decision whether something may run.
type Permission struct {
	Span
	Tool      string                 `json:"tool,omitempty" attr:"gen_ai.tool.name"`
	CallID    string                 `json:"call_id,omitempty" attr:"gen_ai.tool.call.id"`
	Ordinal   int64                  `json:"ordinal,omitempty" attr:"otelagent.ordinal"`
	Pattern   string                 `json:"pattern,omitempty" attr:"otelagent.permission.pattern"`
	Action    spans.Action           `json:"action,omitempty" attr:"otelagent.permission.action"`
	Source    spans.PermissionSource `json:"source,omitempty" attr:"otelagent.permission.source"`
	Target    spans.PermissionTarget `json:"target,omitempty" attr:"otelagent.permission.target"`
	Reason    string                 `json:"reason,omitempty" attr:"otelagent.permission.reason"`
	DecidedBy string                 `json:"decided_by,omitempty" attr:"otelagent.permission.decided_by"`
	WaitNS    int64                  `json:"wait_ns,omitempty" attr:"otelagent.permission.wait"`
	// Options names the answers that were offered, Option the one that was chosen, Outcome is as the loop spells it.
	Options *Refs  `json:"options,omitempty" list:"options"`
	Option  string `json:"option,omitempty" attr:"otelagent.permission.option"`
	Outcome string `json:"outcome,omitempty" attr:"otelagent.permission.outcome"`
	Derived bool   `json:"derived,omitempty" attr:"otelagent.derived"`
	// RulesDigest names the rule set.
	RulesDigest string `json:"rules_digest,omitempty" attr:"otelagent.rules.digest"`
	Remarks
}

// Usage are the five normalised counts in tokens: input includes cached tokens, output includes reasoning.
type Usage struct {
	Input      int64 `json:"input" genai:"input_tokens"`
	Output     int64 `json:"output" genai:"output_tokens"`
	Reasoning  int64 `json:"reasoning" genai:"reasoning.output_tokens"`
	CacheRead  int64 `json:"cache_read" genai:"cache_read.input_tokens"`
	CacheWrite int64 `json:"cache_write" genai:"cache_creation.input_tokens,cache_write.input_tokens"`
	// LowerBound says that the true usage is this or more. A sum has it from its parts.
	LowerBound bool `json:"lower_bound,omitempty"`
}

// Add adds v to u.
func (u *Usage) Add(v Usage) {
	u.Input = plus(u.Input, v.Input)
	u.Output = plus(u.Output, v.Output)
	u.Reasoning = plus(u.Reasoning, v.Reasoning)
	u.CacheRead = plus(u.CacheRead, v.CacheRead)
	u.CacheWrite = plus(u.CacheWrite, v.CacheWrite)
	u.LowerBound = u.LowerBound || v.LowerBound
}

// All returns the sum of the five counts, within the bounds of an int64.
func (u Usage) All() int64 {
	return plus(plus(plus(plus(u.Input, u.Output), u.Reasoning), u.CacheRead), u.CacheWrite)
}

var plus = spans.AddCounts

// ReportedUsage are the counts as the loop reported them.
type ReportedUsage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Total      int64 `json:"total"`
}

// derive sets all counts but the total from the normalised ones: the inverse of what a writer does by the rule.
func (r *ReportedUsage) derive(u Usage, rule spans.UsageRule) {
	r.Input, r.Output, r.Reasoning = u.Input, u.Output, u.Reasoning
	r.CacheRead, r.CacheWrite = u.CacheRead, u.CacheWrite
	if rule.ExcludesCache() {
		r.Input = plus(plus(u.Input, -u.CacheRead), -u.CacheWrite)
	}
	if rule.ExcludesReasoning() {
		r.Output = plus(u.Output, -u.Reasoning)
	}
}

// Note is something that the five kinds do not model: an otelagent.event.
type Note struct {
	Time time.Time `json:"time"`
	Type string    `json:"type"`
	// Body names the block; nil when no content was captured.
	Body *Ref  `json:"body,omitempty"`
	Seq  int64 `json:"seq,omitempty"`
}

// Ref is one entry of a resolved list.
type Ref struct {
	// Block is the short id. A body that did not arrive is missing by this name.
	Block string `json:"block"`
	// Provenance is as in spans.Item.
	Provenance string `json:"provenance,omitempty"`
}

// Defect is a contradiction or a gap that the tree could not resolve.
type Defect struct {
	Code spans.DefectCode `json:"code"`
	// Detail says which, in plain words, from ids and numbers only.
	Detail string `json:"detail,omitempty"`
}

// Refs is a list as it was resolved: the references of one request, input, output and so on. Lists of one session
// that begin alike share memory, so a session of long requests holds what came over the wire and not its lists
// written out.
type Refs struct {
	// Count is the length of the list, as the wire says.
	Count int64
	// Complete is false when a prefix could not be resolved (Items are then those that came with the list itself: its
	// end), and when items are bad or not Count.
	Complete bool
	// Same is how many first items a list of messages of a request has in common with the last complete one before it
	// in the tree (Request.Before). The JSON form omits them.
	Same int64

	end        *node // the last item
	known, own int64 // how many items before and with it are known, and how many came with the list itself

	bodies []string // of the items, where they came with the row
}

// NewRefs returns a complete list without a digest.
func NewRefs(items ...Ref) *Refs {
	n := int64(len(items))
	r := &Refs{Count: n, Complete: true, end: root, known: n, own: n}
	for i, ref := range items {
		r.end = &node{parent: r.end, ref: ref, pos: int64(i) + 1, walked: true, whole: true}
	}
	return r
}

// LiveBlocks returns the bodies that came within rows and not as blocks: the output so far of turns that are open, or
// whose end was never seen. Readers of content add them to their BlockSet. They share the strings of the rows.
func (s *Session) LiveBlocks() []Block {
	var out []Block
	for _, r := range s.Runs {
		for _, t := range r.Turns {
			if t.Output == nil {
				continue
			}
			for _, body := range t.Output.bodies {
				b := Block{Session: Key{Tenant: s.Tenant, ID: s.ID}, ID: spans.BlockOfString(body), Body: body}
				out = append(out, b)
			}
		}
	}
	return out
}

// Len returns the number of items that are known.
func (r *Refs) Len() int {
	if r == nil {
		return 0
	}
	return int(r.known)
}

// Items returns the items that are known, in a slice that it makes for this call.
func (r *Refs) Items() []Ref { return r.From(0) }

// From returns the items that are known but for the first n, like Items, at the cost of what it returns.
func (r *Refs) From(n int64) []Ref {
	left := int64(r.Len()) - max(n, 0)
	if left <= 0 {
		return nil
	}
	l := make([]Ref, left)
	at := r.end
	for i := range slices.Backward(l) {
		if at == nil { // marks were made to clash
			break
		}
		l[i], at = at.ref, at.parent
	}
	return l
}

// Equal reports whether r and o say the same: what is known of the lists, and not how they came or what another list
// shares.
func (r *Refs) Equal(o *Refs) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Count == o.Count && r.Complete == o.Complete && slices.Equal(r.Items(), o.Items())
}

// MarshalJSON writes the list as README.md says: of a request, what it repeats of the one before is
// left out.
func (r *Refs) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the encoder that asked decides
	err := e.Encode(struct {
		Count    int64 `json:"count"`
		Complete bool  `json:"complete"`
		Same     int64 `json:"same,omitempty"`
		Items    []Ref `json:"items,omitempty"`
	}{r.Count, r.Complete, r.Same, r.From(r.Same)})
	return b.Bytes(), err
}

// RawJSON is JSON text as it came.
type RawJSON string

// MarshalJSON returns the text itself when it is valid JSON, else the text as a JSON string: bad input never makes
// bad output.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if json.Valid([]byte(r)) {
		return []byte(r), nil
	}
	return json.Marshal(string(r))
}
