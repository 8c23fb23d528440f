// Package stats makes statistics of the figures that a store keeps: histograms and exact quantiles of what turns and
// tool calls took, over all sessions of a tenant. docs/stats.md says what each number means.
package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
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

// Report is what there is to say.
type Report struct {
	Format int `json:"format"`
	By     By  `json:"by,omitempty"`
	// Total is of everything, Groups are parts of it, those with the most turns first (with ByTool: calls), then by
	// name. Groups by tool have tool calls only, groups by provider turns only.
	Total  Group   `json:"total"`
	Groups []Group `json:"groups,omitempty"`
	// Tools are the tool calls by name, those with the most calls first.
	Tools       []Tool       `json:"tools,omitempty"`
	Compactions []Compaction `json:"compactions,omitempty"`
	Permissions []Permission `json:"permissions,omitempty"`
	// NoPrice names the models of turns whose cost could not be computed, those with the most turns first.
	NoPrice []NoPrice `json:"no_price,omitempty"`
}

// Group are the statistics of some turns and tool calls. A Dist is nil where nothing is known.
type Group struct {
	// Name is empty for the total, and for what does not say by what it is grouped.
	Name     string `json:"name,omitempty"`
	Sessions int64  `json:"sessions"`
	Turns    int64  `json:"turns"`
	// Failed are turns whose reply is an error, Retries attempts beyond the first, WithoutUsage turns that report no
	// tokens.
	Failed       int64 `json:"failed"`
	Retries      int64 `json:"retries"`
	WithoutUsage int64 `json:"without_usage"`
	// Tokens per turn.
	Input      *Dist `json:"input,omitempty"`
	Output     *Dist `json:"output,omitempty"`
	CacheRead  *Dist `json:"cache_read,omitempty"`
	CacheWrite *Dist `json:"cache_write,omitempty"`
	Reasoning  *Dist `json:"reasoning,omitempty"`
	// Nanoseconds per turn: from start to end, of the model call alone, to the first piece of the reply.
	Duration   *Dist `json:"duration_ns,omitempty"`
	ModelCall  *Dist `json:"model_call_ns,omitempty"`
	FirstChunk *Dist `json:"first_chunk_ns,omitempty"`
	// CacheRate is the part of input tokens that came from a cache; nil where no input, or nothing of caches, is known.
	// CacheIdle says that it is zero over two turns or more although the provider caches: one that is known for it, or
	// whose other turns tell of it.
	CacheRate *float64 `json:"cache_rate,omitempty"`
	CacheIdle bool     `json:"cache_idle,omitempty"`
	// Cost is what loops reported, by currency.
	Cost []Cost `json:"cost,omitempty"`
	// Computed is what the turns cost by Options.Prices; nil without.
	Computed *Cost `json:"computed_cost,omitempty"`

	ToolCalls    int64            `json:"tool_calls"`
	ToolOutcomes map[string]int64 `json:"tool_outcomes,omitempty"`
	ToolDuration *Dist            `json:"tool_duration_ns,omitempty"`
}

// Cost is an amount of money, and of how many turns.
type Cost struct {
	Currency string  `json:"currency"`
	Amount   float64 `json:"amount"`
	Turns    int64   `json:"turns"`
}

// Tool are the calls of one tool.
type Tool struct {
	Name     string           `json:"name"`
	Calls    int64            `json:"calls"`
	Outcomes map[string]int64 `json:"outcomes"`
	Duration *Dist            `json:"duration_ns,omitempty"`
}

// Compaction are the compactions of one kind and trigger. Before and After are their tokens.
type Compaction struct {
	Kind    string `json:"kind"`
	Trigger string `json:"trigger"`
	N       int64  `json:"n"`
	Before  *Dist  `json:"input_tokens,omitempty"`
	After   *Dist  `json:"output_tokens,omitempty"`
}

// Permission are the permission evaluations of one action and source.
type Permission struct {
	Action string `json:"action"`
	Source string `json:"source"`
	N      int64  `json:"n"`
	Wait   *Dist  `json:"wait_ns,omitempty"`
}

// NoPrice is a model that has no price.
type NoPrice struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
	Turns    int64  `json:"turns"`
}

// Collect reads figures and makes statistics of them. Projections must be current (project.Refresh). It takes 8 bytes
// for each number that a quantile is of: some 80 MB for a million turns.
func Collect(ctx context.Context, st store.Store, o Options) (*Report, error) {
	if o.By != "" && !slices.Contains(Bys, o.By) {
		return nil, fmt.Errorf("stats: by %q, want %s", o.By, words())
	}
	c := newCollector(o)
	if err := errors.Join(c.readTurns(ctx, st), c.readToolCalls(ctx, st)); err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	r := c.report()
	var err error
	if r.Compactions, err = c.readCompactions(ctx, st); err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	if r.Permissions, err = c.readPermissions(ctx, st); err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	return r, nil
}

func words() string {
	var out []string
	for _, b := range Bys {
		out = append(out, string(b))
	}
	return strings.Join(out, ", ")
}

// maxCost is the greatest cost of a turn that is believed: sums stay finite.
const maxCost = 1e12

// apart is the name of what is in the total and in no group: turns have no tool, tool calls no provider.
const apart = "\x00"

type runKey struct {
	session, run string
	start        int64
}

type collector struct {
	o       Options
	groups  map[string]*group
	last    *group // of the turn before
	lastKey string
	tools   map[string]*tool
	prices  map[[3]string]*price // of provider, model that answered and model that was asked; nil: none
	noPrice map[[2]string]int64
	caches  map[string]bool // providers that the turns tell to cache
	runs    map[runKey]bool // that have a selected turn; nil: all
}

// group is a Group in the making.
type group struct {
	Group
	sessions                                        map[string]struct{}
	lastSession                                     string
	input, output, cacheRead, cacheWrite, reasoning []int64
	duration, modelCall, firstChunk, toolDuration   []int64
	cost                                            map[string]*Cost
	computed                                        Cost
	providers                                       map[string]bool
}

type tool struct {
	Tool
	duration []int64
}

func (c *collector) group(name string) *group {
	if c.last != nil && c.lastKey == name {
		return c.last
	}
	g := c.groups[name]
	if g == nil {
		g = &group{Group: Group{Name: name}, sessions: map[string]struct{}{}, cost: map[string]*Cost{}, providers: map[string]bool{}}
		c.groups[name] = g
	}
	c.last, c.lastKey = g, name
	return g
}

func (g *group) in(session string) {
	if session != g.lastSession || len(g.sessions) == 0 {
		g.sessions[session] = struct{}{}
		g.lastSession = session
	}
}

// newCollector returns one that has read nothing.
func newCollector(o Options) *collector {
	c := &collector{o: o, groups: map[string]*group{}, tools: map[string]*tool{}, prices: map[[3]string]*price{}, noPrice: map[[2]string]int64{}, caches: map[string]bool{}}
	if o.Query.Agent != "" || o.Query.Provider != "" || o.Query.Model != "" {
		c.runs = map[runKey]bool{}
	}
	return c
}

// query returns what selects of a table, with those columns, and those that name a run where runs are selected.
func (c *collector) query(table *store.FigureTable, columns ...string) store.FigureQuery {
	q := c.o.Query
	q.Table, q.Tool, q.Columns = table, "", columns
	if c.runs != nil {
		for _, name := range []string{"session", "run", "run_start_ns"} {
			if !slices.Contains(q.Columns, name) {
				q.Columns = append(q.Columns, name)
			}
		}
	}
	return q
}

func (c *collector) turnQuery() store.FigureQuery {
	columns := []string{
		"session", "start_ns", "end_ns", "model_call_ns", "first_chunk_ns", "provider", "failed", "attempts",
		"input", "output", "reasoning", "cache_read", "cache_write", "cost", "currency",
	}
	switch {
	case c.o.Prices != nil:
		columns = append(columns, "model", "response_model")
	case c.o.By == ByModel:
		columns = append(columns, "model")
	}
	if c.o.By == ByAgent {
		columns = append(columns, "agent")
	}
	return c.query(store.TurnTable, columns...)
}

func (c *collector) toolCallQuery() store.FigureQuery {
	columns := []string{"start_ns", "end_ns", "tool", "outcome"}
	switch c.o.By {
	case ByModel:
		columns = append(columns, "model")
	case ByAgent:
		columns = append(columns, "agent")
	case ByTool, BySession:
		columns = append(columns, "session")
	}
	return c.query(store.ToolCallTable, columns...)
}

func (c *collector) readTurns(ctx context.Context, st store.Store) error {
	for t, err := range store.Figures[session.TurnFigures](ctx, st, c.turnQuery()) {
		if err != nil {
			return err
		}
		name := ""
		switch c.o.By {
		case ByModel:
			name = t.Model
		case ByAgent:
			name = t.Agent
		case BySession:
			name = t.Session
		case ByProvider:
			name = t.Provider
		case ByTool:
			name = apart
		}
		c.turn(c.group(name), &t)
		if c.runs != nil {
			c.runs[runKey{t.Session, t.Run, t.RunStart}] = true
		}
	}
	return nil
}

func (c *collector) turn(g *group, t *session.TurnFigures) {
	g.Turns++
	g.in(t.Session)
	if t.Failed {
		g.Failed++
	}
	if t.Attempts.OK {
		g.Retries += max(0, t.Attempts.V-1)
	}
	if t.End.OK {
		g.duration = append(g.duration, t.End.V-t.Start)
	}
	known(&g.modelCall, t.ModelCall)
	known(&g.firstChunk, t.FirstChunk)
	known(&g.input, t.Input)
	known(&g.output, t.Output)
	known(&g.reasoning, t.Reasoning)
	known(&g.cacheRead, t.CacheRead)
	known(&g.cacheWrite, t.CacheWrite)
	if t.CacheRead.V > 0 || t.CacheWrite.V > 0 {
		c.caches[t.Provider] = true
	}
	g.providers[t.Provider] = true
	if t.Cost.OK && math.Abs(t.Cost.V) <= maxCost {
		m := g.cost[t.Currency]
		if m == nil {
			m = &Cost{Currency: t.Currency}
			g.cost[t.Currency] = m
		}
		m.Amount += t.Cost.V
		m.Turns++
	}
	switch {
	case !t.Input.OK:
		g.WithoutUsage++
	case c.o.Prices != nil:
		key := [3]string{t.Provider, t.ResponseModel, t.Model}
		x, ok := c.prices[key]
		if !ok {
			x = c.o.Prices.of(t)
			c.prices[key] = x
		}
		if x != nil {
			g.computed.Amount += x.cost(t)
			g.computed.Turns++
		} else {
			c.noPrice[[2]string{t.Provider, cmp.Or(t.ResponseModel, t.Model)}]++
		}
	}
}

func known(to *[]int64, v session.Opt[int64]) {
	if v.OK {
		*to = append(*to, v.V)
	}
}

func (c *collector) readToolCalls(ctx context.Context, st store.Store) error {
	for t, err := range store.Figures[session.ToolCallFigures](ctx, st, c.toolCallQuery()) {
		if err != nil {
			return err
		}
		if c.o.Query.Provider != "" && !c.runs[runKey{t.Session, t.Run, t.RunStart}] {
			continue
		}
		outcome := cmp.Or(t.Outcome, "open")
		tl := c.tools[t.Tool]
		if tl == nil {
			tl = &tool{Tool: Tool{Name: t.Tool, Outcomes: map[string]int64{}}}
			c.tools[t.Tool] = tl
		}
		tl.Calls++
		tl.Outcomes[outcome]++
		name := ""
		switch c.o.By {
		case ByModel:
			name = t.Model
		case ByAgent:
			name = t.Agent
		case BySession:
			name = t.Session
		case ByTool:
			name = t.Tool
		case ByProvider:
			name = apart
		}
		g := c.group(name)
		if c.o.By == ByTool {
			g.in(t.Session)
		}
		g.ToolCalls++
		if g.ToolOutcomes == nil {
			g.ToolOutcomes = map[string]int64{}
		}
		g.ToolOutcomes[outcome]++
		if t.End.OK {
			d := t.End.V - t.Start
			tl.duration = append(tl.duration, d)
			g.toolDuration = append(g.toolDuration, d)
		}
	}
	return nil
}

// A tally counts figures that are alike in two words, and gathers their numbers.
type tally struct {
	words   [2]string
	n       int64
	numbers [2][]int64
}

// tallies counts the figures of selected runs, the most frequent first.
func tallies[T any](c *collector, figures iter.Seq2[T, error], read func(*T) (run runKey, words [2]string, numbers [2]session.Opt[int64])) ([]*tally, error) {
	all := map[[2]string]*tally{}
	for v, err := range figures {
		if err != nil {
			return nil, err
		}
		run, words, numbers := read(&v)
		if c.runs != nil && !c.runs[run] {
			continue
		}
		t := all[words]
		if t == nil {
			t = &tally{words: words}
			all[words] = t
		}
		t.n++
		for i, n := range numbers {
			known(&t.numbers[i], n)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.n, a.n), slices.Compare(a.words[:], b.words[:]))
	}), nil
}

func (c *collector) readCompactions(ctx context.Context, st store.Store) (out []Compaction, err error) {
	all, err := tallies(c, store.Figures[session.CompactionFigures](ctx, st, c.query(store.CompactionTable, "kind", "trigger", "input_tokens", "output_tokens")), func(t *session.CompactionFigures) (runKey, [2]string, [2]session.Opt[int64]) {
		return runKey{t.Session, t.Run, t.RunStart}, [2]string{t.Kind, t.Trigger}, [2]session.Opt[int64]{t.InputTokens, t.OutputTokens}
	})
	for _, t := range all {
		out = append(out, Compaction{Kind: t.words[0], Trigger: t.words[1], N: t.n, Before: newDist(t.numbers[0]), After: newDist(t.numbers[1])})
	}
	return out, err
}

func (c *collector) readPermissions(ctx context.Context, st store.Store) (out []Permission, err error) {
	all, err := tallies(c, store.Figures[session.PermissionFigures](ctx, st, c.query(store.PermissionTable, "action", "source", "wait_ns")), func(t *session.PermissionFigures) (runKey, [2]string, [2]session.Opt[int64]) {
		return runKey{t.Session, t.Run, t.RunStart}, [2]string{t.Action, t.Source}, [2]session.Opt[int64]{t.Wait}
	})
	for _, t := range all {
		out = append(out, Permission{Action: t.words[0], Source: t.words[1], N: t.n, Wait: newDist(t.numbers[0])})
	}
	return out, err
}

// report finishes groups and sums them up.
func (c *collector) report() *Report {
	r := &Report{Format: Format, By: c.o.By}
	total := &group{sessions: map[string]struct{}{}, cost: map[string]*Cost{}, providers: map[string]bool{}}
	// In order: a sum of amounts depends on it.
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[name]
		total.add(g)
		if c.o.By == "" || name == apart {
			continue
		}
		r.Groups = append(r.Groups, c.finish(g))
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		if c.o.By == ByTool {
			return cmp.Or(cmp.Compare(b.ToolCalls, a.ToolCalls), strings.Compare(a.Name, b.Name))
		}
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Name, b.Name))
	})
	r.Total = c.finish(total)
	for _, t := range c.tools {
		t.Duration = newDist(t.duration)
		r.Tools = append(r.Tools, t.Tool)
	}
	slices.SortFunc(r.Tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name))
	})
	for key, n := range c.noPrice {
		r.NoPrice = append(r.NoPrice, NoPrice{Provider: key[0], Model: key[1], Turns: n})
	}
	slices.SortFunc(r.NoPrice, func(a, b NoPrice) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
	})
	return r
}

// add adds another group.
func (g *group) add(o *group) {
	g.Turns += o.Turns
	g.Failed += o.Failed
	g.Retries += o.Retries
	g.WithoutUsage += o.WithoutUsage
	g.ToolCalls += o.ToolCalls
	for s := range o.sessions {
		g.sessions[s] = struct{}{}
	}
	for p := range o.providers {
		g.providers[p] = true
	}
	for _, l := range [][2]*[]int64{
		{&g.input, &o.input}, {&g.output, &o.output}, {&g.cacheRead, &o.cacheRead}, {&g.cacheWrite, &o.cacheWrite}, {&g.reasoning, &o.reasoning},
		{&g.duration, &o.duration}, {&g.modelCall, &o.modelCall}, {&g.firstChunk, &o.firstChunk}, {&g.toolDuration, &o.toolDuration},
	} {
		if *l[0] == nil {
			*l[0] = slices.Clip(*l[1]) // not copied where there is one group
		} else {
			*l[0] = append(*l[0], *l[1]...)
		}
	}
	for currency, m := range o.cost {
		if g.cost[currency] == nil {
			g.cost[currency] = &Cost{Currency: currency}
		}
		g.cost[currency].Amount += m.Amount
		g.cost[currency].Turns += m.Turns
	}
	g.computed.Amount += o.computed.Amount
	g.computed.Turns += o.computed.Turns
	for outcome, n := range o.ToolOutcomes {
		if g.ToolOutcomes == nil {
			g.ToolOutcomes = map[string]int64{}
		}
		g.ToolOutcomes[outcome] += n
	}
}

// finish makes the distributions.
func (c *collector) finish(g *group) Group {
	out := g.Group
	out.Sessions = int64(len(g.sessions))
	for _, d := range []struct {
		to   **Dist
		from []int64
	}{
		{&out.Input, g.input}, {&out.Output, g.output}, {&out.CacheRead, g.cacheRead}, {&out.CacheWrite, g.cacheWrite}, {&out.Reasoning, g.reasoning},
		{&out.Duration, g.duration}, {&out.ModelCall, g.modelCall}, {&out.FirstChunk, g.firstChunk}, {&out.ToolDuration, g.toolDuration},
	} {
		*d.to = newDist(d.from)
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
	"anthropic": true, "openai": true, "deepseek": true, "azure.ai.openai": true, "gcp.gemini": true, "gcp.vertex_ai": true, "x_ai": true,
}

// Caches reports whether a provider, by the name that gen_ai.provider.name has for it, is known to cache prompts for
// all its models.
func Caches(provider string) bool { return cachingProviders[provider] }

// caching tells whether a provider of the group caches.
func (c *collector) caching(g *group) bool {
	for p := range g.providers {
		if c.caches[p] || cachingProviders[p] {
			return true
		}
	}
	return false
}
