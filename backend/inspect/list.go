package inspect

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Columns of List that a terminal of less than 120 columns has only where Options.Columns has them.
const (
	ListErrors = "ERRORS"
	ListDenied = "DENIED"
	ListCost   = "COST" // on any terminal only where a session has a cost
)

// unknown is the cell of an unknown value.
const unknown = "-"

// titleRoom is the width of agents and titles for which numbers give way.
const titleRoom = 12

// idRoom is the width that ids have in a narrow list. One long id must not take the room of all other columns.
const idRoom = 40

// List writes a table of sessions, one a line, in the order given. It cuts ids to prefixes that are unique among
// them. An unknown value is "-"; a session without a summary has its id only. It takes Width, Color, Now, Location
// and Columns of o.
func List(w io.Writer, list []session.Summary, o Options) error {
	d := newDrawer(w, o)
	ids := shortIDs(list, d.width >= 120)
	type row struct {
		id string
		*session.Summary
	}
	var rows []row
	var times []time.Time
	for i := range list {
		rows = append(rows, row{ids[i], &list[i]})
		if session.TimeTold(list[i].Last) {
			times = append(times, list[i].Last)
		}
	}
	zone := listZone(times, o)
	// known makes cells of a value that sessions may lack.
	known := func(st style, f func(s *session.Summary) string) func(*row) seg {
		return func(r *row) seg {
			if unsummarised(r.Summary) {
				return seg{"", st}
			}
			return seg{cmp.Or(f(r.Summary), unknown), st}
		}
	}
	var cols []column[row]
	number := func(name string, f func(s *session.Summary) int64) {
		cell := known(plainText, func(s *session.Summary) string { return Count(f(s)) })
		cols = append(cols, column[row]{name: name, right: true, cell: cell})
	}
	text := func(name string, most int, st style, f func(s *session.Summary) string) {
		cols = append(cols, column[row]{name: name, most: most, cell: known(st, f)})
	}
	tokens := func(name string, f func(u *session.Usage) int64) {
		cols = append(cols, column[row]{name: name, right: true, cell: known(plainText, func(s *session.Summary) string {
			if !s.UsageTold() {
				return ""
			}
			return Count(f(&s.Usage))
		})})
	}
	wide := d.width >= 120
	titled := slices.ContainsFunc(list, func(s session.Summary) bool { return s.Title != "" })
	spare := titled && d.width < 180 // a title takes the room of some numbers
	cols = append(cols, column[row]{name: "SESSION", most: max(idRoom, d.width/3),
		cell: func(r *row) seg { return seg{r.id, bold} }})
	text(strings.TrimSuffix("LAST "+zone, " "), 0, dim, func(s *session.Summary) string {
		if !session.TimeTold(s.Last) {
			return ""
		}
		return when(s.Last, zone, o)
	})
	cols = append(cols, column[row]{name: "STATUS", cell: func(r *row) seg {
		return seg{statusText(r.Summary), sessionStyle(r.Status)}
	}})
	if !spare {
		number("RUNS", func(s *session.Summary) int64 { return s.Runs })
	}
	number("TURNS", func(s *session.Summary) int64 { return s.Turns })
	if !spare || wide {
		number("TOOLS", func(s *session.Summary) int64 { return s.ToolCalls })
	}
	tokens("IN", func(u *session.Usage) int64 { return u.Input })
	tokens("OUT", func(u *session.Usage) int64 { return u.Output })
	asked := func(name string) bool { return slices.Contains(o.Columns, name) }
	if wide || asked(ListErrors) {
		number(ListErrors, func(s *session.Summary) int64 { return s.Errors })
	}
	if wide || asked(ListDenied) {
		number(ListDenied, func(s *session.Summary) int64 { return s.Denied })
	}
	if wide && !spare {
		number("DEFECTS", func(s *session.Summary) int64 { return s.Defects })
		text("TOOK", 0, plainText, func(s *session.Summary) string {
			if !session.TimeTold(s.Start) {
				return ""
			}
			return took(s.Start, s.Last)
		})
		cols[len(cols)-1].right = true
	}
	if wide {
		text("MODEL", 32, plainText, func(s *session.Summary) string { return Clean(s.Model) })
	}
	if asked(ListCost) || wide && slices.ContainsFunc(list, func(s session.Summary) bool { return s.Cost > 0 }) {
		text(ListCost, 0, plainText, func(s *session.Summary) string { return costCell(s.Cost, s.Currency) })
		cols[len(cols)-1].right = true
	}
	agent := func(s *session.Summary) string { return Clean(cmp.Or(s.Agent, s.AgentID)) }
	if titled {
		if wide {
			text("AGENT", map[bool]int{true: 16, false: 24}[spare], dim, agent)
		}
		title := func(r *row) seg { return textCell(Clean(r.Title)) }
		cols = append(cols, column[row]{name: "TITLE", cell: title})
	} else {
		text("AGENT", 0, dim, agent)
	}
	last := &cols[len(cols)-1]
	last.flex, last.least = true, titleRoom
	// Numbers give way first, then agents and titles.
	table(d, cols, rows, "TOOLS", "TURNS", "RUNS", "OUT", "IN", last.name)
	return d.err
}

// unsummarised reports whether a session has no summary yet.
func unsummarised(s *session.Summary) bool { return s.Status == "" && s.Last.IsZero() }

// statusText is the status of a session, and whether it is archived.
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

// shortIDs cuts ids to the shortest prefixes that differ, of at least eight characters.
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

// costCell is the cost of a session; empty where it is unknown.
func costCell(amount float64, currency string) string {
	if amount == 0 {
		return ""
	}
	return money(currency, amount)
}
