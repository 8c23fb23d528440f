package dialects_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// TestAgentsCopies reads each file together with a copy of it in another folder: no run, turn, tool call, compaction or
// token counts twice. Messages and records that have no id may come twice.
func TestAgentsCopies(t *testing.T) {
	for _, a := range agents(t) {
		for _, family := range a.families(t, a.folder) {
			file := family.Files[0]
			if filepath.Ext(file.Path) != ".jsonl" || filepath.Base(file.Path) == "v1.jsonl" { // its entries have no ids
				continue
			}
			once := a.record(t, otelagent.CaptureContent, transcript.Family{Files: []transcript.File{file}})
			again := file
			again.Path = filepath.Join(t.TempDir(), filepath.Base(file.Path))
			write(t, again.Path, must.Get(os.ReadFile(file.Path))(t))
			both := a.record(t, otelagent.CaptureContent, transcript.Family{Files: []transcript.File{file, again}})
			if diff := cmp.Diff(countsBySession(once), countsBySession(both)); diff != "" {
				t.Errorf("%s (-alone +with its copy)\n%s", file.Path, diff)
			}
		}
	}
}

func countsBySession(p *agenttest.Pipeline) map[string]counts {
	all := map[string]counts{}
	for _, s := range p.Sessions() {
		all[s.ID] = countsOf(s)
	}
	return all
}

// opened and asked are messages of OpenCode: of the user, and one of the model that asks for a tool.
func opened(id string, at int, part string) string {
	return fmt.Sprintf(`{"info":{"id":%q,"role":"user","time":{"created":%d}},"parts":[%s]}`, id, at, part)
}

func asked(id string, at, end int) string {
	return fmt.Sprintf(`{"info":{"id":%q,"role":"assistant","finish":"tool-calls","time":{"created":%d,"completed":%d}},`+
		`"parts":[]}`, id, at, end)
}

// TestAgentRuns reads what decides how a run of an agent ends and what belongs to it.
func TestAgentRuns(t *testing.T) {
	const (
		claude  = `"sessionId":"s","timestamp":"2026-01-01T00:00:00Z"`
		prompt1 = `{"type":"user","uuid":"u1",` + claude + `,"message":{"role":"user","content":"go"}}`
		prompt2 = `{"type":"user","uuid":"u2",` + claude + `,"message":{"role":"user","content":"on"}}`
		head    = `{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z"}`
		user1   = `{"id":"u1","type":"user","timestamp":"2026-01-01T00:00:01Z","content":"go"}`
		user2   = `{"id":"u2","type":"user","timestamp":"2026-01-01T00:00:05Z","content":"on"}`
		tool    = `{"id":"g1","type":"gemini","timestamp":"2026-01-01T00:00:02Z","content":"","tokens":{"input":1,` +
			`"output":1,"total":2},"toolCalls":[{"id":"c","name":"t","args":{},"status":"`
		context = `{"id":"x","type":"user","timestamp":"2026-01-01T00:00:04Z","content":"<session_context> here"}`
	)
	for _, tt := range []struct {
		name, dialect string
		lines         []string
		event         string
		want          []string // session, run and status of the first such events
	}{
		{"a failed call stays failed", "claude-code", []string{prompt1,
			`{"type":"assistant","uuid":"a",` + claude + `,"isApiErrorMessage":true,"message":{"id":"m","role":"assistant",` +
				`"model":"<synthetic>","content":[{"type":"text","text":"API Error: 529"}]}}`,
			`{"type":"user","uuid":"n","isMeta":true,` + claude + `,"message":{"role":"user","content":"note"}}`, prompt2},
			"run_ended", []string{"s u1 error"}},
		{"a title of sub-agents alone", "claude-code", []string{
			`{"type":"user","uuid":"u","isSidechain":true,"agentId":"a",` + claude +
				`,"message":{"role":"user","content":"go"}}`,
			`{"type":"custom-title","customTitle":"T","sessionId":"s"}`},
			"fact_stated", []string{"s"}},
		{"a cancelled run stays cancelled", "gemini-cli", []string{head, user1, tool + `executing"}]}`,
			`{"id":"i","type":"info","timestamp":"2026-01-01T00:00:03Z","content":"Request cancelled."}`,
			tool + `success"}]}`, user2},
			"run_ended", []string{"s u1 cancelled"}},
		{"what OpenCode asks itself, or what comes before a reply is over, goes on with the run", "opencode", []string{
			`{"info":{"id":"s","projectID":"p","time":{"created":1000}},"messages":[` + strings.Join([]string{
				opened("u1", 1001, `{"type":"subtask","prompt":"go"}`), asked("a1", 1002, 1005),
				opened("u2", 1006, `{"type":"text","synthetic":true,"text":"on"}`), asked("a2", 1007, 1009),
				opened("u3", 1008, `{"type":"text","text":"and"}`), asked("a3", 1010, 1012),
				opened("u4", 1013, `{"type":"compaction","auto":true}`),
				opened("u5", 1016, `{"type":"text","text":"go"}`), asked("a5", 1017, 1018),
				opened("u6", 1019, `{"type":"text","text":"go"}`)}, ",") + "]}"},
			"run_ended", []string{"s u1 completed", "s u2 completed", "s u3 completed", "s u5 aborted"}},
		{"a prompt after a reply that was stopped begins a run", "pi", []string{
			`{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}`,
			`{"type":"message","id":"u1","timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"go"}}`,
			`{"type":"message","id":"a1","parentId":"u1","timestamp":"2026-01-01T00:00:02Z","message":{"role":"assistant",` +
				`"stopReason":"aborted","content":[{"type":"toolCall","id":"c","name":"t","arguments":{}}]}}`,
			`{"type":"message","id":"u2","parentId":"a1","timestamp":"2026-01-01T00:00:03Z",` +
				`"message":{"role":"user","content":"on"}}`},
			"run_ended", []string{"s u1 cancelled"}},
		{"a reply that is repeated after the next one takes none of its calls", "gemini-cli", []string{head, user1,
			tool + `success"}]}`, strings.Replace(tool, `"g1"`, `"g2"`, 1) + `success"}]}`, tool + `success"}]}`,
			`{"id":"g3","type":"gemini","timestamp":"2026-01-01T00:00:03Z","content":"","toolCalls":[{"id":"d","name":"t"}]}`},
			"tool_started", []string{"s u1", "s u1", "s u1"}},
		{"context belongs to the prompt that follows", "gemini-cli", []string{head, user1, tool + `executing"}]}`, head,
			context, user2, strings.Replace(tool, "g1", "g2", 1) + `success"}]}`},
			"message_added", []string{"s u1", "s u2", "s u2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := dialects.Named(tt.dialect)
			var got []string
			for ev, err := range d.New().Events(strings.NewReader(strings.Join(tt.lines, "\n") + "\n")) {
				must.Do(t, err)
				var e struct{ Event, Session, Run, Status string }
				must.Do(t, json.Unmarshal([]byte(agenttest.Dump(ev)), &e))
				if e.Event == tt.event {
					got = append(got, strings.TrimSpace(e.Session+" "+e.Run+" "+e.Status))
				}
			}
			if !slices.Equal(got[:min(len(got), len(tt.want))], tt.want) {
				t.Errorf("%s: %q, want %q", tt.event, got, tt.want)
			}
		})
	}
}
