package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// showOptions are the flags of show.
type showOptions struct {
	db                       dbFlags
	prices                   string
	asJSON, hidden, timeline bool
	follow                   string // empty, or one of follow…
}

func (a *app) showCommand() *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:   "show SESSION[/RUN[/TURN]] | show FILE [SESSION[/RUN[/TURN]]]",
		Short: "Show a session as a tree",
		Long: `Show a session as a tree: its runs, turns, tool calls, compactions, permissions
and sub-agents, with times and tokens, and what was said if it was captured.

SESSION is an id, the beginning of one, 'last', or a trace or span id.
RUN is an id or @n, the n-th run; TURN is its index. What is said is cut to the
width of the screen, but shown whole for a TURN, with all its numbers, the
tools it was offered, and the permission rules in force. From 140 columns on
bars show when in its run a turn was; --timeline shows little else. What was
rewound is left out, and said to be, unless --hidden asks for it.

FILE is anything that 'otelagent send' reads, spans as OTLP JSON, a database, or
- for standard input: it is read in memory with all its content, nothing is sent
and nothing written. It is a FILE when there is one of that name, unless --db is
given or a session in the database of this machine has that id. Where it holds
several sessions these are listed, unless one is named. A session that has no id
gets one, the same each time that file is read. Lines that cannot be read are
told, and the rest is shown.

Exit codes: 0 shown or listed, 1 not found or not read, 2 wrong usage.

With --follow it is shown as it goes on, like a log: a line for each thing when
it is over, and on a terminal a last line with what is going on. It ends with
the session's run; --follow=forever waits for the next one. Ctrl-C ends it too.`,
		Example: `  otelagent show last
  otelagent show events.ndjson
  otelagent show 0b5c/@1/3
  otelagent show events.ndjson 0b5c/@1/3
  otelagent show last --json | jq .usage
  otelagent show last --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(o.db.files) > 0:
			case len(args) == 0 || len(args) > 2:
				return fmt.Errorf("show wants one SESSION: an id, the beginning of one, or 'last', or a FILE; %d given", len(args))
			case len(args) == 2 && !isFile(args[0]):
				return fmt.Errorf("show wants one SESSION, and only behind a FILE another word; there is no file %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), &o, args) },
	}
	o.db.add(c)
	c.Flags().BoolVar(&o.timeline, "timeline", false, "one line a turn, with a bar of when it was and what took the time")
	c.Flags().BoolVar(&o.hidden, "hidden", false, "show history that was rewound too")
	c.Flags().StringVar(&o.prices, "prices", "", "compute cost from this `file`, a catalogue of prices as LiteLLM has it")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON (docs/formats.md)")
	c.Flags().StringVarP(&o.follow, "follow", "f", "", "show it as it goes on, until it is over, or `forever`")
	c.Flags().Lookup("follow").NoOptDefVal = followEnd
	return c
}

func (a *app) show(ctx context.Context, o *showOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	look := look(a.stdout)
	if o.prices != "" {
		var err error
		if look.Prices, err = readPrices(o.prices); err != nil {
			return err
		}
	}
	db, ref, err := o.db.openArguments(ctx, a, args)
	if err != nil {
		return o.db.noFile(args, err)
	}
	defer db.close()
	if ref == "" {
		only, err := db.only(ctx)
		if err != nil {
			return err
		}
		if only == nil {
			return a.listSeveral(ctx, db, o.asJSON)
		}
		ref = only.ID
	}
	key, addr, err := db.locate(ctx, ref)
	if err != nil {
		return o.db.noFile(args, err)
	}
	if o.follow != "" {
		return a.follow(ctx, db, key, addr, o.follow)
	}
	t, err := db.load(ctx, key)
	if err != nil {
		return err
	}
	run, turn, err := addr.pick(t.Session)
	if err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(a.stdout, reader.Narrow(t.Session, run, turn, look.AsOf))
	}
	look.Run, look.Turn, look.Hidden, look.Timeline, look.Show = run, turn, o.hidden, o.timeline, db.show.of
	if look.Related, err = db.related(ctx, t); err != nil {
		return err
	}
	for s, err := range db.store.Sessions(ctx, store.Query{Tenant: db.tenant, ForkedFrom: t.ID, Limit: mostListed}) {
		if err != nil {
			return err
		}
		look.Forks = append(look.Forks, s)
	}
	w := bufio.NewWriter(a.stdout)
	return firstError(inspect.Text(w, t, look), w.Flush())
}

// check names everything that is wrong with the flags.
func (o *showOptions) check() error {
	looks := o.hidden || o.timeline || o.prices != ""
	switch {
	case o.asJSON && looks:
		return usagef("--json is the whole tree: --hidden, --timeline and --prices are about its looks")
	case o.follow == "":
	case o.follow != followEnd && o.follow != followForever:
		return usagef("--follow=%s: want --follow alone, or --follow=%s", o.follow, followForever)
	case o.asJSON:
		return usagef("--follow and --json exclude each other: 'otelagent status --json' tells what is going on, and " +
			"'otelagent serve' has an API")
	case looks:
		return usagef("--follow excludes --hidden, --timeline and --prices")
	case len(o.db.files) > 0:
		return errFollowFile
	}
	return nil
}

// openArguments opens what the arguments of a verb name: SESSION, FILE, or FILE SESSION, or nothing where --file names
// it. ref is empty when no session was named.
func (f *dbFlags) openArguments(ctx context.Context, a *app, args []string) (db *database, ref string, err error) {
	if len(args) == 0 {
		db, err = f.open(ctx, a)
		return db, "", err
	}
	if len(args) == 1 {
		return f.openArgument(ctx, a, args[0])
	}
	if f.db != "" || len(f.files) > 0 {
		return nil, "", usagef("%q and --db or --file exclude each other", args[0])
	}
	db, err = openRecording(ctx, a, args[:1], f.source(), f.tenant)
	return db, args[1], err
}

// only returns the one session of a database, sub-agents' left out that another one of it spawned; nil when there are
// several.
func (db *database) only(ctx context.Context) (*session.Summary, error) {
	if err := db.refresh(ctx); err != nil {
		return nil, err
	}
	var tops []session.Summary
	for s, err := range db.store.Sessions(ctx, store.Query{Tenant: db.tenant}) {
		if err != nil {
			return nil, err
		}
		if s.Parent != "" && s.Parent != s.ID {
			if _, err := db.store.Revision(ctx, session.Key{Tenant: db.tenant, ID: s.Parent}); err == nil {
				continue
			}
		}
		if tops = append(tops, s); len(tops) > 1 {
			return nil, nil
		}
	}
	if len(tops) == 0 {
		return nil, fmt.Errorf("there is no session in %s", db.at.name)
	}
	return &tops[0], nil
}

// mostListed bounds how many sessions are listed where one was to be named.
const mostListed = 50

// listSeveral lists the sessions of a database of which none was named.
func (a *app) listSeveral(ctx context.Context, db *database, asJSON bool) error {
	var list []session.Summary
	for s, err := range db.store.Sessions(ctx, store.Query{Tenant: db.tenant, Limit: mostListed + 1}) {
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	more := ""
	if len(list) > mostListed {
		list, more = list[:mostListed], ", of which these are the newest"
	}
	which := fmt.Sprintf("%s holds several sessions%s; name one behind it, such as %s", db.at.name, more, list[0].ID)
	if asJSON {
		return usagef("%s", which)
	}
	if err := inspect.List(a.stdout, list, look(a.stdout)); err != nil {
		return err
	}
	a.say("%s", which)
	return nil
}
