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

// Columns of List that are there from 120 columns on, and below that where Options.Columns asks for them.
const (
	ListErrors = "ERRORS"
	ListDenied = "DENIED"
	ListCost   = "COST" // also left out from 120 columns on where no session has any
)

// unsaid stands where nobody said anything, so that it is not taken for nothing.
const unsaid = "-"

// titleRoom is how wide an agent or a title may be before numbers stay for it.
const titleRoom = 12

// List writes a table of sessions, one a line, in the order given. Ids are cut to what tells them apart among those
// listed: a shown id is a valid prefix. What is not known of a session is "-", and of one that has no summary yet nothing is written but its
// id. Of the options Width, Color, Now, Location and Columns count.
func List(w io.Writer, list []session.Summary, o Options) error {
	if o.Width < 40 {
		o.Width = 80
	}
	d := &drawer{w: w, width: o.Width, color: o.Color}
	ids := shortIDs(list, o.Width >= 120)
	num := func(f func(s session.Summary) int64) func(int) (string, style) {
		return func(i int) (string, style) {
			if unsummarised(&list[i]) {
				return "", plainText
			}
			return Count(f(list[i])), plainText
		}
	}
	// told is a value that sessions may lack.
	told := func(st style, f func(s session.Summary) string) func(int) (string, style) {
		return func(i int) (string, style) {
			if unsummarised(&list[i]) {
				return "", st
			}
			return cmp.Or(f(list[i]), unsaid), st
		}
	}
	tokens := func(f func(u session.Usage) int64) func(int) (string, style) {
		return told(plainText, func(s session.Summary) string {
			if !s.UsageTold() {
				return ""
			}
			return Count(f(s.Usage))
		})
	}
	zone := listZone(func(yield func(time.Time) bool) {
		for _, s := range list {
			if session.TimeTold(s.Last) && !yield(s.Last) {
				return
			}
		}
	}, o)
	cols := []field{
		{name: "SESSION", value: func(i int) (string, style) { return ids[i], bold }},
		{name: strings.TrimSuffix("LAST "+zone, " "), value: told(dim, func(s session.Summary) string {
			if !session.TimeTold(s.Last) {
				return ""
			}
			return when(s.Last, zone, o)
		})},
		{name: "STATUS", value: func(i int) (string, style) { return statusText(&list[i]), sessionStyle(list[i].Status) }},
		{name: "RUNS", right: true, value: num(func(s session.Summary) int64 { return s.Runs })},
		{name: "TURNS", right: true, value: num(func(s session.Summary) int64 { return s.Turns })},
		{name: "TOOLS", right: true, value: num(func(s session.Summary) int64 { return s.ToolCalls })},
		{name: "IN", right: true, value: tokens(func(u session.Usage) int64 { return u.Input })},
		{name: "OUT", right: true, value: tokens(func(u session.Usage) int64 { return u.Output })},
	}
	wide := o.Width >= 120
	asked := func(name string) bool { return slices.Contains(o.Columns, name) }
	if wide || asked(ListErrors) {
		cols = append(cols, field{name: ListErrors, right: true, value: num(func(s session.Summary) int64 { return s.Errors })})
	}
	if wide || asked(ListDenied) {
		cols = append(cols, field{name: ListDenied, right: true, value: num(func(s session.Summary) int64 { return s.Denied })})
	}
	if wide {
		cols = append(cols,
			field{name: "DEFECTS", right: true, value: num(func(s session.Summary) int64 { return s.Defects })},
			field{name: "TOOK", right: true, value: told(plainText, func(s session.Summary) string {
				if !session.TimeTold(s.Start) {
					return ""
				}
				return took(s.Start, s.Last)
			})},
			field{name: "MODEL", value: told(plainText, func(s session.Summary) string { return cut(Clean(s.Model), 32) })},
		)
	}
	if asked(ListCost) || wide && slices.ContainsFunc(list, func(s session.Summary) bool { return s.Cost > 0 }) {
		cols = append(cols, field{name: ListCost, right: true, value: told(plainText, func(s session.Summary) string { return costCell(s.Cost, s.Currency) })})
	}
	agent := told(dim, func(s session.Summary) string { return Clean(cmp.Or(s.Agent, s.AgentID)) })
	last := field{name: "AGENT", flex: true, least: titleRoom, value: agent}
	if slices.ContainsFunc(list, func(s session.Summary) bool { return s.Title != "" }) {
		spare := []string{"RUNS", "TOOLS"} // that a title has room
		if wide {
			spare = []string{"RUNS", "DEFECTS", "TOOK"}
		}
		cols = slices.DeleteFunc(cols, func(c field) bool { return o.Width < 180 && slices.Contains(spare, c.name) })
		if wide {
			agentWidth := 24
			if o.Width < 180 {
				agentWidth = 16
			}
			cols = append(cols, field{name: "AGENT", value: func(i int) (string, style) { v, st := agent(i); return cut(v, agentWidth), st }})
		}
		last = field{name: "TITLE", flex: true, least: titleRoom, value: func(i int) (string, style) { return Clean(list[i].Title), plainText }}
	}
	cols = append(cols, last)

	d.table(cols, len(list), []string{"TOOLS", "TURNS", "RUNS", "OUT", "IN", last.name}) // numbers give way first, then agents and titles
	return d.err
}

// unsummarised reports whether a session has just arrived.
func unsummarised(s *session.Summary) bool { return s.Status == "" && s.Last.IsZero() }

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
