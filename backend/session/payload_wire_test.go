package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// Every request of every recording comes back byte for byte.
func TestRequestsComeBack(t *testing.T) {
	requests := 0
	for _, f := range phifixtures.All(t, "../..") {
		t.Run(f.String(), func(t *testing.T) {
			want, got := map[string][]string{}, map[string][]string{}
			for line := range bytes.Lines(f.Events) {
				var e struct {
					Type      string          `json:"type"`
					LoopID    string          `json:"loop_id"`
					TurnIndex int64           `json:"turn_index"`
					Payload   json.RawMessage `json:"payload"`
				}
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatal(err)
				}
				if e.Type == "TurnRequest" {
					key := fmt.Sprint(e.LoopID, "/", e.TurnIndex)
					want[key] = append(want[key], string(e.Payload))
					requests++
				}
			}
			batch := send(t, bytes.NewReader(f.Events)).Batch()
			for _, s := range session.AssembleAll(batch.Rows) {
				var blocks session.BlockSet
				for _, b := range batch.Blocks {
					if b.Session.ID == s.ID {
						blocks.Add(b)
					}
				}
				for n := range s.Walk() {
					if n.Kind() != session.KindTurn {
						continue
					}
					for _, q := range n.Turn.Requests {
						key := fmt.Sprint(n.Run.ID, "/", n.Turn.Index)
						p := q.Payload(&blocks)
						got[key] = append(got[key], string(p.Bytes))
						if !p.Exact {
							t.Errorf("%s: %+v", key, p)
						}
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-emitted +read:\n%s", diff)
			}
		})
	}
	if requests == 0 {
		t.Error("no recording has a request")
	}
}

func send(t *testing.T, events io.Reader) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, writer.WithDerivedIDs, otelagent.WithCapture(otelagent.CaptureContent))
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
