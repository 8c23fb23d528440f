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
	"github.com/otelagent/otelagent/spans"
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

// What sessions of each dialect come to. interop/acp asks the official SDK whether it is valid, and plays it to its
// client.
func TestACPGolden(t *testing.T) {
	golden := func(t *testing.T, name string, sessions []export.Recorded) {
		t.Helper()
		if len(sessions) == 0 {
			t.Fatal("no sessions")
		}
		for i := range sessions {
			trace, missing := asTrace(t, &sessions[i], export.Options{})
			checkTrace(t, trace)
			var left []string
			for _, m := range missing {
				left = append(left, m.What)
			}
			file := name
			if i > 0 {
				file += "." + string(rune('a'+i))
			}
			export.Golden(t, "../acp/"+file+".ndjson", trace)
			if again, _ := asTrace(t, &sessions[i], export.Options{}); !bytes.Equal(trace, again) {
				t.Error("written again it is something else")
			}
			if d := gocmp.Diff(acpLeft[file], left); d != "" {
				t.Errorf("%s: what is left out: -want +got:\n%s", file, d)
			}
		}
	}
	names := []string{"compaction-in-turn", "tool-denied-by-hook", "steering-and-follow-up", "killed",
		"extension-message-and-image",
		"input-rejected-before-run", "parallel-tools-one-error", "sub-agent-host-wired", "revert"}
	for _, f := range phifixtures.All(t, "../../..") {
		name, ok := strings.CutPrefix(f.String(), "0.15.2/")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { golden(t, "phi-core."+name, replayed(t, f.Events, otelagent.CaptureContent)) })
	}
	t.Run("guide", func(t *testing.T) {
		golden(t, "guide", imported(t, readFile(t, "../../../dialects/guide/testdata/session.jsonl")))
	})
	t.Run("clark-agent", func(t *testing.T) {
		golden(t, "clark-agent", recorded(t, clark.Events(bytes.NewReader(readFile(t,
			"../../../dialects/clark/testdata/sample.events.ndjson"))), otelagent.CaptureContent))
	})
	t.Run("acp", func(t *testing.T) {
		golden(t, "acp", recorded(t, acp.Events(bytes.NewReader(readFile(t,
			"../../../dialects/acp/testdata/sample.ndjson"))), otelagent.CaptureContent))
	})
}

// acpLeft is what ACP has no place for, by golden.
var acpLeft = map[string][]string{
	"phi-core.extension-message-and-image": {"ACP has no place for parts of the type data-extension (1)"},
	"guide":                                {"ACP has no place for parts of the type data-chart (1)"},
	"clark-agent":                          {"ACP has no place for parts of the type data-reasoning_details (1)"},
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

// Every recording gives a trace that is read back: one session, the same calls in the same states, the same texts. What
// was left out of it is
// named. ACP_TRACES is as in TestACPRoundTrip.
func TestACPOfEveryRecording(t *testing.T) {
	check := func(t *testing.T, name string, sessions []export.Recorded) {
		t.Helper()
		for i := range sessions {
			s := &sessions[i]
			trace, missing := asTrace(t, s, export.Options{})
			checkTrace(t, trace)
			for _, m := range missing {
				if !strings.HasPrefix(m.What, "ACP has no place for parts of the type data-") && !strings.HasPrefix(m.What,
					"ACP has no place for messages of the role system") {
					t.Error(m)
				}
			}
			if dir := os.Getenv("ACP_TRACES"); dir != "" {
				file := strings.NewReplacer("/", "_", " ", "_").Replace(name + "." + s.ID)
				if err := os.WriteFile(filepath.Join(dir, file+".ndjson"), trace, 0o644); err != nil {
					t.Fatal(err)
				}
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
			if d := gocmp.Diff(callsOf(t, s), callsOf(t, &back[0])); d != "" {
				t.Errorf("session %s: calls: -tree +trace:\n%s", s.ID, d)
			}
		}
	}
	for _, f := range phifixtures.All(t, "../../..") {
		t.Run(f.String(), func(t *testing.T) { check(t, f.String(), replayed(t, f.Events, otelagent.CaptureContent)) })
	}
	for _, pattern := range []string{"../../../dialects/guide/testdata/*.json*",
		"../../../dialects/clark/testdata/clark-agent-*/*.ndjson", "../../../dialects/clark/testdata/clark-agent-*/*.jsonl"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, ".golden") || strings.Contains(file, "trajectory") {
				continue
			}
			t.Run(strings.TrimPrefix(file, "../../../dialects/"), func(t *testing.T) {
				name := filepath.Base(filepath.Dir(file)) + "." + filepath.Base(file)
				if strings.Contains(file, "/guide/") {
					check(t, name, imported(t, readFile(t, file)))
					return
				}
				check(t, name, recorded(t, clark.Events(bytes.NewReader(readFile(t, file))), otelagent.CaptureContent))
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
			if dir := os.Getenv("ACP_TRACES"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, capture+".ndjson"), trace, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// callsOf returns the tool calls that are part of the conversation as it stands, and how they ended, in the words that
// ACP has.
func callsOf(t *testing.T, s *export.Recorded) []string {
	t.Helper()
	fromACP := s.Dialect == acp.Dialect
	l := []string{}
	if fromACP {
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				for _, c := range turn.ToolCalls {
					state := "open"
					switch {
					case c.Outcome == spans.OutcomeOK:
						state = "completed"
					case c.Outcome != "":
						state = "failed"
					}
					l = append(l, c.Name+" "+state)
				}
			}
		}
		slices.Sort(l)
		return l
	}
	hidden := map[string]bool{}
	type stretch struct{ from, to int64 }
	rewound := map[string][]stretch{} // parts of messages
	var rows bytes.Buffer
	if _, err := export.JSONL(t.Context(), &rows, s.Session, export.Held(s.Blocks), export.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range export.LinesOf(t, rows.Bytes()) {
		meta := line.Inner("metadata_json")
		if line.Type == "message" && meta["hidden_at"] != nil {
			hidden[line.Str("id")] = true
		}
		own, _ := meta["otelagent"].(map[string]any)
		turns, _ := own["hidden"].([]any)
		for _, turn := range turns {
			turn, _ := turn.(map[string]any)
			if parts, ok := turn["parts"].([]any); ok && turn["hidden_at"] != nil {
				rewound[line.Str("id")] = append(rewound[line.Str("id")], stretch{int64(parts[0].(float64)),
					int64(parts[1].(float64))})
			}
		}
		if i := line.Num("index"); slices.ContainsFunc(rewound[line.Str("message_id")],
			func(x stretch) bool { return i >= x.from && i < x.to }) {
			continue
		}
		name, isTool := strings.CutPrefix(line.Str("type"), "tool-")
		if dynamic := line.Str("type") == "dynamic-tool"; line.Type != "part" || !isTool && !dynamic ||
			hidden[line.Str("message_id")] {
			continue
		} else if dynamic {
			name, _ = line.Inner("data_json")["toolName"].(string)
		}
		state := map[string]string{"output-available": "completed", "output-error": "failed",
			"output-denied": "failed"}[line.Str("tool_state")]
		if state == "" {
			state = "open"
		}
		l = append(l, name+" "+state)
	}
	slices.Sort(l)
	return l
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

// An ACP trace of a session that came from ACP says the same as the capture did, but for acpExceptions. With ACP_TRACES
// set to a folder, the
// traces are left there, for interop/acp to validate and replay.
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
				if dir := os.Getenv("ACP_TRACES"); dir != "" {
					if err := os.WriteFile(filepath.Join(dir, name+"."+before.ID+".ndjson"), trace, 0o644); err != nil {
						t.Fatal(err)
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
