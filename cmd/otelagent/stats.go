package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// pricesHelp is the help of --prices.
const pricesHelp = "compute cost from this `FILE`, a catalogue of prices in the format of LiteLLM"

func (a *app) statsCommand() *cobra.Command {
	var o stats.Options
	var by, since, prices string
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show tokens, time and cost of turns and tool calls",
		Long: `Show what turns and tool calls took, over all sessions: histograms and exact
quantiles of tokens and times, cache hits, tools and how their calls ended,
compactions, permissions, and cost.

Cost is what the agents' loops reported. With --prices it is computed as well,
from a file in the format of LiteLLM's model_prices_and_context_window.json;
models that it does not have are named. Prices are per token, of today, and
without discounts. docs/stats.md defines each number; docs/queries.md has SQL
for more.

Exit codes: 0 printed, 1 not found or not read, 2 wrong usage.`,
		Example: `  otelagent stats
  otelagent stats --by model --since 7d
  otelagent stats --by tool --agent coder
  otelagent stats --prices model_prices_and_context_window.json --output json | jq .total.computed_cost`,
		Args: func(cmd *cobra.Command, args []string) error { return a.hint(args, noArgs(cmd, args)) },
		PreRunE: func(*cobra.Command, []string) error {
			var wrong wrongs
			var err error
			o.By = stats.By(by)
			wrong.when(by != "" && !slices.Contains(stats.Bys, o.By),
				"--by %q: want model, agent, tool, session or provider", by)
			o.Query.Since, err = parseSince(since)
			wrong.note(err)
			o.Prices, err = readPrices(prices)
			return cmp.Or(wrong.err(), err)
		},
		RunE: a.reads(func(ctx context.Context, db *database, _ []string) error { return a.stats(ctx, db, o) }),
	}
	c.Flags().StringVar(&by, "by", "", "one group for each `KIND`: model, agent, tool, session, provider")
	c.Flags().StringVar(&since, "since", "", sinceHelp)
	c.Flags().StringVar(&o.Query.Agent, "agent", "", "of this `AGENT` alone")
	c.Flags().StringVar(&o.Query.Model, "model", "", "of this `MODEL` alone, as requested")
	c.Flags().StringVar(&o.Query.Provider, "provider", "", "of this `PROVIDER` alone")
	c.Flags().StringVar(&o.Query.Session, "session", "", "of this `SESSION` alone")
	c.Flags().StringVar(&prices, "prices", "", pricesHelp)
	return c
}

// parseSince reads --since; an empty one is the zero time.
func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := store.ParseTime(text, time.Now())
	if err != nil {
		err = fmt.Errorf("--since %w", err)
	}
	return t, err
}

func (a *app) stats(ctx context.Context, db *database, o stats.Options) error {
	q := &o.Query
	all := q.Since.IsZero() && q.Session+q.Agent+q.Model+q.Provider == ""
	q.Tenant = a.tenant
	if q.Session != "" {
		key, err := db.Resolve(ctx, q.Session)
		if err != nil {
			return err
		}
		q.Session = key.ID
	}
	r, err := stats.Collect(ctx, db.Store, o)
	switch {
	case err != nil:
		return err
	case a.json() || r.Total.Turns+r.Total.ToolCalls > 0:
		return a.emit(r, func(w io.Writer, look inspect.Options) error { return inspect.Stats(w, r, look) })
	case all:
		return a.sayNone(ctx, db)
	}
	a.say("no turns like that in %s", db.at.name)
	return nil
}

// readPrices reads the file of --prices, nil without one.
func readPrices(path string) (*stats.Prices, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--prices: %w", err)
	}
	defer f.Close()
	p, err := stats.ReadPrices(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "stats: "))
	}
	return p, nil
}
