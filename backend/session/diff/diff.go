// Package diff says how two sessions, two runs, two turns or two requests differ.
//
// It aligns runs (by the question and their kind), turns (by index) and tool calls (by input), flattens both sides of
// each pair into fields (fields.go, which lists all that is compared), and compares these path by path. Ids, times and
// the order in which parallel tools ran are never a difference. A field that is not there is reported as not compared,
// never as equal.
package diff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// Format is the version of the JSON form of Diff, which docs/diff.md describes. Later versions add fields and never
// change one.
const Format = 1

// ErrKinds is the error of Compare for two targets of different kinds.
var ErrKinds = errors.New("only two sessions, two runs, two turns or two requests can be compared")

// Target is one side of a comparison: a session; with Run a run of it; with Turn also a turn of that run; with Request
// also a request of that turn. Compare only reads it.
type Target struct {
	Session *session.Session
	// Blocks hold the content of the session; nil has none.
	Blocks  *session.BlockSet
	Run     *session.Run
	Turn    *session.Turn
	Request *session.Request
	// Source becomes Side.Source.
	Source string
}

// Kind returns what the target is.
func (t *Target) Kind() Kind {
	switch {
	case t.Request != nil:
		return OfRequests
	case t.Turn != nil:
		return OfTurns
	case t.Run != nil:
		return OfRuns
	}
	return OfSessions
}

// Diff is the result of a comparison.
type Diff struct {
	Format int  `json:"format"`
	Kind   Kind `json:"kind"`
	// Equal reports that nothing differs and that everything could be compared, except what is Ignored.
	Equal bool   `json:"equal"`
	A     Side   `json:"a"`
	B     Side   `json:"b"`
	First *First `json:"first,omitempty"`
	// Counts are those of turns by Pair.State.
	Counts Counts `json:"counts"`
	// NotCompared sums up Pair.NotCompared.
	NotCompared []Unknown `json:"not_compared,omitempty"`
	Ignored     []Part    `json:"ignored,omitempty"`
	// Compactions lie between two requests and may be the reason that messages are gone.
	Compactions []*session.Compaction `json:"compactions,omitempty"`
	// Runs are in the order of A; a run of B only is before the next run that both have. Two runs, turns or
	// requests are one entry, and two turns or requests one turn of it.
	Runs []Pair `json:"runs"`
}

// Kind is what is compared.
type Kind string

// The kinds.
const (
	OfSessions Kind = "session"
	OfRuns     Kind = "run"
	OfTurns    Kind = "turn"
	OfRequests Kind = "request"
)

// Side describes one of the two targets.
type Side struct {
	// Address is what `otelagent show` takes. Source is Target.Source.
	Address string    `json:"address"`
	Source  string    `json:"source,omitempty"`
	Tenant  string    `json:"tenant,omitempty"`
	Session string    `json:"session"`
	Agent   string    `json:"agent,omitempty"`
	Model   string    `json:"model,omitempty"`
	Status  string    `json:"status,omitempty"` // of a session or run
	Start   time.Time `json:"start,omitzero"`
	TookNS  int64     `json:"took_ns,omitempty"`
	Runs    int       `json:"runs"`
	Turns   int       `json:"turns"`
	Calls   int       `json:"calls"`
	// Messages and Bytes are those of a request.
	Messages int64         `json:"messages,omitempty"`
	Bytes    int64         `json:"bytes,omitempty"`
	Usage    session.Usage `json:"usage"`
	// Cost is the sum that the loop reported, by currency.
	Cost map[string]float64 `json:"cost,omitempty"`
}

// First names the first difference, in the order of Diff.Runs.
type First struct {
	// SameA and SameB are the addresses of the last turns before it, where all turns before it are the same.
	SameA string `json:"same_a,omitempty"`
	SameB string `json:"same_b,omitempty"`
	// A and B are the addresses of the turns or runs that differ; empty on a side that has none.
	A     string `json:"a,omitempty"`
	B     string `json:"b,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Counts counts turns. Repeats are those of Changed that differ only in Pair.Repeats.
type Counts struct {
	Same    int `json:"same"`
	Changed int `json:"changed"`
	OnlyA   int `json:"only_a"`
	OnlyB   int `json:"only_b"`
	Unknown int `json:"unknown"`
	Repeats int `json:"repeats"`
}

// Pair is a run, a turn or a tool call of A and the one of B that it is aligned with.
type Pair struct {
	State State `json:"state"`
	// Name of a tool.
	Name string `json:"name,omitempty"`
	// A or B is nil where only the other side has it. Changes of a turn then hold only what was said, of a call its
	// input.
	A *Place `json:"a,omitempty"`
	B *Place `json:"b,omitempty"`
	// Parts differ, in the order of Parts; those of turns are not among the parts of their run. Repeats are those of
	// system, tools and params that differ in the same way on the turn before: Changes omits them.
	Parts       []Part    `json:"parts,omitempty"`
	Repeats     []Part    `json:"repeats,omitempty"`
	Changes     []Change  `json:"changes,omitempty"`
	NotCompared []Unknown `json:"not_compared,omitempty"`
	// Calls are all tool calls of the pair itself where one of them differs; empty where none does.
	Calls []Pair `json:"calls,omitempty"`
	Turns []Pair `json:"turns,omitempty"`
}

// State is the result for one pair.
type State string

// The states.
const (
	Same    State = "same"
	Changed State = "changed"
	OnlyA   State = "only_a"
	OnlyB   State = "only_b"
	// NotAll: no difference is known, but not everything could be compared.
	NotAll State = "unknown"
)

// Place names a run, a turn or a tool call of one side. Times, tokens and cost in it are information; they make no
// difference.
type Place struct {
	Address  string `json:"address,omitempty"`
	ID       string `json:"id,omitempty"`    // of a run or call
	Run      int    `json:"run,omitempty"`   // number of the run, from 1
	Index    *int64 `json:"index,omitempty"` // of a turn
	Relation string `json:"relation,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Model    string `json:"model,omitempty"`
	// Status of a run, stop reason of a turn, outcome of a call.
	Status   string         `json:"status,omitempty"`
	Start    time.Time      `json:"start,omitzero"`
	TookNS   int64          `json:"took_ns,omitempty"`
	Usage    *session.Usage `json:"usage,omitempty"`
	Cost     *float64       `json:"cost,omitempty"`
	Currency string         `json:"currency,omitempty"`
	// Hidden reports that the turn was rewound.
	Hidden bool `json:"hidden,omitempty"`
	// Asked reports that the reply asks for the call and that nothing else is known of it.
	Asked bool `json:"asked,omitempty"`
	// Children are the addresses of runs that the call spawned. They are compared on their own.
	Children []string `json:"children,omitempty"`
}

// Change is one field that differs.
type Change struct {
	Part Part   `json:"part"`
	Path string `json:"path"` // such as params.temperature, args.edits[2].old, output.reply, tools/bash
	// Change is added, removed, changed, or moved.
	Change string `json:"change"`
	// Before is the value of A and After that of B; empty where there is none, and where Text or the digests show the
	// change.
	Before session.RawJSON `json:"before,omitempty"`
	After  session.RawJSON `json:"after,omitempty"`
	Unit   string          `json:"unit,omitempty"` // currency of a cost
	Text   *Text           `json:"text,omitempty"`
	// DigestA and DigestB name contents that are not here and differ.
	DigestA string `json:"digest_a,omitempty"`
	DigestB string `json:"digest_b,omitempty"`
	// A and B are the message of a request, where the change is one of part request.
	A *session.Message `json:"a,omitempty"`
	B *session.Message `json:"b,omitempty"`
}

// Values of Change.Change.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
	moved   = "moved"
)

// Unknown is a part that could not be compared.
type Unknown struct {
	Part Part   `json:"part"`
	Why  Why    `json:"why"`
	Side string `json:"side"` // that it is for: a, b or both
	// Turns counts turns, in Diff.NotCompared only.
	Turns int `json:"turns,omitempty"`
}

// Why is the reason that a field is not there.
type Why string

// The reasons.
const (
	NotCaptured Why = "not_captured" // no content was captured
	DigestsOnly Why = "digests_only" // only digests were captured, which ids and times change too
	Missing     Why = "missing"      // it was captured and did not arrive
	Withheld    Why = "withheld"     // it was cut or withheld at the source
	NotReported Why = "not_reported" // the loop does not report it
	OtherUnit   Why = "other_unit"   // the costs are in two currencies
)

// Part is a group of fields that --ignore can leave out.
type Part string

// The parts.
const (
	Input      Part = "input"    // what is new for the model, except results of tools
	Request    Part = "request"  // other messages of the request
	System     Part = "system"   // the system prompt
	Tools      Part = "tools"    // the tools offered
	Params     Part = "params"   // model, provider and all other parameters
	Thinking   Part = "thinking" // reasoning of the model
	Reply      Part = "reply"
	Calls      Part = "calls"   // which tools were called, with which input, and how they ended
	Results    Part = "results" // what the tools returned
	Compaction Part = "compaction"
	Outcome    Part = "outcome" // how a run or turn ended
	Usage      Part = "usage"
	Cost       Part = "cost"
)

// Parts are all parts, in the order in which they are shown.
var Parts = []Part{
	Input, Request, System, Tools, Params, Thinking, Reply, Calls, Results, Compaction, Outcome, Usage, Cost,
}

// ParseParts reads names of Parts with commas between them. It skips blanks and empty names.
func ParseParts(text string) ([]Part, error) {
	var out []Part
	for name := range strings.SplitSeq(text, ",") {
		part := Part(strings.TrimSpace(name))
		switch {
		case part == "":
		case !slices.Contains(Parts, part):
			names, _ := json.Marshal(Parts)
			list := strings.NewReplacer(`"`, "", ",", ", ").Replace(strings.Trim(string(names), "[]"))
			return nil, fmt.Errorf("%q is no part of a turn: want some of %s", part, list)
		default:
			out = append(out, part)
		}
	}
	return out, nil
}
