package store

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// Figures reads the figures of sessions: the tables of Projection.Figures, over all sessions of a tenant. They are those of the last
// projections, and none of a session that is hidden. Order is none.
type Figures interface {
	// Turns yields turns. FigureQuery.Tool is not looked at.
	Turns(ctx context.Context, q FigureQuery) iter.Seq2[session.TurnFigures, error]
	// ToolCalls yields tool calls. FigureQuery.Provider is not looked at.
	ToolCalls(ctx context.Context, q FigureQuery) iter.Seq2[session.ToolCallFigures, error]
	// Compactions yields compactions. Only Tenant, Session, Since and Before of the query are looked at.
	Compactions(ctx context.Context, q FigureQuery) iter.Seq2[session.CompactionFigures, error]
	// Permissions yields permission evaluations. Agent, Provider and Model of the query are not looked at.
	Permissions(ctx context.Context, q FigureQuery) iter.Seq2[session.PermissionFigures, error]
}

// FigureQuery selects figures. The zero value selects all of the empty tenant. Text selects what is equal to it, empty text anything.
type FigureQuery struct {
	Tenant string
	// Session is the id of one session.
	Session string
	// Since and Before bound the time at which a thing began: at Since or later, before Before. Zero means no bound.
	Since, Before                time.Time
	Agent, Provider, Model, Tool string
	// Columns are those that are read, by the names of FigureTable and "session", unknown ones left out; the other fields of what is yielded are zero.
	// Nil means all. Fewer are faster.
	Columns []string
}

// FigureTable describes a table of figures: which columns every store has, in which order, and where they stand in T. docs/stats.md
// tells people about them.
type FigureTable[T any] struct {
	Name string
	// Start is the column of the time at which a thing began, StartOf returns where that stands.
	Start   string
	StartOf func(*T) *int64
	// Columns are all but that of the session, which stores name each in their way.
	Columns []FigureColumn[T]
	// Session returns where the id of the session stands.
	Session func(*T) *string
}

// FigureColumn is a column of a FigureTable.
type FigureColumn[T any] struct {
	Name string
	// Field returns a pointer into the record, by which both writing and reading go: *string (empty is NULL unless Always), *int64, *bool,
	// *session.Opt[int64], *session.Opt[float64] (NULL when not known).
	Field func(*T) any
	// Always says that text is never NULL.
	Always bool
	// Word says that text takes few values.
	Word bool
	// Filter is the part of a query that selects by the column; nil: none does.
	Filter func(*FigureQuery) string
}

// The tables. They are never changed at run time.
var (
	TurnTable = FigureTable[session.TurnFigures]{
		Name: "turns", Start: "start_ns", StartOf: func(t *session.TurnFigures) *int64 { return &t.Start },
		Session: func(t *session.TurnFigures) *string { return &t.Session },
		Columns: []FigureColumn[session.TurnFigures]{
			{Name: "run", Always: true, Field: func(t *session.TurnFigures) any { return &t.Run }},
			{Name: "run_start_ns", Field: func(t *session.TurnFigures) any { return &t.RunStart }},
			{Name: "turn", Field: func(t *session.TurnFigures) any { return &t.Turn }},
			{Name: "start_ns", Field: func(t *session.TurnFigures) any { return &t.Start }},
			{Name: "end_ns", Field: func(t *session.TurnFigures) any { return &t.End }},
			{Name: "model_call_ns", Field: func(t *session.TurnFigures) any { return &t.ModelCall }},
			{Name: "first_chunk_ns", Field: func(t *session.TurnFigures) any { return &t.FirstChunk }},
			{Name: "agent", Word: true, Filter: byAgent, Field: func(t *session.TurnFigures) any { return &t.Agent }},
			{Name: "provider", Word: true, Filter: byProvider, Field: func(t *session.TurnFigures) any { return &t.Provider }},
			{Name: "model", Word: true, Filter: byModel, Field: func(t *session.TurnFigures) any { return &t.Model }},
			{Name: "response_model", Word: true, Field: func(t *session.TurnFigures) any { return &t.ResponseModel }},
			{Name: "stop_reason", Word: true, Field: func(t *session.TurnFigures) any { return &t.StopReason }},
			{Name: "failed", Field: func(t *session.TurnFigures) any { return &t.Failed }},
			{Name: "error_type", Word: true, Field: func(t *session.TurnFigures) any { return &t.ErrorType }},
			{Name: "attempts", Field: func(t *session.TurnFigures) any { return &t.Attempts }},
			{Name: "input", Field: func(t *session.TurnFigures) any { return &t.Input }},
			{Name: "output", Field: func(t *session.TurnFigures) any { return &t.Output }},
			{Name: "reasoning", Field: func(t *session.TurnFigures) any { return &t.Reasoning }},
			{Name: "cache_read", Field: func(t *session.TurnFigures) any { return &t.CacheRead }},
			{Name: "cache_write", Field: func(t *session.TurnFigures) any { return &t.CacheWrite }},
			{Name: "cost", Field: func(t *session.TurnFigures) any { return &t.Cost }},
			{Name: "currency", Word: true, Field: func(t *session.TurnFigures) any { return &t.Currency }},
			{Name: "request_messages", Field: func(t *session.TurnFigures) any { return &t.RequestMessages }},
			{Name: "request_bytes", Field: func(t *session.TurnFigures) any { return &t.RequestBytes }},
			{Name: "tool_calls", Field: func(t *session.TurnFigures) any { return &t.ToolCalls }},
		},
	}
	ToolCallTable = FigureTable[session.ToolCallFigures]{
		Name: "tool_calls", Start: "start_ns", StartOf: func(t *session.ToolCallFigures) *int64 { return &t.Start },
		Session: func(t *session.ToolCallFigures) *string { return &t.Session },
		Columns: []FigureColumn[session.ToolCallFigures]{
			{Name: "run", Always: true, Field: func(t *session.ToolCallFigures) any { return &t.Run }},
			{Name: "run_start_ns", Field: func(t *session.ToolCallFigures) any { return &t.RunStart }},
			{Name: "turn", Field: func(t *session.ToolCallFigures) any { return &t.Turn }},
			{Name: "call", Always: true, Field: func(t *session.ToolCallFigures) any { return &t.Call }},
			{Name: "start_ns", Field: func(t *session.ToolCallFigures) any { return &t.Start }},
			{Name: "end_ns", Field: func(t *session.ToolCallFigures) any { return &t.End }},
			{Name: "agent", Word: true, Filter: byAgent, Field: func(t *session.ToolCallFigures) any { return &t.Agent }},
			{Name: "model", Word: true, Filter: byModel, Field: func(t *session.ToolCallFigures) any { return &t.Model }},
			{Name: "tool", Word: true, Filter: byTool, Field: func(t *session.ToolCallFigures) any { return &t.Tool }},
			{Name: "outcome", Word: true, Field: func(t *session.ToolCallFigures) any { return &t.Outcome }},
			{Name: "failed", Field: func(t *session.ToolCallFigures) any { return &t.Failed }},
		},
	}
	CompactionTable = FigureTable[session.CompactionFigures]{
		Name: "compactions", Start: "start_ns", StartOf: func(t *session.CompactionFigures) *int64 { return &t.Start },
		Session: func(t *session.CompactionFigures) *string { return &t.Session },
		Columns: []FigureColumn[session.CompactionFigures]{
			{Name: "run", Always: true, Field: func(t *session.CompactionFigures) any { return &t.Run }},
			{Name: "run_start_ns", Field: func(t *session.CompactionFigures) any { return &t.RunStart }},
			{Name: "turn", Field: func(t *session.CompactionFigures) any { return &t.Turn }},
			{Name: "start_ns", Field: func(t *session.CompactionFigures) any { return &t.Start }},
			{Name: "end_ns", Field: func(t *session.CompactionFigures) any { return &t.End }},
			{Name: "kind", Word: true, Field: func(t *session.CompactionFigures) any { return &t.Kind }},
			{Name: "trigger", Word: true, Field: func(t *session.CompactionFigures) any { return &t.Trigger }},
			{Name: "input_tokens", Field: func(t *session.CompactionFigures) any { return &t.InputTokens }},
			{Name: "output_tokens", Field: func(t *session.CompactionFigures) any { return &t.OutputTokens }},
			{Name: "messages_before", Field: func(t *session.CompactionFigures) any { return &t.MessagesBefore }},
			{Name: "messages_after", Field: func(t *session.CompactionFigures) any { return &t.MessagesAfter }},
		},
	}
	PermissionTable = FigureTable[session.PermissionFigures]{
		Name: "permission_evaluations", Start: "at_ns", StartOf: func(t *session.PermissionFigures) *int64 { return &t.At },
		Session: func(t *session.PermissionFigures) *string { return &t.Session },
		Columns: []FigureColumn[session.PermissionFigures]{
			{Name: "run", Always: true, Field: func(t *session.PermissionFigures) any { return &t.Run }},
			{Name: "run_start_ns", Field: func(t *session.PermissionFigures) any { return &t.RunStart }},
			{Name: "turn", Field: func(t *session.PermissionFigures) any { return &t.Turn }},
			{Name: "at_ns", Field: func(t *session.PermissionFigures) any { return &t.At }},
			{Name: "wait_ns", Field: func(t *session.PermissionFigures) any { return &t.Wait }},
			{Name: "tool", Word: true, Filter: byTool, Field: func(t *session.PermissionFigures) any { return &t.Tool }},
			{Name: "action", Word: true, Field: func(t *session.PermissionFigures) any { return &t.Action }},
			{Name: "source", Word: true, Field: func(t *session.PermissionFigures) any { return &t.Source }},
		},
	}
)

func byAgent(q *FigureQuery) string    { return q.Agent }
func byProvider(q *FigureQuery) string { return q.Provider }
func byModel(q *FigureQuery) string    { return q.Model }
func byTool(q *FigureQuery) string     { return q.Tool }

// Chosen returns the columns that q asks for, and whether the id of the session is among them.
func (t *FigureTable[T]) Chosen(q *FigureQuery) (columns []FigureColumn[T], id bool) {
	if q.Columns == nil {
		return t.Columns, true
	}
	for _, c := range t.Columns {
		if slices.Contains(q.Columns, c.Name) {
			columns = append(columns, c)
		}
	}
	return columns, slices.Contains(q.Columns, "session")
}

// Conditions returns what q asks of columns, in their order: a column with a text that it must be equal to.
func (t *FigureTable[T]) Conditions(q *FigureQuery) (names, values []string) {
	for _, c := range t.Columns {
		if c.Filter != nil && c.Filter(q) != "" {
			names, values = append(names, c.Name), append(values, c.Filter(q))
		}
	}
	return names, values
}

// Changes returns what is to be written and deleted so that have becomes want: records of want that have does not hold, and of have, by their
// index, those that want does not. Equal records count as often as they are there. What it returns may be a part of want.
// It is quick where both begin alike, as they do when a session grows.
func Changes[T comparable](have, want []T) (write []T, gone []int) {
	same := 0
	for same < len(have) && same < len(want) && have[same] == want[same] {
		same++
	}
	if have, want = have[same:], want[same:]; len(have) == 0 {
		return want, nil
	}
	left := make(map[T]int, len(have))
	for _, v := range have {
		left[v]++
	}
	for _, v := range want {
		if left[v] > 0 {
			left[v]--
		} else {
			write = append(write, v)
		}
	}
	for i, v := range have {
		if left[v] > 0 {
			left[v]--
			gone = append(gone, same+i)
		}
	}
	return write, gone
}
