package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	storecopy "github.com/otelagent/otelagent/backend/store/copy"
	"github.com/otelagent/otelagent/backend/store/dsn"
)

// copyOptions say what to copy.
type copyOptions struct {
	from, to string
	sessions []string
	tenant   string
	ofTenant bool
	since    string
	only     bool
	verify   bool
}

func (a *app) copyCommand() *cobra.Command {
	var o copyOptions
	c := &cobra.Command{
		Use:   "copy SRC-DSN DST-DSN [SESSION...]",
		Short: "Copy sessions into another database",
		Long: `Copy sessions into another database, of the same kind or another: all of all
owners, or those that --tenant, --since and SESSION choose, SESSION with its
sub-agents unless --only. What DST has stays. The list of what was refused is
not copied.

It may be stopped at any time: run again, it goes on. What is on both sides is
compared and only what differs is written, so that running it again later also
brings what came meanwhile. Both may be in use. What is written to SRC while it
copies is copied too, but for the last moments, which it tells. --verify
compares the trees of both sides byte for byte at the end, and every block.

A DSN is ` + databaseHelp + `. The password of a
database stands in $` + envPassword + `.

Exit codes: 0 copied, 1 interrupted, not all copied, or not the same, 2 wrong
usage.`,
		Example: `  otelagent copy sessions.db backup.db --verify
  otelagent copy sessions.db clickhouse://otelagent@10.0.0.5/otelagent
  otelagent copy sessions.db bug.db 0b5c`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("copy wants two databases, SRC-DSN and DST-DSN; %d given", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.from, o.to, o.sessions = args[0], args[1], args[2:]
			o.ofTenant = cmd.Flags().Changed("tenant")
			return a.copy(cmd.Context(), &o)
		},
	}
	c.Flags().StringVar(&o.tenant, "tenant", "", "`owner` of the sessions (default all)")
	c.Flags().StringVar(&o.since, "since", "", "copy the sessions that something was seen of since `TIME`: 2026-11-21, "+
		"2026-11-21T09:00:00Z, or 90m, 24h, 7d ago")
	c.Flags().BoolVar(&o.only, "only", false, "copy no sub-agents of SESSION")
	c.Flags().BoolVar(&o.verify, "verify", false, "compare both sides at the end")
	return c
}

// check reads the flags, and names everything that is wrong with them.
func (o *copyOptions) check() (from, to location, since time.Time, err error) {
	var wrong []string
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	from, err = locate("SRC-DSN", o.from)
	note(err)
	to, err = locate("DST-DSN", o.to)
	note(err)
	if len(wrong) == 0 && from.same(to) {
		note(fmt.Errorf("%s is both SRC-DSN and DST-DSN", from.name))
	}
	if o.since != "" {
		if len(o.sessions) > 0 {
			note(fmt.Errorf("%s and --since exclude each other", o.sessions[0]))
		}
		if since, err = store.ParseTime(o.since, time.Now()); err != nil {
			note(fmt.Errorf("--since %s: want a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d", o.since))
		}
	}
	if len(wrong) > 0 {
		return from, to, since, usagef("%s", strings.Join(wrong, "\n"))
	}
	return from, to, since, nil
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

func (a *app) copy(ctx context.Context, o *copyOptions) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	from, to, since, err := o.check()
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, context.Canceled) { // before anything was read
			err = errors.New("interrupted; run it again to go on")
		}
	}()
	src, err := openToRead(ctx, a, from, o.tenant)
	if err != nil {
		return err
	}
	defer src.close()
	opts := storecopy.Options{Since: since, Verify: o.verify}
	if o.ofTenant {
		opts.Tenants = []string{o.tenant}
	}
	if len(o.sessions) > 0 {
		if opts.Sessions, err = src.withSubAgents(ctx, o.sessions, o.only); err != nil {
			return err
		}
	}
	dst, err := to.open(ctx, dsn.WithChatTables())
	if err != nil {
		return to.plainly(os.O_RDWR, err)
	}
	defer func() { err = firstError(err, dst.Close()) }()

	bar := &copyBar{app: a}
	opts.Progress = bar.show
	res, err := storecopy.Run(ctx, src.store, dst, opts)
	bar.end()
	return a.copied(res, to, o.verify, err)
}

// copied says what became of a copy.
func (a *app) copied(res storecopy.Result, to location, verify bool, err error) error {
	wrote := fmt.Sprintf("%s and %s, %s", count(int(res.Rows), "row"), count(int(res.Blocks), "block"),
		inspect.Bytes(res.Bytes))
	if err != nil {
		what := strings.TrimPrefix(err.Error(), "copy: ")
		if errors.Is(err, context.Canceled) {
			what = "interrupted"
		}
		return fmt.Errorf("%s\n%s reached %s; run it again to go on", what, wrote, to.name)
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
		a.say("%s still being written to; run it again for what came last", count(n, "session"))
	}
	if verify {
		a.say("compared %s: %d the same on both sides", count(res.Verified+len(res.Different), "session"), res.Verified)
	}
	a.differ("not copied whole", res.Refused)
	a.differ("not the same", res.Different)
	if len(res.Refused)+len(res.Different) > 0 {
		return &exitError{Code: exitFailed}
	}
	return nil
}

// differ names the first of some sessions and what is wrong with them.
func (a *app) differ(how string, list []storecopy.Difference) {
	const most = 8
	for _, d := range list[:min(len(list), most)] {
		a.say("session %s %s: %s", d.Session.ID, how, plainText.Replace(d.What))
	}
	if n := len(list) - most; n > 0 {
		a.say("and %s %s", count(n, "more session"), how)
	}
}
