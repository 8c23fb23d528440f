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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// savedLedger returns the file of a fixture's sessions as phi-core saved them.
func savedLedger(t *testing.T, f phifixtures.Fixture) []byte {
	t.Helper()
	return phiFile(t, "phi-core-"+f.Release, f.Name+".sessions.json")
}

// phiFile returns a file of the tests of phi-core's dialect.
func phiFile(t *testing.T, path ...string) []byte {
	t.Helper()
	raw := must.Get(os.ReadFile(filepath.Join(append([]string{repository, "dialects", "phi", "testdata"}, path...)...)))(t)
	return raw
}

// withoutEvents is a ledger of before 0.14 as if a later release had written it: without the events of its runs.
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

func asJSON(t *testing.T, s *session.Session) []byte {
	t.Helper()
	raw := must.Get(json.Marshal(s))(t)
	return raw
}

// ownLines are the events of a recording of phi-core 0.10.0 as lines of package ndjson; of another release none.
func ownLines(t *testing.T, f phifixtures.Fixture) []byte {
	t.Helper()
	arc := must.Get(txtar.ParseFile("testdata/own-lines.txtar"))(t)
	if f.Release != "0.10.0" {
		return nil
	}
	i := slices.IndexFunc(arc.Files, func(a txtar.File) bool { return a.Name == f.Name })
	if i < 0 {
		t.Fatal("own-lines.txtar does not have ", f)
	}
	return arc.Files[i].Data
}

// replayOwn plays lines of package ndjson as a file.
func replayOwn(t *testing.T, lines []byte) session.Batch {
	t.Helper()
	return playAs(t, ndjson.Dialect, nil, string(lines), writer.WithDerivedIDs, content)
}

// outline names every span of a tree by its address. With exact it has the times of runs and turns and the ends of tool
// calls instead of permissions and compactions.
func outline(s *session.Session, exact bool) (out []string) {
	for n := range s.Walk() {
		at, end := n.Span().Start.UnixNano(), n.Span().End.UnixNano()
		switch kind := n.Kind(); {
		case kind == session.KindRun && exact:
			out = append(out, fmt.Sprintf("run %s %d %d %s %+v", n.Run.ID, at, end, n.Run.Status, n.Run.Usage))
		case kind == session.KindRun:
			out = append(out, fmt.Sprintf("run %s@%d", n.Run.ID, at))
		case kind == session.KindTurn && exact:
			out = append(out, fmt.Sprintf(" turn %d %d %d %s %+v", n.Turn.Index, at, end, n.Turn.StopReason, n.Turn.Usage))
		case kind == session.KindTurn:
			out = append(out, fmt.Sprintf(" turn %d", n.Turn.Index))
		case kind == session.KindToolCall && exact:
			out = append(out, fmt.Sprintf("  tool %s %s %s %d", n.Call.ID, n.Call.Name, n.Call.Outcome, end))
		case kind == session.KindToolCall:
			out = append(out, fmt.Sprintf("  tool %s.%d %s, %d permissions", n.Call.ID, n.Call.Ordinal, n.Call.Outcome,
				len(n.Call.Permissions)))
		case exact:
		case kind == session.KindCompaction:
			out = append(out, "  compaction "+string(n.Compaction.Kind))
		case n.Call == nil:
			out = append(out, "  permission "+n.Permission.CallID+string(n.Permission.Action))
		}
	}
	return out
}

// One session sent live under the SDK's own ids, from its lines, from lines of package ndjson and from its ledger with
// and without events, in any order, is one session: each run, turn and tool call once, usage once, one defect a run
// that several sources have, and of a group one.
func TestSourcesAreOneSession(t *testing.T) {
	t.Parallel()
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			saved := savedLedger(t, f)
			live, file := played(t, f.Events, []input.Settings{{Live: true}}, content).Batch(), replay(t, f.Events, content)
			ledger, bare := replay(t, saved, content), replay(t, withoutEvents(saved), content)
			once := treesOf(file)
			every := []session.Batch{live, file, ledger}
			if lines := ownLines(t, f); lines != nil {
				own := replayOwn(t, lines)
				if diff := cmp.Diff(trees(t, file), trees(t, own)); diff != "" {
					t.Errorf("lines of package ndjson (-events +lines):\n%s", diff)
				}
				every = []session.Batch{live, file, own, ledger}
			}
			for name, sources := range map[string][]session.Batch{
				"live, file": {live, file}, "file, ledger": {file, ledger}, "file, ledger without events": {file, bare},
				"all": every,
			} {
				forward := join(sources...)
				slices.Reverse(sources)
				slices.Reverse(sources[1:]) // the last one, and then the others in their order
				all := join(sources...)
				if diff := cmp.Diff(trees(t, forward), trees(t, all)); diff != "" {
					t.Fatalf("%s: the order counts (-forward +this):\n%s", name, diff)
				}
				for id, got := range treesOf(all) {
					want := once[id]
					exact := !strings.Contains(name, "live") && name != "all" // live spans end when they arrive
					if diff := cmp.Diff(outline(want, exact), outline(got, exact)); diff != "" || got.Usage != want.Usage {
						t.Errorf("%s: session %s: usage %+v, want %+v (-file +all):\n%s", name, id, got.Usage, want.Usage, diff)
					}
					for _, r := range got.Runs {
						several := 0
						for _, source := range sources {
							if s := treesOf(source)[id]; s != nil && slices.ContainsFunc(s.Runs, func(o *session.Run) bool {
								return o.ID == r.ID && o.Start.Equal(r.Start)
							}) {
								several++
							}
						}
						for _, d := range r.Defects {
							known := func(o *session.Run) bool { return slices.Contains(o.Defects, d) }
							if exact && d.Code != spans.DefectRecordedTwice && !slices.ContainsFunc(want.Runs, known) {
								t.Errorf("%s: session %s, run %s: defect %+v", name, id, r.ID, d)
							}
						}
						if n := countDefects(r.Defects, spans.DefectRecordedTwice); n != min(several-1, 1) {
							t.Errorf("%s: session %s, run %s: %d defects, %d sources have it", name, id, r.ID, n, several)
						}
					}
					if len(got.Groups) != len(want.Groups) {
						t.Errorf("%s: session %s: %d groups, want %d", name, id, len(got.Groups), len(want.Groups))
					}
					for _, g := range got.Groups {
						if n := countDefects(g.Defects, spans.DefectRecordedTwice); n != 1 && name == "all" {
							t.Errorf("session %s: group of %v: %d defects, want 1", id, g.Members, n)
						}
					}
				}
			}
		})
	}
}

func countDefects(l []session.Defect, code spans.DefectCode) (n int) {
	for _, d := range l {
		if d.Code == code {
			n++
		}
	}
	return n
}

// However slow the machine was that the loop ran on: tools that were sent live, with times of arrival, and again from a
// file, with those inside their messages, are in their order.
func TestLiveAndFromFileInOrder(t *testing.T) {
	outlines := func(rows []session.Row) (all [][]string) {
		for _, s := range session.AssembleAll(rows) {
			all = append(all, outline(s, false))
		}
		return all
	}
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			file := replay(t, f.Events).Rows
			live := played(t, f.Events, []input.Settings{{Live: true}}).Batch().Rows
			late := map[int64]bool{} // what makes a live tool end with one of the file, or next to it
			for _, a := range file {
				for _, b := range live {
					if a.Kind == session.KindToolCall && b.Kind == a.Kind && a.Run == b.Run && a.Turn == b.Turn {
						late[a.End-b.End-1], late[a.End-b.End], late[a.End-b.End+1] = true, true, true
					}
				}
			}
			for by := range late {
				moved := slices.Clone(live)
				for i := range moved {
					if r := &moved[i]; r.Kind == session.KindToolCall || r.Kind == session.KindPermission {
						r.Start, r.End = r.Start+by, r.End+by
					}
				}
				if diff := cmp.Diff(outlines(file), outlines(slices.Concat(file, moved))); diff != "" {
					t.Fatalf("tools %d ns later (-file +both):\n%s", by, diff)
				}
			}
		})
	}
}

// Inputs that are sent again, each time longer, change nothing that is there. TestSentAgainAfterItGrew has phi-core's.
func TestOtherInputsSentAgain(t *testing.T) {
	t.Parallel()
	exactly := func(b session.Batch) string { return trees(t, b) }
	roughly := func(b session.Batch) string { // the parts of a ledger arrive in an order of their own
		var all []string
		for _, s := range session.AssembleAll(b.Rows) {
			all = append(all, s.ID+"\n"+strings.Join(outline(s, true), "\n"))
		}
		return strings.Join(all, "\n")
	}
	check := func(name string, whole session.Batch, same func(session.Batch) string, earlier ...session.Batch) {
		t.Helper()
		if exactly(join(whole, whole)) != exactly(whole) {
			t.Errorf("%s: sent twice it is another", name)
		}
		for i, part := range earlier {
			if diff := cmp.Diff(same(whole), same(join(part, whole))); diff != "" {
				t.Errorf("%s, after part %d (-whole +both):\n%s", name, i, diff)
			}
		}
	}
	for i, f := range phifixtures.All(t, repository) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		ledger, own := withoutEvents(savedLedger(t, f)), ownLines(t, f)
		lines := slices.Collect(bytes.Lines(own))
		var cut, parts []session.Batch
		for _, tenths := range []int{3, 5, 7, 9} {
			cut = append(cut, playLenient(t, ledger[:len(ledger)*tenths/10]))
			parts = append(parts, replayOwn(t, bytes.Join(lines[:len(lines)*tenths/10], nil)))
		}
		check(f.String()+" ledger", replay(t, ledger, content), roughly, cut...)
		if own != nil {
			check(f.String()+" lines of package ndjson", replayOwn(t, own), exactly, parts...)
		}
	}
	asking := replay(t, phiFile(t, "ledgers", "messages-asking.json"), content)
	check("an array of messages", replay(t, phiFile(t, "ledgers", "messages.json"), content), roughly, asking)
	for _, name := range []string{"session.jsonl", "ai-sdk/v7.jsonl"} {
		text := guideFile(t, name)
		var parts []session.Batch
		at := 0
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(line, []byte(`{"type":"message"`)) && at > 0 {
				parts = append(parts, importGuide(t, text[:at]))
			}
			at += len(line)
		}
		check(name, importGuide(t, text), exactly, parts...)
	}
}

// An old ledger without events yields the same session as one with them, and a key that a model configuration held is
// in neither.
func TestOldLedgers(t *testing.T) {
	var outlines [][]string
	for _, file := range []string{"before-2026-04.json", "before-2026-04-without-events.json"} {
		for _, s := range treesOf(replay(t, phiFile(t, "ledgers", file), content)) {
			if text := string(asJSON(t, s)); strings.Contains(text, "SECRET") {
				t.Errorf("%s: a key that a model configuration held", file)
			}
			var calls []string
			for n := range s.Walk() {
				if n.Kind() == session.KindToolCall {
					calls = append(calls, fmt.Sprint(n.Turn.Index, n.Turn.Usage, n.Turn.StopReason, n.Call.ID, n.Call.Outcome))
				}
			}
			outlines = append(outlines, calls)
		}
	}
	if len(outlines) != 2 || len(outlines[0]) != 3 || !slices.Equal(outlines[0], outlines[1]) {
		t.Errorf("tool calls with events and without: %q", outlines)
	}
}
