package session

import (
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
	for value, want := range map[string]string{
		`"Ranges"`: "Ranges", `""`: "", "null": "", "7": "", `["a"]`: "", `"` + strings.Repeat("é", 300) +
			`"`: strings.Repeat("é", 256), `"x` + strings.Repeat("é", 300) + `"`: "x" + strings.Repeat("é", 255),
	} {
		s := &Session{Facts: []Fact{factOf(&blocks, FactTitle, value, at)}}
		if got := s.Title(&blocks); got != want {
			t.Errorf("%.20s: %q", value, got)
		}
		if got := s.Title(nil); got != "" {
			t.Errorf("%.20s without blocks: %q", value, got)
		}
	}
	s := &Session{Facts: []Fact{factOf(&blocks, FactArchived, "5", at), factOf(&blocks, FactArchived, "null",
		at.Add(1))}}
	if s.Archived() {
		t.Error("archived, although it was taken back")
	}
	if s.Facts = s.Facts[:1]; !s.Archived() {
		t.Error("not archived")
	}
}

func TestSummaryCost(t *testing.T) {
	f := func(want float64, currency string, kv ...any) {
		t.Helper()
		s := &synth{session: Key{ID: "s"}}
		for i := 0; i < len(kv); i += 2 {
			l := []any{}
			if kv[i] != nil {
				l = append(l, string(spans.TurnCostKey), kv[i])
			}
			if kv[i+1] != nil {
				l = append(l, string(spans.TurnCostCurrencyKey), kv[i+1])
			}
			s.add(KindTurn, "r", at(0), int64(i), at(int64(i)), at(int64(i)+1), l...)
		}
		if m := Summarize(Assemble(s.rows)); m.Cost != want || m.Currency != currency {
			t.Errorf("%v: %v %q, want %v %q", kv, m.Cost, m.Currency, want, currency)
		}
	}
	f(0, "")
	f(0, "", nil, nil)
	f(0.75, "USD", 0.5, "USD", nil, nil, 0.25, "USD")
	f(0.75, "", 0.5, nil, 0.25, nil)
	f(0, "", 0.5, "USD", 0.25, "EUR")
	f(0, "", 0.5, "USD", 0.25, nil)
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
		for _, b := range h.Branches(r) {
			got[r.ID] += " >" + b.ID
		}
	}
	want := map[string]string{
		"a": "", "b": "continues a >c >d", "c": "branch b", "d": "rerun b", "e": "compaction d", "f": "merge d",
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
