package session

import (
	"slices"
	"testing"

	"github.com/otelagent/otelagent/spans"
)

func blocksOf(l []Block) *BlockSet {
	s := &BlockSet{}
	for _, b := range l {
		s.Add(b)
	}
	return s
}

func TestBlockSetRead(t *testing.T) {
	s := synth{session: Key{ID: "s1"}}
	s.add(KindTurn, "r", at(0), 0, at(1), at(2)).Lists = []List{s.list("input", "one", "two", "three")}
	refs := Assemble(s.rows).Runs[0].Turns[0].Input
	gone := func(withheld bool, positions ...int) (l []MissingPart) {
		for _, i := range positions {
			l = append(l, MissingPart{Position: i, Block: refs.Items()[i].Block, Withheld: withheld})
		}
		return l
	}
	if c := blocksOf(s.blocks).Read(refs); !c.Whole() || !slices.Equal(c.Bodies, []string{"one", "two", "three"}) {
		t.Errorf("whole: %+v", c)
	}
	if c := blocksOf(s.blocks[:1]).Read(refs); !slices.Equal(c.Missing, gone(false, 1, 2)) || c.Bodies[0] != "one" ||
		c.Bodies[1] != "" {
		t.Errorf("two missing: %+v", c)
	}
	if c := (*BlockSet)(nil).Read(refs); len(c.Missing) != 3 {
		t.Errorf("no set: %+v", c)
	}
	if c := blocksOf(s.blocks).Read(nil); !c.Whole() || c.Bodies != nil {
		t.Errorf("no list: %+v", c)
	}
	cut := slices.Clone(s.blocks)
	cut[1].Size = 1 << 30
	// With no bytes left too, when only the id identifies it.
	for _, body := range []string{"two", "tw", ""} {
		cut[1].ID, cut[1].Body = spans.BlockOfString("two"), body
		set := blocksOf(cut)
		if c := set.Read(refs); !slices.Equal(c.Missing, gone(true, 1)) || c.Bodies[1] != "" {
			t.Errorf("cut at the source to %q: %+v", body, c)
		}
		if beginning, size, ok := set.Cut(refs.Items()[1]); beginning != body || size != 1<<30 || !ok {
			t.Errorf("cut at the source to %q: %q of %d, %v", body, beginning, size, ok)
		}
	}

	// Two blocks whose ids begin alike: neither is given.
	id := spans.BlockOfString("two")
	other := id
	other[31]++
	for _, twins := range [][]Block{
		append(slices.Clone(s.blocks), Block{ID: other, Size: 5}), append([]Block{{ID: other, Size: 5}}, s.blocks...),
	} {
		if c := blocksOf(twins).Read(refs); !slices.Equal(c.Missing, gone(false, 1)) || c.Bodies[1] != "" {
			t.Errorf("twins: %+v", c)
		}
	}
}

// Withheld bodies are empty, and so can a whole one be: the order in which they come changes nothing.
func TestBlockSetKeepsTheWhole(t *testing.T) {
	whole, cut := Block{Body: "x"}, Block{Body: "x", Size: 9}
	ref := Ref{Block: spans.BlockOfString("x").Short().String()}
	for _, l := range [][]Block{{whole, cut}, {cut, whole}, {cut, whole, cut}} {
		s := blocksOf(l)
		if body, ok := s.Body(ref); !ok || body != "x" || s.Len() != 1 {
			t.Errorf("%+v: %q, %v, %d blocks", l, body, ok, s.Len())
		}
	}
}

func TestCheckContent(t *testing.T) {
	s := synthetic()
	tree := Assemble(s.rows)
	want := treeJSON(t, tree)
	tree.CheckContent(blocksOf(s.blocks))
	if got := treeJSON(t, tree); got != want {
		t.Errorf("defects in whole content:\n%s", got)
	}
	var some []Block
	for _, b := range s.blocks {
		if b.Body != "m1" {
			some = append(some, b)
		}
	}
	for range 2 { // checking twice adds nothing
		tree.CheckContent(blocksOf(some))
	}
	d := tree.Runs[0].Turns[1].Defects
	id := spans.BlockOfString("m1").Short().String()
	defer func() { // what came later is no longer missing
		tree.CheckContent(blocksOf(s.blocks))
		if got := treeJSON(t, tree); got != want {
			t.Errorf("defects in content that is whole by now:\n%s", got)
		}
	}()
	if len(d) != 1 || d[0] != (Defect{Code: spans.DefectBlockMissing, Detail: "request: 1 of 2, " + id}) {
		t.Errorf("%+v", d)
	}
}

func TestCheckContentNamesMissingCalls(t *testing.T) {
	s := &synth{session: Key{ID: "s1"}}
	s.add(KindTurn, "r", at(0), 0, at(1), at(9), "otelagent.count.tool_calls", 3).Lists = []List{
		s.list("output", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"toolCall","id":"c1",`+
			`"name":"ls","arguments":{}},`+
			`{"type":"tool_use","id":"c2","name":"ls","input":{}}],`+
			`"tool_calls":[{"id":"c3","type":"function","function":{"name":"ls","arguments":"{}"}}]}`),
	}
	s.add(KindToolCall, "r", at(0), 0, at(2), at(3), "gen_ai.tool.call.id", "c2")
	tree := Assemble(s.rows)
	for range 2 {
		tree.CheckContent(blocksOf(s.blocks))
	}
	d := tree.Runs[0].Turns[0].Defects
	if len(d) != 1 || d[0].Detail != "1 of 3 arrived; missing: c1, c3" {
		t.Errorf("%+v", d)
	}
}
