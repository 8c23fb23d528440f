package dialects_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
)

// good are lines of each dialect that are before a bad one and after it.
var good = map[string][2]string{
	"claude-code": {`{"type":"user","sessionId":"s","uuid":"u1","message":{"role":"user","content":"a"}}` + "\n",
		`{"type":"user","sessionId":"s","uuid":"u2","message":{"role":"user","content":"b"}}` + "\n"},
	"phi-core": {`{"type":"TurnStart","loop_id":"s.1","turn_index":0}` + "\n",
		`{"type":"TurnStart","loop_id":"s.1","turn_index":1}` + "\n"},
	"clark-agent": {`{"type":"agent_start"}` + "\n" + `{"type":"run_identified","identity":{"run_id":"r-1","depth":0}}` +
		"\n", `{"type":"agent_end","messages":[]}` + "\n"},
	"codex": {`{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/"}}` + "\n",
		`{"timestamp":"2026-01-01T00:00:01Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}` + "\n" +
			`{"timestamp":"2026-01-01T00:00:02Z","type":"event_msg","payload":{"type":"task_complete"}}` + "\n"},
	"gemini-cli": {`{"sessionId":"s","projectHash":"p","kind":"main"}` + "\n",
		`{"id":"u1","type":"user","timestamp":"2026-01-01T00:00:01Z","content":"a"}` + "\n"},
	"pi": {`{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}` + "\n",
		`{"type":"message","id":"u1","timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"a"}}` + "\n"},
	"otelagent": {"", `{"type":"otelagent.run_started","session_id":"s","run":"r"}` + "\n"},
	"acp":       {"", `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"},
	"guide": {`{"type":"session","data":{"id":"ses_1","created_at":1000}}` + "\n" +
		`{"type":"message","data":{"id":"u1","role":"user","created_at":1001}}` + "\n",
		`{"type":"session","data":{"id":"ses_1","created_at":1000}}` + "\n" +
			`{"type":"message","data":{"id":"u2","role":"user","created_at":1002}}` + "\n"},
}

// TestBadLines puts each line of testdata/bad-lines.txt between good ones: it is reported with its number and without
// its content, and the others are read.
func TestBadLines(t *testing.T) {
	text, err := os.ReadFile("testdata/bad-lines.txt")
	must.Do(t, err)
	var out []string
	name, line, n := "", "", 0
	for _, l := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(l, "! ") {
			out = append(out, l)
		}
		if next, begins := strings.CutPrefix(l, "== "); begins {
			name = next
		}
		if strings.HasPrefix(l, "! ") || strings.HasPrefix(l, "== ") || strings.HasPrefix(l, "#") || l == "" {
			continue
		}
		if line = l; strings.HasPrefix(l, "Go: ") {
			if line, err = strconv.Unquote(l[len("Go: "):]); err != nil {
				t.Fatal(err)
			}
		}
		before, after := good[name][0], good[name][1]
		number := int64(1 + strings.Count(before, "\n"))
		d, _ := dialects.Named(name)
		reader, behind := d.New(), 0
		for ev, err := range reader.Events(strings.NewReader(before + line + "\n" + after)) {
			var bad *input.LineError
			switch {
			case err == nil:
				if behind++; ev == nil {
					t.Errorf("%s: no event", l)
				}
			case ev != nil || !errors.As(err, &bad) || bad.Line != number || bad.Dialect != name:
				t.Errorf("%s: event %v, error %#v", l, ev, err)
			default:
				behind = 0
				place := name + ": line " + strconv.FormatInt(number, 10) + ": "
				out = append(out, "! "+strings.TrimPrefix(bad.Error(), place))
				if strings.Contains(bad.Error(), "SECRET") {
					t.Errorf("%s: the error holds content", l)
				}
				if bad.Cut {
					t.Errorf("%s: the line has an end, and is cut", l)
				}
			}
		}
		for _, err := range d.New().Events(strings.NewReader(before + line)) {
			if bad := (*input.LineError)(nil); errors.As(err, &bad) && bad.Cut != strings.Contains(bad.Reason, "too early") {
				t.Errorf("%s: at the end of the input cut is %v", l, bad.Cut)
			}
		}
		if n++; behind == 0 || reader.Stats().Rejected < 1 {
			t.Errorf("%s: the lines behind it are not read, or %+v", l, reader.Stats())
		}
	}
	got := strings.Join(out, "\n")
	if *update {
		must.Do(t, os.WriteFile("testdata/bad-lines.txt", []byte(got), 0o644))
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" || n < 100 {
		t.Errorf("%d lines (-want +got, -update writes them anew):\n%s", n, diff)
	}
}

// TestOutsideRuns reads records of sessions in which no run begins: they are counted. Those before a run belong to it.
func TestOutsideRuns(t *testing.T) {
	const record = `{"type":"queue-operation","sessionId":"s","timestamp":"2026-01-01T00:00:00Z"}` + "\n"
	for text, want := range map[string]int64{
		record + record:                                            2,
		record + good["claude-code"][0]:                            0,
		strings.Repeat(record, 300):                                300,
		good["claude-code"][0] + record:                            0,
		`{"type":"ai-title","aiTitle":"t","sessionId":"s"}` + "\n": 0,
	} {
		d, _ := dialects.Named("claude-code")
		reader, others := d.New(), int64(0)
		for ev, err := range reader.Events(strings.NewReader(text)) {
			if must.Do(t, err); ev != nil {
				if _, ok := ev.(*event.Other); ok {
					others++
				}
			}
		}
		if got := reader.Stats().Outside; got != want || got+others != int64(strings.Count(text, "queue-operation")) {
			t.Errorf("%.80s: %d outside, %d kept, want %d", text, got, others, want)
		}
	}
}

// TestBadRows puts bad rows of OpenCode's tables between good ones: each is reported with its table, place and key and
// without its content, and the others are read.
func TestBadRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.db")
	db := openCodeDB(t, path)
	must.Get(db.Exec(`INSERT INTO session (id, time_created) VALUES ('s', 1795346700000), ('', 1)`))(t)
	row := func(table, id, message string, data any) {
		if table == "part" {
			must.Get(db.Exec("INSERT INTO part (id, message_id, session_id, data) VALUES (?, ?, 's', ?)", id, message, data))(t)
		} else {
			must.Get(db.Exec("INSERT INTO message (id, session_id, time_created, data) VALUES (?, 's', 0, ?)", id, data))(t)
		}
	}
	row("message", "m0", "", `{"role":"user","time":{"created":1795346701000}}`)
	row("part", "p0", "m0", `{"type":"text","text":"before"}`)
	row("message", "m9", "", `{"role":"user","time":{"created":1795346702000}}`)
	row("part", "p9", "m9", `{"type":"text","text":"behind"}`)
	want := []string{"opencode: session: session.id: want a string that is not empty"}
	for i, bad := range []struct {
		table string
		data  any
		want  string
	}{
		{"message", `{"role":"SECRET`, "messages[1].data: JSON ends too early at byte 16"},
		{"message", `["SECRET"]`, "messages[2].data: want an object, got an array"},
		{"message", nil, "messages[3].data: JSON ends too early at byte 1"},
		{"message", `{"role":{"a":"SECRET"}}`, "message: messages[4].data.role: want a string, got an object"},
		{"message", `{"role":"user","sessionID":"SECRET"}`, "message: messages[5].data.sessionID: of no session: that " +
			"has to stand before its messages, and a message has an id"},
		{"message", `{"role":"assistant","tokens":{"input":"SECRET"}}`, "message: messages[6].data.tokens.input: " +
			"want an integer from 0 to 9223372036854775807, got a string"},
		{"message", `{"role":"user","x":"` + strings.Repeat("SECRET", 200) + `"}`,
			"messages[7].data: longer than 1024 bytes"},
		{"part", []byte{0xFF, 'S'}, "messages[0].parts[2].data: text that is not UTF-8 at byte 1"},
		{"part", `{"type":"text","messageID":"SECRET"}`,
			"part: messages[0].parts[3].data.messageID: of no message, which has to stand before its parts"},
		{"part", `{"type":"tool","state":"SECRET"}`, "part: messages[0].parts[1].data.state: want an object, got a string"},
	} {
		if id := "m" + strconv.Itoa(i+1); bad.table == "message" {
			row("message", id, "", bad.data)
		} else {
			row("part", "q"+id, "m0", bad.data)
		}
		want = append(want, "opencode: "+bad.want)
	}
	a := agentOf(t, "opencode")
	var got, said []string
	for ev, err := range a.families(t, path)[0].Events(a.new(input.Settings{MaxLine: 1024})) {
		if bad := (*input.LineError)(nil); errors.As(err, &bad) {
			got = append(got, bad.Error())
		} else if must.Do(t, err); err == nil {
			if m, ok := ev.(*event.MessageAdded); ok {
				said = append(said, m.Run)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || strings.Contains(diff, "SECRET") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(said) < 2 || said[0] != "m0" || said[len(said)-1] != "m9" {
		t.Errorf("messages of runs %v", said)
	}
}

// TestLongRows reads rows of OpenCode's tables that are too long: what belongs to them is not given to those before.
func TestLongRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.db")
	db := openCodeDB(t, path)
	long := strings.Repeat("x", 2000)
	for i, s := range []struct{ title, message string }{{"short", ""}, {"short", long}, {long, ""}} {
		must.Get(db.Exec("INSERT INTO session (id, title, time_created) VALUES (?, ?, ?)", i, s.title, i+1))(t)
		for j, x := range []string{"", s.message} {
			id := fmt.Sprint(i, j)
			must.Get(db.Exec("INSERT INTO message (id, session_id, time_created, data) VALUES (?, ?, ?, ?)", id, i, j,
				fmt.Sprintf(`{"role":"user","x":%q}`, x)))(t)
			must.Get(db.Exec("INSERT INTO part (id, message_id, data) VALUES (?, ?, ?)", id, id,
				fmt.Sprintf(`{"type":"text","text":"said %s"}`, id)))(t)
		}
	}
	a := agentOf(t, "opencode")
	var got []string
	for ev, err := range a.families(t, path)[0].Events(a.new(input.Settings{MaxLine: 1024})) {
		if m, ok := ev.(*event.MessageAdded); ok && err == nil {
			got = append(got, m.Session+" "+input.Texts(object.Of("", m.Message.Raw).Raw("content")))
		}
	}
	if want := []string{"0 said 0 0", "0 said 0 1", "1 said 1 0"}; !slices.Equal(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
}

// TestBadExport reads exports of OpenCode with elements that are no objects, or lack their info: each is reported with
// its place, and the others are read.
func TestBadExport(t *testing.T) {
	for text, want := range map[string][]string{
		`{"messages":"SECRET"}`: {"info: missing", "messages: want an array, got a string"},
		`{"info":{"id":"s"},"messages":["SECRET",{"info":{"id":"m","role":"user"},"parts":["SECRET",{"type":"text","text":` +
			`"said"}]},{"parts":[{"messageID":"n","x":"SECRET"}]}]}`: {"messages[1].parts[0]: want an object, got a string",
			"messages[0]: want an object, got a string", "messages[2].info: missing"},
	} {
		d, _ := dialects.Named("opencode")
		var got []string
		said := 0
		for ev, err := range d.New().Events(strings.NewReader(text)) {
			if err != nil {
				got = append(got, strings.TrimPrefix(err.Error(), "opencode: "))
			} else if m, ok := ev.(*event.MessageAdded); ok && strings.Contains(string(m.Message.Raw), "said") {
				said++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || said != len(want)/3 {
			t.Errorf("%s: %d messages (-want +got):\n%s", text, said, diff)
		}
	}
}
