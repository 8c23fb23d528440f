package spans

import (
	"strings"
	"testing"
)

// made puts a template together.
func made(t *testing.T, template string, blocks map[ShortID]string) string {
	t.Helper()
	var out strings.Builder
	if err := Pieces(template, func(p Piece) bool {
		if p.Part != 0 {
			t.Fatalf("part %c", p.Part)
		}
		if p.Block != (ShortID{}) {
			p.Text = blocks[p.Block]
		}
		out.WriteString(p.Text)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// maxWord is the length of the longest word.
const maxWord = 36

// A word is named by one printable character, and begins no other: the order in which a writer looks for them is free.
func TestWords(t *testing.T) {
	if n := len(words); '0'+n > '~' {
		t.Errorf("%d words", n)
	}
	for i, word := range words {
		if template, _ := cut(word); len(template) != 2 || len(word) > maxWord || strings.ContainsAny(word, marks) {
			t.Errorf("%s is %q", word, template)
		}
		for k, other := range words {
			if i != k && strings.HasPrefix(other, word) {
				t.Errorf("%s begins %s", word, other)
			}
		}
	}
}

func cut(raw string) (template string, blocks map[ShortID]string) {
	blocks = map[ShortID]string{}
	template = string(Cut(nil, raw, func(text string) ShortID {
		id := BlockOfString(text).Short()
		blocks[id] = text
		return id
	}))
	return template, blocks
}

// Whatever is cut comes back byte for byte, and no block is larger than MaxPiece.
func TestCut(t *testing.T) {
	long := strings.Repeat("x", MinLiteral-2)
	for raw, n := range map[string]int{
		"": 0, `{}`: 0, `"` + long + `"`: 0, `["` + long[1:] + `"]`: 0, `["` + long + `"]`: 1,
		`{"a":"` + long + `","b":"` + long + `!\""}`: 2, `["` + long + `\\","x"]`: 1,
		"no JSON \"\x01\x02\x03": 0, strings.Join(words, ""): 0, `{"role":"user","content":"` + long + `"}`: 1,
		`["` + strings.Repeat("\u20ac", MaxPiece) + `"]`: 4, strings.Repeat("1,", MaxPiece): 2,
	} {
		template, blocks := cut(raw)
		if got := made(t, template, blocks); got != raw {
			t.Errorf("%.80q comes back as %.80q", raw, got)
		}
		if len(blocks) != n && n < 3 && len(raw) < MaxPiece {
			t.Errorf("%.80q: %d blocks, want %d", raw, len(blocks), n)
		}
		for _, text := range blocks {
			if len(text) > MaxPiece {
				t.Errorf("a block of %d bytes", len(text))
			}
		}
		if len(template) > MaxPiece {
			t.Errorf("a template of %d bytes", len(template))
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, raw := range []string{
		"", "\x01", `{"a":"` + strings.Repeat("b", 60) + `"}`, "\"\\\\\"" + strings.Repeat("\"", 60),
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		template, blocks := cut(raw)
		if got := made(t, template, blocks); got != raw {
			t.Fatalf("%q comes back as %q", raw, got)
		}
		if got := made(t, Template(raw), nil); got != raw {
			t.Fatalf("%q comes back as %q", raw, got)
		}
	})
}

// Any text is read as a template, a list or a withheld block, or refused; what is read is written as it came.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"\x01AAAAAAAAAAE", "\x02m,\x02\x02s", "request.1 2 1 AAAAAAAAAAE\nAAAAAAAAAAE st", "\x02", "\x030",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		size := 0
		read := Pieces(s, func(p Piece) bool { size += len(p.Text) + len(p.Sep); return true })
		if read == nil && size > maxWord/2*len(s) {
			t.Fatalf("%q: %d bytes of text", s, size)
		}
		if l, err := ParseList(s); err == nil {
			if again, err := ParseList(l.Encode()); err != nil || again.Encode() != l.Encode() {
				t.Fatalf("%q: %q, %v", s, l.Encode(), err)
			}
		}
		if w, err := ParseWithheld(s); err == nil && w.Encode() != s {
			t.Fatalf("%q is written as %q", s, w.Encode())
		}
	})
}
