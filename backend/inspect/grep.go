package inspect

import (
	"fmt"
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/store/search"
)

// Grep writes hits, two lines each: the address and the place, then the text around the first match, which has a
// colour. All text is safe for a terminal. The error is that of the writer.
func Grep(w io.Writer, hits []search.Hit, o Options) error {
	d := newDrawer(w, o)
	for i := range hits {
		h := &hits[i]
		notes := []string{Clean(h.Tool), Clean(h.Call)}
		if h.Matches > 1 {
			notes = append(notes, fmt.Sprintf("%d times", h.Matches))
		}
		if h.Further > 0 {
			notes = append(notes, "and in "+plural(h.Further, "more turn"))
		}
		if h.Hidden {
			notes = append(notes, "rewound")
		}
		more := prefixed(separator, joined(separator, notes...))
		d.line(bold.of(Clean(h.Address)), cyan.of("  "+Clean(h.Place)), dim.of(more))

		const indent = "    "
		match := cut(cleanPart(h.Match), d.width-len(indent))
		room := d.width - len(indent) - width(match)
		before, after := cleanPart(h.Before), cleanPart(h.After)
		if over := width(before) - room + min(width(after), room/2); over > 0 {
			before = ansi.TruncateLeft(before, over+1, "…")
		}
		d.line(indent, before, red.of(match), cut(after, room-width(before)))
	}
	return d.err
}

// cleanPart is the beginning of a part of a text, which may begin and end with a blank.
func cleanPart(s string) string {
	s, _ = atMost(s, maxScan)
	return cleanLine(s)
}
