package otelagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/phi"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// TestListsAddUp checks of every fixture what a reader relies on: each list has the count and digest it states, each block that it
// names is sent, and no block twice.
func TestListsAddUp(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".events.ndjson"), func(t *testing.T) {
			checkLists(t, playFixture(t, file, otelagent.WithCapture(otelagent.CaptureContent)).Batch())
		})
	}
}

func fixtures(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return files
}

func playFixture(t *testing.T, file string, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := agenttest.New(t, opts...)
	rec := otelagent.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(in) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	return p
}

func checkLists(t *testing.T, b session.Batch) {
	t.Helper()
	type key struct {
		session string
		id      spans.ShortID
	}
	sent := map[key]spans.BlockID{}
	for _, block := range b.Blocks {
		k := key{block.Session.ID, block.ID.Short()}
		if _, twice := sent[k]; twice {
			t.Errorf("block %s was sent twice: %.80s", block.ID, block.Body)
		}
		sent[k] = block.ID
	}
	for _, row := range b.Rows {
		for _, l := range row.Lists {
			var digest spans.Chain
			for _, s := range l.Items {
				it, err := spans.ParseItem(s)
				if err != nil {
					t.Fatal(err)
				}
				id, ok := sent[key{row.Session.ID, it.Block}]
				if !ok {
					t.Errorf("%s %s: block %s was not sent", row.Kind, l.Name, it.Block)
				}
				digest = digest.Add(id, it)
			}
			if digest.String() != l.Digest || int64(len(l.Items)) != l.Count || l.Prefix != "" {
				t.Errorf("%s %s: count %d and digest %s do not fit", row.Kind, l.Name, l.Count, l.Digest)
			}
		}
		for _, e := range row.Events {
			if e.Body == "" {
				continue
			}
			id, err := spans.ParseShortID(e.Body)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := sent[key{row.Session.ID, id}]; !ok {
				t.Errorf("%s event %s: body %s was not sent", row.Kind, e.Type, e.Body)
			}
		}
	}
}

// TestTwoSpellingsAreOneBlock: events and payloads of phi-core hold the same message with keys in another order.
func TestTwoSpellingsAreOneBlock(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	envelope := []string{"turnId"}
	turn.AddInput(otelagent.Message{Raw: []byte(`{"content":[{"text":"hi","type":"text"}],"role":"user","turnId":{"t":0}}`), Envelope: envelope})
	turn.Request(otelagent.Request{Messages: []otelagent.Message{
		{Raw: []byte(`{"role": "user", "content": [{"type": "text", "text": "hi"}]}`), Envelope: envelope},
		{Raw: []byte("{\"role\":\"user\",\"content\":\"not \xff UTF-8\"}")},
		{Raw: []byte(`not JSON`)},
	}})
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	b := p.Batch()
	checkLists(t, b)
	var got []string
	for _, block := range b.Blocks {
		got = append(got, block.Body)
	}
	want := "{\"content\":[{\"text\":\"hi\",\"type\":\"text\"}],\"role\":\"user\"}|{\"content\":\"not \uFFFD UTF-8\",\"role\":\"user\"}|not JSON"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("blocks %s, want %s", s, want)
	}
}

// TestForgettingCostsAResend: with a small memory blocks are sent again, and nothing is missing.
func TestForgettingCostsAResend(t *testing.T) {
	const n = 50
	count := func(limit int) int {
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithMaxBlockIDs(limit))
		for range 3 {
			for s := range 4 {
				ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: fmt.Sprint("s", s)})
				_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
				for i := range n {
					turn.AddInput(otelagent.Message{Raw: fmt.Appendf(nil, `{"n":%d}`, i)})
				}
				turn.End(otelagent.TurnResult{})
				run.End(otelagent.RunResult{})
			}
		}
		return len(p.Batch().Blocks)
	}
	if got := count(1 << 12); got != 4*n {
		t.Errorf("%d blocks sent, want each once: %d", got, 4*n)
	}
	if got := count(20); got <= 4*n {
		t.Errorf("%d blocks sent with room for 20 ids", got)
	}
}

// More messages than a list takes are counted, and the reader says that the list is not whole.
func TestTooManyMessagesAreToldOf(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	const told = 4096 + 3
	for i := range told {
		turn.AddInput(otelagent.Message{Raw: fmt.Appendf(nil, `{"role":"user","n":%d}`, i)})
	}
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})

	got := p.Session().Runs[0].Turns[0]
	if got.Input.Count != told || len(got.Input.Items()) != 4096 {
		t.Errorf("%d items of a list of %d", len(got.Input.Items()), got.Input.Count)
	}
	if len(got.Defects) != 1 || got.Defects[0].Code != spans.DefectListBroken {
		t.Errorf("defects %+v, want one list_broken", got.Defects)
	}
}
