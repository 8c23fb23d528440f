package main

import (
	"context"
	"errors"
	"fmt"
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
	db      dbFlags
	asJSON  bool
	wait    []string
	timeout time.Duration
}

func (a *app) statusCommand() *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status SESSION",
		Short: "Say in one word what a session is doing",
		Long: `Say in one word what a session is doing:

  idle                   no run is open
  busy                   a run is open
  retrying               its model is asked again
  waiting_on_approval    somebody was asked whether a tool may run
  waiting_on_user_input  the loop asked its user
  error, aborted         how the last run ended

A run that was sent with --live, or by a loop with otelagent.WithLive, is open
from its start; others are seen when a part of them ended. One that says every
so often that it lives, and was not heard of for three times that, is aborted:
its process is gone. Without such heartbeats nothing tells, and it stays busy.

With --wait a session that is not there yet is waited for as well.

Exit codes: 0 printed, 1 not found or not read, or none of --wait within
--timeout, 2 wrong usage.`,
		Example: `  otelagent status last
  otelagent status 0b5c --wait idle,error,aborted --timeout 10m
  otelagent status last --json | jq -r '.open[].tool'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.db.files) > 0 { // which may hold one session
				return nil
			}
			return oneSession(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.db.orFile(args, a.status(cmd.Context(), &o, strings.Join(args, "")))
		},
	}
	o.db.add(c)
	c.Flags().BoolVar(&o.asJSON, "json", false,
		"print JSON (docs/live.md): also which turn, tool calls and questions are open")
	c.Flags().StringSliceVar(&o.wait, "wait", nil,
		"wait until it is one of these: `words` as above, with commas between them")
	c.Flags().DurationVar(&o.timeout, "timeout", 0,
		"wait no longer than this `duration`, such as 30s, then print what it is and exit with 1 (0: no bound)")
	return c
}

func (a *app) status(ctx context.Context, o *statusOptions, ref string) error {
	for _, w := range o.wait {
		if !slices.Contains(spans.SessionStatuses(), spans.SessionStatus(w)) {
			return usagef("--wait %s: want some of %s", w, store.StatusWords())
		}
	}
	if o.timeout < 0 || o.timeout > 0 && len(o.wait) == 0 {
		return usagef("--timeout %s: want a duration from 0, and --wait beside it", o.timeout)
	}
	if len(o.wait) > 0 && len(o.db.files) > 0 {
		return usagef("--wait is about a database: a file is read once")
	}
	db, err := o.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	if ref == "" {
		only, err := db.only(ctx)
		if err != nil {
			return err
		}
		if only == nil {
			return usagef("%s holds several sessions: name one of them; 'otelagent ls --file' lists them", db.at.name)
		}
		ref = only.ID
	}
	deadline := time.Now().Add(o.timeout)
	key, err := db.findBy(ctx, ref, o, deadline)
	if err != nil {
		return err
	}
	late := false
	var v inspect.StatusView
	err = db.watch(ctx, key, db.bare, func(t session.Tree, _ bool, now time.Time) (bool, error) {
		v = inspect.StatusOf(t.Session, now)
		if len(o.wait) == 0 || slices.Contains(o.wait, string(v.Status)) {
			return true, nil
		}
		late = o.timeout > 0 && !now.Before(deadline)
		return late, nil
	})
	if err != nil {
		return err
	}
	if o.asJSON {
		err = writeJSON(a.stdout, v)
	} else {
		_, err = fmt.Fprintln(a.stdout, v.Status)
	}
	if err == nil && late {
		err = fmt.Errorf("session %s was not %s within %s", key.ID, strings.Join(o.wait, " or "), o.timeout)
	}
	return err
}

// findBy finds a session; with --wait also one that is not there yet.
func (db *database) findBy(ctx context.Context, ref string, o *statusOptions, deadline time.Time) (session.Key, error) {
	for {
		key, err := db.find(ctx, ref)
		late := o.timeout > 0 && !time.Now().Before(deadline)
		if len(o.wait) == 0 || late || !errors.Is(err, store.ErrNotFound) {
			return key, err
		}
		select {
		case <-ctx.Done():
			return key, ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}

// bare returns a session without its content.
func (db *database) bare(ctx context.Context, key session.Key) (session.Tree, error) {
	s, err := db.tree(ctx, key)
	return session.Tree{Session: s}, err
}
