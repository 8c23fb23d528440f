package inspect_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// recorded returns the trees of a recording, the main session first.
func recorded(t *testing.T, path string, capture otelagent.Capture) []session.Tree {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture))
	rec := event.NewRecorder(p.Tracer())
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	play(t, rec, f, strings.Contains(path, "/clark/"))
	rec.Close(t.Context())
	trees := treesOf(p.Batch())
	for i, tree := range trees {
		if tree.CheckContent(tree.Blocks); len(tree.Runs) > 0 && tree.Runs[0].ParentID == "" {
			trees[0], trees[i] = trees[i], trees[0]
		}
	}
	return trees
}

// play records the events of a stream; it skips lines that are none.
func play(t *testing.T, rec *event.Recorder, r io.Reader, isClark bool, opts ...input.Settings) {
	events := phi.NewDecoder(opts...).Events(r)
	if isClark {
		events = clark.NewDecoder(opts...).Events(r)
	}
	for ev, err := range events {
		var bad *input.LineError
		switch {
		case err == nil:
			rec.Record(context.WithoutCancel(t.Context()), ev)
		case !errors.As(err, &bad):
			t.Error(err)
			return
		}
	}
}

// treesOf returns the sessions of a batch with their blocks.
func treesOf(batch session.Batch) (trees []session.Tree) {
	for _, s := range session.AssembleAll(batch.Rows) {
		blocks := &session.BlockSet{}
		for _, b := range batch.Blocks {
			if b.Session.ID == s.ID {
				blocks.Add(b)
			}
		}
		trees = append(trees, session.Tree{Session: s, Blocks: blocks})
	}
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

// A turn of two attempts, whole: messages are new compared with the turn before, not with the discarded attempt.
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
		narrow := drawn(t, 40, func(w io.Writer) error { return req.Provenance(w, inspect.Options{Width: 40}) })
		if n := strings.Count(narrow, "  not stated  "); n != len(req.Messages) {
			t.Errorf("%d of %d messages have no provenance:\n%s", n, len(req.Messages), narrow)
		}
		table := drawn(t, 80, func(w io.Writer) error { return req.Provenance(w, inspect.Options{Width: 80}) })
		if n := strings.Count(table, "  not stated  "); n != len(req.Messages) { // clark-agent states none
			t.Errorf("%d of %d messages have no provenance:\n%s", n, len(req.Messages), table)
		}
		if news != 5 {
			t.Errorf("attempt %d: %d messages are new, want 5", q.Attempt, news)
		}
	}
}
