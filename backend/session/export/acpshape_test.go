package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// short says what a trace holds, a line a message, without what is the same everywhere.
func short(t *testing.T, trace []byte) []string {
	t.Helper()
	var l []string
	for _, line := range bytes.Split(bytes.TrimSuffix(trace, []byte("\n")), []byte("\n")) {
		var m struct {
			Direction string
			Message   struct {
				ID            *int64
				Method        string
				Params        json.RawMessage
				Result, Error json.RawMessage
			}
		}
		must.Do(t, json.Unmarshal(line, &m))
		o := parse(m.Message.Params)
		switch {
		case m.Message.Method == "session/update":
			l = append(l, string(o.Spelled("update")))
		case m.Message.Method == "session/prompt":
			l = append(l, "prompt "+string(o.Spelled("prompt"))+string(o.Spelled("_meta")))
		case m.Message.Method == "session/request_permission":
			l = append(l, "permission "+string(o.Spelled("toolCall")))
		case m.Message.Method != "":
			l = append(l, m.Message.Method)
		default:
			l = append(l, "= "+string(m.Message.Result)+string(m.Message.Error))
		}
	}
	return l[4:] // initialize, session/new
}

// How runs end, in the words of ACP.
func TestACPStopReasons(t *testing.T) {
	completed := spans.RunStatusCompleted
	for _, c := range []struct {
		status          spans.RunStatus
		word, stop, err string
		want            string // the stop reason, or the error after a colon
	}{
		{completed, "", "stop", "", "end_turn"}, {completed, "", "toolUse", "", "end_turn"},
		{completed, "", "length", "", "max_tokens"}, {completed, "", "max_tokens", "", "max_tokens"},
		{completed, "", "content-filter", "", "refusal"}, {completed, "", "maxTurns", "", "max_turn_requests"},
		{completed, "max_turn_requests", "stop", "", "max_turn_requests"},
		{completed, "", "error", "overloaded", ":overloaded"},
		{spans.RunStatusRejected, "", "", "", "refusal"}, {spans.RunStatusAborted, "", "", "", "cancelled"},
		{spans.RunStatusCancelled, "", "", "", "cancelled"},
		{spans.RunStatusError, "", "", "no credit", ":no credit"}, {spans.RunStatusError, "", "", "", ":internal error"},
	} {
		p := &prompt{run: &session.Run{Status: c.status, StatusWord: c.word},
			turn: &session.Turn{StopReason: c.stop, Error: c.err}}
		reason, failed := stopOf(p, true)
		if got := strings.TrimSuffix(reason+":"+failed, ":"); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

// Rows that are rewound or wait in a queue are not part of the conversation.
func TestACPLeavesOut(t *testing.T) {
	m := &made{}
	fact := func(subject, key, value string) session.Fact {
		id := spans.BlockOfString(value).Short().String()
		m.blocks.Add(session.Block{Body: value})
		return session.Fact{Subject: subject, Key: key, At: ms(300), Value: &session.Ref{Block: id}}
	}
	run := func(from int64, id string) *session.Run {
		return &session.Run{Span: observed(from, from+9), ID: id, Status: spans.RunStatusCompleted,
			Capture: spans.CaptureContent, Turns: []*session.Turn{{
				Span: observed(from+1, from+8), Capture: spans.CaptureContent,
				Input:  m.refs(part{`{"role":"user","content":"say ` + id + `"}`, "", `{"id":"u-` + id + `"}`}),
				Output: m.refs(part{`{"role":"assistant","content":"` + id + `"}`, "", `{"id":"a-` + id + `"}`}),
			}}}
	}
	waiting := &session.Run{Span: observed(60, 60), ID: "waits", Status: spans.RunStatusOpen,
		Capture: spans.CaptureContent,
		Messages: m.refs(part{`{"role":"user","content":"later"}`, "", `{"id":"u-waits"}`},
			part{`{"role":"user","content":"never"}`, "", `{"id":"u-never"}`})}
	system := run(30, "kept")
	system.Turns[0].Input = m.refs(part{`{"role":"system","content":"be short"}`, "", ""},
		part{`{"role":"user","content":"say kept"}`, "", ""})
	s := &session.Session{ID: "s", Start: ms(0), Runs: []*session.Run{run(10, "gone"), system, waiting},
		Facts: []session.Fact{
			fact("message/a-gone", "hidden_at", "1780000000300"), fact("message/u-gone", "hidden_at", "1780000000300"),
			fact("message/u-never", "queue_canceled_at", "1780000000300"), fact("message/u-waits", "queued_at", "1780000000300"),
			fact("session", "title", `"a title"`),
		}}
	var out bytes.Buffer
	missing := must.Get(ACP(&out, session.Tree{Session: s, Blocks: &m.blocks}, Options{}))(t)
	want := []string{
		`prompt [{"type":"text","text":"say kept"}]`,
		`{"sessionUpdate":"agent_message_chunk","messageId":"a-kept","content":{"type":"text","text":"kept"}}`,
		`= {"stopReason":"end_turn"}`,
		`{"sessionUpdate":"session_info_update","title":"a title"}`,
	}
	if d := gocmp.Diff(want, short(t, out.Bytes())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if l := []Missing{{Where: "s",
		What: "ACP has no place for messages of the role system (1)"}}; !slices.Equal(missing, l) {
		t.Errorf("missing %v", missing)
	}
}

// A trace names what only it needs: notes of a session from ACP, and options.
func TestACPNamesWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	lost := &session.Ref{Block: spans.BlockOfString("lost").Short().String()}
	mine := &made{}
	run := &session.Run{Span: observed(0, 9), ID: "prompt-1", Dialect: acpDialect, Status: spans.RunStatusCompleted,
		Capture: spans.CaptureContent, Turns: []*session.Turn{{
			Span: observed(0, 8), Capture: spans.CaptureContent,
			Remarks: session.Remarks{Events: []session.Note{{Time: ms(1), Type: "plan", Body: lost}}},
			Input:   mine.refs(part{`{"role":"user","content":[{"type":"text","text":"go"}]}`, "", ""}),
		}}}
	s := &session.Session{ID: "s", Start: ms(0), Runs: []*session.Run{run}}
	want := []Missing{{Where: whereTurn(run, run.Turns[0]), What: "block " + lost.Block}}
	out.Reset()
	if missing, err := ACP(&out, session.Tree{Session: s, Blocks: &mine.blocks}, Options{}); !errors.Is(err, ErrContent) ||
		!slices.Equal(missing, want) || out.Len() > 0 {
		t.Errorf("%d bytes, %v, %v", out.Len(), missing, err)
	}
	missing, err := ACP(&out, session.Tree{Session: s, Blocks: &mine.blocks}, Options{Partial: true})
	if err != nil || !slices.Contains(missing, want[0]) || !strings.Contains(out.String(), "session/prompt") {
		t.Errorf("%v, %v: %s", missing, err, out.String())
	}
}

// A file of the workspace is a link to where it is, as far as the workspace is known.
func TestACPBlocks(t *testing.T) {
	ref := &builtPart{typ: "file-ref", data: []byte(`{"type":"file-ref","ref":{"path":"a.go"}}`)}
	for cwd, uri := range map[string]string{"/": "file:///a.go", "": "file:///a.go", "/w": "file:///w/a.go"} {
		want := `{"type":"resource_link","uri":"` + uri + `","name":"a.go"}`
		if got := string((&trace{cwd: cwd}).block(ref, true)); got != want {
			t.Errorf("%q: %s", cwd, got)
		}
	}
}
