package memstore

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// of returns figures as those of the session k.
func of[T any](table *store.FigureTable[T], k session.Key, l []T) []T {
	l = slices.Clone(l)
	for i := range l {
		*table.Session(&l[i]) = k.ID
	}
	return l
}

// figures yields those of one table that q selects.
func figures[T any](ctx context.Context, s *Store, table *store.FigureTable[T], q store.FigureQuery, what string, list func(*session.Figures) []T) iter.Seq2[T, error] {
	since, before := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		since = q.Since.UnixNano()
	}
	if !q.Before.IsZero() {
		before = q.Before.UnixNano()
	}
	chosen, id := table.Chosen(&q)
	selects := func(v *T) bool {
		if at := *table.StartOf(v); at < since || at >= before && !q.Before.IsZero() {
			return false
		}
		for _, c := range table.Columns {
			if c.Filter != nil && c.Filter(&q) != "" && c.Filter(&q) != *c.Field(v).(*string) {
				return false
			}
		}
		return true
	}
	return each(ctx, s, what, func() (out []T) {
		for k, e := range s.sessions {
			if k.Tenant != q.Tenant || q.Session != "" && k.ID != q.Session {
				continue
			}
			for _, v := range list(&e.figures) {
				if !selects(&v) {
					continue
				}
				if q.Columns != nil {
					all := v
					v = *new(T)
					for _, c := range chosen {
						assign(c.Field(&v), c.Field(&all))
					}
					if id {
						*table.Session(&v) = k.ID
					}
				}
				out = append(out, v)
			}
		}
		return out
	})
}

// assign copies what a column points to.
func assign(to, from any) {
	switch to := to.(type) {
	case *string:
		*to = *from.(*string)
	case *int64:
		*to = *from.(*int64)
	case *bool:
		*to = *from.(*bool)
	case *session.Opt[int64]:
		*to = *from.(*session.Opt[int64])
	case *session.Opt[float64]:
		*to = *from.(*session.Opt[float64])
	}
}

// Turns implements store.Figures.
func (s *Store) Turns(ctx context.Context, q store.FigureQuery) iter.Seq2[session.TurnFigures, error] {
	return figures(ctx, s, &store.TurnTable, q, "read turns", func(f *session.Figures) []session.TurnFigures { return f.Turns })
}

// ToolCalls implements store.Figures.
func (s *Store) ToolCalls(ctx context.Context, q store.FigureQuery) iter.Seq2[session.ToolCallFigures, error] {
	return figures(ctx, s, &store.ToolCallTable, q, "read tool calls", func(f *session.Figures) []session.ToolCallFigures { return f.ToolCalls })
}

// Compactions implements store.Figures.
func (s *Store) Compactions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.CompactionFigures, error] {
	return figures(ctx, s, &store.CompactionTable, q, "read compactions", func(f *session.Figures) []session.CompactionFigures { return f.Compactions })
}

// Permissions implements store.Figures.
func (s *Store) Permissions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.PermissionFigures, error] {
	return figures(ctx, s, &store.PermissionTable, q, "read permission evaluations", func(f *session.Figures) []session.PermissionFigures { return f.Permissions })
}
