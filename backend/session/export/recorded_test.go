package export_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
)

// replayed plays events of phi-core and returns the sessions.
func replayed(t *testing.T, events []byte, capture otelagent.Capture) []export.Recorded {
	t.Helper()
	return recorded(t, phi.NewDecoder().Events(bytes.NewReader(events)), capture)
}

func arrived(t *testing.T, p *agenttest.Pipeline) []export.Recorded {
	t.Helper()
	batch := p.Batch()
	var l []export.Recorded
	for _, s := range p.Sessions() {
		r := export.Recorded{session.Tree{Session: s, Blocks: &session.BlockSet{}}}
		for _, b := range batch.Blocks {
			if b.Session.ID == s.ID {
				r.Blocks.Add(b)
			}
		}
		l = append(l, r)
	}
	return l
}

// everyRecording calls check with the sessions of each recording of each dialect.
func everyRecording(t *testing.T, check func(t *testing.T, name string, sessions []export.Recorded)) {
	t.Helper()
	for _, f := range phifixtures.All(t, "../../..") {
		t.Run(f.String(), func(t *testing.T) { check(t, f.String(), replayed(t, f.Events, otelagent.CaptureContent)) })
	}
	for pattern, name := range map[string]string{
		"acp/testdata/*.ndjson": acp.Dialect, "acp/testdata/sdk/*.ndjson": acp.Dialect,
		"clark/testdata/golden/*.ndjson": ndjson.Dialect, "clark/testdata/sample.events.ndjson": clark.Dialect,
		"clark/testdata/clark-agent-*/*.ndjson": clark.Dialect, "guide/testdata/*.json*": guide.Dialect,
	} {
		dialect, _ := dialects.Named(name)
		files, err := filepath.Glob("../../../dialects/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			name := filepath.ToSlash(strings.TrimPrefix(file, "../../../dialects/"))
			if strings.Contains(name, "trajectory") || strings.HasSuffix(name, ".golden") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				good := func(yield func(event.Event, error) bool) {
					for ev, err := range dialect.New().Events(bytes.NewReader(readFile(t, file))) {
						if err == nil && !yield(ev, nil) { // the reader's own tests have the bad lines
							return
						}
					}
				}
				check(t, name, recorded(t, good, otelagent.CaptureContent))
			})
		}
	}
}

// TestGuideRowsOfEveryRecording checks the rules that hold for every session of every dialect: the order of the guide,
// ids, contiguous indexes, hoisted columns, JSON and JSONL alike, the sums of CSV, a part for each tool call, and that
// an export which is imported gives the same export.
func TestGuideRowsOfEveryRecording(t *testing.T) {
	t.Parallel()
	everyRecording(t, func(t *testing.T, name string, sessions []export.Recorded) {
		for _, s := range sessions {
			if strings.HasPrefix(name, "guide/") {
				continue // TestProducersRowsComeBack
			}
			l := checkRows(t, &s)
			if _, err := export.PhiCore(io.Discard, s.Tree,
				export.Options{Partial: true}); err != nil && !errors.Is(err, export.ErrEmpty) {
				t.Error(err) // the oracle has the ledgers
			}
			if !strings.Contains(name, "strangers") { // which share a sink and an id
				checkCalls(t, &s, l)
			}
			if strings.HasPrefix(name, "0.15.2/") || strings.Contains(name, "testdata/") {
				checkImport(t, &s)
			}
		}
	})
}

func checkRows(t *testing.T, s *export.Recorded) []export.Line {
	t.Helper()
	raw := s.Write(t, export.JSONL, export.Options{})
	l := export.LinesOf(t, raw)
	export.CheckOrder(t, l)
	export.CheckSums(t, s.Session, s.Write(t, export.CSV, export.Options{}))
	if again := s.Write(t, export.JSONL, export.Options{}); !bytes.Equal(raw, again) {
		t.Error("a second export differs")
	}
	return l
}

// checkImport imports both forms of an export and exports the session again.
func checkImport(t *testing.T, s *export.Recorded) {
	t.Helper()
	lines, document := s.Write(t, export.JSONL, export.Options{}), s.Write(t, export.JSON, export.Options{})
	for _, file := range [][]byte{lines, document} {
		back := imported(t, file)
		if len(back) != 1 {
			t.Fatalf("session %s: %d sessions came back", s.ID, len(back))
		}
		same := func(what string, want, got []byte) {
			if d := gocmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("session %s: %s: -want +got:\n%s", s.ID, what, d)
			}
		}
		same("lines", lines, back[0].Write(t, export.JSONL, export.Options{}))
		same("document", document, back[0].Write(t, export.JSON, export.Options{}))
	}
}

// checkCalls checks that every tool call of the tree has a part.
func checkCalls(t *testing.T, s *export.Recorded, l []export.Line) {
	t.Helper()
	parts := map[string]int{}
	for i := range l {
		if typ := l[i].Str("type"); l[i].Type == "part" && (strings.HasPrefix(typ, "tool-") || typ == "dynamic-tool") {
			parts[l[i].Str("tool_call_id")]++
		}
	}
	for _, r := range s.Runs {
		for c := range r.Calls() {
			if parts[c.ID]--; parts[c.ID] < 0 {
				t.Errorf("session %s: call %q has no part", s.ID, c.ID)
			}
		}
	}
}

// The session row of a sub-agent names the message of its parent that holds the call.
func TestGuideNamesTheParentsMessage(t *testing.T) {
	for _, f := range phifixtures.All(t, "../../..") {
		if f.String() != "0.15.2/sub-agent-host-wired" {
			continue
		}
		all := replayed(t, f.Events, otelagent.CaptureContent)
		parent, child := all[0], all[1]
		opts := export.Options{
			Session: func(string) *session.Session { return parent.Session },
			CallMessage: func(_, call string) string {
				id, err := export.CallMessage(parent.Tree, call)
				if err != nil {
					t.Error(err)
				}
				return id
			},
		}
		row := export.LinesOf(t, child.Write(t, export.JSONL, opts))[0]
		lines := export.LinesOf(t, parent.Write(t, export.JSONL, opts))
		calls := func(l export.Line) bool {
			return l.Type == "part" && l.Str("tool_call_id") != "" && l.Str("message_id") == row.Str("parent_message_id")
		}
		if row.Str("parent_id") != parent.ID || !slices.ContainsFunc(lines, calls) ||
			lines[0].Str("parent_message_id") != "" {
			t.Errorf("%v", row.Data)
		}
	}
}

// Without capture there are rows, and no texts; what is not there is said.
func TestGuideWithoutContent(t *testing.T) {
	for _, f := range phifixtures.All(t, "../../..") {
		if f.String() != "0.15.2/parallel-tools-one-error" {
			continue
		}
		for _, capture := range []otelagent.Capture{otelagent.CaptureNone, otelagent.CaptureDigests} {
			s := replayed(t, f.Events, capture)[0]
			var out bytes.Buffer
			missing, err := export.JSONL(&out, s.Tree, export.Options{})
			if err != nil || len(missing) != 1 || !strings.Contains(missing[0].What, "captured with") {
				t.Errorf("%v, %v", missing, err)
			}
			var types []string
			for _, l := range export.LinesOf(t, out.Bytes()) {
				if l.Type == "part" {
					types = append(types, l.Str("type")+" "+l.Str("tool_state"))
				}
			}
			if d := gocmp.Diff([]string{
				"step-start ", "tool-read_tide_table output-available", "tool-inspect_crane output-error",
				"tool-query_customs output-available", "step-start ",
			}, types); d != "" {
				t.Errorf("capture %v: %s", capture, d)
			}
		}
	}
}
