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

	"github.com/mattn/go-runewidth"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

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
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*24*time.Hour:
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d < 10_000*24*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	default:
		return fmt.Sprintf("%dy", d/(365*24*time.Hour))
	}
}

// unit is a multiple of ten to count in.
type unit struct {
	size int64
	name string
}

// inUnits returns n in the largest unit, with two or three digits; exact below ten thousand.
func inUnits(n int64, units []unit, one string) string {
	for _, u := range units {
		switch {
		case n < u.size || n < 1e4:
		case n/u.size < 100:
			return fmt.Sprintf("%d.%d%s", n/u.size, n%u.size/(u.size/10), u.name)
		default:
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + one
}

// Count returns n in at most five columns: exact below ten thousand, then 12.3k, 123k, 1.2M.
func Count(n int64) string {
	return inUnits(n, []unit{{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}, "")
}

// Bytes returns n bytes in at most seven columns: exact below ten thousand, then 12.3 kB, 123 kB, 1.2 MB.
func Bytes(n int64) string { return inUnits(n, []unit{{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}}, " B") }

// ago returns how long before now t was, in words; empty when either is unknown.
func ago(t, now time.Time) string {
	if !session.TimeTold(t) || now.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in the future"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
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
func joined(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, separator)
}

// among puts the parts that are not empty into brackets.
func among(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

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

// words turns an identifier into words.
func words(s string) string {
	if s == string(spans.TriggerSubAgent) {
		return "sub-agent"
	}
	return strings.ReplaceAll(Clean(s), "_", " ")
}

// cells measures text. Ambiguous characters are narrow in every locale, so that columns do not depend on it.
var cells = func() *runewidth.Condition {
	c := runewidth.NewCondition()
	c.EastAsianWidth = false
	return c
}()

func width(s string) int { return cells.StringWidth(s) }

// cut shortens s to w columns, and marks that with an ellipsis.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if near := 8*w + 64; len(s) > near { // of a long text measure its beginning only, if that is wide enough
		for near > 0 && !utf8.RuneStart(s[near]) {
			near--
		}
		if width(s[:near]) > w+2 {
			s = s[:near]
		}
	}
	if width(s) <= w {
		return s
	}
	return cells.Truncate(s, w, "…")
}

func padRight(s string, w int) string { return s + strings.Repeat(" ", max(0, w-width(s))) }
func padLeft(s string, w int) string  { return strings.Repeat(" ", max(0, w-width(s))) + s }

// maxScan bounds the bytes of a text on one line.
const maxScan = 4096

// Clean makes foreign text safe for one line of a terminal: white space becomes one blank, and characters on which a
// terminal acts (control characters, bidirectional overrides, invisible format characters) are spelled out.
func Clean(s string) string { return clean(s, maxScan) }

// clean is Clean of the first limit bytes.
func clean(s string, limit int) string {
	if len(s) > limit {
		n := limit
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
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
