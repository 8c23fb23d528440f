package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// recorded records events and returns the sessions.
func recorded(t *testing.T, events iter.Seq2[event.Event, error], capture otelagent.Capture) []export.Recorded {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return arrived(t, p)
}

func asTrace(t *testing.T, s *export.Recorded, opts export.Options) (trace []byte, missing []export.Missing) {
	t.Helper()
	var out bytes.Buffer
	missing, err := export.ACP(t.Context(), &out, s.Session, export.Held(s.Blocks), opts)
	if err != nil {
		t.Fatalf("session %s: %v", s.ID, err)
	}
	return out.Bytes(), missing
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
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
// that goes back
// in its states.
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

// factsOf lists what two sides of a round trip must agree in: the facts of a session that came from ACP, one a line,
// without the ids that the wire numbers.
func factsOf(s *export.Recorded) []string {
	var l []string
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	bodies := func(refs *session.Refs) string {
		var l []string
		for _, ref := range refs.Items() {
			body, _ := s.Blocks.Body(ref)
			var v any
			if json.Unmarshal([]byte(body), &v) == nil { // members in one order
				raw, _ := json.Marshal(v)
				body = string(raw)
			}
			l = append(l, body)
		}
		return strings.Join(l, " + ")
	}
	put := func(where string, what ...any) {
		raw, _ := json.Marshal(what)
		l = append(l, where+" "+string(raw))
	}
	notes := func(where string, notes []session.Note) {
		for _, n := range notes {
			body := ""
			if n.Body != nil {
				body, _ = s.Blocks.Body(*n.Body)
			}
			var o map[string]json.RawMessage
			if json.Unmarshal([]byte(body), &o) == nil && o["id"] != nil {
				delete(o, "id")
				raw, _ := json.Marshal(o)
				body = string(raw)
			}
			put(where+" note", n.Type, stamp(n.Time), body)
		}
	}
	permissions := func(where string, l []*session.Permission) {
		for _, p := range l {
			put(where+" permission", p.CallID, p.Tool, p.Action, p.Source, p.Outcome, p.Option, bodies(p.Options), p.WaitNS,
				stamp(p.End), p.Reason)
		}
	}
	compactions := func(where string, l []*session.Compaction) {
		for _, c := range l {
			put(where+" compaction", c.Kind, c.Applied, c.Reason, bodies(c.Summary), stamp(c.Start), stamp(c.End), c.InputTokens)
			notes(where+" compaction", c.Events)
		}
	}
	put("session", s.ID, s.Agent, s.Status)
	numbers := map[string]int{}
	for i, r := range s.Runs {
		numbers[r.ID] = i + 1
		where := "run " + string(rune('0'+i))
		put(where, r.Status, r.StatusWord, r.Error, r.Agent, r.Model, numbers[r.ParentID], r.Continuation, r.Known)
		put(where+" times", stamp(r.Start), stamp(r.End))
		put(where+" usage", r.Reported)
		put(where+" config", string(r.Config))
		put(where+" meta", bodies(r.Metadata))
		notes(where, r.Events)
		permissions(where, r.Permissions)
		compactions(where, r.Compactions)
		for _, turn := range r.Turns {
			where := where + " turn " + string(rune('0'+turn.Index))
			put(where, turn.StopReason, turn.Failed, turn.Error, turn.Cost, turn.Currency)
			put(where+" times", stamp(turn.Start), stamp(turn.End))
			put(where+" prompt", bodies(turn.Input))
			put(where+" reply", bodies(turn.Output))
			notes(where, turn.Events)
			permissions(where, turn.Permissions)
			compactions(where, turn.Compactions)
			for _, c := range turn.ToolCalls {
				where := where + " call " + c.ID
				put(where, c.Name, c.Outcome, c.Error, bodies(c.Args), bodies(c.Result), c.Known)
				put(where+" times", stamp(c.Start), stamp(c.End))
				notes(where, c.Events)
				permissions(where, c.Permissions)
			}
		}
	}
	for _, f := range s.Facts {
		value := ""
		if f.Value != nil {
			value, _ = s.Blocks.Body(*f.Value)
		}
		if f.Key == "acp.initialize" {
			mark := `,"_meta":{"otelagent":{"reconstructed":true,"format":1,"session":"` + s.ID + `","dialect":"acp"}}`
			value = strings.Replace(value, mark, "", 1)
		}
		put("fact", f.Subject, f.Key, stamp(f.At), value)
	}
	return l
}

// golden names the trace in testdata/acp, of a recording; `make interop-acp` validates and plays these.
func golden(recording string) string {
	name := map[string]string{"guide/testdata/session.jsonl": "guide", "clark/testdata/sample.events.ndjson": "clark-agent",
		"acp/testdata/sample.ndjson": "acp"}[recording]
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
	check := func(t *testing.T, name string, sessions []export.Recorded) {
		t.Helper()
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
	}
	for _, f := range phifixtures.All(t, "../../..") {
		t.Run(f.String(), func(t *testing.T) { check(t, f.String(), replayed(t, f.Events, otelagent.CaptureContent)) })
	}
	for _, pattern := range []string{"guide/testdata/*.json*", "clark/testdata/sample.events.ndjson",
		"clark/testdata/clark-agent-*/*.ndjson", "clark/testdata/clark-agent-*/*.jsonl", "acp/testdata/sample.ndjson"} {
		files, err := filepath.Glob("../../../dialects/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.ToSlash(strings.TrimPrefix(file, "../../../dialects/"))
			if strings.HasSuffix(file, ".golden") || strings.Contains(file, "trajectory") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				in := bytes.NewReader(readFile(t, file))
				switch dialect, _, _ := strings.Cut(name, "/"); dialect {
				case "guide":
					check(t, name, imported(t, readFile(t, file)))
				case "acp":
					check(t, name, recorded(t, acp.Events(in), otelagent.CaptureContent))
				default:
					check(t, name, recorded(t, clark.Events(in), otelagent.CaptureContent))
				}
			})
		}
	}
}

// What was never captured is not in the trace; what is known without content is.
func TestACPWithoutContent(t *testing.T) {
	sample := readFile(t, "../../../dialects/acp/testdata/sample.ndjson")
	for capture, with := range map[string]otelagent.Capture{"none": otelagent.CaptureNone,
		"digests": otelagent.CaptureDigests} {
		for _, s := range recorded(t, acp.Events(bytes.NewReader(sample)), with) {
			trace, missing := asTrace(t, &s, export.Options{})
			lines := checkTrace(t, trace)
			for _, content := range []string{"failing test", "range.rs", "cargo", "off by one", "Always allow edits"} {
				if bytes.Contains(trace, []byte(content)) {
					t.Errorf("%s: %q is in the trace", capture, content)
				}
			}
			var prompts, calls, over, questions int
			for _, l := range lines {
				switch u := l.Message.Params.Update; {
				case l.Message.Method == "session/prompt":
					prompts++
				case l.Message.Method == "session/request_permission":
					questions++
				case u.Status == "pending":
					calls++
				case u.ToolCallID != "" && (u.Status == "completed" || u.Status == "failed"):
					over++
				}
			}
			if prompts != 2 || calls != 4 || over != 4 || questions != 2 || len(missing) == 0 {
				t.Errorf("%s: %d prompts, %d calls, %d over, %d questions, missing %v", capture, prompts, calls, over, questions,
					missing)
			}
		}
	}
}

// acpExceptions are the lines of factsOf in which a trace differs from the capture, by their beginning and by scenario,
// with the reason.
var acpExceptions = map[string][]struct{ line, why string }{
	"agent-dies": {
		{"run 0 times", "a reply that broke off is in no tree, so the time of its last piece is not in the trace"},
		{"run 0 turn 0 times", "the same"}, {"run 0 turn 0 call call_1 times", "the same: the call ends with its run"},
	},
	"errors": {
		{`run 2 turn 0 note ["$/cancel_request"`, "the request that is taken back has another id"},
		{"run 0 config", "a session that was never opened had no folder; no trace may speak of one that was not opened"},
		{`fact ["session","acp.initialize"`, "the same: what opens it in the trace"}, {`fact ["session","acp.session/new"`,
			"the same"},
	},
	"extensions": {
		{`run 0 turn 0 note ["_example.org/`,
			"the tree does not say which side sent a message of an extension, nor whether it was a request"},
	},
}

// An ACP trace of a session that came from ACP says the same as the capture did, but for acpExceptions.
func TestACPRoundTrip(t *testing.T) {
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
					for _, e := range acpExceptions[name] {
						if strings.HasPrefix(line, e.line) {
							used[e.line] = true
							return true
						}
					}
					return false
				})
			}
			for _, before := range recorded(t, acp.Events(bytes.NewReader(readFile(t, file))), otelagent.CaptureContent) {
				trace, missing := asTrace(t, &before, export.Options{})
				checkTrace(t, trace)
				for _, m := range missing {
					if !strings.Contains(m.What, "_example.org/") {
						t.Error(m)
					}
				}
				l := recorded(t, acp.Events(bytes.NewReader(trace)), otelagent.CaptureContent)
				if len(l) != 1 || l[0].ID != before.ID {
					t.Errorf("session %s: %d sessions", before.ID, len(l))
					continue
				}
				if d := gocmp.Diff(without(factsOf(&before)), without(factsOf(&l[0]))); d != "" {
					t.Errorf("session %s: -capture +trace:\n%s", before.ID, d)
				}
				again, _ := asTrace(t, &l[0], export.Options{})
				if name != "errors" && name != "extensions" && !bytes.Equal(trace, again) { // which lost ids
					t.Errorf("session %s: the trace of the trace is another:\n%s", before.ID,
						gocmp.Diff(strings.Split(string(trace), "\n"), strings.Split(string(again), "\n")))
				}
			}
			for _, e := range acpExceptions[name] {
				if !used[e.line] {
					t.Errorf("no line begins with %q", e.line)
				}
			}
		})
	}
}
