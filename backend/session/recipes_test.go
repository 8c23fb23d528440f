package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// recipeFor returns a recipe block for body, of pieces: texts that begin with = are text, others bodies of whole blocks.
func recipeFor(body string, full bool, pieces ...spans.Piece) Block {
	r := spans.Recipe{ID: spans.BlockOfString(body), Full: full, Size: int64(len(body)), Pieces: pieces}
	text := r.Encode()
	return Block{ID: spans.RecipeID(r.ID, text), Body: text, Recipe: true}
}

func of(body string) spans.Piece {
	return spans.Piece{Block: spans.BlockOfString(body).Short(), To: -1}
}

func cutOf(body string, from, to int64) spans.Piece {
	return spans.Piece{Block: spans.BlockOfString(body).Short(), From: from, To: to}
}

func lit(text string) spans.Piece { return spans.Piece{Text: text} }

func refOf(body string) Ref { return Ref{Block: spans.BlockOfString(body).Short().String()} }

func TestRecipes(t *testing.T) {
	deep := make([]Block, 0, 2*maxLevel)
	body := "x"
	for range maxLevel + 1 {
		next := body + "x"
		deep = append(deep, recipeFor(next, false, of(body), lit("x")))
		body = next
	}
	blocks := append([]Block{
		{Body: "hello"}, {Body: "world"}, {Body: "x"},
		recipeFor("hello, world", false, of("hello"), lit(", "), of("world")),
		recipeFor("ell", true, cutOf("hello", 1, 4)),
		recipeFor("hello, world! ell", false, of("hello, world"), lit("! "), of("ell")),
		recipeFor("", false),
		recipeFor("lost", false, lit("l"), of("nowhere")),
		recipeFor("twice", false, of("nowhere")), recipeFor("twice", false, lit("twi"), lit("ce")), recipeFor("twice", false, lit("false")),
		recipeFor("liar", false, lit("fool")), recipeFor("too long", false, lit("too long by far")), recipeFor("beyond", false, cutOf("hello", 0, 6)),
		recipeFor("a ring", false, of("b ring")), recipeFor("b ring", false, of("a ring")), recipeFor("self", false, of("self")),
		recipeFor("cut at the source", true, lit("cut "), cutOf("hello", 0, 1)), recipeFor("cut at the source", true), recipeFor("cut at the source", false, lit("cut at the")),
		recipeFor("withheld", true), recipeFor("with held", false),
		{Body: "no recipe", Recipe: true},
	}, deep...)
	read := func(s *BlockSet, body string) string {
		ref := refOf(body)
		if got, ok := s.Body(ref); ok {
			return got
		}
		if beginning, size, ok := s.Cut(ref); ok {
			return fmt.Sprintf("[%d] %s", size, beginning)
		}
		return "-"
	}
	asked := []string{
		"hello", "hello, world", "ell", "hello, world! ell", "", "lost", "twice", "liar", "too long", "beyond", "a ring", "b ring", "self",
		"cut at the source", "withheld", "with held", "nowhere", strings.Repeat("x", maxLevel+1), strings.Repeat("x", maxLevel+2),
	}
	want := []string{
		"hello", "hello, world", "ell", "hello, world! ell", "", "-", "twice", "-", "-", "-", "-", "-", "-",
		"[17] cut h", "[8] ", "[9] ", "-", strings.Repeat("x", maxLevel+1), "-",
	}
	for seed := range uint64(20) { // neither the order of blocks nor what was asked before counts
		random := rand.New(rand.NewPCG(seed, 1))
		l := append(slices.Clone(blocks), blocks[:random.IntN(len(blocks))]...)
		random.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		s := blocksOf(l)
		got := make([]string, len(asked))
		var wait sync.WaitGroup
		for _, i := range random.Perm(len(asked)) {
			wait.Go(func() { got[i] = read(s, asked[i]) })
		}
		wait.Wait()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		if n := s.Len(); n != len(blocks)-1 {
			t.Fatalf("%d blocks, want %d", n, len(blocks)-1)
		}
	}
	// What comes later counts, too.
	s := blocksOf(blocks)
	_ = read(s, "lost")
	s.Add(recipeFor("nowhere", false, lit("ost"), lit("")))
	s.Add(Block{Body: "ost"})
	if got := read(s, "lost"); got != "-" {
		t.Errorf("made of another block: %q", got)
	}
	s.Add(recipeFor("lost", false, lit("l"), of("ost")))
	if got := read(s, "lost"); got != "lost" {
		t.Errorf("by a later recipe: %q", got)
	}
}

// A body that is not kept is there however often it is read: what it takes to make it again is no part of what making all once may take.
func TestRecipesReadOften(t *testing.T) {
	s := blocksOf([]Block{
		{Body: "hello"}, recipeFor("hello, hello", false, of("hello"), lit(", "), of("hello")), recipeFor("hello, hello!", false, of("hello, hello"), lit("!")),
		recipeFor("cut at the source", true, lit("cut "), of("hello")), recipeFor("never made", false, lit("never"), lit(" "), lit("made")),
	})
	x := &s.recipes
	s.settle()
	if kept := s.Kept(); kept != int64(len("hello, hello")+len("hello, hello!")+len("never made")) {
		t.Errorf("%d bytes kept at most", kept)
	}
	x.kept, x.work = maxKept, x.most()-1000 // nothing is kept, and what is left makes each once
	for i := range 5000 {
		for _, body := range []string{"hello, hello", "hello, hello!"} {
			if got, ok := s.Body(refOf(body)); !ok || got != body {
				t.Fatalf("read %d of %q: %q, %v", i, body, got, ok)
			}
		}
		if got, size, ok := s.Cut(refOf("cut at the source")); !ok || got != "cut hello" || size != 17 {
			t.Fatalf("beginning %d: %q of %d, %v", i, got, size, ok)
		}
	}
	x.work = x.most()
	for range 2 { // what could not be made is not there, rather than whole and empty
		if got, ok := s.Body(refOf("never made")); ok || got != "" {
			t.Errorf("beyond what a set may take: %q, %v", got, ok)
		}
	}
}

// Bodies beyond what is kept are made again.
func TestRecipesBeyondWhatIsKept(t *testing.T) {
	s := &BlockSet{}
	half := strings.Repeat("x", maxKept/2)
	s.Add(Block{Body: half})
	var bodies []string
	for i := range 4 {
		end := fmt.Sprint("end", i)
		s.Add(recipeFor(half+end, false, of(half), lit(end)))
		s.Add(recipeFor(end+half+end, false, lit(end), of(half+end)))
		bodies = append(bodies, half+end, end+half+end)
	}
	for range 2 {
		for _, want := range bodies {
			if got, ok := s.Body(refOf(want)); !ok || got != want {
				t.Fatalf("%d bytes, want %d", len(got), len(want))
			}
		}
	}
	if s.recipes.kept > maxKept {
		t.Errorf("%d bytes kept", s.recipes.kept)
	}
	huge := spans.Recipe{ID: spans.BlockOfString("huge"), Size: maxMade + 2, Pieces: []spans.Piece{of(half), of(half), lit("xx")}}
	s.Add(Block{Body: huge.Encode(), Recipe: true})
	if _, ok := s.Body(refOf("huge")); ok {
		t.Error("a body of more than 64 MiB")
	}
}

func TestReadWithheld(t *testing.T) {
	s := &synth{session: Key{ID: "s1"}}
	l := s.list("request", "one", "two", "three")
	list := func() *Refs {
		var d []Defect
		return (&assembler{}).refs(&l, &d)
	}
	set := func(full bool, extra ...Block) *BlockSet {
		b := blocksOf(append(slices.Clone(s.blocks[:1]), extra...))
		b.Add(recipeFor("two", full))
		return b
	}
	for _, c := range []struct {
		name   string
		blocks *BlockSet
		digest string
		want   Content
	}{
		{"whole digest", set(true, s.blocks[2]), l.Digest, Content{Bodies: []string{"one", "", "three"}, Withheld: []int{1}}},
		{"short digest", set(true, s.blocks[2]), l.Digest[:24], Content{Bodies: []string{"one", "", "three"}, Withheld: []int{1}}},
		{"wrong digest", set(true, s.blocks[2]), spans.Chain{}.Short(), Content{Bodies: []string{"one", "", "three"}, Withheld: []int{1}, Broken: true}},
		{"full id not known", set(false, s.blocks[2]), spans.Chain{}.Short(), Content{Bodies: []string{"one", "", "three"}, Withheld: []int{1}}},
		{"and missing", set(true), spans.Chain{}.Short(), Content{Bodies: []string{"one", "", ""}, Withheld: []int{1}, Missing: []int{2}}},
	} {
		refs := list()
		refs.Digest = c.digest
		got := c.blocks.Read(refs)
		if diff := cmp.Diff(c.want, got); diff != "" || got.Whole() {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	turn := s.add(KindTurn, "r", at(0), 0, at(1), at(2), "otelagent.capture", "content")
	turn.Lists = []List{l}
	tree := Assemble(s.rows)
	for range 2 {
		tree.CheckContent(set(true))
	}
	id := refOf("three").Block
	want := []Defect{{spans.DefectBlockMissing, "request: 1 of 3, " + id}, {spans.DefectBlockWithheld, "request: 1 of 3"}}
	if diff := cmp.Diff(want, tree.Runs[0].Turns[0].Defects); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	turn.Attrs = attrs("otelagent.capture", "digests")
	tree = Assemble(s.rows)
	tree.CheckContent(set(true))
	if d := tree.Runs[0].Turns[0].Defects; len(d) > 0 {
		t.Errorf("captured without bodies: %+v", d)
	}
}

// A body that a recipe makes is the block that it says, whatever the recipes are, in whatever order they come.
func FuzzBlockSetRecipes(f *testing.F) {
	f.Add("hello\x00" + recipeFor("hello!", true, of("hello"), lit("!")).Body)
	f.Add(recipeFor("a", false, of("b")).Body + "\x00" + recipeFor("b", false, of("a")).Body + "\x00" + recipeFor("cut", true, lit("c")).Body)
	f.Fuzz(func(t *testing.T, text string) {
		parts := strings.Split(text, "\x00")
		var one, two BlockSet
		var refs []Ref
		for i := range parts {
			for s, p := range map[*BlockSet]string{&one: parts[i], &two: parts[len(parts)-1-i]} {
				s.Add(Block{Body: p})
				s.Add(Block{Body: p, Recipe: true})
			}
			refs = append(refs, refOf(parts[i]))
			if r, err := spans.ParseRecipe(parts[i]); err == nil {
				refs = append(refs, Ref{Block: r.ID.Short().String()})
				for _, p := range r.Pieces {
					refs = append(refs, Ref{Block: p.Block.String()})
				}
			}
		}
		for i, ref := range refs {
			body, ok := one.Body(ref)
			if ok && refOf(body) != ref {
				t.Fatalf("%s is %q", ref.Block, body)
			}
			cut, size, isCut := one.Cut(ref)
			if isCut && (ok || int64(len(cut)) >= size) {
				t.Fatalf("%q of %d bytes was cut, body %v", cut, size, ok)
			}
			other := refs[len(refs)-1-i]
			_, _ = two.Body(other)
		}
		for _, ref := range refs {
			a, okA := one.Body(ref)
			b, okB := two.Body(ref)
			if a != b || okA != okB {
				t.Fatalf("%s: %q, %v, in the other order %q, %v", ref.Block, a, okA, b, okB)
			}
		}
		refsList := NewRefs(refs...)
		refsList.Digest = "x"
		one.Read(refsList)
	})
}
