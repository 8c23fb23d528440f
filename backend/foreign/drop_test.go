package foreign

import (
	"maps"
	"slices"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
)

// TestDropEachRecord drops each record of every recording in turn. What is left names less, and nothing else: no more
// runs, turns, tool calls or tokens, no other tools and no other sessions. Large recordings drop every fifth.
func TestDropEachRecord(t *testing.T) {
	table := Default()
	all := expectations(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			rows := entryRows(t, table, name)
			want, ids, tools := seen(assemble(table, rows))
			step := 1
			if len(rows) > 100 {
				step = 5
			}
			for i := 0; i < len(rows); i += step {
				got, gotIDs, gotTools := seen(assemble(table, slices.Concat(rows[:i], rows[i+1:])))
				what := rows[i].Attr(NameKey).Text() + " " + rows[i].Span.String()
				for _, key := range counted {
					if key != "sessions" && key != "denied" && got[key] > want[key] {
						t.Errorf("without %s: %s %d, more than %d", what, key, got[key], want[key])
					}
				}
				left := slices.Clone(tools)
				for _, tool := range gotTools {
					if at := slices.Index(left, tool); at >= 0 {
						left = slices.Delete(left, at, at+1)
					} else if tool != "" {
						t.Errorf("without %s: tools %q, not of %q", what, gotTools, tools)
					}
				}
				for _, id := range gotIDs {
					if !slices.Contains(ids, id) && id != TraceSession(rows[i].Trace) {
						t.Errorf("without %s: session %s", what, id)
					}
				}
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
