package inspect

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Columns of List that Options.Columns may name.
const (
	ListErrors = "ERRORS"
	ListDenied = "DENIED"
	ListCost   = "COST"
)

// idRoom is the width that ids have in a narrow list. One long id must not take the room of all other columns.
const idRoom = 40

// List writes a table of sessions, one a line, in the order given, with the columns that there is room for and those
// that o.Columns names. It cuts ids to prefixes that are unique among them. An unknown value is "-"; a session without
// a summary has its id only. It takes Width, Color, Now, Location and Columns of o.
func List(w io.Writer, list []session.Summary, o Options) error {
	d := newDrawer(w, o)
	titled := slices.ContainsFunc(list, func(s session.Summary) bool { return s.Title != "" })
	var cols []column
	var cells []func(*session.Summary) string // of a column; an empty one is unknown
	add := func(c column, cell func(*session.Summary) string) { cols, cells = append(cols, c), append(cells, cell) }
	number := func(name string, n func(*session.Summary) int64) {
		add(column{name: name, right: true}, func(s *session.Summary) string { return Count(n(s)) })
	}
	tokens := func(name string, n func(*session.Usage) int64) {
		add(column{name: name, right: true}, func(s *session.Summary) string {
			if !s.UsageReported() {
				return ""
			}
			return tokenCount(s.Usage.LowerBound, n(&s.Usage))
		})
	}
	add(column{name: "LAST"}, func(s *session.Summary) string {
		if !o.Now.IsZero() || !session.TimeKnown(s.Last) {
			return dim.of(ago(s.Last, o.Now))
		}
		return dim.of(s.Last.In(cmp.Or(o.Location, time.UTC)).Format("2006-01-02 15:04"))
	})
	add(column{name: "STATUS"}, func(s *session.Summary) string {
		text := words(string(s.Status))
		if s.Archived {
			text += ", archived"
		}
		return cmp.Or(sessionStyles[s.Status], yellow).of(text)
	})
	number("RUNS", func(s *session.Summary) int64 { return s.Runs })
	number("TURNS", func(s *session.Summary) int64 { return s.Turns })
	number("TOOLS", func(s *session.Summary) int64 { return s.ToolCalls })
	tokens("IN", func(u *session.Usage) int64 { return u.Input })
	tokens("OUT", func(u *session.Usage) int64 { return u.Output })
	number(ListErrors, func(s *session.Summary) int64 { return s.Errors })
	number(ListDenied, func(s *session.Summary) int64 { return s.Denied })
	number("DEFECTS", func(s *session.Summary) int64 { return s.Defects })
	add(column{name: "TOOK", right: true}, func(s *session.Summary) string {
		if !session.TimeKnown(s.Start) {
			return ""
		}
		return took(s.Start, s.Last)
	})
	add(column{name: "MODEL", most: 32}, func(s *session.Summary) string { return Clean(s.Model) })
	if slices.ContainsFunc(list, func(s session.Summary) bool { return s.Cost > 0 }) {
		add(column{name: ListCost, right: true}, func(s *session.Summary) string {
			if s.Cost == 0 {
				return ""
			}
			return money(s.Currency, s.Cost)
		})
	}
	giveWay := []string{"TOOK", "DEFECTS", "RUNS", "TOOLS", "MODEL", ListDenied, ListErrors, ListCost,
		"TURNS", "OUT", "IN"}
	agent := column{name: "AGENT", flex: true}
	if titled {
		agent.most, agent.flex = 16, false
		giveWay = slices.Insert(giveWay, 5, "AGENT")
	}
	add(agent, func(s *session.Summary) string { return dim.of(agentOf(s)) })
	if titled {
		add(column{name: "TITLE", flex: true}, func(s *session.Summary) string { return cmp.Or(Clean(s.Title), " ") })
	}
	ids := shortIDs(list, d.width >= 120)
	var rows [][]string
	for i := range list {
		s, row := &list[i], []string{bold.of(ids[i])}
		for _, cell := range cells {
			text := ""
			if s.Status != "" || !s.Last.IsZero() {
				text = cmp.Or(cell(s), "-")
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	giveWay = slices.DeleteFunc(giveWay, func(name string) bool { return slices.Contains(o.Columns, name) })
	cols = append([]column{{name: "SESSION", most: max(idRoom, d.width/3)}}, cols...)
	d.table(cols, rows, giveWay...)
	return d.err
}

// agentOf names the agent of a session, else the program whose records it is made of.
func agentOf(s *session.Summary) string {
	agent := Clean(cmp.Or(s.Agent, s.AgentID))
	if agent != "" || s.Mapped == "" {
		return agent
	}
	name, _ := program(s.Dialect)
	return "from " + Clean(name)
}

// sessionStyles are the styles of statuses; others are yellow.
var sessionStyles = map[spans.SessionStatus]style{
	spans.SessionStatusIdle: green, spans.SessionStatusError: red, spans.SessionStatusAborted: red,
}

// shortIDs cuts ids to the shortest prefixes that differ, of at least eight characters.
func shortIDs(list []session.Summary, whole bool) []string {
	for n := 8; ; n += 4 {
		out, seen := make([]string, len(list)), map[string]bool{}
		for i, s := range list {
			id := Clean(s.ID)
			if !whole && id == s.ID {
				id = prefix(id, n)
			}
			out[i] = cmp.Or(id, `""`)
			seen[out[i]] = true
		}
		if len(seen) == len(list) || whole || n > 256 {
			return out
		}
	}
}
