package spans

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The wire form of recipes is a format: it must never change.
func TestRecipe(t *testing.T) {
	a, b := BlockOfString("a"), BlockOfString("b")
	const short, other, full = "ypeBEsobvco", "PiPoFgA5WUo", "ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs"
	short8 := BlockID{}
	copy(short8[:], a[:8])
	for want, r := range map[string]Recipe{
		short + " 0":             {ID: short8},
		full + " 12":             {ID: a, Full: true, Size: 12},
		full + " 5 =2:ab":        {ID: a, Full: true, Size: 5, Pieces: []Piece{{Text: "ab"}}},
		short + " 9 " + other:    {ID: short8, Size: 9, Pieces: []Piece{{Block: b.Short(), To: -1}}},
		short + " 0 =0:":         {ID: short8, Pieces: []Piece{{}}},
		short + " 3 =3: =: =1:x": {ID: short8, Size: 3, Pieces: []Piece{{Text: " =:"}, {Text: "x"}}},
		short + " 8 =5:a\n\"é":   {ID: short8, Size: 8, Pieces: []Piece{{Text: "a\n\"é"}}},
		short + " 9 " + other + ":0:4 =1:x " + other + ":7:7": {ID: short8, Size: 9, Pieces: []Piece{
			{Block: b.Short(), To: 4}, {Text: "x"}, {Block: b.Short(), From: 7, To: 7},
		}},
		short + " 4294967296 " + other + ":4294967295:4294967296": {ID: short8, Size: 1 << 32, Pieces: []Piece{
			{Block: b.Short(), From: 1<<32 - 1, To: 1 << 32},
		}},
	} {
		if got := r.Encode(); got != want {
			t.Errorf("%+v is written as %q, want %q", r, got, want)
		}
		if got, err := ParseRecipe(want); err != nil || !cmp.Equal(got, r) {
			t.Errorf("%q reads as %+v: %v", want, got, err)
		}
	}
	for _, bad := range []string{
		"", short, short + " ", short + "  5", short + " -1", short + " +1", short + " 01", short + " 4294967297", short + " 5 ",
		short + " 5 " + other + " ", short + " 5 =2", short + " 5 =2:a", short + " 5 =1:ab", short + " 5 =:a", short + " 5 =-1:",
		short + " 5 " + other + ":", short + " 5 " + other + ":1", short + " 5 " + other + ":2:1", short + " 5 " + other + ":1:2:3",
		short + " 5 AAAAAAAAAAA", short + " 5 nonsense", short[1:] + " 5", full[1:] + " 5", strings.Repeat("*", 11) + " 5",
		strings.Repeat("*", 43) + " 5", short + "\n5",
	} {
		if r, err := ParseRecipe(bad); !errors.Is(err, ErrEncoding) || len(bad) > 20 && strings.Contains(err.Error(), bad[:20]) {
			t.Errorf("ParseRecipe(%q) = %+v, %v", bad, r, err)
		}
	}
	if _, err := ParseRecipe(short + " 0" + strings.Repeat(" =0:", maxPieces+1)); !errors.Is(err, ErrEncoding) {
		t.Errorf("too many pieces: %v", err)
	}
}

func TestRecipeID(t *testing.T) {
	made := BlockOfString("made")
	one, two := RecipeID(made, "text one"), RecipeID(made, "text two")
	if one.Short() != made.Short() || one == two || one == made {
		t.Errorf("recipes of %v are named %v and %v", made, one, two)
	}
	const want = "ea0890697a77af0a78c1794f68c89eb603ce6899ec1d10f9ce08471419944215"
	if one.String() != want {
		t.Errorf("a recipe is named %s, want %s", one, want)
	}
}

// What is read can be written again and reads the same.
func FuzzRecipe(f *testing.F) {
	a, b := BlockOfString("a"), BlockOfString("b")
	for _, r := range []Recipe{
		{ID: a, Size: 3}, {ID: a, Full: true, Size: 3},
		{ID: a, Size: 3, Pieces: []Piece{{Text: "x y"}, {Block: b.Short(), To: -1}, {Block: b.Short(), From: 1, To: 2}}},
	} {
		f.Add(r.Encode())
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRecipe(s)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		if got := r.Encode(); got != s {
			t.Fatalf("%q is written as %q", s, got)
		}
		if again, err := ParseRecipe(r.Encode()); err != nil || !cmp.Equal(again, r) {
			t.Fatalf("%+v, then %+v: %v", r, again, err)
		}
	})
}
