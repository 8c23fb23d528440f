package memstore

import (
	"context"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// Figures implements store.Store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	table := q.From()
	since := int64(math.MinInt64)
	if !q.Since.IsZero() {
		since = store.RankOf(q.Since)
	}
	columns, conditions := table.Chosen(&q), table.Conditions(&q)
	start := slices.Index(table.Columns, table.Start)
	return each(ctx, s, "read "+table.Name, func() (out []any) {
		for k, e := range s.sessions {
			if k.Tenant != q.Tenant {
				continue
			}
			for fields := range table.Of(&e.figures) {
				selected := *fields[start].(*int64) >= since
				for column, text := range conditions {
					selected = selected && *fields[column].(*string) == text
				}
				if !selected {
					continue
				}
				record, to := table.New()
				for _, i := range columns {
					reflect.ValueOf(to[i]).Elem().Set(reflect.ValueOf(fields[i]).Elem())
				}
				out = append(out, record)
			}
		}
		return out
	})
}

// clone returns a copy of f, with the session that the store sets.
func clone(f session.Figures, id string) session.Figures {
	f = session.Figures{
		Turns: slices.Clone(f.Turns), ToolCalls: slices.Clone(f.ToolCalls),
		Compactions: slices.Clone(f.Compactions), Permissions: slices.Clone(f.Permissions),
	}
	for _, table := range store.FigureTables {
		for fields := range table.Of(&f) {
			*fields[0].(*string) = id
		}
	}
	return f
}
