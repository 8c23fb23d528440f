package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// showOptions are the flags of show.
type showOptions struct {
	prices string
	hidden bool
	follow string // empty, or one of follow…
}

func (a *app) showCommand() *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:   "show SESSION[/RUN[/TURN]] | show FILE [SESSION[/RUN[/TURN]]]",
		Short: "Show a session as a tree",
		Long: `Show a session as a tree: its runs, turns, tool calls, compactions, permissions
and sub-agents, with times and tokens, and the messages if they were captured.

SESSION is an id, the beginning of one, 'last', or a trace or span id.
RUN is an id or @n, the n-th run; TURN is its index. Messages are cut to the
width of the screen, and are whole for a TURN, with all its numbers, the tools
it was offered, and the permission rules in force.

FILE is anything that 'otelagent send' reads, spans as OTLP JSON, a database, or
- for standard input. It is read into memory with all its content; the command
sends and writes nothing. An argument is a FILE when there is one of that name,
unless --db is given. A session without an id gets one, the same each time.

With --follow the command prints a line for each item when it is over, and on a
terminal a last line with the open ones. It ends with the session's run;
--follow=forever waits for the next one. Ctrl-C ends it too.

Exit codes: 0 shown or listed, 1 not found or not read, 2 wrong usage.`,
		Example: `  otelagent show last
  otelagent show events.ndjson
  otelagent show 0b5c/@1/3
  otelagent show events.ndjson 0b5c/@1/3
  otelagent show last --output json | jq .usage
  otelagent show last --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(a.dbs) > 0:
			case len(args) == 0 || len(args) > 2:
				return fmt.Errorf("show wants one SESSION: an id, the beginning of one, or 'last', or a FILE; %d given", len(args))
			case len(args) == 2 && !isFile(args[0]):
				return fmt.Errorf("show wants one SESSION, or a FILE and a SESSION; there is no file %q", args[0])
			}
			return nil
		},
		ValidArgsFunction: a.completeSession,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), &o, args) },
	}
	c.Flags().BoolVar(&o.hidden, "hidden", false, "show history that was rewound too")
	c.Flags().StringVar(&o.prices, "prices", "", pricesHelp)
	c.Flags().StringVarP(&o.follow, "follow", "F", "", "print what happens until the run is over, or `forever`")
	c.Flags().Lookup("follow").NoOptDefVal = followEnd
	return c
}

func (a *app) show(ctx context.Context, o *showOptions, args []string) error {
	looks := o.hidden || o.prices != ""
	switch {
	case a.json() && looks:
		return usagef("--output json is the whole tree: it excludes --hidden and --prices")
	case o.follow != "" && o.follow != followEnd && o.follow != followForever:
		return usagef("--follow=%s: want --follow alone, or --follow=%s", o.follow, followForever)
	case o.follow != "" && (a.json() || looks):
		return usagef("--follow excludes --output json, --hidden and --prices")
	}
	look := look(a.stdout)
	var err error
	if look.Prices, err = readPrices(o.prices); err != nil {
		return err
	}
	db, ref, err := a.openArguments(ctx, args)
	if err != nil {
		return a.hint([]string{ref}, err)
	}
	defer db.close()
	if ref == "" {
		if ref, err = db.only(ctx); errors.Is(err, errSeveral) && !a.json() {
			list, failed := db.summaries(ctx, store.Query{Tenant: db.Tenant, Limit: mostListed})
			if failed != nil {
				return failed
			}
			a.say("%v", err)
			return inspect.List(a.stdout, list, look)
		}
		if err != nil {
			return err
		}
	}
	key, addr, err := db.Locate(ctx, ref)
	if err != nil {
		return a.hint([]string{ref}, err)
	}
	if o.follow != "" {
		return a.follow(ctx, db, key, addr, o.follow)
	}
	t, err := db.Load(ctx, key)
	if err != nil {
		return err
	}
	run, turn, err := addr.Pick(t.Session)
	if err != nil {
		return err
	}
	if a.json() {
		return a.emit(reader.Narrow(t.Session, run, turn, look.AsOf), nil)
	}
	look.Run, look.Turn, look.Hidden = run, turn, o.hidden
	if look.Related, err = db.Related(ctx, t.Session, db.Load); err != nil {
		return err
	}
	look.Forks, err = db.summaries(ctx, store.Query{Tenant: db.Tenant, ForkedFrom: t.ID, Limit: mostListed})
	if err != nil {
		return err
	}
	return a.emit(nil, func(w io.Writer, _ inspect.Options) error { return inspect.Text(w, t, look) })
}

// mostListed bounds how many sessions are listed where the user named none.
const mostListed = 50
