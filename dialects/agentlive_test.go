package dialects_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestAgentsFollow reads each file of lines as it grows, with one Decoder, until it grows no more: the turns that ended
// are those of the whole, with their calls.
func TestAgentsFollow(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		for _, file := range a.files(t) {
			if filepath.Ext(file.Path) != ".jsonl" || file.Part {
				continue
			}
			p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
			rec, d := event.NewRecorder(p.Tracer()), a.new(input.Settings{Live: true})
			live := file
			live.Path = filepath.Join(t.TempDir(), strings.TrimPrefix(file.Path, a.folder))
			for _, text := range growing(t, file.Path) {
				write(t, live.Path, text)
				for ev, err := range d.Read(live) {
					if err == nil {
						rec.Record(t.Context(), ev)
					} else if !errors.As(err, new(*input.LineError)) {
						t.Fatal(err)
					}
				}
			}
			for ev, err := range d.Rest() {
				must.Do(t, err)
				rec.Record(t.Context(), ev)
			}
			rec.Close(t.Context())
			whole := a.record(t, otelagent.CaptureContent, transcript.Family{Files: []transcript.File{file}})
			if diff := cmp.Diff(turnsOf(whole.Sessions()), turnsOf(p.Sessions())); diff != "" || rec.Lost() > 0 {
				t.Errorf("%s (-whole +followed)\n%s\n%d events lost", file.Path, diff, rec.Lost())
			}
		}
	}
}

// turnsOf returns usage and tools of the turns whose end was seen, by their places.
func turnsOf(sessions []*session.Session) map[string]string {
	found := map[string]string{}
	for _, s := range sessions {
		for n := range s.Walk() {
			if n.Kind() != session.KindTurn || n.Turn.Known == spans.KnownClosed {
				continue
			}
			text := fmt.Sprintf("%s %+v", n.Turn.ResponseID, n.Turn.Usage)
			for _, c := range n.Turn.ToolCalls {
				text += " " + c.Name + " " + string(c.Outcome)
			}
			found[fmt.Sprint(s.ID, " ", n.Run.ID, " ", n.Turn.Index)] = text
		}
	}
	return found
}
