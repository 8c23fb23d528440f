package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// DiffFormat is the version of the JSON form of Diff, which docs/diff.md tells. Later versions add fields and never change one.
const DiffFormat = 1

// DiffTarget is what is compared: a session, a run of it when Run is not nil, or a turn of that run when Turn is not nil. Nothing of it is
// changed.
type DiffTarget struct {
	Session *Session
	// Blocks are those of the session; nil: no content is there.
	Blocks *BlockSet
	Run    *Run
	Turn   *Turn
	// Source becomes DiffSide.Source.
	Source string
}

// Kind is what it is.
func (t *DiffTarget) Kind() DiffKind {
	switch {
	case t.Turn != nil:
		return DiffOfTurns
	case t.Run != nil:
		return DiffOfRuns
	}
	return DiffOfSessions
}

// DiffOptions say what to compare, and how much to tell.
type DiffOptions struct {
	// Ignore are parts that are neither compared nor told.
	Ignore []DiffPart
	// Text bounds the lines told of one text, in bytes; 0 is 64 KiB. Total bounds those of all; 0 is 16 MiB. That a text is another one
	// is told in any case.
	Text, Total int
}

// Diff says how two sessions, two runs or two turns differ. Times, ids, span ids and the order in which parallel tools ran are
// never a difference. Content that is not there on one side or both is told as not compared, never as equal.
type Diff struct {
	Format int `json:"format"`
	// Kind is what A and B are: session, run or turn. Of runs and turns Runs has one entry, of turns with one turn.
	Kind DiffKind `json:"kind"`
	// Equal says that nothing differs and that all could be compared, but for what is Ignored.
	Equal bool       `json:"equal"`
	A     DiffSide   `json:"a"`
	B     DiffSide   `json:"b"`
	First *DiffFirst `json:"first,omitempty"`
	// Counts are those of turns by TurnDiff.State.
	Counts DiffCounts `json:"counts"`
	// NotCompared sums up TurnDiff.NotCompared.
	NotCompared []DiffUnknown `json:"not_compared,omitempty"`
	Ignored     []DiffPart    `json:"ignored,omitempty"`
	// Runs in the order of A; what only B has stands before the next run that both have.
	Runs []RunDiff `json:"runs"`
}

// DiffKind is what is compared.
type DiffKind string

// The kinds.
const (
	DiffOfSessions DiffKind = "session"
	DiffOfRuns     DiffKind = "run"
	DiffOfTurns    DiffKind = "turn"
)

// DiffState says how two things that stand beside each other compare.
type DiffState string

// The states.
const (
	DiffSame    DiffState = "same"
	DiffChanged DiffState = "changed"
	DiffOnlyA   DiffState = "only_a"
	DiffOnlyB   DiffState = "only_b"
	// DiffUnknownState: nothing is known to differ, but not all could be compared.
	DiffUnknownState DiffState = "unknown"
)

// DiffPart is a part of a turn, in one word.
type DiffPart string

// The parts.
const (
	// DiffInput is what was new for the model, but for results of tools: as the loop tells it, else the new messages of the request.
	DiffInput DiffPart = "input"
	// DiffRequest is what the request holds besides: messages that something else put there or took away.
	DiffRequest  DiffPart = "request"
	DiffReply    DiffPart = "reply"
	DiffThinking DiffPart = "thinking"
	// DiffCalls are tool calls: which tools, with which inputs, and how they ended. DiffResults is what they gave back.
	DiffCalls   DiffPart = "calls"
	DiffResults DiffPart = "results"
	DiffSystem  DiffPart = "system"
	// DiffTools is the catalogue that the model was offered.
	DiffTools DiffPart = "tools"
	// DiffParams are model, provider and all other parameters of the request.
	DiffParams DiffPart = "params"
	DiffUsage  DiffPart = "usage"
	DiffCost   DiffPart = "cost"
	// DiffCompaction is what compacted the history: kind, counts, and what the summary says.
	DiffCompaction DiffPart = "compaction"
	// DiffOutcome is how a run or turn ended: status, stop reason, error, attempts.
	DiffOutcome DiffPart = "outcome"
)

// DiffParts are all parts, in the order in which they are told.
var DiffParts = []DiffPart{DiffInput, DiffRequest, DiffSystem, DiffTools, DiffParams, DiffThinking, DiffReply, DiffCalls, DiffResults, DiffCompaction, DiffOutcome, DiffUsage, DiffCost}

// DiffSide is one of the two that are compared.
type DiffSide struct {
	// Address is what `otelagent show` takes; Source the database or file that it is in, where that was said.
	Address string `json:"address"`
	Source  string `json:"source,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Session string `json:"session"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	// Status is that of a session or run.
	Status string    `json:"status,omitempty"`
	Start  time.Time `json:"start,omitzero"`
	// TookNS is from the start to the last thing seen, in ns; information, never a difference.
	TookNS int64 `json:"took_ns,omitempty"`
	Runs   int   `json:"runs"`
	Turns  int   `json:"turns"`
	Calls  int   `json:"calls"`
	Usage  Usage `json:"usage"`
	// Cost is what the loop reported of all turns, by currency.
	Cost map[string]float64 `json:"cost,omitempty"`
}

// DiffFirst names the first difference, in the order of Runs.
type DiffFirst struct {
	// SameA and SameB are the addresses of the last turns before it, after nothing but turns that are the same; empty where there are none.
	SameA string `json:"same_a,omitempty"`
	SameB string `json:"same_b,omitempty"`
	// A and B are the addresses of the turns that differ, or of the runs; empty on the side that has none.
	A string `json:"a,omitempty"`
	B string `json:"b,omitempty"`
	// Parts that differ; none of what only one side has.
	Parts []DiffPart `json:"parts,omitempty"`
}

// DiffCounts counts turns.
type DiffCounts struct {
	Same    int `json:"same"`
	Changed int `json:"changed"`
	OnlyA   int `json:"only_a"`
	OnlyB   int `json:"only_b"`
	Unknown int `json:"unknown"`
	// Repeats are those of Changed that differ in nothing but TurnDiff.Repeats.
	Repeats int `json:"repeats"`
}

// DiffUnknown is a part that could not be compared.
type DiffUnknown struct {
	Part DiffPart `json:"part"`
	// Why in one word of Why….
	Why DiffWhy `json:"why"`
	// Side that it is for: a, b, or both.
	Side string `json:"side"`
	// Turns is in how many turns; in Diff.NotCompared only.
	Turns int `json:"turns,omitempty"`
}

// DiffWhy is why something could not be compared.
type DiffWhy string

// The reasons.
const (
	// DiffNotCaptured: its loop tells it, or may, but no content was captured.
	DiffNotCaptured DiffWhy = "not_captured"
	// DiffDigestsOnly: only digests were captured. They differ, which a time or an id within may be why of.
	DiffDigestsOnly DiffWhy = "digests_only"
	// DiffMissing: it was captured, and did not arrive.
	DiffMissing DiffWhy = "missing"
	// DiffWithheld: it was cut or withheld at the source.
	DiffWithheld DiffWhy = "withheld"
	// DiffNotTold: the loop of one side tells none. What neither tells is no part of what is compared.
	DiffNotTold DiffWhy = "not_told"
	// DiffOtherUnit: the costs are in two currencies.
	DiffOtherUnit DiffWhy = "other_unit"
)

// RunDiff compares a run of A with one of B.
type RunDiff struct {
	State DiffState `json:"state"`
	// A or B is nil where only the other side has it.
	A *DiffRun `json:"a,omitempty"`
	B *DiffRun `json:"b,omitempty"`
	// Parts of the run itself that differ, beside those of its turns.
	Parts []DiffPart `json:"parts,omitempty"`
	// Fields of the run itself that differ: agent, model, status, config.KEY, and so on.
	Fields []ValueChange `json:"fields,omitempty"`
	// Input are messages outside of turns, Calls tool calls outside of turns.
	Input []TextDiff `json:"input,omitempty"`
	Calls []CallDiff `json:"calls,omitempty"`
	// Turns by index.
	Turns       []TurnDiff    `json:"turns,omitempty"`
	NotCompared []DiffUnknown `json:"not_compared,omitempty"`
}

// DiffRun names a run.
type DiffRun struct {
	Address string `json:"address"`
	ID      string `json:"id"`
	// Number from 1 in the order of the session.
	Number int `json:"number"`
	// Relation to the run it belongs to, in one word: continues, rerun, branch, compaction, sub-agent, parallel; empty of a first one.
	Relation string          `json:"relation,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Model    string          `json:"model,omitempty"`
	Status   spans.RunStatus `json:"status,omitempty"`
	Usage    Usage           `json:"usage"`
}

// TurnDiff compares a turn of A with one of B.
type TurnDiff struct {
	State DiffState `json:"state"`
	// A or B is nil where only the other side has it. Then Input, Output and Calls tell what it said as removed or added.
	A *DiffTurn `json:"a,omitempty"`
	B *DiffTurn `json:"b,omitempty"`
	// Parts are those that differ, in the order of DiffParts.
	Parts []DiffPart `json:"parts,omitempty"`
	// Repeats are those of Parts that differ as they did on the turn before: system, tools and params are told once.
	Repeats []DiffPart `json:"repeats,omitempty"`
	// Input is what was new for the model, Output what it said; names are user, reply, thinking and so on.
	Input  []TextDiff `json:"input,omitempty"`
	Output []TextDiff `json:"output,omitempty"`
	// Request counts messages that differ besides Input; nil where none do.
	Request *RequestCompared `json:"request,omitempty"`
	// Calls are all tool calls when one of them differs; in which order they ran is not compared.
	Calls []CallDiff `json:"calls,omitempty"`
	// System are sections of the system prompt, or the whole of it; Tools those of the catalogue.
	System []TextDiff `json:"system,omitempty"`
	Tools  []TextDiff `json:"tools,omitempty"`
	// Params of the request, model and provider among them; Outcome as at DiffOutcome.
	Params  []ValueChange `json:"params,omitempty"`
	Outcome []ValueChange `json:"outcome,omitempty"`
	// Compaction are counts and summary of what compacted the history; of several with [n]. before their names, from 1.
	Compaction []ValueChange `json:"compaction,omitempty"`
	// Usage and Cost, number by number.
	Usage       []NumberChange `json:"usage,omitempty"`
	Cost        []NumberChange `json:"cost,omitempty"`
	NotCompared []DiffUnknown  `json:"not_compared,omitempty"`
}

// RequestCompared says how the messages of two requests differ besides what was new. Ids and times in them do not count, nor what an earlier
// turn that was compared tells.
type RequestCompared struct {
	// Same is how many first messages both have in common.
	Same int64 `json:"same"`
	// OnlyA and OnlyB are how many messages only one side has.
	OnlyA int `json:"only_a"`
	OnlyB int `json:"only_b"`
}

// DiffTurn names a turn, with the numbers that stand beside it.
type DiffTurn struct {
	Address string `json:"address"`
	Run     int    `json:"run"` // number
	Index   int64  `json:"index"`
	// Times are information, never a difference. TookNS is 0 while it is open.
	Start      time.Time `json:"start,omitzero"`
	TookNS     int64     `json:"took_ns,omitempty"`
	Model      string    `json:"model,omitempty"`
	StopReason string    `json:"stop_reason,omitempty"`
	Failed     bool      `json:"failed,omitempty"`
	Usage      Usage     `json:"usage"`
	Cost       *float64  `json:"cost,omitempty"`
	Currency   string    `json:"currency,omitempty"`
	Messages   int64     `json:"request_messages,omitempty"`
	Calls      int       `json:"calls,omitempty"`
	// PromptDigest and ToolsDigest name system prompt and catalogue.
	PromptDigest string        `json:"prompt_digest,omitempty"`
	ToolsDigest  string        `json:"tools_digest,omitempty"`
	Capture      spans.Capture `json:"capture,omitempty"`
	// Hidden says that all it says was rewound.
	Hidden bool `json:"hidden,omitempty"`
}

// CallDiff compares a tool call of A with one of B.
type CallDiff struct {
	State DiffState `json:"state"`
	Name  string    `json:"name"`
	A     *DiffCall `json:"a,omitempty"`
	B     *DiffCall `json:"b,omitempty"`
	// Args are the members of the input that differ; all of them where only one side has the call. ArgsText is set instead where the input
	// is no JSON, or is not here.
	Args     []ValueChange `json:"args,omitempty"`
	ArgsText *TextDiff     `json:"args_text,omitempty"`
	// Fields that differ: outcome, error, permission, truncated.
	Fields []ValueChange `json:"fields,omitempty"`
	// Result is what the tool gave back as text; ResultFields are members of it beside the text.
	Result       *TextDiff     `json:"result,omitempty"`
	ResultFields []ValueChange `json:"result_fields,omitempty"`
	NotCompared  []DiffUnknown `json:"not_compared,omitempty"`
}

// DiffCall names a tool call.
type DiffCall struct {
	ID      string        `json:"id,omitempty"`
	Outcome spans.Outcome `json:"outcome,omitempty"`
	TookNS  int64         `json:"took_ns,omitempty"`
	// Asked says that the reply asks for the call and that nothing is known of its execution.
	Asked bool `json:"asked,omitempty"`
	// Children are addresses of the runs that it spawned, of this session and of others: they can be compared on their own.
	Children []string `json:"children,omitempty"`
}

// ValueChange is a value that differs.
type ValueChange struct {
	// Path is the name, in nested values its members joined by '.', elements of arrays as [n]; empty of the whole.
	Path string `json:"path"`
	// Before is the value of A, After that of B; both empty where Text tells the change, one where there is none.
	Before RawJSON `json:"before,omitempty"`
	After  RawJSON `json:"after,omitempty"`
	// Text is the change of a value that is long text.
	Text *TextDiff `json:"text,omitempty"`
}

// NumberChange is a number that differs.
type NumberChange struct {
	Name   string  `json:"name"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// By is After less Before.
	By float64 `json:"by"`
	// Unit is the currency of a cost, else empty: tokens.
	Unit string `json:"unit,omitempty"`
}

// ParseDiffParts reads words of DiffParts with commas between them. Blanks and empty words are passed over.
func ParseDiffParts(text string) ([]DiffPart, error) {
	var out []DiffPart
	for word := range strings.SplitSeq(text, ",") {
		part := DiffPart(strings.TrimSpace(word))
		switch {
		case part == "":
		case !slices.Contains(DiffParts, part):
			return nil, fmt.Errorf("%q is no part of a turn: want some of %s", part, partNames())
		default:
			out = append(out, part)
		}
	}
	return out, nil
}

func partNames() string {
	var names []string
	for _, p := range DiffParts {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}
