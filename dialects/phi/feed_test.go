package phi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestFeed reads the sample as a server sends it: AgentEvents as server-sent events, some with their data over several lines, between
// comments, retry times, ids, and events of other names. All AgentEvents are read, what lags is counted, and what is foreign is kept.
func TestFeed(t *testing.T) {
	var feed bytes.Buffer
	feed.WriteString(": connected\nretry: 3000\n\n")
	n := 0
	for line := range bytes.Lines(sample(t)) {
		line = bytes.TrimSpace(line)
		n++
		switch {
		case n%7 == 0: // laid out over several lines
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, line, "", "\t"); err != nil {
				t.Fatal(err)
			}
			feed.WriteString("event:agent_event\r\n")
			for part := range bytes.Lines(pretty.Bytes()) {
				feed.WriteString("data: " + strings.TrimSuffix(string(part), "\n") + "\r\n")
			}
			feed.WriteString("\r\n")
		case n%5 == 0:
			feed.WriteString("id: 5\nevent: agent_event\ndata:" + string(line) + "\n\n: keep-alive\n\n")
		case n%3 == 0:
			feed.WriteString("data: " + string(line) + "\n\n")
		default:
			feed.WriteString("event: agent_event\ndata: " + string(line) + "\n\n")
		}
	}
	feed.WriteString("event: lagged\ndata: {\"missed\":12}\n\n")
	feed.WriteString("event: lagged\ndata: {}\n\n")
	feed.WriteString("event: ping\ndata: {\"at\":1}\n\n")
	feed.WriteString("event: done\ndata: [DONE\n\n")
	feed.WriteString("event: ping\n\n") // without data it is none
	feed.WriteString("event: renamed\ndata: {\"type\":\"InputRejected\",\"loop_id\":\"s.a.9\",\"reason\":\"no\"}\n\n")
	feed.WriteString("event: agent_event\ndata: {\"type\":\"InputRejected\",\"loop_id\":\"SECRET\n\n")

	d := NewDecoder()
	agentEvents, rest, errs := 0, []string{}, []string{}
	for ev, err := range d.Events(bytes.NewReader(feed.Bytes())) {
		if err != nil {
			errs = append(errs, err.Error())
			continue
		}
		switch ev := ev.(type) {
		case *event.DefectFound:
			rest = append(rest, string(ev.Code)+": "+ev.Detail)
		case *event.Other:
			if ev.Type == "ping" || ev.Type == "done" {
				rest = append(rest, ev.Type+" "+string(ev.Body))
				continue
			}
			agentEvents++
		case *event.PermissionEvaluated:
			if ev.Run == "s.a.9" {
				rest = append(rest, "renamed "+ev.Reason)
				continue
			}
			agentEvents++
		default:
			agentEvents++
		}
	}
	if got := strings.Join(rest, "\n"); got != "event_lost: 12 events\nevent_lost: \nping {\"at\":1}\ndone \"[DONE\"\nrenamed no" {
		t.Errorf("got\n%s", got)
	}
	if len(errs) != 1 || !strings.Contains(errs[0], "JSON ends too early") || strings.Contains(errs[0], "SECRET") {
		t.Errorf("errors %q", errs)
	}
	if alone := len(collect(string(sample(t)))); agentEvents != alone {
		t.Errorf("%d events of the feed, %d of the lines", agentEvents, alone)
	}
	if got := d.Stats(); got.Events != int64(n)+3 || got.Rejected != 1 {
		t.Errorf("Stats = %+v after %d events", got, n)
	}
}

// TestStamp gives events a time of their own under the key ts, whatever their variant.
func TestStamp(t *testing.T) {
	at := time.Date(2026, 5, 25, 10, 0, 7, 0, time.UTC)
	for name, line := range map[string]string{
		"untimed":               `{"type":"ToolExecutionStart","loop_id":"s.1","tool_call_id":"c","tool_name":"bash","args":{},"ts":"2026-05-25T10:00:07Z"}`,
		"over its own":          `{"ts":1779703207,"type":"TurnStart","loop_id":"s.1","turn_index":0,"timestamp":"2026-05-25T10:00:00Z","triggered_by":"User"}`,
		"an update":             `{"type":"MessageUpdate","loop_id":"s.1","message":{},"delta":{"Text":{"delta":"a"}},"ts":1779703207000}`,
		"of an unknown type":    `{"type":"Brand","loop_id":"s.1","timestamp":"2026-05-25T10:00:00Z","ts":1779703207000000}`,
		"around a logged event": `{"ordinal":1,"event":{"type":"InputRejected","loop_id":"s.1","reason":"no"},"ts":1779703207000000000}`,
		"inside a logged event": `{"ordinal":1,"event":{"type":"InputRejected","loop_id":"s.1","reason":"no","ts":1779703207.0}}`,
		"of a message":          `{"type":"MessageEnd","loop_id":"s.1","message":{"role":"user","content":[],"timestamp":1},"ts":"2026-05-25T12:00:07+02:00"}`,
		"of a group":            `{"type":"ParallelLoopStart","session_id":"s","loop_ids":["s.1"],"timestamp":"2026-05-25T10:00:00Z","ts":1779703207}`,
	} {
		d := NewDecoder()
		n := 0
		for ev, err := range d.Events(strings.NewReader(line + "\n")) {
			if n++; err != nil {
				t.Fatal(name, err)
			}
			if got := metaOf(t, ev); !got.Time.Equal(at) {
				t.Errorf("%s: %T at %s", name, ev, got.Time)
			}
			if o, ok := ev.(*event.Other); ok && strings.HasSuffix(o.Type, unknownKeys) {
				t.Errorf("%s: %s has unknown keys: %s", name, o.Type, o.Body)
			}
		}
		if n != 1 || d.Stats().IgnoredKeys != 0 {
			t.Errorf("%s: %d events, %+v", name, n, d.Stats())
		}
	}
	// One that is no time is a key that we do not know, and kept.
	got := strings.Join(collect(`{"type":"TurnStart","loop_id":"s.1","turn_index":0,"timestamp":"2026-05-25T10:00:00Z","ts":"soon"}`), "")
	if !strings.Contains(got, `{"ts":"soon"}`) || !strings.Contains(got, "Time: 2026-05-25T10:00:00Z") {
		t.Errorf("got %s", got)
	}
	// The lines before and after one with a time yield their events unchanged.
	if got := collect(goodLine + "\n" + strings.Replace(goodLine, "}", `,"ts":1779703207}`, 1) + "\n" + goodLine); len(got) != 3 || got[0] != strings.Replace(got[2], "Seq: 3", "Seq: 1", 1) || !strings.Contains(got[1], "10:00:07Z") {
		t.Errorf("got %s", got)
	}
}

func metaOf(t *testing.T, ev event.Event) event.Meta {
	t.Helper()
	switch ev := ev.(type) {
	case *event.ToolStarted:
		return ev.Meta
	case *event.TurnStarted:
		return ev.Meta
	case *event.ReplyDelta:
		return ev.Meta
	case *event.Other:
		return ev.Meta
	case *event.PermissionEvaluated:
		return ev.Meta
	case *event.MessageAdded:
		return ev.Meta
	case *event.GroupStarted:
		return ev.Meta
	}
	t.Fatalf("a %T", ev)
	return event.Meta{}
}

// TestOwnLines records lines of package ndjson between those of phi-core: one that names no run is of the innermost open run, where that
// is certain.
func TestOwnLines(t *testing.T) {
	start := func(id, parent string) string {
		return `{"type":"AgentStart","agent_id":"a","session_id":"s","loop_id":"` + id + `","parent_loop_id":` + parent + `,"timestamp":"2026-05-25T10:00:00Z"}` + "\n"
	}
	const own = `{"type":"otelagent.permission_evaluated","tool":"bash","action":"allow","source":"project"}` + "\n"
	const cost = `{"type":"otelagent.permission_evaluated","run":"s.x","tool":"bash","action":"ask"}` + "\n"
	end := func(id string) string {
		return `{"type":"AgentEnd","loop_id":"` + id + `","messages":[],"timestamp":"2026-05-25T10:00:09Z"}` + "\n"
	}
	for name, test := range map[string]struct{ text, want string }{
		"before all":      {own, ""},
		"in the only run": {start("s.1", "null") + own, "s.1"},
		"in a child":      {start("s.1", "null") + start("s.2", `"s.1"`) + own, "s.2"},
		"behind a child":  {start("s.1", "null") + start("s.2", `"s.1"`) + end("s.2") + own, "s.1"},
		"among siblings":  {start("s.1", "null") + start("s.2", "null") + own, ""},
		"its own run":     {start("s.1", "null") + cost, "s.x"},
		"behind the end":  {start("s.1", "null") + end("s.1") + own, ""},
	} {
		out := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(out))
		rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(provider)))
		d := NewDecoder()
		for ev, err := range d.Events(strings.NewReader(test.text)) {
			if err != nil {
				t.Fatal(name, err)
			}
			if p, ok := ev.(*event.PermissionEvaluated); ok && (p.Tool != "bash" || p.Seq != int64(strings.Count(test.text, "\n"))) {
				t.Errorf("%s: %+v", name, p)
			}
			rec.Record(t.Context(), ev)
		}
		rec.Close(t.Context())
		run, got := map[trace.SpanID]string{}, ""
		for _, s := range out.GetSpans() {
			for _, a := range s.Attributes {
				if s.Name == spans.SpanRun && a.Key == spans.RunIDKey {
					run[s.SpanContext.SpanID()] = a.Value.AsString()
				}
			}
		}
		for _, s := range out.GetSpans() {
			if s.Name == spans.SpanPermission {
				got += run[s.Parent.SpanID()]
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %s", name, got, test.want)
		}
		if s := d.Stats(); s.Events != s.Lines || s.Rejected != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// A bad one is reported, and the rest goes on.
	d := NewDecoder()
	var errs []string
	n := 0
	for _, err := range d.Events(strings.NewReader(goodLine + "\n" + `{"type":"otelagent.permission_evaluated","tool":5}` + "\n" + goodLine)) {
		if err != nil {
			errs = append(errs, err.Error())
		} else {
			n++
		}
	}
	if len(errs) != 1 || !strings.HasPrefix(errs[0], "otelagent: line 2: ") || n != 2 || d.Stats().Rejected != 1 || d.Stats().Events != 2 {
		t.Errorf("%d events, %q, %+v", n, errs, d.Stats())
	}
}

// TestSettings fills in what the wire lacks, and nothing else.
func TestSettings(t *testing.T) {
	opts := []input.Option{input.WithSession("mine"), input.WithAgent("clerk"), input.WithProvider("relay"), input.WithUsageRule(spans.UsageRuleExcludesCache)}
	runOf := func(line string) (e event.RunStarted) {
		for ev, err := range Events(strings.NewReader(line), opts...) {
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := ev.(*event.RunStarted); ok {
				e = *r
			}
		}
		return e
	}
	if e := runOf(`{"type":"AgentStart","loop_id":"a.b.1","timestamp":"2026-05-25T10:00:00Z"}`); e.SessionID != "mine" || e.Agent != "clerk" || e.Provider != "relay" {
		t.Errorf("without settings: %+v", e)
	}
	if e := runOf(`{"type":"AgentStart","loop_id":"a.b.1","session_id":"a","agent_id":"x","config_snapshot":{"provider":"openai"},"timestamp":"2026-05-25T10:00:00Z"}`); e.SessionID != "a" || e.Agent != "" || e.AgentID != "x" || e.Provider != "openai" {
		t.Errorf("with all settings: %+v", e)
	}
	// A run that is under way: its session, and the provider of its turns.
	for ev, err := range Events(strings.NewReader(strings.Replace(goodLine, "s.1", "a.b.1", 1)), opts...) {
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
		text := `{"type":"AgentStart","loop_id":"s.1","session_id":"s","config_snapshot":` + test.config + `,"timestamp":"2026-05-25T10:00:00Z"}
` + goodLine + `
{"type":"TurnEnd","loop_id":"s.1","message":{"role":"assistant","content":[],"provider":"` + test.provider + `"},"usage":{"input":1,"output":1},"timestamp":"2026-05-25T10:00:01Z","tool_results":[]}`
		n := 0
		for ev, err := range Events(strings.NewReader(text), opts...) {
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
