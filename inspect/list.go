package inspect

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// List writes a table of sessions, one a line, in the order given. Ids are cut to what tells them apart among those
// listed: a shown id is a valid prefix.
func List(w io.Writer, list []session.Summary, o Options) error {
	if o.Width < 40 {
		o.Width = 80
	}
	d := &drawer{w: w, width: o.Width, color: o.Color}
	ids := shortIDs(list, o.Width >= 120)
	type column struct {
		name  string
		right bool
		value func(i int) (string, style)
		flex  bool
	}
	num := func(f func(s session.Summary) int64) func(int) (string, style) {
		return func(i int) (string, style) {
			if list[i].Start.IsZero() {
				return "", plainText // not summarised yet
			}
			return Count(f(list[i])), plainText
		}
	}
	zone := listZone(list, o)
	cols := []column{
		{name: "SESSION", value: func(i int) (string, style) { return ids[i], bold }},
		{name: strings.TrimSuffix("LAST "+zone, " "), value: func(i int) (string, style) {
			if o.Now.IsZero() && !list[i].Last.IsZero() {
				layout := "2006-01-02 15:04"
				if zone == "" {
					layout += " MST"
				}
				return list[i].Last.In(cmp.Or(o.Location, time.UTC)).Format(layout), dim
			}
			return ago(list[i].Last, o.Now), dim
		}},
		{name: "STATUS", value: func(i int) (string, style) { return words(string(list[i].Status)), sessionStyle(list[i].Status) }},
		{name: "RUNS", right: true, value: num(func(s session.Summary) int64 { return s.Runs })},
		{name: "TURNS", right: true, value: num(func(s session.Summary) int64 { return s.Turns })},
		{name: "TOOLS", right: true, value: num(func(s session.Summary) int64 { return s.ToolCalls })},
		{name: "IN", right: true, value: num(func(s session.Summary) int64 { return s.Usage.Input })},
		{name: "OUT", right: true, value: num(func(s session.Summary) int64 { return s.Usage.Output })},
	}
	if o.Width >= 120 {
		cols = append(cols,
			column{name: "ERRORS", right: true, value: num(func(s session.Summary) int64 { return s.Errors })},
			column{name: "DENIED", right: true, value: num(func(s session.Summary) int64 { return s.Denied })},
			column{name: "DEFECTS", right: true, value: num(func(s session.Summary) int64 { return s.Defects })},
			column{name: "TOOK", right: true, value: func(i int) (string, style) { return took(list[i].Start, list[i].Last), plainText }},
			column{name: "MODEL", value: func(i int) (string, style) { return cut(Clean(list[i].Model), 32), plainText }},
		)
	}
	agent := func(s session.Summary) string { return Clean(cmp.Or(s.Agent, s.AgentID)) }
	cols = append(cols, column{name: "AGENT", flex: true, value: func(i int) (string, style) { return agent(list[i]), dim }})

	widths := make([]int, len(cols))
	for c, col := range cols {
		widths[c] = width(col.name)
		for i := range list {
			v, _ := col.value(i)
			widths[c] = max(widths[c], width(v))
		}
	}
	// Where there is no room, numbers give way first, then agents.
	for _, name := range []string{"TOOLS", "TURNS", "RUNS", "OUT", "IN", "AGENT"} {
		used := 0
		for c, col := range cols {
			if col.flex {
				used += width(col.name)
			} else {
				used += widths[c] + 2
			}
		}
		c := slices.IndexFunc(cols, func(c column) bool { return c.name == name })
		if used > o.Width && c >= 0 {
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
	for i := range list {
		row(func(c int) (string, style) { return cols[c].value(i) })
	}
	return d.err
}

// listZone returns the zone of the times of day in a list; none when they are told as "ago" or are in several, as around
// the change to summer time.
func listZone(list []session.Summary, o Options) string {
	zone := ""
	for _, s := range list {
		if s.Last.IsZero() || !o.Now.IsZero() {
			continue
		}
		name, _ := s.Last.In(cmp.Or(o.Location, time.UTC)).Zone()
		if zone != "" && zone != name {
			return ""
		}
		zone = name
	}
	return zone
}

func sessionStyle(s spans.SessionStatus) style {
	switch s {
	case spans.SessionStatusIdle:
		return green
	case spans.SessionStatusError, spans.SessionStatusAborted:
		return red
	}
	return yellow
}

// shortIDs cuts ids to the shortest prefixes that differ, at least eight characters; whole ones stay whole.
func shortIDs(list []session.Summary, whole bool) []string {
	out := make([]string, len(list))
	for n := 8; ; n += 4 {
		seen := map[string]string{}
		clash := false
		for i, s := range list {
			id := Clean(s.ID)
			if !whole && len(id) > n && id == s.ID {
				id = prefix(id, n)
			}
			if other, ok := seen[id]; ok && other != s.ID {
				clash = true
			}
			seen[id] = s.ID
			out[i] = id
			if s.ID == "" {
				out[i] = strconv.Quote("")
			}
		}
		if !clash || whole || n > 256 {
			return out
		}
	}
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
