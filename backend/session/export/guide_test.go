package export

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// The two recipes of the guide work on both forms.
func TestGuideRecipes(t *testing.T) {
	t.Parallel()
	jq, err := exec.LookPath("jq")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("jq is not installed; CI installs it")
	}
	parent, m := recordedRun()
	var lines, document bytes.Buffer
	must.Get(JSONL(&lines, session.Tree{Session: parent, Blocks: &m.blocks}, Options{}))(t)
	must.Get(JSON(&document, session.Tree{Session: parent, Blocks: &m.blocks}, Options{}))(t)
	run := func(input []byte, args ...string) string {
		c := exec.CommandContext(t.Context(), jq, args...)
		c.Stdin = bytes.NewReader(input)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("jq %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	const asLines = `({type:"session",data:.session}), (.messages[] | {type:"message",data:.message}, (.parts[] | ` +
		`{type:"part",data:.}))`
	for _, recipe := range []string{
		`select(.type=="part") | .data.tool_state`,
		`select(.type=="message" and .data.role=="assistant") | .data.metadata_json | fromjson`,
	} {
		a := run(lines.Bytes(), recipe)
		b := run(document.Bytes(), asLines+" | "+recipe)
		if a != b || len(a) == 0 {
			t.Errorf("%s: %s of the lines, %s of the document", recipe, a, b)
		}
	}
	if states := run(lines.Bytes(), "-r",
		`select(.type=="part") | .data.tool_state | select(.)`); !strings.Contains(states, "output-available") {
		t.Errorf("tool states: %q", states)
	}
}

// Results that come as messages of the next turn, calls that share an id, replies whose turn is not there, usage that
// only the run has, ids that messages have themselves, facts: what phi-core's sessions do not show.
func TestGuideOfOtherLoops(t *testing.T) {
	m := &made{}
	float := func(f float64) *float64 { return &f }
	now := ms(0)
	first := &session.Run{
		Span: observed(0, 90), ID: "r1", Agent: "a", Model: "m", Provider: "p", Status: spans.RunStatusCompleted,
		Capture: spans.CaptureContent,
		Usage:   session.Usage{Input: 300, Output: 30, Reasoning: 10, CacheRead: 100},
		Rules: m.refs(part{`[{"permission":"bash","pattern":"*","action":"ask","source":"session"},{"permission":"x",` +
			`"pattern":"*","action":"deny","source":"manifest"}]`, "", ""}),
		Turns: []*session.Turn{
			{
				Span: observed(1, 10), Capture: spans.CaptureContent, Usage: session.Usage{Input: 100, Output: 10},
				Cost: float(0.25), Currency: "USD", StopReason: "tool_use",
				Input: m.refs(part{`{"role":"user","content":"do it"}`, "", `{"id":"own-1"}`}),
				Output: m.refs(part{`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n":1}},` +
					`{"type":"tool_use","id":"d","name":"g","input":{}}]}`, "", ""}),
			},
			{
				Span: observed(11, 20), Index: 1, Capture: spans.CaptureContent, Usage: session.Usage{Input: 200, Output: 20,
					Reasoning: 10, CacheRead: 100},
				Input: m.refs(part{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"one"},` +
					`{"type":"text","text":"and"}]}`, "", ""},
					part{`{"role":"tool","tool_call_id":"gone","content":"nobody asked"}`, "", ""}),
				Output: m.refs(part{`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n":2}},` +
					`{"type":"thinking","thinking":"hm","signature":"sig"}]}`, "", ""}),
				ToolCalls: []*session.ToolCall{
					{Span: observed(12, 13), ID: "c", Name: "f", Outcome: spans.OutcomeCancelled, Error: "stopped"},
					{Span: session.Span{Known: spans.KnownLive, Start: ms(14)}, ID: "late", Name: "h", Args: m.refs(part{`{"q":1}`,
						"", ""})},
				},
			},
		},
	}
	second := &session.Run{
		Span: observed(100, 190), ID: "r2", Agent: "b", Status: spans.RunStatusCompleted, Capture: spans.CaptureContent,
		Usage: session.Usage{Input: 7, Output: 3}, Reported: &session.ReportedUsage{Input: 7, Output: 3},
		Messages: m.refs(part{`{"role":"user","content":"again"}`, "", `{"id":"own-2"}`},
			part{`{"id":"own-1","role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function",` +
				`"function":{"name":"f","arguments":"{\"a\":1}"}}]}`, "", ""},
			part{`{"role":"tool","tool_call_id":"x","content":"done"}`, "", ""}, part{`{"role":"system","content":"stop"}`,
				"", ""}),
		Compactions: []*session.Compaction{{
			Span: observed(150, 151), Kind: spans.CompactionKindSummary, Trigger: "auto", OutputTokens: new(int64),
			Summary: m.refs(part{`"short"`, "", ""}),
			After:   m.refs(part{`{"role":"user","content":"again"}`, "", `{"id":"own-2"}`}),
		}},
	}
	third := &session.Run{Span: observed(200, 201), ID: "r3", Status: spans.RunStatusError, Copied: true,
		Usage: session.Usage{Input: 1}}
	fact := func(subject, key, value string) session.Fact {
		id := spans.BlockOfString(value).Short().String()
		m.blocks.Add(session.Block{Body: value})
		return session.Fact{Subject: subject, Key: key, At: ms(300), Value: &session.Ref{Block: id}}
	}
	s := &session.Session{
		ID: "s", Agent: "a", Dialect: "other", Status: spans.SessionStatusIdle, Start: now, Last: ms(201),
		Runs:  []*session.Run{first, second, third},
		Usage: session.Usage{Input: 307, Output: 33, Reasoning: 10, CacheRead: 100},
		Facts: []session.Fact{fact("message/own-1", "hidden_at", "1780000000300"), fact("session", "archived_at",
			`"2026-05-28T20:26:41Z"`), fact("session", "title", `"a title"`)},
	}
	r := Recorded{session.Tree{Session: s, Blocks: &m.blocks}}
	Golden(t, "other-loops.jsonl", r.Write(t, JSONL, Options{}))
	Golden(t, "other-loops.csv", r.Write(t, CSV, Options{}))
	Golden(t, "other-loops.json", r.Write(t, JSON, Options{}))
	CheckOrder(t, LinesOf(t, r.Write(t, JSONL, Options{})))
	CheckSums(t, s, r.Write(t, CSV, Options{}))
}

// More messages in one millisecond than its digits can order, and an own id that would break the order, move created_at
// on.
func TestNamer(t *testing.T) {
	var n namer
	type key struct {
		at int64
		id string
	}
	var last key
	less := func(id string, at int64) {
		t.Helper()
		if cmp.Or(cmp.Compare(last.at, at), strings.Compare(last.id, id)) >= 0 {
			t.Fatalf("%d %s does not stand behind %d %s", at, id, last.at, last.id)
		}
		last = key{at, id}
	}
	now := time.Now().UnixMilli()
	for i := range stampsPerMS + 10 {
		less(flip(n.name(now, "", fmt.Sprint(i))))
	}
	for _, own := range []string{"zz", "aa", "zz", ""} {
		less(flip(n.name(now, own, "x")))
	}
	if id := newID("msg", 0, 1, "a"); len(id) != 30 || !strings.HasPrefix(id, "msg_000000000001") {
		t.Error(id)
	}
}

func flip(id string, at int64) (string, int64) { return id, at }

// A utility turn has no row. What the tree says of it is exported nevertheless.
func TestGuideHasDefectsOfUtilityTurns(t *testing.T) {
	s, m := recordedRun()
	turn := s.Runs[0].Turns[0]
	turn.Purpose = spans.PurposeUtility
	turn.Defects = append(turn.Defects, session.Defect{Code: spans.DefectToolCallMissing, Detail: "0 of 1 arrived"})
	turn.Permissions = append(turn.Permissions, &session.Permission{Tool: "probe", Action: spans.ActionDeny})
	var out bytes.Buffer
	must.Get(JSONL(&out, session.Tree{Session: s, Blocks: &m.blocks}, Options{Partial: true}))(t)
	for _, want := range []string{`"tool":"probe","action":"deny"`, `"code":"tool_call_missing"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

// fullDisk takes some bytes and no more.
type fullDisk struct{ room int }

var errFull = errors.New("disk full")

func (w *fullDisk) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	s, m := recordedRun()
	whole, empty := session.Tree{Session: s, Blocks: &m.blocks}, session.Tree{Session: &session.Session{ID: "s"}}
	for name, write := range map[string]func(io.Writer, session.Tree, Options) ([]Missing, error){
		"json": JSON, "jsonl": JSONL, "csv": CSV, "acp": ACP, "phi-core": PhiCore,
	} {
		if _, err := write(&fullDisk{room: 100}, whole, Options{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := write(io.Discard, empty, Options{}); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
		checkMissing(t, name, write)
	}
}

// checkMissing checks that a reply that did not arrive stops an export, and that Options.Partial writes the rest.
func checkMissing(t *testing.T, name string, write func(io.Writer, session.Tree, Options) ([]Missing, error)) {
	t.Helper()
	s, _ := recordedRun()
	var some session.BlockSet
	for _, body := range []string{user, result, `{"k": [1, 2]}`, `"sys"`} {
		some.Add(session.Block{Body: body})
	}
	var out bytes.Buffer
	missing, err := write(&out, session.Tree{Session: s, Blocks: &some}, Options{})
	var named *MissingError
	if !errors.As(err, &named) || !errors.Is(err, ErrContent) || out.Len() > 0 || len(missing) == 0 {
		t.Fatalf("%s: %d bytes, %v", name, out.Len(), err)
	}
	id := spans.BlockOfString(`{"turnId":{"loopId":"s.cfg.1","turnIndex":0},` + assistant[1:]).Short().String()
	want := "s.cfg.1@2026-05-28T20:26:40.123456789Z/0: output: blocks " + id
	if !slices.ContainsFunc(named.Missing, func(m Missing) bool { return m.String() == want }) {
		t.Errorf("%s: %q is not among %v", name, want, named.Missing)
	}
	left, err := write(&out, session.Tree{Session: s, Blocks: &some}, Options{Partial: true})
	if err != nil || len(left) < len(missing) || out.Len() == 0 {
		t.Errorf("%s: %v, %v", name, left, err)
	}
}

// Other programs report whole requests. What is new in one, and no reply or result, came with its turn.
func TestInputOfOtherPrograms(t *testing.T) {
	m := &made{}
	message := func(role, text string) part { return part{fmt.Sprintf(`{"role":%q,"content":%q}`, role, text), "", ""} }
	s := &session.Session{ID: "s", Runs: []*session.Run{{Span: observed(0, 90), ID: "r",
		Status: spans.RunStatusCompleted, Capture: spans.CaptureContent}}}
	r := s.Runs[0]
	r.Recording = "spans"
	history := []part{message("system", "Be brief."), message("user", "yes")}
	for i := range 3 {
		reply := message("assistant", fmt.Sprint("reply ", i))
		r.Turns = append(r.Turns, &session.Turn{Span: observed(int64(10*i), int64(10*i+5)), Index: int64(i),
			Capture: spans.CaptureContent, Output: m.refs(reply),
			Requests: []*session.Request{{Messages: m.refs(history...)}}})
		history = append(history, reply, message("tool", "result"),
			part{`{"role":"system","parts":[{"type":"tool_call","name":"ls","arguments":"{}"}]}`, "", ""})
		if i > 0 {
			history = append(history, message("user", "yes"))
		}
	}
	below := &session.Run{Span: observed(60, 70), ID: "sub", ParentID: "r", Capture: spans.CaptureContent}
	below.Recording = "spans"
	below.Turns = []*session.Turn{{Span: observed(61, 62), Capture: spans.CaptureContent,
		Output:   m.refs(message("assistant", "reply 3")),
		Requests: []*session.Request{{Messages: m.refs(message("user", "yes"))}}}}
	s.Runs = append(s.Runs, below)
	tree := session.Tree{Session: s, Blocks: &m.blocks}
	var got []string
	for row := range rowsOf(t, tree) {
		if row.Type == RowPart && row.Part.Type != "step-start" {
			got = append(got, parse([]byte(row.Part.DataJSON)).Text("text"))
		}
	}
	if want := "[Be brief. yes reply 0 reply 1 yes reply 2 yes reply 3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	var ledger bytes.Buffer
	if _, err := PhiCore(&ledger, tree, Options{Partial: true}); err != nil ||
		strings.Count(ledger.String(), `"text": "yes"`) != 6 { // in the run, and in its turns
		t.Errorf("%v: %s", err, ledger.String())
	}
}

// rowsOf returns the rows of a session in the guide's tables.
func rowsOf(t *testing.T, tree session.Tree) iter.Seq[Row] {
	t.Helper()
	g := must.Get(NewGuide(tree, Options{}))(t)
	return g.Rows()
}

// Spans of other programs may lack the id of a call that the reply has, or be below no turn: each call is one part.
func TestCallsOfOtherPrograms(t *testing.T) {
	m := &made{}
	call := func(id, name, result string) *session.ToolCall {
		return &session.ToolCall{Span: observed(2, 3), ID: id, Name: name, Outcome: spans.OutcomeOK,
			Result: m.refs(part{result, "", ""})}
	}
	s := &session.Session{ID: "s", Runs: []*session.Run{{
		Span: observed(0, 9), ID: "r", Status: spans.RunStatusCompleted, Capture: spans.CaptureContent,
		ToolCalls: []*session.ToolCall{call("0", "cat", "zero")},
		Turns: []*session.Turn{{Span: observed(1, 8), Capture: spans.CaptureContent,
			Output: m.refs(part{`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"ls","input":{}},` +
				`{"type":"tool_use","id":"2","name":"ls","input":{}},` +
				`{"type":"tool_use","id":"3","name":"ls","input":{}}]}`, "", ""}),
			ToolCalls: []*session.ToolCall{call("ls", "ls", "one"), call("ls", "ls", "two"), call("3", "ls", "three")},
		}},
	}}}
	s.Runs[0].Recording = "spans"
	tree := session.Tree{Session: s, Blocks: &m.blocks}
	var got []string
	for row := range rowsOf(t, tree) {
		if id := row.Part; id != nil && id.ToolCallID != nil {
			got = append(got, *id.ToolCallID+" "+parse([]byte(id.DataJSON)).Object("output").Text("data"))
		}
	}
	if want := "[0 zero 1 one 2 two 3 three]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	var ledger bytes.Buffer
	must.Get(PhiCore(&ledger, tree, Options{}))(t)
	for _, id := range []string{"1", "2", "3"} {
		if strings.Count(ledger.String(), `"toolCallId": "`+id+`"`) != 3 { // of the run, of the turn, and its input
			t.Errorf("call %s: %s", id, ledger.String())
		}
	}
}
