package adapter_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestListsAddUp checks of every fixture what a reader relies on: each list has the count and digest it states, each block that it
// names is sent, and no block twice.
func TestListsAddUp(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".events.ndjson"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, exp := collect(t)
			playInto(t, p, raw, otelagent.WithCapture(otelagent.CaptureContent))
			checkLists(t, readWire(t, exp.GetSpans()))
		})
	}
}

func checkLists(t *testing.T, w *wire) {
	t.Helper()
	for b, n := range w.sent {
		if n > 1 {
			t.Errorf("block %s was sent %d times: %.80s", b.id, n, w.bodies[b.id])
		}
	}
	for i := range w.lists {
		if _, _, err := w.read(&w.lists[i]); err != nil {
			t.Errorf("list %s of turn %d: %v", w.lists[i].Name, w.lists[i].turn, err)
		}
	}
	for _, id := range w.notes {
		if _, ok := w.body(id); !ok {
			t.Errorf("the body %s of an event was not sent", id)
		}
	}
}

func fixtures(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../dialects/phi/testdata/phi-core-*/*.events.ndjson")
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
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(in) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	return p
}

// A text is sent once, however the messages around it are spelled.
func TestTwoSpellingsShareTheirTexts(t *testing.T) {
	p, exp := collect(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithTracerProvider(p), func(c *writer.Config) { c.PreviewBytes = -1 }))
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	text := strings.Repeat("the same text ", 4)
	turn.AddInput(writer.Message{Raw: []byte(`{"content":[{"text":"` + text + `","type":"text"}],"role":"user","turnId":{"t":0}}`)})
	turn.Request(writer.Request{Messages: []writer.Message{
		{Raw: []byte(`{"role": "user", "content": [{"type": "text", "text": "` + text + `"}]}`)},
		{Raw: []byte("{\"role\":\"user\",\"content\":\"not \xff UTF-8\"}")},
		{Raw: []byte(`not JSON`)},
	}})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	w := readWire(t, exp.GetSpans())
	checkLists(t, w)
	if n := strings.Count(fmt.Sprintf("%v", exp.GetSpans()), text); n != 1 {
		t.Errorf("the text was sent %d times", n)
	}
	for _, body := range []string{`"not JSON"`, "{\"role\":\"user\",\"content\":\"not \uFFFD UTF-8\"}", `{"role": "user", "content": [{"type": "text", "text": "` + text + `"}]}`} {
		if !w.holds(body) {
			t.Errorf("%s did not arrive", body)
		}
	}
}

// TestForgettingCostsAResend: with a small memory blocks are sent again, and nothing is missing.
func TestForgettingCostsAResend(t *testing.T) {
	const n = 50
	count := func(limit int) int {
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), func(c *writer.Config) { c.MaxBlockIDs = limit })
		for range 3 {
			for s := range 4 {
				ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: fmt.Sprint("s", s)})
				_, turn := run.StartTurn(ctx, writer.TurnInfo{})
				for i := range n {
					turn.AddInput(writer.Message{Raw: fmt.Appendf(nil, `{"n":%d}`, i)})
				}
				turn.End(writer.TurnResult{})
				run.End(writer.RunResult{})
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
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	const recorded = 4096 + 3
	for i := range recorded {
		turn.AddInput(writer.Message{Raw: fmt.Appendf(nil, `{"role":"user","n":%d}`, i)})
	}
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})

	got := p.Session().Runs[0].Turns[0]
	if got.Input.Count != recorded || len(got.Input.Items()) != 4096 {
		t.Errorf("%d items of a list of %d", len(got.Input.Items()), got.Input.Count)
	}
	if len(got.Defects) != 1 || got.Defects[0].Code != spans.DefectListBroken {
		t.Errorf("defects %+v, want one list_broken", got.Defects)
	}
}
