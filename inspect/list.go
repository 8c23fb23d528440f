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
	num := func(f func(s session.Summary) int64) func(int) (string, style) {
		return func(i int) (string, style) {
			if list[i].Start.IsZero() {
				return "", plainText // not summarised yet
			}
			return Count(f(list[i])), plainText
		}
	}
	zone := listZone(func(yield func(time.Time) bool) {
		for _, s := range list {
			if !yield(s.Last) {
				return
			}
		}
	}, o)
	cols := []field{
		{name: "SESSION", value: func(i int) (string, style) { return ids[i], bold }},
		{name: strings.TrimSuffix("LAST "+zone, " "), value: func(i int) (string, style) { return when(list[i].Last, zone, o), dim }},
		{name: "STATUS", value: func(i int) (string, style) { return statusText(&list[i]), sessionStyle(list[i].Status) }},
		{name: "RUNS", right: true, value: num(func(s session.Summary) int64 { return s.Runs })},
		{name: "TURNS", right: true, value: num(func(s session.Summary) int64 { return s.Turns })},
		{name: "TOOLS", right: true, value: num(func(s session.Summary) int64 { return s.ToolCalls })},
		{name: "IN", right: true, value: num(func(s session.Summary) int64 { return s.Usage.Input })},
		{name: "OUT", right: true, value: num(func(s session.Summary) int64 { return s.Usage.Output })},
	}
	if o.Width >= 120 {
		cols = append(cols,
			field{name: "ERRORS", right: true, value: num(func(s session.Summary) int64 { return s.Errors })},
			field{name: "DENIED", right: true, value: num(func(s session.Summary) int64 { return s.Denied })},
			field{name: "DEFECTS", right: true, value: num(func(s session.Summary) int64 { return s.Defects })},
			field{name: "TOOK", right: true, value: func(i int) (string, style) { return took(list[i].Start, list[i].Last), plainText }},
			field{name: "MODEL", value: func(i int) (string, style) { return cut(Clean(list[i].Model), 32), plainText }},
		)
	}
	if o.Width >= 120 && slices.ContainsFunc(list, func(s session.Summary) bool { return s.Cost > 0 }) {
		cols = append(cols, field{name: "COST", right: true, value: func(i int) (string, style) { return costCell(list[i].Cost, list[i].Currency), plainText }})
	}
	agent := func(i int) (string, style) { return Clean(cmp.Or(list[i].Agent, list[i].AgentID)), dim }
	last := field{name: "AGENT", flex: true, value: agent}
	if slices.ContainsFunc(list, func(s session.Summary) bool { return s.Title != "" }) {
		spare := []string{"RUNS", "TOOLS"} // that a title has room
		if o.Width >= 120 {
			spare = []string{"RUNS", "DEFECTS", "TOOK"}
		}
		cols = slices.DeleteFunc(cols, func(c field) bool { return o.Width < 180 && slices.Contains(spare, c.name) })
		if o.Width >= 120 {
			cols = append(cols, field{name: "AGENT", value: func(i int) (string, style) { v, st := agent(i); return cut(v, 24), st }})
		}
		last = field{name: "TITLE", flex: true, value: func(i int) (string, style) { return Clean(list[i].Title), plainText }}
	}
	cols = append(cols, last)

	d.table(cols, len(list), []string{"TOOLS", "TURNS", "RUNS", "OUT", "IN", last.name}) // numbers give way first, then agents and titles
	return d.err
}

// statusText is what a session is doing, and that it was put away.
func statusText(s *session.Summary) string {
	text := words(string(s.Status))
	if s.Archived {
		text += ", archived"
	}
	return text
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

// costCell is what a session cost; empty where nobody said.
func costCell(amount float64, currency string) string {
	if amount == 0 {
		return ""
	}
	return money(currency, amount)
}
