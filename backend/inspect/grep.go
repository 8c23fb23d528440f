package inspect

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/store/search"
)

// Grep writes hits, two lines each: the address and the place, then the text around the first match, which has a
// colour. All text is safe for a terminal. The error is that of the writer.
func Grep(w io.Writer, hits []search.Hit, o Options) error {
	if o.Width < 40 {
		o.Width = 80
	}
	d := &drawer{w: w, width: o.Width, color: o.Color}
	for i := range hits {
		h := &hits[i]
		d.put(bold, Clean(h.Address))
		d.put(cyan, "  "+Clean(h.Place))
		for _, note := range grepNotes(h) {
			d.put(dim, " · "+note)
		}
		d.flush()
		const indent = "    "
		room := o.Width - len(indent)
		match := cut(cleanPart(h.Match), room)
		after := cleanPart(h.After)
		before := cutLeft(cleanPart(h.Before), room-width(match)-min(width(after), (room-width(match))/2))
		after = cut(after, room-width(match)-width(before))
		d.put(plainText, indent+before)
		d.put(red, match)
		d.put(plainText, after)
		d.flush()
	}
	return d.err
}

// cleanPart is Clean of a part of a text, which may begin and end with a blank.
func cleanPart(s string) string {
	c := Clean(s)
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if c == "" && s != "" {
		return " "
	}
	if unicode.IsSpace(first) {
		c = " " + c
	}
	if unicode.IsSpace(last) {
		c += " "
	}
	return c
}

// grepNotes returns what else is known of a hit.
func grepNotes(h *search.Hit) []string {
	var out []string
	if h.Tool != "" {
		out = append(out, Clean(h.Tool))
	}
	if h.Call != "" {
		out = append(out, Clean(h.Call))
	}
	if h.Matches > 1 {
		out = append(out, fmt.Sprintf("%d times", h.Matches))
	}
	if h.Further > 0 {
		out = append(out, "and in "+plural(h.Further, "more turn"))
	}
	if h.Hidden {
		out = append(out, "rewound")
	}
	return out
}

// cutLeft is cut from the left.
func cutLeft(s string, w int) string {
	if width(s) <= w {
		return s
	}
	if w < 1 {
		return ""
	}
	runes := []rune(s)
	for i := range runes {
		if rest := string(runes[i:]); width(rest) < w {
			return "…" + rest
		}
	}
	return "…"
}
