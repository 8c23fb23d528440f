package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/retention"
)

// rmOptions say what to erase.
type rmOptions struct {
	db                      dbFlags
	sessions                []string
	only, yes, dry, tenants bool
	vacuum                  bool
	olderThan               string
	keep                    int64
	policy                  retention.Policy
}

func (a *app) rmCommand() *cobra.Command {
	var o rmOptions
	c := &cobra.Command{
		Use:   "rm SESSION... | --older-than AGE | --keep N | --vacuum",
		Short: "Erase sessions",
		Long: `Erase sessions: every row and text of them, their summaries and rows in
the tables of the agent guide. No query finds them any more, and their pages and
the log are overwritten. SQLite may leave copies of single rows in the unused
space inside pages: --vacuum writes the file anew, and then no byte of them is
left. Nobody else can write meanwhile. Sub-agents go with the session that
spawned them, unless --only.

SESSION is an id, the beginning of one, or a trace or span id. It may be 'last'
where somebody is asked: what is last changes as sessions come. --older-than and
--keep choose sessions of one owner (--tenant), or of all (--all-tenants), as
'otelagent up --max-age' and '--max-sessions' do: parents and sub-agents
together, by what was seen last of any of them.

On a terminal what goes is listed and asked about. Elsewhere nothing is erased
without --yes. It works while 'otelagent up' writes to the same database; what
an agent at work sends afterwards is kept again, under the same id. Exports and
copies are not touched.

Exit codes: 0 erased, or nothing to erase, 1 not found, not erased or not wanted
after all, 2 wrong usage. When one SESSION is not found none is erased.`,
		Example: `  otelagent rm 0b5c
  otelagent rm 0b5c --yes --only
  otelagent rm --older-than 30d --dry-run
  otelagent rm --keep 1000 --all-tenants --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.sessions = args
			if err := o.check(cmd.Flags().Changed("keep"), cmd.Flags().Changed("tenant"), canAsk(a.stdin)); err != nil {
				return err
			}
			return a.rm(cmd.Context(), &o)
		},
	}
	o.db.addDatabase(c)
	c.Flags().BoolVar(&o.only, "only", false, "leave sub-agents where they are")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&o.dry, "dry-run", false, "list what would go, and erase nothing")
	c.Flags().StringVar(&o.olderThan, "older-than", "",
		"erase sessions of which nothing was seen for this `time`: 30d, 720h")
	c.Flags().Int64Var(&o.keep, "keep", 0, "erase all sessions but the newest `n`")
	c.Flags().BoolVar(&o.vacuum, "vacuum", false, "then write the SQLite file anew, so that no byte is left")
	c.Flags().BoolVar(&o.tenants, "all-tenants", false, "with --older-than and --keep: sessions of all owners")
	return c
}

// check names everything that is wrong with the flags.
func (o *rmOptions) check(keep, tenant, canAsk bool) error {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	byRule := keep || o.olderThan != ""
	switch {
	case byRule && len(o.sessions) > 0:
		add("%s and --older-than or --keep exclude each other", o.sessions[0])
	case !byRule && len(o.sessions) == 0 && !o.vacuum:
		add("nothing to erase: name a SESSION, or give --older-than or --keep")
	}
	if o.olderThan != "" {
		age, err := store.ParseAge(o.olderThan)
		if err != nil || age == 0 {
			add("--older-than %s: want a time above 0: 30d, 720h", o.olderThan)
		}
		o.policy.MaxAge = age
	}
	if keep && o.keep < 1 {
		add("--keep %d: want a number from 1", o.keep)
	}
	o.policy.MaxSessions, o.policy.Families = o.keep, !o.only
	if o.tenants && (!byRule || tenant) {
		add("--all-tenants is for --older-than and --keep, without --tenant")
	}
	if slices.Contains(o.sessions, "") {
		add("SESSION is given, but empty")
	}
	if !o.yes && !o.dry && !canAsk && (byRule || len(o.sessions) > 0 || !o.vacuum) {
		add("nobody can be asked here: give --yes to erase, or --dry-run to see what would go")
	}
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// doomed is a session that is to go.
type doomed struct {
	session.Summary
	// mark is what it was when a rule chose it: one that was written to since is another one. 0: chosen by name.
	mark store.Revision
}

func (a *app) rm(ctx context.Context, o *rmOptions) error {
	open := o.db.openToErase
	if o.dry {
		open = o.db.open
	}
	db, err := open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	var list []doomed
	switch {
	case len(o.sessions) > 0:
		list, err = db.named(ctx, o)
	case o.olderThan != "" || o.keep > 0:
		list, err = db.chosen(ctx, o)
	}
	if err != nil {
		return err
	}
	if len(list) == 0 && o.vacuum && !o.dry {
		return db.vacuum(ctx)
	}
	if len(list) == 0 {
		a.say("nothing to erase in %s", db.at.name)
		return nil
	}
	if o.dry {
		a.say("%s would go from %s", howMany(list), db.at.name)
		return listDoomed(a.stdout, list, len(list))
	}
	if !o.yes {
		const most = 20
		a.say("%s will be erased from %s, for ever", howMany(list), db.at.name)
		if err := listDoomed(a.stderr, list, most); err != nil {
			return err
		}
		if !a.ask("Erase?") {
			return errors.New("nothing was erased")
		}
	}
	if err := a.erase(ctx, db, list); err != nil || !o.vacuum {
		return err
	}
	return db.vacuum(ctx)
}

// vacuum writes a SQLite file anew.
func (db *database) vacuum(ctx context.Context) error {
	v, ok := db.store.(interface{ Vacuum(context.Context) error })
	if !ok {
		return fmt.Errorf("--vacuum is for SQLite files: %s rewrites what it erases by itself", db.at.name)
	}
	return v.Vacuum(ctx)
}

// named returns the sessions that were named, and their sub-agents.
func (db *database) named(ctx context.Context, o *rmOptions) ([]doomed, error) {
	keys, err := db.withSubAgents(ctx, o.sessions, o.only)
	if err != nil {
		return nil, fmt.Errorf("%w\nNothing was erased", err)
	}
	if o.yes && slices.Contains(o.sessions, store.Last) &&
		!slices.ContainsFunc(keys, func(k session.Key) bool { return k.ID == store.Last }) {
		return nil, usagef("'%s' is not erased without asking: what is last changes as sessions come", store.Last)
	}
	var list []doomed
	for _, key := range keys {
		s, err := summary(ctx, db.store, key)
		if err != nil {
			return nil, err
		}
		list = append(list, doomed{Summary: s})
	}
	return list, nil
}

// chosen returns the sessions that a rule chooses.
func (db *database) chosen(ctx context.Context, o *rmOptions) ([]doomed, error) {
	if err := db.refresh(ctx); err != nil {
		return nil, err
	}
	if !o.tenants {
		o.policy.Tenants = []string{db.tenant}
	}
	chosen, err := retention.Choose(ctx, db.store, time.Now(), o.policy, o.dry)
	var list []doomed
	for _, d := range chosen {
		s, err := summary(ctx, db.store, d.Key)
		if err != nil {
			return nil, err
		}
		list = append(list, doomed{s, d.Revision})
	}
	return list, err
}

// eraseBatch is how many sessions are deleted together: a store may have to look through all of its file each time.
const eraseBatch = 256

// erase deletes sessions, and reports each that is gone. Ctrl-C stops it in between.
func (a *app) erase(ctx context.Context, db *database, list []doomed) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var gone []doomed
	stayed := 0
	for batch := range slices.Chunk(list, eraseBatch) {
		var deletions []store.Deletion
		for _, s := range batch {
			deletions = append(deletions, store.Deletion{Key: s.Key, Revision: s.mark})
		}
		deleted, err := db.store.Delete(ctx, deletions...)
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s of %d were erased from %s; run it again for the rest%s", err, count(len(gone), "session"),
				len(list), db.at.name, halfErased(len(deleted)))
		}
		stayed += len(batch) - len(deleted)
		for _, s := range batch {
			if slices.Contains(deleted, s.Key) {
				gone = append(gone, s)
				fmt.Fprintf(a.stdout, "erased %s%s\n", inspect.Clean(s.ID), ofOwner(s.Tenant))
			}
		}
	}
	if stayed > 0 {
		a.say("%s stayed: written to, or erased, meanwhile", count(stayed, "session"))
	}
	a.say("erased %s from %s", howMany(gone), db.at.name)
	return nil
}

// ofOwner says whose a session is; nothing where its owner has no name.
func ofOwner(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " of " + inspect.Clean(tenant)
}

// halfErased reports sessions that are hidden already and that may be on the disk still.
func halfErased(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s more cannot be seen any more, but may be on the disk still: the next 'otelagent rm', or "+
		"'otelagent up' when it starts, finishes that", count(n, "session"))
}

// howMany counts sessions, and says how many of them are sub-agents.
func howMany(list []doomed) string {
	n := 0
	for _, s := range list {
		if s.Parent != "" {
			n++
		}
	}
	all := count(len(list), "session")
	switch {
	case n == 0:
		return all
	case len(list) == 1:
		return all + ", a sub-agent,"
	case n == 1:
		return all + ", 1 of them a sub-agent,"
	}
	return fmt.Sprintf("%s, %d of them sub-agents,", all, n)
}

// listDoomed writes a table of the first sessions, owner by owner, and how many more there are.
func listDoomed(w io.Writer, list []doomed, most int) error {
	for rest := list[:min(most, len(list))]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Tenant == rest[0].Tenant {
			n++
		}
		if rest[0].Tenant != "" {
			fmt.Fprintf(w, "of %s:\n", inspect.Clean(rest[0].Tenant))
		}
		var part []session.Summary
		for _, s := range rest[:n] {
			part = append(part, s.Summary)
		}
		if err := inspect.List(w, part, look(w)); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if n := len(list) - most; n > 0 {
		fmt.Fprintf(w, "and %s\n", count(n, "more session"))
	}
	return nil
}

// summary returns what a list shows of a session.
func summary(ctx context.Context, st store.Store, k session.Key) (session.Summary, error) {
	for s, err := range st.Sessions(ctx, store.Query{Tenant: k.Tenant, Prefix: k.ID}) {
		if err != nil || s.Key == k {
			return s, err
		}
	}
	return session.Summary{Key: k}, nil // gone meanwhile
}

// canAsk reports whether stdin is a terminal.
func canAsk(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	return ok && isTerminal(f)
}

// ask asks the user. Whatever is no yes is a no.
func (a *app) ask(question string) bool {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line)))
}
