package dialects_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// transcriptSums are the counts of a session that must not depend on how its file is spelled.
type transcriptSums struct {
	Session     string
	Runs, Turns int
	Calls       int
	Usage       session.Usage
}

// sumsOf reads a transcript and returns its counts, and how many lines were rejected.
func sumsOf(t *testing.T, name string, text []byte) (sums []transcriptSums, rejected int) {
	t.Helper()
	d, _ := dialects.Named(name)
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	rejected = play.Lines(t, event.NewRecorder(p.Tracer()), d.New().Events(bytes.NewReader(text)))
	for _, s := range p.Sessions() {
		one := transcriptSums{Session: s.ID, Runs: len(s.Runs), Usage: s.Usage}
		for _, r := range s.Runs {
			one.Turns += len(r.Turns)
			for range r.Calls() {
				one.Calls++
			}
		}
		sums = append(sums, one)
	}
	return sums, rejected
}

// TestTranscriptsSpelledOtherwise reads a sample of each agent that is kept as lines with other line ends, a byte order
// mark, blank lines, a hostile line, records of the future, and all of it twice: the sums are the same, and what is not
// read is reported.
func TestTranscriptsSpelledOtherwise(t *testing.T) {
	for path, name := range map[string]string{
		"claudecode/testdata/agtrace/claude_session.jsonl": "claude-code",
		"codex/testdata/generated/sessions/2026/11/22/" +
			"rollout-2026-11-22T11-08-14-01a202f1-3e87-79c1-8b33-e728850da6a5.jsonl": "codex",
		"gemini/testdata/generated-acp/tmp/ws/chats/session-2026-11-22T11-08-270c3408.jsonl": "gemini-cli",
		"pi/testdata/made/2026-01-01T10-00-00-000Z_parent.jsonl":                             "pi",
	} {
		text := must.Get(os.ReadFile(path))(t)
		want, _ := sumsOf(t, name, text)
		if len(want) == 0 || want[0].Turns == 0 {
			t.Fatalf("%s: %+v", path, want)
		}
		future := []byte(`{"type":"from-2031","id":"f","uuid":"f","timestamp":"2026-11-22T11:08:15Z","sessionId":"` +
			want[0].Session + `","payload":{"type":"news","x":[1]},"data":{"y":null}}` + "\n")
		each := func(change func(line []byte) []byte) []byte {
			var out []byte
			for line := range bytes.Lines(text) {
				out = append(out, change(line)...)
			}
			return out
		}
		deep := append(bytes.Repeat([]byte(`{"type":`), 5000), '\n')
		for how, of := range map[string]struct {
			text     []byte
			rejected bool
		}{
			"CRLF": {bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), false},
			"BOM":  {append([]byte("\xEF\xBB\xBF"), text...), false},
			"blank": {each(func(line []byte) []byte { return append(append([]byte("\n \r\n"), line...), '\n') }),
				false},
			"deep":   {append(bytes.Clone(text), deep...), true},
			"future": {append(bytes.Clone(text), bytes.Repeat(future, 3)...), false},
			"no end": {bytes.TrimSuffix(text, []byte("\n")), false},
		} {
			got, rejected := sumsOf(t, name, of.text)
			if diff := cmp.Diff(want, got); diff != "" || rejected > 0 != of.rejected {
				t.Errorf("%s, %s: %d rejected (-want +got)\n%s", name, how, rejected, diff)
			}
		}
		twice, _ := sumsOf(t, name, append(bytes.Clone(text), text...))
		if diff := cmp.Diff(want, twice); diff != "" {
			t.Errorf("%s, twice (-want +got)\n%s", name, diff)
		}
		if got, _ := sumsOf(t, name, nil); got != nil {
			t.Errorf("%s, empty: %+v", name, got)
		}
	}
}
