package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Answer is what a model answered.
type Answer struct {
	ID    string `json:"id,omitempty"`
	Model string `json:"model,omitempty"`
	// Text and Reasoning have a line feed between two blocks.
	Text      string `json:"text"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	// Other names kinds of other parts.
	Other      []string `json:"other,omitempty"`
	StopReason string   `json:"stop_reason,omitempty"`
	// Usage includes cached tokens in input and reasoning in output. It is nil where it is not stated.
	Usage *session.Usage `json:"usage,omitempty"`
}

// Call is a tool call that a model asked for.
type Call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args session.RawJSON `json:"args"`
}

// NewAnswer returns the answer that a reply of a model is: message in any spelling, and its usage as the provider
// states it, nil where it does not. A has the other fields.
func NewAnswer(a Answer, message []byte, usage *spans.Usage) *Answer {
	if a.read(message); usage == nil {
		return &a
	}
	u := usage.Normalised()
	a.Usage = &session.Usage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead,
		CacheWrite: u.CacheWrite, LowerBound: u.LowerBound}
	return &a
}

// read takes what messages say.
func (a *Answer) read(bodies ...[]byte) {
	var said, thought []message.Part
	for _, raw := range bodies {
		for _, m := range message.Read(raw) {
			for _, p := range m.Parts {
				switch p.Type {
				case message.Text:
					said = append(said, p)
				case message.Reasoning:
					p.Type = message.Text
					thought = append(thought, p)
				case message.ToolCall:
					a.Calls = append(a.Calls, Call{ID: p.ID, Name: p.Name, Args: session.RawJSON(p.Content)})
				case message.ToolResult: // of another message
				default:
					a.Other = append(a.Other, p.Describe())
				}
			}
		}
	}
	a.Text, a.Reasoning = message.JoinText(said, false), strings.Trim(message.JoinText(thought, false), "\n")
}

// Recorded returns what is captured of the answer of a turn, nil for nothing. Whole says that nothing is missing.
func Recorded(turn *session.Turn, blocks *session.BlockSet) (a *Answer, whole bool) {
	a = &Answer{Model: turn.Answered, ID: turn.ResponseID, StopReason: turn.StopReason}
	if u := turn.Usage; u != (session.Usage{}) {
		a.Usage = &u
	}
	c := blocks.Read(turn.Output)
	var bodies [][]byte
	for _, body := range c.Bodies {
		if body != "" {
			bodies = append(bodies, []byte(body))
		}
	}
	if a.read(bodies...); bodies == nil {
		return nil, false
	}
	return a, c.Whole() && turn.Output.Complete
}

// Comparison says how an answer differs from the recorded one. docs/replay.md describes its JSON form.
type Comparison struct {
	// Same is set for the same text, and the same calls with the same arguments in any order.
	Same bool `json:"same"`
	// Whole says that the recorded answer is all there.
	Whole bool `json:"whole"`
	// Diff is a unified diff of text and calls, without ids. It is empty for the same, and where nothing was recorded.
	Diff     string  `json:"diff,omitempty"`
	Recorded *Answer `json:"recorded,omitempty"`
	Answered *Answer `json:"answered"`
}

// Compare compares an answer with the recorded one, which may be nil.
func Compare(recorded *Answer, whole bool, answered *Answer) *Comparison {
	c := &Comparison{Recorded: recorded, Answered: answered, Whole: whole}
	if recorded != nil {
		c.Diff = Lines("recorded", "answered", recorded.lines(), answered.lines())
		c.Same = c.Diff == ""
	}
	return c
}

// lines returns text and calls as lines. Calls are sorted, since models do not keep their order.
func (a *Answer) lines() string {
	calls := make([]string, len(a.Calls))
	for i, c := range a.Calls {
		args := []byte(c.Args)
		if body, err := rawjson.AppendCanonical(nil, args, nil); err == nil {
			args = body
		}
		var b bytes.Buffer
		if json.Indent(&b, args, "", "  ") == nil {
			args = b.Bytes()
		}
		calls[i] = "\ncall " + c.Name + " " + string(args)
	}
	slices.Sort(calls)
	return strings.TrimPrefix(a.Text+strings.Join(calls, ""), "\n")
}

// maxDiff bounds texts that are compared by lines: a diff may cost the square of the difference.
const maxDiff = 1 << 20

// Lines returns a unified diff of two texts, empty when they are the same. It is short for texts of more than 1 MiB.
func Lines(nameBefore, nameAfter, before, after string) string {
	if before == after {
		return ""
	} else if len(before) > maxDiff || len(after) > maxDiff {
		return "--- " + nameBefore + "\n+++ " + nameAfter + "\nthe texts differ, and are too long to compare by lines\n"
	}
	if !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n") {
		before, after = before+"\n", after+"\n"
	}
	edits := udiff.Lines(before, after)
	out, _ := udiff.ToUnified(nameBefore, nameAfter, before, edits, udiff.DefaultContextLines) // its own edits fit
	return out
}
