package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// figuresQuery returns what Figures asks.
func figuresQuery(q *store.FigureQuery) (query string, args []any) {
	table := q.From()
	columns, id := table.Chosen(q)
	list := "NULL"
	if id {
		list = "s.id"
	}
	for _, i := range columns {
		list += `, f."` + table.Columns[i].Name + `"`
	}
	// All figures, and for each its session: the other way round they would be read in the order of sessions, not of
	// the file.
	query = "SELECT " + list + " FROM " + table.Name +
		" f CROSS JOIN sessions s ON s.session = f.session WHERE s.tenant = ?"
	args = []any{q.Tenant}
	and := func(cond string, values ...any) { query, args = query+" AND "+cond, append(args, values...) }
	if q.Session != "" {
		and("f.session = (SELECT session FROM sessions WHERE tenant = ? AND id = ?)", q.Tenant, q.Session)
	}
	if !q.Since.IsZero() {
		and("f."+table.Start+" >= ?", q.Since.UnixNano())
	}
	for _, c := range table.Conditions(q) {
		and(`f."`+table.Columns[c.Column].Name+`" = ?`, c.Text)
	}
	return query, args
}

// Figures implements store.Store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	query, args := figuresQuery(&q)
	record := q.From().New()
	columns, _ := q.From().Chosen(&q)
	values, to := scanned(1 + len(columns))
	return each(ctx, s, "read "+q.From().Name, query, args, func(rows *sql.Rows) (any, error) {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		fillFigures(record, columns, values)
		return record.Pointer, nil
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

// fillFigures sets the session and the given columns of a record. STRICT tables have no values of another type than the
// column.
func fillFigures(record *store.FigureRecord, columns []int, values []any) {
	record.Clear()
	*record.Session, _ = values[0].(string)
	for n, i := range columns {
		switch f := record.Fields[i].(type) {
		case *string:
			*f, _ = values[n+1].(string)
		case *int64:
			*f, _ = values[n+1].(int64)
		case *bool:
			*f = values[n+1] == int64(1)
		case *session.Opt[int64]:
			f.V, f.OK = values[n+1].(int64)
		case *session.Opt[float64]:
			f.V, f.OK = values[n+1].(float64)
		}
	}
}

// sameFigures is how many of the first records of each table a session has already, as of one summary.
type sameFigures struct {
	projected int64
	leading   map[*store.FigureTable]int
}

func (s *Store) sameFigures(ctx context.Context, k session.Key, f *session.Figures) (sameFigures, error) {
	same := sameFigures{leading: map[*store.FigureTable]int{}}
	var id int64
	for n, err := range fetch(ctx, s, `SELECT session, projected FROM sessions WHERE tenant = ? AND id = ?`,
		[]any{k.Tenant, k.ID}, func(rows *sql.Rows) (n [2]int64, err error) {
			err = rows.Scan(&n[0], &n[1])
			return n, err
		}) {
		if err != nil {
			return same, err
		}
		id, same.projected = n[0], n[1]
	}
	for _, table := range store.FigureTables {
		columns, _ := table.Chosen(&store.FigureQuery{})
		record := table.New()
		values, to := scanned(1 + len(columns))
		next, stop := iter.Pull(table.Of(f))
		query := `SELECT NULL, "` + strings.Join(table.Names(), `", "`) + `" FROM ` + table.Name +
			` WHERE session = ? ORDER BY rowid`
		for _, err := range fetch(ctx, s, query, []any{id}, func(rows *sql.Rows) (none struct{}, err error) {
			return none, rows.Scan(to...)
		}) {
			if err != nil {
				stop()
				return same, err
			}
			fillFigures(record, columns, values)
			if r, ok := next(); !ok || !record.Equal(r) {
				break
			}
			same.leading[table]++
		}
		stop()
	}
	return same, nil
}

// insertFigures is how many records one statement inserts.
const insertFigures = 16

// replaceFigures replaces the figures of a session but the leading ones of each table, inside a transaction.
func replaceFigures(ctx context.Context, c *sql.Conn, id int64, f *session.Figures,
	leading map[*store.FigureTable]int) error {
	for _, table := range store.FigureTables {
		if _, err := c.ExecContext(ctx, "DELETE FROM "+table.Name+" WHERE rowid IN (SELECT rowid FROM "+table.Name+
			" WHERE session = ? ORDER BY rowid LIMIT -1 OFFSET ?)", id, leading[table]); err != nil {
			return err
		}
		w, n := figureWriter{ctx: ctx, conn: c, table: table}, 0
		for r := range table.Of(f) {
			if n++; n <= leading[table] {
				continue
			}
			if err := w.add(id, r); err != nil {
				return err
			}
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

// figureWriter inserts records of one table, insertFigures at a time.
type figureWriter struct {
	ctx   context.Context //nolint:containedctx // of one transaction
	conn  *sql.Conn
	table *store.FigureTable
	many  *sql.Stmt
	args  []any
	n     int
}

func (w *figureWriter) add(id int64, r *store.FigureRecord) error {
	w.args = append(w.args, id)
	for i, f := range r.Fields {
		var arg any // NULL
		switch f := f.(type) {
		case *string:
			if *f != "" || w.table.Columns[i].Key {
				arg = *f
			}
		case *int64:
			arg = *f
		case *bool:
			arg = *f
		case *session.Opt[int64]:
			if f.OK {
				arg = f.V
			}
		case *session.Opt[float64]:
			if f.OK {
				arg = f.V
			}
		}
		w.args = append(w.args, arg)
	}
	if w.n++; w.n < insertFigures {
		return nil
	}
	var err error
	if w.many == nil {
		w.many, err = w.conn.PrepareContext(w.ctx, w.insert(insertFigures))
	}
	if err == nil {
		_, err = w.many.ExecContext(w.ctx, w.args...)
	}
	w.args, w.n = w.args[:0], 0
	return err
}

func (w *figureWriter) insert(n int) string {
	one := "(?" + strings.Repeat(",?", len(w.table.Columns)) + ")"
	return "INSERT INTO " + w.table.Name + ` (session, "` + strings.Join(w.table.Names(), `", "`) + `") VALUES ` + one +
		strings.Repeat(","+one, n-1)
}

// flush inserts the rest.
func (w *figureWriter) flush() (err error) {
	if w.n > 0 {
		_, err = w.conn.ExecContext(w.ctx, w.insert(w.n), w.args...)
	}
	if w.many != nil {
		err = errors.Join(err, w.many.Close())
	}
	return err
}
