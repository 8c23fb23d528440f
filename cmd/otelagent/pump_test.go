package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

// sentFiles returns what a store holds after commands that each send some files, with all content: the tree of each
// session as JSON, each line of it a value, and behind it each request, or what is missing of it.
func sentFiles(t *testing.T, commands ...[]string) map[string]string {
	t.Helper()
	ctx, st, made := t.Context(), memstore.New(), 0
	for _, files := range commands {
		r := recording{
			app:  &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard},
			name: strings.Join(files, ", "), store: st,
			ids: func() string { made++; return fmt.Sprint("generated ", made) },
		}
		must(t, r.read(ctx, files, auto))
	}
	must(t, project.Refresh(ctx, st))
	out := map[string]string{}
	for summary, err := range st.Sessions(ctx, store.Query{}) {
		must(t, err)
		rd := &reader.Reader{Store: st}
		tree, err := rd.Load(ctx, summary.Key)
		must(t, err)
		text, err := json.MarshalIndent(tree.Session, "", " ")
		must(t, err)
		var b strings.Builder
		b.Write(text)
		requests(&b, tree, tree.Runs)
		out[summary.Key.ID] = b.String()
	}
	return out
}

func requests(b *strings.Builder, tree session.Tree, runs []*session.Run) {
	for _, run := range runs {
		for _, turn := range run.Turns {
			for _, q := range turn.Requests {
				p := q.Payload(tree.Blocks)
				fmt.Fprintf(b, "\n%s/%d/%d %s %v %v", run.ID, turn.Index, q.Attempt, p.Bytes, p.Missing, p.Defects)
			}
		}
	}
}

// stored returns what is in a database after files were sent to it: the tree of the session as JSON.
func stored(t *testing.T, id string, o sendOptions) string {
	t.Helper()
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	o.From, o.DB = auto, filepath.Join(t.TempDir(), "sessions.db")
	for range 2 { // the second time changes nothing, unless it is another recording
		if _, err := a.deliver(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if o.Now {
			break
		}
	}
	db, err := a.open(t.Context(), o.DB)
	must(t, err)
	defer db.close()
	key, err := db.Resolve(t.Context(), id)
	must(t, err)
	tree, err := db.Load(t.Context(), key)
	must(t, err)
	if n := len(tree.Runs); n != 1 {
		t.Errorf("%d runs", n)
	}
	text, err := json.MarshalIndent(tree.Session, "", " ")
	must(t, err)
	return string(text)
}

// What was read to find the name of the agent is recorded as it was, though the lines of a pipe come one by one.
func TestFactsBeforeTheAgent(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		for _, line := range []string{
			`{"type":"otelagent.fact_stated","session":"s","facts":[{"subject":"session","key":"title","value":"the title"}]}`,
			`{"type":"otelagent.run_started","session":"s","run":"r","agent":"` + strings.Repeat("a", 200) + `"}`,
		} {
			_, _ = io.WriteString(w, line+"\n")
		}
		w.Close()
	}()
	s := source{r: r}
	s.dialect, _ = dialects.Named(ndjson.Dialect)
	p := &pump{o: &sendOptions{}, in: &sources{list: []source{s}}}
	if name := p.agent(); len(name) != 200 {
		t.Errorf("the agent is %q", name)
	}
	for ev, err := range p.eventsOf(p.in.list[0]) {
		must(t, err)
		if f, ok := ev.(*event.FactStated); ok && string(f.Facts[0].Value) != `"the title"` {
			t.Errorf("the fact is %s", f.Facts[0].Value)
		}
	}
}

// A run whose start is not in the file is of the agent that is given.
func TestAgentOfARunWithoutStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cut.ndjson")
	must(t, os.WriteFile(file, []byte(`{"type":"TurnStart","loop_id":"s.1","turn_index":0,`+
		`"timestamp":"2026-05-25T10:00:00Z","triggered_by":"User"}`+"\n"), 0o600))
	text := stored(t, "s", sendOptions{Files: []string{file}, Agent: "coder"})
	if !strings.Contains(text, `"agent": "coder"`) {
		t.Errorf("%s", text)
	}
}

// A file without times happened when it was last written, and is one run when it is sent again.
func TestUntimedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "untimed.ndjson")
	const lines = `{"type":"otelagent.fact_stated","session":"untimed",` +
		`"facts":[{"subject":"session","key":"title","value":"t"}]}
{"type":"otelagent.run_started","session":"untimed","run":"r"}
{"type":"otelagent.turn_started","session":"untimed","run":"r"}
{"type":"otelagent.turn_ended","session":"untimed","run":"r"}
{"type":"otelagent.run_ended","session":"untimed","run":"r"}
`
	must(t, os.WriteFile(file, []byte(lines), 0o600))
	written := time.Date(2026, 8, 1, 10, 0, 0, 123, time.UTC)
	must(t, os.Chtimes(file, written, written))
	text := stored(t, "untimed", sendOptions{Files: []string{file}})
	if strings.Contains(text, "1970-") || strings.Count(text, written.Format(time.RFC3339Nano)) < 4 {
		t.Errorf("%s, want all of it at %v", text, written)
	}
}

// With --now a recording ends now, and is otherwise what it was.
func TestNow(t *testing.T) {
	const lines = `{"type":"otelagent.run_started","ts":"2026-08-01T10:00:00Z","session":"s","run":"r"}
{"type":"otelagent.turn_started","ts":"2026-08-01T10:00:01Z","session":"s","run":"r"}
{"type":"otelagent.message_added","run":"r","message":{"role":"user","content":"hi"}}
{"type":"otelagent.turn_ended","ts":"2026-08-01T10:00:03.5Z","session":"s","run":"r",` +
		`"output":{"role":"assistant","content":"ho"}}
{"type":"otelagent.run_ended","ts":"2026-08-01T10:00:04Z","session":"s","run":"r"}
`
	file := filepath.Join(t.TempDir(), "timed.ndjson")
	must(t, os.WriteFile(file, []byte(lines), 0o600))
	o := sendOptions{Files: []string{file}, Capture: "content"}
	was, before := stored(t, "s", o), time.Now()
	o.Now = true
	is, after := stored(t, "s", o), time.Now()
	clock := regexp.MustCompile(`"(\d{4}-\d\d-\d\dT[\d:.]+Z)"`)
	want, got := clock.FindAllStringSubmatch(was, -1), clock.FindAllStringSubmatch(is, -1)
	if len(want) != len(got) || len(got) < 6 {
		t.Fatalf("%d times, want %d, of\n%s", len(got), len(want), is)
	}
	var last time.Time
	shifts := map[time.Duration]bool{}
	for i := range got {
		then, _ := time.Parse(time.RFC3339Nano, want[i][1])
		now, _ := time.Parse(time.RFC3339Nano, got[i][1])
		shifts[now.Sub(then)] = true
		if now.After(last) {
			last = now
		}
	}
	if len(shifts) != 1 {
		t.Errorf("times moved by %v", shifts)
	}
	if last.Before(before) || last.After(after) {
		t.Errorf("it ended at %v, and it was sent between %v and %v", last, before, after)
	}
}

// The times of one file have no effect on another one, which has none.
func TestTimesStayInTheirFile(t *testing.T) {
	timed, untimed := filepath.Join("..", "..", "dialects", "phi", "testdata", "sample-session.ndjson"),
		filepath.Join(t.TempDir(), "untimed.ndjson")
	const lines = `{"type":"otelagent.run_started","session":"untimed","run":"r"}
{"type":"otelagent.turn_started","session":"untimed","run":"r"}
{"type":"otelagent.turn_ended","session":"untimed","run":"r"}
{"type":"otelagent.run_ended","session":"untimed","run":"r"}
`
	must(t, os.WriteFile(untimed, []byte(lines), 0o600))
	want := sentFiles(t, []string{untimed}, []string{timed})
	want["untimed"] = strings.ReplaceAll(want["untimed"], `"service": "otelagent"`, `"service": "phi-core"`)
	if len(want) < 2 {
		t.Fatalf("%d sessions", len(want))
	}
	for _, files := range [][]string{{untimed, timed}, {timed, untimed}} {
		got := sentFiles(t, files)
		for id := range got { // that of inputs of two kinds is another one
			got[id] = strings.ReplaceAll(got[id], `"service": "otelagent"`, `"service": "phi-core"`)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s in one command (-in two +in one):\n%s", files, d)
		}
	}
}
