package agenttest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// The tests of this file and its neighbours run the recordings of the real phi-core crate through the whole pipeline in
// memory. The same recordings go through a real collector in cmd/otelagent.

// repository is the folder that holds testdata and docs.
const repository = ".."

var exportDir = flag.String("export-dir", "", "write the ledger of every recorded session into this folder, for phi-core's own loader")

// replay plays an event stream as `otelagent send` does with a file, and returns what arrived.
func replay(t *testing.T, events []byte, opts ...otelagent.Option) session.Batch {
	t.Helper()
	return play(t, events, nil, append([]otelagent.Option{writer.WithDerivedIDs}, opts...)...).Batch()
}

// play plays an event stream.
func play(t *testing.T, events []byte, reader []input.Option, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, opts...)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(bytes.NewReader(events), reader...) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	if r := p.Report(); len(r.Rejected) > 0 || r.Foreign > 0 || r.Cut > 0 {
		t.Fatalf("what we send we must read: %+v", r)
	}
	return p
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

var digests = otelagent.WithCapture(otelagent.CaptureDigests)

// ledgers writes the phi-core ledger of every session of the batch.
func ledgers(t *testing.T, b session.Batch) map[string][]byte {
	t.Helper()
	trees := make(map[string]*session.Session)
	for _, s := range session.AssembleAll(b.Rows) {
		trees[s.ID] = s
	}
	out := make(map[string][]byte)
	for id, s := range trees {
		blocks, err := session.NewBlockSet(blocksOf(b, id))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		_, err = export.PhiCore(t.Context(), &buf, s, export.Held(blocks), export.Options{Session: func(id string) *session.Session { return trees[id] }})
		if errors.Is(err, export.ErrEmpty) {
			continue
		}
		if err != nil {
			t.Errorf("session %s: %v", id, err)
			continue
		}
		out[id] = buf.Bytes()
	}
	return out
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

// The tree holds what phi-core's own recorder holds, in any order of arrival.
func TestLedgersEqualThoseOfPhiCore(t *testing.T) {
	known := phifixtures.KnownDifferences(t, repository)
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			b := replay(t, f.Events, content)
			slices.Reverse(b.Rows)
			slices.Reverse(b.Blocks)
			ours := ledgers(t, b)
			diffs, err := phifixtures.Compare(f, ours)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range phifixtures.Unknown(f, diffs, known) {
				t.Error(d)
			}
			if *exportDir != "" {
				writeLedgers(t, f, ours)
			}
		})
	}
	for _, k := range known {
		if !k.Used {
			t.Errorf("dialects/phi/README.md lists a difference that no recording has: %s %s", k.Scenario, k.Path)
		}
	}
}

// Streams with words, keys and types that phi-core does not have are refused, or written without them: phi-core loads whatever
// we write. The real loader is asked by `make interop-phi-core`.
func TestForeignWordsAreRefusedOrLeftOut(t *testing.T) {
	for name, foreign := range map[string]bool{"traps": true, "sample-variants": false} {
		events, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", name+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		b := playLenient(t, events)
		refused := 0
		for _, s := range session.AssembleAll(b.Rows) {
			blocks, err := session.NewBlockSet(blocksOf(b, s.ID))
			if err != nil {
				t.Fatal(err)
			}
			var strict *export.MissingError
			if _, err := export.PhiCore(t.Context(), io.Discard, s, export.Held(blocks), export.Options{}); errors.As(err, &strict) {
				refused++
			}
			var buf bytes.Buffer
			_, err = export.PhiCore(t.Context(), &buf, s, export.Held(blocks), export.Options{Partial: true})
			if errors.Is(err, export.ErrEmpty) {
				continue
			}
			if err != nil {
				t.Errorf("%s, session %s: %v", name, s.ID, err)
			}
			if *exportDir != "" {
				writeLedgers(t, phifixtures.Fixture{Release: "partial", Name: name}, map[string][]byte{s.ID: buf.Bytes()})
			}
		}
		if (refused > 0) != foreign {
			t.Errorf("%s: %d sessions refused", name, refused)
		}
	}
}

// playLenient plays a stream of which some lines are bad.
func playLenient(t *testing.T, events []byte) session.Batch {
	t.Helper()
	p := agenttest.New(t, content, writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(bytes.NewReader(events)) {
		var bad *input.LineError
		if err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
		if err == nil {
			rec.Record(context.Background(), ev)
		}
	}
	rec.Close(context.Background())
	return p.Batch()
}

func writeLedgers(t *testing.T, f phifixtures.Fixture, ours map[string][]byte) {
	t.Helper()
	for id, raw := range ours {
		name := strings.NewReplacer("/", "_", " ", "_").Replace(f.Release + "." + f.Name + "." + id + ".json")
		if err := os.WriteFile(filepath.Join(*exportDir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
