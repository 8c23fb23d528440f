package agenttest_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// ownLines are the events of a recording as our own lines.
func ownLines(t *testing.T, events []byte) []byte {
	t.Helper()
	var out []byte
	for ev, err := range phi.Events(bytes.NewReader(events)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(ndjson.AppendEvent(out, ev), '\n')
	}
	return out
}

// replayOwn plays our own lines as a file.
func replayOwn(t *testing.T, lines []byte) session.Batch {
	t.Helper()
	p := agenttest.New(t, writer.WithDerivedIDs, content)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range ndjson.Events(bytes.NewReader(lines)) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return p.Batch()
}

// One session sent live under the SDK's own ids, from its lines, from our own lines and from its ledger, in any order, is one session: each
// run, turn and tool call once, usage once, one defect a run, and of a group one.
func TestSourcesAreOneSession(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			file := replay(t, f.Events, content)
			once := treesOf(file)
			sources := []session.Batch{
				play(t, f.Events, []input.Option{input.WithLive()}, content).Batch(),
				file,
				replayOwn(t, ownLines(t, f.Events)),
				replay(t, savedLedger(t, f), content),
			}
			// Our own lines say what the events say, under the same ids.
			if diff := cmp.Diff(trees(t, file), trees(t, sources[2])); diff != "" {
				t.Errorf("our own lines (-events +lines):\n%s", diff)
			}
			var first string
			for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
				var all session.Batch
				for _, i := range order {
					all = join(all, sources[i])
				}
				if first == "" {
					first = trees(t, all)
				} else if diff := cmp.Diff(first, trees(t, all)); diff != "" {
					t.Fatalf("order %v (-first +this):\n%s", order, diff)
				}
				for id, got := range treesOf(all) {
					want := once[id]
					if diff := cmp.Diff(shape(want), shape(got)); diff != "" {
						t.Errorf("session %s (-once +all):\n%s", id, diff)
					}
					if got.Usage != want.Usage {
						t.Errorf("session %s: usage %+v, want %+v", id, got.Usage, want.Usage)
					}
					for _, r := range got.Runs {
						if n := countDefects(r.Defects, spans.DefectRecordedTwice); n != 1 {
							t.Errorf("session %s, run %s: %d defects, want 1", id, r.ID, n)
						}
					}
					for _, g := range got.Groups {
						if n := countDefects(g.Defects, spans.DefectRecordedTwice); n != 1 {
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

// Our own lines cut anywhere and sent again, each time longer, change nothing that is there.
func TestOwnLinesSentAgain(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		if testing.Short() && f.Name != "plain-multi-turn" {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			whole := ownLines(t, f.Events)
			lines := slices.Collect(bytes.Lines(whole))
			want := trees(t, replayOwn(t, whole))
			var sent session.Batch
			for _, n := range []int{len(lines) / 3, len(lines) / 2, len(lines) - 1, len(lines), len(lines)} {
				sent = join(sent, replayOwn(t, bytes.Join(lines[:n], nil)))
			}
			if diff := cmp.Diff(want, trees(t, sent)); diff != "" {
				t.Errorf("(-once +five times):\n%s", diff)
			}
		})
	}
}
