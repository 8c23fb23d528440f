package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
)

// lsOptions are the flags of ls. Filters are kept as they were written, for store.Query.Filter.
type lsOptions struct {
	db      dbFlags
	asJSON  bool
	limit   int
	filters map[string]*string
	errors  bool
	denied  bool
}

func (a *app) lsCommand() *cobra.Command {
	o := lsOptions{filters: map[string]*string{}}
	c := &cobra.Command{
		Use:   "ls [TEXT]",
		Short: "List sessions, the newest first",
		Long: `List sessions, the newest first: all that are not archived, or those that match
TEXT and every flag.

TEXT is looked for in title, id, agent and model; upper and lower case are the
same. What was said is searched by 'otelagent grep'. --status is as of now:
sessions whose process is gone are aborted (docs/live.md). --agent and --model
take whole names, as they are written; --parent and --forked-from take a
SESSION as 'otelagent show' does.

Exit codes: 0 listed, also where none matches, 1 not found or not read, 2 wrong
usage.`,
		Example: `  otelagent ls
  otelagent ls --status busy,waiting_on_approval
  otelagent ls parser --since 7d --errors --min-cost 0.50
  otelagent ls --forked-from 0b5c
  otelagent ls --db ./sessions.db --json | jq -r '.sessions[].id'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s wants at most one TEXT: %q is the second; put quotes around what has spaces", cmd.Name(),
					args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if *o.filters["q"] != "" {
					return usagef("--search and TEXT exclude each other")
				}
				o.filters["q"] = &args[0]
			}
			q, err := o.query(time.Now())
			if err != nil {
				return err
			}
			return o.db.orFile(args, a.ls(cmd.Context(), &o, q))
		},
	}
	o.db.add(c)
	text := func(flag, name, help string) {
		o.filters[name] = c.Flags().String(flag, "", help)
	}
	text("search", "q", "the same as `TEXT`")
	text("agent", "agent", "of this `agent`, by its whole name or id")
	text("model", "model", "that this `model` answered last, by its whole name")
	text("status", "status", "that are one of these now: `words` as of 'otelagent status', with commas between them")
	c.Flags().BoolVar(&o.errors, "errors", false, "with failed turns or tool calls")
	c.Flags().BoolVar(&o.denied, "denied", false, "with denied tool calls or inputs")
	text("min-cost", "min_cost", "that cost this `much` or more, as their loops reported")
	text("since", "since", "in which something happened since this `time`: a date, a time, or how long ago: 24h, 7d")
	text("until", "until", "that began before this `time`")
	text("parent", "parent", "sub-agents of this `session`: an id, the beginning of one, 'last'")
	text("forked-from", "forked_from", "forks of this `session`, named likewise")
	text("archived", "archived", "list archived ones too; =only lists no others")
	c.Flags().Lookup("archived").NoOptDefVal = "1"
	text("after", "after", "go on behind the `place` that --json names as next")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON (docs/formats.md)")
	c.Flags().IntVarP(&o.limit, "limit", "n", 0, "list at most `n` sessions (0: all)")
	return c
}

// query reads the flags.
func (o *lsOptions) query(now time.Time) (store.Query, error) {
	if o.limit < 0 {
		return store.Query{}, usagef("--limit %d: want a number from 0", o.limit)
	}
	q := store.Query{Tenant: o.db.tenant, Limit: o.limit, Archived: store.ArchivedNot, Errors: o.errors, Denied: o.denied}
	for _, name := range store.Filters() {
		value := o.filters[name]
		if value == nil { // a flag of another kind
			continue
		}
		if err := q.Filter(name, *value, now); err != nil {
			flag := strings.ReplaceAll(name, "_", "-")
			if name == "q" {
				flag = "search"
			}
			return q, usagef("--%s %v", flag, err)
		}
	}
	return q, nil
}

func (a *app) ls(ctx context.Context, o *lsOptions, q store.Query) error {
	db, err := o.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	res, err := db.reader().List(ctx, &q, time.Now())
	if err != nil {
		return err
	}
	hidden, err := archivedOf(ctx, db, q)
	if err != nil {
		return err
	}
	switch {
	case o.asJSON:
		err = writeJSON(a.stdout, res)
	case len(res.Sessions) > 0:
		look := look(a.stdout)
		look.Columns = columnsFor(q)
		err = inspect.List(a.stdout, res.Sessions, look)
	case hidden == 0 && filtered(q):
		a.say("%v", o.db.orFile([]string{q.Search}, fmt.Errorf("no sessions like that in %s", db.at.name)))
	case hidden == 0:
		err = a.sayNone(ctx, db)
	}
	if hidden > 0 && err == nil {
		n := fmt.Sprint(hidden)
		if hidden > mostCounted {
			n = fmt.Sprintf("more than %d", mostCounted)
		}
		what := "archived sessions are"
		if hidden == 1 {
			what = "archived session is"
		}
		a.say("%s %s not shown; --archived lists them too", n, what)
	}
	return err
}

// columnsFor are the columns that show what a list was filtered by.
func columnsFor(q store.Query) []string {
	var columns []string
	if q.Errors {
		columns = append(columns, inspect.ListErrors)
	}
	if q.Denied {
		columns = append(columns, inspect.ListDenied)
	}
	if q.MinCost > 0 {
		columns = append(columns, inspect.ListCost)
	}
	return columns
}

// mostCounted bounds how many archived sessions are counted.
const mostCounted = 1000

// archivedOf counts the sessions that a query omits because they are archived.
func archivedOf(ctx context.Context, db *database, q store.Query) (n int, err error) {
	if q.Archived != store.ArchivedNot || q.After != nil {
		return 0, nil
	}
	q.Archived, q.Limit = store.ArchivedOnly, mostCounted+1
	for _, err := range db.store.Sessions(ctx, q) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// filtered reports whether a query asks for less than all of a tenant.
func filtered(q store.Query) bool {
	return q.Search+q.Agent+q.Model+q.Parent+q.ForkedFrom != "" || len(q.Status) > 0 || q.Errors || q.Denied ||
		q.MinCost > 0 ||
		!q.Since.IsZero() || !q.Until.IsZero() || q.Archived == store.ArchivedOnly || q.After != nil
}

// sayNone says that there is nothing to list, and of whom there is something.
func (a *app) sayNone(ctx context.Context, db *database) error {
	const most = 8
	var others []string
	for t, err := range db.store.Tenants(ctx) {
		if err != nil {
			return err
		}
		if len(others) == most {
			others = append(others, "...")
			break
		}
		others = append(others, fmt.Sprintf("%q", t))
	}
	whose := ""
	if db.tenant != "" {
		whose = fmt.Sprintf(" of %q", db.tenant)
	}
	if len(others) == 0 {
		a.say("no sessions in %s yet", db.at.name)
		return nil
	}
	a.say("no sessions%s in %s; there are some of --tenant %s", whose, db.at.name, strings.Join(others, ", "))
	return nil
}
