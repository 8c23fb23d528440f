package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/transcript"
)

// importHome is a user's folder in which agents have left the sessions of these folders of samples.
func importHome(t *testing.T, samples map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{
		"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "PI_CODING_AGENT_DIR", "OTELAGENT_DB",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
	for to, from := range samples {
		must(t, os.CopyFS(filepath.Join(home, to), os.DirFS(filepath.Join("../../dialects", from))))
	}
	return home
}

// imported returns the sessions of a database, as Summaries in order.
func imported(t *testing.T, args ...string) string {
	t.Helper()
	return cli(t, append([]string{"ls", "--output", "json"}, args...)...)
}

var allSamples = map[string]string{
	".claude/projects/a":        "claudecode/testdata/spotter",
	".claude/projects/b":        "claudecode/testdata/forked",
	".claude/projects/c":        "claudecode/testdata/langfuse-plugin",
	".gemini/tmp/ws":            "gemini/testdata/generated-cli/tmp/ws",
	"data/opencode/storage":     "opencode/testdata/storage-layout/storage",
	".claude/projects/d/viewer": "claudecode/testdata/claude-code-viewer",
}

// A second import of everything changes nothing. The sums of the database are those of its sessions read one by one.
func TestImportTwice(t *testing.T) {
	home := importHome(t, allSamples)
	code, _, errs := runWith(t, "import", "--yes")
	once := imported(t)
	if n := strings.Count(once, `"id":`); code != exitOK || !strings.Contains(errs, fmt.Sprintf("read %d sessions", n)) {
		t.Errorf("%d sessions, exit %d: %s", n, code, errs)
	}
	must(t, os.Remove(filepath.Join(home, "data/otelagent/import.json")))
	if cli(t, "import", "--yes"); imported(t) != once {
		t.Errorf("read again:\n%s\nbefore:\n%s", imported(t), once)
	}
	db := filepath.Join(home, "folder.db")
	cli(t, "send", "--db", db, "--capture", "content", home)
	if sent := imported(t, "--db", db); sent != once {
		t.Errorf("send FOLDER:\n%s\nimport:\n%s", sent, once)
	}
}

// A new line of an agent is in the database within 3 seconds, and the session is in the end what it is when it is read
// whole.
func TestImportFollow(t *testing.T) {
	home := importHome(t, nil)
	folder := filepath.Join(home, ".claude/projects/p")
	must(t, os.MkdirAll(folder, 0o700))
	text, err := os.ReadFile("../../dialects/claudecode/testdata/spotter/short.jsonl")
	must(t, err)
	const id = "55604662-cf2"
	lines := strings.SplitAfter(string(text), "\n")
	path := filepath.Join(folder, "55604662-cf2a-4331-851a-ec234028f8ca.jsonl")
	ctx, stop := context.WithCancel(t.Context())
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"import", "--follow", "--yes"}, strings.NewReader(""), io.Discard, &errs)
	}()
	has := func(want string) {
		t.Helper()
		var got bytes.Buffer
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			got.Reset()
			if run(t.Context(), []string{"show", "last"}, strings.NewReader(""), &got, io.Discard) == exitOK &&
				strings.Contains(got.String(), want) {
				return
			}
		}
		t.Errorf("no %q after 3 seconds in\n%s%s", want, &got, &errs)
	}
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, os.WriteFile(filepath.Join(folder, "done.jsonl"), []byte(doneSession), 0o600))
	half := len(lines) / 2
	_, err = f.WriteString(strings.Join(lines[:half], "") + lines[half][:len(lines[half])/2])
	must(t, err)
	has(id)
	_, err = f.WriteString(lines[half][len(lines[half])/2:] + strings.Join(lines[half+1:], ""))
	must(t, err)
	has("1 turn")
	stop()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d: %s", code, &errs)
	}
	if done := cli(t, "show", "done", "--output", "json"); !strings.HasPrefix(after(done, `"status": `), `"idle"`) {
		t.Errorf("a run that is over when following ends is not complete:\n%s", done)
	}
	followed := cli(t, "show", "last", "--output", "json")
	cli(t, "send", "--db", filepath.Join(home, "whole.db"), "--capture", "content", path)
	whole := cli(t, "show", "last", "--output", "json", "--db", filepath.Join(home, "whole.db"))
	if a, b := usageIn(t, followed), usageIn(t, whole); a != b {
		t.Errorf("followed %+v, whole %+v", a, b)
	}
}

// The file of a compaction is read before that of its session. A family that is followed keeps its name when one comes.
func TestImportFollowsCompaction(t *testing.T) {
	got := agents("claude-code")[0].source(transcript.Family{Files: []transcript.File{
		{Path: "agent-acompact-1.jsonl", Head: transcript.Head{Part: true}}, {Path: "session.jsonl"}}})
	if got.name != "session.jsonl" {
		t.Error(got.name)
	}
}

// doneSession is a session of Claude Code whose run is over.
const doneSession = `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"done",` +
	`"timestamp":"2026-01-20T09:00:00.000Z","message":{"role":"user","content":"Hello"}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"done","timestamp":"2026-01-20T09:00:02.000Z",` +
	`"message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi."}],` +
	`"stop_reason":"end_turn","usage":{"input_tokens":8,"output_tokens":7}}}
`

func after(text, sign string) string {
	_, rest, _ := strings.Cut(text, sign)
	return rest
}

// Ctrl-C while the summaries are made ends the command in order: what was read is noted, and not read again.
func TestImportInterrupted(t *testing.T) {
	importHome(t, allSamples)
	ctx, stop := context.WithCancel(t.Context())
	errs := &stopping{stop: stop}
	if code := run(ctx, []string{"import", "--yes"}, nil, io.Discard, errs); code != exitOK ||
		!strings.Contains(errs.text, "stopped; ") {
		t.Errorf("exit %d: %s", code, errs.text)
	}
	if again := cli(t, "import", "--dry-run"); strings.Count(again, "all read") != 3 {
		t.Errorf("after it was interrupted:\n%s", again)
	}
	if list := imported(t); !strings.Contains(list, "8463c716") || strings.Contains(list, `"runs": 0`) {
		t.Errorf("after it was interrupted:\n%s", list)
	}
}

// stopping calls stop when it is written that everything was read.
type stopping struct {
	text string
	stop func()
}

func (s *stopping) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("otelagent: read ")) {
		s.stop()
	}
	s.text += string(p)
	return len(p), nil
}

func usageIn(t *testing.T, tree string) session.Usage {
	t.Helper()
	var s struct{ Usage session.Usage }
	must(t, json.Unmarshal([]byte(tree), &s))
	return s.Usage
}

// fiveAgents are samples, in the folders in which their agents keep them. exports holds what OpenCode exports.
var fiveAgents = map[string]string{
	".claude/projects":      "claudecode/testdata",
	".codex/sessions":       "codex/testdata",
	".gemini/tmp/ws/chats":  "gemini/testdata",
	"data/opencode/storage": "opencode/testdata/storage-layout/storage",
	".pi/agent/sessions":    "pi/testdata",
	"exports":               "opencode/testdata",
}

// closed are the keys of transcripts whose values are ids, times, numbers, or names of a closed list. All other strings
// are content.
var closed = " " + strings.Join(strings.Fields(`
	agent agentId agentType agent_id agent_role agent_thread_id api approval_policy callID call_id cli_version
	compaction_response_id effort event_id finish forked_from_id history_mode id interruptedMessageId kind
	lastUpdated leafUuid level logicalParentUuid messageID messageId model modelID modelId model_provider name
	new_thread_id operation parentId parentID parentSession parentToolUseID parentUuid parent_thread_id
	parent_turn_id permissionMode projectHash promptId provider providerID reason receiver_thread_ids requestId
	responseId response_id role root_turn_id sessionID sessionId session_id source sourceToolAssistantUUID startTime status
	stopReason stop_reason subtype tail_start_id targetId thinkingLevel thread_id timestamp tool toolCallId toolName
	toolUseID toolUseId tool_use_id trigger turn_id type uuid variant version firstKeptEntryId fromId $rewindTo`,
), " ") + " "

// marked returns a JSON value with a mark in front of each string of content.
func marked(v any, key, mark string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = marked(inner, k, mark)
		}
	case []any:
		for i, inner := range v {
			v[i] = marked(inner, key, mark)
		}
	case string:
		if !strings.Contains(closed, " "+key+" ") {
			return v + mark
		}
	}
	return v
}

// Of the transcripts of all agents, with a mark in every field of content, nothing marked is sent from the machine
// without --capture content; with it the marks of each agent arrive.
func TestImportIsPrivate(t *testing.T) {
	home := importHome(t, fiveAgents)
	marks := map[string]string{}
	for folder := range fiveAgents {
		mark := fmt.Sprintf("CANARY%d", len(marks))
		marks[folder] = mark
		must(t, filepath.WalkDir(filepath.Join(home, folder), func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasPrefix(filepath.Ext(path), ".json") {
				return err
			}
			text, err := os.ReadFile(path)
			must(t, err)
			if name := filepath.Base(path); folder == ".codex/sessions" && !strings.HasPrefix(name, "rollout-") {
				path = filepath.Join(filepath.Dir(path), "rollout-2026-01-01T00-00-00-"+name)
			}
			var out []byte
			for in := json.NewDecoder(bytes.NewReader(text)); in.More(); {
				var v any
				if in.Decode(&v) != nil { // a line of a sample that is broken on purpose
					return os.Remove(path)
				}
				line, err := json.Marshal(marked(v, "", mark))
				must(t, err)
				out = append(append(out, line...), '\n')
			}
			return os.WriteFile(path, out, 0o600)
		}))
	}
	sent := func(args ...string) string {
		return received(t, func(url string) {
			for _, command := range [][]string{{"import", "--yes", "--state", filepath.Join(t.TempDir(), "s.json")},
				{"send", filepath.Join(home, "exports")}} {
				args := slices.Concat(command, args, []string{"--endpoint", url})
				if code, _, errs := runWith(t, args...); code != exitOK && code != exitPartial {
					t.Fatal(args, errs)
				}
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	bare, content := sent(), sent("--capture", "content")
	for _, id := range []string{"8463c716-a2ea-4c14-9efa-87158ebd9f20", "01a202f1-3e87-79c1-8b33-e728850da6a5", home} {
		if strings.Contains(bare, id) == (id == home) {
			t.Errorf("%s: sent without content: %v", id, id == home)
		}
	}
	for folder, mark := range marks {
		if at := strings.Index(bare, mark); at >= 0 {
			t.Errorf("%s: content left the machine: %q", folder, bare[max(0, at-200):at])
		}
		if n := strings.Count(content, mark); n < 5 {
			t.Errorf("%s: %d marks with content", folder, n)
		}
	}
}

// A folder of 1,000 sessions that were all read is recognised in a second.
func TestImportRecognises(t *testing.T) {
	home := importHome(t, nil)
	folder := filepath.Join(home, ".claude/projects/p")
	must(t, os.MkdirAll(folder, 0o700))
	text, err := os.ReadFile("../../dialects/claudecode/testdata/spotter/short.jsonl")
	must(t, err)
	for n := range 1000 {
		id := fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)
		one := bytes.ReplaceAll(text, []byte("55604662-cf2a-4331-851a-ec234028f8ca"), []byte(id))
		must(t, os.WriteFile(filepath.Join(folder, id+".jsonl"), one, 0o600))
	}
	recognise := func() (*importer, error) {
		a := &app{stdout: io.Discard, stderr: io.Discard}
		return a.importer(&importOptions{state: filepath.Join(home, "state.json"), agents: []string{"claude-code"},
			at: location{name: "http://127.0.0.1:1"}})
	}
	im, err := recognise()
	must(t, err)
	for _, family := range im.agents[0].families {
		note(im.state.read, family)
	}
	must(t, im.state.save())
	least := time.Hour
	for range 5 { // the machine may be busy with other work
		start := time.Now()
		im, err = recognise()
		must(t, err)
		least = min(least, time.Since(start))
		if f := im.agents[0]; len(f.families) == 0 || len(f.todo) > 0 {
			t.Errorf("%d families, %d to read", len(f.families), len(f.todo))
		}
	}
	if least > time.Second {
		t.Errorf("at least %v", least)
	}
}

// A session that came over ACP, too, is one session with its transcript: what the model did and took is that of the
// transcript, in either order of arrival, and what a person allowed that of the connection.
func TestImportJoinsACP(t *testing.T) {
	const id = "270c3408-9605-4849-965c-fb7c3036f8ab"
	home := importHome(t, map[string]string{".gemini/tmp/ws": "gemini/testdata/generated-acp/tmp/ws"})
	capture := filepath.Join(home, "acp.ndjson")
	var lines strings.Builder
	for _, l := range [][3]string{
		{"41.430", "client_to_agent", `"id":2,"method":"session/prompt","params":{"sessionId":"ID","prompt":[{` +
			`"type":"text","text":"What do the notes say? Then remove them."}]}`},
		{"41.590", "agent_to_client", `"method":"session/update","params":{"sessionId":"ID","update":{"sessionUpdate":` +
			`"tool_call","toolCallId":"read_file__call_1_0","title":"read","kind":"read","status":"pending"}}`},
		{"41.591", "agent_to_client", `"id":7,"method":"session/request_permission","params":{"sessionId":"ID","toolCall":{` +
			`"toolCallId":"read_file__call_1_0"},"options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}`},
		{"41.600", "client_to_agent", `"id":7,"result":{"outcome":{"outcome":"selected","optionId":"ok"}}`},
		{"41.610", "agent_to_client", `"method":"session/update","params":{"sessionId":"ID","update":{"sessionUpdate":` +
			`"tool_call_update","toolCallId":"read_file__call_1_0","status":"completed"}}`},
		{"41.770", "agent_to_client", `"id":2,"result":{"stopReason":"end_turn","usage":{"inputTokens":15000,` +
			`"outputTokens":141,"totalTokens":15141}}`},
	} {
		fmt.Fprintf(&lines, `{"ts":"2026-11-22T11:08:%sZ","direction":%q,"message":{"jsonrpc":"2.0",%s}}`+"\n", l[0], l[1],
			strings.ReplaceAll(l[2], "ID", id))
	}
	must(t, os.WriteFile(capture, []byte(lines.String()), 0o600))
	cli(t, "import", "--yes")
	alone := usageIn(t, cli(t, "show", id, "--output", "json"))
	for _, first := range []string{"transcript", "connection"} {
		db := filepath.Join(home, first+".db")
		sent := []string{"send", "--db", db, "--capture", "content", capture}
		read := []string{"import", "--yes", "--db", db, "--capture", "content", "--state", db + ".json"}
		if first == "connection" {
			sent, read = read, sent
		}
		cli(t, read...)
		cli(t, sent...)
		tree := cli(t, "show", id, "--output", "json", "--db", db)
		if got := usageIn(t, tree); got != alone {
			t.Errorf("%s first: %+v, alone %+v", first, got, alone)
		}
		if !strings.Contains(tree, `"allow"`) || strings.Contains(tree, `"prompt-2"`) {
			t.Errorf("%s first: no permission, or a run of its own:\n%s", first, tree)
		}
	}
}

// The flags choose what is listed and read; without --yes nothing is read before the answer.
func TestImportFlags(t *testing.T) {
	home := importHome(t, allSamples)
	listed := cli(t, "import", "--dry-run")
	for _, agent := range []string{"claude-code  6 sessions ", "gemini-cli   2 sessions ", "opencode     1 session "} {
		if !strings.Contains(listed, agent) {
			t.Errorf("no %s in\n%s", agent, listed)
		}
	}
	if one := cli(t, "import", "--dry-run", "--agent", "gemini-cli"); !strings.Contains(one, "gemini-cli") ||
		strings.Contains(one, "claude-code") {
		t.Errorf("--agent lists\n%s", one)
	}
	old := time.Now().Add(-60 * 24 * time.Hour)
	must(t, filepath.Walk(home, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, old, old)
	}))
	if recent := cli(t, "import", "--dry-run", "--since", "30d"); recent != "" {
		t.Errorf("--since 30d lists\n%s", recent)
	}
	code, _, errs := command(t, strings.NewReader("n\n"), "import")
	if code == exitOK || !strings.Contains(errs, "[Y/n]") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(home, "data/otelagent/sessions.db")); err == nil {
		t.Error("something was read")
	}
	if code, _, errs := runWith(t, "import", "--protocol", "http"); code != exitUsage ||
		!strings.Contains(errs, "--protocol http: want grpc or http/protobuf") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A collector that is gone is reported while import waits for it, and nothing counts as read. Every session of the list
// is read, or reported as one without a prompt.
func TestImportReports(t *testing.T) {
	home := importHome(t, map[string]string{".claude/projects/a": "claudecode/testdata/spotter"})
	folder := filepath.Join(home, ".codex/sessions")
	must(t, os.MkdirAll(folder, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "rollout-2026-11-01T08-00-00-c1.jsonl"), []byte(
		`{"timestamp":"2026-11-01T08:00:00.000Z","type":"session_meta","payload":{"id":"c1",`+
			`"timestamp":"2026-11-01T08:00:00.000Z","cwd":"/x"}}`+"\n"), 0o600))
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "4000")
	code, _, errs := runWith(t, "import", "--yes", "--endpoint", "http://127.0.0.1:1")
	for _, want := range []string{"waiting for http://127.0.0.1:1 to answer", "not delivered: nobody listens on"} {
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit %d, want %q: %s", code, want, errs)
		}
	}
	if listed := cli(t, "import", "--dry-run"); !strings.Contains(listed, "codex        1 session ") {
		t.Errorf("the list: %s", listed)
	}
	if code, _, errs := runWith(t, "import", "--yes", "--agent", "codex"); code != exitOK ||
		!strings.Contains(errs, "1 session without a prompt: left out") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A line that cannot be read is named with the file that it is in, also where that is of a sub-agent.
func TestImportNamesTheFileOfALine(t *testing.T) {
	home := importHome(t, map[string]string{".claude/projects/a": "claudecode/testdata/spotter"})
	files, err := filepath.Glob(filepath.Join(home, ".claude/projects/a/*/subagents/agent-a7be2f0.jsonl"))
	must(t, err)
	text, err := os.ReadFile(files[0])
	must(t, err)
	for name, c := range map[string]struct {
		text, want string
		code       int
	}{
		"broken":        {"x}\n" + string(text), ":1: no JSON value at byte 1\n", exitPartial},
		"cut":           {"{\n" + string(text) + "{", ":1: JSON ends too early at byte 2\n", exitPartial},
		"still written": {string(text) + "{", " ends inside a line that is still being written; it was left out\n", exitOK},
	} {
		must(t, os.WriteFile(files[0], []byte(c.text), 0o600))
		db := filepath.Join(t.TempDir(), "s.db")
		code, _, errs := runWith(t, "send", "--from", "claude-code", "--db", db, filepath.Join(home, ".claude"))
		if half := strings.Contains(errs, "ends inside"); code != c.code || !strings.Contains(errs, files[0]+c.want) ||
			half != strings.HasSuffix(c.text, "{") {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}

// A file or folder that cannot be read is named, and the exit code says so, also when nothing else is new.
func TestImportUnreadable(t *testing.T) {
	home := importHome(t, map[string]string{".claude/projects/a": "claudecode/testdata/forked"})
	must(t, os.WriteFile(filepath.Join(home, ".codex"), nil, 0o600))
	broken := filepath.Join(home, ".claude/projects/a/broken.jsonl.zst")
	must(t, os.WriteFile(broken, []byte("no archive"), 0o600))
	for _, command := range [][]string{
		{"import", "--yes"}, {"import"}, {"send", "--db", filepath.Join(home, "x.db"), filepath.Dir(broken)},
	} {
		if code, _, errs := runWith(t, command...); code != exitPartial ||
			!strings.Contains(errs, "claude-code: left out: "+broken) ||
			command[0] == "import" && !strings.Contains(errs, "codex: left out: ") {
			t.Errorf("%v: exit %d: %s", command, code, errs)
		}
	}
}

// Where nothing is found, the folders of the agents that were asked for are named. The state names files by their whole
// paths, and does not call read what is not.
func TestImportNamesFolders(t *testing.T) {
	home := importHome(t, nil)
	code, _, errs := runWith(t, "import", "--agent", "pi", "--since", "2026-01-02")
	want := "otelagent: pi: no sessions since 2026-01-02 00:00:00 in " + filepath.Join(home, ".pi/agent/sessions") + "\n"
	if code != exitOK || errs != want {
		t.Errorf("exit %d: %q, want %q", code, errs, want)
	}
	moved := filepath.Join(home, "moved")
	must(t, os.CopyFS(filepath.Join(moved, "sessions"), os.DirFS("../../dialects/pi/testdata/agent-sessions")))
	t.Chdir(home)
	t.Setenv("PI_CODING_AGENT_DIR", "moved")
	cli(t, "import", "--yes")
	t.Chdir(moved)
	t.Setenv("PI_CODING_AGENT_DIR", ".")
	if list := cli(t, "import", "--dry-run"); !strings.HasSuffix(list, "  all read\n") {
		t.Errorf("from another folder: %s", list)
	}
	must(t, filepath.WalkDir(moved, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Now())
	}))
	if list := cli(t, "import", "--dry-run"); strings.Contains(list, "new") || !strings.Contains(list, " to read, ") {
		t.Errorf("after files changed: %s", list)
	}
}

// OpenCode's database has the sessions of its older folder, too: each counts once.
func TestImportCountsOnce(t *testing.T) {
	home := importHome(t, map[string]string{"data/opencode": "opencode/testdata/storage-layout"})
	packed, err := os.Open("../../dialects/opencode/testdata/generated/opencode.db.zst")
	must(t, err)
	defer packed.Close()
	z, err := zstd.NewReader(packed)
	must(t, err)
	defer z.Close()
	text, err := io.ReadAll(z)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(home, "data/opencode/opencode.db"), text, 0o600))
	if code, _, errs := runWith(t, "import", "--yes"); code != exitOK || !strings.Contains(errs, "read 2 sessions") ||
		strings.Contains(errs, "left out") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if listed := cli(t, "import", "--dry-run"); !strings.Contains(listed, "opencode     2 sessions ") {
		t.Errorf("the list: %s", listed)
	}
}
