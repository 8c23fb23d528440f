package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// expectation is an entry of expected.json. A number may be one of several.
type expectation struct {
	Files     []string
	SessionID *string    `json:"session_id"`
	Tools     []string   `json:"tools"`
	ToolsAny  [][]string `json:"tools_any"`
	numbers   map[string][]int64
}

var counted = []string{"sessions", "runs", "turns", "tool_calls", "denied", "permissions", "compactions",
	"input_tokens", "output_tokens", "cache_read", "cache_write"}

func (e *expectation) UnmarshalJSON(b []byte) error {
	type plain expectation
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	e.numbers = map[string][]int64{}
	for _, key := range counted {
		if raw := all[key]; raw != nil {
			var n int64
			var l []int64
			if json.Unmarshal(raw, &n) == nil {
				l = []int64{n}
			} else if err := json.Unmarshal(raw, &l); err != nil {
				return err
			}
			e.numbers[key] = l
		}
	}
	return nil
}

func expectations(tb testing.TB) map[string]*expectation {
	tb.Helper()
	data := must.Get(os.ReadFile("testdata/expected.json"))(tb)
	var m map[string]*expectation
	must.Do(tb, json.Unmarshal(data, &m))
	return m
}

// seen counts what trees say, in the words of the expectations.
func seen(l []*session.Session) (map[string]int64, []string, []string) {
	n := map[string]int64{"sessions": int64(len(l))}
	var ids []string
	var calls []*session.ToolCall
	for _, s := range l {
		ids = append(ids, s.ID)
		for _, r := range s.Runs {
			n["runs"]++
			n["input_tokens"] += r.Usage.Input
			n["output_tokens"] += r.Usage.Output
			n["cache_read"] += r.Usage.CacheRead
			n["cache_write"] += r.Usage.CacheWrite
		}
		for at := range s.Walk() {
			switch at.Kind() {
			case session.KindTurn:
				n["turns"]++
			case session.KindToolCall:
				calls = append(calls, at.Call)
				if at.Call.Outcome == spans.OutcomeDenied {
					n["denied"]++
				}
			case session.KindCompaction:
				n["compactions"]++
			case session.KindPermission:
				n["permissions"]++
			}
		}
	}
	n["tool_calls"] = int64(len(calls))
	slices.SortFunc(calls, func(a, b *session.ToolCall) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	var names []string
	for _, c := range calls {
		names = append(names, c.Name)
	}
	return n, ids, names
}

func (e *expectation) differences(l []*session.Session) (out []string) {
	got, ids, tools := seen(l)
	for _, key := range counted {
		if want, ok := e.numbers[key]; ok && !slices.Contains(want, got[key]) {
			out = append(out, fmt.Sprintf("%s %d, want %v", key, got[key], want))
		}
	}
	any := e.ToolsAny
	if any == nil && e.Tools != nil {
		any = [][]string{e.Tools}
	}
	if any != nil && !slices.ContainsFunc(any, func(w []string) bool { return slices.Equal(w, tools) }) {
		out = append(out, fmt.Sprintf("tools %q, want %q", tools, any))
	}
	if e.SessionID != nil && !slices.Contains(ids, *e.SessionID) {
		out = append(out, fmt.Sprintf("sessions %q, want %q", ids, *e.SessionID))
	}
	return out
}

// TestExpected holds every recording to its tree: whole, shuffled, with repeats, and stored by two collectors.
func TestExpected(t *testing.T) {
	table := Default()
	all := expectations(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			e := all[name]
			rows := entryRows(t, table, name)
			whole := assemble(table, rows)
			if d := e.differences(whole); d != nil {
				t.Error(strings.Join(d, "\n"))
			}
			for _, s := range whole {
				if len(s.Defects) > 0 {
					t.Errorf("session %s: %v", s.ID, s.Defects)
				}
				for _, r := range s.Runs {
					if len(r.Defects) > 0 {
						t.Errorf("run %s: %v", r.ID, r.Defects)
					}
				}
			}
			want := tree(whole)
			rnd := rand.New(rand.NewPCG(7, uint64(len(rows))))
			for range 5 {
				other := append(slices.Clone(rows), rows[:rnd.IntN(len(rows)+1)]...)
				rnd.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
				if got := tree(assemble(table, other)); got != want {
					t.Fatalf("another order is another tree:\n%s\n%s", got, want)
				}
			}
		})
	}
}
