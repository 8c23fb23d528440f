package agenttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// The tests of this file and its neighbours run the recordings of the real phi-core crate through the whole pipeline in
// memory. The same recordings go through a real collector in cmd/otelagent.

// repository is the folder that holds testdata and docs.
const repository = ".."

var exportDir = flag.String("export-dir", "",
	"write the ledger of every recorded session into this `folder`, for phi-core's own loader")

var content = otelagent.WithCapture(otelagent.CaptureContent)

var digests = otelagent.WithCapture(otelagent.CaptureDigests)

// replay plays an event stream as `otelagent send` does with a file, and returns the batch that arrived.
func replay(t *testing.T, events []byte, opts ...otelagent.Option) session.Batch {
	t.Helper()
	return played(t, events, nil, append([]otelagent.Option{writer.WithDerivedIDs}, opts...)...).Batch()
}

// played plays an event stream.
func played(t *testing.T, events []byte, reader []input.Settings, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, opts...)
	play.Events(t, event.NewRecorder(p.Tracer()), phi.NewDecoder(reader...).Events(bytes.NewReader(events)))
	if r := p.Report(); len(r.Rejected) > 0 || r.Foreign > 0 || r.Cut > 0 {
		t.Fatalf("what we send we must read: %+v", r)
	}
	return p
}

// playLenient plays a stream of which some lines are bad.
func playLenient(t *testing.T, events []byte) session.Batch {
	t.Helper()
	p := agenttest.New(t, content, writer.WithDerivedIDs)
	play.Lines(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(bytes.NewReader(events)))
	return p.Batch()
}

func blocksOf(b session.Batch, id string) iter.Seq2[session.Block, error] {
	return func(yield func(session.Block, error) bool) {
		for _, block := range b.Blocks {
			if block.Session.ID == id && !yield(block, nil) {
				return
			}
		}
	}
}

// only is the part of a batch that one session has.
func only(b session.Batch, id string) session.Batch {
	one := session.Batch{Blocks: b.Blocks}
	for _, r := range b.Rows {
		if r.Session.ID == id {
			one.Rows = append(one.Rows, r)
		}
	}
	return one
}

// ledger writes one session of a batch as a ledger of phi-core.
func ledger(t *testing.T, b session.Batch, s *session.Session, opts export.Options) ([]byte, []export.Missing, error) {
	t.Helper()
	blocks := must.Get(session.NewBlockSet(blocksOf(b, s.ID)))(t)
	var buf bytes.Buffer
	missing, err := export.PhiCore(&buf, session.Tree{Session: s, Blocks: blocks}, opts)
	return buf.Bytes(), missing, err
}

// ledgers writes the phi-core ledger of every session of the batch that has runs.
func ledgers(t *testing.T, b session.Batch) map[string][]byte {
	t.Helper()
	trees, out := treesOf(b), make(map[string][]byte)
	for id, s := range trees {
		raw, _, err := ledger(t, b, s, export.Options{Session: func(id string) *session.Session { return trees[id] }})
		switch {
		case errors.Is(err, export.ErrEmpty):
		case err != nil:
			t.Errorf("session %s: %v", id, err)
		default:
			out[id] = raw
		}
	}
	return out
}

// writeLedger writes a ledger into the folder of the flag -export-dir, if that is set.
func writeLedger(t *testing.T, raw []byte, words ...string) {
	t.Helper()
	if *exportDir == "" {
		return
	}
	name := strings.NewReplacer("/", "_", "\\", "_", " ", "_").Replace(strings.Join(words, ".") + ".json")
	must.Do(t, os.WriteFile(filepath.Join(*exportDir, name), raw, 0o600))
}

// eachDifference reports the differences that find returns of each recording, but for those that dialects/phi/README.md
// lists with a reason in its tables, and each row of these that no recording shows.
func eachDifference(t *testing.T, tables []string, find func(*testing.T,
	phifixtures.Fixture) ([]phifixtures.Difference, error)) {
	var known []*phifixtures.Known
	for _, table := range tables {
		known = append(known, phifixtures.KnownIn(t, repository, table)...)
	}
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			diffs := must.Get(find(t, f))(t)
			for _, d := range phifixtures.Unknown(f, diffs, known) {
				t.Error(d)
			}
		})
	}
	for _, k := range known {
		if !k.Used {
			t.Errorf("dialects/phi/README.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
		}
	}
}

// The tree holds the same as phi-core's own recorder, in any order of arrival.
func TestLedgersEqualThoseOfPhiCore(t *testing.T) {
	eachDifference(t, []string{"differences"}, func(t *testing.T, f phifixtures.Fixture) ([]phifixtures.Difference,
		error) {
		b := replay(t, f.Events, content)
		slices.Reverse(b.Rows)
		slices.Reverse(b.Blocks)
		ours := ledgers(t, b)
		for id, raw := range ours {
			writeLedger(t, raw, f.Release, f.Name, id)
		}
		return phifixtures.Compare(f, ours)
	})
}

// Every saved session that is sent and exported as a ledger is that of the file.
func TestLedgerComesBack(t *testing.T) {
	eachDifference(t, []string{"ledger and back"}, func(t *testing.T, f phifixtures.Fixture) ([]phifixtures.Difference,
		error) {
		saved := savedLedger(t, f)
		whole, err := phifixtures.Compare(f, ledgers(t, replay(t, saved, content)))
		bare, other := phifixtures.Compare(f, ledgers(t, replay(t, withoutEvents(saved), content)))
		return append(whole, bare...), errors.Join(err, other)
	})
}

// The tree of every recorded session from its events equals the tree from its ledger.
func TestLedgerTreesEqualThoseOfEvents(t *testing.T) {
	t.Parallel()
	for _, tables := range [][]string{{"ledger with events"}, {"ledger with events", "ledger"}} {
		bare := len(tables) > 1
		eachDifference(t, tables, func(t *testing.T, f phifixtures.Fixture) (all []phifixtures.Difference, err error) {
			saved := savedLedger(t, f)
			stored := f.Release == "0.10.0" // which kept the events of its runs
			if !bare && !stored {
				return nil, nil
			} else if bare && stored {
				saved = withoutEvents(saved)
			}
			want := treesOf(replay(t, f.Events, content))
			for id, got := range treesOf(replay(t, saved, content)) {
				if want[id] == nil {
					t.Errorf("session %s is not in the events", id)
					continue
				}
				diffs, bad := phifixtures.Differences(id, asJSON(t, got), asJSON(t, want[id]))
				all, err = append(all, diffs...), errors.Join(err, bad)
				delete(want, id)
			}
			for id := range want {
				all = append(all, phifixtures.Difference{Session: id, Path: "session", Got: "(absent)", Want: "a tree"})
			}
			return all, err
		})
	}
}

// phi-core's recordings as the guide's JSON, imported again, and from there a ledger: it holds the same as the first
// ledger.
func TestPhiCoreThroughJSON(t *testing.T) {
	eachDifference(t, []string{"phi-core through json"}, func(t *testing.T,
		f phifixtures.Fixture) (all []phifixtures.Difference, err error) {
		b := replay(t, f.Events, content)
		for id, want := range ledgers(t, b) {
			back := importGuide(t, exported(t, only(b, id), false))
			got, _, bad := ledger(t, back, session.AssembleAll(back.Rows)[0], export.Options{Partial: true})
			diffs, other := phifixtures.Differences(id, got, want)
			all, err = append(all, diffs...), errors.Join(err, bad, other)
		}
		return all, err
	})
}

// recordedFile plays a file of any dialect, recognized by its beginning, as `otelagent send` does.
func recordedFile(t *testing.T, path string, opts ...input.Settings) session.Batch {
	t.Helper()
	p := agenttest.New(t, writer.WithDerivedIDs, content)
	playFile(t, p, path, opts...)
	return p.Batch()
}

// foreignFiles are recordings of the other dialects.
func foreignFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{
		"clark/testdata/clark-agent-*/*.enveloped.ndjson", "acp/testdata/sdk/*.ndjson", "guide/testdata/*.jsonl",
		"guide/testdata/ai-sdk/*.jsonl", "ndjson/testdata/producers/*.ndjson",
	} {
		found, err := filepath.Glob(filepath.Join(repository, "dialects", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, ".raw.ndjson") })
}

// A session of any dialect, and one with words, keys and types that phi-core does not have, is written as a ledger
// without what phi-core has no words for, or refused: phi-core loads every ledger. It has every turn that ended with a
// reply. phi-core's own loader is asked by `make interop-phi-core`.
func TestForeignLedgers(t *testing.T) {
	t.Parallel()
	written, refused := 0, 0
	traps := filepath.Join(repository, "dialects", "phi", "testdata", "traps.ndjson")
	variants := filepath.Join(repository, "dialects", "phi", "testdata", "sample-variants.ndjson")
	for _, path := range append(foreignFiles(t), traps, variants) {
		b := recordedFile(t, path, input.Settings{Session: "given"})
		for _, s := range session.AssembleAll(b.Rows) {
			var strict *export.MissingError
			if _, _, err := ledger(t, b, s, export.Options{}); path == traps && errors.As(err, &strict) {
				refused++
			} else if path == variants && errors.As(err, &strict) {
				t.Errorf("%s, session %s: %v", path, s.ID, err)
			}
			raw, missing, err := ledger(t, b, s, export.Options{Partial: true})
			if errors.Is(err, export.ErrEmpty) {
				continue
			} else if err != nil {
				t.Errorf("%s, session %s: %v", path, s.ID, err)
				continue
			}
			written++
			writeLedger(t, raw, filepath.Base(filepath.Dir(path)), filepath.Base(path), s.ID)
			var doc struct {
				Loops []struct {
					Turns []struct {
						Reply struct{ Role string } `json:"output_message"`
					}
				}
			}
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			turns, replies := 0, 0
			for _, l := range doc.Loops {
				for _, turn := range l.Turns {
					if turns++; turn.Reply.Role != "assistant" {
						t.Errorf("%s, session %s: a reply of role %s", path, s.ID, turn.Reply.Role)
					}
				}
			}
			for n := range s.Walk() {
				if n.Kind() == session.KindTurn && n.Turn.Output != nil && n.Turn.Output.Count == 1 && n.Turn.Known == "observed" {
					replies++
				}
			}
			for _, m := range missing { // a reply with what serde does not read, such as half a surrogate pair
				if strings.HasPrefix(m.What, "output: block") {
					replies--
				}
			}
			if turns != replies && path != traps {
				t.Errorf("%s, session %s: %d turns in the ledger, %d ended with a reply", path, s.ID, turns, replies)
			}
		}
	}
	if written < 100 || refused == 0 {
		t.Errorf("%d ledgers written, %d refused", written, refused)
	}
}
