package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// pair holds the index of an item of A and of the item of B that it is aligned with; -1 is none.
type pair struct{ a, b int }

// at returns the item of a list; the zero value where i is -1.
func at[T any](list []T, i int) (item T) {
	if i >= 0 {
		item = list[i]
	}
	return item
}

// match pairs n items of A with m of B that have the same key, the first of one key with the first. It tries one key
// after the other; the first says most. An empty key matches nothing. The pairs that it is called with stay.
func match(pairs []pair, n, m int, keys ...func(side, i int) string) []pair {
	ofA, ofB := make([]bool, n), make([]bool, m)
	for _, p := range pairs {
		ofA[p.a], ofB[p.b] = true, true
	}
	for _, key := range keys {
		waiting := map[string][]int{}
		for i := range n {
			if !ofA[i] {
				k := key(0, i)
				waiting[k] = append(waiting[k], i)
			}
		}
		var found []pair
		for j := range m {
			if ofB[j] || len(waiting) == 0 {
				continue
			}
			k := key(1, j)
			if l := waiting[k]; len(l) > 0 && k != "" {
				found = append(found, pair{l[0], j})
				ofA[l[0]], ofB[j] = true, true
				waiting[k] = l[1:]
			}
		}
		pairs = append(pairs, found...)
	}
	return pairs
}

// ordered adds the items that have no partner, and sorts by A; what only B has is before the next pair of B.
func ordered(pairs []pair, n, m int) []pair {
	ofA, ofB := make([]bool, n), make([]int, m)
	for _, p := range pairs {
		ofA[p.a], ofB[p.b] = true, p.a+1
	}
	out := slices.Clone(pairs)
	for i := range n {
		if !ofA[i] {
			out = append(out, pair{i, -1})
		}
	}
	before := make([]int, m) // the item of A after what only B has
	next := n
	for j := m - 1; j >= 0; j-- {
		if ofB[j] > 0 {
			next = ofB[j] - 1
		} else {
			out = append(out, pair{-1, j})
		}
		before[j] = next
	}
	slices.SortFunc(out, func(x, y pair) int {
		place := func(p pair) int {
			if p.a < 0 {
				return 2 * before[p.b]
			}
			return 2*p.a + 1
		}
		return cmp.Or(place(x)-place(y), x.b-y.b)
	})
	return out
}

// alignTurns pairs turns by index, those of one index in their order. Without an index in common, or with byPlace, it
// pairs the first with the first.
func alignTurns(a, b []*session.Turn, byPlace bool) []pair {
	sides := [2][]*session.Turn{a, b}
	index := func(n, i int) string { return strconv.FormatInt(sides[n][i].Index, 10) }
	var pairs []pair
	if !byPlace {
		pairs = match(nil, len(a), len(b), index)
	}
	if len(pairs) == 0 {
		place := func(_, i int) string { return strconv.Itoa(i) }
		return ordered(match(nil, len(a), len(b), place), len(a), len(b))
	}
	pairs = ordered(pairs, len(a), len(b))
	slices.SortStableFunc(pairs, func(x, y pair) int {
		turn := func(p pair) *session.Turn { return cmp.Or(at(a, p.a), at(b, p.b)) }
		return cmp.Compare(turn(x).Index, turn(y).Index)
	})
	return pairs
}

// alignRuns pairs the runs of two sessions. Runs that follow each other are paired by question, then between those
// pairs by kind; those of a parallel group and sub-agents of one run by place and question, then by less.
func alignRuns(a, b *side) []pair {
	sides := [2]*side{a, b}
	var pairs []pair
	partner := [2]map[int]int{{}, {}} // the run of A of the pair that a run is in
	const nowhere = "?"
	// among names the runs among which a run may find its partner. It is empty for those that follow each other.
	among := func(n, i int) string {
		s, r := sides[n], sides[n].runs[i]
		switch st := s.history.Run(r); {
		case st.Relation == session.RelationSubAgent && st.Parent != nil:
			if p, ok := partner[n][s.numbers[st.Parent]-1]; ok {
				return fmt.Sprint("below ", p)
			}
			return nowhere
		case !r.GroupStart.IsZero():
			return fmt.Sprint("group ", s.groups[r.GroupStart.UnixNano()])
		}
		return ""
	}
	type wording func(s *side, r *session.Run) string
	key := func(say wording, inSequence bool) func(n, i int) string {
		return func(n, i int) string {
			in, said := among(n, i), say(sides[n], sides[n].runs[i])
			if in == nowhere || said == "" || in == "" && !inSequence {
				return ""
			}
			return in + ":" + said
		}
	}
	gap := func(n, i int) string {
		if among(n, i) != "" {
			return ""
		}
		before := -1
		for k := i - 1; k >= 0 && before < 0; k-- {
			if p, ok := partner[n][k]; ok && among(n, k) == "" {
				before = p
			}
		}
		return fmt.Sprint(before, kindOfRun(sides[n], sides[n].runs[i]))
	}
	both := func(s *side, r *session.Run) string { return place(s, r) + "\x00" + question(s, r) }
	agent := func(_ *side, r *session.Run) string { return cmp.Or(r.Agent, r.AgentID) }
	keys := []func(n, i int) string{key(both, false), key(question, true), gap, key(place, false), key(agent, false)}
	for k := 0; k < len(keys); k++ {
		n := len(pairs)
		pairs = match(pairs, len(a.runs), len(b.runs), keys[k])
		for _, p := range pairs[n:] {
			partner[0][p.a], partner[1][p.b] = p.a, p.a
			k = -1 // the sub-agents of these runs have a place now
		}
	}
	return ordered(pairs, len(a.runs), len(b.runs))
}

// kindOfRun separates runs that are never aligned by their order alone. A run that continues counts as one that begins.
func kindOfRun(s *side, r *session.Run) string {
	return strings.TrimPrefix(string(s.history.Run(r).Relation), string(session.RelationContinues))
}

// question is what a run was asked, with its agent and kind; empty where that is not known.
func question(s *side, r *session.Run) string {
	if said, ok := s.asked[r]; ok {
		return said
	}
	refs := r.Outside
	if len(r.Turns) > 0 {
		refs, _ = s.news(r, r.Turns[0])
	}
	all := []string{cmp.Or(r.Agent, r.AgentID), kindOfRun(s, r)}
	for _, ref := range refs.Items() {
		body, _ := s.Blocks.Body(ref)
		for _, t := range read(body) {
			all = append(all, t.path, t.text)
		}
	}
	if s.asked[r] = ""; len(all) > 2 {
		s.asked[r] = spans.BlockOfString(strings.Join(all, "\x00")).String()
	}
	return s.asked[r]
}

// place is where a run of a group or a sub-agent is: its role and model, and the turn that spawned it.
func place(s *side, r *session.Run) string {
	turn := int64(-1)
	if p := s.history.Run(r).Parent; p != nil && r.GroupStart.IsZero() {
		for _, t := range p.Turns {
			if slices.ContainsFunc(t.ToolCalls, func(c *session.ToolCall) bool { return c.ID == r.ParentToolCallID }) {
				turn = t.Index
			}
		}
		return fmt.Sprint(turn, cmp.Or(r.Agent, r.AgentID))
	}
	return string(r.GroupRole) + "\x00" + r.Model
}
