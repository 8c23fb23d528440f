package agenttest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var updateHostile = flag.Bool("update-hostile", false, "write testdata/hostile.txtar anew")

// sender makes OTLP of whatever it likes.
type sender struct {
	td  ptrace.Traces
	at  ptrace.SpanSlice
	sum uint32
}

func newSender() *sender {
	s := &sender{td: ptrace.NewTraces()}
	s.resource("coder", "")
	return s
}

// resource begins another service.
func (s *sender) resource(service, tenant string) {
	rs := s.td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", service)
	if tenant != "" {
		rs.Resource().Attributes().PutStr(string(spans.TenantKey), tenant)
	}
	s.at = rs.ScopeSpans().AppendEmpty().Spans()
}

// span adds a span of a session that has a place. Its ids are its own.
func (s *sender) span(name, session string) ptrace.Span {
	s.sum++
	sp := s.at.AppendEmpty()
	sp.SetName(name)
	sp.SetTraceID(pcommon.TraceID{1})
	sp.SetSpanID(pcommon.SpanID{1, byte(s.sum >> 24), byte(s.sum >> 16), byte(s.sum >> 8), byte(s.sum)})
	sp.SetStartTimestamp(1_000_000_000)
	sp.SetEndTimestamp(2_000_000_000)
	set(sp, spans.SessionIDKey, session, spans.RunIDKey, "r", spans.RunStartKey, 1_000_000_000)
	set(sp, spans.SchemaKey, spans.SchemaVersion)
	return sp
}

func (s *sender) turn(session string, index int64) ptrace.Span {
	sp := s.span(spans.SpanTurn, session)
	set(sp, spans.TurnIndexKey, index)
	return sp
}

// set sets attributes of a span: keys and values in turn.
func set(sp ptrace.Span, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		v, _ := sp.Attributes().GetOrPutEmpty(fmt.Sprint(pairs[i]))
		if err := v.FromRaw(pairs[i+1]); err != nil {
			panic(err)
		}
	}
}

// blocks adds an event with bodies, recipes and lists.
func blocksOn(sp ptrace.Span, bodies, recipes, lists []string) {
	e := sp.Events().AppendEmpty()
	e.SetName(spans.EventBlocks)
	for key, l := range map[string][]string{string(spans.BlockBodiesKey): bodies,
		string(spans.BlockWithheldKey): recipes, string(spans.ListsKey): lists} {
		if len(l) > 0 {
			to := e.Attributes().PutEmptySlice(key)
			for _, t := range l {
				to.AppendEmpty().SetStr(t)
			}
		}
	}
}

func short(body string) string { return spans.BlockOfString(body).Short().String() }

// fullID is the id of a block as otelagent.block.withheld has it.
func fullID(body string) string {
	id := spans.BlockOfString(body)
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// listOf is a list of bodies in its wire form.
func listOf(name string, bodies ...string) string {
	l := spans.List{Name: name, Count: int64(len(bodies))}
	text := strings.Join(bodies, "\n")
	l.Whole = spans.WholeOf(int64(len(text)), spans.BlockOfString(text))
	for _, b := range bodies {
		l.Items = append(l.Items, short(b))
	}
	return l.Encode()
}

// hostile are senders: each says what it sends in addition to a span of an honest session, which must not be harmed.
var hostile = []struct {
	name string
	send func(*sender)
	long bool // keeps the case out of short tests
}{
	{name: "attributes of every wrong type", send: func(s *sender) {
		values := []func(pcommon.Value){
			func(v pcommon.Value) {},
			func(v pcommon.Value) { v.SetStr("word") },
			func(v pcommon.Value) { v.SetStr("-1") },
			func(v pcommon.Value) { v.SetStr("\xff\x00\x1b[31m") },
			func(v pcommon.Value) { v.SetInt(math.MinInt64) },
			func(v pcommon.Value) { v.SetInt(math.MaxInt64) },
			func(v pcommon.Value) { v.SetDouble(math.NaN()) },
			func(v pcommon.Value) { v.SetDouble(math.Inf(-1)) },
			func(v pcommon.Value) { v.SetDouble(math.MaxFloat64) },
			func(v pcommon.Value) { v.SetBool(true) },
			func(v pcommon.Value) { v.SetEmptyBytes().FromRaw([]byte{0, 255}) },
			func(v pcommon.Value) { v.SetEmptyMap().PutInt("k", 1) },
			func(v pcommon.Value) { v.SetEmptySlice().AppendEmpty().SetEmptySlice().AppendEmpty().SetStr("x") },
			func(v pcommon.Value) { v.SetEmptySlice() },
		}
		names := []string{spans.SpanRun, spans.SpanTurn, spans.SpanToolCall, spans.SpanCompaction, spans.SpanPermission,
			spans.SpanPayload}
		for i, a := range spans.Attributes() {
			for j, fill := range values {
				sp := s.span(names[(i+j)%len(names)], "types")
				set(sp, spans.RunIDKey, fmt.Sprint("r", i%7), spans.TurnIndexKey, int64(j))
				v, _ := sp.Attributes().GetOrPutEmpty(string(a.Key))
				fill(v)
				v, _ = sp.Events().AppendEmpty().Attributes().GetOrPutEmpty(string(a.Key))
				fill(v)
				sp.Events().At(0).SetName([]string{
					spans.EventBlocks, spans.EventOther, spans.EventFact,
				}[(i/len(names)+j)%3])
			}
		}
	}},
	{name: "ids", send: func(s *sender) {
		for _, id := range []string{
			"", "\x00", "nul\x00", "\xff\xfe", "x'; DROP TABLE rows; --", "\x1b]0;title\a\x1b[2J", "a\nb\tc",
			"../../etc/passwd", "%s%n", "{}", "🜚",
			"Case", "case", "caf\u00e9", "cafe\u0301", "case ", strings.Repeat("long", 1<<18), "\u202egnol",
		} {
			set(s.turn(id, 0), spans.AgentNameKey, id)
			sp := s.span(spans.SpanToolCall, "ids")
			set(sp, spans.RunIDKey, id, spans.ToolCallIDKey, id, spans.ToolNameKey, id)
			sp.Attributes().PutStr(id, id)
		}
		s.turn("zero trace", 0).SetTraceID(pcommon.TraceID{})
		s.turn("zero span", 0).SetSpanID(pcommon.SpanID{})
		s.turn("none", 0).Attributes().Remove(string(spans.SessionIDKey))
	}},
	{name: "10 MB attributes", send: func(s *sender) {
		sp := s.turn("large", 0)
		long := strings.Repeat("é", 5<<20)
		set(sp, spans.ErrorMessageKey, long, spans.RequestModelKey, long)
		sp.Attributes().PutStr("custom", long)
		sp.Attributes().PutStr(long[:1000], "a key")
		sp.Attributes().PutEmptyBytes("bytes").FromRaw([]byte(long))
		sp.Attributes().PutEmptyMap("map").PutStr(long, long)
	}},
	{name: "a million attributes", long: true, send: func(s *sender) {
		a := s.turn("many", 0).Attributes()
		raw := a.AsRaw()
		for i := range 1_000_000 { // Put looks for a key before it adds it
			raw[fmt.Sprint("k", i)] = i
		}
		raw[string(spans.RequestModelKey)] = "kept"
		if err := a.FromRaw(raw); err != nil {
			panic(err)
		}
	}},
	{name: "nesting", send: func(s *sender) {
		a := s.turn("nested", 0).Attributes()
		list, m := a.PutEmpty("lists"), a.PutEmpty("maps")
		for range 70 {
			list, m = list.SetEmptySlice().AppendEmpty(), m.SetEmptyMap().PutEmpty("k")
		}
		a.PutEmptyMap("fits").PutEmptySlice("list").AppendEmpty().SetInt(1)
	}},
	{name: "rings of parents", send: func(s *sender) {
		for i, parent := range []string{"a", "c", "b", "x", "a"} { // a names itself, b and c each other
			sp := s.span(spans.SpanRun, "rings")
			sp.SetParentSpanID(sp.SpanID())
			set(sp, spans.RunIDKey, []string{"a", "b", "c", "d", "e"}[i], spans.RunParentIDKey, parent)
		}
		for _, pair := range [][2]string{{"left", "right"}, {"right", "left"}, {"self", "self"}} {
			sp := s.span(spans.SpanRun, pair[0])
			set(sp, spans.RunParentSessionIDKey, pair[1], spans.RunParentIDKey, "r", spans.RunParentToolCallIDKey, "call")
			tool := s.span(spans.SpanToolCall, pair[0])
			set(tool, spans.ToolCallIDKey, "call", spans.ToolChildSessionIDKey, pair[1], spans.ToolChildRunIDKey, "r")
		}
	}},
	{name: "times", send: func(s *sender) {
		for i, t := range [][2]uint64{
			{1, 2}, {0, 5}, {math.MaxInt64 - 1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64 + 1}, {math.MaxUint64,
				1}, {5_000_000_000, 1}, {1, math.MaxInt64},
			{1_000_000_000, 0},
		} {
			sp := s.turn("times", int64(i))
			sp.SetStartTimestamp(pcommon.Timestamp(t[0]))
			sp.SetEndTimestamp(pcommon.Timestamp(t[1]))
		}
		for i, start := range []int64{0, -1, math.MinInt64, 1, math.MaxInt64} {
			sp := s.turn("starts", int64(i))
			set(sp, spans.RunStartKey, start, spans.RunOrdinalFromKey, start, spans.RunOrdinalKey, start)
			set(sp, spans.GroupStartKey, start)
			e := sp.Events().AppendEmpty()
			e.SetName(spans.EventOther)
			e.SetTimestamp(pcommon.Timestamp(start))
		}
	}},
	{name: "indices and counts", send: func(s *sender) {
		for _, n := range []int64{0, math.MaxInt64, math.MaxInt64 - 1, -1, math.MinInt64} {
			sp := s.turn("counts", n)
			for _, k := range []attribute.Key{spans.CountToolCallsKey, spans.CountPermissionsKey, spans.CountCompactionsKey} {
				set(sp, k, n)
			}
			sp = s.span(spans.SpanToolCall, "counts")
			set(sp, spans.CountPermissionsKey, math.MaxInt64, spans.TurnIndexKey, 0, spans.OrdinalKey, n)
			run := s.span(spans.SpanRun, "counts")
			set(run, spans.RunIDKey, fmt.Sprint("of ", n), spans.CountTurnsKey, n)
		}
	}},
	{name: "schema versions", send: func(s *sender) {
		for i, v := range []func(pcommon.Value){
			func(v pcommon.Value) { v.SetInt(2) },
			func(v pcommon.Value) { v.SetInt(999) },
			func(v pcommon.Value) { v.SetInt(-1) },
			func(v pcommon.Value) { v.SetStr("next") },
			func(v pcommon.Value) { v.SetEmptyMap() },
		} {
			sp := s.turn("schema", int64(i))
			to, _ := sp.Attributes().GetOrPutEmpty(string(spans.SchemaKey))
			v(to)
			sp.Attributes().PutStr("otelagent.unheard.of", "kept")
			blocksOn(sp, []string{"x"}, nil, []string{"unheard.of 1 D\n" + short("x") + " zz:? {}"})
			sp.Events().AppendEmpty().SetName("otelagent.unheard.of")
		}
		s.span("session.unheard_of", "schema")
	}},
	{name: "100,000 spans of one session", long: true, send: func(s *sender) {
		for i := range 25_000 {
			s.turn("crowd", int64(i))
			s.turn("crowd", 3)
			sp := s.span(spans.SpanToolCall, "crowd")
			set(sp, spans.ToolCallIDKey, fmt.Sprint(i%100))
			sp = s.span(spans.SpanPermission, "crowd")
			set(sp, spans.ToolCallIDKey, fmt.Sprint(i), spans.TurnIndexKey, int64(i))
		}
	}},
	{name: "lists", send: func(s *sender) {
		sp := s.turn("lists", 0)
		blocksOn(sp, []string{"one"}, nil, []string{
			"request 9223372036854775807\n" + short("one"),
			"request.9223372036854775807 1 9223372036854775806 AAAAAAAAAAA\n" + short("one"),
			"input 0\n" + strings.Repeat("\n", 10_000),
			"output 1\n" + short("one") + " t:9223372036854775807:u:9223372036854775807\n" + short("one") + " .u\n" +
				short("one") + " ,u",
			"results 1 1 AAAAAAAAAAA",
			strings.Repeat("n", 300) + " 1",
			"no list", "", "\n", "x -1", "params 1 D",
		})
		for i := range int64(300) { // each a prefix of the next, and none known
			sp := s.turn("prefixes", i)
			blocksOn(sp, nil, nil, []string{fmt.Sprintf("request %d %d AAAAAAAAAAA\n%s", i+1, i, short("one"))})
		}
	}},
	{name: "lists that double", long: true, send: func(s *sender) {
		// Every request repeats all before it: a session of few bytes with very many items.
		var mark spans.Mark
		item := short("one")
		for i := range int64(8000) {
			prefix := ""
			if i > 0 {
				prefix = " " + fmt.Sprint(i) + " " + mark.String()
			}
			blocksOn(s.turn("double", i), nil, nil, []string{fmt.Sprintf("request %d%s\n%s", i+1, prefix, item)})
			mark = mark.Add(item)
		}
	}},
	{name: "templates", send: func(s *sender) {
		sp := s.turn("templates", 0)
		bodies := []string{
			"\x01" + short("none"), "\x01" + short("withheld"), "\x01", "\x01AAAAAAAAAAA", "\x01AAAAAAAAAA*", "\x02",
			"\x02x", "\x02m,", "\x02s", "\x01\x03", "body",
		}
		bodies = append(bodies, "\x01"+short(bodies[0])) // of what is a template itself
		blocksOn(sp, bodies, []string{
			fullID("body") + " 3 fak", // of a body that is there
			fullID("body") + " 9999",  // said to be withheld
			fullID("withheld") + " 8 with",
			"AAAAAAAAAAA 99999999999", "no block", "", fullID("less") + " 1 more than that", fullID("none") + " 0",
		}, []string{listOf("input", bodies...), listOf("params", bodies...)})
	}},
	{name: "templates that make gigabytes", long: true, send: func(s *sender) {
		sp := s.turn("bomb", 0)
		base := strings.Repeat("x", 512<<10)
		var bodies []string
		for i := range 40 { // each is 50 MiB
			bodies = append(bodies, fmt.Sprint(i)+strings.Repeat("\x01"+short(base), 100))
		}
		blocksOn(sp, append(bodies, base), nil, []string{listOf("input", bodies...)})
	}},
	{name: "usage", send: func(s *sender) {
		for i, n := range []int64{math.MaxInt64, math.MaxInt64, 5, math.MinInt64, math.MinInt64, -5, math.MinInt64} {
			sp := s.turn([]string{"most", "least"}[min(i/3, 1)], int64(i))
			for _, k := range []attribute.Key{spans.UsageInputKey, spans.UsageOutputKey, spans.DiscardedUsageInputKey,
				spans.UsageReportedTotalKey} {
				set(sp, k, n)
			}
			set(sp, spans.TurnCostKey, math.MaxFloat64, spans.TurnCostCurrencyKey, "USD", spans.TurnModelCallDurationKey, n)
			set(sp, spans.TimeToFirstChunkKey, float64(n))
			blocksOn(sp, []string{`{"role":"assistant","content":"x"}`}, nil, []string{listOf("output",
				`{"role":"assistant","content":"x"}`)})
		}
	}},
	{name: "terminal escapes", send: func(s *sender) {
		evil := "\x1b[31mred\x1b]8;;http://example.com\a\x07\x08\u202e\u200b\x9b2J\r\n"
		sp := s.turn("esc", 0)
		for _, k := range []attribute.Key{
			spans.RequestModelKey, spans.ResponseModelKey, spans.ErrorMessageKey, spans.TurnTriggerKey,
			spans.TurnStopReasonKey, spans.AgentNameKey, spans.ProviderNameKey, "custom",
		} {
			set(sp, k, evil)
		}
		body := `{"role":"user","content":"` + "\\u001b[31mred" + `"}`
		blocksOn(sp, []string{body, evil}, nil, []string{listOf("input", body), listOf("output", evil), evil + " 1"})
		tool := s.span(spans.SpanToolCall, "esc")
		set(tool, spans.ToolNameKey, evil, spans.ToolOutcomeKey, evil)
		s.at.At(s.at.Len() - 1).SetName(spans.SpanToolCall)
		s.resource(evil, "")
		s.turn("esc", 1)
	}},
}

// honestly adds a whole small session.
func honestly(s *sender) {
	s.resource("honest", "")
	run := s.span(spans.SpanRun, "honest")
	set(run, spans.RunStatusKeyKey, "completed", spans.CountTurnsKey, 1)
	turn := s.turn("honest", 0)
	set(turn, spans.UsageInputKey, 7)
	in, out := `{"role":"user","content":"the honest prompt"}`, `{"role":"assistant","content":"an answer"}`
	blocksOn(turn, []string{in, out}, nil, []string{listOf("input", in), listOf("output", out)})
	for _, sp := range []ptrace.Span{run, turn} { // ids that nobody else has, and that do not depend on what else there is
		sp.SetTraceID(pcommon.TraceID{0xee})
		sp.SetSpanID(pcommon.SpanID{byte(len(sp.Name())), 0xee})
	}
}

// shown is everything that a reader can make of a store: lists, trees with their defects, and exports.
type shown struct {
	sessions []string // one line each
	trees    map[session.Key]*session.Session
	text     map[session.Key]string
}

type counter struct {
	io.Writer
	n int
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.Writer.Write(p)
}

// show reads a store like the verbs do.
func show(t *testing.T, st store.Store) shown {
	t.Helper()
	ctx := t.Context()
	if err := project.Refresh(ctx, st); err != nil {
		t.Errorf("project: %v", err)
	}
	out := shown{trees: map[session.Key]*session.Session{}, text: map[session.Key]string{}}
	for sum, err := range st.Sessions(ctx, store.Query{AllTenants: true}) {
		must.Do(t, err)
		line, err := json.Marshal(sum)
		if err != nil {
			t.Errorf("summary: %v", err)
		}
		out.sessions = append(out.sessions, string(line))
		out.trees[sum.Key], out.text[sum.Key] = showSession(t, st, sum.Key)
		if _, err := store.Descendants(ctx, st, sum.Key, false); err != nil {
			t.Errorf("descendants: %v", err)
		}
	}
	slices.Sort(out.sessions)
	return out
}

// showSession reads one session and makes every text and export of it.
func showSession(t testing.TB, st store.Store, k session.Key) (*session.Session, string) {
	t.Helper()
	return showBatch(t, stored(t, st, k))
}

func showBatch(t testing.TB, b session.Batch) (*session.Session, string) {
	t.Helper()
	tree, blocks := session.Assemble(b.Rows), blocksOfAll(b)
	tree.CheckContent(blocks)
	whole := session.Tree{Session: tree, Blocks: blocks}
	texts := []inspect.Options{{Width: 100}, {Width: 200, Hidden: true}}
	requests := 0
	for n := range tree.Walk() {
		if n.Kind() != session.KindTurn {
			continue
		}
		if len(texts) < 6 {
			texts = append(texts, inspect.Options{Width: 80, Run: n.Run, Turn: n.Turn})
		}
		for _, q := range n.Turn.Requests {
			if requests++; requests <= 100 {
				q.Payload(blocks)
				inspect.NewRequest(whole, n.Run, n.Turn, q)
			}
		}
	}
	var text string
	for i, o := range texts {
		var b strings.Builder
		if err := inspect.Text(&b, whole, o); err != nil {
			t.Errorf("text of %+v: %v", o, err)
		}
		if c := controls(b.String()); c != "" {
			t.Errorf("%s goes to the terminal, of %+v", c, o)
		}
		if i == 0 {
			text = b.String()
		}
	}
	rest := &counter{Writer: io.Discard}
	for name, write := range map[string]func(io.Writer, session.Tree, export.Options) ([]export.Missing,
		error){
		"json": export.JSON, "csv": export.CSV, "acp": export.ACP, "phi-core": export.PhiCore,
	} {
		if _, err := write(rest, session.Tree{Session: tree, Blocks: blocks}, export.Options{Partial: true}); err != nil &&
			!errors.Is(err, export.ErrEmpty) {
			t.Errorf("export %s: %v", name, err)
		}
	}
	if requests <= 1000 { // else all items of all requests would be written out
		if err := json.NewEncoder(rest).Encode(tree); err != nil {
			t.Error(err)
		}
	}
	if len(text) > 64<<20 || rest.n > 1<<30 {
		t.Errorf("%d bytes of text, %d of exports", len(text), rest.n)
	}
	return tree, text
}

// Input of a hostile sender is stored as far as it can be, and counted where it cannot: from the bytes of OTLP to
// what is shown and exported, alike in both stores, in any order. A span of somebody else in the same message is not
// harmed. testdata/hostile.txtar has the result of each case.
func TestHostile(t *testing.T) {
	golden := filepath.Join("testdata", "hostile.txtar")
	want := map[string]string{}
	if a, err := txtar.ParseFile(golden); err == nil {
		for _, f := range a.Files {
			want[f.Name] = string(f.Data)
		}
	}
	var archive txtar.Archive
	alone := newSender()
	honestly(alone)
	honestBatch, _, err := otlprow.DecodeProto(alone.bytes(t))
	must.Do(t, err)
	_, honestText := showBatch(t, honestBatch)

	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			if c.long && testing.Short() && !*updateHostile {
				t.Skip("-short: takes seconds")
			}
			s := newSender()
			honestly(s)
			s.resource("coder", "")
			c.send(s)
			otlp := s.bytes(t)
			began := time.Now()

			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			batch, report, err := otlprow.DecodeProto(otlp)
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; err != nil || grown > uint64(30*len(otlp)+128<<20) {
				t.Fatalf("decoding %d bytes allocates %d: %v", len(otlp), grown, err)
			}

			file := must.Get(sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), sqlitestore.WithChatTables()))(t)
			defer file.Close()
			backwards := session.Batch{Rows: slices.Clone(batch.Rows), Blocks: slices.Clone(batch.Blocks)}
			slices.Reverse(backwards.Rows)
			slices.Reverse(backwards.Blocks)
			mem := memstore.New()
			must.Do(t, errors.Join(file.Put(t.Context(), batch), mem.Put(t.Context(), backwards),
				mem.Put(t.Context(), backwards)))
			got, other := show(t, file), show(t, mem)
			if diff := cmp.Diff(got.sessions, other.sessions); diff != "" {
				t.Errorf("other sessions in memory:\n%s", diff)
			}
			for k, text := range got.text {
				if text != other.text[k] {
					t.Errorf("session %.40q is shown otherwise from memory:\n%s", k.ID, cmp.Diff(text, other.text[k]))
				}
			}
			if diff := cmp.Diff(honestText, got.text[session.Key{ID: "honest"}]); diff != "" {
				t.Errorf("the honest session was harmed:\n%s", diff)
			}
			if took := time.Since(began); took > 3*time.Minute { // on a machine that does other work too
				t.Errorf("took %s", took)
			}

			var b strings.Builder
			fmt.Fprintf(&b, "spans %d, stored %d, foreign %d, rejected %v, cut %d\n", report.Spans, report.Stored,
				report.Foreign,
				report.Rejected, report.Cut)
			for _, line := range got.sessions {
				if !strings.Contains(line, `"id":"honest"`) {
					fmt.Fprintf(&b, "%.400s\n", line)
				}
			}
			for _, k := range slices.SortedFunc(maps.Keys(got.trees), func(a, b session.Key) int {
				return strings.Compare(a.Tenant+"\x00"+a.ID, b.Tenant+"\x00"+b.ID)
			}) {
				var l []string
				for code, n := range defects(got.trees[k]) {
					l = append(l, fmt.Sprint(code, " ", n))
				}
				if slices.Sort(l); l != nil {
					fmt.Fprintf(&b, "%q %.60q: %s\n", k.Tenant, k.ID, strings.Join(l, ", "))
				}
			}
			archive.Files = append(archive.Files, txtar.File{Name: c.name, Data: []byte(b.String())})
			if diff := cmp.Diff(want[c.name], b.String()); diff != "" && !*updateHostile {
				t.Errorf("-want +got (-update-hostile writes it anew):\n%s", diff)
			}
		})
	}
	if *updateHostile {
		must.Do(t, os.WriteFile(golden, txtar.Format(&archive), 0o644))
	}
}

func (s *sender) bytes(t testing.TB) []byte {
	t.Helper()
	b := must.Get((&ptrace.ProtoMarshaler{}).MarshalTraces(s.td))(t)
	return bytes.Clone(b)
}
