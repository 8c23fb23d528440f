package guide_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// Rows for tests. Times are milliseconds.

func line(typ string, data string) string { return `{"type":"` + typ + `","data":` + data + "}\n" }

func sessionRow(more string) string {
	return line("session", `{"id":"ses_1","agent":"code","created_at":1000`+more+`}`)
}

func messageRow(id, role string, created int, metadata string) string {
	return line("message", fmt.Sprintf(`{"id":%q,"session_id":"ses_1","role":%q,"metadata":%s,"created_at":%d,`+
		`"updated_at":%d}`, id, role, metadata, created, created+1))
}

func partRow(id, message string, index, created int, data string) string {
	return line("part", fmt.Sprintf(`{"id":%q,"message_id":%q,"session_id":"ses_1","index":%d,"data":%s,`+
		`"created_at":%d,"updated_at":%d}`, id, message, index, data, created, created+1))
}

const (
	text      = `{"type":"text","text":"t"}`
	stepStart = `{"type":"step-start"}`
)

// summaryOf returns what lines say, an event a line without facts: type, run, and the named keys.
func summaryOf(t *testing.T, in string, keys ...string) []string {
	t.Helper()
	var out []string
	for l := range bytes.Lines(eventsOf([]byte(in))) {
		var ev map[string]json.RawMessage
		if json.Unmarshal(l, &ev) != nil {
			out = append(out, strings.TrimSpace(string(l)))
			continue
		}
		typ := strings.Trim(string(ev["event"]), `"`)
		if typ == "fact_stated" {
			continue
		}
		s := typ + " " + strings.Trim(string(ev["run"]), `"`)
		for _, k := range keys {
			if v := ev[k]; v != nil {
				s += " " + k + "=" + string(v)
			}
		}
		out = append(out, s)
	}
	return out
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRunsAndTurns(t *testing.T) {
	for _, test := range []struct {
		name, in string
		keys     []string
		want     []string
	}{
		{"parts before the first step-start belong to the first turn", sessionRow("") +
			messageRow("a1", "assistant", 1001, `{}`) +
			partRow("p0", "a1", 0, 1001, text) + partRow("p1", "a1", 1, 1002, stepStart) +
			partRow("p2", "a1", 2, 1003, stepStart) + partRow("p3", "a1", 3, 1004, text),
			[]string{"index", "status"},
			[]string{"run_started a1", "turn_started a1 index=0", "turn_ended a1", "turn_started a1 index=1", "turn_ended a1",
				`run_ended a1 status="completed"`}},
		{"order is that of index, the last of an id counts", sessionRow("") + messageRow("a1", "assistant", 1001, `{}`) +
			partRow("p2", "a1", 2, 1003, `{"type":"text","text":"c"}`) + partRow("p0", "a1", 0, 1001,
			`{"type":"text","text":"x"}`) + partRow("p1", "a1", 1, 1002, `{"type":"text","text":"b"}`) +
			partRow("p0", "a1", 0, 1001, `{"type":"text","text":"a"}`), []string{"output"},
			[]string{"run_started a1", "turn_started a1",
				`turn_ended a1 output={"raw":{"id":"a1","role":"assistant","createdAt":1001,"parts":[{"type":"text","text":"a"},` +
					`{"type":"text","text":"b"},{"type":"text","text":"c"}]},"role":"assistant","time":"1970-01-01T00:00:01.001Z"}`,
				"run_ended a1"}},
		{"a user's message without an answer", sessionRow("") + messageRow("u1", "user", 1001, `{}`) +
			partRow("p", "u1", 0, 1001, text), []string{"index"},
			[]string{"run_started u1", "turn_started u1 index=0", "message_added u1"}},
		{"several messages before an answer are one run", sessionRow("") + messageRow("s1", "system", 1000, `{}`) +
			messageRow("u1", "user", 1001, `{}`) + messageRow("u2", "user", 1002, `{}`) +
			messageRow("a1", "assistant", 1003, `{}`) + partRow("p", "a1", 0, 1003, text) +
			messageRow("a2", "assistant", 1004, `{}`) + partRow("q", "a2", 0, 1004, text), []string{"trigger", "status"},
			[]string{"run_started s1", "turn_started s1", "message_added s1", "message_added s1", "message_added s1",
				"turn_ended s1", `run_ended s1 status="completed"`,
				"run_started a2", "turn_started a2", "turn_ended a2", `run_ended a2 status="completed"`}},
		{"rows that come again", sessionRow("") + messageRow("u", "user", 1001, `{}`) +
			messageRow("a", "assistant", 1002, `{}`) + partRow("p", "a", 0, 1002, text) +
			messageRow("a", "assistant", 1002, `{"usage":{"input":3}}`) + partRow("q", "a", 1, 1003, text) +
			messageRow("u", "user", 1001, `{}`) + partRow("r", "u", 0, 1001, text) + messageRow("u2", "user", 1009, `{}`),
			[]string{"usage"},
			[]string{"run_started u", "turn_started u", "message_added u",
				`turn_ended u usage={"input":3,"rule":"excludes_cache"}`, "run_ended u",
				"error: guide: line 7: message: id: of a message that was there before",
				"error: guide: line 8: part: message_id: of no message: its row has to stand before those of its parts",
				"run_started u2", "turn_started u2", "message_added u2"}},
		{"queued and cancelled messages are no part of the transcript", sessionRow("") +
			messageRow("q", "user", 1001, `{"queued_at":1001}`) + messageRow("c", "user", 1002,
			`{"queue_canceled_at":1003,"queued_at":1001}`) +
			messageRow("u", "user", 1004, `{"queue_enqueued_at":1001,"queued_at":null}`), nil,
			[]string{"run_started u", "turn_started u", "message_added u"}},
		{"a message that was rewound before the next came is a run of its own", sessionRow("") +
			messageRow("u1", "user", 1001, `{"hidden_at":1005}`) + messageRow("u2", "user", 1006, `{}`) +
			messageRow("u3", "user", 1007, `{"hidden_at":1020}`) + messageRow("a3", "assistant", 1008, `{"hidden_at":1020}`) +
			partRow("p", "a3", 0, 1008, text), []string{"status"},
			[]string{"run_started u1", "turn_started u1", "message_added u1", `run_ended u1 status="aborted"`,
				"run_started u2", "turn_started u2", "message_added u2", "message_added u2", "turn_ended u2",
				`run_ended u2 status="completed"`}},
		{"usage of one call is that of the turn", sessionRow("") + messageRow("a1", "assistant", 1001,
			`{"usage":{"input":5,"output":7,"reasoning":2,"cache_read":3,"cache_write":1}}`) +
			partRow("p0", "a1", 0, 1001, stepStart) + partRow("p1", "a1", 1, 1002, text), []string{"usage"},
			[]string{"run_started a1", "turn_started a1", `turn_ended a1 usage={"input":5,"output":7,"reasoning":2,` +
				`"cache_read":3,"cache_write":1,"rule":"excludes_cache"}`, "run_ended a1"}},
		{"usage of calls that go on is that of the run", sessionRow("") +
			messageRow("a1", "assistant", 1001, `{"usage":{"input":5}}`) +
			partRow("p1", "a1", 1, 1002, `{"type":"tool-x","toolCallId":"c","state":"output-available","input":{},"output":1}`),
			[]string{"usage"},
			[]string{"run_started a1", "turn_started a1", "tool_started a1", "tool_ended a1", "turn_ended a1",
				`run_ended a1 usage={"input":5,"rule":"excludes_cache"}`}},
		{"a marker has no usage, and belongs to the run whose answer it comes before", sessionRow("") +
			messageRow("u1", "user", 1001, `{}`) +
			messageRow("k", "assistant", 1002, `{"compaction":true,"usage":{"input":61}}`) +
			partRow("p", "k", 0, 1002, `{"type":"data-compaction","summary":"s","tail_start_id":null,"auto":false,`+
				`"summary_tokens":61}`) +
			messageRow("a1", "assistant", 1003, `{"usage":{"input":9}}`) + partRow("q", "a1", 0, 1003, text),
			[]string{"usage", "summary", "trigger", "output_tokens", "kind"},
			[]string{"run_started u1", `compaction_ended u1 summary="s" trigger="manual" output_tokens=61 kind="summary"`,
				`turn_started u1 trigger="user"`, "message_added u1",
				`turn_ended u1 usage={"input":9,"rule":"excludes_cache"}`, "run_ended u1"}},
		{"a compaction after a rewind continues what is not rewound", sessionRow("") + messageRow("u1", "user", 1001, `{}`) +
			messageRow("a1", "assistant", 1002, `{}`) +
			messageRow("u2", "user", 1003, `{"hidden_at":1005}`) + messageRow("a2", "assistant", 1004, `{"hidden_at":1005}`) +
			messageRow("k", "assistant", 1006, `{}`) + partRow("p", "k", 0, 1006,
			`{"type":"data-compaction","data":{"summary":"s"}}`), []string{"parent_id", "continuation", "status"},
			[]string{"run_started u1", "turn_started u1", "message_added u1", `run_ended u1 status="aborted"`, "run_started u2",
				"turn_started u2", "message_added u2", `run_ended u2 status="aborted"`,
				`run_started k parent_id="u1" continuation="compaction"`, "compaction_ended k", `run_ended k status="completed"`}},
		{"trigger", sessionRow("") + messageRow("u", "user", 1001,
			`{"trigger":{"source":"schedule","fired_at":1001,"schedule_id":"s"}}`), []string{"trigger", "metadata"},
			[]string{`run_started u metadata={"trigger":{"source":"schedule","fired_at":1001,"schedule_id":"s"}}`,
				`turn_started u trigger="schedule"`, "message_added u"}},
		{"model and agent of the message go first", sessionRow(`,"model":{"provider_id":"p","model_id":"m","variant":"v"}`) +
			messageRow("u", "user", 1001, `{}`) + messageRow("u2", "user", 1001,
			`{"agent":"build","model":{"provider_id":"q","model_id":"n"}}`),
			[]string{"agent", "model", "provider"}, []string{`run_started u agent="build" model="n" provider="q"`,
				"turn_started u", "message_added u", "message_added u"}},
		{"rules that held when the run began", sessionRow(`,"permissions":[{"permission":"a"},{"permission":"b",`+
			`"added_at":1005}]`) + messageRow("u", "user", 1001, `{}`) + messageRow("a", "assistant", 1002, `{}`) +
			messageRow("u2", "user", 1005, `{}`),
			[]string{"rules"}, []string{`run_started u rules=[{"permission":"a"}]`, "turn_started u", "message_added u",
				"run_ended u",
				`run_started u2 rules=[{"permission":"a"},{"permission":"b","added_at":1005}]`, "turn_started u2",
				"message_added u2"}},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, summaryOf(t, test.in, test.keys...), test.want...) })
	}
}

func TestParents(t *testing.T) {
	keys := []string{"fork_parent_id", "parent_id", "parent_session_id", "parent_tool_call_id", "copied", "trigger",
		"child_session_id"}
	parent := `,"parent_id":"ses_0","parent_message_id":"u0"`
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"a fork holds messages of before its time", sessionRow(parent) + messageRow("u", "user", 900, `{}`) +
			messageRow("a", "assistant", 901, `{}`) + messageRow("u2", "user", 1001, `{}`),
			[]string{`run_started u fork_parent_id="ses_0" copied=true`, `turn_started u trigger="user"`, "message_added u",
				"run_ended u", `run_started u2 fork_parent_id="ses_0"`, `turn_started u2 trigger="user"`, "message_added u2"}},
		{"a sub-agent by its metadata", sessionRow(parent+`,"metadata":{"agent_mode":"subagent"}`) +
			messageRow("u", "user", 1001, `{}`),
			[]string{`run_started u parent_id="u0" parent_session_id="ses_0"`, `turn_started u trigger="sub_agent"`,
				"message_added u"}},
		{"one that a task call named", `{"type":"session","data":{"id":"ses_0","created_at":1}}` + "\n" +
			`{"type":"message","data":{"id":"u0","role":"user","created_at":2}}` + "\n" +
			`{"type":"message","data":{"id":"a0","role":"assistant","created_at":3}}` + "\n" +
			`{"type":"part","data":{"id":"p","index":0,"data":{"type":"tool-task","toolCallId":"c",` +
			`"state":"output-available","input":{},"output":{"type":"output","data":{"session_id":"ses_1"}}}}}` + "\n" +
			sessionRow(parent) + messageRow("u", "user", 1001, `{}`),
			[]string{"run_started u0", `turn_started u0 trigger="user"`, "message_added u0", "tool_started u0",
				`tool_ended u0 child_session_id="ses_1"`, "turn_ended u0", "run_ended u0",
				`run_started u parent_id="u0" parent_session_id="ses_0" parent_tool_call_id="c"`,
				`turn_started u trigger="sub_agent"`, "message_added u"}},
		{"sessions that name each other", sessionRow(`,"parent_id":"ses_2"`) + messageRow("u", "user", 1001, `{}`) +
			messageRow("a", "assistant", 1002, `{}`) +
			partRow("p", "a", 0, 1002, `{"type":"tool-task","toolCallId":"c","state":"output-available",`+
				`"output":{"session_id":"ses_2"}}`) +
			`{"type":"session","data":{"id":"ses_2","parent_id":"ses_1","created_at":1}}` + "\n" +
			`{"type":"message","data":{"id":"v","role":"user","created_at":2}}` + "\n",
			[]string{`run_started u parent_session_id="ses_2"`, `turn_started u trigger="user"`, "message_added u",
				"tool_started u", `tool_ended u child_session_id="ses_2"`, "turn_ended u", "run_ended u",
				`run_started v parent_id="u" parent_session_id="ses_1" parent_tool_call_id="c"`,
				`turn_started v trigger="sub_agent"`, "message_added v"}},
		{"of another only the parent is known", sessionRow(parent) + messageRow("u", "user", 1001, `{}`),
			[]string{`run_started u parent_session_id="ses_0"`, `turn_started u trigger="user"`, "message_added u"}},
		{"a session that is its own parent", sessionRow(`,"parent_id":"ses_1"`) + messageRow("u", "user", 900, `{}`),
			[]string{"error: guide: line 1: session: parent_id: names the session itself", "run_started u",
				`turn_started u trigger="user"`, "message_added u"}},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, summaryOf(t, test.in, keys...), test.want...) })
	}
}

func TestToolParts(t *testing.T) {
	keys := []string{"name", "outcome", "error", "truncated", "action", "reason", "derived", "decided_by", "type",
		"status", "args", "start", "end"}
	for _, test := range []struct {
		name, part, row string
		want            []string
	}{
		{"duration and truncation", `{"type":"tool-a-b","toolCallId":"c","state":"output-available","input":{"x":1.0},` +
			`"output":{"type":"output","data":1,"metadata":{"duration_ms":0.5,"truncated":true,"output_path":"/x"}}}`, "",
			[]string{`tool_started a name="a-b" args={"x":1.0} start={"time":"1970-01-01T00:00:01.0025Z","source":"message"}`,
				`tool_ended a name="a-b" outcome="ok" truncated=true end={"time":"1970-01-01T00:00:01.003Z","source":"message"}`,
				`status="completed"`}},
		{"error in the envelope", `{"type":"dynamic-tool","toolName":"x","toolCallId":"c","state":"output-available",` +
			`"output":{"type":"error","error_text":"E","metadata":{"duration_ms":0,"truncated":false}}}`, "",
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`tool_ended a name="x" outcome="error" error="E" truncated=false end={"time":"1970-01-01T00:00:01.003Z",` +
					`"source":"bound"}`, `status="completed"`}},
		{"no envelope", `{"type":"tool-x","toolCallId":"c","state":"output-available","output":{"type":"chart",` +
			`"error_text":"E","metadata":{"duration_ms":7,"truncated":true}}}`, "",
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`tool_ended a name="x" outcome="ok" end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`status="completed"`}},
		{"denied without a word", `{"type":"tool-x","toolCallId":"c","state":"output-denied"}`, "",
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`permission_evaluated a action="deny" derived=true start={"time":"1970-01-01T00:00:01.002Z","source":"bound"} ` +
					`end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`tool_ended a name="x" outcome="denied" end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`status="completed"`}},
		{"not answered yet", `{"type":"tool-x","toolCallId":"c","state":"approval-requested","approval":{"id":"1"}}`, "",
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`permission_evaluated a action="ask" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"} ` +
					`end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`, `status="open"`}},
		{"ran after it was asked for", `{"type":"tool-x","toolCallId":"c","state":"output-error","errorText":"E",` +
			`"approval":{"id":"1"}}`, "",
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`permission_evaluated a action="allow" derived=true start={"time":"1970-01-01T00:00:01.002Z","source":"bound"} ` +
					`end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`tool_ended a name="x" outcome="error" error="E" end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`status="completed"`}},
		{"frozen", `{"type":"tool-x","toolCallId":"c","state":"input-available","input":null}`, "",
			[]string{`tool_started a name="x" args=null start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`status="aborted"`}},
		{"columns alone", `{"type":"tool-x"}`, `,"tool_call_id":"c","tool_state":"output-error"`,
			[]string{`tool_started a name="x" start={"time":"1970-01-01T00:00:01.002Z","source":"bound"}`,
				`tool_ended a name="x" outcome="error" end={"time":"1970-01-01T00:00:01.003Z","source":"bound"}`,
				`status="completed"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			row := line("part", `{"id":"p","index":0,"type":"`+typeOf(t,
				test.part)+`","data":`+test.part+`,"created_at":1002,"updated_at":1003`+test.row+`}`)
			got := summaryOf(t, sessionRow("")+messageRow("a", "assistant", 1001, `{}`)+row, keys...)
			got = got[2:]
			end := got[len(got)-1]
			got = append(got[:len(got)-2], strings.Fields(end)[2])
			for i := range got { // the name of a decision is its tool
				got[i] = strings.Replace(got[i], ` tool="x"`, "", 1)
			}
			equal(t, got, test.want...)
		})
	}
}

func typeOf(t *testing.T, part string) string {
	t.Helper()
	var p struct{ Type string }
	must.Do(t, json.Unmarshal([]byte(part), &p))
	return p.Type
}

// TestOwnLines puts lines of package ndjson between rows: their events belong to the run of the message before them.
func TestOwnLines(t *testing.T) {
	allow := `{"type":"otelagent.permission_evaluated","tool":"x","call_id":"c","action":"allow"}` + "\n"
	cost := `{"type":"otelagent.other","event_type":"cost"}` + "\n"
	in := allow + sessionRow("") + cost + messageRow("u", "user", 1001, `{}`) + cost +
		messageRow("a", "assistant", 1002, `{}`) +
		partRow("p", "a", 0, 1002, `{"type":"tool-x","toolCallId":"c","state":"input-available"}`) + allow +
		partRow("q", "a", 1, 1003, text) + cost + messageRow("u2", "user", 1004, `{"queued_at":1004}`) + cost
	equal(t, summaryOf(t, in), "permission_evaluated ", "other ", "run_started u", "turn_started u", "message_added u",
		"other ", "tool_started u", "permission_evaluated ", "other ", "turn_ended u", "run_ended u", "other ")
}

func TestOwnLinesOfABadKind(t *testing.T) {
	got := summaryOf(t, sessionRow("")+messageRow("u", "user", 1001,
		`{}`)+`{"type":"otelagent.turn_started","index":"SECRET"}`+"\n"+messageRow("u2", "user", 1002, `{}`))
	if len(got) != 5 || !strings.HasPrefix(got[3], "error: otelagent: line 3: ") || strings.Contains(got[3], "SECRET") {
		t.Errorf("%q", got)
	}
}

// TestOwnEvents plays the events that otelagent writes between the rows.
func TestOwnEvents(t *testing.T) {
	own := func(events ...string) string {
		return `{"otelagent":{"events":[{"type":"otelagent.` + strings.Join(events, `},{"type":"otelagent.`) + `}]}}`
	}
	call := `{"type":"tool-x","toolCallId":"c","state":"output-available","input":{"n":1},"output":1}`
	for _, test := range []struct {
		name, in string
		keys     []string
		want     []string
	}{
		{"content comes from the rows", sessionRow("") +
			messageRow("u", "user", 1001, own(`run_started","run":"A","ts":1001000001,"dialect":"phi-core"`,
				`turn_started","run":"A","index":3`,
				`request_prepared","run":"A","system":"d","temperature":0.5`,
				`message_added","run":"A","message":{"raw":{"nodeId":7,"id":"x","role":"y"}}`)) +
			messageRow("a", "assistant", 1003, own(`attempt_discarded","run":"A","attempt":1`,
				`tool_started","run":"A","ts":1001000003,"call_id":"c","name":"x","args":0`,
				`tool_ended","run":"A","call_id":"c","name":"x","result":0,"outcome":"cancelled","truncated":true,`+
					`"child_run_id":"R"`,
				`turn_ended","run":"A","stop_reason":"stop","output":{"raw":[0,2]}`)) + partRow("p", "a", 0, 1003, call) +
			partRow("q", "a", 1, 1003, text) +
			messageRow("k", "assistant", 1004, own(`compaction_ended","run":"A","kind":"summary","messages_before":9,`+
				`"summary":0`, `run_ended","run":"A","status":"error","status_word":"w"`)) +
			partRow("r", "k", 0, 1004, `{"type":"data-compaction","data":{"summary":"s","tail_start_id":"a"}}`),
			[]string{"seq", "dialect", "recording", "index", "system", "temperature", "raw", "role", "message.time", "attempt",
				"args", "result", "outcome", "truncated", "child_run_id", "stop_reason", "output", "summary", "target",
				"compaction_result.messages_before", "status", "word"},
			[]string{`run_started A seq=2 dialect="phi-core" recording="ledger"`, "turn_started A seq=2 index=3",
				"request_prepared A seq=2 temperature=0.5",
				`message_added A seq=2 raw={"id":"u","role":"user","createdAt":1001,"parts":[],"nodeId":7} role="user" ` +
					`message.time="1970-01-01T00:00:01.001Z"`,
				"attempt_discarded A seq=3 attempt=1", `tool_started A seq=4 args={"n":1}`,
				`tool_ended A seq=4 result=1 outcome="cancelled" truncated=true child_run_id="R"`,
				`turn_ended A seq=5 stop_reason="stop" output={"raw":{"id":"a","role":"assistant","createdAt":1003,"parts":[` +
					call + `,` + text + `]},"role":"assistant","time":"1970-01-01T00:00:01.003Z"}`,
				`compaction_ended A seq=7 summary="s" target="a" compaction_result.messages_before=9`,
				`run_ended A seq=7 status="error" word="w"`}},
		{"parts that are not there", sessionRow("") + messageRow("a", "assistant", 1001,
			own(`tool_started","run":"A","args":7`, `tool_ended","run":"A","result":-1`,
				`turn_ended","run":"A","output":{"raw":[7,3]}`, `turn_ended","run":"A","output":{"raw":"x"}`,
				`compaction_ended","run":"A","summary":{}`)) +
			partRow("p", "a", 0, 1001, call), []string{"args", "result", "output", "summary"},
			[]string{"tool_started A", "tool_ended A", "turn_ended A", "turn_ended A", "compaction_ended A"}},
		{"an empty summary is none", sessionRow("") + messageRow("k", "assistant", 1001,
			own(`compaction_ended","run":"A","summary":0`)) +
			partRow("p", "k", 0, 1001, `{"type":"data-compaction","data":{"summary":"","tail_start_id":null}}`),
			[]string{"summary"}, []string{"compaction_ended A"}},
		{"no event", sessionRow("") + messageRow("a", "assistant", 1001, `{"otelagent":{"events":[]}}`) +
			partRow("p", "a", 0, 1001, text), nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, summaryOf(t, test.in, test.keys...), test.want...) })
	}
}

// TestDocumentsInOtherShapes reads what is not written as the guide has it, and says the same.
func TestDocumentsInOtherShapes(t *testing.T) {
	session := `{"id":"ses_1","agent":"code","created_at":1000}`
	u := `{"id":"u","session_id":"ses_1","role":"user","created_at":1001}`
	p := `{"id":"p","message_id":"u","index":0,"data":` + text + `,"created_at":1001}`
	further := `"system_prompts":[{"digest":"d","body":"b"}],"x":{"y":1}`
	want := summaryOf(t, line("session", session)+line("message", u)+line("part", p), "raw")
	facts := `"subject":"document","key":"guide.x","value":{"y":1}`
	prompt := `"subject":"system_prompt/d","key":"guide.line","value":{"digest":"d","body":"b"}`
	element := `{"message":` + u + `,"parts":[` + p + `]}`
	for name, in := range map[string]string{
		"as it should be": `{"session":` + session + `,"messages":[` + element + `],` + further + `}`,
		"with blanks and a mark": "\xef\xbb\xbf \n" + `{ "session" : ` + session + ` , "messages" : [ ` + element + ` ] , ` +
			further + ` }` + "\n",
		"messages first": `{` + further + `,"messages":[` + element + `],"session":` + session + `}`,
		"a message a line": line("session", session) + element + "\n" +
			line("system_prompt", `{"digest":"d","body":"b"}`) + `{"x":{"y":1},"messages":[]}`,
		"in one line of several": line("session", session) + `{"messages":[` + element + `],` + further + "}\n",
		"without a session row":  `{"messages":[` + element + `],` + further + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := summaryOf(t, in, "raw")
			equal(t, got, want...)
			all := string(eventsOf([]byte(in)))
			if !strings.Contains(all, facts) || !strings.Contains(all, prompt) {
				t.Errorf("other rows are lost: %s", all)
			}
		})
	}
	both := `{"session":` + session + `,"messages":[` + element + `]}`
	two := summaryOf(t, both+"\n"+strings.ReplaceAll(both, "ses_1", "ses_2"), "raw")
	equal(t, two, append(append([]string{}, want...), want...)...)
}

func TestSettings(t *testing.T) {
	in := line("message", `{"id":"a","role":"assistant","created_at":5,"metadata":{"usage":{"input":1}}}`) +
		line("part", `{"id":"p","data":`+text+`}`)
	got := string(eventsOf([]byte(in), input.Settings{Session: "S", Agent: "A", Provider: "P",
		Rule: spans.UsageRuleExcludesCacheAndReasoning}))
	for _, want := range []string{`"session":"S"`, `"agent":"A"`, `"provider":"P"`,
		`"rule":"excludes_cache_and_reasoning"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestTimesOfLines reads the key ts of lines whose rows have no updated_at.
func TestTimesOfLines(t *testing.T) {
	got := string(eventsOf([]byte(`{"type":"message","ts":"2026-01-01T00:00:00Z","data":{"id":"u","session_id":"s",` +
		`"role":"user"}}`)))
	if !strings.Contains(got, `"at":{"time":"2026-01-01T00:00:00Z"`) || strings.Contains(got, "guide.ts") {
		t.Error(got)
	}
}

// TestMessageThatGrows reads a message at every stage of its growth. A turn that was reported must not end later than
// when more of the message is known: the later end of two counts, and it would be that of the turn which was seen
// first.
func TestMessageThatGrows(t *testing.T) {
	in := func(parts int, updated int) string {
		b := sessionRow("") + messageRow("u", "user", 1000, `{}`) +
			strings.Replace(messageRow("a", "assistant", 1001, `{}`), `"updated_at":1002`,
				fmt.Sprintf(`"updated_at":%d`, updated), 1)
		for i := range parts {
			kind := `{"type":"step-start"}`
			if i%3 > 0 {
				kind = fmt.Sprintf(`{"type":"text","text":"%d","state":"done"}`, i)
			}
			b += partRow(fmt.Sprint("p", i), "a", i, 1010+10*i, kind)
		}
		return b
	}
	ends := func(in string) (list []time.Time) {
		for ev, err := range guide.NewDecoder().Events(strings.NewReader(in)) {
			must.Do(t, err)
			if e, ok := ev.(*event.TurnEnded); ok {
				list = append(list, e.End.Time)
			}
		}
		return list
	}
	whole := ends(in(9, 5000))
	if len(whole) != 3 {
		t.Fatalf("%d turns", len(whole))
	}
	for parts := range 9 {
		for i, end := range ends(in(parts, 1010+10*parts+5)) {
			if parts > 0 && end.After(whole[i]) {
				t.Errorf("of %d parts turn %d ends %v, of 9 %v", parts, i, end, whole[i])
			}
		}
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return b
}

// printed returns events, dumped, and errors as text.
func printed(events iter.Seq2[event.Event, error]) []byte {
	var b []byte
	for ev, err := range events {
		if err != nil {
			b = append(append(append(b, "error: "...), err.Error()...), '\n')
			continue
		}
		b = append(append(b, agenttest.Dump(ev)...), '\n')
	}
	return b
}

func eventsOf(text []byte, opts ...input.Settings) []byte {
	return printed(guide.NewDecoder(opts...).Events(bytes.NewReader(text)))
}

// fixtures are the inputs of testdata: those of this folder, and those that the real AI SDK wrote.
func fixtures(t testing.TB) (files []string) {
	t.Helper()
	for _, pattern := range []string{"testdata/*.jsonl", "testdata/*.json", "testdata/ai-sdk/*.jsonl",
		"testdata/ai-sdk/*.json"} {
		l := must.Get(filepath.Glob(pattern))(t)
		files = append(files, l...)
	}
	if len(files) < 2 {
		t.Fatalf("only %d fixtures", len(files))
	}
	return files
}
