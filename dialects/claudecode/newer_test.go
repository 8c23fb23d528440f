package claudecode_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/claudecode"
	"github.com/otelagent/otelagent/spans"
)

const here = "11111111-2222-4333-8444-555555555555"

// ran is the line of a result of the call of lines.
const ran = `"type":"user","uuid":"u2","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}`

// said is the line of a final reply.
func said(id string) string {
	return `"type":"assistant","uuid":"a` + id + `","message":{"id":"` + id + `","stop_reason":"end_turn",` +
		`"content":[{"type":"text","text":"a"}]}`
}

// lines are those of a session: a prompt, a reply with a tool call, and what the caller adds.
func lines(more ...string) []byte {
	all := append([]string{`"type":"user","uuid":"u1","message":{"content":"go"}`, `"type":"assistant","uuid":"a1",` +
		`"message":{"id":"m1","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"Bash"}]}`}, more...)
	for i, line := range all {
		all[i] = fmt.Sprintf(`{"sessionId":%q,"timestamp":"2026-01-01T00:00:%02dZ",%s}`, here, i, line)
	}
	return []byte(strings.Join(all, "\n") + "\n")
}

// A result says by its text or by a kind next to it whether the call was refused, and by whom, or cut off.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, kind, want string }{
		{"This command requires approval", "", "denied permission-rule"},
		{"This Bash command contains multiple operations. The following part requires approval: ls", "",
			"denied permission-rule"},
		{"This Bash command contains multiple operations. The following part requires approval: ls", "user-rejected",
			"denied user-rejected"},
		{"ls in '/a' was blocked. For security, Claude Code may only list files in …", "", "denied permission-rule"},
		{"PreToolUse:Bash hook error: [check.sh]: no", "", "denied hook"},
		{"The user doesn't want to take this action right now. STOP", "", "denied user-rejected"},
		{"[Request interrupted by user for tool use]", "interrupted", "cancelled"},
		{"[Request interrupted by user for tool use]", "", "cancelled"},
		{"stopped", "cancelled", "cancelled"},
		{"Exit code 1\nThis command requires approval", "", "error"},
	} {
		file := write(t, filepath.Join(t.TempDir(), here+".jsonl"), lines(fmt.Sprintf(`"type":"user","uuid":"u2",`+
			`"toolDenialKind":%q,"message":{"content":[{"type":"tool_result","is_error":true,"tool_use_id":"t1","content":%q}]}`,
			c.kind, c.text)))
		got := ""
		for n := range treeOf(t, families(t, file)[0].Events(claudecode.Agent.NewDecoder()))[0].Runs[0].Walk() {
			if n.Kind() == session.KindToolCall {
				got = string(n.Call.Outcome) + got
			} else if n.Kind() == session.KindPermission {
				got += " " + string(n.Permission.Source)
			}
		}
		if got != c.want {
			t.Errorf("%q %q: %q, want %q", c.kind, c.text, got, c.want)
		}
	}
}

// The message of another session or of the session above begins a run that no person began, or belongs to the open one.
func TestOrigins(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`"message":{"content":"<cross-session-message from=\"a\">hi</cross-session-message>"}`, "teammate"},
		{`"message":{"content":"Another Claude session sent a message:\nhi"}`, "teammate"},
		{`"origin":{"kind":"peer"},"message":{"content":"hi"}`, "teammate"},
		{`"origin":{"kind":"task-notification"},"message":{"content":"hi"}`, "notification"},
		{`"origin":{"kind":"human"},"message":{"content":"hi"}`, "user"},
	} {
		file := write(t, filepath.Join(t.TempDir(), here+".jsonl"),
			lines(ran, said("m2"), `"type":"user","uuid":"u3",`+c.line, said("m3")))
		runs := treeOf(t, families(t, file)[0].Events(claudecode.Agent.NewDecoder()))[0].Runs
		if len(runs) != 2 || string(runs[1].Turns[0].Trigger) != c.want {
			t.Errorf("%s: %d runs, %v", c.line, len(runs), runs[len(runs)-1].Turns[0].Trigger)
		}
	}
}

// A second prompt below one line goes back to that; so does one at the beginning, with nothing above it.
func TestBranches(t *testing.T) {
	for above, want := range map[string]bool{`"parentUuid":null,`: true, `"parentUuid":"x",`: true, "": false} {
		text := string(lines(ran, said("m2"), `"type":"user",`+above+`"uuid":"u3","message":{"content":"go"}`))
		text = strings.Replace(text, `"uuid":"u1",`, above+`"uuid":"u1",`, 1)
		file := write(t, filepath.Join(t.TempDir(), here+".jsonl"), []byte(text))
		runs := treeOf(t, families(t, file)[0].Events(claudecode.Agent.NewDecoder()))[0].Runs
		if got := runs[len(runs)-1].Continuation; len(runs) != 2 || want != (got == spans.ContinuationBranch) {
			t.Errorf("%q: %d runs, %s", above, len(runs), got)
		}
	}
}

// Versions that state no reason why a reply ended: a run that ends with a text has completed.
func TestEndsWithoutReason(t *testing.T) {
	with := func(block string) string {
		return `"type":"assistant","uuid":"a` + block[9:13] + `","message":{"id":"m2","content":[` + block + `]}`
	}
	text, think := with(`{"type":"text","text":"a"}`), with(`{"type":"thinking","thinking":"a"}`)
	call := with(`{"type":"tool_use","id":"t2","name":"Bash"}`)
	boundary := `"type":"system","subtype":"compact_boundary","uuid":"c1","compactMetadata":{"trigger":"manual"}`
	summary := `"type":"user","uuid":"c2","isCompactSummary":true,"message":{"content":"This session is being continued"}`
	command := `"type":"user","uuid":"c3","message":{"content":"<command-name>/compact</command-name>"}`
	output := `"type":"user","uuid":"c4","message":{"content":"<local-command-stdout>Compacted</local-command-stdout>"}`
	for want, all := range map[string][][]string{
		"completed": {{ran, text}, {ran, think, text}, {ran, text, boundary, summary, command, output},
			{ran, said("m2"), boundary, summary, command, output}},
		"aborted": {{ran}, {ran, think}, {ran, text, call}},
	} {
		for _, more := range all {
			file := write(t, filepath.Join(t.TempDir(), here+".jsonl"), lines(more...))
			runs := treeOf(t, families(t, file)[0].Events(claudecode.Agent.NewDecoder()))[0].Runs
			if len(runs) != 1 || string(runs[0].Status) != want {
				t.Errorf("%v: %d runs, %s, want %s", more, len(runs), runs[0].Status, want)
			}
		}
	}
}

// A sub-agent of a workflow has the call that began the workflow as its parent. The file of a sub-agent names its
// session, also where that has no file.
func TestWorkflow(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, here+".jsonl"), lines(`"type":"user","uuid":"u2","toolUseResult":{"runId":"wf_1",`+
		`"status":"async_launched"},"message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}`))
	agent := filepath.Join(here, "subagents", "workflows", "wf_1", "agent-b1.jsonl")
	own := []byte(fmt.Sprintf(`{"type":"user","sessionId":%q,"agentId":"b1","isSidechain":true,"uuid":"s1",`+
		`"timestamp":"2026-01-01T00:01:00Z","message":{"content":"ping"}}`+"\n", here))
	write(t, filepath.Join(dir, agent), own)
	runs := treeOf(t, families(t, file)[0].Events(claudecode.Agent.NewDecoder()))[0].Runs
	if len(runs) != 2 || runs[1].ID != "b1" || runs[1].ParentID != runs[0].ID || runs[1].ParentToolCallID != "t1" {
		t.Errorf("%d runs: %+v", len(runs), runs[len(runs)-1])
	}
	alone := families(t, write(t, filepath.Join(t.TempDir(), agent), own))[0].Files[0]
	if !alone.Part || strings.Join(alone.Sessions, " ") != here {
		t.Errorf("%v", alone.Sessions)
	}
}
