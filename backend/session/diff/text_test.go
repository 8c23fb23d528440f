package diff

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The report of one text is bounded, and so is the time.
func TestTextBounds(t *testing.T) {
	long := strings.Repeat("word ", 1000)
	d, _ := compareTexts(long, strings.ToUpper(long), 100)
	reported := 0
	for _, h := range d.Hunks {
		for _, l := range h.Lines {
			reported += len(l.Text)
		}
	}
	if !d.Cut || reported > 100 || reported < 90 {
		t.Errorf("cut %v, %d bytes", d.Cut, reported)
	}
	if d, _ := compareTexts(strings.Repeat("a\n", maxText), strings.Repeat("a\n", maxText)+"b", 100); !d.Cut ||
		len(d.Hunks) > 0 {
		t.Errorf("compared beyond the first MiB: %+v", d)
	}
	d2 := differ{room: 100} // all texts share it
	if a, b := d2.text(long, strings.ToUpper(long)), d2.text("a", "b"); !a.Cut || !b.Cut || len(b.Hunks) > 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	var x, y strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&x, "a %d\n", i)
		fmt.Fprintf(&y, "b %d\n", i)
	}
	start := time.Now()
	if d, _ := compareTexts(x.String(), y.String(), 64<<10); !d.Coarse || time.Since(start) > 10*time.Second {
		t.Errorf("coarse %v after %v", d.Coarse, time.Since(start))
	}
}

// applied returns both texts from a difference that is complete, and the lines of a between its hunks.
func applied(t *testing.T, d *Text, before string) (string, string) {
	a := strings.Split(before, "\n")
	var outA, outB []string
	at := 0
	for _, h := range d.Hunks {
		from := at // a hunk without a line of a begins where the one before ended
		if h.A > 0 {
			from = h.A - 1
		}
		outA, outB = append(outA, a[at:from]...), append(outB, a[at:from]...)
		at = from
		for _, l := range h.Lines {
			text := ""
			for _, w := range l.Words {
				text += w.Text
			}
			if len(l.Words) > 0 && text != l.Text {
				t.Errorf("words %q of line %q", text, l.Text)
			}
			if l.Op != Added {
				outA = append(outA, l.Text)
				at++
			}
			if l.Op != Removed {
				outB = append(outB, l.Text)
			}
		}
	}
	return strings.Join(append(outA, a[at:]...), "\n"), strings.Join(append(outB, a[at:]...), "\n")
}

func FuzzText(f *testing.F) {
	f.Add("a\nb\nc", "a\nx\nc")
	f.Add("", "a")
	f.Add("\n\n", "\n")
	f.Add("one two three\nfour", "one three\nfive")
	f.Add("a\n", "a")
	f.Add("x\n"+strings.Repeat("line\n", 20)+"y", strings.Repeat("line\n", 20))
	f.Add("one\ntwo words here\n", "zero\none\ntwo other words here\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		if len(before)+len(after) > 64<<10 || before == after {
			return
		}
		d, _ := compareTexts(before, after, 1<<20)
		back, _ := compareTexts(after, before, 1<<20)
		if len(d.Hunks) != len(back.Hunks) || d.Before != back.After {
			t.Errorf("not symmetric: %d hunks and %d", len(d.Hunks), len(back.Hunks))
		}
		if strings.HasSuffix(before, "\n") && strings.HasSuffix(after, "\n") {
			before, after = before[:len(before)-1], after[:len(after)-1]
		}
		if before == "" || after == "" {
			return // which has no lines
		}
		if a, b := applied(t, d, before); a != before || b != after {
			t.Errorf("%q to %q: hunks make %q and %q\n%+v", before, after, a, b, d)
		}
		compareTexts(before, after, len(before)/2)
	})
}

// changesOf compares two JSON texts as the arguments of a call.
func changesOf(before, after string) []Change {
	d, p := differ{room: 1 << 20}, Pair{A: &Place{}, B: &Place{}}
	d.field(&p, &field{path: "args", part: Calls, json: before}, &field{path: "args", json: after})
	return p.Changes
}

func FuzzValues(f *testing.F) {
	f.Add(`{"a":1.0,"b":[1,2]}`, `{"b":[1,2],"a":1}`)
	f.Add(`[1,2,3]`, `[2,3]`)
	f.Add(`{"a":{"b":"x"}}`, `{"a":{"b":"y"},"c":null}`)
	f.Add(`1e400`, `10e399`)
	f.Add(`"a`, `-`)
	f.Fuzz(func(t *testing.T, a, b string) {
		l, back := changesOf(a, b), changesOf(b, a)
		if len(l) != len(back) {
			t.Errorf("not symmetric: %d changes and %d", len(l), len(back))
		}
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) {
			return
		}
		if same := canonical(a) == canonical(b); same != (len(l) == 0) {
			t.Errorf("%s and %s: the same %v, changes %+v", a, b, same, l)
		}
		if l := changesOf(a, canonical(a)); len(l) > 0 {
			t.Errorf("%s differs from itself: %+v", a, l)
		}
	})
}

func TestValues(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for _, c := range []struct {
		before, after string
		want          []Change
	}{
		{`{"a":1,"b":2}`, `{"b":2.0,"a":1e0}`, nil},
		{`{"a":{"b":[1,{"c":true}]}}`, `{"a":{"b":[1,{"c":false}]},"d":null}`,
			[]Change{{Path: "args.a.b[1].c", Before: `true`, After: `false`}, {Path: "args.d", Change: added,
				After: `null`}}},
		{`{"a":1}`, `[1]`, []Change{{Path: "args.a", Change: removed, Before: `1`}, {Path: "args[0]", Change: added,
			After: `1`}}},
		{`"1"`, `1`, []Change{{Path: "args", Before: `"1"`, After: `1`}}},
		{`[{"name":"a"},{"name":"b","n":1}]`, `[{"name":"b","n":2},{"name":"c"}]`, []Change{{Path: "args.a.name",
			Change: removed, Before: `"a"`},
			{Path: "args.b.n", Before: `1`, After: `2`}, {Path: "args.c.name", Change: added, After: `"c"`}}},
	} {
		for i := range c.want {
			c.want[i].Part = Calls
			if c.want[i].Change == "" {
				c.want[i].Change = changed
			}
		}
		if delta := cmp.Diff(c.want, changesOf(c.before, c.after)); delta != "" {
			t.Errorf("%s to %s:\n%s", c.before, c.after, delta)
		}
	}
	many := func(n int) string {
		out := map[string]int{}
		for i := range 2 * maxChanges {
			out[fmt.Sprint("k", i)] = n
		}
		raw, _ := json.Marshal(out)
		return string(raw)
	}
	for _, c := range [][3]string{
		{`{"text":"` + long + `a"}`, `{"text":"` + long + `b"}`, "args.text"}, {`{`, `{}`, "args"},
		{many(1), many(2), "args"},
	} {
		if l := changesOf(c[0], c[1]); len(l) != 1 || l[0].Path != c[2] || l[0].Text == nil {
			t.Errorf("%.20s: %+v", c[0], l)
		}
	}
	for n, want := range map[string]string{"0": "0", "-0.0": "0", "10": "10", "1.50": "1.5", "-12e-3": "-0.012",
		"0.001E2": "0.1", "1E3": "1000",
		"9007199254740993": "9007199254740993", "1e400": "1e400"} {
		if got := canonical(n); got != want {
			t.Errorf("%s: %s, want %s", n, got, want)
		}
	}
	if got, want := canonical(`{ "b" : [1.0, {}, [ ], "x"], "a": {"n": 5} }`),
		`{"a":{"n":5},"b":[1,{},[],"x"]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The result of a tool is its text, however it is spelled, and its other members. Ids make no difference.
func TestResults(t *testing.T) {
	of := func(raw string) string {
		v, ok := decode(raw)
		if !ok {
			t.Fatal(raw)
		}
		return marshal(result(v))
	}
	for raw, want := range map[string]string{
		`"x"`: `"x"`, `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`: `"x\ny"`,
		`{"content":"x","id":"1"}`: `"x"`, `{"content":[{"type":"text","text":"x"}],"details":{"n":1},"timestamp":7}` +
			``: `{"content":"x","details":{"n":1}}`,
		`{"id":7,"rows":[]}`: `{"id":7,"rows":[]}`, `[{"type":"image","data":"AA"}]`: `[{"data":"AA","type":"image"}]`,
	} {
		if got := of(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
