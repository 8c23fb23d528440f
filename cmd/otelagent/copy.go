package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	storecopy "github.com/otelagent/otelagent/backend/store/copy"
	"github.com/otelagent/otelagent/backend/store/dsn"
)

// copyOptions say which sessions to copy.
type copyOptions struct {
	since          string
	ofTenant, only bool
}

func (a *app) copyCommand() *cobra.Command {
	var o copyOptions
	c := &cobra.Command{
		Use:   "copy SRC-DSN DST-DSN [SESSION...]",
		Short: "Copy sessions into another database",
		Long: `Copy sessions into another database, of the same kind or another: all of all
owners, or those that --tenant, --since and SESSION choose, SESSION with its
sub-agents unless --only. Sessions that only DST has stay.

The command may be stopped at any time: the next run goes on. It compares both
sides and writes only the differences, so that running it again later also
brings new spans. Both may be in use. Spans that arrive in SRC meanwhile are
copied too, except in the last moments, which the command reports. A run that
finds nothing to write says so: DST has every row and block of SRC.

A DSN is ` + databaseHelp + `. The variable
$` + envPassword + ` holds the password of a database.

Exit codes: 0 copied, 1 interrupted or not all copied, 2 wrong usage.`,
		Example: `  otelagent copy sessions.db backup.db
  otelagent copy sessions.db clickhouse://otelagent@10.0.0.5/otelagent
  otelagent copy sessions.db bug.db 0b5c`,
		Args:        wants(2, math.MaxInt, "copy wants two databases, SRC-DSN and DST-DSN; %d given"),
		Annotations: refuses("db output"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ofTenant = cmd.Flags().Changed("tenant")
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return interrupted(a.copy(ctx, &o, args[0], args[1], args[2:]), "; run it again to go on")
		},
	}
	c.Flags().StringVar(&o.since, "since", "", "copy the sessions with an event "+sinceHelp)
	c.Flags().BoolVar(&o.only, "only", false, "copy no sub-agents of SESSION")
	return c
}

// same reports whether both are one database, as far as that can be seen.
func (l location) same(o location) bool {
	if !l.file || !o.file {
		return l.dsn == o.dsn
	}
	a, errA := os.Stat(l.name)
	b, errB := os.Stat(o.name)
	return errA == nil && errB == nil && os.SameFile(a, b) || l.name == o.name
}

func (a *app) copy(ctx context.Context, o *copyOptions, src, dst string, sessions []string) (err error) {
	var opts storecopy.Options
	var wrong wrongs
	from, err := locate("SRC-DSN", src)
	wrong.note(err)
	to, err := locate("DST-DSN", dst)
	wrong.note(err)
	wrong.when(len(wrong) == 0 && from.same(to), "%s is both SRC-DSN and DST-DSN", from.name)
	wrong.when(o.since != "" && len(sessions) > 0, "%s and --since exclude each other", strings.Join(sessions, ", "))
	opts.Since, err = parseSince(o.since)
	wrong.note(err)
	if err := wrong.err(); err != nil {
		return err
	}
	db, err := a.openDatabase(ctx, from, true)
	if err != nil {
		return err
	}
	defer db.close()
	if o.ofTenant {
		opts.Tenants = []string{a.tenant}
	}
	if len(sessions) > 0 {
		if opts.Sessions, err = db.WithSubAgents(ctx, sessions, o.only); err != nil {
			return err
		}
	}
	st, err := to.open(ctx, false, dsn.WithChatTables())
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()
	res, err := storecopy.Run(ctx, db.Store, st, opts)
	return a.copied(res, to, err)
}

// copied reports the result of a copy.
func (a *app) copied(res storecopy.Result, to location, err error) error {
	wrote := fmt.Sprintf("%s and %s, %s", count(int(res.Rows), "row"), count(int(res.Blocks), "block"),
		inspect.Bytes(res.Bytes))
	if err != nil {
		why := strings.TrimPrefix(interrupted(err, "").Error(), "copy: ")
		return fmt.Errorf("%s\n%s reached %s; run it again to go on", why, wrote, to.name)
	}
	switch {
	case res.Sessions == 0:
		a.say("no sessions to copy")
	case res.Copied == 0 && len(res.Refused) == 0:
		a.say("%s has all of the %s already", to.name, count(res.Sessions, "session"))
	default:
		a.say("copied %s to %s: %s", count(res.Copied, "session"), to.name, wrote)
		if res.Same > 0 {
			a.say("already there: %s", count(res.Same, "session"))
		}
	}
	if res.Gone > 0 {
		a.say("%s gone from the source meanwhile", count(res.Gone, "session"))
	}
	if n := len(res.Moving); n > 0 {
		a.say("%s still being written to; run it again for the last spans", count(n, "session"))
	}
	const most = 8
	for _, r := range res.Refused[:min(len(res.Refused), most)] {
		a.say("session %s not copied whole: %s", r.Session.ID, r.Reason)
	}
	if n := len(res.Refused) - most; n > 0 {
		a.say("and %s not copied whole", count(n, "more session"))
	}
	if len(res.Refused) > 0 {
		return &exitError{Code: exitFailed}
	}
	return nil
}
