package agenttest_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of the tests

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/internal/writer"
)

// Sessions in the form of the agent guide go through the whole pipeline in memory, and come back as they were written.

var updateGuide = flag.Bool("update-guide", false, "write the trees of testdata/guide anew")

func guideFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, "dialects", "guide", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// importGuide plays rows as `otelagent send` does with a file, and returns what arrived.
func importGuide(t *testing.T, text []byte) session.Batch {
	t.Helper()
	p := agenttest.New(t, content, writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range guide.Events(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	return closed(t, p, rec)
}

func closed(t *testing.T, p *agenttest.Pipeline, rec *event.Recorder) session.Batch {
	t.Helper()
	if n := rec.Lost(); n > 0 {
		t.Errorf("%d events had no place", n)
	}
	rec.Close(context.Background())
	if r := p.Report(); len(r.Rejected) > 0 || r.Foreign > 0 || r.Cut > 0 {
		t.Fatalf("what we send we must read: %+v", r)
	}
	return p.Batch()
}

// guideTree lists of a tree what a reader looks for, a line each.
func guideTree(b session.Batch) string {
	var w strings.Builder
	for _, s := range session.AssembleAll(b.Rows) {
		fmt.Fprintf(&w, "session %s %s agent=%s usage=%+v\n", s.ID, s.Status, s.Agent, s.Usage)
		for _, d := range s.Defects {
			fmt.Fprintf(&w, "  defect %s %s\n", d.Code, d.Detail)
		}
		for _, r := range s.Runs {
			fmt.Fprintf(&w, "  run %s %s %s..%s agent=%s model=%s/%s", r.ID, r.Status, clock(&r.Span, false), clock(&r.Span, true), r.Agent, r.Provider, r.Model)
			for _, f := range []struct{ key, value string }{{"parent", r.ParentID}, {"parent_session", r.ParentSessionID}, {"fork_of", r.ForkParentID},
				{"continuation", string(r.Continuation)}, {"recording", string(r.Recording)}} {
				if f.value != "" {
					fmt.Fprintf(&w, " %s=%s", f.key, f.value)
				}
			}
			if r.Copied {
				w.WriteString(" copied")
			}
			if r.RollUp != nil {
				fmt.Fprintf(&w, " roll-up=%+v", *r.RollUp)
			}
			fmt.Fprintf(&w, " usage=%+v\n", r.Usage)
			for _, d := range r.Defects {
				fmt.Fprintf(&w, "    defect %s %s\n", d.Code, d.Detail)
			}
			for _, c := range r.Compactions {
				fmt.Fprintf(&w, "    compaction %s %s out=%v target=%s summary=%d\n", c.Kind, c.Trigger, *c.OutputTokens, c.Target, c.Summary.Len())
			}
			for _, turn := range r.Turns {
				fmt.Fprintf(&w, "    turn %d %s..%s %s trigger=%s in=%d out=%d usage=%+v rule=%s\n", turn.Index, clock(&turn.Span, false), clock(&turn.Span, true), turn.Known,
					turn.Trigger, turn.Input.Len(), turn.Output.Len(), turn.Usage, turn.Rule)
				for _, c := range turn.ToolCalls {
					fmt.Fprintf(&w, "      tool %s %s %q %s..%s %s args=%d result=%d error=%q\n", c.ID, c.Name, c.Outcome, clock(&c.Span, false), clock(&c.Span, true), c.Known, c.Args.Len(), c.Result.Len(), c.Error)
					for _, p := range c.Permissions {
						fmt.Fprintf(&w, "        permission %s %q derived=%v\n", p.Action, p.Reason, p.Derived)
					}
				}
			}
		}
		for _, f := range s.Facts {
			fmt.Fprintf(&w, "  fact %s %s %s\n", f.Subject, f.Key, f.At.Format("15:04:05.000"))
		}
	}
	return w.String()
}

func clock(s *session.Span, end bool) string {
	at, source := s.Start, s.StartSource
	if end {
		at, source = s.End, s.EndSource
	}
	return at.Format("15:04:05.000") + "(" + cmp.Or(string(source), "event") + ")"
}

// forms are the inputs in both forms.
var forms = []string{"session.jsonl", "session.canonical.json", "ai-sdk/v6.jsonl", "ai-sdk/v6.json", "ai-sdk/v7.jsonl", "ai-sdk/v7.json"}

func TestGuideTrees(t *testing.T) {
	for _, name := range forms {
		t.Run(name, func(t *testing.T) {
			got := guideTree(importGuide(t, guideFile(t, name)))
			golden := filepath.Join("testdata", "guide", strings.NewReplacer("/", "-", ".jsonl", "", ".canonical.json", "", ".json", "").Replace(name)+".txt")
			if *updateGuide && strings.HasSuffix(name, ".jsonl") { // both forms have one golden
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-want +got, -update-guide writes it anew):\n%s", golden, diff)
			}
		})
	}
}

// TestGuideFormsGiveOneTree compares the whole trees of a document, of lines and of a database.
func TestGuideFormsGiveOneTree(t *testing.T) {
	for i := 0; i < len(forms); i += 2 {
		t.Run(forms[i], func(t *testing.T) {
			// A REAL is spelled as JavaScript does.
			plain := func(b []byte) []byte {
				b = bytes.ReplaceAll(b, []byte(`"cost_usd":0.0,`), []byte(`"cost_usd":0,`))
				return bytes.ReplaceAll(b, []byte(`"cost_usd": 0.0,`), []byte(`"cost_usd":0,`))
			}
			lines := plain(guideFile(t, forms[i]))
			want := trees(t, importGuide(t, lines))
			if diff := gocmp.Diff(want, trees(t, importGuide(t, plain(guideFile(t, forms[i+1]))))); diff != "" {
				t.Errorf("document: %s", diff)
			}
			p := agenttest.New(t, content, writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			for ev, err := range guide.ReadDB(t.Context(), guideDatabase(t, lines)) {
				if err != nil {
					t.Fatal(err)
				}
				rec.Record(context.Background(), ev)
			}
			if diff := gocmp.Diff(want, trees(t, closed(t, p, rec))); diff != "" {
				t.Errorf("database: %s", diff)
			}
		})
	}
}

// guideDatabase makes the guide's tables of lines.
func guideDatabase(t *testing.T, lines []byte) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "sessions.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	run := func(query string, args ...any) {
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE TABLE chat_sessions (id TEXT PRIMARY KEY, agent TEXT NOT NULL, workspace_root TEXT, model_json TEXT NOT NULL, parent_id TEXT,
		parent_message_id TEXT, permissions_json TEXT NOT NULL, metadata_json TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
		completion_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
		total_tokens INTEGER NOT NULL, cost_usd REAL NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, archived_at INTEGER);
	CREATE TABLE chat_messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL, metadata_json TEXT NOT NULL,
		created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
	CREATE TABLE chat_parts (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, "index" INTEGER NOT NULL, type TEXT NOT NULL,
		data_json TEXT NOT NULL, tool_call_id TEXT, tool_state TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);`)
	run("BEGIN")
	for line := range bytes.Lines(lines) {
		var row struct {
			Type string
			Data map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		var names, marks []string
		var values []any
		for name, v := range row.Data {
			if n, ok := v.(json.Number); ok {
				v = n.String()
			}
			names, marks, values = append(names, `"`+name+`"`), append(marks, "?"), append(values, v)
		}
		run(fmt.Sprintf("INSERT INTO chat_%ss (%s) VALUES (%s)", row.Type, strings.Join(names, ","), strings.Join(marks, ",")), values...)
	}
	run("COMMIT")
	return db
}

// TestGuideSentAgain sends a file twice, and after it grew message by message: nothing that was there changes.
func TestGuideSentAgain(t *testing.T) {
	for _, name := range []string{"session.jsonl", "ai-sdk/v7.jsonl"} {
		t.Run(name, func(t *testing.T) {
			text := guideFile(t, name)
			whole := importGuide(t, text)
			want := trees(t, whole)
			if got := trees(t, join(whole, importGuide(t, text))); got != want {
				t.Error("sent twice it is another tree")
			}
			at, n := 0, 0
			for line := range bytes.Lines(text) {
				if bytes.HasPrefix(line, []byte(`{"type":"message"`)) && at > 0 {
					n++
					before := importGuide(t, text[:at])
					if diff := gocmp.Diff(want, trees(t, join(before, whole))); diff != "" {
						t.Fatalf("grown from %d bytes: %s", at, diff)
					}
					if missing := goneSpans(before, whole); len(missing) > 0 {
						t.Fatalf("of %d bytes there was %v, which is no more", at, missing)
					}
				}
				at += len(line)
			}
			if n < 5 {
				t.Errorf("only %d prefixes", n)
			}
		})
	}
}

// goneSpans returns the runs, turns and calls of before that whole does not have. Spans of facts are made for what they state.
func goneSpans(before, whole session.Batch) (gone []string) {
	have := map[string]bool{}
	key := func(r *session.Row) string { return fmt.Sprintf("%s %s/%d %x", r.Kind, r.Run, r.Turn, r.Span) }
	for i := range whole.Rows {
		have[key(&whole.Rows[i])] = true
	}
	for i := range before.Rows {
		if r := &before.Rows[i]; r.Run != "" && !have[key(r)] {
			gone = append(gone, key(r))
		}
	}
	return gone
}

// TestGuideMessageGrows reads a message as its host wrote it, part by part and state by state: the last reading counts.
func TestGuideMessageGrows(t *testing.T) {
	head := `{"type":"session","data":{"id":"ses_1","agent":"a","created_at":1000,"updated_at":1000}}
{"type":"message","data":{"id":"u","session_id":"ses_1","role":"user","metadata_json":"{}","created_at":1001,"updated_at":1001}}
`
	assistant := func(updated int, usage string) string {
		return fmt.Sprintf(`{"type":"message","data":{"id":"a","session_id":"ses_1","role":"assistant","metadata_json":"{%s}","created_at":1002,"updated_at":%d}}`+"\n", usage, updated)
	}
	part := func(index, updated int, data string) string {
		return fmt.Sprintf(`{"type":"part","data":{"id":"p%d","message_id":"a","index":%d,"data":%s,"created_at":%d,"updated_at":%d}}`+"\n", index, index, data, 1010+10*index, updated)
	}
	call := func(state string) string {
		return `{"type":"tool-x","toolCallId":"c","input":{},"state":` + state + `}`
	}
	start, text := `{"type":"step-start"}`, func(s string) string { return `{"type":"text",` + s + `}` }
	stages := []string{
		head,
		head + assistant(1002, "") + part(0, 1010, start),
		head + assistant(1002, "") + part(0, 1010, start) + part(1, 1021, call(`"input-streaming"`)),
		head + assistant(1002, "") + part(0, 1010, start) + part(1, 1022, call(`"approval-requested","approval":{"id":"1"}`)),
		head + assistant(1023, `\"usage\":{\"input\":5}`) + part(0, 1010, start) + part(1, 1023, call(`"approval-responded","approval":{"id":"1","approved":true}`)),
		head + assistant(1023, `\"usage\":{\"input\":5}`) + part(0, 1010, start) + part(1, 1029, call(`"output-available","output":1,"approval":{"id":"1","approved":true}`)),
		head + assistant(1023, `\"usage\":{\"input\":5}`) + part(0, 1010, start) + part(1, 1029, call(`"output-available","output":1,"approval":{"id":"1","approved":true}`)) + part(2, 1030, start) + part(3, 1040, text(`"text":"hal","state":"streaming"`)),
		head + assistant(1050, `\"usage\":{\"input\":12}`) + part(0, 1010, start) + part(1, 1029, call(`"output-available","output":1,"approval":{"id":"1","approved":true}`)) + part(2, 1030, start) + part(3, 1045, text(`"text":"half","state":"done"`)),
	}
	last := importGuide(t, []byte(stages[len(stages)-1]))
	want := strings.Split(guideTree(last), "\n")
	all := last
	for _, stage := range stages {
		all = join(importGuide(t, []byte(stage)), all)
	}
	for name, b := range map[string]session.Batch{"one before the other": all, "backwards": {Rows: reversed(all.Rows), Blocks: all.Blocks}} {
		got := strings.Split(guideTree(b), "\n")
		notFact := func(l []string) []string {
			return slices.DeleteFunc(slices.Clone(l), func(s string) bool { return strings.HasPrefix(s, "  fact ") })
		}
		if diff := gocmp.Diff(notFact(want), notFact(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		s := session.AssembleAll(b.Rows)[0]
		f, one := s.Fact("message/a", "guide.row"), session.AssembleAll(last.Rows)[0].Fact("message/a", "guide.row")
		if f == nil || f.Value.Block != one.Value.Block {
			t.Errorf("%s: the rows of the message are not the last ones", name)
		}
	}
	if usage := session.AssembleAll(all.Rows)[0].Usage; usage.Input != 12 {
		t.Errorf("usage %+v", usage)
	}
}

func reversed(rows []session.Row) []session.Row {
	rows = slices.Clone(rows)
	slices.Reverse(rows)
	return rows
}

// TestGuideUsageCountsOnce holds the rules: what was rewound or aborted was billed, a marker and the row of the session were not, and what a
// fork took over counts where it came from.
func TestGuideUsageCountsOnce(t *testing.T) {
	s := session.AssembleAll(importGuide(t, guideFile(t, "session.jsonl")).Rows)[0]
	want := session.Usage{Input: 812 + 700 + 1900 + 700 + 950 + 700, Output: 121 + 640 + 17, Reasoning: 22 + 4, CacheRead: 700 + 700, CacheWrite: 700}
	if s.Usage != want {
		t.Errorf("%+v, want %+v", s.Usage, want)
	}
	fork := bytes.ReplaceAll(guideFile(t, "session.jsonl"), []byte("ses_1fbd4f500000Ky9Pf34qY6Nb3w"), []byte("ses_fork"))
	fork = bytes.Replace(fork, []byte(`"parent_id":null`), []byte(`"parent_id":"ses_1fbd4f500000Ky9Pf34qY6Nb3w"`), 1)
	fork = bytes.Replace(fork, []byte(`"created_at":1795226400000`), []byte(`"created_at":1795226494000`), 1)
	s = session.AssembleAll(importGuide(t, fork).Rows)[0]
	copied := 0
	for _, r := range s.Runs {
		if r.Copied {
			copied++
		}
		if r.ForkParentID != "ses_1fbd4f500000Ky9Pf34qY6Nb3w" {
			t.Errorf("run %s is forked from %q", r.ID, r.ForkParentID)
		}
	}
	want = session.Usage{Input: 950 + 700, Output: 17, Reasoning: 4, CacheRead: 700}
	if s.Usage != want || copied != 2 {
		t.Errorf("%d copied runs, %+v, want %+v", copied, s.Usage, want)
	}
}

// TestGuideHosts checks what hosts write in addition to the guide: a sub-agent, a fork, a queue, a line of package
// ndjson.
func TestGuideHosts(t *testing.T) {
	all := treesOf(importGuide(t, guideFile(t, "hosts.jsonl")))
	parent, child, fork := all["ses_parent"], all["ses_child"], all["ses_fork"]
	if parent == nil || child == nil || fork == nil || len(all) != 3 {
		t.Fatalf("%d sessions", len(all))
	}
	if len(parent.Runs) != 1 || len(child.Runs) != 1 || len(fork.Runs) != 2 {
		t.Fatalf("%d, %d and %d runs: what is queued is none", len(parent.Runs), len(child.Runs), len(fork.Runs))
	}
	call := parent.Runs[0].Turns[0].ToolCalls[0]
	if call.ChildSessionID != "ses_child" || call.End.Sub(call.Start).Milliseconds() != 30 || call.Truncated == nil || *call.Truncated {
		t.Errorf("%+v", call)
	}
	if len(call.Permissions) != 1 || call.Permissions[0].Source != "manifest" || call.Permissions[0].Action != "allow" {
		t.Errorf("permissions %+v", call.Permissions)
	}
	if r := child.Runs[0]; r.ParentID != parent.Runs[0].ID || r.ParentSessionID != "ses_parent" || r.ParentToolCallID != call.ID {
		t.Errorf("child %+v", r)
	}
	if r := fork.Runs[0]; !r.Copied || r.ForkParentID != "ses_parent" || r.Usage.Input != 5 || fork.Usage != (session.Usage{}) {
		t.Errorf("fork %+v, usage %+v", r, fork.Usage)
	}
	if fork.Runs[1].Copied || fork.Runs[1].ForkParentID != "ses_parent" {
		t.Errorf("fork %+v", fork.Runs[1])
	}
	for _, f := range []struct {
		s            *session.Session
		subject, key string
	}{{parent, "session", "title"}, {parent, "session", "archived_at"}, {parent, "message/msg_q", "queued_at"}, {parent, "message/msg_c", "queue_canceled_at"},
		{fork, "message/msg_f3", "hidden_at"}, {parent, "system_prompt/d1", "guide.line"}} {
		if f.s.Fact(f.subject, f.key) == nil {
			t.Errorf("no fact %s %s", f.subject, f.key)
		}
	}
}

// exported writes the only session of a batch.
func exported(t *testing.T, b session.Batch, lines bool) []byte {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	blocks, err := session.NewBlockSet(blocksOf(b, all[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	write := export.JSON
	if lines {
		write = export.JSONL
	}
	missing, err := write(t.Context(), &out, all[0], export.Held(blocks), export.Options{})
	if err != nil || len(missing) > 0 {
		t.Fatalf("%v, %v", missing, err)
	}
	return out.Bytes()
}

// TestGuideComesBack imports what a producer wrote and exports it: the lines are those of the producer, byte for byte, in either form.
func TestGuideComesBack(t *testing.T) {
	for _, name := range forms {
		t.Run(name, func(t *testing.T) {
			b := importGuide(t, guideFile(t, name))
			lines := guideFile(t, strings.NewReplacer(".canonical.json", ".jsonl", ".jsonl", ".jsonl", ".json", ".jsonl").Replace(name))
			if diff := gocmp.Diff(string(lines), string(exported(t, b, true))); diff != "" {
				t.Errorf("lines (-producer +export): %s", diff)
			}
			document := exported(t, b, false)
			if strings.HasSuffix(name, ".json") { // blanks between tokens are the writer's
				var want, got bytes.Buffer
				if err := json.Compact(&want, guideFile(t, name)); err != nil {
					t.Fatal(err)
				}
				if err := json.Compact(&got, document); err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(want.String(), got.String()); diff != "" {
					t.Errorf("document (-producer +export): %s", diff)
				}
			}
			again := importGuide(t, document)
			if !bytes.Equal(exported(t, again, false), document) || !bytes.Equal(exported(t, again, true), lines) {
				t.Error("exported, imported and exported again it is another")
			}
		})
	}
}

// TestExportsComeBack exports the recordings of phi-core in the guide's form, imports that and exports again: it is the same, byte for byte, and
// the runs and turns are those that were recorded.
func TestExportsComeBack(t *testing.T) {
	n := 0
	for _, f := range phifixtures.All(t, repository) {
		if testing.Short() && n > 20 {
			break
		}
		b := replay(t, f.Events, content)
		for _, s := range session.AssembleAll(b.Rows) {
			if len(s.Runs) == 0 {
				continue
			}
			n++
			one := session.Batch{}
			for _, r := range b.Rows {
				if r.Session.ID == s.ID {
					one.Rows = append(one.Rows, r)
				}
			}
			one.Blocks = b.Blocks
			for _, lines := range []bool{true, false} {
				first := exported(t, one, lines)
				back := importGuide(t, first)
				if diff := gocmp.Diff(string(first), string(exported(t, back, lines))); diff != "" {
					t.Errorf("%s, session %s: %s", f, s.ID, diff)
				}
				if got, want := exact(session.AssembleAll(back.Rows)[0]), exact(s); got != want {
					t.Errorf("%s, session %s: %s", f, s.ID, gocmp.Diff(want, got))
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d sessions", n)
	}
}

// exact lists what of runs and turns must come back.
func exact(s *session.Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", s.Usage)
	for _, r := range s.Runs {
		fmt.Fprintf(&b, "%s %d %d %s %s %s %s\n", r.ID, r.Start.UnixNano(), r.End.UnixNano(), r.Status, r.ParentID, r.Continuation, r.Dialect)
		for _, turn := range r.Turns {
			fmt.Fprintf(&b, "  %d %d %d %q %s %+v %v\n", turn.Index, turn.Start.UnixNano(), turn.End.UnixNano(), turn.StopReason, turn.Model, turn.Usage, turn.Cost)
			for _, c := range turn.ToolCalls {
				fmt.Fprintf(&b, "    %s %s %s %d %d\n", c.ID, c.Name, c.Outcome, c.Start.UnixNano(), c.End.UnixNano())
			}
		}
	}
	return b.String()
}
