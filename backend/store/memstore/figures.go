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
		since = q.Since.UnixNano()
	}
	columns, id := table.Chosen(&q)
	conditions := table.Conditions(&q)
	selects := func(r *store.FigureRecord) bool {
		for i, c := range table.Columns {
			if at, _ := r.Fields[i].(*int64); c.Name == table.Start && *at < since {
				return false
			}
		}
		for _, c := range conditions {
			if *r.Fields[c.Column].(*string) != c.Text {
				return false
			}
		}
		return true
	}
	return each(ctx, s, "read "+table.Name, func() (out []any) {
		for k, e := range s.sessions {
			if k.Tenant != q.Tenant || q.Session != "" && k.ID != q.Session {
				continue
			}
			for r := range table.Of(&e.figures) {
				if !selects(r) {
					continue
				}
				to := table.New()
				for _, i := range columns {
					reflect.ValueOf(to.Fields[i]).Elem().Set(reflect.ValueOf(r.Fields[i]).Elem())
				}
				if id {
					*to.Session = k.ID
				}
				out = append(out, to.Pointer)
			}
		}
		return out
	})
}

// clone returns a copy of f.
func clone(f session.Figures) session.Figures {
	return session.Figures{
		Turns: slices.Clone(f.Turns), ToolCalls: slices.Clone(f.ToolCalls),
		Compactions: slices.Clone(f.Compactions), Permissions: slices.Clone(f.Permissions),
	}
}
