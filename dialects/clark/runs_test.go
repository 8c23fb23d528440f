package clark

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

// begin is the start of a run with an identity, in an envelope with the given keys.
func begin(envelope, identity string) string {
	return fmt.Sprintf("{%[1]s\"event\":{\"type\":\"agent_start\"}}\n{%[1]s\"event\":{\"type\":\"run_identified\","+
		"\"identity\":%[2]s}}\n{%[1]s\"event\":{\"type\":\"turn_start\"}}\n", envelope, identity)
}

func nameless(envelope string) string {
	return fmt.Sprintf("{%[1]s\"event\":{\"type\":\"agent_start\"}}\n{%[1]s\"event\":{\"type\":\"turn_start\"}}"+
		"\n{%[1]s\"event\":{\"type\":\"agent_end\"}}\n", envelope)
}

// TestRuns looks at session, id and parent of runs.
func TestRuns(t *testing.T) {
	for _, test := range []struct {
		name, in, session string
		want              []string // session/run<parent session/parent@call
	}{
		{"a conversation", begin("", `{"run_id":"a","depth":0,"conversation_id":"c"}`), "given", []string{"c/a</@"}},
		{"no conversation", begin("", `{"run_id":"a","depth":0}`), "given", []string{"a/a</@"}},
		{"a child without a conversation", begin("", `{"run_id":"a","depth":0}`) +
			begin("", `{"run_id":"b","depth":1,"parent_run_id":"a"}`), "", []string{"a/a</@", "a/b</a@"}},
		{"a child in another conversation", begin("", `{"run_id":"a","depth":0,"conversation_id":"c"}`) +
			begin("", `{"run_id":"b","depth":1,"parent_run_id":"a","conversation_id":"d"}`), "", []string{"c/a</@", "d/b<c/a@"}},
		{"a child of an unknown root", begin("", `{"run_id":"b","depth":1,"parent_run_id":"a"}`), "given",
			[]string{"a/b</a@"}},
		{"a grandchild of an unknown root", begin("", `{"run_id":"b","depth":2,"parent_run_id":"a"}`), "given",
			[]string{"given/b</a@"}},
		{"no identity", nameless("") + nameless(""), "", []string{"/run#1</@", "/run#2</@"}},
		{"no identity, in a session", nameless(""), "given", []string{"given/given#1</@"}},
		{"no identity, in a stream", nameless(`"stream":"s",`) + nameless(`"stream":"s",`), "given",
			[]string{"given/s#1</@", "given/s#2</@"}},
		{"no identity, the envelope names the run", nameless(`"run_id":"r",`) + nameless(`"run":"q",`), "given",
			[]string{"given/r</@", "given/q</@"}},
		{"streams side by side", begin(`"run":"a",`, `{"run_id":"a","depth":0}`) +
			begin(`"run":"b",`, `{"run_id":"b","depth":0}`) + `{"run":"a","event":{"type":"tool_execution_start",` +
			`"tool_call_id":"x"}}` + "\n" +
			begin(`"run":"c",`, `{"run_id":"c","depth":1,"parent_run_id":"a"}`), "", []string{"a/a</@", "b/b</@", "a/c</a@x"}},
		{"two calls are open", begin("", `{"run_id":"a","depth":0}`) + `{"type":"tool_execution_start","tool_call_id":"x"}` +
			"\n" + `{"type":"tool_execution_start","tool_call_id":"y"}` + "\n" +
			begin("", `{"run_id":"b","depth":1,"parent_run_id":"a"}`), "", []string{"a/a</@", "a/b</a@"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			p := agenttest.New(t)
			rec := event.NewRecorder(p.Tracer())
			for ev, err := range NewDecoder(input.Settings{Session: test.session}).Events(strings.NewReader(test.in)) {
				must.Do(t, err)
				rec.Record(t.Context(), ev)
				if e, ok := ev.(*event.RunStarted); ok {
					if e.Run != e.ID || e.Session != e.SessionID || e.Dialect != Dialect {
						t.Errorf("%+v", e)
					}
					parent := e.ParentSessionID + "/" + e.ParentID
					got = append(got, e.SessionID+"/"+e.ID+"<"+strings.TrimPrefix(parent, "//")+"@")
				}
			}
			rec.Close(t.Context())
			for _, s := range p.Sessions() {
				for _, r := range s.Runs { // the Recorder finds the call
					for i, g := range got {
						if strings.Contains(g, "/"+r.ID+"<") {
							got[i] += r.ParentToolCallID
						}
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSameRunAgain begins runs of one id in an input without any time: their starts differ, and are the same when it is
// read again.
func TestSameRunAgain(t *testing.T) {
	text := strings.Repeat(begin("", `{"run_id":"a","depth":0}`)+`{"type":"agent_end","messages":[]}`+"\n", 3)
	starts := func() (list []time.Time) {
		for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
			must.Do(t, err)
			if e, ok := ev.(*event.RunStarted); ok {
				list = append(list, e.Start.Time)
			}
		}
		return list
	}
	// the first is left to the Recorder, which takes the first nanosecond
	want := []time.Time{{}, time.Unix(0, 2), time.Unix(0, 3)}
	if diff := cmp.Diff(want, starts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTwoInputs reads a recording in two parts with one Decoder: cut anywhere but between a reply and the end of its
// turn, the events are those of the whole.
func TestTwoInputs(t *testing.T) {
	text := string(readFile(t, "testdata/clark-agent-0.4.0/child-shared-sink.enveloped.ndjson"))
	lines := strings.SplitAfter(text, "\n")
	want := collect(NewDecoder(), text)
	same := 0
	for i := range lines {
		d := NewDecoder()
		got := collect(d, strings.Join(lines[:i], ""))
		flushed := false // the end of a turn came from its reply
		for _, s := range d.streams {
			flushed = flushed || slices.ContainsFunc(s.stack, func(r *run) bool { return !r.open && r.reply.raw != nil })
		}
		got = append(got, collect(d, strings.Join(lines[i:], ""))...)
		if !flushed {
			same++
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cut behind line %d (-whole +cut):\n%s", i, diff)
			}
		}
		if s := d.Stats(); s.Lines != int64(len(lines)-1) || s.Rejected != 0 {
			t.Errorf("cut behind line %d: %+v", i, s)
		}
	}
	if same < 20 {
		t.Errorf("only %d cuts could be compared", same)
	}
}
