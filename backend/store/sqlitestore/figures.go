package sqlitestore

import (
	"context"
	"database/sql"
	"iter"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// figuresQuery returns what Figures asks.
func figuresQuery(q *store.FigureQuery) (query string, args []any) {
	table := q.From()
	column := func(i int) string {
		if i == 0 {
			return "s.id"
		}
		return `f."` + table.Columns[i] + `"`
	}
	list := []string{"NULL"}
	for _, i := range table.Chosen(q) {
		list = append(list, column(i))
	}
	// All figures, and for each its session: the other way round they would be read in the order of sessions, not of
	// the file.
	query = "SELECT " + strings.Join(list, ", ") + " FROM " + table.Name +
		" f CROSS JOIN sessions s ON s.session = f.session WHERE s.tenant = ?"
	args = []any{q.Tenant}
	and := func(cond string, values ...any) { query, args = query+" AND "+cond, append(args, values...) }
	if !q.Since.IsZero() {
		and("f."+table.Start+" >= ?", store.RankOf(q.Since))
	}
	for i, text := range table.Conditions(q) {
		if i == 0 {
			and("f.session = (SELECT session FROM sessions WHERE tenant = ? AND id = ?)", q.Tenant, text)
		} else {
			and(column(i)+" = ?", text)
		}
	}
	return query, args
}

// Figures implements store.Store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	query, args := figuresQuery(&q)
	table := q.From()
	columns := table.Chosen(&q)
	record, fields := table.New()
	values, to := scanned(1 + len(columns))
	return each(ctx, s, "read "+table.Name, query, args, func(rows *sql.Rows) (any, error) {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for n, i := range columns {
			fromColumn(fields[i], values[n+1])
		}
		return record, nil
	})
}

// scanned returns n values, and pointers to them for Scan.
func scanned(n int) (values, to []any) {
	values, to = make([]any, n), make([]any, n)
	for i := range values {
		to[i] = &values[i]
	}
	return values, to
}

// fromColumn sets a field of a summary or of figures. STRICT tables have no values of another type than the column.
func fromColumn(field, value any) {
	n, isInt := value.(int64)
	switch f := field.(type) {
	case *string:
		*f, _ = value.(string)
	case *spans.SessionStatus:
		text, _ := value.(string)
		*f = spans.SessionStatus(text)
	case *int64:
		*f = n
	case *float64:
		*f, _ = value.(float64)
	case *bool:
		*f = n == 1
	case *time.Time:
		if isInt {
			*f = time.Unix(0, n).UTC()
		}
	case *session.Opt[int64]:
		f.V, f.OK = n, isInt
	case *session.Opt[float64]:
		f.V, f.OK = value.(float64)
	}
}

// toColumn returns what fromColumn takes: NULL for what is not known, and with nullable for empty text.
func toColumn(field any, nullable bool) any {
	switch f := field.(type) {
	case *string:
		if *f != "" || !nullable {
			return *f
		}
	case *spans.SessionStatus:
		return string(*f)
	case *int64:
		return *f
	case *float64:
		return *f
	case *bool:
		return *f
	case *time.Time:
		if !f.IsZero() {
			return f.UnixNano()
		}
	case *session.Opt[int64]:
		if f.OK {
			return f.V
		}
	case *session.Opt[float64]:
		if f.OK {
			return f.V
		}
	}
	return nil
}

// replaceFigures replaces the figures of a session, inside a transaction.
func (s *Store) replaceFigures(ctx context.Context, id int64, f *session.Figures) error {
	for _, table := range store.FigureTables {
		if _, err := s.exec(ctx, "DELETE FROM "+table.Name+" WHERE session = ?", id); err != nil {
			return err
		}
		insert := "INSERT INTO " + table.Name + ` ("` + strings.Join(table.Columns, `", "`) + `") VALUES (?` +
			strings.Repeat(",?", len(table.Columns)-1) + ")"
		args := make([]any, len(table.Columns))
		for fields := range table.Of(f) {
			args[0] = id
			for i, field := range fields[1:] {
				args[i+1] = toColumn(field, table.Nullable(i+1))
			}
			if _, err := s.exec(ctx, insert, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
