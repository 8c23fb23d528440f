package session_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// emitted returns the requests in an event stream: the payload of each turn, by run and index.
func emitted(t *testing.T, events io.Reader) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"TurnRequest"`)) {
			continue
		}
		var e struct {
			Type      string          `json:"type"`
			LoopID    string          `json:"loop_id"`
			TurnIndex int64           `json:"turn_index"`
			Payload   json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "TurnRequest" {
			key := fmt.Sprint(e.LoopID, "/", e.TurnIndex)
			out[key] = append(out[key], string(e.Payload))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// read returns the requests of what arrived: their bytes, or what is missing.
func read(t *testing.T, batch session.Batch) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, s := range session.AssembleAll(batch.Rows) {
		var blocks session.BlockSet
		for _, b := range batch.Blocks {
			if b.Session.ID == s.ID {
				blocks.Add(b)
			}
		}
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				key := fmt.Sprint(r.ID, "/", turn.Index)
				for _, q := range turn.Requests {
					p := q.Payload(&blocks)
					if text := string(p.Bytes); p.Exact {
						out[key] = append(out[key], text)
					} else {
						out[key] = append(out[key], fmt.Sprintf("%+v", p))
					}
				}
			}
		}
	}
	return out
}

func send(t *testing.T, events io.Reader, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, append([]otelagent.Option{writer.WithDerivedIDs,
		otelagent.WithCapture(otelagent.CaptureContent)}, opts...)...)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(events) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return p
}

// What the loop emitted comes back byte for byte, for every request of every recording.
func TestRequestsComeBack(t *testing.T) {
	requests := 0
	for _, f := range phifixtures.All(t, "../..") {
		t.Run(f.String(), func(t *testing.T) {
			want := emitted(t, bytes.NewReader(f.Events))
			for _, l := range want {
				requests += len(l)
			}
			if diff := cmp.Diff(want, read(t, send(t, bytes.NewReader(f.Events)).Batch())); diff != "" {
				t.Errorf("-emitted +read:\n%s", diff)
			}
		})
	}
	if requests == 0 {
		t.Error("no recording has a request")
	}
}

// Of a long session likewise. When spans and blocks are lost, what comes back is what the loop emitted, or is named
// and nothing.
func TestRequestsOfALongSession(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
	events := phifixtures.Long(t, "../..", "long-mixed")
	want := emitted(t, events)
	_ = events.Close()
	events = phifixtures.Long(t, "../..", "long-mixed")
	all := send(t, events).Batch()
	_ = events.Close()
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 3))
		batch := session.Batch{Rows: slices.Clone(all.Rows), Blocks: slices.Clone(all.Blocks)}
		if seed > 0 {
			batch.Rows = slices.DeleteFunc(batch.Rows, func(session.Row) bool { return random.IntN(20) == 0 })
			batch.Blocks = slices.DeleteFunc(batch.Blocks,
				func(session.Block) bool { return random.IntN(400*int(seed)) == 0 })
		}
		exact, nothing := 0, 0
		for key, l := range read(t, batch) {
			for i, text := range l {
				switch {
				case slices.Contains(want[key], text):
					exact++
				case strings.HasPrefix(text, "{Bytes:[] Exact:false") && (strings.Contains(text, "Part:") ||
					strings.Contains(text, "list_")):
					nothing++
				default:
					t.Fatalf("%s, attempt %d: %.300s", key, i, text)
				}
			}
		}
		if seed == 0 && (exact < len(want) || nothing > 0) || exact == 0 {
			t.Errorf("seed %d: of %d requests %d come back, %d have something missing", seed, len(want), exact, nothing)
		}
		t.Logf("seed %d: of %d requests %d come back, %d have something missing", seed, len(want), exact, nothing)
	}
}
