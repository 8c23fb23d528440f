package clark

import (
	"bytes"
	stdcmp "cmp"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// form is a way to give a recording.
type form struct {
	name       string
	inputs     func(t *testing.T, base string) [][]byte // in the order in which one Decoder reads them
	trajectory bool                                     // given by WithTrajectory
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	return files
}

func bare(t *testing.T, base string) [][]byte {
	list := [][]byte{readFile(t, base+".events.ndjson")}
	more := must.Get(filepath.Glob(base + ".*.events.ndjson"))(t)
	for _, file := range more {
		list = append(list, readFile(t, file))
	}
	return list
}

func enveloped(t *testing.T, base string) [][]byte {
	return [][]byte{readFile(t, base+".enveloped.ndjson")}
}

func trajectory(t *testing.T, base string) [][]byte {
	return [][]byte{readFile(t, base+".trajectory.jsonl")}
}

// then reads what one gives and then what the other does.
func then(one, other func(t *testing.T, base string) [][]byte) func(t *testing.T, base string) [][]byte {
	return func(t *testing.T, base string) [][]byte { return append(one(t, base), other(t, base)...) }
}

var forms = []form{
	{"bare", bare, false},
	{"enveloped", enveloped, false},
	{"bare+trajectory", bare, true},
	{"enveloped+trajectory", enveloped, true},
	{"bare,trajectory", then(bare, trajectory), false},
	{"enveloped,trajectory", then(enveloped, trajectory), false},
	{"trajectory", trajectory, false},
}

// TestTree compares what becomes of every recording, in every form, with what those say who did it. Of a trajectory
// alone that is the truth without requests and what takes a whole list of messages to know.
func TestTree(t *testing.T) {
	files := glob(t, "testdata/clark-agent-*/*.tree.json")
	if len(files) < 100 {
		t.Fatalf("%d trees", len(files))
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".tree.json")
		for i, f := range forms {
			if testing.Short() && i%4 > 0 { // all forms take a minute under the race detector
				continue
			}
			t.Run(filepath.Base(filepath.Dir(base))+"/"+filepath.Base(base)+"/"+f.name, func(t *testing.T) {
				want := readTree(t, file)
				got, p := recorded(t, base, f)
				name, alone := filepath.Base(base), f.name == "trajectory"
				expect(name, strings.HasSuffix(filepath.Dir(base), "0.2.0"), f, want)
				if mixes(name) && (!alone || name == "parallel-children-shared-recorder") {
					if !mixedDefect(p) {
						t.Error("no defect says that the lines are mixed")
					}
					certain(name, want)
					certain(name, got)
				} else if mixedDefect(p) {
					t.Error("a defect says that the lines are mixed")
				}
				for i := range want.Runs {
					for j := range want.Runs[i].Turns {
						if turn := &want.Runs[i].Turns[j]; alone {
							turn.Attempts = nil
							turn.Compactions = slices.DeleteFunc(turn.Compactions,
								func(c treeCompaction) bool { return c.Before == c.After })
						}
					}
				}
				if diff := cmp.Diff(want.Runs, got.Runs, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-truth +tree):\n%s", diff)
				}
			})
		}
	}
}

// recorded sends a recording through the whole pipeline and returns what is in the tree.
func recorded(t *testing.T, base string, f form) (*tree, *agenttest.Pipeline) {
	t.Helper()
	d := NewDecoder(input.Settings{Session: "given"}) // for runs without identity
	if f.trajectory {
		d.WithTrajectory(bytes.NewReader(readFile(t, base+".trajectory.jsonl")))
	}
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	var all []iter.Seq2[event.Event, error]
	for _, in := range f.inputs(t, base) {
		all = append(all, d.Events(bytes.NewReader(in)))
	}
	if n := play.Events(t, event.NewRecorder(p.Tracer()), all...); n > 0 && !strings.Contains(base, "late-tool-updates") {
		t.Errorf("%d events lost", n)
	}
	return treeOf(t, p), p
}

// lineOf parses one line.
func lineOf(t *testing.T, text []byte) *line {
	t.Helper()
	sh := input.NewShell(Dialect, nil)
	l := parse(&sh, input.Line{Text: bytes.TrimSpace(text)})
	if l == nil {
		t.Fatalf("%s is rejected", text)
	}
	return l
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return text
}

// byID orders calls; ends may come in another order than the calls.
func byID(a, b treeCall) int { return stdcmp.Compare(a.ID, b.ID) }

// expect changes truth and tree where the wire lacks a fact, or has another one. dialects/README.md lists what it
// changes.
func expect(name string, old bool, f form, want *tree) {
	for i := range want.Runs {
		want.Runs[i].Stream = ""
	}
	switch name {
	case "child-own-sink":
		if strings.HasPrefix(f.name, "bare") {
			unlink(want) // the stream of the child is read after that of its parent, and nothing says when it ran
		}
	case "parallel-children-own-sinks":
		unlink(want) // no line says which of the two calls began which
	case "abort-before-model": // a turn began on the wire, with the prompt
		want.Runs[0].Turns = []treeTurn{{Inputs: want.Runs[0].Late}}
		want.Runs[0].Late = nil
	case "answer-marked-failed", "empty-outcome-budget": // the loop reported its end
		want.Runs[0].Status = "completed"
	case "blocked-by-hooks", "blocked-in-sequence":
		if old { // a refused call had a start as well: only a refusal without a reason can be distinguished from a failure
			for i := range want.Runs[0].Turns {
				turn := &want.Runs[0].Turns[i]
				for j := range turn.Calls {
					if c := &turn.Calls[j]; c.Outcome == "denied" && !strings.HasPrefix(c.Result, textBlockedBy) {
						c.Outcome = "error"
					}
				}
				turn.Permissions = slices.DeleteFunc(turn.Permissions,
					func(p treePermission) bool { return !strings.HasPrefix(p.Why, textBlockedBy) })
			}
		}
	case "fatal-tool": // the wire just stops
		want.Runs[0].Status = "aborted"
	case "nameless-parent": // which call began it is nowhere
		unlink(want)
	case "child-without-identities":
		unlink(want)
	case "call-outside-list-unexplained":
		for i := range want.Runs[0].Turns {
			for j := range want.Runs[0].Turns[i].Permissions {
				want.Runs[0].Turns[i].Permissions[j].By = "tool_gate"
			}
		}
	}
}

// mixes reports whether the lines do not say whose they are, in any form.
func mixes(name string) bool {
	switch name {
	case "parallel-children-shared-recorder", "parallel-children-shared-sink", "strangers-shared-sink":
		return true
	}
	return false
}

func mixedDefect(p *agenttest.Pipeline) bool {
	for _, s := range p.Sessions() {
		for _, r := range s.Runs {
			if slices.ContainsFunc(r.Defects, func(d session.Defect) bool { return d.Code == spans.DefectRunsMixed }) {
				return true
			}
		}
	}
	return false
}

// certain keeps of a tree what is certain where lines are mixed: which runs there were, and all of the parent but which
// of its calls began which child.
func certain(name string, t *tree) {
	unlink(t)
	for i := range t.Runs {
		r := &t.Runs[i]
		if r.Parent != "" || name == "strangers-shared-sink" {
			r.Turns, r.Late, r.Status = nil, nil, ""
		}
	}
}

// unlink takes off which call spawned which run.
func unlink(t *tree) {
	for _, r := range t.Runs {
		for _, turn := range r.Turns {
			for i := range turn.Calls {
				turn.Calls[i].Child = ""
			}
		}
	}
}

// collect reads inputs with one Decoder and returns its events and errors, one a line.
func collect(d *Decoder, inputs ...string) []string {
	var out []string
	for _, in := range inputs {
		for ev, err := range d.Events(strings.NewReader(in)) {
			if err != nil {
				out = append(out, "error: "+err.Error())
				continue
			}
			out = append(out, agenttest.Dump(ev))
		}
	}
	return out
}
