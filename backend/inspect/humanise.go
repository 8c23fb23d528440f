package inspect

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

const day = 24 * time.Hour

// durations are the forms of durations below a bound: the unit, and what of the rest is shown.
var durations = []struct {
	below, unit, rest time.Duration
	form              string
}{
	{time.Millisecond, time.Microsecond, 0, "%dµs"}, {time.Second, time.Millisecond, 0, "%dms"},
	{10 * time.Second, time.Second, 100 * time.Millisecond, "%d.%ds"}, {time.Minute, time.Second, 0, "%ds"},
	{time.Hour, time.Minute, time.Second, "%dm%02ds"}, {day, time.Hour, time.Minute, "%dh%02dm"},
	{100 * day, day, time.Hour, "%dd%02dh"}, {10_000 * day, day, 0, "%dd"},
}

// Duration returns d in at most six columns, seven when it is negative: 412µs, 159ms, 4.2s, 3m07s, 2h05m, 3d04h,
// 400d, 27y.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-max(d, -math.MaxInt64))
	case d == 0:
		return "0s"
	case d < time.Microsecond:
		return "<1µs"
	}
	for _, f := range durations {
		switch {
		case d >= f.below:
		case f.rest > 0:
			return fmt.Sprintf(f.form, d/f.unit, d%f.unit/f.rest)
		default:
			return fmt.Sprintf(f.form, d/f.unit)
		}
	}
	return fmt.Sprintf("%dy", d/(365*day))
}

// inUnits returns n in the largest of units of a thousand, with two or three digits; exact below ten thousand.
func inUnits(n int64, units ...string) string {
	size, name := int64(1), units[0]
	for _, u := range units[1:] {
		if n < 1e4 || n/1000 < size {
			break
		}
		size, name = 1000*size, u
	}
	if size > 1 && n/size < 100 {
		return fmt.Sprintf("%d.%d%s", n/size, n%size/(size/10), name)
	}
	return strconv.FormatInt(n/size, 10) + name
}

// Count returns n in at most five columns: exact below ten thousand, then 12.3k, 123k, 1.2M.
func Count(n int64) string { return inUnits(n, "", "k", "M", "G", "T", "P", "E") }

// Bytes returns n bytes in at most seven columns: exact below ten thousand, then 12.3 kB, 123 kB, 1.2 MB.
func Bytes(n int64) string { return inUnits(n, " B", " kB", " MB", " GB") }

// ago returns how long before now t was, in words; empty when either is unknown.
func ago(t, now time.Time) string {
	if !session.TimeKnown(t) || now.IsZero() {
		return ""
	}
	if t.After(now) {
		return "in the future"
	}
	return humanize.CustomRelTime(t, now, "ago", "", ages)
}

var ages = []humanize.RelTimeMagnitude{
	{D: time.Second, Format: "just now"}, {D: time.Minute, Format: "%ds %s", DivBy: time.Second},
	{D: time.Hour, Format: "%dm %s", DivBy: time.Minute}, {D: 48 * time.Hour, Format: "%dh %s", DivBy: time.Hour},
	{D: math.MaxInt64, Format: "%dd %s", DivBy: 24 * time.Hour},
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return Duration(to.Sub(from))
}

func count(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return Count(n) + " " + what
}

func some(n int, one string) string {
	if n == 0 {
		return ""
	}
	return plural(n, one)
}

// joined joins the parts that are not empty.
func joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}

// among puts the parts that are not empty into brackets.
func among(parts ...string) string { return suffixed(prefixed(" (", joined(", ", parts...)), ")") }

func fromTo(a, b *int64, one string) string {
	switch {
	case a != nil && b != nil:
		return Count(*a) + " → " + Count(*b) + " " + one + "s"
	case a != nil:
		return Count(*a) + " " + one + "s before"
	case b != nil:
		return Count(*b) + " " + one + "s after"
	}
	return ""
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

func suffixed(s, end string) string {
	if s == "" {
		return ""
	}
	return s + end
}

// money writes an amount, with more digits the smaller it is: a turn may cost little.
func money(currency string, amount float64) string {
	digits := 2
	switch size := math.Abs(amount); {
	case size < 0.01 && size > 0:
		digits = 6
	case size < 1:
		digits = 4
	}
	return strings.TrimSpace(Clean(currency) + " " + strconv.FormatFloat(amount, 'f', digits, 64))
}

// words turns an identifier into words.
func words(s string) string {
	if s == string(spans.TriggerSubAgent) {
		return "sub-agent"
	}
	return strings.ReplaceAll(Clean(s), "_", " ")
}

// prefix returns the first n runes of s.
func prefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// ellipsis returns the first n characters of s.
func ellipsis(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return prefix(s, n-1) + "…"
}

// atMost returns the first n bytes of s, in whole characters, and whether it has more.
func atMost(s string, n int) (string, bool) {
	head := session.Beginning(s, n)
	return head, len(head) < len(s)
}

// maxScan bounds the bytes of a text on one line.
const maxScan = 4096

// Clean makes foreign text safe for one line of a terminal: white space becomes one blank, and characters on which a
// terminal acts (control characters, bidirectional overrides, invisible format characters) are spelled out.
func Clean(s string) string { return clean(s, maxScan) }

// clean is Clean of the first limit bytes.
func clean(s string, limit int) string {
	if text, more := atMost(s, limit); more {
		s = text + "…"
	}
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	blank := false
	for _, r := range s {
		if unicode.IsSpace(r) && r != 0x85 {
			blank = b.Len() > 0
			continue
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		switch {
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r) // bad bytes became U+FFFD
		}
	}
	return b.String()
}

// plain reports that Clean changes nothing, the usual case.
func plain(s string) bool {
	space := true
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c >= 0x7f || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || s == ""
}

// hidden reports characters that change the look of their neighbours, or have none. The joiner of emoji is none of
// them.
func hidden(r rune) bool {
	if r == 0x200d {
		return false
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == 0x2028 || r == 0x2029
}
