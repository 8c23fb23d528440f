package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
)

func (a *app) lsCommand() *cobra.Command {
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
		RunE: func(cmd *cobra.Command, args []string) error {
			q, filtered, err := a.lsQuery(cmd.Flags(), args, time.Now())
			if err != nil {
				return err
			}
			return a.hint(args, a.ls(cmd.Context(), q, args, filtered))
		},
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
	f.IntP("limit", "n", 0, "list at most `N` sessions (0: all)")
	return c
}

// sinceHelp is the help of --since.
const sinceHelp = "since this `TIME`: a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d"

// archivedModes are the values of --archived, as store.Query.Filter spells them.
var archivedModes = map[string]string{"exclude": "no", "include": "1", "only": "only"}

// lsQuery makes the query of the flags; filtered says that it selects fewer than all sessions.
func (a *app) lsQuery(flags *pflag.FlagSet, args []string, now time.Time) (q store.Query, filtered bool, err error) {
	q = store.Query{Tenant: a.tenant, Archived: store.ArchivedNot, Search: strings.Join(args, "")}
	filtered = q.Search != ""
	flags.Visit(func(f *pflag.Flag) {
		name, value := strings.ReplaceAll(f.Name, "-", "_"), f.Value.String()
		switch {
		case err != nil || !slices.Contains(store.Filters(), name) || f.Name == "limit" && value == "0":
			return
		case f.Name == "archived" && archivedModes[value] == "":
			err = usagef("--archived %s: want exclude, include or only", value)
			return
		case f.Name == "archived":
			value = archivedModes[value]
		}
		filtered = filtered || f.Name != "limit" && value != archivedModes["include"]
		if e := q.Filter(name, value, now); e != nil {
			err = usagef("--%s %v", f.Name, e)
		}
	})
	return q, filtered, err
}

func (a *app) ls(ctx context.Context, q store.Query, args []string, filtered bool) error {
	db, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	res, err := db.List(ctx, &q, time.Now())
	if err != nil {
		return err
	}
	hidden, err := archivedOf(ctx, db, q)
	if err != nil {
		return err
	}
	switch {
	case a.json():
		err = writeJSON(a.stdout, res)
	case len(res.Sessions) > 0:
		look := look(a.stdout)
		for column, on := range map[string]bool{inspect.ListErrors: q.Errors, inspect.ListDenied: q.Denied,
			inspect.ListCost: q.MinCost > 0} {
			if on {
				look.Columns = append(look.Columns, column)
			}
		}
		err = inspect.List(a.stdout, res.Sessions, look)
	case hidden == 0 && filtered:
		a.say("%v", a.hint(args, fmt.Errorf("no sessions like that in %s", db.at.name)))
	case hidden == 0:
		err = a.sayNone(ctx, db)
	}
	if hidden > 0 && err == nil {
		n := count(hidden, "archived session")
		if hidden > mostCounted {
			n = "more than " + count(mostCounted, "archived session")
		}
		a.say("not shown: %s; --archived include lists them too", n)
	}
	return err
}

// mostCounted bounds how many archived sessions are counted.
const mostCounted = 1000

// archivedOf counts the sessions that a query omits because they are archived.
func archivedOf(ctx context.Context, db *database, q store.Query) (n int, err error) {
	if q.Archived != store.ArchivedNot || q.After != nil {
		return 0, nil
	}
	q.Archived, q.Limit = store.ArchivedOnly, mostCounted+1
	list, err := db.summaries(ctx, q)
	return len(list), err
}

// sayNone logs that there is no session, and the tenants that have some.
func (a *app) sayNone(ctx context.Context, db *database) error {
	const most = 8
	var others []string
	for t, err := range db.Store.Tenants(ctx) {
		if err != nil {
			return err
		}
		if len(others) == most {
			others = append(others, "...")
			break
		}
		others = append(others, fmt.Sprintf("%q", t))
	}
	if len(others) == 0 {
		a.say("no sessions in %s yet", db.at.name)
		return nil
	}
	whose := ""
	if db.Tenant != "" {
		whose = fmt.Sprintf(" of %q", db.Tenant)
	}
	a.say("no sessions%s in %s; there are some of --tenant %s", whose, db.at.name, strings.Join(others, ", "))
	return nil
}
