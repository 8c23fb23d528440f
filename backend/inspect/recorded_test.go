package inspect_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
)

// wire takes what would go over OTLP and decodes it.
type wire struct {
	t      *testing.T
	rows   []session.Row
	blocks map[string]*session.BlockSet // by session
}

func (*wire) Start(context.Context) error { return nil }
func (*wire) Stop(context.Context) error  { return nil }

func (w *wire) UploadTraces(_ context.Context, rs []*tracepb.ResourceSpans) error {
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: rs})
	if err != nil {
		w.t.Fatal(err)
	}
	batch, _, err := otlprow.DecodeProto(b)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rows = append(w.rows, batch.Rows...)
	for _, block := range batch.Blocks {
		if w.blocks[block.Session.ID] == nil {
			w.blocks[block.Session.ID] = &session.BlockSet{}
		}
		w.blocks[block.Session.ID].Add(block)
	}
	return nil
}

// recorded returns the trees of a recording, the main session first.
func recorded(t *testing.T, path string, capture otelagent.Capture) []session.Tree {
	t.Helper()
	w := &wire{t: t, blocks: map[string]*session.BlockSet{}}
	exporter, err := otlptrace.New(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithCapture(capture)))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events := phi.Events(f)
	if strings.Contains(path, "/clark/") {
		events = clark.Events(f)
	}
	for ev, err := range events {
		var bad *input.LineError
		switch {
		case errors.As(err, &bad):
			t.Logf("%s: %v", path, bad)
		case err != nil:
			t.Fatal(err)
		default:
			rec.Record(t.Context(), ev)
		}
	}
	rec.Close(t.Context())
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var trees []session.Tree
	for _, s := range session.AssembleAll(w.rows) {
		s.CheckContent(w.blocks[s.ID])
		blocks := w.blocks[s.ID]
		if blocks == nil {
			blocks = &session.BlockSet{}
		}
		trees = append(trees, session.Tree{Session: s, Blocks: blocks})
	}
	if len(trees) == 0 {
		t.Fatalf("%s has no session", path)
	}
	main := 0
	for i, tree := range trees {
		if len(tree.Runs) > 0 && tree.Runs[0].ParentID == "" {
			main = i
		}
	}
	trees[0], trees[main] = trees[main], trees[0]
	return trees
}

// Session and agent ids, times and models of the recordings are fixed, so whole trees are compared.
func TestRecorded(t *testing.T) {
	const demo = "../../cmd/otelagent/demo.ndjson"
	trees := recorded(t, demo, otelagent.CaptureContent)
	o := inspect.Options{Width: 80, Related: trees[1:]}
	golden(t, "demo-80.txt", render(t, trees[0], o))
	o.Width = 200
	golden(t, "demo-200.txt", render(t, trees[0], o))
	o.Width = 80
	o.Run = trees[0].Runs[2]
	o.Turn = o.Run.Turns[0]
	golden(t, "demo-turn.txt", render(t, trees[0], o))
	golden(t, "demo-child.txt", render(t, trees[1], inspect.Options{Width: 80}))

	trees = recorded(t, demo, otelagent.CaptureNone)
	golden(t, "demo-no-content.txt", render(t, trees[0], inspect.Options{Width: 80, Related: trees[1:]}))
}

// A turn that was asked twice, since a reply was cut short, whole: what is new on it is new beside the turn before, not beside the attempt that
// was thrown away.
func TestAskedTwice(t *testing.T) {
	trees := recorded(t, "../../dialects/clark/testdata/sample.events.ndjson", otelagent.CaptureContent)
	run := trees[0].Runs[0]
	turn := run.Turns[1]
	golden(t, "asked-twice-turn.txt", render(t, trees[0], inspect.Options{Width: 80, Run: run, Turn: turn}))
	views := inspect.NewView(trees[0], nil).Turns(0, 3, 100, time.Time{})
	if qs := views[1].Requests; len(qs) != 2 || qs[0].New != 5 || qs[1].New != 5 {
		t.Errorf("requests of the turn: %+v", qs)
	}
	for _, q := range turn.Requests {
		news := 0
		req := inspect.NewRequest(trees[0], run, turn, q)
		for _, m := range req.Messages {
			if *m.New {
				news++
			}
		}
		table := drawn(t, 80, func(w io.Writer) error { return req.Provenance(w, inspect.Options{Width: 80}) })
		if n := strings.Count(table, "  not told  "); n != len(req.Messages) { // clark-agent tells of none where it came from
			t.Errorf("%d of %d messages have no provenance:\n%s", n, len(req.Messages), table)
		}
		if news != 5 {
			t.Errorf("attempt %d: %d messages are new, want 5", q.Attempt, news)
		}
	}
}
