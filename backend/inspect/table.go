package inspect

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// field is a column of a table.
type field struct {
	name  string
	right bool                        // its values end at one column
	value func(i int) (string, style) // of row i; clean
	flex  bool                        // it is cut to the room that the others leave; the last one
	least int                         // of a flex one: others give way until it has this much of what it needs, if that is more than its name
}

// table writes a head and n rows. Where there is no room for all fields, those whose names stand in giveWay are left out, in that order.
func (d *drawer) table(cols []field, n int, giveWay []string) {
	widths := make([]int, len(cols))
	for c, col := range cols {
		widths[c] = width(col.name)
		for i := range n {
			v, _ := col.value(i)
			widths[c] = max(widths[c], width(v))
		}
	}
	for _, name := range giveWay {
		used := 0
		for c, col := range cols {
			switch {
			case col.flex && name == col.name:
				used += width(col.name)
			case col.flex:
				used += max(width(col.name), min(widths[c], col.least))
			default:
				used += widths[c] + 2
			}
		}
		c := slices.IndexFunc(cols, func(c field) bool { return c.name == name })
		if used > d.width && c >= 0 {
			cols, widths = slices.Delete(cols, c, c+1), slices.Delete(widths, c, c+1)
		}
	}
	row := func(cell func(c int) (string, style)) {
		used := 0
		for c, col := range cols {
			v, st := cell(c)
			switch {
			case col.flex:
				v = cut(v, d.width-used)
			case col.right:
				v = padLeft(v, widths[c])
			default:
				v = padRight(v, widths[c])
			}
			d.put(st, v)
			d.buf.WriteString("  ")
			used += width(v) + 2
		}
		d.flush()
	}
	row(func(c int) (string, style) { return cols[c].name, dim })
	for i := range n {
		row(func(c int) (string, style) { return cols[c].value(i) })
	}
}

// listZone returns the zone of the times of day in a table; none when they are told as "ago" or are in several, as around
// the change to summer time.
func listZone(times iter.Seq[time.Time], o Options) string {
	zone := ""
	for t := range times {
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

// when returns a time as it stands in a table with that zone in its head.
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
