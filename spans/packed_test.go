package spans

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The wire form of lists is a format: it must never change.
func TestPackedList(t *testing.T) {
	const digest = "AAAAAAAAAAAAAAAAAAAAAAAA"
	id := BlockOfString("x").Short().String()
	turn := func(run, n string) string { return ` {"turnId":{"loopId":` + run + `,"turnIndex":` + n + `}}` }
	for want, l := range map[string]PackedList{
		"request 0 " + digest: {Name: "request", Digest: digest},
		"request.2 9 " + digest + " 7 BBBBBBBBBBA\n" + id + "\n" + id + " st": {
			Name: "request", Attempt: 2, Count: 9, Digest: digest, Prefix: "7 BBBBBBBBBBA", Items: []string{id, id + " st"},
		},
		"input 5 " + digest + "\n" + id + " @3\n" + id + " t:3:r:1 @0\n" + id + turn(`"other"`, "3") + "\n" + id + turn(`"r 1"`, "-1") + "\n" + id + ` {"turnId":{"loopId":"r 1","turnIndex":3},"x":{}}`: {
			Name: "input", Count: 5, Digest: digest, Items: []string{
				id + turn(`"r 1"`, "3"), id + " t:3:r:1" + turn(`"r 1"`, "0"), id + turn(`"other"`, "3"), id + turn(`"r 1"`, "-1"),
				id + ` {"turnId":{"loopId":"r 1","turnIndex":3},"x":{}}`,
			},
		},
		"odd 1 " + digest + "\nno item @x": {Name: "odd", Count: 1, Digest: digest, Items: []string{"no item @x"}},
	} {
		if got := l.Encode("r 1"); got != want {
			t.Errorf("%+v is written as\n%s\nwant\n%s", l, got, want)
		}
		if got, err := ParsePackedList(want, "r 1"); err != nil || !cmp.Equal(got, l) {
			t.Errorf("%q reads as %+v: %v", want, got, err)
		}
	}
	for _, bad := range []string{
		"", "request", "request 1", " 1 " + digest, ".1 1 " + digest, "request.x 1 " + digest, "request.-1 1 " + digest, "request x " + digest,
		"request -1 " + digest, "request 1  " + digest, "request 1 " + digest + " 5", "request 1 " + digest + " 05 BBBBBBBBBBA",
		"request 1 " + digest + " -5 BBBBBBBBBBA", "request 1 " + digest + " 5 B", "request 1 " + digest + " 5 BBBBBBBBBBA x",
	} {
		if l, err := ParsePackedList(bad, "r 1"); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParsePackedList(%q) = %+v, %v", bad, l, err)
		}
	}
}

// Turn ids may be written out for any run id that there is, and a run id of nothing but escapes makes no MiB of KiB.
func TestPackedListGrows(t *testing.T) {
	l := PackedList{Name: "request", Count: 1000, Digest: "AAAAAAAAAAAAAAAAAAAAAAAA"}
	items := func(run string) string {
		before, after := turnIDParts(run)
		l.Items = slices.Repeat([]string{BlockOfString("x").Short().String() + before + "0" + after}, 1000)
		return l.Encode(run)
	}
	long, hostile := strings.Repeat("x", 256), strings.Repeat("\x01", 256)
	if got, err := ParsePackedList(items(long), long); err != nil || !cmp.Equal(got, l) {
		t.Errorf("the longest run id: %v", err)
	}
	// A writer that means well writes such turn ids in full.
	if got, err := ParsePackedList(items(hostile), hostile); err != nil || !cmp.Equal(got, l) {
		t.Errorf("a run id of escapes: %v", err)
	}
	attack, _ := l.encode(hostile, true)
	if _, err := ParsePackedList(attack, hostile); !errors.Is(err, ErrEncoding) || len(attack) > 20_000 {
		t.Errorf("a run id of escapes, %d bytes: %v", len(attack), err)
	}
}

// Marks are a format: they must never change.
func TestMark(t *testing.T) {
	id := BlockOfString("x").Short().String()
	m := Mark{}.Add(id + " st").Add(id)
	const want = "bmkJrbYVWLw"
	if m.String() != want || (Mark{}).String() != "AAAAAAAAAAA" {
		t.Errorf("mark %s, want %s", m, want)
	}
	if m == (Mark{}).Add(id).Add(id+" st") || m == (Mark{}).Add(id+" st").Add(id+" ") {
		t.Error("order and items count")
	}
	if long := strings.Repeat("y", 1000); (Mark{}).Add(long) == (Mark{}).Add(long+"y") {
		t.Error("the end of a long item counts")
	}
	if got := EncodePrefix(12, m); got != "12 "+want {
		t.Errorf("prefix %q", got)
	}
	if n, back, err := ParsePrefix("12 " + want); err != nil || n != 12 || back != m {
		t.Errorf("prefix reads as %d, %v: %v", n, back, err)
	}
	for _, bad := range []string{"", "12", want, "12 ", " " + want, "012 " + want, "-1 " + want, "1 " + want + " ", "1 " + want[1:], "99999999999999999999 " + want} {
		if _, _, err := ParsePrefix(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParsePrefix(%q): %v", bad, err)
		}
	}
}

func TestChainFits(t *testing.T) {
	c := Chain{}.Add(BlockOfString("a"), Item{})
	whole := c.String()
	if len(c.Short()) != shortChain || !c.Fits(whole) || !c.Fits(c.Short()) || !c.Fits(whole[:30]) {
		t.Errorf("%s does not fit itself", c)
	}
	for _, no := range []string{"", whole[:23], whole + "A", Chain{}.Short(), Chain{}.String(), "x" + whole[1:]} {
		if c.Fits(no) {
			t.Errorf("%s fits %q", c, no)
		}
	}
}

func TestEcho(t *testing.T) {
	type entry struct {
		Text   string
		Recipe bool
	}
	read := func(stretch []byte) (l []entry, err error) {
		err = Echo(stretch, func(text []byte, recipe bool) { l = append(l, entry{string(text), recipe}) })
		return l, err
	}
	want := []entry{{"one", false}, {"", true}, {strings.Repeat("x", 300), true}, {"\x00\n", false}}
	var stretch []byte
	for _, e := range want {
		stretch = AppendEcho(stretch, e.Text, e.Recipe)
	}
	if got := string(stretch[:8]); got != "\x00\x03one\x01\x00\x01" {
		t.Errorf("wire form %q", got)
	}
	if got, err := read(stretch); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v: %v", got, err)
	}
	ends := map[int]bool{0: true, 5: true, 7: true, 310: true, len(stretch): true}
	for n := range stretch {
		got, err := read(stretch[:n])
		if ends[n] != (err == nil) || !cmp.Equal(got, want[:len(got)], cmpopts.EquateEmpty()) {
			t.Errorf("cut at %d: %+v, %v", n, got, err)
		}
	}
	for _, bad := range []string{"\x02\x00", "\x00", "\x00\x80", "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := read([]byte(bad)); !errors.Is(err, ErrEncoding) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What is read can be written again and reads the same.
func FuzzPackedList(f *testing.F) {
	id := BlockOfString("x").Short().String()
	f.Add("request.1 2 AAAAAAAAAAAAAAAAAAAAAAAA 1 BBBBBBBBBBA\n"+id+" t:3:r:1 @3", "r")
	f.Add("input 1 x\n"+id+` {"turnId":{"loopId":"r","turnIndex":3}}`, "r")
	f.Add("a 1 \n\n", "")
	f.Fuzz(func(t *testing.T, s, run string) {
		l, err := ParsePackedList(s, run)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		if again, err := ParsePackedList(l.Encode(run), run); err != nil || !cmp.Equal(again, l) {
			t.Fatalf("%+v, then %+v: %v", l, again, err)
		}
		if l.Prefix != "" {
			p, m, err := ParsePrefix(l.Prefix)
			if err == nil && EncodePrefix(p, m) != l.Prefix {
				t.Fatalf("prefix %q", l.Prefix)
			}
		}
		_ = Echo([]byte(s), func([]byte, bool) {})
	})
}
