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
	"github.com/otelagent/otelagent/spans"
)

type statusOptions struct {
	wait    []string
	timeout time.Duration
}

func (a *app) statusCommand() *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status SESSION",
		Short: "Print the status of a session: idle, busy, waiting_on_approval, ...",
		Long: `Print the status of a session, one word:

  idle                   no run is open
  busy                   a run is open
  retrying               its model is asked again
  waiting_on_approval    somebody was asked whether a tool may run
  waiting_on_user_input  the loop asked its user
  error, aborted         how the last run ended

A run that was sent with --live, or by a loop with live spans, is open from its
start; others are seen when a part of them ended. A run that sends heartbeats,
and sent none for three intervals, is aborted: its process is gone. Without
heartbeats it stays busy.

With --wait the command also waits for a session that is not there yet.

Exit codes: 0 printed, 1 not found or not read, or none of --wait within
--timeout, 2 wrong usage.`,
		Example: `  otelagent status last
  otelagent status 0b5c --wait idle,error,aborted --timeout 10m
  otelagent status last --output json | jq -r '.open[]?.tool'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && len(a.dbs) == 0 {
				return fmt.Errorf("status wants one SESSION: an id, the beginning of one, or 'last'; %d given", len(args))
			}
			return nil
		},
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.hint(args, a.status(cmd.Context(), &o, strings.Join(args, "")))
		},
	}
	c.Flags().StringSliceVar(&o.wait, "wait", nil,
		"wait until it is one of these `STATUSES`, with commas between them")
	c.Flags().DurationVar(&o.timeout, "timeout", 0,
		"with --wait, exit with 1 after this `TIME`, such as 30s (0: no bound)")
	return c
}

func (a *app) status(ctx context.Context, o *statusOptions, ref string) error {
	var wrong wrongs
	for _, w := range o.wait {
		wrong.when(!slices.Contains(spans.SessionStatuses(), spans.SessionStatus(w)), "--wait %s: want some of %s", w,
			store.StatusWords())
	}
	wrong.when(o.timeout < 0 || o.timeout > 0 && len(o.wait) == 0,
		"--timeout %s: want a time from 0, together with --wait", o.timeout)
	if err := wrong.err(); err != nil {
		return err
	}
	db, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if len(o.wait) > 0 && db.recording {
		return usagef("--wait: %w", errFollowFile)
	}
	if ref == "" {
		if ref, err = db.only(ctx); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(o.timeout)
	late := func() bool { return o.timeout > 0 && !time.Now().Before(deadline) }
	key, err := db.Resolve(ctx, ref)
	for len(o.wait) > 0 && errors.Is(err, store.ErrNotFound) && !late() {
		if err := pause(ctx, watchEvery); err != nil {
			return err
		}
		key, err = db.Resolve(ctx, ref)
	}
	if err != nil {
		return err
	}
	var v inspect.StatusView
	reached := false
	err = (&changes{db: db, last: map[session.Key]readAt{}}).watch(ctx, key,
		func(t session.Tree, now time.Time) (bool, error) {
			v = inspect.StatusOf(t.Session, now)
			reached = len(o.wait) == 0 || slices.Contains(o.wait, string(v.Status))
			return reached || late(), nil
		})
	if err == nil {
		err = a.emit(v, func(w io.Writer, _ inspect.Options) error {
			_, err := fmt.Fprintln(w, v.Status)
			return err
		})
	}
	if err == nil && !reached {
		err = fmt.Errorf("session %s was not %s within %s", key.ID, strings.Join(o.wait, " or "), o.timeout)
	}
	return err
}
