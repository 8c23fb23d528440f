package agenttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// savedLedger returns the file of a fixture's sessions as phi-core saved them.
func savedLedger(t *testing.T, f phifixtures.Fixture) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", "phi-core-"+f.Release, f.Name+".sessions.json"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// withoutEvents is a ledger of before 0.14 as if a later release had written it: the events of its runs are taken off, and nothing else
// is changed.
func withoutEvents(ledger []byte) []byte {
	const key, end = `      "events": [`, `      ],`
	var out bytes.Buffer
	inside := false
	for line := range bytes.Lines(ledger) {
		switch text := string(bytes.TrimSuffix(line, []byte("\n"))); {
		case text == key:
			inside = true
		case inside && text == end:
			inside = false
		case !inside && text != key+"],":
			out.Write(line)
		}
	}
	return out.Bytes()
}

// treesOf returns the trees of a batch by session.
func treesOf(b session.Batch) map[string]*session.Session {
	out := make(map[string]*session.Session)
	for _, s := range session.AssembleAll(b.Rows) {
		out[s.ID] = s
	}
	return out
}

// TestLedgerTreesEqualThoseOfEvents compares the tree of every recorded session from its events with the tree from its
// ledger.
func TestLedgerTreesEqualThoseOfEvents(t *testing.T) {
	for _, table := range []string{"ledger with events", "ledger"} {
		t.Run(table, func(t *testing.T) {
			known := phifixtures.KnownIn(t, repository, "ledger with events")
			if table == "ledger" { // differs in all that a ledger with events does, and more
				known = append(known, phifixtures.KnownIn(t, repository, table)...)
			}
			for _, f := range phifixtures.All(t, repository) {
				ledger := savedLedger(t, f)
				stored := f.Release == "0.10.0"
				if table == "ledger with events" && !stored {
					continue
				}
				if table == "ledger" && stored {
					ledger = withoutEvents(ledger)
				}
				t.Run(f.String(), func(t *testing.T) {
					want := treesOf(replay(t, f.Events, content))
					for id, got := range treesOf(replay(t, ledger, content)) {
						if want[id] == nil {
							t.Errorf("session %s is not in the events", id)
							continue
						}
						diffs, err := phifixtures.Differences(id, asJSON(t, got), asJSON(t, want[id]))
						if err != nil {
							t.Fatal(err)
						}
						for _, d := range phifixtures.Unknown(f, diffs, known) {
							t.Error(d)
						}
						delete(want, id)
					}
					for id := range want {
						missing := []phifixtures.Difference{{Session: id, Path: "session", Got: "(absent)", Want: "a tree"}}
						for _, d := range phifixtures.Unknown(f, missing, known) {
							t.Error(d)
						}
					}
				})
			}
			for _, k := range known {
				if !k.Used {
					t.Errorf("dialects/phi/README.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
				}
			}
		})
	}
}

// TestEventsAndLedgerAreOneSession sends the events of every recorded session and its ledger into one store, in both
// orders and with and without stored events: there is one of each run, turn and tool call, usage counts once, and each
// run that both record says so by one defect.
func TestEventsAndLedgerAreOneSession(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			saved := savedLedger(t, f)
			events := replay(t, f.Events, content)
			alone := treesOf(events)
			for _, ledger := range [][]byte{saved, withoutEvents(saved)} {
				fromLedger := replay(t, ledger, content)
				known := treesOf(fromLedger)
				both := session.Batch{Rows: slices.Concat(fromLedger.Rows, events.Rows)}
				first := treesOf(both)
				slices.Reverse(both.Rows)
				for id, got := range treesOf(both) {
					if !bytes.Equal(asJSON(t, got), asJSON(t, first[id])) {
						t.Errorf("session %s depends on the order of arrival", id)
					}
					want := alone[id]
					if got.Usage != want.Usage {
						t.Errorf("session %s: usage %+v, from the events alone %+v", id, got.Usage, want.Usage)
					}
					if got, want := outline(got), outline(want); got != want {
						t.Errorf("session %s: got\n%swant\n%s", id, got, want)
					}
					if got, want := len(got.Groups), len(want.Groups); got != want {
						t.Errorf("session %s: %d groups, want %d", id, got, want)
					}
					for _, r := range got.Runs {
						recorded := known[id] != nil && slices.ContainsFunc(known[id].Runs, func(o *session.Run) bool { return o.ID == r.ID && o.Start.Equal(r.Start) })
						twice := 0
						for _, d := range r.Defects {
							if d.Code == spans.DefectRecordedTwice {
								twice++
							} else if !slices.ContainsFunc(want.Runs, func(o *session.Run) bool { return slices.Contains(o.Defects, d) }) {
								t.Errorf("session %s, run %s: defect %+v", id, r.ID, d)
							}
						}
						if recorded && twice != 1 || !recorded && twice != 0 {
							t.Errorf("session %s, run %s: %d defects %s, in the ledger: %v", id, r.ID, twice, spans.DefectRecordedTwice, recorded)
						}
					}
				}
			}
		})
	}
}

// outline is a tree as text: what there is of runs, turns and tool calls, when it started and how it ended.
func outline(s *session.Session) string {
	var b strings.Builder
	tools := func(l []*session.ToolCall) {
		for _, c := range l {
			fmt.Fprintf(&b, "    %s %s %s %s\n", c.ID, c.Name, c.Outcome, c.End.Format(time.RFC3339Nano))
		}
	}
	for _, r := range s.Runs {
		fmt.Fprintf(&b, "%s %s %s %s %+v\n", r.ID, r.Start.Format(time.RFC3339Nano), r.End.Format(time.RFC3339Nano), r.Status, r.Usage)
		tools(r.ToolCalls)
		for _, turn := range r.Turns {
			fmt.Fprintf(&b, "  %d %s %s %s %+v\n", turn.Index, turn.Start.Format(time.RFC3339Nano), turn.End.Format(time.RFC3339Nano), turn.StopReason, turn.Usage)
			tools(turn.ToolCalls)
		}
	}
	return b.String()
}

// TestLedgerComesBack sends every saved session, exports it as a ledger, and compares that with the file.
func TestLedgerComesBack(t *testing.T) {
	known := phifixtures.KnownIn(t, repository, "ledger and back")
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			saved := savedLedger(t, f)
			for _, ledger := range [][]byte{saved, withoutEvents(saved)} {
				diffs, err := phifixtures.Compare(f, ledgers(t, replay(t, ledger, content)))
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range phifixtures.Unknown(f, diffs, known) {
					t.Error(d)
				}
			}
		})
	}
	for _, k := range known {
		if !k.Used {
			t.Errorf("dialects/phi/README.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
		}
	}
}

func asJSON(t *testing.T, s *session.Session) []byte {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ledgerFile returns a file of testdata/ledgers of the reader.
func ledgerFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", "ledgers", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSampleFromEventsAndLedgers sends the sample's stream and the ledgers of its two sessions: a session that spawned another, a branch
// that was cut off, a denied tool, a compaction.
func TestSampleFromEventsAndLedgers(t *testing.T) {
	events, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", "sample-session.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	b := replay(t, events, content)
	alone := treesOf(b)
	for _, name := range []string{"sample-session.json", "sample-session-child.json"} {
		b.Rows = append(b.Rows, replay(t, ledgerFile(t, name), content).Rows...)
	}
	both := treesOf(b)
	if len(both) != 2 || len(alone) != 2 {
		t.Fatalf("%d sessions, %d of the events", len(both), len(alone))
	}
	for id, got := range both {
		if got, want := outline(got), outline(alone[id]); got != want {
			t.Errorf("session %s: got\n%swant\n%s", id, got, want)
		}
		if got.Usage != alone[id].Usage {
			t.Errorf("session %s: usage %+v, of the events %+v", id, got.Usage, alone[id].Usage)
		}
	}
}

// TestCompactionBlock sends a session that its host saved with the block that a compaction left on a run: the run has a compaction more, at
// the time of the block, and the block is its summary.
func TestCompactionBlock(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		if f.Name != "compaction-standalone" {
			continue
		}
		saved, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", "phi-core-"+f.Release, f.Name+".saved.json"))
		if err != nil {
			t.Fatal(err)
		}
		var ledger struct {
			Loops []struct {
				Block json.RawMessage `json:"compaction_block"`
			}
		}
		if err := json.Unmarshal(saved, &ledger); err != nil {
			t.Fatal(err)
		}
		var block bytes.Buffer
		if err := json.Compact(&block, ledger.Loops[0].Block); err != nil {
			t.Fatal(err)
		}
		events, fromLedger := replay(t, f.Events, content), replay(t, saved, content)
		alone := treesOf(events)
		events.Rows, events.Blocks = append(events.Rows, fromLedger.Rows...), append(events.Blocks, fromLedger.Blocks...)
		for id, s := range treesOf(events) {
			if got, want := outline(s), outline(alone[id]); got != want {
				t.Errorf("%s: got\n%swant\n%s", f, got, want)
			}
			c := s.Runs[0].Compactions
			if len(c) != 1 || c[0].Kind != spans.CompactionKindSummary || c[0].Recording != spans.RecordingLedger {
				t.Fatalf("%s: %s", f, asJSON(t, s))
			}
			blocks, err := session.NewBlockSet(blocksOf(events, id))
			if err != nil {
				t.Fatal(err)
			}
			if got := blocks.Read(c[0].Summary).Bodies; len(got) != 1 || got[0] != block.String() {
				t.Errorf("%s: got %q, want %s", f, got, block.String())
			}
		}
	}
}

// TestLedgerSentAgain sends every ledger after it was sent before, whole and as far as it was written: nothing that is there changes.
func TestLedgerSentAgain(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			ledger := withoutEvents(savedLedger(t, f))
			once := replay(t, ledger, content)
			want := treesOf(once)
			again := replay(t, ledger, content)
			again.Rows = append(again.Rows, once.Rows...)
			for id, got := range treesOf(again) {
				if !bytes.Equal(asJSON(t, got), asJSON(t, want[id])) {
					t.Errorf("session %s sent twice is another", id)
				}
			}
			for _, part := range []int{3, 5, 7, 9} {
				cut := playLenient(t, ledger[:len(ledger)*part/10])
				cut.Rows = append(cut.Rows, once.Rows...)
				for id, got := range treesOf(cut) {
					if want[id] == nil {
						t.Errorf("session %s is only in %d tenths of the file", id, part)
						continue
					}
					if got, want := outline(got), outline(want[id]); got != want {
						t.Errorf("session %s after %d tenths of the file: got\n%swant\n%s", id, part, got, want)
					}
				}
			}
		})
	}
}

// TestMessageArrayThatGrows sends an array of messages when it had its first reply, and when it had all.
func TestMessageArrayThatGrows(t *testing.T) {
	early, late := replay(t, ledgerFile(t, "messages-asking.json"), content), replay(t, ledgerFile(t, "messages.json"), content)
	first, want := treesOf(early), treesOf(late)
	early.Rows = append(early.Rows, late.Rows...)
	both := treesOf(early)
	if len(both) != 1 || len(first) != 1 || len(want) != 1 {
		t.Fatalf("%d, %d and %d sessions", len(both), len(first), len(want))
	}
	for id, got := range both {
		if first[id] == nil || first[id].Runs[0].Status != spans.RunStatusAborted {
			t.Errorf("a run that asks for tools has no end: %s", asJSON(t, first[id]))
		}
		if got, want := outline(got), outline(want[id]); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		r := got.Runs[0]
		if len(got.Runs) != 1 || len(r.Turns) != 3 || r.Status != spans.RunStatusCompleted || r.Recording != spans.RecordingLedger {
			t.Errorf("%s", asJSON(t, got))
		}
		if calls := r.Turns[0].ToolCalls; len(calls) != 3 || calls[1].Outcome != spans.OutcomeError || calls[0].Args == nil || calls[0].Result == nil {
			t.Errorf("%s", asJSON(t, got))
		}
	}
}

// TestOldLedgers are those of before April 2026: null as continuation, no turns, with the events of the runs or
// without, an extension message. They yield the same session as a later ledger of it, as far as they have it.
func TestOldLedgers(t *testing.T) {
	outlines := map[string]string{}
	for name, file := range map[string][]byte{
		"with events":    ledgerFile(t, "before-2026-04.json"),
		"without events": ledgerFile(t, "before-2026-04-without-events.json"),
	} {
		trees := treesOf(replay(t, file, content))
		if len(trees) != 1 {
			t.Fatalf("%s: %d sessions", name, len(trees))
		}
		for _, s := range trees {
			r := s.Runs[0]
			if len(s.Runs) != 1 || r.Continuation != spans.ContinuationInitial || r.Status != spans.RunStatusCompleted || len(r.Turns) != 2 || r.Usage != *r.RollUp {
				t.Errorf("%s: %s", name, asJSON(t, s))
			}
			if text := string(asJSON(t, s)); strings.Contains(text, "SECRET") {
				t.Errorf("%s: a key that a model configuration held", name)
			}
			var b strings.Builder
			for _, turn := range r.Turns {
				fmt.Fprintf(&b, "%d %+v %s\n", turn.Index, turn.Usage, turn.StopReason)
				for _, c := range turn.ToolCalls {
					fmt.Fprintf(&b, "  %s %s\n", c.ID, c.Outcome)
				}
			}
			outlines[name] = b.String()
		}
	}
	if outlines["with events"] != outlines["without events"] || strings.Count(outlines["with events"], "call_") != 3 {
		t.Errorf("with events\n%swithout\n%s", outlines["with events"], outlines["without events"])
	}
}
