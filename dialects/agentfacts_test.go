package dialects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
)

// TestAgentRecords reads folders of agents, and finds what one kind of record says in the events.
func TestAgentRecords(t *testing.T) {
	const (
		id      = "11111111-2222-4333-8444-555555555555"
		claude  = `"sessionId":"` + id + `","timestamp":"2026-01-01T00:00:01Z",`
		started = `{"type":"user","uuid":"u1",` + claude + `"message":{"role":"user","content":"go"}}` + "\n" +
			`{"type":"assistant","uuid":"a1",` + claude + `"message":{"id":"m1","stop_reason":"tool_use","content":[` +
			`{"type":"tool_use","id":"t1","name":"Agent","input":{"prompt":"look"}}]}}` + "\n"
		side = `{"type":"user","uuid":"u2","isSidechain":true,"agentId":"x",` + claude +
			`"message":{"content":"look"}}` + "\n"
		head = `{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z"}` + "\n"
		user = `{"id":"u1","type":"user","timestamp":"2026-01-01T00:00:01Z","content":"go"}` + "\n"
		call = `{"id":"g1","type":"gemini","timestamp":"2026-01-01T00:00:02Z","content":"","tokens":{"input":1,"output":1,` +
			`"total":2},"toolCalls":[{"id":"c","name":`
		codex = `{"timestamp":"2026-01-01T00:00:01Z","type":`
		spawn = codex + `"response_item","payload":{"type":"function_call","name":"spawn_agent","call_id":"c",` +
			`"arguments":"{}"}}` + "\n" + codex + `"response_item","payload":{"type":"function_call_output","call_id":"c",` +
			`"output":"{\"agent_id\":\"k\"}"}}` + "\n"
	)
	for _, tt := range []struct {
		name, dialect string
		files         map[string]string
		want          []string // parts of an event
	}{
		{"the folder of a session has its sub-agents, and their types", "claude-code", map[string]string{
			id + ".jsonl": started, id + "/subagents/agent-x.jsonl": side,
			id + "/subagents/agent-x.meta.json": `{"agentType":"Explore","toolUseId":"t1"}`},
			[]string{`"run_started"`, `"run":"x"`, `"agent":"Explore"`, `"parent_id":"u1"`, `"parent_tool_call_id":"t1"`}},
		{"a type of sub-agents that users named is metadata", "claude-code", map[string]string{
			id + ".jsonl": started, id + "/subagents/agent-x.jsonl": side,
			id + "/subagents/agent-x.meta.json": `{"agentType":"mine"}`},
			[]string{`"run_started"`, `"run":"x"`, `"agent":"claude-code"`, `"metadata":{"agentType":"mine"}`}},
		{"a title is that of the history that ends with a line of the session", "claude-code", map[string]string{
			id + ".jsonl": `{"type":"summary","summary":"other","leafUuid":"z"}` + "\n" +
				`{"type":"summary","summary":"mine","leafUuid":"a1"}` + "\n" + started},
			[]string{`"fact_stated"`, `"key":"title","value":"mine"`}},
		{"dropped results of tools are a compaction", "claude-code", map[string]string{
			id + ".jsonl": started + `{"type":"system","subtype":"microcompact_boundary","uuid":"b",` + claude +
				`"microcompactMetadata":{"trigger":"auto","preTokens":90,"tokensSaved":40}}` + "\n"},
			[]string{`"compaction_ended"`, `"run":"u1"`, `"kind":"prune"`, `"trigger":"auto"`, `90`, `40`}},
		{"a cancelled call cancels the run", "gemini-cli", map[string]string{
			"chats/session-1.jsonl": head + user + call + `"t","status":"cancelled","args":{}}]}` + "\n"},
			[]string{`"run_ended"`, `"run":"u1"`, `"status":"cancelled"`}},
		{"complete_task ends a sub-agent", "gemini-cli", map[string]string{
			"chats/p/s.jsonl": head + user + call + `"complete_task","status":"success","args":{}}]}` + "\n"},
			[]string{`"run_ended"`, `"run":"u1"`, `"status":"completed"`}},
		{"the history has the arguments of a refused call", "gemini-cli", map[string]string{
			"chats/session-1.jsonl": head + user + `{"id":"g1","type":"gemini","timestamp":"2026-01-01T00:00:02Z",` +
				`"content":"I try","tokens":{"input":1,"output":1,"total":2}}` + "\n" +
				`{"id":"u2","type":"user","timestamp":"2026-01-01T00:00:03Z","content":[{"functionResponse":{"id":"c",` +
				`"name":"t","response":{"error":"canceled by the user"}}}]}` + "\n" +
				`{"$set":{"messages":[{"id":"u1","type":"user","content":"go"},{"id":"h","type":"gemini","content":[` +
				`{"functionCall":{"id":"c","name":"t","args":{"a":1}}}]}]}}` + "\n"},
			[]string{`"fact_stated"`, `"subject":"tool_call/c","key":"arguments","value":{"a":1}`}},
		{"a call that spawned a thread is its parent", "codex", map[string]string{
			"rollout-1.jsonl": codex + `"session_meta","payload":{"id":"s","timestamp":"2026-01-01T00:00:00Z"}}` + "\n" +
				codex + `"event_msg","payload":{"type":"task_started","turn_id":"r"}}` + "\n" + spawn,
			"rollout-2.jsonl": codex + `"session_meta","payload":{"id":"k","timestamp":"2026-01-01T00:00:01Z",` +
				`"parent_thread_id":"s"}}` + "\n" + codex + `"event_msg","payload":{"type":"task_started","turn_id":"q"}}` +
				"\n" + codex + `"event_msg","payload":{"type":"task_complete","turn_id":"q"}}` + "\n"},
			[]string{`"run_started"`, `"session":"k"`, `"parent_session_id":"s"`, `"parent_id":"r"`,
				`"parent_tool_call_id":"c"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(folder, filepath.FromSlash(name))
				must.Get(0, os.MkdirAll(filepath.Dir(path), 0o700))(t)
				must.Get(0, os.WriteFile(path, []byte(text), 0o600))(t)
			}
			d, _ := dialects.Named(tt.dialect)
			families, problems := transcript.Find(*d.Agent, folder)
			if len(families) != 1 || problems != nil {
				t.Fatalf("%d families, %v", len(families), problems)
			}
			all, found := "", false
			for ev, err := range families[0].Events(d.New().(*transcript.Decoder)) {
				must.Get(0, err)(t)
				text, has := agenttest.Dump(ev), true
				for _, part := range tt.want {
					has = has && strings.Contains(text, part)
				}
				all, found = all+text+"\n", found || has
			}
			if !found {
				t.Errorf("no event with %q in\n%s", tt.want, all)
			}
		})
	}
}
