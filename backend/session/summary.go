package session

import (
	"cmp"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Summary describes a session in a list. Stores keep it as a projection: it may lag, and it can be computed again.
type Summary struct {
	Key
	// Parent is the session whose run spawned this one, empty for none: that of the first run that names another
	// session.
	Parent string `json:"parent,omitempty"`
	// ForkedFrom is the session that this one was forked from, empty for none.
	ForkedFrom string              `json:"forked_from,omitempty"`
	Status     spans.SessionStatus `json:"status"`
	Agent      string              `json:"agent,omitempty"`
	AgentID    string              `json:"agent_id,omitempty"`
	// Model is the one that answered the turn that began last, else the one that it asked for.
	Model   string    `json:"model,omitempty"`
	Dialect string    `json:"dialect,omitempty"`
	Start   time.Time `json:"start"`
	Last    time.Time `json:"last"`
	Runs    int64     `json:"runs"`
	// Turns are those of the conversation. The usage is of all.
	Turns     int64 `json:"turns"`
	ToolCalls int64 `json:"tool_calls"`
	// Errors counts failed turns and tool calls, Denied denied tool calls and inputs, Defects what was not reconciled
	// (observations left out).
	Errors  int64 `json:"errors"`
	Denied  int64 `json:"denied"`
	Defects int64 `json:"defects"`
	Usage   Usage `json:"usage"`
	// Title is what the session was last named, empty when it was not, or content was not captured. Archived says
	// that it was archived: lists leave it out unless asked.
	Title    string `json:"title,omitempty"`
	Archived bool   `json:"archived,omitempty"`
	// Cost is the sum of what the loops reported of its turns and compactions, in Currency; zero and empty where none was
	// reported, or in several currencies.
	Cost     float64 `json:"cost,omitempty"`
	Currency string  `json:"currency,omitempty"`
	// HeartbeatNS is how often, in nanoseconds, the process of an open run says that it lives; 0 when none is open,
	// or none says so.
	HeartbeatNS int64 `json:"heartbeat_ns,omitempty"`
	// Settled is the status that is left once the open runs count as dead; empty where none is open, and where that
	// is aborted.
	Settled spans.SessionStatus `json:"settled,omitempty"`
	// Mapped is the version of the rules (foreign.Table.Version) that made the session of records of other programs;
	// empty where it has none.
	Mapped string `json:"-"`
	// Part says that the rows of this session belong to Parent, which shows them, or make no run: lists do not have it.
	Part bool `json:"-"`
}

// Summarize returns what a list of sessions shows of s, except Title, which takes content (Session.Title). It does
// not count groups as runs, nor observations as defects.
func Summarize(s *Session) Summary {
	sum := Summary{
		Key:    Key{Tenant: s.Tenant, ID: s.ID},
		Status: s.Status, Agent: s.Agent, AgentID: s.AgentID, Dialect: s.Dialect,
		Start: s.Start, Last: s.Last, Usage: s.Usage,
		ForkedFrom: forkedFrom(s), Archived: s.Archived(),
		HeartbeatNS: s.heartbeat(), Settled: s.settled(),
	}
	observation := map[spans.DefectCode]bool{}
	for _, d := range spans.Defects() {
		observation[d.Code] = d.Observation
	}
	defects := func(l []Defect) {
		for _, d := range l {
			if !observation[d.Code] {
				sum.Defects++
			}
		}
	}
	costs := map[string]float64{}
	var asked time.Time
	model := func(began time.Time, name string) { // the run of a sub-agent comes after turns that began later
		if name != "" && !began.Before(asked) {
			sum.Model, asked = name, began
		}
	}
	defects(s.Defects)
	for _, g := range s.Groups {
		defects(g.Defects)
	}
	for n := range s.Walk() {
		defects(*n.Defects())
		switch r, t := n.Run, n.Turn; n.Kind() {
		case KindRun:
			sum.Runs++
			model(r.Start, r.Model)
			if sum.Parent == "" && r.ParentSessionID != s.ID {
				sum.Parent = r.ParentSessionID
			}
		case KindTurn:
			if !t.Utility() {
				sum.Turns++
			}
			if t.Failed {
				sum.Errors++
			}
			if t.Cost != nil && !r.Copied { // copied runs count where they came from
				costs[t.Currency] += *t.Cost
			}
			began := t.Start
			if began.IsZero() {
				began = r.Start
			}
			if t.Utility() {
				break
			}
			model(began, cmp.Or(t.Answered, t.Model, r.Model))
		case KindCompaction:
			if c := n.Compaction; c.Cost != nil && !r.Copied {
				costs[c.Currency] += *c.Cost
			}
		case KindToolCall:
			sum.ToolCalls++
			switch n.Call.Outcome {
			case spans.OutcomeError:
				sum.Errors++
			case spans.OutcomeDenied:
				sum.Denied++
			}
		case KindPermission:
			if p := n.Permission; p.Action == spans.ActionDeny && p.Target == spans.PermissionTargetInput {
				sum.Denied++
			}
		}
	}
	for currency, cost := range costs {
		if len(costs) == 1 {
			sum.Cost, sum.Currency = cost, currency
		}
	}
	return sum
}
