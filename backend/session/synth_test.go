package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// synth makes rows as the adapter would, from nothing but numbers.
type synth struct {
	session Key
	rows    []Row
	blocks  []Block
	n       uint64 // spans made
}

const synthStart = int64(1_780_000_000_000_000_000)

func at(ms int64) int64 { return synthStart + ms*1_000_000 }

func attrs(kv ...any) []Attr {
	var l []Attr
	for i := 0; i < len(kv); i += 2 {
		var v Value
		switch x := kv[i+1].(type) {
		case int:
			v = IntValue(int64(x))
		case int64:
			v = IntValue(x)
		case string:
			v = StringValue(x)
		case bool:
			v = BoolValue(x)
		case float64:
			v = DoubleValue(x)
		case []string:
			v = StringsValue(x)
		default:
			panic(fmt.Sprintf("%T", x))
		}
		l = append(l, Attr{kv[i].(string), v})
	}
	slices.SortFunc(l, func(a, b Attr) int { return strings.Compare(a.Key, b.Key) })
	return l
}

func (s *synth) add(kind Kind, run string, runStart, turn, start, end int64, kv ...any) *Row {
	s.n++
	r := Row{
		Trace: TraceID{15: 1}, Span: SpanID{0, 0, byte(s.n >> 40), byte(s.n >> 32), byte(s.n >> 24), byte(s.n >> 16),
			byte(s.n >> 8), byte(s.n)},
		Session: s.session, Run: run, RunStart: runStart, Turn: turn, Kind: kind, Known: spans.KnownObserved,
		Start: start, End: end, Seq: int64(2*s.n - 1), EndSeq: int64(2 * s.n), Service: "synth",
		Attrs: attrs(append(kv, "otelagent.schema", 2, "gen_ai.agent.name", "coder", "otelagent.agent.id", "a1")...),
	}
	s.rows = append(s.rows, r)
	return &s.rows[len(s.rows)-1]
}

// list makes the list event of bodies and keeps the blocks.
func (s *synth) list(name string, bodies ...string) List {
	l := List{Name: name, Count: int64(len(bodies))}
	for _, b := range bodies {
		it := spans.Item{Block: spans.BlockOfString(b).Short()}
		l.Items = append(l.Items, it.Encode())
		s.blocks = append(s.blocks, Block{Session: s.session, ID: spans.BlockOfString(b), Body: b})
	}
	return l
}

// whole adds a run of n turns, each with two tools, a permission and a compaction: 5 rows a turn, and one of the run.
func (s *synth) whole(run string, ordinal int, start int64, turns int, content bool) {
	header := []any{
		"gen_ai.request.model", "model-1", "gen_ai.provider.name", "anthropic", "otelagent.dialect", "synth",
		"otelagent.run.ordinal", ordinal, "otelagent.run.continuation", "initial", "otelagent.capture", "none",
	}
	t := start
	for i := range int64(turns) {
		from := t
		s.add(KindCompaction, run, start, i, t+1e6, t+2e6, "otelagent.compaction.kind", "summary",
			"otelagent.compaction.messages.before", 20)
		call := fmt.Sprintf("c%d", i)
		s.add(KindPermission, run, start, i, t+2e6, t+3e6, "gen_ai.tool.call.id", call+"a", "gen_ai.tool.name", "bash",
			"otelagent.permission.action", "allow", "otelagent.permission.source", "session", "otelagent.derived", true)
		for j, suffix := range []string{"a", "b"} {
			tool := s.add(KindToolCall, run, start, i, t+3e6, t+int64(5+j)*1e6, "gen_ai.tool.call.id", call+suffix,
				"gen_ai.tool.name", "bash",
				"gen_ai.operation.name", "execute_tool", "otelagent.tool.outcome", "ok", "otelagent.tool.truncated",
				false,
				"otelagent.count.permissions", 1-j)
			if content {
				tool.Lists = []List{s.list("args", fmt.Sprintf(`{"n":%d}`, i))}
			}
		}
		t += 10e6
		turn := s.add(KindTurn, run, start, i, from, t, append([]any{
			"gen_ai.operation.name", "chat", "otelagent.turn.trigger", "continuation", "gen_ai.response.model",
			"model-1-answered",
			"otelagent.turn.stop_reason", "toolUse", "otelagent.usage.rule", "includes_cache",
			"otelagent.usage.input_tokens", 100, "otelagent.usage.output_tokens", 10,
			"otelagent.usage.reasoning_tokens", 0,
			"otelagent.usage.cache_read_tokens", 50, "otelagent.usage.cache_write_tokens", 0,
			"otelagent.usage.reported.total", 110,
			"gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 10,
			"otelagent.count.tool_calls", 2, "otelagent.count.compactions", 1, "otelagent.count.permissions", 0,
		}, header...)...)
		if content {
			turn.Lists = []List{s.list("request", "sys", fmt.Sprintf("m%d", i)), s.list("output", fmt.Sprintf("o%d",
				i))}
		}
	}
	s.add(KindRun, run, start, NoTurn, start, t, append([]any{
		"gen_ai.operation.name", "invoke_agent", "otelagent.run.kind", "loop", "otelagent.run.status", "completed",
		"otelagent.count.turns", turns, "otelagent.count.tool_calls", 0, "otelagent.count.compactions", 0,
		"otelagent.count.permissions", 0,
	}, header...)...)
}
