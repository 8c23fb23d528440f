package ndjson_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// recorded is the tree of a producer's fixture (interop/ndjson), recorded and rebuilt.
func recorded(t *testing.T, name string, opts ...input.Settings) (*session.Session, *session.BlockSet) {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	text := must.Get(os.ReadFile(filepath.Join("testdata", "producers", name+".ndjson")))(t)
	events := ndjson.NewDecoder(opts...).Events(bytes.NewReader(text))
	if n := play.Events(t, event.NewRecorder(p.Tracer()), events); n != 0 {
		t.Errorf("%d events lost", n)
	}
	blocks := p.Batch().Blocks
	set := must.Get(session.NewBlockSet(func(yield func(session.Block, error) bool) {
		for _, b := range blocks {
			if !yield(b, nil) {
				return
			}
		}
	}))(t)
	return p.Session(), set
}

// payloads are the requests as the lines of a fixture hold them.
func payloads(t *testing.T, name string) (all []string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "producers", name+".ndjson")))(t)
	evs, _ := ndjson.ReadAll(string(text))
	for _, ev := range evs {
		if req, ok := ev.(*event.RequestPrepared); ok {
			all = append(all, string(req.Payload))
		}
	}
	return all
}

// TestProducers records what the programs of interop/ndjson wrote and compares the tree with testdata/producers/*.tree,
// and every request with the bytes that the program sent.
func TestProducers(t *testing.T) {
	for _, name := range []string{"python", "rust"} {
		t.Run(name, func(t *testing.T) {
			s, blocks := recorded(t, name, input.Settings{Session: "forecast"})
			for _, run := range s.Runs { // the ids of spans, and of a run without an id, are random
				if name == "python" {
					run.ID = "generated"
				}
			}
			var text strings.Builder
			must.Do(t, inspect.Text(&text, session.Tree{Session: s, Blocks: blocks}, inspect.Options{Width: 120}))
			ndjson.Golden(t, filepath.Join("testdata", "producers", name+".tree"), []byte(text.String()))

			var got []string
			for _, run := range s.Runs {
				for _, turn := range run.Turns {
					for _, q := range turn.Requests {
						payload := inspect.NewRequest(session.Tree{Session: s, Blocks: blocks}, run, turn, q).Payload
						if !payload.Exact {
							t.Errorf("turn %d, attempt %d: not exact", turn.Index, q.Attempt)
						}
						got = append(got, string(payload.Bytes))
					}
				}
			}
			if want := payloads(t, name); len(want) < 2 || !slices.Equal(got, want) {
				t.Errorf("%d requests, want %d, or others", len(got), len(want))
			}
		})
	}
}
