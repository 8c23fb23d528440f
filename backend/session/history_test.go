package session

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

func TestFactTime(t *testing.T) {
	at := time.Unix(100, 0).UTC()
	for value, want := range map[string]time.Time{
		"1500": time.Unix(1, 5e8).UTC(), "1500.9": time.Unix(1, 5e8).UTC(), "-1": time.Unix(0, -1e6).UTC(),
		`"2026-11-21T00:00:00+01:00"`: time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC),
		"null":                        {},
		"false":                       {},
		"0":                           {},
		"true":                        at,
		`"soon"`:                      at,
		"{":                           at,
		"1e300":                       at,
		"NaN":                         at,
	} {
		if got := FactTime(value, at); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}

// factOf is a fact with a value among blocks.
func factOf(blocks *BlockSet, key, value string, at time.Time) Fact {
	blocks.Add(Block{Body: value})
	return Fact{Subject: SubjectSession, Key: key, At: at,
		Value: &Ref{Block: spans.BlockOfString(value).Short().String()}}
}

func TestSinceOf(t *testing.T) {
	at := time.Unix(100, 0).UTC()
	var blocks BlockSet
	for value, want := range map[string][2]time.Time{ // with blocks, and without
		"1500": {time.Unix(1, 5e8), at}, "null": {}, "false": {}, "0": {}, "true": {at, at},
	} {
		f := factOf(&blocks, FactArchived, value, at)
		for i, set := range []*BlockSet{&blocks, nil} {
			if got := SinceOf(&f, set); !got.Equal(want[i]) {
				t.Errorf("%s: %v, want %v", value, got, want[i])
			}
		}
	}
	if got := SinceOf(&Fact{At: at}, &blocks); !got.IsZero() {
		t.Errorf("a fact whose value was not captured: %v", got)
	}
}

func TestTitleAndArchived(t *testing.T) {
	var blocks BlockSet
	at := time.Unix(1, 0)
	opening := `{"role":"user","content":"hi"}`
	blocks.Add(Block{Body: opening})
	run := &Run{Outside: NewRefs(Ref{Block: spans.BlockOfString(opening).Short().String()})}
	for value, want := range map[string]string{`"Ranges"`: "Ranges", `""`: "", "null": "hi", `["a"]`: "",
		`"x` + strings.Repeat("é", 300) + `"`: "x" + strings.Repeat("é", 255)} {
		s := &Session{Facts: []Fact{factOf(&blocks, FactTitle, value, at)}, Runs: []*Run{run}}
		if got, without := s.Title(&blocks), s.Title(nil); got != want || without != "" {
			t.Errorf("%.20s: %q, without blocks %q", value, got, without)
		}
	}
	s := &Session{Facts: []Fact{factOf(&blocks, FactArchived, "5", at), factOf(&blocks, FactArchived, "null", at)}}
	takenBack := s.Archived()
	if s.Facts = s.Facts[:1]; takenBack || !s.Archived() {
		t.Errorf("archived %t, and not %t", takenBack, s.Archived())
	}
}

// Coding agents put context between tags before the words of the user.
func TestTitleWithoutTags(t *testing.T) {
	for text, want := range map[string]string{
		"<now>2026</now>\n\nFix  it":                      "Fix it",
		"<now at=\"x\">1</now> <cwd>/</cwd>Fix <b>it</b>": "Fix <b>it</b>",
		"<now>2026</now>\n":                               "<now>2026</now>",
		"<now>2026":                                       "<now>2026",
		"<3 this":                                         "<3 this",
	} {
		var blocks BlockSet
		body := `{"role":"user","content":` + strconv.Quote(text) + `}`
		blocks.Add(Block{Body: body})
		s := &Session{Runs: []*Run{{Outside: NewRefs(Ref{Block: spans.BlockOfString(body).Short().String()})}}}
		if got := s.Title(&blocks); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The costs of a session add up where all are in one currency.
func TestSummaryCost(t *testing.T) {
	for _, c := range []struct {
		want       float64
		currency   string
		currencies []string
	}{
		{0, "", nil}, {1, "USD", []string{"USD", "USD"}}, {0, "", []string{"USD", "EUR"}}, {0, "", []string{"USD", ""}},
	} {
		s := &synth{session: Key{ID: "s"}}
		s.add(KindTurn, "r", at(0), 9, at(9), at(9))
		for i, currency := range c.currencies {
			s.add(KindTurn, "r", at(0), int64(i), at(1), at(2), string(spans.TurnCostKey), 0.5,
				string(spans.TurnCostCurrencyKey), currency)
		}
		if m := Summarize(Assemble(s.rows)); m.Cost != c.want || m.Currency != c.currency {
			t.Errorf("%+v: %v %q", c, m.Cost, m.Currency)
		}
	}
}

// TestRelations checks how runs continue from each other, rings and strangers among them.
func TestRelations(t *testing.T) {
	s := &synth{session: Key{ID: "s"}}
	run := func(id string, start int64, kv ...any) {
		s.add(KindRun, id, at(start), NoTurn, at(start), at(start+1), append(kv, "otelagent.run.kind", "loop")...)
	}
	parent, continuation := string(spans.RunParentIDKey), string(spans.RunContinuationKey)
	run("a", 0, continuation, "initial")
	run("b", 10, parent, "a", continuation, "default")
	run("c", 20, parent, "b", continuation, "branch")
	run("d", 30, parent, "b", continuation, "rerun")
	run("e", 40, parent, "d", continuation, "compaction")
	run("f", 50, parent, "d", continuation, "merge")
	run("g", 60, parent, "nobody", continuation, "branch")
	run("h", 70, parent, "x", string(spans.RunParentSessionIDKey), "other")
	run("i", 80, parent, "a")
	run("ring", 90, parent, "ring2", continuation, "default")
	run("ring2", 91, parent, "ring", continuation, "default")
	tree := Assemble(s.rows)
	h := HistoryOf(tree, nil)
	got := map[string]string{}
	for _, r := range tree.Runs {
		st := h.Run(r)
		got[r.ID] = string(st.Relation)
		if st.Parent != nil {
			got[r.ID] += " " + st.Parent.ID
		}
	}
	want := map[string]string{
		"a": "", "b": "continues a", "c": "branch b", "d": "rerun b", "e": "compaction d", "f": "merge d",
		"g": "branch", "h": "sub-agent", "i": "sub-agent a",
		"ring": "continues", "ring2": "continues ring",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if st := h.Run(&Run{}); st.Relation != "" || h.Fork != nil || len(h.Messages)+len(h.Waiting()) != 0 {
		t.Errorf("%+v", h)
	}
}
