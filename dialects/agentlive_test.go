package dialects_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/gemini"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// TestGeminiFollows reads a log line by line as it grows, with one Decoder: the runs and turns are those of the whole.
func TestGeminiFollows(t *testing.T) {
	file := must(filepath.Glob("gemini/testdata/generated-cli/tmp/ws/chats/*.jsonl"))(t)[0]
	text := must(os.ReadFile(file))(t)
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	d := gemini.NewDecoder(input.Settings{Live: true})
	growing := filepath.Join(t.TempDir(), "session.jsonl")
	for n := range len(text) {
		if text[n] != '\n' && n%997 != 0 {
			continue
		}
		write(t, growing, text[:n+1])
		for ev, err := range d.Read(transcript.File{Path: growing}) {
			must(0, err)(t)
			rec.Record(t.Context(), ev)
		}
	}
	rec.Close(t.Context())
	shape := func(sessions []*session.Session) (list []string) {
		for _, s := range sessions {
			for _, r := range s.Runs {
				list = append(list, r.ID)
				for _, turn := range r.Turns {
					list = append(list, turn.ResponseID)
					for _, c := range turn.ToolCalls {
						list = append(list, c.ID+" "+string(c.Outcome))
					}
				}
			}
		}
		return list
	}
	whole := transcript.Family{Files: []transcript.File{{Path: file}}}
	want := shape(geminiCLI.record(t, otelagent.CaptureContent, whole).Sessions())
	got := shape(p.Sessions())
	n := len(want) - 1 // the last reply may still grow
	if diff := cmp.Diff(want[:n], got[:min(n, len(got))]); diff != "" || n < 10 {
		t.Errorf("(-whole +followed)\n%s", diff)
	}
}
