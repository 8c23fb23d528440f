package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/internal/phifixtures"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/phi"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// recorded is a session as it came through the whole pipeline.
type recorded struct {
	*session.Session
	blocks *session.BlockSet
}

// replayed plays events of phi-core and returns the sessions.
func replayed(t *testing.T, events []byte, capture otelagent.Capture) []recorded {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture), otelagent.WithDerivedIDs())
	rec := otelagent.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(bytes.NewReader(events)) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return arrived(t, p)
}

func arrived(t *testing.T, p *agenttest.Pipeline) []recorded {
	t.Helper()
	batch := p.Batch()
	var l []recorded
	for _, s := range p.Sessions() {
		r := recorded{s, &session.BlockSet{}}
		for _, b := range batch.Blocks {
			if b.Session.ID == s.ID {
				r.blocks.Add(b)
			}
		}
		l = append(l, r)
	}
	return l
}

func (r *recorded) write(t *testing.T, write func(context.Context, *bytes.Buffer, *session.Session, Bodies, Options) ([]Missing, error), opts Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if missing, err := write(t.Context(), &out, r.Session, Held(r.blocks), opts); err != nil || len(missing) > 0 {
		t.Fatalf("session %s: %v, %v", r.ID, missing, err)
	}
	return out.Bytes()
}

func asJSON(ctx context.Context, w *bytes.Buffer, s *session.Session, b Bodies, o Options) ([]Missing, error) {
	return JSON(ctx, w, s, b, o)
}

func asJSONL(ctx context.Context, w *bytes.Buffer, s *session.Session, b Bodies, o Options) ([]Missing, error) {
	return JSONL(ctx, w, s, b, o)
}

func asCSV(ctx context.Context, w *bytes.Buffer, s *session.Session, b Bodies, o Options) ([]Missing, error) {
	return CSV(ctx, w, s, b, o)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", "guide", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s: -want +got:\n%s", name, d)
	}
}

// What real sessions of phi-core come to.
func TestGuideGolden(t *testing.T) {
	names := []string{
		"revert", "compaction-in-turn", "compaction-standalone", "tool-denied-by-hook", "extension-message-and-image", "steering-and-follow-up",
		"execution-limit", "parallel-with-judge", "killed", "input-rejected-before-run", "sub-agent-host-wired", "parallel-tools-one-error",
	}
	for _, f := range phifixtures.All(t, "../..") {
		name, ok := strings.CutPrefix(f.String(), "0.15.2/")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		t.Run(name, func(t *testing.T) {
			var lines, table []byte
			for _, s := range replayed(t, f.Events, otelagent.CaptureContent) {
				lines = append(lines, s.write(t, asJSONL, Options{})...)
				table = append(table, s.write(t, asCSV, Options{})...)
			}
			golden(t, name+".jsonl", lines)
			golden(t, name+".csv", table)
		})
	}
	if len(names) > 0 {
		t.Errorf("no recordings of %v", names)
	}
}

// line is one line of JSONL.
type line struct {
	Type string
	Data map[string]any
}

func linesOf(t *testing.T, raw []byte) []line {
	t.Helper()
	var l []line
	for text := range bytes.Lines(raw) {
		var x line
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatal(err)
		}
		l = append(l, x)
	}
	return l
}

func (l *line) str(key string) string { s, _ := l.Data[key].(string); return s }
func (l *line) num(key string) int64  { f, _ := l.Data[key].(float64); return int64(f) }

func (l *line) inner(key string) map[string]any {
	var m map[string]any
	if json.Unmarshal([]byte(l.str(key)), &m) != nil {
		return nil
	}
	return m
}

// Rules that hold for every session: the order of the guide, ids, contiguous indexes, hoisted columns, JSON and JSONL alike, and the
// sums.
func TestGuideRowsOfEveryRecording(t *testing.T) {
	for _, f := range phifixtures.All(t, "../..") {
		t.Run(f.String(), func(t *testing.T) {
			for _, s := range replayed(t, f.Events, otelagent.CaptureContent) {
				raw := s.write(t, asJSONL, Options{})
				l := linesOf(t, raw)
				checkOrder(t, l)
				checkTexts(t, &s, l)
				checkSums(t, s.Session, s.write(t, asCSV, Options{}))
				if again := s.write(t, asJSONL, Options{}); !bytes.Equal(raw, again) {
					t.Error("written again it is something else")
				}
				checkDocument(t, s.write(t, asJSON, Options{}), l)
				strict := linesOf(t, s.write(t, asJSONL, Options{Strict: true}))
				checkStrict(t, l, strict)
			}
		})
	}
}

func checkOrder(t *testing.T, l []line) {
	t.Helper()
	if l[0].Type != "session" {
		t.Fatalf("the first line is a %s", l[0].Type)
	}
	seen := map[string]bool{}
	var message *line
	index := int64(0)
	for i := range l {
		x := &l[i]
		if x.Type == "session" && i > 0 {
			t.Error("a second session")
		}
		if id := x.str("id"); id != "" {
			if seen[id] {
				t.Errorf("%s occurs twice", id)
			}
			seen[id] = true
		}
		switch x.Type {
		case "message":
			if message != nil && cmp.Or(cmp.Compare(message.num("created_at"), x.num("created_at")), strings.Compare(message.str("id"), x.str("id"))) >= 0 {
				t.Errorf("%s stands before %s", message.str("id"), x.str("id"))
			}
			message, index = x, 0
		case "part":
			data := x.inner("data_json")
			if x.num("index") != index || x.str("message_id") != message.str("id") || data["type"] != x.str("type") {
				t.Errorf("part %s: index %d, want %d", x.str("id"), x.num("index"), index)
			}
			if id, _ := data["toolCallId"].(string); id != x.str("tool_call_id") {
				t.Errorf("part %s: tool_call_id %q, want %q", x.str("id"), x.str("tool_call_id"), id)
			}
			if data["state"] != nil && strings.HasPrefix(x.str("type"), "tool-") && data["state"] != x.str("tool_state") {
				t.Errorf("part %s: tool_state %q", x.str("id"), x.str("tool_state"))
			}
			index++
		}
	}
}

// checkTexts compares the texts and calls of the rows with those that stand in the blocks of the tree, read by other means.
func checkTexts(t *testing.T, s *recorded, l []line) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, r := range s.Runs {
		blocks := map[string]string{}
		add := func(refs *session.Refs) {
			for _, ref := range refs.Items() {
				blocks[ref.Block], _ = s.blocks.Body(ref)
			}
		}
		add(r.Messages)
		add(r.Outside)
		for _, turn := range r.Turns {
			add(turn.Input)
			add(turn.Output)
			add(turn.Results)
			if turn.Output == nil { // a call is known from its span alone
				for _, c := range turn.ToolCalls {
					want["call "+c.ID]++
				}
			}
		}
		for _, body := range blocks {
			var m struct {
				Role, ToolCallID string
				Content          []struct{ Type, Text, Thinking, ID string }
			}
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				continue
			}
			for _, c := range m.Content {
				switch {
				case c.Type == "text" && m.Role == "toolResult":
					want["result "+c.Text]++
				case c.Type == "text":
					want["text "+c.Text]++
				case c.Type == "thinking":
					want["reasoning "+c.Thinking]++
				case c.Type == "toolCall":
					want["call "+c.ID]++
				}
			}
		}
	}
	for i := range l {
		if l[i].Type != "part" {
			continue
		}
		data := l[i].inner("data_json")
		switch typ := l[i].str("type"); {
		case typ == "text" || typ == "reasoning":
			got[fmt.Sprint(typ, " ", data["text"])]++
		case strings.HasPrefix(typ, "tool-"):
			got["call "+l[i].str("tool_call_id")]++
			var result any
			switch data["state"] {
			case "output-available":
				result = data["output"].(map[string]any)["data"]
			case "output-error":
				result = data["errorText"]
			case "output-denied":
				result = data["approval"].(map[string]any)["reason"]
			}
			for _, text := range resultTexts(result) {
				got["result "+text]++
			}
		}
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("session %s: -tree +rows:\n%s", s.ID, d)
	}
}

func resultTexts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var l []string
		for _, e := range v {
			if m, ok := e.(map[string]any); ok && m["type"] == "text" {
				l = append(l, m["text"].(string))
			}
		}
		return l
	}
	return nil
}

func checkSums(t *testing.T, s *session.Session, raw []byte) {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(csvHeader, records[0]); d != "" {
		t.Error(d)
	}
	var sum [5]int64
	for _, r := range records[1:] {
		for i := range sum {
			if r[9+i] != "" {
				n, err := strconv.ParseInt(r[9+i], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum[i] += n
			}
		}
	}
	got := session.Usage{Input: sum[0], Output: sum[1], Reasoning: sum[2], CacheRead: sum[3], CacheWrite: sum[4]}
	if got != s.Usage {
		t.Errorf("session %s: sums %+v, want %+v", s.ID, got, s.Usage)
	}
}

// checkDocument compares the document with the lines.
func checkDocument(t *testing.T, raw []byte, l []line) {
	t.Helper()
	var doc struct {
		Session  map[string]any
		Messages []struct {
			Message map[string]any
			Parts   []map[string]any
		}
		Prompts     []map[string]any `json:"system_prompts"`
		Catalogs    []map[string]any `json:"tool_catalogs"`
		Permissions []map[string]any
		Defects     []map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	got := []line{{"session", doc.Session}}
	for _, m := range doc.Messages {
		got = append(got, line{"message", m.Message})
		for _, p := range m.Parts {
			got = append(got, line{"part", p})
		}
	}
	for _, x := range []struct {
		typ string
		l   []map[string]any
	}{{"system_prompt", doc.Prompts}, {"tool_catalog", doc.Catalogs}, {"permission", doc.Permissions}, {"defect", doc.Defects}} {
		for _, data := range x.l {
			got = append(got, line{x.typ, data})
		}
	}
	if d := gocmp.Diff(l, got); d != "" {
		t.Errorf("-lines +document:\n%s", d)
	}
}

// checkStrict compares the strict lines with the others: the same rows without what is ours.
func checkStrict(t *testing.T, l, strict []line) {
	t.Helper()
	var want []line
	for _, x := range l {
		if x.Type != "session" && x.Type != "message" && x.Type != "part" {
			continue
		}
		if x.Type != "part" {
			meta := x.inner("metadata_json")
			delete(meta, "otelagent")
			x = line{x.Type, maps.Clone(x.Data)}
			x.Data["metadata_json"] = meta
		}
		want = append(want, x)
	}
	for i := range strict {
		if strict[i].Type != "part" {
			strict[i].Data["metadata_json"] = strict[i].inner("metadata_json")
		}
	}
	if d := gocmp.Diff(want, strict); d != "" {
		t.Errorf("-all but ours +strict:\n%s", d)
	}
}

// The two recipes of the guide work on both forms.
func TestGuideRecipes(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed")
	}
	parent, _, m := sessions()
	var lines, document bytes.Buffer
	if _, err := JSONL(t.Context(), &lines, parent, Held(&m.blocks), Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := JSON(t.Context(), &document, parent, Held(&m.blocks), Options{}); err != nil {
		t.Fatal(err)
	}
	run := func(input []byte, args ...string) string {
		c := exec.CommandContext(t.Context(), jq, args...)
		c.Stdin = bytes.NewReader(input)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("jq %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	const asLines = `({type:"session",data:.session}), (.messages[] | {type:"message",data:.message}, (.parts[] | {type:"part",data:.}))`
	for _, recipe := range []string{
		`select(.type=="part") | .data.tool_state`,
		`select(.type=="message" and .data.role=="assistant") | .data.metadata_json | fromjson`,
	} {
		a := run(lines.Bytes(), recipe)
		b := run(document.Bytes(), asLines+" | "+recipe)
		if a != b || len(a) == 0 {
			t.Errorf("%s: %s of the lines, %s of the document", recipe, a, b)
		}
	}
	if states := run(lines.Bytes(), "-r", `select(.type=="part") | .data.tool_state | select(.)`); !strings.Contains(states, "output-available") {
		t.Errorf("tool states: %q", states)
	}
}

func TestGuideNamesWhatIsMissing(t *testing.T) {
	parent, _, m := sessions()
	var some session.BlockSet
	for _, body := range []string{user, result, `{"k": [1, 2]}`, `"sys"`} {
		some.Add(session.Block{Body: body})
	}
	var out bytes.Buffer
	_, err := JSONL(t.Context(), &out, parent, Held(&some), Options{})
	var named *MissingError
	if !errors.As(err, &named) || !errors.Is(err, ErrContent) || out.Len() > 0 {
		t.Fatalf("%d bytes, %v", out.Len(), err)
	}
	id := spans.BlockOfString(assistant).Short().String()
	want := "s.cfg.1@2026-05-28T20:26:40.123456789Z/0: output: blocks " + id
	if !slices.ContainsFunc(named.Missing, func(m Missing) bool { return m.String() == want }) {
		t.Errorf("%q is not among %v", want, named.Missing)
	}
	missing, err := JSONL(t.Context(), &out, parent, Held(&some), Options{Partial: true})
	if err != nil || len(missing) != len(named.Missing) || len(linesOf(t, out.Bytes())) < 5 {
		t.Errorf("%v, %v", missing, err)
	}
	if _, err := JSON(t.Context(), &out, parent, Held(&m.blocks), Options{}); err != nil {
		t.Error(err)
	}
	if _, err := JSON(t.Context(), &out, &session.Session{ID: "s"}, nil, Options{}); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
}

// Without capture there are rows, and no texts; what is not there is said.
func TestGuideWithoutContent(t *testing.T) {
	for _, f := range phifixtures.All(t, "../..") {
		if f.String() != "0.15.2/parallel-tools-one-error" {
			continue
		}
		for _, capture := range []otelagent.Capture{otelagent.CaptureNone, otelagent.CaptureDigests} {
			s := replayed(t, f.Events, capture)[0]
			var out bytes.Buffer
			missing, err := JSONL(t.Context(), &out, s.Session, Held(s.blocks), Options{})
			if err != nil || len(missing) != 1 || !strings.Contains(missing[0].What, "captured with") {
				t.Errorf("%v, %v", missing, err)
			}
			var types []string
			for _, l := range linesOf(t, out.Bytes()) {
				if l.Type == "part" {
					types = append(types, l.str("type")+" "+l.str("tool_state"))
				}
			}
			if d := gocmp.Diff([]string{
				"step-start ", "tool-read_tide_table output-available", "tool-inspect_crane output-error", "tool-query_customs output-available", "step-start ",
			}, types); d != "" {
				t.Errorf("capture %v: %s", capture, d)
			}
		}
	}
}

// Results that come as messages of the next turn, calls that share an id, replies whose turn is not there, usage that only the run has,
// ids that messages have themselves, facts: what phi-core's sessions do not show.
func TestGuideOfOtherLoops(t *testing.T) {
	m := &made{}
	float := func(f float64) *float64 { return &f }
	now := ms(0)
	first := &session.Run{
		Span: observed(0, 90), ID: "r1", Agent: "a", Model: "m", Provider: "p", Status: spans.RunStatusCompleted, Capture: spans.CaptureContent,
		Usage: session.Usage{Input: 300, Output: 30, Reasoning: 10, CacheRead: 100},
		Rules: m.refs(part{`[{"permission":"bash","pattern":"*","action":"ask","source":"session"},{"permission":"x","pattern":"*","action":"deny","source":"manifest"}]`, "", ""}),
		Turns: []*session.Turn{
			{
				Span: observed(1, 10), Capture: spans.CaptureContent, Usage: session.Usage{Input: 100, Output: 10}, Cost: float(0.25), Currency: "USD", StopReason: "tool_use",
				Input:  m.refs(part{`{"role":"user","content":"do it"}`, "", `{"id":"own-1"}`}),
				Output: m.refs(part{`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n":1}},{"type":"tool_use","id":"d","name":"g","input":{}}]}`, "", ""}),
			},
			{
				Span: observed(11, 20), Index: 1, Capture: spans.CaptureContent, Usage: session.Usage{Input: 200, Output: 20, Reasoning: 10, CacheRead: 100},
				Input: m.refs(part{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"one"},{"type":"text","text":"and"}]}`, "", ""},
					part{`{"role":"tool","tool_call_id":"gone","content":"nobody asked"}`, "", ""}),
				Output: m.refs(part{`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n":2}},{"type":"thinking","thinking":"hm","signature":"sig"}]}`, "", ""}),
				ToolCalls: []*session.ToolCall{
					{Span: observed(12, 13), ID: "c", Name: "f", Outcome: spans.OutcomeCancelled, Error: "stopped"},
					{Span: session.Span{Known: spans.KnownLive, Start: ms(14)}, ID: "late", Name: "h", Args: m.refs(part{`{"q":1}`, "", ""})},
				},
			},
		},
	}
	second := &session.Run{
		Span: observed(100, 190), ID: "r2", Agent: "b", Status: spans.RunStatusCompleted, Capture: spans.CaptureContent,
		Usage: session.Usage{Input: 7, Output: 3}, Reported: &session.ReportedUsage{Input: 7, Output: 3},
		Messages: m.refs(part{`{"role":"user","content":"again"}`, "", `{"id":"own-2"}`},
			part{`{"id":"own-1","role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, "", ""},
			part{`{"role":"tool","tool_call_id":"x","content":"done"}`, "", ""}, part{`{"role":"system","content":"stop"}`, "", ""}),
		Compactions: []*session.Compaction{{
			Span: observed(150, 151), Kind: spans.CompactionKindSummary, Trigger: "auto", OutputTokens: new(int64), Summary: m.refs(part{`"short"`, "", ""}),
			After: m.refs(part{`{"role":"user","content":"again"}`, "", `{"id":"own-2"}`}),
		}},
	}
	third := &session.Run{Span: observed(200, 201), ID: "r3", Status: spans.RunStatusError, Copied: true, Usage: session.Usage{Input: 1}}
	fact := func(subject, key, value string) session.Fact {
		id := spans.BlockOfString(value).Short().String()
		m.blocks.Add(session.Block{Body: value})
		return session.Fact{Subject: subject, Key: key, At: ms(300), Value: &session.Ref{Block: id}}
	}
	s := &session.Session{
		ID: "s", Agent: "a", Dialect: "other", Status: spans.SessionStatusIdle, Start: now, Last: ms(201), Runs: []*session.Run{first, second, third},
		Usage: session.Usage{Input: 307, Output: 33, Reasoning: 10, CacheRead: 100},
		Facts: []session.Fact{fact("message/own-1", "hidden_at", "1780000000300"), fact("session", "archived_at", `"2026-05-28T20:26:41Z"`), fact("session", "title", `"a title"`)},
	}
	r := recorded{s, &m.blocks}
	golden(t, "other-loops.jsonl", r.write(t, asJSONL, Options{}))
	golden(t, "other-loops.csv", r.write(t, asCSV, Options{}))
	golden(t, "other-loops.json", r.write(t, asJSON, Options{}))
	checkOrder(t, linesOf(t, r.write(t, asJSONL, Options{})))
	checkSums(t, s, r.write(t, asCSV, Options{}))

	var done []int
	if _, err := JSON(t.Context(), &bytes.Buffer{}, s, Held(&m.blocks), Options{Progress: func(n, all int) { done = append(done, n*100/all) }}); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(done) || done[len(done)-1] != 100 {
		t.Errorf("progress %v", done)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := JSON(ctx, &bytes.Buffer{}, s, Held(&m.blocks), Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// More messages in one millisecond than its digits can order, and an own id that would break the order, move created_at on.
func TestNamer(t *testing.T) {
	var n namer
	type key struct {
		at int64
		id string
	}
	var last key
	less := func(id string, at int64) {
		t.Helper()
		if cmp.Or(cmp.Compare(last.at, at), strings.Compare(last.id, id)) >= 0 {
			t.Fatalf("%d %s does not stand behind %d %s", at, id, last.at, last.id)
		}
		last = key{at, id}
	}
	now := time.Now().UnixMilli()
	for i := range stampsPerMS + 10 {
		less(flip(n.name(now, "", fmt.Sprint(i))))
	}
	for _, own := range []string{"zz", "aa", "zz", ""} {
		less(flip(n.name(now, own, "x")))
	}
	if id := newID("msg", 0, 1, "a"); len(id) != 30 || !strings.HasPrefix(id, "msg_000000000001") {
		t.Error(id)
	}
}

func flip(id string, at int64) (string, int64) { return id, at }
