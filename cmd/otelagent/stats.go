package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// statsOptions are the flags of stats.
type statsOptions struct {
	db      dbFlags
	by      string
	since   string
	session string
	prices  string
	query   store.FigureQuery
	asJSON  bool
}

func (a *app) statsCommand() *cobra.Command {
	var o statsOptions
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show what turns and tool calls took: tokens, time, cost",
		Long: `Show what turns and tool calls took, over all sessions: histograms and exact
quantiles of tokens and times, cache hits, tools and how their calls ended,
compactions, permissions, and cost.

Cost is what the agents' loops reported. With --prices it is computed as well,
from a catalogue in the format of LiteLLM's model_prices_and_context_window.json;
models that it does not have are named. Prices are per token, of today, and
without discounts. What each number means, and how to ask for more in SQL:
docs/stats.md.

Exit codes: 0 printed, 1 not found or not read, 2 wrong usage.`,
		Example: `  otelagent stats
  otelagent stats --by model --since 7d
  otelagent stats --by tool --agent coder
  otelagent stats --prices model_prices_and_context_window.json --json | jq .total.computed_cost`,
		Args: func(cmd *cobra.Command, args []string) error { return o.db.orFile(args, noArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(time.Now()); err != nil {
				return err
			}
			return a.stats(cmd.Context(), &o)
		},
	}
	o.db.add(c)
	c.Flags().StringVar(&o.by, "by", "", "a group for each `what`: model, agent, tool, session, provider")
	c.Flags().StringVar(&o.since, "since", "", "what began since this `time`: a date, a time, or how long ago: 24h, 7d")
	c.Flags().StringVar(&o.query.Agent, "agent", "", "of this `agent` alone")
	c.Flags().StringVar(&o.query.Model, "model", "", "of this `model` alone, as it was asked for")
	c.Flags().StringVar(&o.query.Provider, "provider", "", "of this `provider` alone")
	c.Flags().StringVar(&o.session, "session", "", "of this `session` alone: an id, the beginning of one, 'last'")
	c.Flags().StringVar(&o.prices, "prices", "", "compute cost from this `file`, a catalogue of prices as LiteLLM has it")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON (docs/stats.md)")
	return c
}

// check reads the flags.
func (o *statsOptions) check(now time.Time) error {
	if o.by != "" && !slices.Contains(stats.Bys, stats.By(o.by)) {
		return usagef("--by %.64q: want model, agent, tool, session or provider", o.by)
	}
	if o.since == "" {
		return nil
	}
	var err error
	if o.query.Since, err = store.ParseTime(o.since, now); err != nil {
		return usagef("--since %s: want a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d", o.since)
	}
	return nil
}

func (a *app) stats(ctx context.Context, o *statsOptions) error {
	so := stats.Options{By: stats.By(o.by), Query: o.query}
	so.Query.Tenant = o.db.tenant
	if o.prices != "" {
		var err error
		if so.Prices, err = readPrices(o.prices); err != nil {
			return err
		}
	}
	db, err := o.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	if err := db.refresh(ctx); err != nil {
		return err
	}
	if o.session != "" {
		key, err := db.resolve(ctx, o.session)
		if err != nil {
			return err
		}
		so.Query.Session = key.ID
	}
	r, err := stats.Collect(ctx, db.store, so)
	if err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(a.stdout, r)
	}
	if r.Total.Turns+r.Total.ToolCalls == 0 {
		if so.Query.Since.IsZero() && o.session+o.query.Agent+o.query.Model+o.query.Provider == "" {
			return a.sayNone(ctx, db)
		}
		a.say("no turns like that in %s", db.at.name)
		return nil
	}
	w := bufio.NewWriter(a.stdout)
	return firstError(inspect.Stats(w, r, look(a.stdout)), w.Flush())
}

func readPrices(path string) (*stats.Prices, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := stats.ReadPrices(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "stats: "))
	}
	return p, nil
}
