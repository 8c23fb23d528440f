package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Comparison says how an answer differs from the recorded one. Its JSON form is told in docs/replay.md.
type Comparison struct {
	// Same: the same text, and the same calls with the same arguments, in any order.
	Same bool `json:"same"`
	// Lines is a unified diff of the text, from recorded to answered; empty when it is the same.
	Lines string `json:"lines,omitempty"`
	// Calls of both: those of the recorded answer in their order, then those it did not have. Ids are not compared, for every answer has new ones.
	Calls []CallChange `json:"calls,omitempty"`
	// Recorded and Answered are what is compared. Whole says that the recorded answer is all there.
	Recorded *Answer `json:"recorded,omitempty"`
	Answered *Answer `json:"answered"`
	Whole    bool    `json:"whole"`
}

// Words of CallChange.Change.
const (
	CallSame    = "same"
	CallChanged = "changed" // another call of that tool
	CallRemoved = "removed"
	CallAdded   = "added"
)

// CallChange is a tool call as it was recorded and as it is asked for now.
type CallChange struct {
	Change string `json:"change"`
	Name   string `json:"name"`
	// Before and After are arguments; of a call that is the same Before alone.
	Before session.RawJSON `json:"before,omitempty"`
	After  session.RawJSON `json:"after,omitempty"`
	// Lines is a unified diff of the arguments, indented.
	Lines string `json:"lines,omitempty"`
}

// Compare compares an answer with the recorded one, which may be nil: then there is nothing it could be the same as.
func Compare(recorded *Answer, whole bool, answered *Answer) *Comparison {
	c := &Comparison{Recorded: recorded, Answered: answered, Whole: whole}
	if recorded == nil {
		return c
	}
	c.Lines = Lines("recorded", "answered", recorded.Text, answered.Text)
	c.calls(recorded.Calls, answered.Calls)
	c.Same = recorded.Text == answered.Text && !slices.ContainsFunc(c.Calls, func(x CallChange) bool { return x.Change != CallSame })
	return c
}

// calls aligns calls: first those that are the same, then those of one tool in their order.
func (c *Comparison) calls(before, after []Call) {
	equal := map[string][]int{}
	for i, a := range after {
		key := a.Name + "\x00" + canonical(a.Args)
		equal[key] = append(equal[key], i)
	}
	taken := make([]bool, len(after))
	match := make([]int, len(before))
	for i, b := range before {
		match[i] = -1
		if key := b.Name + "\x00" + canonical(b.Args); len(equal[key]) > 0 {
			match[i], equal[key] = equal[key][0], equal[key][1:]
			taken[match[i]] = true
		}
	}
	byName := map[string][]int{}
	for i, a := range after {
		if !taken[i] {
			byName[a.Name] = append(byName[a.Name], i)
		}
	}
	for i, b := range before {
		switch rest := byName[b.Name]; {
		case match[i] >= 0:
			c.Calls = append(c.Calls, CallChange{Change: CallSame, Name: b.Name, Before: b.Args})
		case len(rest) > 0:
			a := after[rest[0]]
			byName[b.Name], taken[rest[0]] = rest[1:], true
			c.Calls = append(c.Calls, CallChange{Change: CallChanged, Name: b.Name, Before: b.Args, After: a.Args,
				Lines: Lines("recorded", "answered", indented(b.Args), indented(a.Args))})
		default:
			c.Calls = append(c.Calls, CallChange{Change: CallRemoved, Name: b.Name, Before: b.Args})
		}
	}
	for i, a := range after {
		if !taken[i] {
			c.Calls = append(c.Calls, CallChange{Change: CallAdded, Name: a.Name, After: a.Args})
		}
	}
}

// canonical returns JSON with keys in order and no blanks; what is no JSON as it is.
func canonical(raw session.RawJSON) string {
	body, _, err := rawjson.AppendCanonical(nil, []byte(raw), nil)
	if err != nil {
		return string(raw)
	}
	return string(body)
}

// indented returns JSON on lines, for people; what is no JSON as it is.
func indented(raw session.RawJSON) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(canonical(raw)), "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// maxDiff bounds texts of which lines are compared: a diff may cost the square of what differs.
const maxDiff = 1 << 20

// Lines returns a unified diff of two texts under two names, empty when they are the same. Texts of more than 1 MiB are not
// compared line by line: it says that they differ.
func Lines(nameBefore, nameAfter, before, after string) string {
	switch {
	case before == after:
		return ""
	case len(before) > maxDiff || len(after) > maxDiff:
		return "--- " + nameBefore + "\n+++ " + nameAfter + "\nthey differ, and are too long to be compared by lines\n"
	case !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n"): // that neither ends a line is nothing to be told
		before, after = before+"\n", after+"\n"
	}
	out, _ := udiff.ToUnified(nameBefore, nameAfter, before, udiff.Lines(before, after), udiff.DefaultContextLines) // its own edits fit
	return out
}
