package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/retention"
)

// eraseFlags are those of rm and prune.
type eraseFlags struct{ only, yes, dry, vacuum bool }

func (f *eraseFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.only, "only", false, "keep the sub-agents of erased sessions")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "list the sessions, and erase nothing")
	c.Flags().BoolVar(&f.vacuum, "vacuum", false, "then write the SQLite file anew, so that no byte is left")
}

// check wants an answer to "erase?" from --yes, from --dry-run or from a terminal.
func (f *eraseFlags) check(wrong *wrongs, stdin io.Reader) {
	wrong.when(!f.yes && !f.dry && !isTerminal(stdin),
		"nobody can be asked here: give --yes to erase, or --dry-run to see what would go")
}

func (a *app) rmCommand() *cobra.Command {
	var f eraseFlags
	c := &cobra.Command{
		Use:   "rm SESSION... | --vacuum",
		Short: "Erase sessions",
		Long: `Erase sessions: every row and text of them, their summaries and rows in
the tables of the agent guide. No query finds them any more, and their pages and
the log are overwritten. SQLite may leave copies of single rows in the unused
space inside pages: --vacuum writes the file anew, and then no byte of them is
left. Nobody else can write meanwhile. Sub-agents go with the session that
spawned them, unless --only. 'otelagent prune' erases by age and number.

SESSION is an id, the beginning of one, or a trace or span id. It may be 'last'
where somebody is asked: what is last changes as sessions come.

On a terminal the command lists the sessions and asks. Elsewhere it erases
nothing without --yes. It works while 'otelagent up' writes to the same
database; what an agent sends afterwards is kept again, under the same id.
Exports and copies stay.

Exit codes: 0 erased, or nothing to erase, 1 not found, not erased or not wanted
after all, 2 wrong usage. When one SESSION is not found none is erased.`,
		Example: `  otelagent rm 0b5c
  otelagent rm 0b5c --yes --only
  otelagent rm --vacuum`,
		Args:              cobra.ArbitraryArgs,
		Annotations:       refuses("output"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			var wrong wrongs
			wrong.when(len(args) == 0 && !f.vacuum,
				"nothing to erase: name a SESSION, or 'otelagent prune' erases by age and number")
			if len(args) > 0 {
				f.check(&wrong, a.stdin)
			}
			if err := wrong.err(); err != nil {
				return err
			}
			return a.rm(cmd.Context(), &f, func(ctx context.Context, db *database) ([]store.Deletion, error) {
				keys, err := db.WithSubAgents(ctx, args, f.only)
				if err != nil {
					return nil, fmt.Errorf("%w\nNothing was erased", err)
				}
				last := session.Key{Tenant: a.tenant, ID: store.Last} // a session may be called so
				if f.yes && slices.Contains(args, store.Last) && !slices.Contains(keys, last) {
					return nil, usagef("'%s' is not erased without asking: what is last changes as sessions come", store.Last)
				}
				list := make([]store.Deletion, len(keys))
				for i, key := range keys {
					list[i].Key = key
				}
				return list, nil
			})
		},
	}
	f.add(c)
	return c
}

func (a *app) pruneCommand() *cobra.Command {
	var f eraseFlags
	var older string
	var keep int64
	var all bool
	c := &cobra.Command{
		Use:   "prune --older-than AGE | --keep N",
		Short: "Erase old sessions",
		Long: `Erase the sessions of one owner (--tenant), or of all (--all-tenants), that are
older than an age, or all but the newest, as 'otelagent up --max-age' and
'--max-sessions' do: parents and sub-agents together, by the last event of any
of them. 'otelagent rm --help' describes how sessions are erased.

Exit codes: 0 erased, or nothing to erase, 1 not erased or not wanted after all,
2 wrong usage.`,
		Example: `  otelagent prune --older-than 30d --dry-run
  otelagent prune --keep 1000 --all-tenants --yes`,
		Args:        noArgs,
		Annotations: refuses("output"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wrong wrongs
			policy := retention.Policy{MaxSessions: keep, Families: !f.only, Tenants: []string{a.tenant}}
			wrong.when(older == "" && !cmd.Flags().Changed("keep"), "nothing to erase: give --older-than or --keep")
			if older != "" {
				var err error
				if policy.MaxAge, err = store.ParseAge(older); err != nil || policy.MaxAge == 0 {
					wrong.addf("--older-than %s: want a time above 0: 30d, 720h", older)
				}
			}
			wrong.when(cmd.Flags().Changed("keep") && keep < 1, "--keep %d: want a number from 1", keep)
			if all {
				policy.Tenants = nil
				wrong.when(cmd.Flags().Changed("tenant"), "--all-tenants and --tenant exclude each other")
			}
			f.check(&wrong, a.stdin)
			if err := wrong.err(); err != nil {
				return err
			}
			return a.rm(cmd.Context(), &f, func(ctx context.Context, db *database) ([]store.Deletion, error) {
				if err := db.refresh(ctx); err != nil {
					return nil, err
				}
				return retention.Choose(ctx, db.Store, time.Now(), policy, f.dry)
			})
		},
	}
	c.Flags().StringVar(&older, "older-than", "", "erase sessions without an event for this `AGE`: 30d, 720h")
	c.Flags().Int64Var(&keep, "keep", 0, "erase all sessions but the newest `N`")
	c.Flags().BoolVar(&all, "all-tenants", false, "sessions of all owners")
	f.add(c)
	return c
}

// rm erases the sessions that choose returns, after it asked.
func (a *app) rm(ctx context.Context, f *eraseFlags,
	choose func(context.Context, *database) ([]store.Deletion, error)) error {
	name, err := a.oneDatabase()
	if err != nil {
		return err
	}
	at, err := chooseDatabase(name)
	if err != nil {
		return err
	}
	db, err := a.openDatabase(ctx, at, f.dry)
	if err != nil {
		return err
	}
	defer db.close()
	list, err := choose(ctx, db)
	n := count(len(list), "session")
	switch {
	case err != nil:
		return err
	case len(list) == 0 && (f.dry || !f.vacuum):
		a.say("nothing to erase in %s", db.at.name)
		return nil
	case f.dry:
		a.say("%s would go from %s", n, db.at.name)
		return db.list(ctx, a.stdout, list)
	case len(list) > 0 && !f.yes:
		const most = 20
		a.say("%s will be erased from %s, for ever", n, db.at.name)
		if err := db.list(ctx, a.stderr, list[:min(most, len(list))]); err != nil {
			return err
		}
		if more := len(list) - most; more > 0 {
			fmt.Fprintf(a.stderr, "and %s\n", count(more, "more session"))
		}
		if !a.ask("Erase? [y/N] ", "") {
			return errors.New("nothing was erased")
		}
	}
	if len(list) > 0 {
		if err := a.erase(ctx, db, list); err != nil {
			return err
		}
	}
	if !f.vacuum {
		return nil
	}
	v, ok := db.Store.(interface{ Vacuum(context.Context) error })
	if !ok {
		return fmt.Errorf("--vacuum is for SQLite files: %s rewrites what it erases by itself", db.at.name)
	}
	return v.Vacuum(ctx)
}

// list writes a table of the sessions of each owner.
func (db *database) list(ctx context.Context, w io.Writer, list []store.Deletion) error {
	rows := map[string][]session.Summary{}
	for _, d := range list {
		row := session.Summary{Key: d.Key} // of one that was erased meanwhile
		found, err := db.summaries(ctx, store.Query{Tenant: d.Key.Tenant, Prefix: d.Key.ID})
		if err != nil {
			return err
		}
		for _, s := range found {
			if s.Key == d.Key {
				row = s
			}
		}
		rows[d.Key.Tenant] = append(rows[d.Key.Tenant], row)
	}
	for _, owner := range slices.Sorted(maps.Keys(rows)) {
		if owner != "" {
			fmt.Fprintf(w, "of %s:\n", inspect.Clean(owner))
		}
		if err := inspect.List(w, rows[owner], look(w)); err != nil {
			return err
		}
	}
	return nil
}

// eraseBatch is how many sessions are deleted together: a store may read all of its file each time.
const eraseBatch = 256

// erase deletes sessions, and reports each. Ctrl-C stops it between batches.
func (a *app) erase(ctx context.Context, db *database, list []store.Deletion) error {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	gone := 0
	for batch := range slices.Chunk(list, eraseBatch) {
		deleted, err := db.Store.Delete(ctx, batch...)
		if err != nil {
			return fmt.Errorf("%w\n%s of %d were erased from %s; run it again for the rest", interrupted(err, ""),
				count(gone, "session"), len(list), db.at.name)
		}
		gone += len(deleted)
		for _, key := range deleted {
			owner := ""
			if key.Tenant != "" {
				owner = " of " + inspect.Clean(key.Tenant)
			}
			fmt.Fprintf(a.stdout, "erased %s%s\n", inspect.Clean(key.ID), owner)
		}
	}
	if stayed := len(list) - gone; stayed > 0 {
		a.say("%s stayed: written to, or erased, meanwhile", count(stayed, "session"))
	}
	a.say("erased %s from %s", count(gone, "session"), db.at.name)
	return nil
}
