package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func (a *app) lsCommand() *cobra.Command {
	var q store.Query
	filtered := false
	c := &cobra.Command{
		Use:   "ls [TEXT]",
		Short: "List sessions, the newest first",
		Long: `List sessions, the newest first: all that are not archived, or those that match
TEXT and every flag.

TEXT is looked for in title, id, agent and model; upper and lower case are the
same. 'otelagent grep' searches messages. --status is as of now: sessions whose
process is gone are aborted (docs/live.md). --agent and --model take whole
names; --parent and --forked-from take a SESSION as 'otelagent show' does.

Exit codes: 0 listed, also where none matches, 1 not found or not read, 2 wrong
usage.`,
		Example: `  otelagent ls
  otelagent ls --status busy,waiting_on_approval
  otelagent ls parser --since 7d --errors --min-cost 0.50
  otelagent ls --forked-from 0b5c
  otelagent ls --db ./sessions.db --output json | jq -r '.sessions[].id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("ls wants at most one TEXT: %q is the second; put quotes around what has spaces", args[1])
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, args []string) (err error) {
			q, filtered, err = a.lsQuery(cmd.Flags(), args)
			return err
		},
		RunE: a.reads(func(ctx context.Context, db *database, args []string) error {
			return a.ls(ctx, db, q, args, filtered)
		}),
	}
	f := c.Flags()
	f.String("agent", "", "of this `AGENT`, by its whole name or id")
	f.String("model", "", "that this `MODEL` answered last, by its whole name")
	f.String("status", "", "that have one of these `STATUSES` now, as 'otelagent status' prints them, with commas")
	f.Bool("errors", false, "with failed turns or tool calls")
	f.Bool("denied", false, "with denied tool calls or inputs")
	f.String("min-cost", "", "that cost this `AMOUNT` or more, as their loops reported")
	f.String("since", "", sinceHelp)
	f.String("until", "", "that began before this `TIME`")
	f.String("parent", "", "sub-agents of this `SESSION`")
	f.String("forked-from", "", "forks of this `SESSION`")
	f.String("archived", "exclude", "`MODE` for archived ones: exclude, include, or only")
	f.String("after", "", "go on after the `CURSOR` that --output json names as next")
	f.UintP("limit", "n", 0, "list at most `N` sessions (0: all)")
	return c
}

// sinceHelp is the help of --since.
const sinceHelp = "since this `TIME`: a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d"

// lsQuery makes the query of the flags; filtered says that it selects fewer than all sessions.
func (a *app) lsQuery(flags *pflag.FlagSet, args []string) (q store.Query, filtered bool, err error) {
	q = store.Query{Tenant: a.tenant, Archived: store.ArchivedNot, Search: strings.Join(args, "")}
	filtered = q.Search != ""
	var wrong wrongs
	flags.Visit(func(f *pflag.Flag) {
		name, value := strings.ReplaceAll(f.Name, "-", "_"), f.Value.String()
		if !slices.Contains(store.Filters(), name) || f.Name == "limit" && value == "0" {
			return
		}
		filtered = filtered || f.Name != "limit" && value != "include"
		err := q.Filter(name, value, time.Now())
		wrong.when(err != nil, "--%s %v", f.Name, err)
	})
	return q, filtered, wrong.err()
}

func (a *app) ls(ctx context.Context, db *database, q store.Query, args []string, filtered bool) error {
	res, err := db.List(ctx, &q, time.Now())
	if err != nil {
		return err
	}
	var hidden []session.Summary
	if archived := q; q.Archived == store.ArchivedNot && q.After == nil {
		archived.Archived, archived.Limit = store.ArchivedOnly, mostCounted+1
		if hidden, err = db.summaries(ctx, archived); err != nil {
			return err
		}
	}
	switch {
	case a.json() || len(res.Sessions) > 0:
		err = a.emit(res, func(w io.Writer, look inspect.Options) error {
			for column, on := range map[string]bool{inspect.ListErrors: q.Errors, inspect.ListDenied: q.Denied,
				inspect.ListCost: q.MinCost > 0} {
				if on {
					look.Columns = append(look.Columns, column)
				}
			}
			return inspect.List(w, res.Sessions, look)
		})
	case len(hidden) > 0:
	case filtered:
		a.say("%v", a.hint(args, fmt.Errorf("no sessions like that in %s", db.at.name)))
	default:
		err = a.sayNone(ctx, db)
	}
	if n := len(hidden); n > 0 && err == nil {
		more := ""
		if n > mostCounted {
			n, more = mostCounted, "more than "
		}
		a.say("not shown: %s%s; --archived include lists them too", more, count(n, "archived session"))
	}
	return err
}

// mostCounted bounds how many archived sessions are counted.
const mostCounted = 1000

// sayNone logs that there is no session, and the tenants that have some.
func (a *app) sayNone(ctx context.Context, db *database) error {
	const most = 8
	var others []string
	for t, err := range db.Store.Tenants(ctx) {
		if err != nil {
			return err
		}
		if others = append(others, strconv.Quote(t)); len(others) > most {
			others[most] = "..."
			break
		}
	}
	switch {
	case len(others) == 0:
		a.say("no sessions in %s yet", db.at.name)
	case db.Tenant == "":
		a.say("no sessions in %s; there are some of --tenant %s", db.at.name, strings.Join(others, ", "))
	default:
		a.say("no sessions of %q in %s; there are some of --tenant %s", db.Tenant, db.at.name, strings.Join(others, ", "))
	}
	return nil
}
