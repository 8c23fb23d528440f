package inspect

import (
	"cmp"
	"slices"
	"time"
)

// column is a column of a table of T.
type column[T any] struct {
	name  string
	cell  func(*T) seg // clean
	right bool         // aligned to the right
	most  int          // width that the column has at most; 0: any
	flex  bool         // the column takes the room that the others leave
	least int          // room that others give up for a flex column, as far as its cells need it
}

// table draws a head and rows. It omits the columns of giveWay, in that order, until the others have room.
func table[T any](d *drawer, cols []column[T], rows []T, giveWay ...string) {
	cells := make([][]seg, len(cols))
	widths := make([]int, len(cols))
	for c, col := range cols {
		widths[c] = width(col.name)
		for i := range rows {
			s := col.cell(&rows[i])
			if col.most > 0 {
				s.text = cut(s.text, max(col.most, width(col.name)))
			}
			cells[c] = append(cells[c], s)
			widths[c] = max(widths[c], width(s.text))
		}
	}
	for _, name := range giveWay {
		used, at := 0, -1
		for c, col := range cols {
			switch {
			case col.flex && name == col.name:
				used += width(col.name)
			case col.flex:
				used += max(width(col.name), min(widths[c], col.least))
			default:
				used += widths[c] + 2
			}
			if col.name == name {
				at = c
			}
		}
		if used > d.width && at >= 0 {
			cols, cells = slices.Delete(cols, at, at+1), slices.Delete(cells, at, at+1)
			widths = slices.Delete(widths, at, at+1)
		}
	}
	room := d.width
	for c, col := range cols {
		if !col.flex {
			room -= widths[c] + 2
		}
	}
	row := func(cell func(c int) seg) {
		used := 0
		for c, col := range cols {
			s, w := cell(c), widths[c]
			if col.flex {
				w = max(room, 10)
			}
			w = min(w, widths[c], d.width-used)
			s.text = cut(s.text, w)
			if col.right {
				s.text = padLeft(s.text, w)
			} else {
				s.text = padRight(s.text, w)
			}
			d.put(s.style, s.text)
			d.buf.WriteString("  ")
			used += width(s.text) + 2
		}
		d.flush()
	}
	row(func(c int) seg { return seg{cols[c].name, dim} })
	for i := range rows {
		row(func(c int) seg { return cells[c][i] })
	}
}

// listZone returns the zone of the times of day in a table; empty when the table has ages, or several zones.
func listZone(times []time.Time, o Options) string {
	zone := ""
	for _, t := range times {
		if t.IsZero() || !o.Now.IsZero() {
			continue
		}
		name, _ := t.In(cmp.Or(o.Location, time.UTC)).Zone()
		if zone != "" && zone != name {
			return ""
		}
		zone = name
	}
	return zone
}

// when returns a time in a table with that zone in its head.
func when(t time.Time, zone string, o Options) string {
	if !o.Now.IsZero() || t.IsZero() {
		return ago(t, o.Now)
	}
	layout := "2006-01-02 15:04"
	if zone == "" {
		layout += " MST"
	}
	return t.In(cmp.Or(o.Location, time.UTC)).Format(layout)
}
