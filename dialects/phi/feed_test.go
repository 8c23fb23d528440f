package phi

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestFeed reads server-sent events between the AgentEvents of a feed: AgentEvents under any name are read, what lags
// is counted, and the events of other names are kept.
func TestFeed(t *testing.T) {
	feed := strings.Join([]string{
		"event:agent_event\ndata: " + goodLine, "event: message\ndata:" + goodLine, "data: " + goodLine,
		"event: lagged\ndata: {\"missed\":12}", "event: ping\ndata: {\"at\":1}", "event: done\ndata: [DONE",
		"event: ping", // without data it is none
		"event: renamed\ndata: {\"type\":\"InputRejected\",\"loop_id\":\"s.a.9\",\"reason\":\"no\"}",
		"event: agent_event\ndata: {\"type\":\"InputRejected\",\"loop_id\":\"SECRET", "",
	}, "\n\n")
	d := NewDecoder()
	var got []string
	for ev, err := range d.Events(strings.NewReader(feed)) {
		switch ev := ev.(type) {
		case nil:
			got = append(got, err.Error())
		case *event.DefectFound:
			got = append(got, ev.Detail)
		case *event.Other:
			got = append(got, ev.Type+" "+string(ev.Body))
		case *event.PermissionEvaluated:
			got = append(got, "refused "+ev.Reason)
		default:
			got = append(got, "event")
		}
	}
	want := []string{"event", "event", "event", "12 events", `ping {"at":1}`, `done "[DONE"`, "refused no",
		"phi-core: line 24: JSON ends too early at byte 42"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (input.Stats{Lines: 25, Rejected: 1, Events: 6}); d.Stats() != want {
		t.Errorf("%+v, want %+v", d.Stats(), want)
	}
}

// TestStamp gives events a time of their own under the key ts, whatever their variant.
func TestStamp(t *testing.T) {
	at := time.Date(2026, 5, 25, 10, 0, 7, 0, time.UTC)
	for name, line := range map[string]string{
		"untimed": `{"type":"ToolExecutionStart","loop_id":"s.1","tool_call_id":"c","tool_name":"bash",` +
			`"args":{},"ts":"2026-05-25T10:00:07Z"}`,
		"over its own": `{"ts":1779703207,"type":"TurnStart","loop_id":"s.1","turn_index":0,` +
			`"timestamp":"2026-05-25T10:00:00Z","triggered_by":"User"}`,
		"an update": `{"type":"MessageUpdate","loop_id":"s.1","message":{},"delta":{"Text":{"delta":"a"}},` +
			`"ts":1779703207000}`,
		"of an unknown type": `{"type":"Brand","loop_id":"s.1","timestamp":"2026-05-25T10:00:00Z","ts":1779703207000000}`,
		"around a logged event": `{"ordinal":1,"event":{"type":"InputRejected","loop_id":"s.1","reason":"no"},` +
			`"ts":1779703207000000000}`,
		"inside a logged event": `{"ordinal":1,"event":{"type":"InputRejected","loop_id":"s.1","reason":"no",` +
			`"ts":1779703207.0}}`,
		"of a message": `{"type":"MessageEnd","loop_id":"s.1","message":{"role":"user","content":[],` +
			`"timestamp":1},"ts":"2026-05-25T12:00:07+02:00"}`,
		"of a group": `{"type":"ParallelLoopStart","session_id":"s","loop_ids":["s.1"],` +
			`"timestamp":"2026-05-25T10:00:00Z","ts":1779703207}`,
	} {
		d := NewDecoder()
		n := 0
		for ev, err := range d.Events(strings.NewReader(line + "\n")) {
			if n++; err != nil {
				t.Fatal(name, err)
			}
			if got := metaOf(ev); !got.Time.Equal(at) {
				t.Errorf("%s: %T at %s", name, ev, got.Time)
			}
			if o, ok := ev.(*event.Other); ok && strings.HasSuffix(o.Type, input.UnknownKeys) {
				t.Errorf("%s: %s has unknown keys: %s", name, o.Type, o.Body)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d events, %+v", name, n, d.Stats())
		}
	}
	// One that is no time is a key that we do not know, and kept.
	got := strings.Join(collect(`{"type":"TurnStart","loop_id":"s.1","turn_index":0,"timestamp":"2026-05-25T10:00:00Z",`+
		`"ts":"soon"}`), "")
	if !strings.Contains(got, `{"ts":"soon"}`) || !strings.Contains(got, `"time":"2026-05-25T10:00:00Z"`) {
		t.Errorf("got %s", got)
	}
	// The lines before and after one with a time yield their events unchanged.
	if got := collect(goodLine + "\n" + strings.Replace(goodLine, "}", `,"ts":1779703207}`, 1) + "\n" +
		goodLine); len(got) != 3 || got[0] != strings.Replace(got[2], `"seq":3`, `"seq":1`, 1) ||
		!strings.Contains(got[1], "10:00:07Z") {
		t.Errorf("got %s", got)
	}
}

// metaOf returns what every event has.
func metaOf(ev event.Event) event.Meta {
	return reflect.ValueOf(ev).Elem().FieldByName("Meta").Interface().(event.Meta)
}

// TestSettings fills in what the wire lacks, and nothing else.
func TestSettings(t *testing.T) {
	opts := []input.Settings{{Session: "mine"}, {Agent: "clerk"}, {Provider: "relay"},
		{Rule: spans.UsageRuleExcludesCache}}
	runOf := func(line string) (e event.RunStarted) {
		for ev, err := range NewDecoder(opts...).Events(strings.NewReader(line)) {
			must.Do(t, err)
			if r, ok := ev.(*event.RunStarted); ok {
				e = *r
			}
		}
		return e
	}
	if e := runOf(`{"type":"AgentStart","loop_id":"a.b.1","timestamp":"2026-05-25T10:00:00Z"}`); e.SessionID != "mine" ||
		e.Agent != "clerk" || e.Provider != "relay" {
		t.Errorf("without settings: %+v", e)
	}
	if e := runOf(`{"type":"AgentStart","loop_id":"a.b.1","session_id":"a","agent_id":"x",` +
		`"config_snapshot":{"provider":"openai"},"timestamp":"2026-05-25T10:00:00Z"}`); e.SessionID != "a" ||
		e.Agent != "" || e.AgentID != "x" || e.Provider != "openai" {
		t.Errorf("with all settings: %+v", e)
	}
	// A run that is under way: its session, and the provider of its turns.
	for ev, err := range NewDecoder(opts...).Events(strings.NewReader(strings.Replace(goodLine, "s.1", "a.b.1", 1))) {
		if e := ev.(*event.TurnStarted); err != nil || e.Session != "mine" || e.Provider != "relay" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	for name, test := range map[string]struct {
		config, provider string
		want             spans.UsageRule
	}{
		"nothing has it":      {"null", "relay", spans.UsageRuleExcludesCache},
		"its protocol has it": {`{"api":"open_ai_completions","provider":"relay"}`, "relay", spans.UsageRuleIncludesCache},
		"Anthropic":           {`{"api":"anthropic_messages"}`, "relay", spans.UsageRuleExcludesCache},
		"its provider has it": {"null", "anthropic", spans.UsageRuleExcludesCache},
	} {
		text := `{"type":"AgentStart","loop_id":"s.1","session_id":"s","config_snapshot":` + test.config +
			`,"timestamp":"2026-05-25T10:00:00Z"}
` + goodLine + `
{"type":"TurnEnd","loop_id":"s.1","message":{"role":"assistant","content":[],"provider":"` + test.provider +
			`"},"usage":{"input":1,"output":1},"timestamp":"2026-05-25T10:00:01Z","tool_results":[]}`
		n := 0
		for ev, err := range NewDecoder(opts...).Events(strings.NewReader(text)) {
			if e, ok := ev.(*event.TurnEnded); ok && err == nil {
				if n++; e.Usage.Rule != test.want {
					t.Errorf("%s: %s", name, e.Usage.Rule)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d turns", name, n)
		}
	}
}
