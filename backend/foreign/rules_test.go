package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// entryRows returns the rows of all files of an entry of expected.json.
func entryRows(tb testing.TB, table *Table, name string) []session.Row {
	tb.Helper()
	e := expectations(tb)[name]
	if e == nil {
		tb.Fatalf("no entry %s", name)
	}
	var rows []session.Row
	for _, file := range e.Files {
		rows = append(rows, decode(tb, table, sample(tb, file))...)
	}
	return rows
}

// TestSpellings changes how records spell what they say: counts as text and as double, and log records without trace
// ids and without times. The trees keep what they have.
func TestSpellings(t *testing.T) {
	table := Default()
	all := expectations(t)
	change := map[string]func(*session.Row){
		"counts as text": func(r *session.Row) {
			for i, a := range r.Attrs {
				if a.Value.Type() == session.TypeInt {
					r.Attrs[i].Value = session.StringValue(a.Value.Text())
				}
			}
		},
		"counts as double": func(r *session.Row) {
			for i, a := range r.Attrs {
				if n, ok := a.Value.Int(); ok && a.Value.Type() == session.TypeInt {
					r.Attrs[i].Value = session.DoubleValue(float64(n))
				}
			}
		},
		"logs without trace ids": func(r *session.Row) {
			if r.Attr(SignalKey).Str() == string(Log) {
				r.Trace, r.Parent = TraceOf(r.Session), session.SpanID{}
			}
		},
		"logs without times": func(r *session.Row) {
			if !r.Attr("event.timestamp").IsZero() {
				r.Start, r.End = 0, 0
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows := entryRows(t, table, name)
		for _, how := range slices.Sorted(maps.Keys(change)) {
			other := slices.Clone(rows)
			for i := range other {
				other[i].Attrs = slices.Clone(other[i].Attrs)
				change[how](&other[i])
			}
			if d := all[name].differences(assemble(table, other)); d != nil {
				t.Errorf("%s, %s: %s", name, how, strings.Join(d, "; "))
			}
		}
	}
}

// TestOursWin puts the spans of this format around foreign ones of the same trace: what both report is counted once.
func TestOursWin(t *testing.T) {
	table := Default()
	rows := entryRows(t, table, "vercel-ai-7.0.173")
	first, last := rows[0].Start, int64(0)
	for i := range rows {
		first, last = min(first, rows[i].Start), max(last, rows[i].End)
	}
	key := session.Key{ID: "ours"}
	base := session.Row{Trace: rows[0].Trace, Session: key, Run: "r", RunStart: first, Turn: session.NoTurn,
		Known: spans.KnownObserved, Start: first, End: last}
	run, turn := base, base
	run.Kind, run.Span = session.KindRun, session.SpanID{1}
	turn.Kind, turn.Span, turn.Parent, turn.Turn = session.KindTurn, session.SpanID{2}, run.Span, 0
	turn.Attrs = []session.Attr{{Key: "gen_ai.usage.input_tokens", Value: session.IntValue(330)}}
	got, ids, tools := seen(assemble(table, append(rows, run, turn)))
	if got["sessions"] != 1 || ids[0] != "ours" || got["runs"] != 1 || got["turns"] != 1 || got["input_tokens"] != 330 ||
		len(tools) > 0 {
		t.Errorf("%v %v %v", got, ids, tools)
	}
}

// TestKeyAgain plays a session twice, the second time an hour later: Gemini CLI uses one key for all prompts of a
// session that is resumed.
func TestKeyAgain(t *testing.T) {
	table := Default()
	rows := entryRows(t, table, "gemini-cli-0.61.0-a-both")
	for _, r := range slices.Clone(rows) {
		r.Start, r.End = r.Start+3600e9, r.End+3600e9
		r.Trace[0]++
		r.Span[0]++
		r.Parent[0]++
		rows = append(rows, r)
	}
	trees := assemble(table, rows)
	if len(trees) != 1 || len(trees[0].Runs) != 2 || len(trees[0].Runs[0].Turns) != 3 || len(trees[0].Runs[1].Turns) != 3 {
		t.Error(tree(trees))
	}
}

// logRow returns a row of a log record of Claude Code at a second of a session.
func logRow(name string, second int64, attrs ...string) session.Row {
	at := (1_800_000_000 + second) * 1e9
	r := session.Row{Kind: session.KindForeign, Known: spans.KnownObserved, Turn: session.NoTurn,
		Session: session.Key{ID: "s"}, Start: at, End: at}
	r.Trace, r.Span = TraceOf(r.Session), session.SpanID(spans.BlockOfString(name+strings.Join(attrs, " ")).Short())
	attrs = append(attrs, SourceKey, "claude-code", NameKey, name, SignalKey, "log", "prompt.id", "p1")
	for kv := range slices.Chunk(attrs, 2) {
		r.Attrs = append(r.Attrs, session.Attr{Key: kv[0], Value: session.StringValue(kv[1])})
	}
	slices.SortFunc(r.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	return r
}

// TestAgentsInLogs holds where turns go that name an agent: below the only call that can have started it, else they
// stay.
func TestAgentsInLogs(t *testing.T) {
	request := func(second int64, id string, more ...string) session.Row {
		return logRow("api_request", second, append(more, "request_id", id, "input_tokens", "10", "output_tokens", "1",
			"duration_ms", "900")...)
	}
	agent := func(second int64, id, ms string) session.Row {
		return logRow("tool_result", second, "tool_name", "Agent", "tool_use_id", id, "success", "true", "duration_ms", ms)
	}
	rows := []session.Row{
		logRow("user_prompt", 0), request(2, "r1"),
		request(4, "r2", "agent.name", "Explore"), request(5, "r3", "query_source", "agent:Explore"), agent(6, "c1", "3500"),
		request(8, "r4"), // then two at a time
		request(10, "r5", "agent.name", "Plan"), agent(12, "c2", "3000"), agent(12, "c3", "3000"),
	}
	trees := assemble(Default(), rows)
	var got []string
	for _, r := range trees[0].Runs {
		got = append(got, fmt.Sprintf("%s: %d turns, by %q", r.ID, len(r.Turns), r.ParentToolCallID))
	}
	if want := []string{`p1: 3 turns, by ""`, `c1: 2 turns, by "c1"`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestSettings adds a source and keys, and names everything that is wrong with settings at once.
func TestSettings(t *testing.T) {
	read := func(text string) (*Table, error) {
		var l []any
		must.Do(t, yaml.Unmarshal([]byte(text), &l))
		return Default().With(l)
	}
	table, err := read(`
- {name: shop, title: Shop, like: genai, scopes: ["shop.*"], keys: {session: shop.cart}}
- {name: genai, keys: {session: my.session}}
`)
	must.Do(t, err)
	if table.Version() == Default().Version() {
		t.Error("the version does not change with the rules")
	}
	get := func(key string) session.Value {
		m := map[string]string{"gen_ai.operation.name": "chat", "shop.cart": "c1", "my.session": "s1"}
		if m[key] == "" {
			return session.Value{}
		}
		return session.StringValue(m[key])
	}
	for scope, want := range map[string]string{"shop.agent": "shop c1", "other": "genai s1"} {
		s := table.Scope(scope)
		src, id := s.Match(Span, "chat", s.Mark("gen_ai.operation.name"), get)
		if src == nil || src.Name+" "+id != want {
			t.Errorf("%s: %+v %s", scope, src, id)
		}
	}
	_, err = read(`
- {title: 3, scope: [x], Like: y, keys: {sesion: a, "1": b}, roles: [{role: runs, signal: spam, as: text}], usage: yes}
- {name: x, like: nobody, keys: [a], roles: [{name: y, failed: maybe}, {name: [{a: b}]}, z]}
- 7
`)
	fieldNames := fmt.Sprintf("want one of %v", slices.Sorted(maps.Keys(fields)))
	want := `'sources[0]' has invalid keys: Like, scope
'sources[0].keys[1]' got "1": ` + fieldNames + `
'sources[0].keys[sesion]' got "sesion": ` + fieldNames + `
'sources[0].roles[0].as' got "text": ` + fieldNames + `
'sources[0].roles[0].role' got "runs": ` +
		`want one of [none link run wrapper start turn tool permission compaction content note]
'sources[0].roles[0].signal' got "spam": want one of [span event log any]
'sources[0].usage' got "yes": ` +
		`want one of [includes_cache excludes_cache excludes_reasoning excludes_cache_and_reasoning]
'sources[1].keys[0]' expected type 'map[foreign.field]foreign.words', got unconvertible type 'string'
'sources[1].roles[0].failed' got "maybe": want one of [true false]
'sources[1].roles[1].name[0]' expected type 'string', got unconvertible type 'map[string]interface {}'
'sources[1].roles[2]' expected a map or struct, got "string"
'sources[2]' expected a map or struct, got "int"
'sources[0]' has no name
'sources[2]' has no name
sources: x: there is no other source "nobody" to be like`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// A role may ask for a bool or a number, as YAML has them.
func TestIs(t *testing.T) {
	var l []any
	text := "[{name: x, scopes: [x], roles: [{role: run, is: {ok: true, n: 3, f: [1.5, 1e3]}}]}]"
	must.Do(t, yaml.Unmarshal([]byte(text), &l))
	table := must.Get(Default().With(l))(t)
	for ok, f := range map[session.Value]float64{session.BoolValue(true): 1.5, session.StringValue("true"): 1000} {
		values := map[string]session.Value{"ok": ok, "n": session.IntValue(3), "f": session.DoubleValue(f)}
		if src, _ := table.Scope("x").Match(Span, "a", 0, func(key string) session.Value { return values[key] }); src == nil {
			t.Errorf("%v is not what the role asks for", values)
		}
	}
}

// FuzzMap changes attributes and links of recorded rows: Map never panics, and does not depend on the order of rows.
func FuzzMap(f *testing.F) {
	table := Default()
	var base []session.Row
	for _, name := range []string{"claude-code-2.1.283-both", "strands-1.62.0-a", "google-adk-2025-08-28",
		"codex-0.160.0-multi-agent-otlp", "claude-code-session-a"} {
		base = append(base, entryRows(f, table, name)...)
	}
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte("\x00\x10\xff\x03parent\x01times\x02"))
	f.Add([]byte(strings.Repeat("\x00\x06\x00", 50) + "\x00\x04\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := slices.Clone(base[:min(len(base), 24+len(data)%40)])
		for len(data) >= 3 {
			r, how, what := &rows[int(data[0])%len(rows)], data[1], int(data[2])
			data = data[3:]
			o := &rows[what%len(rows)]
			if how%8 >= 4 && how%8 <= 6 && (len(r.Attrs) == 0 || len(o.Attrs) == 0) {
				continue
			}
			r.Attrs = slices.Clone(r.Attrs)
			switch how % 8 {
			case 0:
				r.Trace, r.Parent = o.Trace, o.Span
			case 1:
				r.Session = o.Session
			case 2:
				r.Start, r.End = o.End, o.Start
			case 3:
				r.Start = 0
			case 4:
				at := &r.Attrs[what%len(r.Attrs)]
				at.Value = o.Attrs[what%len(o.Attrs)].Value
			case 5:
				at := &r.Attrs[what%len(r.Attrs)]
				at.Value = session.StringValue(string(data[:min(len(data), what)]))
			case 6:
				r.Attrs = slices.Delete(r.Attrs, what%len(r.Attrs), what%len(r.Attrs)+1)
			case 7:
				r.Start, r.End = -r.Start, 1<<62+int64(what)
			}
		}
		want := tree(assemble(table, rows))
		slices.Reverse(rows)
		if got := tree(assemble(table, append(rows, rows...))); got != want {
			t.Errorf("another order is another tree:\n%s\n%s", got, want)
		}
	})
}

// A word may have a * at its begin, at its end, or at both.
func TestWords(t *testing.T) {
	values := []string{"a", "ab", "abc", "cab", "cabc", "abab", "acb"}
	for word, want := range map[string]string{
		"ab": "ab", "ab*": "ab abc abab", "*ab": "ab cab abab", "*ab*": "ab abc cab cabc abab",
		"*": strings.Join(values, " "),
	} {
		var got []string
		for _, v := range values {
			if glob(word, v) {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %s", word, got, want)
		}
	}
}
