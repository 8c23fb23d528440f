package phi

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// lined returns the events of text, dumped, and errors between them.
func lined(text []byte, opts ...input.Settings) []byte {
	var out []byte
	for ev, err := range NewDecoder(opts...).Events(bytes.NewReader(text)) {
		if err != nil {
			out = append(out, "error: "+err.Error()+"\n"...)
			continue
		}
		out = append(append(out, agenttest.Dump(ev)...), '\n')
	}
	return out
}

// collect returns the lines that lined returns.
func collect(text string, opts ...input.Settings) []string {
	return strings.Split(strings.TrimSuffix(string(lined([]byte(text), opts...)), "\n"), "\n")
}

// compacted returns JSON without the blanks between its tokens.
func compacted(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, json.Compact(&b, text))
	return b.Bytes()
}

// TestDocumentForms reads one ledger in every form in which it may come: each yields the same events.
func TestDocumentForms(t *testing.T) {
	array := read(t, "testdata/phi-core-0.15.2/two-loops.sessions.json")
	one := bytes.TrimSpace(array)
	one = one[1 : len(one)-1] // two sessions, parted by a comma
	var lines []byte
	c := bytes.Split(one, []byte("\n},\n"))
	for i, part := range c {
		if i < len(c)-1 {
			part = append(bytes.Clone(part), "\n}"...)
		}
		lines = append(append(lines, compacted(t, part)...), '\n')
	}
	want := string(lined(array))
	if n := strings.Count(want, `"event":"run_ended"`); n != 2 {
		t.Fatalf("%d runs", n)
	}
	for name, text := range map[string][]byte{
		"an array":                 array,
		"without blanks":           compacted(t, array),
		"a byte order mark":        append([]byte("\xef\xbb\xbf \n"), array...),
		"sessions on lines":        lines,
		"sessions behind another":  bytes.Replace(one, []byte("\n},\n"), []byte("\n}"), 1),
		"carriage returns":         bytes.ReplaceAll(array, []byte("\n"), []byte("\r\n")),
		"an array behind an array": append([]byte("[] "), array...),
	} {
		if got := string(lined(text)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	d := NewDecoder()
	n := 0
	for _, err := range d.Events(iotest.OneByteReader(bytes.NewReader(array))) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != strings.Count(want, "\n") {
		t.Errorf("%d events byte by byte, want %d", n, strings.Count(want, "\n"))
	}
	if got, want := d.Stats(), (input.Stats{Lines: 8, Events: 8}); got != want { // two sessions of one run of two turns
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

// TestBadDocuments reads what is wrong with a document, where, and without its content; the valid part still yields
// events.
func TestBadDocuments(t *testing.T) {
	const good = `{"loop_id":"s.a.1","started_at":"2026-05-25T10:00:00Z","ended_at":"2026-05-25T10:00:01Z",` +
		`"status":"Completed","turns":[]}`
	for _, test := range []struct {
		name, text string
		max        int
		runs       int
		errs       []string
	}{
		{"nothing", "[]", 0, 0, nil},
		{"no sessions", `[{"SECRET":1},"SECRET",5]`, 0, 0, []string{"[0].session_id: missing",
			"[1]: want a session, got a string", "[2]: want a session, got a number"}},
		{"an array of others", `["SECRET"]`, 0, 0, []string{"line 1: want an object, got an array"}},
		{"another object", `[{"SECRET":1}]`, 0, 0, []string{"[0].session_id: missing"}},
		{"no session", `{"formation":null,"loops":[]}`, 0, 0, []string{"session_id: missing"}},
		{"behind it", `{"loops":[` + good + `],"session_id":"s"} SECRET`, 0, 1, []string{"no JSON value at byte 152"}},
		{"malformed", `{"session_id":"s","loops":[` + good + `,{"loop_id":SECRET`, 0, 0,
			[]string{"no JSON value at byte 161"}},
		{"loops", `{"session_id":"s","scope":null,"loops":{"SECRET":1}}`, 0, 0,
			[]string{"loops: want an array, got an object"}},
		{"session id", `{"scope":null,"session_id":5,"loops":[` + good + `]}`, 0, 1,
			[]string{"session_id: want a string, got a number"}},
		{"too long", `{"session_id":"SECRET","loops":[` + good + `]}`, 100, 0, []string{"longer than 100 bytes"}},
		{"too deep", `{"session_id":"s","loops":[` + good + `,` + strings.Repeat("[", 300), 0, 0,
			[]string{"JSON nested too deeply at byte 356"}},
		{"not UTF-8", `{"session_id":"s","loops":[` + good + `,` + strings.ReplaceAll(good, `"turns":[]`,
			"\"turns\":[{\"turn_id\":{\"turnIndex\":0},\"started_at\":\"2026-05-25T10:00:00Z\","+
				"\"input_messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"SECRET\xff\"}]}]}]") + `]}`,
			0, 2, []string{"text that is not UTF-8 at byte 405"}},
		{"twice", `{"session_id":"s","session_id":"SECRET","loops":[` + good + `]}`, 0, 1,
			[]string{"session_id: stands there twice"}},
		{"no id", `{"session_id":"s","loops":[{"started_at":"2026-05-25T10:00:00Z"},` + good + `]}`, 0, 1,
			[]string{"AgentStart: loops[0].loop_id: missing"}},
		{"messages without a time", `[{"role":"user","kind":"SECRET","data":1}]`, 0, 0,
			[]string{"no message has a timestamp"}},
		{"messages and others", `[{"role":"user","content":[],"timestamp":1779703200000},"SECRET"]`, 0, 1,
			[]string{"[1]: want a message, got a string"}},
		{"a run that its group does not have", `{"session_id":"s","loops":[` + strings.Replace(good, "}",
			`,"parallel_group":{"all_loop_ids":["s.a.2"],"selected_loop_id":"s.a.2"}}`, 1) + `]}`, 0, 1, nil},
		{"zero byte", "[]\x00", 0, 0, []string{"text after the JSON value at byte 3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs := 0
			var errs []string
			for ev, err := range NewDecoder(input.Settings{MaxLine: test.max}).Events(strings.NewReader(test.text)) {
				var bad *input.LineError
				if errors.As(err, &bad) {
					errs = append(errs, strings.TrimPrefix(bad.Error(), "phi-core: "))
				} else if _, ok := ev.(*event.RunStarted); ok {
					runs++
				}
			}
			if runs != test.runs || !slices.Equal(errs, test.errs) {
				t.Errorf("%d runs, errors\n%q\nwant %d,\n%q", runs, errs, test.runs, test.errs)
			}
			if strings.Contains(strings.Join(errs, ""), "SECRET") {
				t.Error("an error holds content")
			}
		})
	}
}

// TestDocumentBounds counts what is left out at the bounds.
func TestDocumentBounds(t *testing.T) {
	loops := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`{"loop_id":"` + strconv.Itoa(i) + `","started_at":"2026-05-25T10:00:00Z","status":"Aborted"},`)
		}
		return `{"session_id":"s","loops":[` + strings.TrimSuffix(b.String(), ",") + `]}`
	}
	runs, errs := 0, 0
	for ev, err := range NewDecoder().Events(strings.NewReader(loops(object.MaxElements + 2))) {
		if _, ok := ev.(*event.RunStarted); ok {
			runs++
		}
		if err != nil {
			errs++
			if want := "phi-core: loops: more than 65536 elements"; err.Error() != want {
				t.Errorf("got %s, want %s", err, want)
			}
		}
	}
	if runs != object.MaxElements || errs != 1 {
		t.Errorf("%d runs, %d errors", runs, errs)
	}
}

// TestWideGroup reads a parallel group of many members in a time that grows with them, not with their square.
func TestWideGroup(t *testing.T) {
	const n = 40_000
	var members strings.Builder
	for i := range n {
		members.WriteString(`,"s.` + strconv.Itoa(i) + `"`)
	}
	text := `{"session_id":"s","loops":[{"loop_id":"s.0","started_at":"2026-05-25T10:00:00Z","status":"Aborted",` +
		`"parallel_group":{"all_loop_ids":[` + members.String()[1:] +
		`],"selected_loop_id":"s.0","selected_config_index":0}}]}`
	start, met := time.Now(), 0
	for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
		must.Do(t, err)
		if g, ok := ev.(*event.GroupStarted); ok {
			met = len(g.Members)
		}
	}
	if d := time.Since(start); met != n || d > 5*time.Second {
		t.Errorf("%d members in %v", met, d)
	}
}

// TestManyGroups reads many runs of one id and group: each is a group of its own, in a time that grows with them.
func TestManyGroups(t *testing.T) {
	const n = 40_000
	run := `,{"loop_id":"s.0","started_at":"2026-05-25T10:00:00Z","status":"Aborted","parallel_group":{` +
		`"all_loop_ids":["s.0","s.1"],"selected_loop_id":"s.0","selected_config_index":0}}`
	text := `{"session_id":"s","loops":[` + strings.Repeat(run, n)[1:] + `]}`
	start, met := time.Now(), 0
	for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
		must.Do(t, err)
		if _, ok := ev.(*event.GroupStarted); ok {
			met++
		}
	}
	if d := time.Since(start); met != n || d > 6*time.Second {
		t.Errorf("%d groups in %v", met, d)
	}
}

// TestMessageArray yields the run that an array of messages is, with what the settings say, and the same run when it
// grew.
func TestMessageArray(t *testing.T) {
	text := read(t, "testdata/ledgers/messages.json")
	first := func(text []byte, opts ...input.Settings) (e event.RunStarted) {
		for ev, err := range NewDecoder(opts...).Events(bytes.NewReader(text)) {
			must.Do(t, err)
			return *ev.(*event.RunStarted)
		}
		return e
	}
	own := first(text)
	if own.ID == "" || own.SessionID != own.ID || own.Recording != spans.RecordingLedger ||
		own.Start.Source != spans.TimeSourceMessage || !own.Start.Time.Equal(own.Time) {
		t.Errorf("%+v", own)
	}
	if asking := first(read(t, "testdata/ledgers/messages-asking.json")); asking.ID != own.ID ||
		!asking.Time.Equal(own.Time) {
		t.Errorf("%s@%s when it was shorter, %s@%s now", asking.ID, asking.Time, own.ID, own.Time)
	}
	set := first(text, input.Settings{Session: "mine"}, input.Settings{Agent: "clerk"}, input.Settings{Provider: "p"})
	if set.SessionID != "mine" || set.ID != own.ID || set.Agent != "clerk" || set.Provider != "p" {
		t.Errorf("%+v", set)
	}
}

// TestEventLog reads phi-core's own durable event log, as 0.15.2 wrote it, and the same events as they came from the
// channel.
func TestEventLog(t *testing.T) {
	read := func(suffix string) []string {
		in := must.Get(os.ReadFile(filepath.Join("testdata", "phi-core-0.15.2", "durable-event-log."+suffix)))(t)
		return collect(string(in))
	}
	channel, log := read("events.ndjson"), read("saved.events.jsonl")
	if len(channel) == 0 || strings.Join(log, "\n") != strings.Join(channel, "\n") {
		t.Errorf("%d events from the log, %d from the channel, or others", len(log), len(channel))
	}
}

// TestLedgerSaysMore reads what only some ledgers have: a call that was skipped, a session that is active at no known
// time, agents of the session, and a spawn reference to a run of the same session, which did not spawn it.
func TestLedgerSaysMore(t *testing.T) {
	const at = `"2026-05-25T10:00:00Z"`
	turn := `{"turn_id":{"loopId":"a.b.2","turnIndex":0},"triggered_by":"User","started_at":` + at + `,"ended_at":` + at +
		`,"output_message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"t","arguments":{}}]},` +
		`"tool_results":[{"role":"toolResult","toolCallId":"c","toolName":"t","isError":true,` +
		`"content":[{"type":"text","text":"Skipped due to queued user message."}]}]}`
	loop := func(more string) string {
		return `{"session_id":"a.b","status":"Completed","started_at":` + at + `,"ended_at":` + at + more + `}`
	}
	got := strings.Join(collect(`{"session_id":"a.b","agent_id":"agent","created_at":`+at+
		`,"parent_spawn_ref":{"parent_session_id":"a","parent_loop_id":"a.b.1","tool_call_id":"x"},"loops":[`+
		loop(`,"loop_id":"a.b.1"`)+","+loop(`,"loop_id":"a.b.2","parent_loop_id":"a.b.1","turns":[`+turn+`]`)+`]}`), "\n")
	for _, want := range []string{`"outcome":"skipped"`, `"agent_id":"agent"`, `"event":"fact_stated"`,
		`"parent_id":"a.b.1","continuation"`} { // no parent session and no call between them
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
