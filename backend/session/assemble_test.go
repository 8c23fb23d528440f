package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// testRow is a row as the files in testdata/assemble spell it. Times are milliseconds after synthStart.
type testRow struct {
	Kind     string         `json:"kind"`
	Span     byte           `json:"span"`
	Parent   byte           `json:"parent"`
	Run      string         `json:"run"`
	RunStart int64          `json:"run_start"`
	Turn     *int64         `json:"turn"`
	Start    int64          `json:"start"`
	End      int64          `json:"end"`
	Seq      int64          `json:"seq"`
	EndSeq   int64          `json:"end_seq"`
	Known    spans.Known    `json:"known"`
	Failed   bool           `json:"failed"`
	Service  string         `json:"service"`
	Attrs    map[string]any `json:"attrs"`
	Lists    []List         `json:"lists"`
	Events   []Event        `json:"events"`
	Facts    []RowFact      `json:"facts"`
	// OfSession says that the row belongs to no run.
	OfSession bool `json:"of_session"`
}

func (t *testRow) row(tb testing.TB) Row {
	r := Row{
		Trace: TraceID{15: 1}, Span: SpanID{7: t.Span}, Parent: SpanID{7: t.Parent}, Session: Key{ID: "s1"},
		Run: t.Run, RunStart: at(t.RunStart), Turn: NoTurn, Known: t.Known,
		Start: at(t.Start), End: at(t.End), Seq: t.Seq, EndSeq: t.EndSeq, Failed: t.Failed, Service: t.Service,
		Lists: t.Lists, Events: t.Events, Facts: t.Facts,
	}
	if t.OfSession {
		r.RunStart = 0
	}
	if r.Kind = KindOf(t.Kind); r.Kind == KindUnknown {
		tb.Fatalf("kind %q", t.Kind)
	}
	if t.Turn != nil {
		r.Turn = *t.Turn
	}
	if r.Known == "" {
		r.Known = spans.KnownObserved
	}
	var kv []any
	for k, v := range t.Attrs {
		switch x := v.(type) {
		case json.Number:
			if n, err := x.Int64(); err == nil {
				v = n
			} else {
				v, _ = x.Float64()
			}
		case []any:
			var l []string
			for _, e := range x {
				l = append(l, e.(string))
			}
			v = l
		}
		kv = append(kv, k, v)
	}
	r.Attrs = attrs(kv...)
	for i := range r.Events {
		r.Events[i].Time = at(r.Events[i].Time)
	}
	for i := range r.Facts {
		r.Facts[i].Time = at(r.Facts[i].Time)
	}
	return r
}

// archive is a file of sections that begin with "-- name --", as in txtar.
func archive(tb testing.TB, file string) (comment string, sections map[string]string) {
	raw := must.Get(os.ReadFile(file))(tb)
	sections = map[string]string{}
	name := ""
	for line := range strings.Lines(string(raw)) {
		if n, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(strings.TrimSpace(n), " --")
			sections[name] = ""
			continue
		}
		if name == "" {
			comment += line
		} else {
			sections[name] += line
		}
	}
	return comment, sections
}

func readRows(tb testing.TB, text string) []Row {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	var rows []Row
	for d.More() {
		var t testRow
		must.Do(tb, d.Decode(&t))
		rows = append(rows, t.row(tb))
	}
	return rows
}

func treeJSON(tb testing.TB, s any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must.Do(tb, e.Encode(s))
	return b.String()
}

func TestAssembleGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/assemble/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			comment, sections := archive(t, file)
			rows := readRows(t, sections["rows"])
			tree := Assemble(rows)
			out := comment + "-- rows --\n" + sections["rows"]
			for _, x := range []struct {
				name string
				of   any
			}{{"tree", tree}, {"figures", FiguresOf(tree)}, {"summary", Summarize(tree)}} {
				want, ok := sections[x.name]
				if !ok {
					continue
				}
				got := treeJSON(t, x.of)
				if out += "-- " + x.name + " --\n" + got; got != want && !*update {
					t.Errorf("%s: got\n%s\nwant\n%s", x.name, got, want)
				}
			}
			if *update {
				must.Do(t, os.WriteFile(file, []byte(out), 0o644))
			}
			disturb(t, rows, treeJSON(t, tree))
		})
	}
}

// disturb holds Assemble to being a function of the set of rows, through the form in which stores keep them.
func disturb(t *testing.T, rows []Row, want string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		var l []Row
		for i := range rows {
			for range 1 + random.IntN(2) {
				r := must.Get(ParseRow(rows[i].AppendCanonical(nil)))(t)
				l = append(l, r)
			}
		}
		random.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		before := fmt.Sprint(l)
		if got := treeJSON(t, Assemble(l)); got != want {
			t.Fatalf("shuffled and doubled:\n%s\nwant\n%s", got, want)
		}
		if fmt.Sprint(l) != before {
			t.Fatal("Assemble changed its rows")
		}
	}
}

func synthetic() *synth {
	s := &synth{session: Key{Tenant: "t", ID: "s1"}}
	s.whole("r1", 1, at(0), 3, true)
	s.whole("r1", 2, at(1000), 2, true)
	s.whole("r2", 3, at(2000), 1, true)
	return s
}

func TestAssembleIsAFunctionOfTheSet(t *testing.T) {
	s := synthetic()
	tree := Assemble(s.rows)
	if n := Summarize(tree).Defects; n != 0 {
		t.Fatalf("%d defects in a whole session:\n%s", n, treeJSON(t, tree))
	}
	disturb(t, s.rows, treeJSON(t, tree))
}

func TestAssembleEmptyAndSeveral(t *testing.T) {
	if got := treeJSON(t, Assemble(nil)); !strings.Contains(got, `"format": 1`) || !strings.Contains(got,
		`"runs": []`) {
		t.Error(got)
	}
	a, b := synthetic(), synthetic()
	b.session = Key{Tenant: "t", ID: "s0"}
	for i := range b.rows {
		b.rows[i].Session = b.session
	}
	both := append(slices.Clone(a.rows), b.rows...)
	if got := Assemble(both); got.ID != "s0" || len(got.Runs) != 3 {
		t.Errorf("%s with %d runs", got.ID, len(got.Runs))
	}
	all := AssembleAll(both)
	if len(all) != 2 || treeJSON(t, all[0]) != treeJSON(t, Assemble(b.rows)) || treeJSON(t, all[1]) != treeJSON(t,
		Assemble(a.rows)) {
		t.Error("AssembleAll differs from Assemble of each")
	}
}

// Numbers at the ends of their range give ranges that are true.
func TestGapsOfGreatNumbers(t *testing.T) {
	const most = math.MaxInt64
	s := &synth{session: Key{ID: "s1"}}
	s.add(KindTurn, "r", at(0), most, at(1), at(2))
	s.add(KindRun, "r", at(0), NoTurn, at(0), at(2), "otelagent.count.turns", 5, "otelagent.run.ordinal", int64(most))
	s.add(KindRun, "q", at(1), NoTurn, at(1), at(2), "otelagent.run.ordinal", int64(most))
	tree := Assemble(s.rows)
	if d := tree.Runs[0].Defects; len(d) != 1 || d[0].Detail != "1 of 5 turns arrived" {
		t.Errorf("%+v", d)
	}
	want := Defect{Code: spans.DefectRunMissing, Detail: fmt.Sprintf("number 1-%d of %d", most-1, most)}
	if d := tree.Defects; len(d) != 1 || d[0] != want {
		t.Errorf("%+v", d)
	}
}

// The time for what a hostile sender can multiply grows with its number, not with its square.
func TestTimeIsLinear(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		make func(s *synth, n int)
		got  func(s *Session) int
	}{
		"attempts of a turn": {200_000, func(s *synth, n int) {
			turn := s.add(KindTurn, "r", at(0), 0, at(1), at(2))
			for i := range int64(n) {
				turn.Lists = append(turn.Lists, List{Name: "request", Attempt: int64(n) - i})
			}
		}, func(s *Session) int { return len(s.Runs[0].Turns[0].Requests) }},
		"rows of one address, each with a list": {20_000, func(s *synth, n int) {
			for i := range n {
				call := s.add(KindToolCall, "r", at(0), 0, at(1), at(2), "gen_ai.tool.call.id", "c")
				call.Lists = []List{{Name: fmt.Sprint("list ", i)}}
			}
		}, func(s *Session) int { return len(s.Runs[0].Turns[0].ToolCalls[0].Lists) }},
		"groups that events and a ledger describe": {20_000, func(s *synth, n int) {
			for i := range int64(n) {
				kv := []any{"otelagent.run.kind", "parallel", "otelagent.group.selected.id", fmt.Sprint(i)}
				s.add(KindRun, "", at(10*i), NoTurn, at(1), at(2), kv...)
				s.add(KindRun, "", at(10*i+1), NoTurn, at(1), at(2), append(kv, "otelagent.recording", "ledger")...)
			}
		}, func(s *Session) int { return len(s.Groups) }},
	} {
		var s synth
		c.make(&s, c.n)
		start := time.Now()
		if n := c.got(Assemble(s.rows)); n != c.n || time.Since(start) > 5*time.Second {
			t.Errorf("%s: %d of %d, took %v", name, n, c.n, time.Since(start))
		}
	}
}

// Sums of usage do not run over into negative counts.
func TestUsageBeyondAllBounds(t *testing.T) {
	var s synth
	for i := range int64(3) {
		s.add(KindTurn, "r", at(0), i, at(i), at(i), "otelagent.usage.input_tokens", math.MaxInt64-1,
			"otelagent.usage.output_tokens", 1)
	}
	tree := Assemble(s.rows)
	if want := (Usage{Input: math.MaxInt64, Output: 3}); tree.Usage != want || tree.Runs[0].Usage != want {
		t.Errorf("%+v, %+v", tree.Usage, tree.Runs[0].Usage)
	}
}

// FuzzAssemble makes rows from numbers, so that addresses clash in every way, and holds Assemble to its promises.
func FuzzAssemble(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x01\x02\x00\x00\x01\x02\x05\x00\x00\x01\x03\x04\x00\x00\x02\x01"))
	f.Add([]byte("run of bytes, long enough for a good number of rows that clash with each other in many ways"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var rows []Row
		for len(b) >= 5 && len(rows) < 200 {
			k := Kind(b[0] % 7)
			r := Row{
				Trace: TraceID{15: b[0] >> 6}, Span: SpanID{7: b[1] % 64}, Parent: SpanID{7: b[2] % 64},
				Session: Key{ID: "s"},
				Run:     string('a' + rune(b[1]>>6)), RunStart: at(int64(b[2]>>6) + 1),
				Turn: int64(b[3]%4) - 1, Kind: k,
				Known: knownOfRank[(b[3]>>4)%3], Start: at(int64(b[4] & 15)), End: at(int64(b[4] >> 4)),
			}
			words := []string{"", "c1", "c2", "parallel"}
			r.Attrs = attrs(
				"gen_ai.tool.call.id", words[b[4]&3], "otelagent.run.kind", words[b[3]&3], "otelagent.compaction.kind",
				words[b[2]&3],
				"otelagent.run.parent.id", string('a'+rune(b[4]>>6)), "otelagent.run.ordinal", int(b[2]>>5),
				"otelagent.count.turns", int(b[1]>>5),
				"otelagent.group.start", at(int64(b[3]>>6)+1), "otelagent.schema", 1+int(b[4]>>7),
				"otelagent.tool.child.run.id", string('a'+rune(b[0]>>5)),
			)
			r.Lists = []List{{Name: words[b[1]&3], Count: int64(b[3] & 3), Whole: string(rune('0' + b[3]&3)),
				Prefix: fmt.Sprintf("%d %c", b[4]&3, '0'+b[4]&3), Items: []string{words[b[2]&3]}}}
			// Marks of lists of one item over and over, so that prefixes meet.
			var mark spans.Mark
			for range b[4] & 3 {
				mark = mark.Add("AAAAAAAAAAE")
			}
			r.Lists = append(r.Lists, List{
				Name: "request", Attempt: int64(b[1] & 1), Count: int64(b[4]&3 + b[3]&3),
				Prefix: spans.EncodePrefix(int64(b[4]&3), mark),
				Items:  slices.Repeat([]string{"AAAAAAAAAAE"}, int(b[3]&3)),
			})
			rows = append(rows, r)
			b = b[5:]
		}
		want := must.Get(json.Marshal(Assemble(rows)))(t)
		l := append(slices.Clone(rows), rows[:len(rows)/2]...)
		random := rand.New(rand.NewPCG(uint64(len(rows)), 7))
		random.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		tree := Assemble(l)
		got := must.Get(json.Marshal(tree))(t)
		if !bytes.Equal(got, want) {
			t.Fatalf("order counts:\n%s\n%s", got, want)
		}
		history := HistoryOf(tree, nil)
		for _, r := range tree.Runs { // no ring of parents
			steps := 0
			for at := r; at != nil; at = history.Run(at).Parent {
				if steps++; steps > len(tree.Runs) {
					t.Fatal("ring of parents")
				}
			}
		}
		Summarize(tree)
		tree.CheckContent(&BlockSet{})
		for _, r := range tree.Runs {
			for _, turn := range r.Turns {
				for _, q := range turn.Requests {
					if p := q.Payload(nil); p.Bytes != nil && q.Messages.Len() > 0 {
						t.Fatalf("%s without blocks", p.Bytes)
					}
					if n := len(q.ReadMessages(nil)); n != q.Messages.Len() {
						t.Fatalf("%d messages of %d", n, q.Messages.Len())
					}
				}
			}
		}
	})
}
