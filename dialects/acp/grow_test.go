package acp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	tree "github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// TestSentAgainAfterItGrew sends the beginnings of a capture, and then all of it, twice: the trees are those of sending
// it once.
func TestSentAgainAfterItGrew(t *testing.T) {
	files, err := filepath.Glob("testdata/sdk/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "testdata/sample.ndjson", "testdata/sample.raw.ndjson") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
			p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
			send := func(n int) []tree.Row {
				before := len(p.Batch().Rows)
				rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent),
					writer.WithDerivedIDs,
					otelagent.WithTracerProvider(p.Provider())))
				for ev, err := range Events(strings.NewReader(strings.Join(lines[:n], ""))) {
					if err != nil {
						t.Fatal(err)
					}
					rec.Record(context.Background(), ev)
				}
				rec.Close(context.Background())
				return p.Batch().Rows[before:]
			}
			once := send(len(lines))
			want := trees(t, once)
			rows := once
			steps := 6
			for i := range steps {
				rows = append(rows, send(len(lines)*(i+1)/steps)...)
			}
			if diff := gocmp.Diff(want, trees(t, rows)); diff != "" {
				t.Errorf("(-once +again and again):\n%s", diff)
			}
		})
	}
}

func trees(t *testing.T, rows []tree.Row) string {
	t.Helper()
	b, err := json.MarshalIndent(tree.AssembleAll(rows), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMessage reads a wire of which direction and times are known, as a proxy on it does.
func TestMessage(t *testing.T) {
	start := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	d := NewDecoder(input.WithLive())
	var wait time.Duration
	var first time.Time
	n := int64(0)
	for _, m := range []struct {
		dir  Direction
		text string
	}{
		{ToAgent, `{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`},
		{ToClient, `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s",` +
			`"toolCall":{"toolCallId":"c"},"options":[]}}`},
		{ToAgent, `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}`},
		{ToClient, `not a message`},
		{ToClient, `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"of the prompt, though both had the id 0"}}`},
	} {
		n++
		ended := false
		for ev, err := range d.Message(input.Line{Text: []byte(m.text), Number: n,
			Arrived: start.Add(time.Duration(n) * time.Second)}, m.dir) {
			switch e := ev.(type) {
			case *event.RunStarted:
				first = e.Arrived
			case *event.PermissionEvaluated:
				wait = e.Wait
			case *event.RunEnded:
				ended = true
			case *event.DefectFound:
				t.Errorf("defect %s", e.Detail)
			}
			if (err != nil) != (n == 4) {
				t.Errorf("message %d: %v", n, err)
			}
		}
		if ended != (n == 5) {
			t.Errorf("message %d: ended %v", n, ended)
		}
	}
	if wait != time.Second || !first.Equal(start.Add(time.Second)) {
		t.Errorf("waited %s, began %s", wait, first)
	}
	if s := d.Stats(); s.Lines != 5 || s.Events != 4 || s.Rejected != 1 {
		t.Errorf("%+v", s)
	}
}
