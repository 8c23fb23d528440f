package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shown writes a TextDiff as a unified diff does, words in brackets.
func shown(d TextDiff) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d cut=%v coarse=%v\n", d.Change, d.Before, d.After, d.Cut, d.Coarse)
	for _, h := range d.Hunks {
		fmt.Fprintf(&b, "@@ %d %d\n", h.A, h.B)
		for _, l := range h.Lines {
			b.WriteString(l.Op)
			if len(l.Words) == 0 {
				b.WriteString(l.Text)
			}
			for _, w := range l.Words {
				if w.Op == DiffEqual {
					b.WriteString(w.Text)
				} else {
					b.WriteString("[" + w.Text + "]")
				}
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestDiffText(t *testing.T) {
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	for _, c := range []struct{ before, after, want string }{
		{"", "new", "added 0 3 cut=false coarse=false\n@@ 0 1\n+new\n"},
		{"old\n", "", "removed 4 0 cut=false coarse=false\n@@ 1 0\n-old\n-\n"},
		{"a\nb\n", "a\nb", "changed 4 3 cut=false coarse=false\n@@ 1 1\n=a\n=b\n-\n"},
		{"add() subtracts instead of adding.", "add() subtracts where it adds.", "changed 34 30 cut=false coarse=false\n@@ 1 1\n" +
			"-add() subtracts [instead of adding].\n+add() subtracts [where it adds].\n"},
		{"nothing in common", "über alles", "changed 17 11 cut=false coarse=false\n@@ 1 1\n-nothing in common\n+über alles\n"},
		{"one\ntwo words here\n", "zero\none\ntwo other words here\n", "changed 19 30 cut=false coarse=false\n@@ 1 1\n+zero\n=one\n-two words here\n+two [other ]words here\n"},
		{lines(0, 20), lines(0, 10) + "more\n" + lines(10, 20), "changed 150 155 cut=false coarse=false\n@@ 8 8\n=line 7\n=line 8\n=line 9\n+more\n=line 10\n=line 11\n=line 12\n"},
		{"x\n" + lines(0, 20) + "y", lines(0, 20), "changed 153 150 cut=false coarse=false\n@@ 1 1\n-x\n=line 0\n=line 1\n=line 2\n@@ 19 18\n=line 17\n=line 18\n=line 19\n-y\n+\n"},
	} {
		if diff := cmp.Diff(c.want, shown(diffText("", c.before, c.after, 1<<20))); diff != "" {
			t.Errorf("%q to %q:\n%s", c.before, c.after, diff)
		}
	}
}

// What is told of one text is bounded, and that it is cut is told.
func TestDiffTextBounds(t *testing.T) {
	long := strings.Repeat("word ", 1000)
	d := diffText("", long, strings.ToUpper(long), 100)
	told := 0
	for _, h := range d.Hunks {
		for _, l := range h.Lines {
			told += len(l.Text)
		}
	}
	if !d.Cut || told > 100 || told < 90 {
		t.Errorf("cut %v, %d bytes", d.Cut, told)
	}
	if d := diffText("", strings.Repeat("a\n", maxDiffText), strings.Repeat("a\n", maxDiffText)+"b", 100); !d.Cut || len(d.Hunks) > 0 {
		t.Errorf("what is behind the first MiB is compared: %+v", d)
	}
	if d := diffText("", "a", "b", 0); !d.Cut || len(d.Hunks) > 0 || d.Change != changeChanged {
		t.Errorf("%+v", d)
	}
}

// Two texts without a line in common cost what they are long, not its square.
func TestDiffTextTime(t *testing.T) {
	var x, y strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&x, "a %d\n", i)
		fmt.Fprintf(&y, "b %d\n", i)
	}
	start := time.Now()
	d := diffText("", x.String(), y.String(), 64<<10)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if !d.Coarse {
		t.Error("120,000 lines differ, and it is not called coarse")
	}
}

// applied returns both texts from a diff whose hunks hold everything that differs, and the lines of a between them.
func applied(t *testing.T, d TextDiff, before string) (string, string) {
	a := strings.Split(before, "\n")
	var outA, outB []string
	at := 0
	for _, h := range d.Hunks {
		from := at // a hunk that has no line of a begins where the one before ended
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
			if l.Op != DiffAdded {
				outA = append(outA, l.Text)
				at++
			}
			if l.Op != DiffRemoved {
				outB = append(outB, l.Text)
			}
		}
	}
	return strings.Join(append(outA, a[at:]...), "\n"), strings.Join(append(outB, a[at:]...), "\n")
}

func FuzzDiffText(f *testing.F) {
	f.Add("a\nb\nc", "a\nx\nc")
	f.Add("", "a")
	f.Add("\n\n", "\n")
	f.Add("one two three\nfour", "one three\nfive")
	f.Add("a\n", "a")
	f.Fuzz(func(t *testing.T, before, after string) {
		if len(before)+len(after) > 64<<10 || before == after {
			return
		}
		d := diffText("", before, after, 1<<20)
		back := diffText("", after, before, 1<<20)
		if len(d.Hunks) != len(back.Hunks) || d.Before != back.After {
			t.Errorf("turned round: %d hunks and %d", len(d.Hunks), len(back.Hunks))
		}
		if strings.HasSuffix(before, "\n") && strings.HasSuffix(after, "\n") {
			before, after = before[:len(before)-1], after[:len(after)-1]
		}
		if before == "" || after == "" {
			return // which has no lines
		}
		if a, b := applied(t, d, before); a != before || b != after {
			t.Errorf("%q to %q: hunks make %q and %q\n%s", before, after, a, b, shown(d))
		}
		diffText("", before, after, len(before)/2)
	})
}

func FuzzDiffValues(f *testing.F) {
	f.Add(`{"a":1.0,"b":[1,2]}`, `{"b":[1,2],"a":1}`)
	f.Add(`[1,2,3]`, `[2,3]`)
	f.Add(`{"a":{"b":"x"}}`, `{"a":{"b":"y"},"c":null}`)
	f.Add(`1e400`, `10e399`)
	f.Add(`"a`, `-`)
	text := func(name, before, after string) TextDiff { return diffText(name, before, after, 1<<20) }
	f.Fuzz(func(t *testing.T, a, b string) {
		l, ok := diffValues("", a, b, text)
		back, okBack := diffValues("", b, a, text)
		if ok != okBack || len(l) != len(back) {
			t.Errorf("turned round: %d changes and %d", len(l), len(back))
		}
		if !ok || a == "" || b == "" {
			return
		}
		if same := canonical(a) == canonical(b); same != (len(l) == 0) {
			t.Errorf("%s and %s: the same %v, changes %+v", a, b, same, l)
		}
		if l, _ := diffValues("", a, canonicalJSON(a), text); len(l) > 0 {
			t.Errorf("%s differs from itself: %+v", a, l)
		}
	})
}

// canonicalJSON spells a value in another way.
func canonicalJSON(raw string) string { return indented([]byte(raw)) }

func TestDiffValues(t *testing.T) {
	text := func(name, before, after string) TextDiff { return diffText(name, before, after, 1<<20) }
	long := strings.Repeat("word ", 20)
	for _, c := range []struct {
		before, after string
		want          []ValueChange
	}{
		{`{"a":1,"b":2}`, `{"b":2.0,"a":1e0}`, nil},
		{`{"path":"a","n":1}`, `{"path":"b","n":1}`, []ValueChange{{Path: "path", Before: `"a"`, After: `"b"`}}},
		{`{"a":{"b":[1,{"c":true}]}}`, `{"a":{"b":[1,{"c":false}]},"d":null}`, []ValueChange{{Path: "a.b[1].c", Before: `true`, After: `false`}, {Path: "d", After: `null`}}},
		{`[1,2,3]`, `[0,1,2,3]`, []ValueChange{{Path: "[0]", After: `0`}}},
		{`{"a":1}`, `[1]`, []ValueChange{{Before: `{"a":1}`, After: `[1]`}}},
		{`"1"`, `1`, []ValueChange{{Before: `"1"`, After: `1`}}},
	} {
		got, ok := diffValues("", c.before, c.after, text)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("%s to %s: %v\n%s", c.before, c.after, ok, diff)
		}
	}
	got, _ := diffValues("", `{"text":"`+long+`a"}`, `{"text":"`+long+`b"}`, text)
	if len(got) != 1 || got[0].Path != "text" || got[0].Text == nil || len(got[0].Text.Hunks) != 1 {
		t.Errorf("long text: %+v", got)
	}
	if _, ok := diffValues("", `{`, `{}`, text); ok {
		t.Error("no JSON is compared as JSON")
	}
	var x, y strings.Builder
	for i := range 2 * maxValueChanges {
		fmt.Fprintf(&x, `"k%d":1,`, i)
		fmt.Fprintf(&y, `"k%d":2,`, i)
	}
	got, _ = diffValues("in", "{"+strings.TrimSuffix(x.String(), ",")+"}", "{"+strings.TrimSuffix(y.String(), ",")+"}", text)
	if len(got) != 1 || got[0].Path != "in" {
		t.Errorf("%d changes of one value", len(got))
	}
	for n, want := range map[string]string{"0": "0", "-0.0": "0", "10": "10", "1.50": "1.5", "-12e-3": "-0.012", "0.001E2": "0.1", "1E30": "1e30", "12e-40": "12e-40", "1e99999999999": "1e99999999999"} {
		if got := plainNumber(n); got != want {
			t.Errorf("%s: %s, want %s", n, got, want)
		}
	}
	// What is shown of it is JSON.
	if got, want := canonical(`{ "b" : [1.0, {}, [ ], "x"], "a": {"n": 5} }`), `{"a":{"n":5},"b":[1,{},[],"x"]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
