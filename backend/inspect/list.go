package inspect

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Columns of List that a terminal of less than 120 columns has only where Options.Columns has them.
const (
	ListErrors = "ERRORS"
	ListDenied = "DENIED"
	ListCost   = "COST" // on any terminal only where a session has a cost
)

// idRoom is the width that ids have in a narrow list. One long id must not take the room of all other columns.
const idRoom = 40

// listColumn is a column of List. Cells of sessions without a summary are empty, those without a value "-".
type listColumn struct {
	column
	shown bool
	style style
	cell  func(s *session.Summary) string
}

// List writes a table of sessions, one a line, in the order given. It cuts ids to prefixes that are unique among
// them. An unknown value is "-"; a session without a summary has its id only. It takes Width, Color, Now, Location
// and Columns of o.
func List(w io.Writer, list []session.Summary, o Options) error {
	d := newDrawer(w, o)
	wide := d.width >= 120
	titled := slices.ContainsFunc(list, func(s session.Summary) bool { return s.Title != "" })
	cost := wide && slices.ContainsFunc(list, func(s session.Summary) bool { return s.Cost > 0 })
	spare := titled && d.width < 180 // a title takes the room of some numbers
	asked := func(name string) bool { return slices.Contains(o.Columns, name) }
	number := func(name string, shown bool, n func(s *session.Summary) int64) listColumn {
		cell := func(s *session.Summary) string { return Count(n(s)) }
		return listColumn{column{name: name, right: true}, shown, plainText, cell}
	}
	tokens := func(name string, n func(u *session.Usage) int64) listColumn {
		return listColumn{column{name: name, right: true}, true, plainText, func(s *session.Summary) string {
			if !s.UsageTold() {
				return ""
			}
			return tokenCount(s.Usage.LowerBound, n(&s.Usage))
		}}
	}
	agentRoom := 24
	if spare {
		agentRoom = 16
	}
	zone := listZone(list, o)
	all := []listColumn{
		{column{name: strings.TrimSuffix("LAST "+zone, " ")}, true, dim, func(s *session.Summary) string {
			return when(s.Last, zone, o)
		}},
		{column{name: "STATUS"}, true, plainText, func(s *session.Summary) string {
			text := words(string(s.Status))
			if s.Archived {
				text += ", archived"
			}
			return sessionStyle(s.Status).of(text)
		}},
		number("RUNS", !spare, func(s *session.Summary) int64 { return s.Runs }),
		number("TURNS", true, func(s *session.Summary) int64 { return s.Turns }),
		number("TOOLS", !spare || wide, func(s *session.Summary) int64 { return s.ToolCalls }),
		tokens("IN", func(u *session.Usage) int64 { return u.Input }),
		tokens("OUT", func(u *session.Usage) int64 { return u.Output }),
		number(ListErrors, wide || asked(ListErrors), func(s *session.Summary) int64 { return s.Errors }),
		number(ListDenied, wide || asked(ListDenied), func(s *session.Summary) int64 { return s.Denied }),
		number("DEFECTS", wide && !spare, func(s *session.Summary) int64 { return s.Defects }),
		{column{name: "TOOK", right: true}, wide && !spare, plainText, func(s *session.Summary) string {
			if !session.TimeTold(s.Start) {
				return ""
			}
			return took(s.Start, s.Last)
		}},
		{column{name: "MODEL", most: 32}, wide, plainText, func(s *session.Summary) string { return Clean(s.Model) }},
		{column{name: ListCost, right: true}, cost || asked(ListCost), plainText, func(s *session.Summary) string {
			if s.Cost == 0 {
				return ""
			}
			return money(s.Currency, s.Cost)
		}},
		{column{name: "AGENT", most: agentRoom, flex: !titled}, wide || !titled, dim, func(s *session.Summary) string {
			if agent := cmp.Or(s.Agent, s.AgentID); agent != "" || s.Mapped == "" {
				return Clean(agent)
			}
			if source := foreign.Default().Source(s.Dialect); source != nil {
				return "from " + Clean(source.Title())
			}
			return "from " + Clean(s.Dialect)
		}},
		{column{name: "TITLE", flex: true}, titled, plainText, func(s *session.Summary) string {
			return cmp.Or(Clean(s.Title), " ")
		}},
	}
	if !titled {
		all[len(all)-2].most = 0
	}
	all = slices.DeleteFunc(all, func(c listColumn) bool { return !c.shown })
	cols := []column{{name: "SESSION", most: max(idRoom, d.width/3)}}
	for _, c := range all {
		cols = append(cols, c.column)
	}
	ids := shortIDs(list, wide)
	var rows [][]string
	for i := range list {
		s, row := &list[i], []string{bold.of(ids[i])}
		for _, c := range all {
			text := ""
			if s.Status != "" || !s.Last.IsZero() {
				text = c.style.of(cmp.Or(c.cell(s), "-"))
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	// Numbers give way first, then agents and titles.
	d.table(cols, rows, "TOOLS", "TURNS", "RUNS", "OUT", "IN", cols[len(cols)-1].name)
	return d.err
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
			if !whole && id == s.ID {
				id = prefix(id, n)
			}
			other, ok := seen[id]
			clash = clash || ok && other != s.ID
			seen[id] = s.ID
			if out[i] = id; s.ID == "" {
				out[i] = strconv.Quote("")
			}
		}
		if !clash || whole || n > 256 {
			return out
		}
	}
}

// listZone returns the zone of the times of day in a table; empty when the table has ages, or several zones.
func listZone(list []session.Summary, o Options) string {
	zone := ""
	for _, s := range list {
		if !session.TimeTold(s.Last) || !o.Now.IsZero() {
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

// when returns a time in a table with that zone in its head; empty for an unknown one.
func when(t time.Time, zone string, o Options) string {
	if !o.Now.IsZero() || !session.TimeTold(t) {
		return ago(t, o.Now)
	}
	layout := "2006-01-02 15:04"
	if zone == "" {
		layout += " MST"
	}
	return t.In(cmp.Or(o.Location, time.UTC)).Format(layout)
}
