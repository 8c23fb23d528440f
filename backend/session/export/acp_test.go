package export_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// recorded records events and returns the sessions.
func recorded(t *testing.T, events iter.Seq2[event.Event, error], capture otelagent.Capture) []export.Recorded {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture), writer.WithDerivedIDs)
	play.Events(t, event.NewRecorder(p.Tracer()), events)
	return arrived(t, p)
}

func asTrace(t *testing.T, s *export.Recorded, opts export.Options) (trace []byte, missing []export.Missing) {
	t.Helper()
	var out bytes.Buffer
	missing, err := export.ACP(&out, s.Tree, opts)
	if err != nil {
		t.Fatalf("session %s: %v", s.ID, err)
	}
	return out.Bytes(), missing
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw := must.Get(os.ReadFile(name))(t)
	return raw
}

// traced is a line of a trace.
type traced struct {
	TS        time.Time
	Direction string
	Message   struct {
		ID     *int64
		Method string
		Params struct {
			SessionID string
			Update    struct {
				SessionUpdate, ToolCallID, Status string
			}
			Meta struct {
				Otelagent struct{ Reconstructed bool }
			} `json:"_meta"`
		}
		Result, Error json.RawMessage
	}
}

// checkTrace holds what every trace must hold: ids from 0 on each side, responses to requests, the mark, and no call
// that goes back in its states.
func checkTrace(t *testing.T, raw []byte) []traced {
	t.Helper()
	var l []traced
	next := map[string]int64{}
	open := map[string]map[int64]bool{"client_to_agent": {}, "agent_to_client": {}}
	back := map[string]string{"client_to_agent": "agent_to_client", "agent_to_client": "client_to_agent"}
	over, replays := map[string]bool{}, false
	for i, line := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
		var m traced
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		l = append(l, m)
		switch id := m.Message.ID; {
		case m.Message.Method == "":
			if id == nil || !open[back[m.Direction]][*id] {
				t.Errorf("line %d: there is no request", i+1)
				continue
			}
			delete(open[back[m.Direction]], *id)
		case id != nil:
			if *id != next[m.Direction] {
				t.Errorf("line %d: id %d, want %d", i+1, *id, next[m.Direction])
			}
			next[m.Direction]++
			open[m.Direction][*id] = true
		}
		switch m.Message.Method {
		case "session/load":
			replays = true
		case "session/prompt":
			replays = false
			clear(over) // ids may be used again
		}
		if u := m.Message.Params.Update; u.ToolCallID != "" && !replays {
			if over[u.ToolCallID] {
				t.Errorf("line %d: %s goes on after its end", i+1, u.ToolCallID)
			}
			over[u.ToolCallID] = u.Status == "completed" || u.Status == "failed"
		}
	}
	if l[0].Message.Method != "initialize" || !l[0].Message.Params.Meta.Otelagent.Reconstructed {
		t.Error("the first message does not say that this is a reconstruction")
	}
	return l
}

// unlike are members of a tree that a round trip changes: names of the wire, and ids that it numbers.
var unlike = []string{"seq", "end_seq", "trace_id", "span_id", "parent_id", "service", "otelagent"}

// linesOf returns the tree of a session, a value a line with its path, and bodies in place of the names of blocks.
func linesOf(t *testing.T, s *export.Recorded) []string {
	t.Helper()
	raw := must.Get(json.Marshal(s.Session))(t)
	var l []string
	var put func(path string, v any)
	put = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				if id, ok := x.(string); ok && key == "block" {
					body, _ := s.Blocks.Body(session.Ref{Block: id})
					var inner any
					if json.Unmarshal([]byte(body), &inner) != nil {
						inner = body
					}
					put(path, inner)
				} else if !slices.Contains(unlike, key) {
					put(path+"."+key, x)
				}
			}
		case []any:
			for i, x := range v {
				name := any(i)
				if o, _ := x.(map[string]any); strings.HasSuffix(path, ".events") || strings.HasSuffix(path, ".facts") {
					name = cmp.Or(o["type"], o["key"])
				}
				put(fmt.Sprintf("%s[%v]", path, name), x)
			}
		default:
			isNumbered := strings.HasSuffix(path, ".body.id") || strings.HasPrefix(fmt.Sprint(v), "prompt-")
			if !isNumbered {
				l = append(l, fmt.Sprintf("%s: %v", path, v))
			}
		}
	}
	var tree any
	must.Do(t, json.Unmarshal(raw, &tree))
	put("", tree)
	slices.Sort(l)
	return l
}

// golden names the trace in testdata/acp, of a recording; `make interop-acp` validates and plays these.
func golden(recording string) string {
	name := map[string]string{"guide/testdata/session.jsonl": "guide",
		"clark/testdata/sample.events.ndjson": "clark-agent", "acp/testdata/sample.ndjson": "acp"}[recording]
	if scenario, ok := strings.CutPrefix(recording, "0.15.2/"); ok {
		name = "phi-core." + scenario
	}
	if _, err := os.Stat(filepath.Join("testdata/acp", name+".ndjson")); err != nil {
		return ""
	}
	return name
}

// acpLeft are the part types that ACP has no place for, by recording; those of others are not looked at.
var acpLeft = map[string]string{"0.15.2/extension-message-and-image": "data-extension (1)",
	"guide/testdata/session.jsonl": "data-chart (1)", "clark/testdata/sample.events.ndjson": "data-reasoning_details (1)"}

// Every recording gives a trace that is read back: one session, with as many calls. The list of missing content names
// what was left out.
func TestACPOfEveryRecording(t *testing.T) {
	t.Parallel()
	everyRecording(t, func(t *testing.T, name string, sessions []export.Recorded) {
		if strings.HasPrefix(name, "acp/") && name != "acp/testdata/sample.ndjson" {
			return // TestACPRoundTrip
		}
		for i := range sessions {
			s := &sessions[i]
			trace, missing := asTrace(t, s, export.Options{})
			lines := checkTrace(t, trace)
			if file := golden(name); file != "" {
				if i > 0 {
					file += "." + string(rune('a'+i))
				}
				export.Golden(t, "../acp/"+file+".ndjson", trace)
			}
			for _, m := range missing {
				if !strings.HasPrefix(m.What, "ACP has no place for parts of the type data-") &&
					!strings.HasPrefix(m.What, "ACP has no place for messages of the role system") ||
					!strings.HasSuffix(m.What, acpLeft[name]) {
					t.Error(m)
				}
			}
			if len(missing) == 0 && acpLeft[name] != "" {
				t.Errorf("%s is not named", acpLeft[name])
			}
			if len(s.Runs) == 0 {
				continue
			}
			d := acp.NewDecoder()
			back := recorded(t, func(yield func(event.Event, error) bool) {
				for ev, err := range d.Events(bytes.NewReader(trace)) {
					if !yield(ev, err) {
						return
					}
				}
				for ev, err := range d.Rest() { // calls of a prompt that nothing answered
					if !yield(ev, err) {
						return
					}
				}
			}, otelagent.CaptureContent)
			if len(back) != 1 || back[0].ID != s.ID {
				t.Errorf("session %s: %d sessions", s.ID, len(back))
				continue
			}
			calls := 0
			for _, l := range lines {
				if l.Message.Params.Update.SessionUpdate == "tool_call" {
					calls++
				}
			}
			for n := range back[0].Walk() {
				if n.Kind() == session.KindToolCall {
					calls--
				}
			}
			if calls != 0 {
				t.Errorf("session %s: %d calls did not come back", s.ID, calls)
			}
		}
	})
}

// What was never captured is not in the trace; what is known without content is.
func TestACPWithoutContent(t *testing.T) {
	sample := readFile(t, "../../../dialects/acp/testdata/sample.ndjson")
	for capture, with := range map[string]otelagent.Capture{"none": otelagent.CaptureNone,
		"digests": otelagent.CaptureDigests} {
		for _, s := range recorded(t, acp.NewDecoder().Events(bytes.NewReader(sample)), with) {
			trace, missing := asTrace(t, &s, export.Options{})
			lines := checkTrace(t, trace)
			for _, content := range []string{"failing test", "range.rs", "cargo", "off by one", "Always allow edits"} {
				if bytes.Contains(trace, []byte(content)) {
					t.Errorf("%s: %q is in the trace", capture, content)
				}
			}
			var prompts, over, questions int
			calls := map[string]bool{}
			for _, l := range lines {
				u := l.Message.Params.Update
				calls[u.ToolCallID] = u.ToolCallID != ""
				switch {
				case l.Message.Method == "session/prompt":
					prompts++
				case l.Message.Method == "session/request_permission":
					questions++
				case u.ToolCallID != "" && (u.Status == "completed" || u.Status == "failed"):
					over++
				}
			}
			delete(calls, "")
			if prompts != 2 || len(calls) != 4 || over != 4 || questions != 2 || len(missing) == 0 {
				t.Errorf("%s: %d prompts, %d calls, %d over, %d questions, missing %v", capture, prompts, len(calls), over,
					questions, missing)
			}
		}
	}
}

const twoMessages = "two messages without ids are one, where the trace has no message between them"

// acpExceptions are the lines in which a trace differs from the capture, by what they hold and by scenario, with the
// reason.
var acpExceptions = map[string]map[string]string{
	"agent-dies": {
		".last":         "a reply that broke off is in no tree, so the time of its last piece is not in the trace",
		".runs[0].end:": "the same", ".runs[0].turns[0].end:": "the same",
		".runs[0].turns[0].tool_calls[0].end:": "the same: the call ends with its run",
	},
	"compaction": {".content[": twoMessages},
	"messages":   {".content[": twoMessages},
	"errors": {
		".runs[2].turns[0].events[$/cancel_request]": "the request that is taken back has another id",
		".runs[0].config":         "a session that was never opened had no folder, and no trace is of such a session",
		".facts[acp.initialize]":  "the same: what opens it in the trace",
		".facts[acp.session/new]": "the same",
	},
	"extensions": {
		".runs[0].turns[0].events[_example.org/": "the tree does not say which side sent a message of an extension",
	},
	"sample.raw": {
		"_source: bound": "a capture without times has bounds, and the trace states them",
	},
}

// An ACP trace of a session that came from ACP says the same as the capture did, but for acpExceptions.
func TestACPRoundTrip(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../dialects/acp/testdata/sdk/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	files = append(files, "../../../dialects/acp/testdata/sample.ndjson",
		"../../../dialects/acp/testdata/sample.raw.ndjson")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".ndjson")
		if strings.HasSuffix(name, ".raw") && name != "sample.raw" {
			continue // the same without times
		}
		t.Run(name, func(t *testing.T) {
			used := map[string]bool{}
			without := func(l []string) []string {
				return slices.DeleteFunc(l, func(line string) bool {
					for beginning := range acpExceptions[name] {
						if strings.Contains(line, beginning) {
							used[beginning] = true
							return true
						}
					}
					return false
				})
			}
			capture := acp.NewDecoder().Events(bytes.NewReader(readFile(t, file)))
			for _, before := range recorded(t, capture, otelagent.CaptureContent) {
				trace, missing := asTrace(t, &before, export.Options{})
				checkTrace(t, trace)
				for _, m := range missing {
					if !strings.Contains(m.What, "_example.org/") && !strings.Contains(m.What, "$/cancel_request") {
						t.Error(m)
					}
				}
				l := recorded(t, acp.NewDecoder().Events(bytes.NewReader(trace)), otelagent.CaptureContent)
				if len(l) != 1 || l[0].ID != before.ID {
					t.Errorf("session %s: %d sessions", before.ID, len(l))
					continue
				}
				if d := gocmp.Diff(without(linesOf(t, &before)), without(linesOf(t, &l[0]))); d != "" {
					t.Errorf("session %s: -capture +trace:\n%s", before.ID, d)
				}
				again, _ := asTrace(t, &l[0], export.Options{})
				lossy := []string{"errors", "extensions", "compaction", "messages"}
				if !slices.Contains(lossy, name) && !bytes.Equal(trace, again) {
					t.Errorf("session %s: the trace of the trace is another:\n%s", before.ID,
						gocmp.Diff(strings.Split(string(trace), "\n"), strings.Split(string(again), "\n")))
				}
			}
			for beginning := range acpExceptions[name] {
				if !used[beginning] {
					t.Errorf("no line has %q", beginning)
				}
			}
		})
	}
}
