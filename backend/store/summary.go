package store

import (
	"context"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

// SummaryColumns are the columns in which a store keeps a session.Summary, but for its Key. People query them
// (docs/queries.md).
var SummaryColumns = strings.Fields(`parent status agent agent_id model dialect start_ns last_ns
	runs turns tool_calls errors denied defects input output reasoning cache_read cache_write lower_bound
	forked_from title archived cost currency heartbeat_ns settled mapped part`)

// SummaryFields returns the fields of m in the order of SummaryColumns: *string, *spans.SessionStatus, *time.Time,
// *int64, *float64 or *bool.
func SummaryFields(m *session.Summary) []any {
	return []any{
		&m.Parent, &m.Status, &m.Agent, &m.AgentID, &m.Model, &m.Dialect, &m.Start, &m.Last,
		&m.Runs, &m.Turns, &m.ToolCalls, &m.Errors, &m.Denied, &m.Defects,
		&m.Usage.Input, &m.Usage.Output, &m.Usage.Reasoning, &m.Usage.CacheRead, &m.Usage.CacheWrite,
		&m.Usage.LowerBound,
		&m.ForkedFrom, &m.Title, &m.Archived, &m.Cost, &m.Currency, &m.HeartbeatNS, &m.Settled,
		&m.Mapped, &m.Part,
	}
}

// Stale returns the sessions of all tenants that were Put to since their last projection.
func Stale(ctx context.Context, st Store) (keys []session.Key, err error) {
	for m, err := range st.Sessions(ctx, Query{AllTenants: true, Stale: true}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, m.Key)
	}
	return keys, nil
}
