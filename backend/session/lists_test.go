package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// packer sends lists as the adapter does, cut down: the items since the last request but twelve, 24 at least, after
// a mark.
type packer struct {
	last   []string // items sent last
	starts []int
	s      *synth
	bodies map[string]bool
}

// list returns the wire form of a list of bodies that begins at item from; 0 is the complete list.
func (p *packer) list(name string, attempt int64, bodies []string, from int) List {
	l := List{Name: name, Attempt: attempt, Count: int64(len(bodies))}
	var mark spans.Mark
	for i, b := range bodies {
		id := spans.BlockOfString(b)
		it := spans.Item{Block: id.Short(), Provenance: "st"}
		if i < from {
			mark = mark.Add(it.Encode())
		} else {
			l.Items = append(l.Items, it.Encode())
		}
		if !p.bodies[b] {
			p.bodies[b] = true
			p.s.blocks = append(p.s.blocks, Block{Session: p.s.session, ID: id, Body: b})
		}
	}
	if from > 0 {
		l.Prefix = spans.EncodePrefix(int64(from), mark)
	}
	return l
}

// begin returns where the list of the next request begins.
func (p *packer) begin(bodies []string) int {
	same := 0
	for same < len(p.last) && same < len(bodies) && p.last[same] == bodies[same] {
		same++
	}
	from := max(0, len(p.starts)-12)
	window := same
	if len(p.starts) > 0 {
		window = min(same, p.starts[from])
	}
	p.last = bodies
	p.starts = append(p.starts, same)
	return max(0, min(window, len(bodies)-24))
}

// history makes requests with growth, edits and compactions.
func history(random *rand.Rand, turns int) [][]string {
	var l [][]string
	var now []string
	n := 0
	message := func() string { n++; return fmt.Sprintf(`{"content":"m%d","role":"user"}`, n) }
	for range turns {
		for range 1 + random.IntN(4) {
			now = append(now, message())
		}
		switch at := random.IntN(max(1, len(now))); random.IntN(30) {
		case 0: // an edit
			now = append(slices.Clone(now[:at]), now[at:]...)
			now[at] = message()
		case 1: // a compaction
			now = append([]string{message()}, now[at:]...)
		case 2: // a branch back
			now = slices.Clone(now[:at+1])
		}
		l = append(l, slices.Clone(now))
	}
	return l
}

// However lists are cut, and whatever is lost, each comes out as it was, or is reported.
func TestListsResolveToTheTruth(t *testing.T) {
	resolved, reported := 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &synth{session: Key{ID: "s1"}}
		p := &packer{s: s, bodies: map[string]bool{}}
		truth := history(random, 2+random.IntN(100))
		for i, bodies := range truth {
			from := p.begin(bodies)
			if random.IntN(20) == 0 {
				from = 0
			}
			s.add(KindTurn, "r", at(0), int64(i), at(int64(2*i)), at(int64(2*i+1))).Lists = []List{p.list("request", 0,
				bodies, from)}
		}
		rows := s.rows
		lost := seed%3 != 0
		if lost {
			rows = slices.DeleteFunc(slices.Clone(rows), func(Row) bool { return random.IntN(4) == 0 })
			at := random.IntN(len(rows) + 1) // and a gap that is wider than a window
			rows = slices.Delete(rows, at, min(len(rows), at+random.IntN(30)))
		}
		if len(rows) == 0 {
			continue
		}
		blocks := blocksOf(s.blocks)
		tree := Assemble(rows)
		tree.CheckContent(blocks)
		var before []string
		for _, turn := range tree.Runs[0].Turns {
			m, want := turn.Requests[0].Messages, truth[turn.Index]
			if m.Complete {
				resolved++
				if c := blocks.Read(m); !c.Whole() || !slices.Equal(c.Bodies, want) || len(turn.Defects) > 0 {
					t.Fatalf("seed %d, turn %d: %+v, want %q, defects %+v", seed, turn.Index, c, want, turn.Defects)
				}
				same := 0
				for same < len(before) && same < len(want) && before[same] == want[same] {
					same++
				}
				if m.Same != int64(same) || len(m.From(m.Same)) != len(want)-same {
					t.Fatalf("seed %d, turn %d: same %d, want %d", seed, turn.Index, m.Same, same)
				}
				before = want
				continue
			}
			reported++
			if !lost || len(turn.Defects) != 1 || turn.Defects[0].Code != spans.DefectListUnresolved {
				t.Fatalf("seed %d, turn %d: %+v, defects %+v", seed, turn.Index, m, turn.Defects)
			}
			items := m.Items()
			for i, ref := range items {
				if want := spans.BlockOfString(want[len(want)-len(items)+i]).Short().String(); ref.Block != want {
					t.Fatalf("seed %d, turn %d: item %d from the end is %s, want %s", seed, turn.Index, len(items)-i,
						ref.Block, want)
				}
			}
		}
		disturb(t, rows, treeJSON(t, Assemble(rows)))
	}
	if resolved < 500 || reported < 10 {
		t.Errorf("%d lists resolved, %d reported: the test shows little", resolved, reported)
	}
}

// Assemble reports a list that cannot be true, and never goes around in circles.
func TestListsOfNonsense(t *testing.T) {
	s := &synth{session: Key{ID: "s1"}}
	p := &packer{s: s, bodies: map[string]bool{}}
	good := p.list("request", 0, []string{"a", "b", "c"}, 0)
	tail := p.list("request", 1, []string{"a", "b", "c", "d"}, 3)
	short := p.list("request", 2, []string{"a", "b", "c", "d"}, 3)
	short.Count = 9
	bad := p.list("request", 3, []string{"a", "b", "c", "d", "e"}, 4)
	bad.Items[0] = "no item"
	lists := []List{
		good, tail, short, bad,
		{Name: "request", Attempt: 4, Count: 3, Prefix: "0 " + spans.Mark{1}.String(), Items: good.Items},
		{Name: "request", Attempt: 5, Count: 3, Prefix: "0 " + spans.Mark{}.String(), Items: good.Items},
		{Name: "request", Attempt: 6, Count: 3, Prefix: strings.Replace(tail.Prefix, "3 ", "2 ", 1),
			Items: good.Items[2:]},
		{Name: "request", Attempt: 7, Count: 1, Prefix: "9223372036854775807 " + spans.Mark{2}.String(),
			Items: good.Items},
		{Name: "request", Attempt: 8, Count: 3, Prefix: tail.Prefix},
		{Name: "request", Attempt: 9, Count: 1, Prefix: "nonsense", Items: good.Items},
		{Name: "request", Attempt: 10, Count: 0},
	}
	s.add(KindTurn, "r", at(0), 0, at(1), at(2)).Lists = lists
	turn := Assemble(s.rows).Runs[0].Turns[0]
	type outcome struct {
		Items    int
		Complete bool
		Same     int64
	}
	var got []outcome
	for _, q := range turn.Requests {
		got = append(got, outcome{q.Messages.Len(), q.Messages.Complete, q.Messages.Same})
		if n := len(q.Messages.Items()); n != q.Messages.Len() {
			t.Errorf("attempt %d: %d items, %d", q.Attempt, n, q.Messages.Len())
		}
	}
	want := []outcome{
		{3, true, 0}, {4, true, 3}, {4, false, 0}, {5, false, 0}, {3, false, 0}, {3, true, 3}, {1, false, 0}, {3,
			false, 0}, {3, true, 3}, {3, false, 0}, {0, true, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%+v", diff, turn.Defects)
	}
	wantDefects := []Defect{
		{spans.DefectListBroken, "request of attempt 2: 4 of 9 items"},
		{spans.DefectListBroken, "request of attempt 3: 4 of 5 items"},
		{spans.DefectListUnresolved, "request of attempt 4"},
		{spans.DefectListUnresolved, "request of attempt 6"},
		{spans.DefectListUnresolved, "request of attempt 7"},
		{spans.DefectListUnresolved, "request of attempt 9"},
	}
	if diff := cmp.Diff(wantDefects, turn.Defects); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	disturb(t, s.rows, treeJSON(t, Assemble(s.rows)))
}

// wholeOf is what a list of bodies says that they come to.
func wholeOf(bodies ...string) string {
	text := strings.Join(bodies, "\n")
	return spans.WholeOf(int64(len(text)), spans.BlockOfString(text))
}

// The items that a few bytes can multiply are bounded: lists that take turns between two histories repeat nothing of
// the one before.
func TestResolvedItemsAreBounded(t *testing.T) {
	const long, turns = 20_000, 2_000
	s := &synth{session: Key{ID: "s1"}}
	p := &packer{s: s, bodies: map[string]bool{}}
	var lists [2]List
	for h := range lists {
		var bodies []string
		for i := range long {
			bodies = append(bodies, fmt.Sprint(h, " ", i))
		}
		whole := p.list("request", 0, bodies, 0)
		s.add(KindTurn, "r", at(0), int64(h), at(int64(h)), at(int64(h))).Lists = []List{whole}
		lists[h] = p.list("request", 0, bodies, long-1)
	}
	for i := range int64(turns) {
		s.add(KindTurn, "r", at(0), i+2, at(i+2), at(i+2)).Lists = []List{lists[i%2]}
	}
	items, unresolved := 0, 0
	for _, turn := range Assemble(s.rows).Runs[0].Turns {
		items += turn.Requests[0].Messages.Len() - int(turn.Requests[0].Messages.Same)
		unresolved += len(turn.Defects)
	}
	if items > maxResolved+3*long || unresolved < turns/8 || unresolved == turns {
		t.Errorf("%d items, %d unresolved", items, unresolved)
	}
}

// What a list repeats after the beginning that both have is no part of the other one.
func TestRefsWithout(t *testing.T) {
	s := synth{session: Key{ID: "s1"}}
	for i, bodies := range [][]string{{"one", "two"}, {"one", "three", "one", "two"}} {
		s.add(KindTurn, "r", at(0), int64(i), at(int64(i)), at(int64(i+1))).Lists = []List{
			s.list("input", bodies...), s.list(spans.ListRequest, bodies...)}
	}
	turns, blocks := Assemble(s.rows).Runs[0].Turns, blocksOf(s.blocks)
	for i, m := range turns[1].Requests[0].ReadMessages(blocks) {
		if isNew := i == 1 || i == 2; m.New != isNew {
			t.Errorf("message %d is new: %t", i, m.New)
		}
	}
	got := blocks.Read(NewRefs(turns[1].Input.Without(turns[0].Input)...)).Bodies
	if want := []string{"three", "one"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if all := turns[1].Input.Without(nil); len(all) != 4 {
		t.Errorf("without nothing: %v", all)
	}
}
