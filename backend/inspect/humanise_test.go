package inspect

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/otelagent/otelagent/backend/session"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                  "0s",
		500 * time.Nanosecond:              "<1µs",
		412 * time.Microsecond:             "412µs",
		999999 * time.Nanosecond:           "999µs",
		159 * time.Millisecond:             "159ms",
		999 * time.Millisecond:             "999ms",
		4250 * time.Millisecond:            "4.2s",
		59900 * time.Millisecond:           "59s",
		187 * time.Second:                  "3m07s",
		125 * time.Minute:                  "2h05m",
		76 * time.Hour:                     "3d04h",
		-2 * time.Second:                   "-2.0s",
		400 * 24 * time.Hour:               "400d",
		time.Duration(-1 << 63):            "-292y",
		10*time.Second - time.Nanosecond:   "9.9s",
		24*time.Hour - 1*time.Second:       "23h59m",
		time.Minute - time.Nanosecond:      "59s",
		time.Microsecond - time.Nanosecond: "<1µs",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 9999: "9999", 10000: "10.0k", 12345: "12.3k", 99999: "99.9k", 123456: "123k", 1234567: "1.2M",
		123456789: "123M", 1e9: "1.0G", 1e12: "1.0T", 123e15: "123P", math.MaxInt64: "9.2E", -5: "-5",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B", 9999: "9999 B", 10_000: "10.0 kB", 987_654: "987 kB", 1_100_000: "1.1 MB", 3e9: "3.0 GB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"plain text":                  "plain text",
		"  two\n\n lines\t ":          "two lines",
		"\x1b[31mred\x1b]0;title\x07": `\x1b[31mred\x1b]0;title\x07`,
		"a\u009bb":                    `a\x9bb`,
		"a\u0085b":                    `a\x85b`,
		"back\bspace":                 `back\x08space`,
		"user\u202etxt.exe":           `user\u202etxt.exe`,
		"zero\u200bwidth\ufeff":       `zero\u200bwidth\ufeff`,
		"bad \xff byte":               "bad \ufffd byte",
		"日本語 ok":                      "日本語 ok",
		"family 👨\u200d👩\u200d👧":      "family 👨\u200d👩\u200d👧",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2J\u202e\n")
	f.Add(strings.Repeat("é", 4097))
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		for _, r := range got {
			if unicode.IsControl(r) {
				t.Fatalf("Clean(%q) = %q holds the control character %q", s, got, r)
			}
		}
		for w := range 12 {
			if c := cut(got, w); width(c) > w {
				t.Fatalf("cut(%q, %d) = %q of width %d", got, w, c, width(c))
			}
		}
	})
}

func TestShortIDs(t *testing.T) {
	list := func(ids ...string) (out []session.Summary) {
		for _, id := range ids {
			out = append(out, session.Summary{Key: session.Key{ID: id}})
		}
		return out
	}
	for _, tt := range []struct{ ids, want []string }{
		{[]string{"0b5cf0a5-6d0e-4f6f", "c41d7b1e-93a2"}, []string{"0b5cf0a5", "c41d7b1e"}},
		{[]string{"2026-11-21-a", "2026-11-21-b"}, []string{"2026-11-21-a", "2026-11-21-b"}},
		{[]string{"", "short"}, []string{`""`, "short"}},
		// One of control characters is spelled out and cannot be cut.
		{[]string{"a\x01aaaaaaaaaaaaaaaa", `a\x01aaaaaaaaaaaaaaaa`}, []string{`a\x01aaaaaaaaaaaaaaaa`, `a\x01aaa`}},
	} {
		if got := shortIDs(list(tt.ids...), false); strings.Join(got, ",") != strings.Join(tt.want, ",") {
			t.Errorf("shortIDs(%q) = %q, want %q", tt.ids, got, tt.want)
		}
	}
}

func TestSystemText(t *testing.T) {
	for body, want := range map[string]string{
		`"Be kind."`: "Be kind.",
		`{"parts":[{"text":"Be kind."},{"text":"Be brief."}],"role":"user"}`: "Be kind.\nBe brief.",
		`[{"type":"text","content":"Be kind."},{"text":"Be brief."}]`:        "Be kind.\nBe brief.",
		`{"role":"system","content":"Be kind."}`:                             "Be kind.",
		`{"type":"text","text":"Be kind."}`:                                  "Be kind.",
		`[]`:                                                                 "[]",
		`{"parts":[{"inlineData":{}}]}`:                                      `{"parts":[{"inlineData":{}}]}`,
		`{"parts":`:                                                          `{"parts":`,
		`null`:                                                               "null",
	} {
		if got := systemText(body); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
