package foreign

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// must returns a value that comes without an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		noError(tb, err)
		return value
	}
}

// noError ends the test with an error.
func noError(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// long returns the rows of a session of n turns with a tool call each, as spans of the conventions.
func long(n int) []session.Row {
	key := session.Key{ID: "long"}
	id := func(i int) (s session.SpanID) { binary.BigEndian.PutUint64(s[:], uint64(i+1)); return s }
	attrs := func(name string, more ...session.Attr) []session.Attr {
		l := append(more, session.Attr{Key: SourceKey, Value: session.StringValue("genai")},
			session.Attr{Key: NameKey, Value: session.StringValue(name)},
			session.Attr{Key: ScopeKey, Value: session.StringValue("x")},
			session.Attr{Key: SignalKey, Value: session.StringValue("span")},
			session.Attr{Key: "gen_ai.conversation.id", Value: session.StringValue("long")})
		slices.SortFunc(l, func(a, b session.Attr) int {
			if a.Key < b.Key {
				return -1
			}
			return 1
		})
		return l
	}
	text := func(k, v string) session.Attr { return session.Attr{Key: k, Value: session.StringValue(v)} }
	number := func(k string, v int64) session.Attr { return session.Attr{Key: k, Value: session.IntValue(v)} }
	base := session.Row{Trace: session.TraceID{1}, Session: key, Turn: session.NoTurn, Kind: session.KindForeign,
		Known: spans.KnownObserved}
	run := base
	run.Span, run.Start, run.End = id(0), 1e18, 1e18+int64(n)*1e9
	run.Attrs = attrs("invoke_agent a", text("gen_ai.operation.name", "invoke_agent"))
	rows := []session.Row{run}
	for i := range n {
		turn, tool := base, base
		turn.Span, turn.Parent, turn.Start, turn.End = id(2*i+1), run.Span, 1e18+int64(i)*1e9, 1e18+int64(i)*1e9+5e8
		turn.Attrs = attrs("chat m", text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", "m"),
			text("gen_ai.response.id", fmt.Sprint("r", i)), number("gen_ai.usage.input_tokens", 100),
			number("gen_ai.usage.output_tokens", 10), text("gen_ai.provider.name", "p"))
		turn.Lists = []session.List{{Name: "gen_ai.input.messages", Count: 1, Items: []string{ItemOf(fmt.Sprint("in", i))}},
			{Name: "gen_ai.output.messages", Count: 1, Items: []string{ItemOf(fmt.Sprint("out", i))}}}
		tool.Span, tool.Parent, tool.Start, tool.End = id(2*i+2), run.Span, turn.End, turn.End+1e8
		tool.Attrs = attrs("execute_tool t", text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "t"),
			text("gen_ai.tool.call.id", fmt.Sprint("c", i)))
		tool.Lists = []session.List{{Name: "gen_ai.tool.call.arguments", Count: 1, Items: []string{ItemOf("{}")}}}
		rows = append(rows, turn, tool)
	}
	return rows
}

// BenchmarkMap measures a session of 10,000 turns: Map, and Assemble of what it returns, which is what `show` of a
// session of this format costs.
func BenchmarkMap(b *testing.B) {
	rows, key := long(10_000), session.Key{ID: "long"}
	mapped := Default().Map(rows, key)
	if s := session.Assemble(mapped); len(s.Runs) != 1 || len(s.Runs[0].Turns) != 10_000 {
		b.Fatalf("%d rows", len(mapped))
	}
	b.Run("map", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Default().Map(rows, key)
		}
	})
	b.Run("assemble", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			session.Assemble(mapped)
		}
	})
}

// BenchmarkMatch measures the decision about one span with 16 attributes, without decoding.
func BenchmarkMatch(b *testing.B) {
	keys := []string{"http.method", "http.url", "http.status_code", "net.peer.name", "net.peer.port", "thread.id",
		"thread.name", "code.function", "code.filepath", "code.lineno", "service.name", "server.address", "url.path",
		"user_agent.original", "db.system", "db.statement"}
	values := map[string]session.Value{"gen_ai.operation.name": session.StringValue("chat"),
		"gen_ai.conversation.id": session.StringValue("c")}
	get := Get(func(key string) session.Value { return values[key] })
	for name, l := range map[string][]string{"unknown": keys, "known": append(keys[:14:14], "gen_ai.operation.name",
		"gen_ai.conversation.id")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scope := Default().Scope("io.opentelemetry.http")
				var marks Marks
				for _, key := range l {
					marks |= scope.Mark(key)
				}
				scope.Match(Span, "GET /", marks, get)
			}
		})
	}
}

// TestUnknownAllocatesNothing holds a span of a scope that no source claims, and one without a role, to no allocation.
func TestUnknownAllocatesNothing(t *testing.T) {
	get := Get(func(string) session.Value { return session.Value{} })
	for _, name := range []string{"io.opentelemetry.http", "opencode", "codex_otel.log_only"} {
		n := testing.AllocsPerRun(100, func() {
			scope := Default().Scope(name)
			scope.Match(Span, "sql.query", scope.Mark("db.system")|scope.Mark("http.url"), get)
		})
		if n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
