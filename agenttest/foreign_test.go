package agenttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
)

// recordedFile plays a file of any dialect, found out by its beginning, as `otelagent send` does.
func recordedFile(t *testing.T, path string, opts ...input.Option) session.Batch {
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
		"clark/testdata/clark-agent-*/*.enveloped.ndjson", "acp/testdata/sdk/*.ndjson", "guide/testdata/*.jsonl", "guide/testdata/ai-sdk/*.jsonl",
		"ndjson/testdata/producers/*.ndjson",
	} {
		found, err := filepath.Glob(filepath.Join(repository, "dialects", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, f := range found {
			if !strings.HasSuffix(f, ".raw.ndjson") {
				files = append(files, f)
			}
		}
	}
	return files
}

// A session of any dialect is written as a ledger of phi-core, without what that has no words for: our own reader finds in it every turn that
// ended with a reply, with its usage. phi-core's own loader is asked by `make interop-phi-core`.
func TestForeignLedgers(t *testing.T) {
	written := 0
	for _, path := range foreignFiles(t) {
		b := recordedFile(t, path, input.WithSession("given"))
		for _, s := range session.AssembleAll(b.Rows) {
			blocks, err := session.NewBlockSet(blocksOf(b, s.ID))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			left, err := export.PhiCore(t.Context(), &out, s, export.Held(blocks), export.Options{Partial: true})
			if errors.Is(err, export.ErrEmpty) {
				continue
			} else if err != nil {
				t.Errorf("%s, session %s: %v", path, s.ID, err)
				continue
			}
			written++
			var doc struct {
				Loops []struct {
					ID    string `json:"loop_id"`
					Turns []struct {
						Usage struct{ Input, Output int64 }
						Reply struct {
							Role    string
							Content []json.RawMessage
						} `json:"output_message"`
					}
				}
			}
			if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			turns, replies := 0, 0
			for _, m := range left { // a reply with what serde does not read, such as half a surrogate pair
				if strings.HasPrefix(m.What, "output: block") {
					replies--
				}
			}
			for _, l := range doc.Loops {
				for _, turn := range l.Turns {
					turns++
					if turn.Reply.Role != "assistant" {
						t.Errorf("%s, session %s: a reply of role %s", path, s.ID, turn.Reply.Role)
					}
				}
			}
			for _, r := range s.Runs {
				for _, turn := range r.Turns {
					if turn.Output != nil && turn.Output.Count == 1 && turn.Known == "observed" {
						replies++
					}
				}
			}
			if turns != replies {
				t.Errorf("%s, session %s: %d turns in the ledger, %d ended with a reply", path, s.ID, turns, replies)
			}
			if *exportDir != "" {
				name := strings.NewReplacer("/", "_", "\\", "_", " ", "_").Replace(filepath.Base(path) + "." + s.ID)
				writeLedgers(t, phifixtures.Fixture{Release: filepath.Base(filepath.Dir(path)), Name: name}, map[string][]byte{"": out.Bytes()})
			}
		}
	}
	if written < 100 {
		t.Errorf("only %d ledgers", written)
	}
}

// phi-core's recordings as the guide's JSON, that taken in by another store, and from there a ledger again: it holds what the first ledger
// holds but for what dialects/phi/README.md lists, with reasons.
func TestPhiCoreThroughJSON(t *testing.T) {
	known := phifixtures.KnownIn(t, repository, "phi-core through json")
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			b := replay(t, f.Events, content)
			for id, want := range ledgers(t, b) {
				one := session.Batch{Blocks: b.Blocks}
				for _, r := range b.Rows {
					if r.Session.ID == id {
						one.Rows = append(one.Rows, r)
					}
				}
				back := importGuide(t, exported(t, one, false))
				s := session.AssembleAll(back.Rows)[0]
				blocks, err := session.NewBlockSet(blocksOf(back, id))
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if _, err := export.PhiCore(t.Context(), &got, s, export.Held(blocks), export.Options{Partial: true}); err != nil {
					t.Errorf("session %s: %v", id, err)
					continue
				}
				diffs, err := phifixtures.Differences(id, got.Bytes(), want)
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
