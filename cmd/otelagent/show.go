package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
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

FILE is a database, any file that 'otelagent send' reads, or - for standard
input. Events and spans are read into memory with all their content; the command
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
			case len(args) == 2 && len(a.dbs) > 0:
				return fmt.Errorf("%q and --db exclude each other", args[0])
			}
			return nil
		},
		ValidArgsFunction: a.completeSession,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), &o, args) },
	}
	c.Flags().BoolVar(&o.hidden, "hidden", false, "show history that was rewound too")
	c.Flags().StringVar(&o.prices, "prices", "", pricesHelp)
	c.Flags().StringVarP(&o.follow, "follow", "F", "",
		"print what happens until the run is over; `MODE` forever: until Ctrl-C")
	c.Flags().Lookup("follow").NoOptDefVal = followEnd
	return c
}

func (a *app) show(ctx context.Context, o *showOptions, args []string) error {
	looks := o.hidden || o.prices != ""
	var wrong wrongs
	wrong.when(a.json() && looks, "--output json is the whole tree: it excludes --hidden and --prices")
	wrong.when(o.follow != "" && o.follow != followEnd && o.follow != followForever,
		"--follow=%s: want --follow alone, or --follow=%s", o.follow, followForever)
	wrong.when(o.follow != "" && (a.json() || looks), "--follow excludes --output json, --hidden and --prices")
	err := wrong.err()
	if err != nil {
		return err
	}
	look := look(a.stdout)
	if look.Prices, err = readPrices(o.prices); err != nil {
		return err
	}
	names, ref := a.fileAndAddress(strings.Join(args, "/"))
	db, err := a.open(ctx, names...)
	if err != nil {
		return a.hint([]string{ref}, err)
	}
	defer db.close()
	key, addr, err := db.locate(ctx, ref)
	if errors.Is(err, errSeveral) && !a.json() {
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

// watchEvery is how often the revision of a session is read. A session that takes long to read is read less often.
const watchEvery = 200 * time.Millisecond

// settleFor is how long no span of a session that is over may have arrived before `show --follow` ends.
const settleFor = 500 * time.Millisecond

var errFollowFile = usagef("want a database: a file is read once")

// changes reads sessions, each again only when a span of it arrived.
type changes struct {
	db   *database
	last map[session.Key]readAt
	// changed says that a session was read since it was set to false.
	changed bool
}

type readAt struct {
	at   store.Revision
	tree session.Tree
}

func (c *changes) read(ctx context.Context, key session.Key) (session.Tree, error) {
	v, known := c.last[key]
	var links *session.Links
	if known {
		links = v.tree.Links
	}
	at, err := mapped.Revision(ctx, c.db.Store, key, links)
	if err != nil {
		delete(c.last, key)
		return session.Tree{}, err
	}
	if !known || v.at != at {
		if v.tree, err = c.db.Read(ctx, key); err != nil {
			return v.tree, err
		}
		c.changed = true
		v.at = at // as of before it was read: a span that arrives meanwhile makes it read again
		if links := v.tree.Links; links != nil {
			v.at = store.Revision(links.Revision)
		}
		c.last[key] = v
	}
	return v.tree, nil
}

// watch calls see with a session every watchEvery: the time alone changes parts of its state. It ends when see returns
// that it is done, or with ctx.
func (c *changes) watch(ctx context.Context, key session.Key,
	see func(t session.Tree, now time.Time) (done bool, err error)) error {
	for {
		began := time.Now()
		c.changed = false
		t, err := c.read(ctx, key)
		if err != nil {
			return err
		}
		if done, err := see(t, time.Now()); done || err != nil {
			return err
		}
		if err := pause(ctx, max(watchEvery, 4*time.Since(began))); err != nil {
			return err
		}
	}
}

// pause waits, unless ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// The values of --follow.
const (
	followEnd     = "end"
	followForever = "forever"
)

// follow prints what happens in a session, or in one run of it, until it is over, or until Ctrl-C.
func (a *app) follow(ctx context.Context, db *database, key session.Key, addr reader.Address, mode string) error {
	if db.recording {
		return usagef("--follow: %w", errFollowFile)
	}
	if addr.Turn != "" {
		return usagef("--follow wants a session, or one run of it")
	}
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	o := look(a.stdout)
	f := inspect.NewFollower(a.stdout, o)
	foot := newFooter(a.stdout)
	defer foot.clear()
	var before string     // the statuses that were printed
	var arrived time.Time // when the last span did
	c := &changes{db: db, last: map[session.Key]readAt{}}
	err := c.watch(ctx, key, func(t session.Tree, now time.Time) (bool, error) {
		only, _, err := addr.Pick(t.Session)
		if err != nil {
			return true, err
		}
		related, err := db.Related(ctx, t.Session, c.read)
		if err != nil {
			return true, err
		}
		if c.changed {
			arrived = now
		}
		status := t.StatusAt(now)
		over := slices.Contains(ended, status) || only != nil && only.StatusAt(now) != spans.RunStatusOpen
		// The last spans of a run may come in several batches.
		over = over && mode != followForever && (before == "" || now.Sub(arrived) >= settleFor)
		statuses := string(status)
		for _, r := range related {
			statuses += " " + string(r.StatusAt(now))
		}
		if c.changed || over || statuses != before {
			before = statuses
			foot.clear()
			if err := f.Write(t, related, only, now, over); err != nil || over {
				return true, err
			}
		}
		foot.show(f.Line(t, now, o.Width))
		return false, nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ended are the statuses of a session that waits for its next run.
var ended = []spans.SessionStatus{spans.SessionStatusIdle, spans.SessionStatusError, spans.SessionStatusAborted}
