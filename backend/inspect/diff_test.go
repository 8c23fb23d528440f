package inspect_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

const demo = "../../cmd/otelagent/demo.ndjson"

// edited returns the main session of a recording, in which lines were dropped that hold one of drop, and then texts
// were replaced: pairs of old and new.
func edited(t *testing.T, path string, capture otelagent.Capture, drop []string, pairs ...string) session.Tree {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	for i, text := range append(slices.Clone(drop), pairs...) {
		if i < len(drop) || (i-len(drop))%2 == 0 {
			if !strings.Contains(string(b), text) {
				t.Fatalf("%q is not in %s", text, path)
			}
		}
	}
	var kept strings.Builder
	for line := range strings.Lines(string(b)) {
		if !slices.ContainsFunc(drop, func(d string) bool { return strings.Contains(line, d) }) {
			kept.WriteString(line)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy.ndjson")
	must.Do(t, os.WriteFile(copied, []byte(strings.NewReplacer(pairs...).Replace(kept.String())), 0o600))
	return recorded(t, copied, capture)[0]
}

func target(t session.Tree) diff.Target { return diff.Target{Session: t.Session, Blocks: t.Blocks} }

// compared compares two targets, and holds the result to what is promised of every one: it is symmetric, and it can be
// drawn.
func compared(t *testing.T, a, b diff.Target, ignore ...diff.Part) *diff.Diff {
	t.Helper()
	d := must.Get(diff.Compare(a, b, ignore...))(t)
	back := must.Get(diff.Compare(b, a, ignore...))(t)
	if delta := cmp.Diff(document(t, d, false), document(t, back, true)); delta != "" {
		t.Errorf("not symmetric:\n%s", delta)
	}
	for _, width := range []int{40, 80, 200} {
		for _, form := range []inspect.DiffForm{inspect.DiffUnified, inspect.DiffSideBySide, inspect.DiffStat} {
			drawn(t, width, func(w io.Writer) error { return inspect.WriteDiff(w, d, inspect.Options{Width: width}, form) })
		}
	}
	return d
}

// opposite are names and values in the document of a diff that change places with A and B.
var opposite = map[string]string{
	"a": "b", "before": "after", "before_bytes": "after_bytes", "digest_a": "digest_b", "only_a": "only_b",
	"added": "removed", "+": "-",
}

// document returns the JSON form of d, mirrored or not, sorted: the order is that of A.
func document(t *testing.T, d *diff.Diff, mirrored bool) string {
	t.Helper()
	var doc any
	b, err := json.Marshal(d)
	must.Do(t, errors.Join(err, json.Unmarshal(b, &doc)))
	swap := func(s string) string {
		for x, y := range opposite {
			switch {
			case mirrored && s == x:
				return y
			case mirrored && s == y:
				return x
			}
		}
		return s
	}
	text := func(v any) string { b, _ := json.MarshalIndent(v, "", " "); return string(b) }
	var walk func(key string, v any) any
	walk = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				if k != "first" { // which depends on the order
					out[swap(k)] = walk(k, e)
				}
			}
			return out
		case []any:
			for i := range v {
				v[i] = walk(key, v[i])
			}
			slices.SortFunc(v, func(x, y any) int { return strings.Compare(text(x), text(y)) })
			return v
		case string:
			if slices.Contains([]string{"state", "change", "op", "side"}, key) {
				return swap(v)
			}
		}
		return v
	}
	return text(walk("", doc))
}

// A recording compared with itself differs in nothing, whatever of it was captured; what was not captured is said and
// not called equal.
func TestDiffOfItself(t *testing.T) {
	paths, err := filepath.Glob("../../dialects/phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range append(paths, demo) {
		for _, capture := range []otelagent.Capture{otelagent.CaptureContent, otelagent.CaptureDigests,
			otelagent.CaptureNone} {
			a, b := recorded(t, path, capture), recorded(t, path, capture)
			for i := range a {
				d := compared(t, target(a[i]), target(b[i]))
				c := d.Counts
				if c.Changed+c.OnlyA+c.OnlyB > 0 || d.First != nil {
					t.Errorf("%s %v: %+v", path, capture, c)
				}
				if capture == otelagent.CaptureContent && !d.Equal {
					t.Errorf("%s: %+v", path, d.NotCompared)
				}
				if capture == otelagent.CaptureNone && c.Same > 0 {
					t.Errorf("%s: nothing was captured, and %d turns are called the same", path, c.Same)
				}
				if none := slices.Contains(diff.Parts, "reply") && d.Equal && capture == otelagent.CaptureNone &&
					len(d.Runs) > 0 && c.Unknown > 0; none {
					t.Errorf("%s: equal without content", path)
				}
			}
		}
	}
}

// Times and ids are no differences.
func TestDiffOfAnotherTime(t *testing.T) {
	a := recorded(t, demo, otelagent.CaptureContent)[0]
	b := edited(
		t,
		demo,
		otelagent.CaptureContent,
		nil,
		"2026-11-21T02",
		"2027-01-01T07",
		"toolu_01",
		"call_77",
		"17952273",
		"17952288",
		"0b5cf0a5-6d0e",
		"1c6df1b6-7e1f",
	)
	if d := compared(t, target(a), target(b)); !d.Equal {
		j, _ := json.MarshalIndent(d, "", " ")
		t.Errorf("%s", j)
	}
}

// The differences of an edited copy are its edits.
func TestDiffOfEditedCopies(t *testing.T) {
	a := recorded(t, demo, otelagent.CaptureContent)[0]
	for name, c := range map[string]struct {
		drop, pairs []string
		want        []string // turns by address, and the parts of them that differ
		first       string
		capture     otelagent.Capture
	}{
		"prompt of the system": {pairs: []string{"You are a careful coding agent.", "You are a careless coding agent."},
			first: " @1/0 system", want: []string{
				"changed @1/0 @1/0 system", "changed @1/1 @1/1 system(repeats)", "changed @1/2 @1/2 system(repeats)",
				"changed @1/3 @1/3 system(repeats)",
				"changed @3/0 @3/0 system(repeats)", "changed @3/1 @3/1 system(repeats)", "changed @4/0 @4/0 system(repeats)",
				"changed @4/1 @4/1 system(repeats)"}},
		"prompt of the user": {pairs: []string{"Now summarise in one sentence.", "Now say why."}, first: "@1/2 @1/3 input",
			want: []string{"changed @1/3 @1/3 input"}},
		"reply": {pairs: []string{"All 3 tests pass now.", "All tests pass."}, first: "@3/0 @3/1 reply",
			want: []string{"changed @3/1 @3/1 reply"}},
		"thinking": {pairs: []string{"look at the file and run", "run"}, first: " @1/0 thinking",
			want: []string{"changed @1/0 @1/0 thinking"}},
		"argument": {pairs: []string{"cargo test -p missing", "cargo test -p other"}, first: " @1/0 calls",
			want: []string{"changed @1/0 @1/0 calls"}},
		"result": {pairs: []string{"exit status 101: no such target", "exit status 102"},
			first: " @1/0 results", want: []string{"changed @1/0 @1/0 results"}},
		"usage": {pairs: []string{`"input":812`, `"input":813`}, first: " @1/0 usage",
			want: []string{"changed @1/0 @1/0 usage"}},
		"temperature": {pairs: []string{`"max_tokens":4096`, `"max_tokens":4097`}, first: " @1/0 params", want: []string{
			"changed @1/0 @1/0 params", "changed @1/1 @1/1 params(repeats)", "changed @1/2 @1/2 params(repeats)",
			"changed @1/3 @1/3 params(repeats)",
			"changed @3/0 @3/0 params(repeats)", "changed @3/1 @3/1 params(repeats)", "changed @4/0 @4/0 params(repeats)",
			"changed @4/1 @4/1 params(repeats)"}},
		"a run": {drop: []string{"thinking.3"}, first: "@1/3 @3/0", want: []string{"only_a @3/0 ", "only_a @3/1 "}},
	} {
		t.Run(name, func(t *testing.T) {
			b := edited(t, demo, otelagent.CaptureContent, c.drop, c.pairs...)
			d := compared(t, target(a), target(b))
			if d.Equal {
				t.Fatal("equal")
			}
			d, _ = diff.Compare(target(a), target(b))
			var got []string
			id := a.ID + "/"
			for _, r := range d.Runs {
				for _, x := range r.Turns {
					if x.State == diff.Same {
						continue
					}
					text := string(x.State) + " "
					if x.A != nil {
						text += strings.TrimPrefix(x.A.Address, id)
					}
					text += " "
					if x.B != nil {
						text += strings.TrimPrefix(x.B.Address, id)
					}
					for _, p := range x.Parts {
						text += " " + string(p)
						if slices.Contains(x.Repeats, p) {
							text += "(repeats)"
						}
					}
					got = append(got, text)
				}
			}
			first := strings.TrimPrefix(d.First.SameA, id) + " " + strings.TrimPrefix(d.First.A, id)
			for _, p := range d.First.Parts {
				first += " " + string(p)
			}
			if delta := cmp.Diff(c.want, got); delta != "" {
				t.Error(delta)
			}
			if first != c.first {
				t.Errorf("first %q, want %q", first, c.first)
			}
			var ignore []diff.Part
			for _, r := range d.Runs {
				for _, x := range r.Turns {
					ignore = append(ignore, x.Parts...)
				}
			}
			if len(c.drop) > 0 {
				return
			}
			if d := compared(t, target(a), target(b), ignore...); !d.Equal {
				t.Errorf("differs in what was left out: %+v", d.First)
			}
		})
	}
}

// Runs and turns can be compared, of one session or of two, and only with their kind.
func TestDiffKinds(t *testing.T) {
	a := recorded(t, demo, otelagent.CaptureContent)[0]
	whole, run, turn := target(a), target(a), target(a)
	run.Run, turn.Run, turn.Turn = a.Runs[0], a.Runs[0], a.Runs[0].Turns[1]
	for _, pair := range [][2]diff.Target{{whole, run}, {run, turn}, {turn, whole}} {
		if _, err := diff.Compare(pair[0], pair[1]); !errors.Is(err, diff.ErrKinds) {
			t.Errorf("%s with %s: %v", pair[0].Kind(), pair[1].Kind(), err)
		}
	}
	other := turn
	other.Run, other.Turn = a.Runs[2], a.Runs[2].Turns[0]
	d := compared(t, turn, other)
	if len(d.Runs) != 1 || len(d.Runs[0].Turns) != 1 || d.Kind != diff.OfTurns || d.Equal {
		t.Errorf("%+v", d)
	}
	other = run
	other.Run = a.Runs[2]
	d = compared(t, run, other)
	if d.Counts != (diff.Counts{Changed: 2, OnlyA: 2}) {
		t.Errorf("%+v", d.Counts)
	}
}

// Content of one side only, or digests: what is there is compared, and what is not is said.
func TestDiffOfCaptures(t *testing.T) {
	levels := []otelagent.Capture{otelagent.CaptureContent, otelagent.CaptureDigests, otelagent.CaptureNone}
	for i, x := range levels {
		for j, y := range levels {
			a, b := recorded(t, demo, x)[0], recorded(t, demo, y)[0]
			d := compared(t, target(a), target(b))
			equal := i == j && x != otelagent.CaptureNone // digests hide the result of a denied call
			if d.Equal != equal || d.Counts.Changed+d.Counts.OnlyA+d.Counts.OnlyB > 0 {
				t.Errorf("%v with %v: equal %v, %+v, %+v", x, y, d.Equal, d.Counts, d.First)
			}
		}
	}
	a := recorded(t, demo, otelagent.CaptureDigests)[0]
	b := edited(
		t,
		demo,
		otelagent.CaptureDigests,
		nil,
		"You are a careful coding agent.",
		"You are a careless coding agent.",
		"All 3 tests pass now.",
		"All tests pass.",
	)
	d := compared(t, target(a), target(b))
	if d.Equal || d.Counts.Changed != 8 || d.Runs[0].Turns[0].Changes[0].DigestA == "" {
		t.Errorf("%+v", d)
	}
	want := []diff.Unknown{{Part: diff.Reply, Why: diff.DigestsOnly, Side: "both", Turns: 1}}
	if delta := cmp.Diff(want, d.NotCompared); delta != "" {
		t.Error(delta)
	}
}

// Whatever was written to harm a terminal does not.
func TestHostileDiff(t *testing.T) {
	a, b := hostile(), hostile()
	for i, turn := range b.Runs[0].Turns {
		turn.Requests, turn.Output = a.Runs[0].Turns[1-i].Requests, a.Runs[0].Turns[1-i].Requests[0].Messages
		turn.Error, turn.StopReason = "\x1b[2J", "\x9b\u202e"
		turn.ToolCalls = []*session.ToolCall{{ID: "\x1b", Name: "\x1b[2J", Args: turn.Output, Outcome: "\x1b"}}
	}
	b.Runs[0].Status, b.Runs[0].Agent = "\x1b[2J", "\x1b[2J"
	b.ID = "\x1b[2J"
	d := compared(t, target(a), target(b))
	if d.Equal {
		t.Error("equal")
	}
	d.A.Source = "\x1b[2J"
	for i := range d.Runs {
		c := diff.Change{Part: diff.Params, Path: "\x1b[2J", Before: `"\u001b[2J"`, After: "\x1b"}
		text := diff.Change{
			Part:   diff.Params,
			Path:   "config.\x1b[2J",
			Change: "\x1b",
			Text: &diff.Text{Hunks: []diff.Hunk{{Lines: []diff.Line{
				{
					Op:   diff.Removed,
					Text: "\x1b[2J",
				}, {Op: diff.Added, Text: "\x9b", Words: []diff.Word{{Op: diff.Added, Text: "\x9b\u202e"}}}}}}},
		}
		d.Runs[i].Changes = append(d.Runs[i].Changes, c, text)
	}
	for _, form := range []inspect.DiffForm{inspect.DiffUnified, inspect.DiffSideBySide, inspect.DiffStat} {
		drawn(t, 80, func(w io.Writer) error { return inspect.WriteDiff(w, d, inspect.Options{Width: 80}, form) })
	}
}

// Both forms of one comparison with everything in it, as they are drawn.
func TestDiffDrawn(t *testing.T) {
	a := recorded(t, demo, otelagent.CaptureContent)[0]
	b := edited(
		t,
		demo,
		otelagent.CaptureContent,
		[]string{`thinking.4","turn_index":1`},
		"You are a careful coding agent.",
		`You are a careful coding agent.\nNever edit files.`,
		"add() subtracts instead of adding.",
		`I had a look at the code, the tests and the history.\nadd() subtracts where it should add.`,
		"cargo test -p missing",
		"cargo test -p other",
		"test result: ok. 3 passed; 0 failed",
		"test result: FAILED. 2 passed; 1 failed",
		`"input":812`,
		`"input":1900`,
	)
	d := must.Get(diff.Compare(target(a), target(b)))(t)
	for name, o := range map[string]struct {
		form  inspect.DiffForm
		width int
	}{"diff-unified-80.txt": {inspect.DiffUnified, 80}, "diff-side-by-side-80.txt": {inspect.DiffSideBySide, 80},
		"diff-side-by-side-160.txt": {inspect.DiffSideBySide, 160}, "diff-stat-80.txt": {inspect.DiffStat, 80}} {
		golden(
			t,
			name,
			drawn(
				t,
				o.width,
				func(w io.Writer) error { return inspect.WriteDiff(w, d, inspect.Options{Width: o.width}, o.form) },
			),
		)
	}
	var b2 strings.Builder
	e := json.NewEncoder(&b2)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	must.Do(t, e.Encode(d))
	golden(t, "diff.json", b2.String())
}

// A message of nothing but tool calls shows them, a message of another shape its JSON, a field its path.
func TestDiffNames(t *testing.T) {
	message := func(body string) diff.Change {
		return diff.Change{Part: diff.Request, Path: "request", Change: "added",
			B: &session.Message{Position: 3, Role: "assistant", Body: body}}
	}
	d := &diff.Diff{
		Kind: diff.OfTurns,
		Runs: []diff.Pair{{State: diff.Changed, A: &diff.Place{}, B: &diff.Place{}, Turns: []diff.Pair{{
			State: diff.Changed, A: &diff.Place{}, B: &diff.Place{}, Parts: []diff.Part{diff.Request}, Changes: []diff.Change{
				message(
					`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash"}}]}`,
				),
				message(`{"role":"assistant","content":[]}`),
				{Part: diff.Compaction, Path: "compaction[0].summary.user", Before: `"short"`, After: `"long"`},
			},
		}}}},
	}
	var b strings.Builder
	must.Do(t, inspect.WriteDiff(&b, d, inspect.Options{Width: 80}, inspect.DiffUnified))
	for _, want := range []string{
		"+   3  reply: [calls bash]\n", `+   3  reply: {"role":"assistant","content":[]}` + "\n",
		"-compaction[0].summary.user: short\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
