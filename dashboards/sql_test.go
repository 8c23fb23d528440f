package dashboards

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver, as the plugin of Grafana has it

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// hostile is a session id that ends strings, statements and escapes wherever it is put in without care.
const hostile = `it's "\' 50%41 ${x} -- 1`

// unnamed is a session without a provider.
const unnamed = "no provider"

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// sessions are the content of the stores: three that fill each panel, one of them with a hostile id, one without a
// provider, and a recording of phi-core.
func sessions(t *testing.T) session.Batch {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	everything(t, (*writer.Tracer)(p.Tracer()), "everything", "acme", began)
	everything(t, (*writer.Tracer)(p.Tracer()), hostile, "acme", began.Add(time.Hour))
	everything(t, (*writer.Tracer)(p.Tracer()), unnamed, "", began.Add(2*time.Hour))
	f := must.Get(os.Open("../cmd/otelagent/demo.ndjson"))(t)
	defer f.Close()
	play.Lines(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(f))
	return p.Batch()
}

// everything writes a session that fills each panel: five turns of two runs, a cache miss on one, a failed turn of a
// model without a cache, tools that overlap, fail and are denied, a wait for a person, a compaction, retries, costs.
func everything(t *testing.T, tracer *writer.Tracer, id, provider string, start time.Time) {
	t.Helper()
	at := func(seconds float64) writer.Moment {
		return writer.Moment{Time: start.Add(time.Duration(seconds * float64(time.Second)))}
	}
	cost := 0.25
	var messages []writer.Message
	var turn *writer.Turn
	startTurn := func(ctx context.Context, run *writer.Run, model string, from float64) context.Context {
		ctx, turn = run.StartTurn(ctx, writer.TurnInfo{Model: model, Start: at(from)})
		raw := fmt.Appendf(nil, `{"role":"user","content":"question %d"}`, len(messages))
		messages = append(messages, writer.Message{Raw: raw, Role: "user"})
		turn.Request(writer.Request{At: at(from), Messages: messages, Bytes: int64(1000 * len(messages))})
		return ctx
	}
	endTurn := func(model string, to float64, failed bool, u writer.Usage) {
		turn.End(writer.TurnResult{
			End: at(to), Model: model, StopReason: "end_turn", Usage: &u, Cost: &cost, Currency: "USD",
			Failed: failed, ModelCall: 1500 * time.Millisecond, FirstChunk: 400 * time.Millisecond,
		})
	}
	tool := func(ctx context.Context, name string, from, to float64, outcome spans.Outcome) {
		_, call := turn.StartTool(ctx, writer.ToolCall{ID: fmt.Sprintf("%s-%v", name, from), Name: name, Start: at(from)})
		call.End(writer.ToolResult{End: at(to), Outcome: outcome})
	}
	info := writer.RunInfo{SessionID: id, ID: "run-1", Agent: "coder", Model: "big-1", Provider: provider, Start: at(0)}
	inRun, run := tracer.StartRun(t.Context(), info)
	ctx := startTurn(inRun, run, "big-1", 0)
	tool(ctx, "read", 2, 3, spans.OutcomeOK)
	tool(ctx, "grep", 2.5, 3.5, spans.OutcomeOK)
	endTurn("big-1", 4, false, writer.Usage{Input: 1000, Output: 100, Reasoning: 40, CacheWrite: 800})
	ctx = startTurn(inRun, run, "big-1", 4)
	writer.Decide(ctx, turn, writer.PermissionEvaluation{Tool: "bash", CallID: "bash-12", Action: spans.ActionAllow,
		Source: spans.PermissionSourceSession, Wait: 6 * time.Second, Start: at(6), End: at(12)})
	tool(ctx, "bash", 12, 13, spans.OutcomeError)
	endTurn("big-1", 14, false, writer.Usage{Input: 1600, Output: 300, CacheRead: 1000, CacheWrite: 500})
	ctx = startTurn(inRun, run, "big-1", 14)
	writer.Decide(ctx, turn, writer.PermissionEvaluation{Tool: "rm", CallID: "rm-16", Action: spans.ActionDeny,
		Source: spans.PermissionSourceProject, Start: at(16), End: at(16)})
	tool(ctx, "rm", 16, 16, spans.OutcomeDenied)
	endTurn("big-1", 20, false, writer.Usage{Input: 4000, Output: 200})
	_, compacting := run.StartCompaction(inRun, writer.Compaction{
		Kind: spans.CompactionKindSummary, Trigger: "threshold", Start: at(20),
	})
	compacting.End(writer.CompactionResult{
		End: at(23), InputTokens: new(int64(4200)), OutputTokens: new(int64(700)), MessagesBefore: new(int64(9)),
		MessagesAfter: new(int64(2)), MessagesSummarized: new(int64(7)),
	})
	startTurn(inRun, run, "big-1", 23)
	endTurn("big-1", 26, false, writer.Usage{Input: 900, Output: 50, CacheRead: 450})
	run.End(writer.RunResult{End: at(26)})
	info.ID, info.Agent, info.Model, info.Start = "run-2", "reviewer", "small-1", at(30)
	inRun, run = tracer.StartRun(t.Context(), info)
	startTurn(inRun, run, "small-1", 30)
	endTurn("small-1", 32, true, writer.Usage{Input: 300, Output: 20})
	run.End(writer.RunResult{End: at(32)})
}

// fill puts the sessions into a store and projects them.
func fill(t *testing.T, st store.Store) {
	t.Helper()
	b := sessions(t)
	must.Do(t, st.Put(t.Context(), b))
	keys := map[session.Key]bool{}
	for _, r := range b.Rows {
		keys[r.Session] = true
	}
	for k := range keys {
		must.Do(t, project.Session(t.Context(), st, k))
	}
}

// answer is what a statement returned: the names of the columns and the values as text, numbers with at most six
// decimals, NULL as it is; kinds are those of the values that came: integer, real, text.
type answer struct {
	columns []string
	rows    [][]string
	kinds   []map[string]bool
}

// A database runs a statement.
type database func(t *testing.T, statement string) answer

// values are those of the variables of a dashboard.
type values map[string]string

// put puts values in where Grafana does.
func (v values) put(t *testing.T, statement string) string {
	t.Helper()
	return reference.ReplaceAllStringFunc(statement, func(ref string) string {
		name, format, _ := strings.Cut(strings.Trim(ref, "${}"), ":")
		value, ok := v[name]
		if !ok {
			t.Fatalf("%s is no variable of a statement", ref)
		}
		switch format {
		case "":
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				t.Errorf("%s is put in without quotes", ref)
			}
			return value
		case "sqlstring":
			return "'" + strings.ReplaceAll(value, "'", "''") + "'"
		case "percentencode": // Grafana encodes !'()* as well
			return strings.NewReplacer("+", "%20", "'", "%27").Replace(url.QueryEscape(value))
		}
		t.Fatalf("%s has a format of which this test knows nothing", ref)
		return ""
	})
}

func of(id string) values {
	return values{
		"tenant": "(default)", "session": id,
		"__from": strconv.FormatInt(
			began.AddDate(-1, 0, 0).UnixMilli(),
			10,
		), "__to": strconv.FormatInt(began.AddDate(1, 0, 0).UnixMilli(), 10),
	}
}

func lite(t *testing.T) database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := must.Get(sqlitestore.Open(t.Context(), path))(t)
	fill(t, st)
	must.Do(t, st.Close())
	db := must.Get(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	t.Cleanup(func() { db.Close() })
	return func(t *testing.T, statement string) answer {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
		defer rows.Close()
		a := answer{}
		if a.columns, err = rows.Columns(); err != nil {
			t.Fatal(err)
		}
		for range a.columns {
			a.kinds = append(a.kinds, map[string]bool{})
		}
		for rows.Next() {
			cells := make([]any, len(a.columns))
			into := make([]any, len(cells))
			for i := range cells {
				into[i] = &cells[i]
			}
			must.Do(t, rows.Scan(into...))
			var row []string
			for i, c := range cells {
				text, kind := "NULL", ""
				switch c := c.(type) {
				case nil:
				case int64:
					text, kind = number(float64(c)), "integer"
				case float64:
					text, kind = number(c), "real"
				case string:
					text, kind = c, "text"
				default:
					t.Fatalf("column %s is a %T", a.columns[i], c)
				}
				if kind != "" {
					a.kinds[i][kind] = true
				}
				row = append(row, text)
			}
			a.rows = append(a.rows, row)
		}
		must.Do(t, rows.Err())
		return a
	}
}

func number(f float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 6, 64), "0"), ".")
}

// shown are the columns that a panel needs: those that its settings name, and those that links in cells read.
func (p *panel) shown() []string {
	var out []string
	if p.Options.XField != "" {
		out = append(out, p.Options.XField)
	}
	if f := p.Options.ReduceOptions.Fields; f != "" {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(f, "/^"), "$/"))
	}
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID == "byName" {
			out = append(out, o.Matcher.Options)
		}
		for _, property := range o.Properties {
			for _, m := range reference.FindAllSubmatch(property.Value, -1) {
				if name, ok := strings.CutPrefix(string(m[1]), "__data.fields."); ok {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// run asks everything that a dashboard of one session asks, and returns the answers as text.
func run(t *testing.T, name string, ask database, v values) string {
	t.Helper()
	d := read(t)[name]
	var b strings.Builder
	show := func(what string, a answer) {
		fmt.Fprintf(&b, "== %s\n%s\n", what, strings.Join(a.columns, " | "))
		for _, row := range a.rows {
			if i := slices.Index(a.columns, "trace"); i >= 0 && traceID.MatchString(row[i]) {
				row[i] = "(a trace id)"
			}
			b.WriteString(strings.Join(row, " | ") + "\n")
		}
		b.WriteString("\n")
	}
	for _, variable := range d.Templating.List {
		if statement := variable.sql(t); statement != "" {
			a := ask(t, v.put(t, statement))
			if len(a.columns) != 1 {
				t.Errorf("variable %s has %d columns, the plugin takes one", variable.Name, len(a.columns))
			}
			show("variable "+variable.Name, a)
			if !slices.ContainsFunc(a.rows, func(row []string) bool { return row[0] == v[variable.Name] }) {
				t.Errorf("variable %s does not offer %q", variable.Name, v[variable.Name])
			}
		}
	}
	for _, p := range d.Panels {
		var columns []string
		for _, target := range p.Targets {
			if target.sql() == "" {
				continue
			}
			if target.QueryText != target.RawQueryText {
				t.Errorf("%s: the two texts of the plugin differ", p.Title)
			}
			a := ask(t, v.put(t, target.sql()))
			if len(a.rows) == 0 {
				t.Errorf("%s: no rows of\n%s", p.Title, target.sql())
			}
			columns = append(columns, a.columns...)
			for _, c := range target.TimeColumns {
				if !slices.Contains(a.columns, c) {
					t.Errorf("%s: the time column %s is not among %q", p.Title, c, a.columns)
				}
			}
			// The plugin gives a column the type of its first value, and cuts off what does not fit: 0 and 0.5 come out as 0 and
			// 0.
			for i, kinds := range a.kinds {
				if len(kinds) > 1 {
					t.Errorf("%s: column %s has values of several types: %v", p.Title, a.columns[i], kinds)
				}
			}
			show(p.Title, a)
		}
		if len(columns) == 0 {
			continue
		}
		for _, c := range p.shown() {
			if !slices.Contains(columns, c) {
				t.Errorf("%s: shows a column %q, which is not among %q", p.Title, c, columns)
			}
		}
	}
	return b.String()
}

// sql is the statement of a variable, empty for others.
func (v *variable) sql(t *testing.T) string {
	t.Helper()
	if !slices.Contains(plugins["store"], v.Datasource.Type) {
		return ""
	}
	var text string
	if json.Unmarshal(v.Query, &text) == nil {
		return text
	}
	var query target
	if err := json.Unmarshal(v.Query, &query); err != nil || query.RawSQL == "" {
		t.Fatalf("variable %s: %v", v.Name, err)
	}
	return query.RawSQL
}

// TestSQLite runs every statement on a file of the store, as the plugin does, and compares the answers with a golden
// file.
func TestSQLite(t *testing.T) {
	db := lite(t)
	got := run(t, "session.json", db, of("everything"))
	if *update {
		must.Do(t, os.WriteFile("testdata/session.golden", []byte(got), 0o644))
	}
	compare(t, "session.json", got, db)
}

// compare compares the answers for the session with the golden file and with those for a session without a provider
// (cache hits and misses), and runs the statements for the session with the hostile id.
func compare(t *testing.T, name, got string, ask database) {
	t.Helper()
	want := must.Get(os.ReadFile("testdata/session.golden"))(t)
	if diff := cmp.Diff(blocks(string(want)), blocks(got)); diff != "" {
		t.Errorf("session.golden (-update writes it):\n%s", diff)
	}
	run(t, name, ask, of(hostile))
	hits := func(answers string) string {
		_, rest, found := strings.Cut(answers, "== How much of each request came from cache?\n")
		rows, _, _ := strings.Cut(rest, "\n\n")
		if !found {
			t.Fatal("no panel of the cache")
		}
		return rows
	}
	if diff := cmp.Diff(hits(got), hits(run(t, name, ask, of(unnamed)))); diff != "" {
		t.Errorf("with a provider (-) and without (+):\n%s", diff)
	}
}

// blocks are the answers with the rows of each sorted: rows that are equal in the order of a statement come in any
// order.
func blocks(text string) []string {
	out := strings.Split(text, "\n\n")
	for i, b := range out {
		head, rows, _ := strings.Cut(b, "\n")
		lines := strings.Split(rows, "\n")
		slices.Sort(lines)
		out[i] = head + "\n" + strings.Join(lines, "\n")
	}
	return out
}
