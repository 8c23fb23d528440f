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

	"github.com/otelagent/otelagent/internal/phifixtures"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// savedLedger returns the file of a fixture's sessions as phi-core saved them.
func savedLedger(t *testing.T, f phifixtures.Fixture) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "otelagent", "phi", "testdata", "phi-core-"+f.Release, f.Name+".sessions.json"))
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

// TestLedgerTreesEqualThoseOfEvents compares the tree of every recorded session, told from its events, with the tree told from its ledger.
func TestLedgerTreesEqualThoseOfEvents(t *testing.T) {
	for _, table := range []string{"ledger with events", "ledger"} {
		t.Run(table, func(t *testing.T) {
			known := phifixtures.KnownIn(t, repository, table)
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
					t.Errorf("docs/fidelity.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
				}
			}
		})
	}
}

// TestEventsAndLedgerAreOneSession sends the events of every recorded session and its ledger into one store, in both orders and with and
// without stored events: there is one of each run, turn and tool call, usage counts once, and each run that both tell says so by one defect.
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
					groups := len(want.Groups)
					if known[id] != nil {
						groups += len(known[id].Groups) // docs/fidelity.md says why
					}
					if len(got.Groups) != groups {
						t.Errorf("session %s: %d groups, want %d", id, len(got.Groups), groups)
					}
					for _, r := range got.Runs {
						told := known[id] != nil && slices.ContainsFunc(known[id].Runs, func(o *session.Run) bool { return o.ID == r.ID && o.Start.Equal(r.Start) })
						twice := 0
						for _, d := range r.Defects {
							if d.Code == spans.DefectRecordedTwice {
								twice++
							} else if !slices.ContainsFunc(want.Runs, func(o *session.Run) bool { return slices.Contains(o.Defects, d) }) {
								t.Errorf("session %s, run %s: defect %+v", id, r.ID, d)
							}
						}
						if told && twice != 1 || !told && twice != 0 {
							t.Errorf("session %s, run %s: %d defects %s, in the ledger: %v", id, r.ID, twice, spans.DefectRecordedTwice, told)
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
			t.Errorf("docs/fidelity.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
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
