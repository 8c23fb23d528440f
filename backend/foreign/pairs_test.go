package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// rowOf returns a row of a record of Claude Code, or of the source that attrs name: of a span between two seconds, or
// of a log record at the later one. Ids of spans are one byte each.
func rowOf(sig Signal, name string, id, parent byte, start, end int64, attrs ...string) session.Row {
	r := session.Row{Kind: session.KindForeign, Known: spans.KnownObserved, Turn: session.NoTurn,
		Session: session.Key{ID: "s"}, Trace: session.TraceID{1}, Span: session.SpanID{id}, Parent: session.SpanID{parent},
		Start: (1_800_000_000 + start) * 1e9, End: (1_800_000_000 + end) * 1e9}
	if sig == Log {
		r.Start = r.End
	}
	attrs = append(attrs, SourceKey, "claude-code", NameKey, name, SignalKey, string(sig))
	for kv := range slices.Chunk(attrs, 2) {
		if r.Attr(attribute.Key(kv[0])).IsZero() {
			r.Attrs = append(r.Attrs, session.Attr{Key: kv[0], Value: session.StringValue(kv[1])})
			slices.SortFunc(r.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
		}
	}
	return r
}

// outline returns the runs of trees: tokens and the number of messages of the reply of each turn, and tool calls.
func outline(trees []*session.Session) string {
	var out []string
	for _, s := range trees {
		for _, r := range s.Runs {
			run := []string{strings.TrimRight(r.ID, "0") + ":"}
			tools := func(l []*session.ToolCall) {
				for _, c := range l {
					call := c.Name + "=" + string(c.Outcome)
					for _, p := range c.Permissions {
						call += "," + string(p.Action)
					}
					run = append(run, call)
				}
			}
			for _, t := range r.Turns {
				run = append(run, fmt.Sprintf("%d/%d/%d", t.Usage.Input, t.Usage.Output, t.Output.Len()))
				tools(t.ToolCalls)
			}
			tools(r.ToolCalls)
			out = append(out, strings.Join(run, " "))
		}
	}
	return strings.Join(out, "; ")
}

// TestOneOrTwo holds which records report one turn or tool call, and to which run and turn records belong.
func TestOneOrTwo(t *testing.T) {
	const in, out = "input_tokens", "output_tokens"
	run := rowOf(Span, "claude_code.interaction", 1, 0, 0, 60)
	turn := func(id byte, at int64, attrs ...string) session.Row {
		return rowOf(Span, "claude_code.llm_request", id, 1, at, at+2, attrs...)
	}
	logged := func(id byte, at int64, attrs ...string) session.Row {
		return rowOf(Log, "claude_code.api_request", id, 0, 0, at, append(attrs, "duration_ms", "2000")...)
	}
	used := func(id byte, at int64, attrs ...string) session.Row {
		return rowOf(Span, "claude_code.tool", id, 1, at, at+1, append(attrs, "success", "true")...)
	}
	reply := func(id, parent byte, at int64, attrs ...string) session.Row {
		r := rowOf(Log, "claude_code.assistant_response", id, parent, 0, at, attrs...)
		r.Lists = []session.List{{Name: "response", Count: 1, Items: []string{ItemOf("a reply")}}}
		return r
	}
	own := func(kind session.Kind, id, parent byte, attrs []session.Attr) session.Row {
		r := rowOf(Span, "", id, parent, 0, 10)
		r.Kind, r.Run, r.RunStart, r.Attrs = kind, "01", r.Start, attrs
		if kind == session.KindTurn {
			r.Turn = 0
		}
		return r
	}
	langfuse := func(name, kind string, id, parent byte, start, end int64) session.Row {
		return rowOf(Span, name, id, parent, start, end, SourceKey, "langfuse", "langfuse.observation.type", kind,
			"langfuse.observation.metadata.langgraph_node", "tools")
	}
	for name, tt := range map[string]struct {
		want string
		rows []session.Row
	}{
		"span and log of one time and tokens": {"01: 5/1/0",
			[]session.Row{run, turn(2, 1, in, "5", out, "1"), logged(3, 3, in, "5", out, "1")}},
		"span and log of other tokens": {"01: 5/1/0 6/1/0",
			[]session.Row{run, turn(2, 1, in, "5", out, "1"), logged(3, 3, in, "6", out, "1")}},
		"two logs and one span": {"01: 5/1/0 5/1/0",
			[]session.Row{run, turn(2, 1, in, "5", out, "1"), logged(3, 3, in, "5", out, "1"), logged(4, 4, in, "5", out, "1")}},
		"span and log of two programs": {"01: 5/1/0 5/1/0", []session.Row{run, turn(2, 1, in, "5", out, "1"),
			logged(3, 3, SourceKey, "codex", NameKey, "codex.sse_event", "input_token_count", "5", "output_token_count", "1")}},
		"an id that is used again": {"01: 5/1/0 Bash=ok Bash=ok", []session.Row{run, turn(2, 1, in, "5", out, "1"),
			used(3, 4, "tool_use_id", "c", "tool_name", "Bash"), used(4, 14, "tool_use_id", "c", "tool_name", "Bash"),
			rowOf(Log, "claude_code.tool_result", 5, 0, 0, 5, "tool_use_id", "c", "tool_name", "Bash"),
			rowOf(Log, "claude_code.tool_result", 6, 0, 0, 15, "tool_use_id", "c", "tool_name", "Bash")}},
		"a turn around a turn": {"01: 5/1/0",
			[]session.Row{run, turn(2, 1), rowOf(Span, "claude_code.llm_request", 3, 2, 1, 2, in, "5", out, "1")}},
		"a turn around two that report tokens": {"01: 5/1/0 6/1/0", []session.Row{run, turn(2, 1, in, "11", out, "2"),
			rowOf(Span, "claude_code.llm_request", 3, 2, 1, 2, in, "5", out, "1"),
			rowOf(Span, "claude_code.llm_request", 4, 2, 2, 3, in, "6", out, "1")}},
		"a key of a record on the span of a run": {"p: 5/1/0", []session.Row{run,
			logged(2, 3, in, "5", out, "1", "prompt.id", "p"),
			rowOf(Log, "claude_code.user_prompt", 3, 1, 0, 1, "prompt.id", "p")}},
		"a key of a run": {"p: 5/1/0", []session.Row{logged(2, 3, in, "5", out, "1", "prompt.id", "p"),
			rowOf(Span, "claude_code.interaction", 1, 0, 0, 60, "prompt.id", "p")}},
		"a reply of an earlier turn": {"01: 5/1/1 6/1/0", []session.Row{run, turn(2, 1, in, "5", out, "1", "request_id", "a"),
			turn(3, 5, in, "6", out, "1", "request_id", "b"), reply(4, 0, 7, "request_id", "a")}},
		"a turn below a turn of this format": {"01: 5/1/0",
			[]session.Row{own(session.KindRun, 1, 0, nil), own(session.KindTurn, 2, 1, []session.Attr{
				{Key: "gen_ai.usage.input_tokens", Value: session.IntValue(5)},
				{Key: "gen_ai.usage.output_tokens", Value: session.IntValue(1)}}),
				rowOf(Span, "claude_code.llm_request", 3, 2, 20, 22, in, "5", out, "1")}},
		"a reply of another id": {"01: 5/1/0",
			[]session.Row{run, turn(2, 1, in, "5", out, "1", "request_id", "a"), reply(3, 0, 3, "request_id", "b")}},
		"a reply without an id": {"01: 5/1/1",
			[]session.Row{run, turn(2, 1, in, "5", out, "1", "request_id", "a"), reply(3, 0, 3)}},
		"what a tool call has within": {"01: Bash=error,allow", []session.Row{run,
			rowOf(Span, "claude_code.tool", 2, 1, 1, 5, "tool_name", "Bash"),
			rowOf(Span, "claude_code.tool.blocked_on_user", 3, 2, 1, 2, "decision", "accept", "source", "user"),
			rowOf(Span, "claude_code.tool.execution", 4, 2, 2, 5, "success", "false")}},
		"a tool and its parts": {"01: calc=", []session.Row{langfuse("run", "agent", 1, 0, 0, 60),
			langfuse("sequence", "span", 2, 1, 1, 3), langfuse("calc", "span", 3, 2, 1, 2)}},
	} {
		for range 2 {
			if got := outline(assemble(Default(), tt.rows)); got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
			slices.Reverse(tt.rows)
		}
	}
}

// TestOtherClock has a turn in a run of a host whose clock is ahead: each keeps its own times.
func TestOtherClock(t *testing.T) {
	turn := rowOf(Span, "claude_code.llm_request", 2, 1, 5, 8)
	rows := []session.Row{rowOf(Span, "claude_code.interaction", 1, 0, 10, 60), turn}
	got := assemble(Default(), rows)[0].Runs[0].Turns[0]
	if got.Start.UnixNano() != turn.Start || got.End.UnixNano() != turn.End || got.Defects != nil {
		t.Errorf("from %v to %v, %v", got.Start, got.End, got.Defects)
	}
}

// TestLangfuseLevel has errors that Langfuse states in words of its own, and not in the status of the span.
func TestLangfuseLevel(t *testing.T) {
	row := func(name, kind, level string, id, parent byte, at int64) session.Row {
		return rowOf(Span, name, id, parent, at, at+9/int64(id), SourceKey, "langfuse", "langfuse.observation.type", kind,
			"langfuse.observation.level", level, "langfuse.observation.status_message", level+" of "+kind)
	}
	r := assemble(Default(), []session.Row{row("run", "agent", "ERROR", 1, 0, 0),
		row("reply", "generation", "ERROR", 2, 1, 1), row("ls", "tool", "ERROR", 3, 1, 6),
		row("cat", "tool", "DEFAULT", 4, 1, 7)})[0].Runs[0]
	turn := r.Turns[0]
	calls := turn.ToolCalls
	got := []any{r.Status, r.Error, turn.Failed, turn.Error, calls[0].Outcome, calls[0].Error, calls[1].Outcome}
	if want := "[error ERROR of agent true ERROR of generation error ERROR of tool ]"; fmt.Sprint(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
