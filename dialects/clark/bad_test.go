package clark

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
)

const (
	goodStart = `{"type":"agent_start"}` + "\n" + `{"type":"run_identified","identity":{"run_id":"r-1","depth":0}}` + "\n"
	goodEnd   = `{"type":"agent_end","messages":[]}` + "\n"
)

// TestBadLines puts each bad line into a good run: it is reported with its number and without its content, and the run
// is whole.
func TestBadLines(t *testing.T) {
	for _, test := range []struct {
		name, line, want string
		read             bool // events are made of the line all the same
	}{
		{"truncated", `{"type":"turn_start","x":"SECRET`, `JSON ends too early at byte 33`, false},
		{"malformed", `{"type":"turn_start",SECRET}`, `object key is no JSON string at byte 22`, false},
		{"two values", `{"type":"turn_start"}{"SECRET":1}`, `text after the JSON value at byte 22`, false},
		{"not UTF-8", "{\"type\":\"SECRET\xff\"}", `text that is not UTF-8 at byte 16`, false},
		{"too deep", `{"type":"x","y":` + strings.Repeat("[", 208) + strings.Repeat("]", 208) + "}",
			"JSON nested too deeply at byte 224", false},
		{"no object", `["SECRET"]`, `want an object, got an array`, false},
		{"no type", `{"SECRET":1}`, `type: missing, want a string, here or in event, payload or data`, false},
		{"type of another type", `{"type":5}`, `type: want a string, got a number`, false},
		{"nothing inside", `{"ts":1,"event":{"SECRET":1}}`, `type: missing, want a string, here or in event, payload or ` +
			`data`, false},
		{"no object inside", `{"ts":1,"event":"SECRET"}`, `type: missing, want a string, here or in event, payload or data`,
			false},
		{"key twice", `{"type":"turn_end","message":{},"message":{}}`, `turn_end: message: stands there twice`, false},
		{"no message", `{"type":"message_end"}`, `message_end: message: missing`, false},
		{"message of another type", `{"type":"message_end","message":"SECRET"}`,
			`message_end: message: want an object, got a string`, false},
		{"no call id", `{"type":"tool_execution_start","tool_name":"SECRET"}`, `tool_execution_start: tool_call_id: missing`,
			false},
		{"is_error", `{"type":"tool_execution_end","tool_call_id":"c","is_error":"SECRET"}`,
			`tool_execution_end: is_error: want a boolean, got a string`, false},
		{"result", `{"type":"tool_execution_end","tool_call_id":"c","result":"SECRET"}`,
			`tool_execution_end: result: want an object, got a string`, false},
		{"results", `{"type":"turn_end","tool_results":{}}`, `turn_end: tool_results: want an array, got an object`, false},
		{"iteration", `{"type":"provider_request_prepared","iteration":"SECRET"}`,
			`provider_request_prepared: iteration: want a number, got a string`, false},
		{"messages", `{"type":"provider_request_prepared","messages":"SECRET"}`,
			`provider_request_prepared: messages: want an array, got a string`, false},
		{"allow", `{"type":"tool_gate_applied","allow":"SECRET"}`, `tool_gate_applied: allow: want an array, got a string`,
			false},
		{"identity", `{"type":"run_identified","identity":"SECRET"}`,
			`run_identified: identity: want an object, got a string`, false},
		{"identity without id", `{"type":"run_identified","identity":{"run_id":5}}`,
			`run_identified: identity.run_id: want a string that is not empty; the run is one without identity`, true},
		{"time", `{"ts":"SECRET","event":{"type":"turn_start"}}`,
			`turn_start: ts: want a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since ` +
				`1970`, true},
		{"sequence", `{"seq":-1,"event":{"type":"turn_start"}}`,
			`turn_start: seq: want an integer from 0 to 9223372036854775807`, true},
		{"sequence of an unknown type", `{"type":"SECRET","seq":-1}`, `seq: want an integer from 0 to 9223372036854775807`,
			true},
		{"usage", `{"type":"turn_end","message":{"role":"assistant","content":[],"usage":{"input_tokens":-1,` +
			`"output_tokens":2}}}`, `turn_end: message.usage.input_tokens: want an integer from 0 to 9223372036854775807`, true},
		{"usage of another type", `{"type":"turn_end","message":{"role":"assistant","content":[],"usage":"SECRET"}}`,
			`turn_end: message.usage: want an object, got a string`, true},
		{"usage beyond", `{"type":"turn_end","message":{"role":"assistant","content":[],` +
			`"usage":{"input_tokens":9223372036854775808}}}`, `turn_end: message.usage.input_tokens: want an integer from 0 ` +
			`to 9223372036854775807`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder()
			var got []string
			var ends int
			for ev, err := range d.Events(strings.NewReader(goodStart + test.line + "\n" + goodEnd)) {
				if err == nil {
					if e, ok := ev.(*event.RunEnded); ok && e.Run == "r-1" {
						ends++
					}
					continue
				}
				var bad *input.LineError
				if ev != nil || !errors.As(err, &bad) || bad.Line != 3 || bad.Seq != 3 || bad.Dialect != Dialect {
					t.Fatalf("event %v, error %#v", ev, err)
				}
				if bad.Cut != strings.Contains(test.want, "too early") {
					t.Errorf("Cut = %v", bad.Cut)
				}
				got = append(got, err.Error())
			}
			if diff := cmp.Diff([]string{"clark-agent: line 3: " + test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got, ""), "SECRET") {
				t.Error("the error holds content")
			}
			events := int64(3)
			if test.read {
				events++
			}
			if want := (input.Stats{Lines: 4, Rejected: 1, Events: events}); d.Stats() != want || ends != 1 {
				t.Errorf("%+v, want %+v; %d ends of the run", d.Stats(), want, ends)
			}
		})
	}
}

func TestLines(t *testing.T) {
	good := `{"type":"turn_start"}`
	for _, test := range []struct {
		name, text string
		max        int
		events     int64
		errs       []string
	}{
		{"the same number", `{"seq":7,"event":` + good + "}\n" + `{"seq":8,"event":{"type":"turn_end"}}` + "\n" +
			`{"seq":7,"event":` + good + "}\n", 0, 2,
			[]string{"clark-agent: line 3: turn_start: seq: the same as of a line before; the line is passed over"}},
		{"a lower number", `{"seq":7,"event":` + good + "}\n" + `{"seq":6,"event":{"type":"turn_end"}}` + "\n", 0, 2,
			[]string{"clark-agent: line 2: turn_end: seq: lower than that of a line before; the line is read where it stands"}},
		{"numbers anew", `{"seq":7,"event":` + good + "}\n" + `{"seq":0,"event":{"type":"agent_start"}}` + "\n" +
			`{"seq":1,"event":` + good + "}\n", 0, 3, nil},
		{"a record twice", strings.Repeat(`{"schema_version":1,"seq":3,"run_id":"r","depth":0,`+
			`"recorded_at_unix_ms":1795224897435,"payload":{"kind":"turn_started"}}`+"\n", 2), 0, 1,
			[]string{"clark-agent: line 2: turn_started: seq: the same as of a line before; the line is passed over"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder(nil, input.WithMaxLine(test.max))
			var errs []string
			for _, err := range d.Events(iotest.HalfReader(strings.NewReader(test.text))) {
				if err != nil {
					errs = append(errs, err.Error())
				}
			}
			if diff := cmp.Diff(test.errs, errs); diff != "" || d.Stats().Events != test.events {
				t.Errorf("%d events, want %d (-want +got):\n%s", d.Stats().Events, test.events, diff)
			}
		})
	}
}

func TestTrajectoryThatFails(t *testing.T) {
	d := NewDecoder()
	d.WithTrajectory(io.MultiReader(strings.NewReader("{\"SECRET\n"+`{"type":"turn_start"}`+"\n"),
		iotest.ErrReader(errors.New("broken"))))
	want := []string{
		`error: clark-agent: line 2: trajectory line 1 : JSON ends too early at byte 9`,
		`error: clark-agent: line 2: trajectory line 2 : no record that is known`,
		`error: clark-agent: line 2: trajectory: read: broken`,
	}
	var got []string
	for _, line := range collect(d, goodStart+goodEnd) {
		if strings.HasPrefix(line, "error") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sent sends text through the whole pipeline.
func sent(t *testing.T, text []byte) (got *tree, bad int) {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range Events(bytes.NewReader(text), input.WithSession("given")) {
		if err != nil {
			bad++
			continue
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return treeOf(t, p), bad
}

// TestLostLines takes each line off a recording in turn: the runs and their order stay, and so does each turn that the
// line is not of.
func TestLostLines(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends 200 recordings")
	}
	for _, name := range []string{"multi-turn-tools", "child-shared-sink", "output-tokens-escalation"} {
		text := readFile(t, "testdata/clark-agent-0.4.0/"+name+".enveloped.ndjson")
		lines := bytes.SplitAfter(text, []byte("\n"))
		whole, _ := sent(t, text)
		for i := range lines[:len(lines)-1] {
			l := lineOf(t, lines[i])
			broken := append([]byte("{\"type\":\"cut"), '\n')
			in := bytes.Join(append(append(append([][]byte{}, lines[:i]...), broken), lines[i+1:]...), nil)
			got, bad := sent(t, in)
			if bad != 1 {
				t.Errorf("%s without line %d: %d errors", name, i+1, bad)
			}
			if l.variant == "run_identified" || l.variant == "agent_start" {
				continue // the run has another id, or its start is another line
			}
			if len(got.Runs) != len(whole.Runs) {
				t.Errorf("%s without line %d, %s: %d runs, want %d", name, i+1, l.name, len(got.Runs), len(whole.Runs))
				continue
			}
			other := 0
			for j, r := range whole.Runs {
				if len(got.Runs[j].Turns) != len(r.Turns) {
					t.Errorf("%s without line %d, %s: run %d has %d turns, want %d", name, i+1, l.name, j, len(got.Runs[j].Turns),
						len(r.Turns))
					continue
				}
				for k, turn := range r.Turns {
					if !cmp.Equal(turn, got.Runs[j].Turns[k], cmpopts.EquateEmpty()) {
						other++
					}
				}
			}
			if other > 1 {
				t.Errorf("%s without line %d, %s: %d turns are other ones", name, i+1, l.name, other)
			}
		}
	}
}
