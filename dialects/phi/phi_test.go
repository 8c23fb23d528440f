package phi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

const goodLine = `{"type":"TurnStart","loop_id":"s.1","turn_index":0,"timestamp":"2026-05-25T10:00:00Z",` +
	`"triggered_by":"User"}`

// TestMissingFields takes each key off each variant of the sample: it must be read, but for those that
// testdata/fields.md calls necessary.
func TestMissingFields(t *testing.T) {
	necessary := map[string]bool{"type": true, "loop_id": true, "tool_call_id": true, "payload": true, "loop_ids": true,
		"selected_loop_id": true, "MessageEnd.message": true}
	text := string(read(t, "testdata/sample-variants.ndjson"))
	for line := range strings.Lines(text) {
		var event map[string]json.RawMessage
		must.Do(t, json.Unmarshal([]byte(line), &event))
		var name string
		must.Do(t, json.Unmarshal(event["type"], &name))
		for key := range event {
			for _, value := range []json.RawMessage{nil, json.RawMessage("null")} {
				changed := map[string]json.RawMessage{}
				for k, v := range event {
					changed[k] = v
				}
				if changed[key] = value; value == nil {
					delete(changed, key)
				}
				b := must.Get(json.Marshal(changed))(t)
				got := collect(string(b))
				rejected := len(got) == 1 && strings.HasPrefix(got[0], "error")
				if want := necessary[key] || necessary[name+"."+key]; rejected != want {
					t.Errorf("%s without %s (%s): rejected %v, want %v: %v", name, key, value, rejected, want, got)
				}
			}
		}
	}
}

// TestProvenanceComesBack makes JSON of what was read: the same as was written. What is spelled otherwise than phi-core
// does, but for the order of its members, is kept as it came.
func TestProvenanceComesBack(t *testing.T) {
	if p := input.Provenance([]byte("null")); p != (spans.Provenance{}) {
		t.Errorf("%+v", p)
	}
	for raw, kept := range map[string]bool{
		`{"kind":"system-prompt"}`: false, `{"kind":"steering"}`: false, `{"kind":"follow-up"}`: false,
		`{"kind":"unknown"}`: false, `{"kind":"system"}`: false,
		`{"kind":"identity-block","name":"a\"é","order":3}`:                             false,
		`{"kind":"identity-block","name":"\u00e9","order":3}`:                           true,
		`{"kind":"memory-tier","tier":"long","record_id":""}`:                           false,
		`{"kind":"loop-turn","turn_index":0,"role":"brand-new","message_index":7}`:      false,
		`{"kind":"loop-turn","turn_index":0,"role":"user-message"}`:                     true,
		`{"kind":"loop-turn","turn_index":1.0,"role":"user-message","message_index":0}`: true,
		`{"kind":"loop-turn","turn_index":-1,"role":"user-message","message_index":0}`:  true,
		`{"kind":"loop-turn","turn_index":1,"role":null,"message_index":0}`:             true,
		`{"kind":"identity-block","name":"\ud800","order":1}`:                           true,
		`{"kind":"steering","kind":"steering"}`:                                         true,
		`{"kind":"steering","more":1}`:                                                  true,
		`{"kind":"brand-new"}`:                                                          true,
		`"steering"`:                                                                    true,
		`{}`:                                                                            true,
	} {
		p := input.Provenance([]byte(raw))
		if back := string(p.AppendJSON(nil)); back != raw || (p.Raw != "") != kept || kept && p.Kind != "" {
			t.Errorf("%s: %+v, gives %s", raw, p, back)
		}
	}
}

// TestRunsAreBounded forgets runs that have ended before those that are open.
func TestRunsAreBounded(t *testing.T) {
	rs := &NewDecoder().runs
	rs.start("open", "s")
	for i := range 3 * maxRuns {
		rs.start(fmt.Sprint(i), fmt.Sprint("s", i)).close()
	}
	if rs.byID["open"] == nil {
		t.Error("forgot an open run")
	}
	if len(rs.byID) > maxRuns || len(rs.sessions) > maxRuns {
		t.Errorf("%d runs, %d sessions", len(rs.byID), len(rs.sessions))
	}
}

// TestManyDots finds the session of a run whose id has many dots, in a time that does not grow with their square.
func TestManyDots(t *testing.T) {
	rs, start := &NewDecoder().runs, time.Now()
	for i := range 10 { // Go's maps hash no key while they are small
		rs.meet(fmt.Sprint("s.", i))
	}
	if got := rs.home("s.7." + strings.Repeat(".", 1<<20)); got != "s.7" || time.Since(start) > 5*time.Second {
		t.Errorf("%q after %v", got, time.Since(start))
	}
}

// kinds returns the types of the events that lines give, as Go spells them.
func kinds(t *testing.T, lines ...string) []string {
	t.Helper()
	var got []string
	for ev, err := range NewDecoder().Events(strings.NewReader(strings.Join(lines, "\n"))) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", ev), "*event."))
	}
	return got
}

func TestMessagesThatAreNone(t *testing.T) {
	request := `{"type":"TurnRequest","loop_id":"l","turn_index":0,"payload":{"messages":[%s]}}`
	got := kinds(t, `{"type":"TurnStart","loop_id":"l","turn_index":0}`,
		fmt.Sprintf(request, `1`), fmt.Sprintf(request, `12`), fmt.Sprintf(request, `"a"`), fmt.Sprintf(request, `"a","b"`))
	if want := []string{"TurnStarted", "RequestPrepared", "RequestPrepared", "RequestPrepared",
		"RequestPrepared"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

const (
	replyWithCall = `{"type":"MessageEnd","loop_id":"l","message":{"role":"assistant","content":[{"type":"toolCall",` +
		`"id":"c","name":"bash","arguments":{}}]}}`
	failedResult = `{"type":"MessageEnd","loop_id":"l","message":{"role":"toolResult","content":[],"toolCallId":"c",` +
		`"isError":true}}`
	toolStartLine = `{"type":"ToolExecutionStart","loop_id":"l","tool_call_id":"c","tool_name":"bash","args":{}}`
	toolEndLine   = `{"type":"ToolExecutionEnd","loop_id":"l","tool_call_id":"c","tool_name":"bash",` +
		`"result":{"content":[]},"is_error":true}`
)

func TestFailureIsNoDenial(t *testing.T) {
	turn := `{"type":"TurnStart","loop_id":"l","turn_index":0}`
	for _, tt := range []struct {
		name        string
		lines, want []string
	}{
		{"the stream begins within a turn", []string{replyWithCall, toolStartLine, toolEndLine, failedResult},
			[]string{"ReplyReceived", "ToolStarted", "ToolEnded", "MessageAdded"}},
		{"the start of the call is lost", []string{turn, replyWithCall, toolEndLine, failedResult},
			[]string{"TurnStarted", "ReplyReceived", "ToolEnded", "MessageAdded"}},
		{"denied", []string{turn, replyWithCall, failedResult},
			[]string{"TurnStarted", "ReplyReceived", "ToolStarted", "PermissionEvaluated", "ToolEnded", "MessageAdded"}},
	} {
		if got := kinds(t, tt.lines...); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCallsOfATurnAreBounded(t *testing.T) {
	d := NewDecoder()
	lines := goodLine
	for i := range 3 * maxCalls {
		lines += fmt.Sprintf("\n"+`{"type":"MessageEnd","loop_id":"s.1","message":{"role":"assistant",`+
			`"content":[{"type":"toolCall","id":"c%d"}]}}`, i)
	}
	for _, err := range d.Events(strings.NewReader(lines)) {
		must.Do(t, err)
	}
	if n := len(d.runs.byID["s.1"].calls); n != maxCalls {
		t.Errorf("%d calls are remembered", n)
	}
}

func TestLateLineOpensNoRun(t *testing.T) {
	d := NewDecoder()
	lines := []string{
		`{"type":"AgentStart","session_id":"s","loop_id":"s.1"}`,
		`{"type":"AgentEnd","loop_id":"s.1"}`,
		`{"type":"ProgressMessage","loop_id":"s.1","tool_call_id":"c","tool_name":"x","text":"late"}`,
		`{"type":"ProgressMessage","loop_id":"","tool_call_id":"c","tool_name":"x","text":"of whom?"}`,
		`{"type":"AgentEnd","loop_id":"s.1","messages":[]}`,
	}
	var status spans.RunStatus
	for ev, err := range d.Events(strings.NewReader(strings.Join(lines, "\n"))) {
		must.Do(t, err)
		switch ev := ev.(type) {
		case *event.Other:
			if ev.Run != "" {
				t.Errorf("an event without a run was put into %q", ev.Run)
			}
		case *event.RunEnded:
			status = ev.Status
		}
	}
	if status != spans.RunStatusVetoed {
		t.Errorf("the second end says %q, want vetoed: nothing began before it", status)
	}
}

func TestUnknownEventIsInTheSessionOfItsRun(t *testing.T) {
	for ev, err := range NewDecoder().Events(strings.NewReader(`{"type":"AgentStart","session_id":"s",` +
		`"loop_id":"l"}` + "\n" +
		`{"type":"New","session_id":"elsewhere","loop_id":"l"}`)) {
		if other, ok := ev.(*event.Other); ok && other.Session != "s" || err != nil {
			t.Errorf("%+v, %v", ev, err)
		}
	}
}

func TestRequestTellsTheTurn(t *testing.T) {
	request := `{"type":"TurnRequest","loop_id":"l","turn_index":7,"payload":{},"timestamp":"2026-05-25T10:00:00Z"}`
	for ev, err := range NewDecoder().Events(strings.NewReader(request)) {
		must.Do(t, err)
		turn, ok := ev.(*event.TurnStarted)
		if !ok || *turn.Index != 7 || turn.Start.Source != spans.TimeSourceBound || turn.Start.Time.IsZero() {
			t.Errorf("%+v, want turn 7, started no later than its request", ev)
		}
		break
	}
}

// TestProblemsOfALine reports every problem of a line, whichever member it is of.
func TestProblemsOfALine(t *testing.T) {
	got := kinds(t, `{"type":"TurnEnd","timestamp":5,"usage":{"input":"x"},"tool_results":{}}`)
	want := []string{"phi-core: line 1: TurnEnd: loop_id: missing",
		"phi-core: line 1: TurnEnd: timestamp: want a time in RFC 3339 between 1678 and 2262, got a number",
		"phi-core: line 1: TurnEnd: tool_results: want an array, got an object",
		"phi-core: line 1: TurnEnd: usage.input: want an integer from 0 to 9223372036854775807, got a string"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
