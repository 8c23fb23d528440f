// Package stats makes statistics of the figures that a store keeps: histograms and exact quantiles of what turns and
// tool calls took, over all sessions of a tenant. docs/stats.md says what each number means.
package stats

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// Format is the version of a Report's JSON form. Later versions add fields and never change one.
const Format = 1

// By is what groups are made by.
type By string

// What groups can be made by; empty: there are none.
const (
	ByModel    By = "model"
	ByAgent    By = "agent"
	ByTool     By = "tool"
	BySession  By = "session"
	ByProvider By = "provider"
)

// Bys are the words of By.
var Bys = []By{ByModel, ByAgent, ByTool, BySession, ByProvider}

// pick returns the text that by names.
func (by By) pick(model, agent, tool, session, provider string) string {
	switch by {
	case ByModel:
		return model
	case ByAgent:
		return agent
	case ByTool:
		return tool
	case BySession:
		return session
	}
	return provider
}

// Options say what statistics are made of. The zero value is all of the empty tenant, without groups and without
// prices.
type Options struct {
	// Query selects; Tool and Columns of it are not looked at. With an agent, a provider or a model compactions and
	// permission evaluations are those of the runs that have a turn of it.
	Query store.FigureQuery
	By    By
	// Prices computes costs; nil: none are.
	Prices *Prices
}

// Collect reads figures and makes statistics of them. Summaries must be current (project.Refresh). It takes 8 bytes for
// each number that a quantile is of, with groups 16: some 80 MB for a million turns.
func Collect(ctx context.Context, st store.Store, o Options) (*Report, error) {
	if o.By != "" && !slices.Contains(Bys, o.By) {
		return nil, fmt.Errorf("stats: by %q, want %s", o.By,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(Bys), " ", ", "), "[]"))
	}
	c := &collector{
		o: o, total: newGroup(""), groups: map[string]*group{}, tools: map[string]*group{},
		prices: map[[3]string]*price{}, noPrice: map[[2]string]int64{}, caches: map[string]bool{},
	}
	if o.Query.Agent != "" || o.Query.Provider != "" || o.Query.Model != "" {
		c.runs = map[runKey]bool{}
	}
	for _, read := range []func(context.Context, store.Store) error{
		c.readTurns, c.readToolCalls, c.readCompactions, c.readPermissions,
	} {
		if err := read(ctx, st); err != nil {
			return nil, fmt.Errorf("stats: %w", err)
		}
	}
	return c.report(), nil
}

// maxCost is the greatest cost of a turn that is believed: sums stay finite.
const maxCost = 1e12

type runKey struct {
	session, run string
	start        int64
}

type collector struct {
	o       Options
	total   *group
	groups  map[string]*group
	tools   map[string]*group
	prices  map[[3]string]*price // of provider, model that answered and model that was asked; nil: none
	noPrice map[[2]string]int64
	caches  map[string]bool // providers that the turns show to cache
	runs    map[runKey]bool // that have a selected turn; nil: all

	compactions []Compaction
	permissions []Permission
}

// The numbers that a group has a distribution of.
const (
	input = iota
	output
	cacheRead
	cacheWrite
	reasoning
	duration
	modelCall
	firstChunk
	toolDuration
	numbers
)

// group is a Group in the making.
type group struct {
	Group
	sessions    map[string]struct{}
	lastSession string
	numbers     [numbers][]int64
	cost        map[string]*Cost
	computed    Cost
	providers   map[string]bool
}

func newGroup(name string) *group {
	return &group{
		Group: Group{Name: name, ToolOutcomes: map[string]int64{}}, sessions: map[string]struct{}{},
		cost: map[string]*Cost{}, providers: map[string]bool{},
	}
}

func of(groups map[string]*group, name string) *group {
	g := groups[name]
	if g == nil {
		g = newGroup(name)
		groups[name] = g
	}
	return g
}

func (g *group) in(session string) {
	if session != g.lastSession || len(g.sessions) == 0 {
		g.sessions[session] = struct{}{}
		g.lastSession = session
	}
}

func (g *group) known(number int, v session.Opt[int64]) {
	if v.OK {
		g.numbers[number] = append(g.numbers[number], v.V)
	}
}

// lasted adds the time from start to end.
func (g *group) lasted(number int, start int64, end session.Opt[int64]) {
	if end.OK {
		g.numbers[number] = append(g.numbers[number], end.V-start)
	}
}

// query returns what selects of a table, with those columns, and those that name a run where runs are selected.
func (c *collector) query(table *store.FigureTable, columns ...string) store.FigureQuery {
	q := c.o.Query
	q.Table, q.Tool = table, ""
	if c.runs != nil {
		columns = append(columns, "session", "run", "run_start_ns")
	}
	if by := string(c.o.By); slices.Contains(table.Columns, by) {
		columns = append(columns, by)
	}
	q.Columns = columns
	return q
}

func (c *collector) readTurns(ctx context.Context, st store.Store) error {
	q := c.query(store.TurnTable, "session", "start_ns", "end_ns", "model_call_ns", "first_chunk_ns", "provider", "failed",
		"attempts", "input", "output", "reasoning", "cache_read", "cache_write",
		"lower_bound", "purpose", "cost", "currency")
	if c.o.Prices != nil {
		q.Columns = append(q.Columns, "model", "response_model")
	}
	for t, err := range store.Figures[session.TurnFigures](ctx, st, q) {
		if err != nil {
			return err
		}
		price := c.price(&t)
		c.total.turn(&t, price)
		if t.CacheRead.V > 0 || t.CacheWrite.V > 0 {
			c.caches[t.Provider] = true
		}
		if c.runs != nil {
			c.runs[runKey{t.Session, t.Run, t.RunStart}] = true
		}
		if c.o.By == "" || c.o.By == ByTool {
			continue
		}
		of(c.groups, c.o.By.pick(t.Model, t.Agent, "", t.Session, t.Provider)).turn(&t, price)
	}
	return nil
}

func (g *group) turn(t *session.TurnFigures, x *price) {
	g.Turns++
	g.in(t.Session)
	if t.Failed {
		g.Failed++
	}
	if t.Attempts.OK {
		g.Retries += max(0, t.Attempts.V-1)
	}
	if !t.Input.OK {
		g.WithoutUsage++
	}
	if t.Purpose == string(spans.PurposeUtility) {
		g.Utility++
	}
	g.LowerBound = g.LowerBound || t.LowerBound
	g.lasted(duration, t.Start, t.End)
	g.known(modelCall, t.ModelCall)
	g.known(firstChunk, t.FirstChunk)
	g.known(input, t.Input)
	g.known(output, t.Output)
	g.known(reasoning, t.Reasoning)
	g.known(cacheRead, t.CacheRead)
	g.known(cacheWrite, t.CacheWrite)
	g.providers[t.Provider] = true
	g.paid(t.Currency, t.Cost, Cost{Turns: 1})
	if x != nil {
		g.computed.Amount += x.cost(t)
		g.computed.Turns++
	}
}

// paid adds what a loop reported.
func (g *group) paid(currency string, amount session.Opt[float64], of Cost) {
	if !amount.OK || math.Abs(amount.V) > maxCost {
		return
	}
	m := g.cost[currency]
	if m == nil {
		m = &Cost{Currency: currency}
		g.cost[currency] = m
	}
	m.Amount += amount.V
	m.Turns += of.Turns
	m.Compactions += of.Compactions
}

// price returns the price of a turn's tokens; nil where there is none, which it counts, or no tokens are known.
func (c *collector) price(t *session.TurnFigures) *price {
	if c.o.Prices == nil || !t.Input.OK {
		return nil
	}
	key := [3]string{t.Provider, t.ResponseModel, t.Model}
	x, ok := c.prices[key]
	if !ok {
		x = c.o.Prices.of(t)
		c.prices[key] = x
	}
	if x == nil {
		c.noPrice[[2]string{t.Provider, cmp.Or(t.ResponseModel, t.Model)}]++
	}
	return x
}

func (c *collector) readToolCalls(ctx context.Context, st store.Store) error {
	q := c.query(store.ToolCallTable, "start_ns", "end_ns", "tool", "outcome")
	if c.o.By == ByTool {
		q.Columns = append(q.Columns, "session")
	}
	for t, err := range store.Figures[session.ToolCallFigures](ctx, st, q) {
		if err != nil {
			return err
		}
		if c.o.Query.Provider != "" && !c.runs[runKey{t.Session, t.Run, t.RunStart}] {
			continue
		}
		c.total.call(&t)
		of(c.tools, t.Tool).call(&t)
		if c.o.By == "" || c.o.By == ByProvider {
			continue
		}
		g := of(c.groups, c.o.By.pick(t.Model, t.Agent, t.Tool, t.Session, ""))
		g.call(&t)
		if c.o.By == ByTool {
			g.in(t.Session)
			c.total.in(t.Session)
		}
	}
	return nil
}

func (g *group) call(t *session.ToolCallFigures) {
	g.ToolCalls++
	g.ToolOutcomes[cmp.Or(t.Outcome, "open")]++
	g.lasted(toolDuration, t.Start, t.End)
}

// A tally counts figures that have two equal texts, and gathers their numbers.
type tally struct {
	texts      [2]string
	n          int64
	numbers    [4][]int64
	lowerBound bool
}

// counted is what a figure adds to a tally.
type counted struct {
	run        runKey
	texts      [2]string
	numbers    [4]session.Opt[int64]
	lowerBound bool
	cost       session.Opt[float64] // of a compaction
	currency   string
}

// tallies counts the figures of selected runs, the most frequent first.
func tallies[T any](c *collector, figures iter.Seq2[T, error],
	read func(*T) counted) ([]*tally, error) {
	all := map[[2]string]*tally{}
	for v, err := range figures {
		if err != nil {
			return nil, err
		}
		x := read(&v)
		if c.runs != nil && !c.runs[x.run] {
			continue
		}
		t := all[x.texts]
		if t == nil {
			t = &tally{texts: x.texts}
			all[x.texts] = t
		}
		t.n++
		t.lowerBound = t.lowerBound || x.lowerBound
		c.total.paid(x.currency, x.cost, Cost{Compactions: 1})
		if c.o.By == BySession && x.cost.OK {
			of(c.groups, x.run.session).paid(x.currency, x.cost, Cost{Compactions: 1})
		}
		for i, n := range x.numbers {
			if n.OK {
				t.numbers[i] = append(t.numbers[i], n.V)
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.n, a.n), slices.Compare(a.texts[:], b.texts[:]))
	}), nil
}

func (c *collector) readCompactions(ctx context.Context, st store.Store) error {
	q := c.query(store.CompactionTable, "kind", "trigger", "input_tokens", "output_tokens", "used_input",
		"used_output", "lower_bound", "cost", "currency")
	all, err := tallies(c, store.Figures[session.CompactionFigures](ctx, st, q),
		func(t *session.CompactionFigures) counted {
			return counted{runKey{t.Session, t.Run, t.RunStart}, [2]string{t.Kind, t.Trigger},
				[4]session.Opt[int64]{t.InputTokens, t.OutputTokens, t.UsedInput, t.UsedOutput}, t.LowerBound, t.Cost,
				t.Currency}
		})
	for _, t := range all {
		c.compactions = append(c.compactions, Compaction{Kind: t.texts[0], Trigger: t.texts[1], N: t.n,
			Before: newDist(t.numbers[0]), After: newDist(t.numbers[1]),
			UsedInput: newDist(t.numbers[2]), UsedOutput: newDist(t.numbers[3]), LowerBound: t.lowerBound})
	}
	return err
}

func (c *collector) readPermissions(ctx context.Context, st store.Store) error {
	q := c.query(store.PermissionTable, "action", "source", "wait_ns")
	all, err := tallies(c, store.Figures[session.PermissionFigures](ctx, st, q),
		func(t *session.PermissionFigures) counted {
			return counted{run: runKey{t.Session, t.Run, t.RunStart}, texts: [2]string{t.Action, t.Source},
				numbers: [4]session.Opt[int64]{t.Wait}}
		})
	for _, t := range all {
		c.permissions = append(c.permissions, Permission{Action: t.texts[0], Source: t.texts[1], N: t.n,
			Wait: newDist(t.numbers[0])})
	}
	return err
}

// report finishes the groups.
func (c *collector) report() *Report {
	r := &Report{Format: Format, By: c.o.By, Total: c.finish(c.total), Compactions: c.compactions,
		Permissions: c.permissions}
	for _, g := range c.groups {
		r.Groups = append(r.Groups, c.finish(g))
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		if c.o.By == ByTool {
			return cmp.Or(cmp.Compare(b.ToolCalls, a.ToolCalls), strings.Compare(a.Name, b.Name))
		}
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Name, b.Name))
	})
	for _, g := range c.tools {
		r.Tools = append(r.Tools, Tool{g.Name, g.ToolCalls, g.ToolOutcomes, newDist(g.numbers[toolDuration])})
	}
	slices.SortFunc(r.Tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name))
	})
	for key, n := range c.noPrice {
		r.NoPrice = append(r.NoPrice, NoPrice{Provider: key[0], Model: key[1], Turns: n})
	}
	slices.SortFunc(r.NoPrice, func(a, b NoPrice) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Provider, b.Provider),
			strings.Compare(a.Model, b.Model))
	})
	return r
}

// finish makes the distributions.
func (c *collector) finish(g *group) Group {
	out := g.Group
	out.Sessions = int64(len(g.sessions))
	for i, to := range [numbers]**Dist{
		input: &out.Input, output: &out.Output, cacheRead: &out.CacheRead, cacheWrite: &out.CacheWrite,
		reasoning: &out.Reasoning, duration: &out.Duration, modelCall: &out.ModelCall, firstChunk: &out.FirstChunk,
		toolDuration: &out.ToolDuration,
	} {
		*to = newDist(g.numbers[i])
	}
	if len(out.ToolOutcomes) == 0 {
		out.ToolOutcomes = nil
	}
	if out.Input != nil && out.CacheRead != nil && out.Input.Sum > 0 {
		rate := float64(out.CacheRead.Sum) / float64(out.Input.Sum)
		out.CacheRate = &rate
		out.CacheIdle = out.CacheRead.Sum == 0 && out.Input.N > 1 && c.caching(g)
	}
	for _, m := range g.cost {
		out.Cost = append(out.Cost, *m)
	}
	slices.SortFunc(out.Cost, func(a, b Cost) int { return strings.Compare(a.Currency, b.Currency) })
	if c.o.Prices != nil && g.Turns > 0 {
		g.computed.Currency = Currency
		out.Computed = &g.computed
	}
	return out
}

// cachingProviders offer prompt caching for all their models of today, by the names that gen_ai.provider.name has for
// them.
var cachingProviders = map[string]bool{
	"anthropic": true, "openai": true, "deepseek": true, "azure.ai.openai": true, "gcp.gemini": true,
	"gcp.vertex_ai": true, "x_ai": true,
}

// caching reports whether a provider of the group caches.
func (c *collector) caching(g *group) bool {
	for p := range g.providers {
		if c.caches[p] || cachingProviders[p] {
			return true
		}
	}
	return false
}
