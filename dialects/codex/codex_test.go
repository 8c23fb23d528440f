package codex_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/codex"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// rows reads files and folders, each family with a Decoder of its own, and returns what arrives of them.
func rows(t testing.TB, capture otelagent.Capture, paths ...string) session.Batch {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture), writer.WithDerivedIDs)
	families, problems := transcript.Find(codex.Agent, paths...)
	if len(families) == 0 || problems != nil {
		t.Fatalf("%d families in %v, %v", len(families), paths, problems)
	}
	var all []iter.Seq2[event.Event, error]
	for _, f := range families {
		all = append(all, f.Events(codex.Agent.NewDecoder()))
	}
	play.Events(t, event.NewRecorder(p.Tracer()), all...)
	return p.Batch()
}

// trees returns the sessions that paths hold, by id.
func trees(t testing.TB, paths ...string) map[string]*session.Session {
	t.Helper()
	found := map[string]*session.Session{}
	for _, s := range session.AssembleAll(rows(t, otelagent.CaptureContent, paths...).Rows) {
		found[s.ID] = s
	}
	return found
}

type tokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Read   int64 `json:"cache_read"`
	Write  int64 `json:"cache_write"`
}

func (t *tokens) add(in, out, read, write int64) {
	*t = tokens{t.Input + in, t.Output + out, t.Read + read, t.Write + write}
}

// counts are the fields of testdata/expected.json.
type counts struct {
	Session    string  `json:"session_id"`
	Parent     *string `json:"parent"`
	ForkedFrom *string `json:"forked_from"`
	Runs       int     `json:"runs"`
	Turns      int     `json:"turns"`
	tokens
	IncludesCache     bool     `json:"input_includes_cache"`
	IncludesReasoning bool     `json:"output_includes_reasoning"`
	Compacted         tokens   `json:"compaction_tokens"`
	Tools             []string `json:"tools"`
	Denied            int      `json:"denied"`
	Unanswered        int      `json:"unanswered_tools"`
	Compactions       int      `json:"compactions"`
	Aborted           int      `json:"aborted"`
	Subagents         []string `json:"subagents"`
}

// countsOf counts what a session holds, with what it copied.
func countsOf(s *session.Session, own bool) counts {
	c := counts{Session: s.ID, IncludesCache: true, IncludesReasoning: true, Tools: []string{}, Subagents: []string{}}
	for _, r := range s.Runs {
		if r.ParentSessionID != "" {
			c.Parent = &r.ParentSessionID
		}
		if r.ForkParentID != "" {
			c.ForkedFrom = &r.ForkParentID
		}
		if r.Copied && own {
			continue
		}
		first := spans.Trigger("")
		if len(r.Turns) > 0 {
			first = r.Turns[0].Trigger
		}
		if first == spans.TriggerUser || first == spans.TriggerSubAgent || len(r.Turns) == 0 && r.Outside != nil {
			c.Runs++
		}
		if r.Status == spans.RunStatusCancelled {
			c.Aborted++
		}
		for _, turn := range r.Turns {
			c.Turns++
			if u := turn.Reported; u != nil {
				c.add(u.Input, u.Output, u.CacheRead, u.CacheWrite)
			}
			c.IncludesCache = c.IncludesCache && turn.Rule == spans.UsageRuleIncludesCache
		}
		for call := range r.Calls() {
			c.Tools = append(c.Tools, call.Name)
			if call.Known == spans.KnownClosed {
				c.Unanswered++
			}
			if call.Outcome == spans.OutcomeDenied {
				c.Denied++
			}
			if call.ChildSessionID != "" {
				c.Subagents = append(c.Subagents, call.ChildSessionID)
			}
		}
		for n := range s.Walk() {
			if n.Compaction != nil && n.Run == r {
				c.Compactions++
			}
		}
		if u := r.CompactionUsage; u != nil {
			c.Compacted.add(u.Input, u.Output, u.CacheRead, u.CacheWrite)
		}
	}
	return c
}

// TestExpected compares every sample with the counts that an independent script found in it: read alone, and with all
// others, where one session is there twice, live and archived.
func TestExpected(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/expected.json"))(t)
	var samples map[string]json.RawMessage
	must.Do(t, json.Unmarshal(text, &samples))
	all := trees(t, "testdata")
	for file, raw := range samples {
		t.Run(file, func(t *testing.T) {
			want := counts{}
			var own struct{ Own *counts }
			if json.Unmarshal(raw, &want) != nil || json.Unmarshal(raw, &own) != nil {
				t.Fatal("testdata/expected.json")
			}
			root, _, _ := strings.Cut(file, "/")
			s := trees(t, "testdata/"+root)[want.Session]
			if s == nil {
				t.Fatal("no session")
			}
			for _, s := range []*session.Session{s, all[want.Session]} {
				if diff := cmp.Diff(want, countsOf(s, false), cmp.AllowUnexported(counts{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if own.Own != nil {
				got := countsOf(s, true)
				if got.tokens != own.Own.tokens || got.Turns != own.Own.Turns {
					t.Errorf("its own: %+v, want %+v", got, own.Own)
				}
			}
		})
	}
	if len(samples) != 9 {
		t.Errorf("%d samples", len(samples))
	}
}

// TestTitle gives a thread the name that it had last; the one that a fork has of its parent is not its own.
func TestTitle(t *testing.T) {
	line := func(rest string) string { return `{"timestamp":"2026-01-01T10:00:00Z","type":` + rest + "}\n" }
	text := line(`"session_meta","payload":{"id":"s"}`) + line(`"event_msg","payload":{"type":"task_started"}`)
	for thread, name := range map[string]string{"s": "mine", "parent": "not mine"} {
		text += line(`"event_msg","payload":{"type":"thread_name_updated","thread_id":"` + thread + `","thread_name":"` +
			name + `"}`)
	}
	titles := ""
	for ev, err := range codex.Agent.NewDecoder().Events(strings.NewReader(text)) {
		must.Do(t, err)
		if f, ok := ev.(*event.FactStated); ok && f.Facts[0].Key == "title" {
			titles += string(f.Facts[0].Value)
		}
	}
	if titles != `"mine"` {
		t.Errorf("titles %s", titles)
	}
}

// TestLateUsage reads the usage of a call after the outputs of its tools: it is that of the turn, and of no compaction.
func TestLateUsage(t *testing.T) {
	at := 0
	line := func(typ, rest string) string {
		at++
		return fmt.Sprintf(`{"timestamp":"2026-01-01T10:00:%02dZ","type":%q,"payload":{%s}}`+"\n", at, typ, rest)
	}
	total := func(n int) string {
		return line("event_msg", fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"input_tokens":%d}}`, n))
	}
	text := line("session_meta", `"id":"s"`) + line("event_msg", `"type":"task_started","turn_id":"r"`) +
		line("event_msg", `"type":"user_message"`)
	for i, id := range []string{"a", "b"} {
		text += line("response_item", `"type":"function_call","name":"t","arguments":"{}","call_id":"`+id+`"`) +
			line("response_item", `"type":"function_call_output","output":"ok","call_id":"`+id+`"`) + total(10*i+10)
	}
	text += line("compacted", `"message":"m"`) + line("event_msg", `"type":"task_complete","turn_id":"r"`)
	path := filepath.Join(t.TempDir(), "rollout.jsonl")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	s := trees(t, path)["s"]
	if c := countsOf(s, false); c.Turns != 2 || c.Input != 20 || c.Compacted.Input != 0 || c.Unanswered != 0 ||
		!slices.Equal(c.Tools, []string{"t", "t"}) {
		t.Errorf("%+v", c)
	}
	for i, turn := range s.Runs[0].Turns {
		if turn.Reported == nil || turn.Reported.Input != 10 || len(turn.ToolCalls) != 1 {
			t.Errorf("turn %d: %+v, %d tool calls", i, turn.Reported, len(turn.ToolCalls))
		}
	}
}

// TestCounts reads counts that are no call: a window that is full has a total without input and output. Totals that are
// those of the last call began again, also where they are greater than before. A call of MCP says how it ended in its
// result. An error is that of its task, also where it comes before a call or right after one.
func TestCounts(t *testing.T) {
	at := 0
	line := func(typ, rest string) string {
		at++
		return fmt.Sprintf(`{"timestamp":"2026-01-01T10:00:%02dZ","type":%q,"payload":{%s}}`+"\n", at, typ, rest)
	}
	count := func(input, all, last, lastAll int) string {
		return line("event_msg", fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,`+
			`"total_tokens":%d},"last_token_usage":{"input_tokens":%d,"total_tokens":%d}}`, input, all, last, lastAll))
	}
	ended := func(id, result string) string {
		return line("response_item", `"type":"function_call","name":"t","arguments":"{}","call_id":"`+id+`"`) +
			line("event_msg", `"type":"mcp_tool_call_end","call_id":"`+id+`","result":`+result) +
			line("response_item", `"type":"function_call_output","output":"ok","call_id":"`+id+`"`)
	}
	reply := line("response_item", `"type":"message","role":"assistant","content":[]`)
	text := line("session_meta", `"id":"s"`) + line("event_msg", `"type":"task_started","turn_id":"r"`) +
		line("event_msg", `"type":"user_message"`) + ended("a", `{"Ok":{"isError":true}}`) + count(10, 10, 10, 10) +
		ended("b", `{"Err":"no"}`) + count(30, 30, 20, 20) + ended("c", `{"Ok":{}}`) + reply + count(50, 50, 50, 50) +
		count(0, 200, 0, 150) + line("event_msg", `"type":"error","message":"full"`) +
		line("event_msg", `"type":"task_complete","turn_id":"r"`) +
		line("event_msg", `"type":"task_started","turn_id":"q"`) + line("event_msg", `"type":"user_message"`) +
		line("event_msg", `"type":"error","message":"no key"`) + line("event_msg", `"type":"task_complete","turn_id":"q"`)
	path := filepath.Join(t.TempDir(), "rollout.jsonl")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	runs, got := trees(t, path)["s"].Runs, ""
	for _, turn := range runs[0].Turns {
		if turn.Reported != nil {
			got += fmt.Sprint(turn.Reported.Input, " ")
		}
		for _, c := range turn.ToolCalls {
			got += string(c.Outcome) + " "
		}
	}
	if want := "10 error 20 error ok 50 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, r := range runs {
		if r.Status != spans.RunStatusError || len(runs) != 2 {
			t.Errorf("%s of %d runs: %s %s", r.ID, len(runs), r.Status, r.Error)
		}
	}
}

// TestCopiedTimes reads a fork: the time at which an item was completed is that of the parent, before all lines.
func TestCopiedTimes(t *testing.T) {
	line := func(second int, typ, rest string) string {
		return fmt.Sprintf(`{"timestamp":"2026-01-01T10:00:%02dZ","type":%q,"payload":{%s}}`+"\n", second, typ, rest)
	}
	text := line(1, "session_meta", `"id":"s","timestamp":"2026-01-01T10:00:01Z","forked_from_id":"p"`) +
		line(2, "event_msg", `"type":"task_started","turn_id":"r"`) + line(3, "event_msg", `"type":"user_message"`) +
		line(4, "response_item", `"type":"function_call","name":"t","arguments":"{}","call_id":"a"`) +
		line(6, "event_msg", `"type":"item_completed","completed_at_ms":1760000000000,"item":{"type":"X","id":"a"}`) +
		line(7, "response_item", `"type":"function_call_output","output":"ok","call_id":"a"`) +
		line(8, "event_msg", `"type":"task_complete","turn_id":"r"`)
	path := filepath.Join(t.TempDir(), "rollout.jsonl")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	call := trees(t, path)["s"].Runs[0].Turns[0].ToolCalls[0]
	if took := call.End.Sub(call.Start); took != 2*time.Second {
		t.Errorf("the call took %v, want 2s", took)
	}
}

// TestRollback takes back more than a thread has, also while a task goes on.
func TestRollback(t *testing.T) {
	line := func(rest string) string { return `{"timestamp":"2026-01-01T10:00:00Z","type":` + rest + "}\n" }
	prompt := line(`"event_msg","payload":{"type":"user_message"}`)
	text := line(`"session_meta","payload":{"id":"s"}`) + prompt +
		line(`"response_item","payload":{"type":"message","role":"assistant","content":[]}`) +
		line(`"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":1}}}`) +
		line(`"response_item","payload":{"type":"x_output","call_id":"c"}`) +
		line(`"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}`) + prompt
	hidden := 0
	for ev, err := range codex.Agent.NewDecoder().Events(strings.NewReader(text)) {
		must.Do(t, err)
		if f, ok := ev.(*event.FactStated); ok && f.Facts[0].Key == "hidden_at" {
			hidden++
		}
	}
	if hidden != 1 {
		t.Errorf("%d runs and prompts are hidden", hidden)
	}
}
