package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
)

// The tables of figures: schema5.sql says what they are, store.FigureTable which columns they have.

// quoted returns the names of columns as a list of SQL, with from before each.
func quoted[T any](from string, columns []store.FigureColumn[T]) string {
	var out []string
	for _, c := range columns {
		out = append(out, from+`"`+c.Name+`"`)
	}
	return strings.Join(out, ", ")
}

// appendFigures appends the values of columns.
func appendFigures[T any](args []any, columns []store.FigureColumn[T], v *T) []any {
	for i := range columns {
		c := &columns[i]
		var arg any // NULL
		switch f := c.Field(v).(type) {
		case *string:
			if *f != "" || c.Always {
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
		args = append(args, arg)
	}
	return args
}

// A figureScanner reads records of one table, from a result that has one more column before those.
type figureScanner[T any] struct {
	columns []store.FigureColumn[T]
	first   any // the column before them
	values  []any
	to      []any
}

func newFigureScanner[T any](columns []store.FigureColumn[T]) *figureScanner[T] {
	s := &figureScanner[T]{columns: columns, values: make([]any, len(columns))}
	s.to = append(s.to, &s.first)
	for i := range s.values {
		s.to = append(s.to, &s.values[i])
	}
	return s
}

// scan reads a row of the result. STRICT tables have no values of another type than the column.
func (s *figureScanner[T]) scan(rows *sql.Rows) (v T, err error) {
	if err := rows.Scan(s.to...); err != nil {
		return v, err
	}
	for i := range s.columns {
		switch f := s.columns[i].Field(&v).(type) {
		case *string:
			*f, _ = s.values[i].(string)
		case *int64:
			*f, _ = s.values[i].(int64)
		case *bool:
			n, _ := s.values[i].(int64)
			*f = n != 0
		case *session.Opt[int64]:
			f.V, f.OK = s.values[i].(int64)
		case *session.Opt[float64]:
			f.V, f.OK = s.values[i].(float64)
		}
	}
	return v, nil
}

// figuresQuery returns what the methods of store.Figures ask.
func figuresQuery[T any](table *store.FigureTable[T], q *store.FigureQuery) (query string, args []any, columns []store.FigureColumn[T]) {
	columns, id := table.Chosen(q)
	list := "NULL"
	if id {
		list = "s.id"
	}
	if len(columns) > 0 {
		list += ", " + quoted("f.", columns)
	}
	// All figures, and for each its session: the other way round they would be read in the order of sessions, not of the file.
	query = "SELECT " + list + "\nFROM " + table.Name + " f CROSS JOIN sessions s ON s.session = f.session\nWHERE s.tenant = ?"
	args = []any{q.Tenant}
	and := func(cond string, value any) { query, args = query+" AND "+cond, append(args, value) }
	if q.Session != "" {
		query += " AND f.session = (SELECT session FROM sessions WHERE tenant = ? AND id = ?)"
		args = append(args, q.Tenant, q.Session)
	}
	if !q.Since.IsZero() {
		and("f."+table.Start+" >= ?", q.Since.UnixNano())
	}
	if !q.Before.IsZero() {
		and("f."+table.Start+" < ?", q.Before.UnixNano())
	}
	names, values := table.Conditions(q)
	for i, name := range names {
		and(`f."`+name+`" = ?`, values[i])
	}
	return query, args, columns
}

func figures[T any](ctx context.Context, s *Store, table *store.FigureTable[T], q store.FigureQuery) iter.Seq2[T, error] {
	query, args, columns := figuresQuery(table, &q)
	scanner := newFigureScanner(columns)
	return each(ctx, s, "read "+table.Name, query, args, func(rows *sql.Rows) (T, error) {
		v, err := scanner.scan(rows)
		*table.Session(&v), _ = scanner.first.(string)
		return v, err
	})
}

// FigureSQL returns the statement by which the figures of a table are read, with all values written out; empty for a table that there is not.
func (s *Store) FigureSQL(table string, q store.FigureQuery) string {
	text := func(query string, args []any) string {
		for _, a := range args {
			value := fmt.Sprint(a)
			if t, ok := a.(string); ok {
				value = "'" + strings.ReplaceAll(t, "'", "''") + "'"
			}
			query = strings.Replace(query, "?", strings.ReplaceAll(value, "?", "\x00"), 1)
		}
		return strings.ReplaceAll(query, "\x00", "?")
	}
	switch table {
	case store.TurnTable.Name:
		query, args, _ := figuresQuery(&store.TurnTable, &q)
		return text(query, args)
	case store.ToolCallTable.Name:
		query, args, _ := figuresQuery(&store.ToolCallTable, &q)
		return text(query, args)
	case store.CompactionTable.Name:
		query, args, _ := figuresQuery(&store.CompactionTable, &q)
		return text(query, args)
	case store.PermissionTable.Name:
		query, args, _ := figuresQuery(&store.PermissionTable, &q)
		return text(query, args)
	}
	return ""
}

// Turns implements store.Figures.
func (s *Store) Turns(ctx context.Context, q store.FigureQuery) iter.Seq2[session.TurnFigures, error] {
	return figures(ctx, s, &store.TurnTable, q)
}

// ToolCalls implements store.Figures.
func (s *Store) ToolCalls(ctx context.Context, q store.FigureQuery) iter.Seq2[session.ToolCallFigures, error] {
	return figures(ctx, s, &store.ToolCallTable, q)
}

// Compactions implements store.Figures.
func (s *Store) Compactions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.CompactionFigures, error] {
	return figures(ctx, s, &store.CompactionTable, q)
}

// Permissions implements store.Figures.
func (s *Store) Permissions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.PermissionFigures, error] {
	return figures(ctx, s, &store.PermissionTable, q)
}

// A figureChange is what a projection changes in one table of figures.
type figureChange interface {
	// compare reads what is there of a session and finds what changes.
	compare(ctx context.Context, s *Store, id int64) error
	// write changes it, in a transaction. It fails with errOthersProject when what is there is not what was read.
	write(ctx context.Context, c *sql.Conn, id int64) error
}

// figureChanges are those of all tables, with what is to be there.
func figureChanges(f *session.Figures) []figureChange {
	return []figureChange{
		&tableChange[session.TurnFigures]{table: &store.TurnTable, want: f.Turns},
		&tableChange[session.ToolCallFigures]{table: &store.ToolCallTable, want: f.ToolCalls},
		&tableChange[session.CompactionFigures]{table: &store.CompactionTable, want: f.Compactions},
		&tableChange[session.PermissionFigures]{table: &store.PermissionTable, want: f.Permissions},
	}
}

type tableChange[T comparable] struct {
	table  *store.FigureTable[T]
	want   []T
	before struct{ rows, last int64 } // what was there
	insert []T
	remove []int64 // rowids
}

func (w *tableChange[T]) compare(ctx context.Context, s *Store, id int64) error {
	scanner := newFigureScanner(w.table.Columns)
	var have []T
	var rowids []int64
	w.before.rows, w.before.last = 0, 0
	for v, err := range fetch(ctx, s, "SELECT rowid, "+quoted("", w.table.Columns)+" FROM "+w.table.Name+" WHERE session = ?", []any{id}, scanner.scan) {
		if err != nil {
			return err
		}
		n, _ := scanner.first.(int64)
		have, rowids = append(have, v), append(rowids, n)
		w.before.rows, w.before.last = w.before.rows+1, max(w.before.last, n)
	}
	want := make([]T, len(w.want))
	for i, v := range w.want {
		*w.table.Session(&v) = "" // the number of the session stands for it
		want[i] = v
	}
	var gone []int
	w.insert, gone = store.Changes(have, want)
	w.remove = w.remove[:0]
	for _, i := range gone {
		w.remove = append(w.remove, rowids[i])
	}
	return nil
}

// insertFigures is how many records one statement inserts.
const insertFigures = 16

func (w *tableChange[T]) write(ctx context.Context, c *sql.Conn, id int64) error {
	if len(w.insert)+len(w.remove) == 0 {
		return nil
	}
	now := w.before
	if err := c.QueryRowContext(ctx, "SELECT count(*), ifnull(max(rowid), 0) FROM "+w.table.Name+" WHERE session = ?", id).Scan(&now.rows, &now.last); err != nil {
		return err
	}
	if now != w.before {
		return errOthersProject
	}
	for _, n := range w.remove {
		if _, err := c.ExecContext(ctx, "DELETE FROM "+w.table.Name+" WHERE rowid = ? AND session = ?", n, id); err != nil {
			return err
		}
	}
	one := "(?" + strings.Repeat(",?", len(w.table.Columns)) + ")"
	into := "INSERT INTO " + w.table.Name + " (session, " + quoted("", w.table.Columns) + ") VALUES "
	var args []any
	insert := func(st *sql.Stmt, some []T) error {
		args = args[:0]
		for i := range some {
			args = appendFigures(append(args, id), w.table.Columns, &some[i])
		}
		_, err := st.ExecContext(ctx, args...)
		return err
	}
	for _, n := range []int{insertFigures, 1} {
		if len(w.insert) < n {
			continue
		}
		st, err := c.PrepareContext(ctx, into+one+strings.Repeat(", "+one, n-1))
		if err != nil {
			return err
		}
		for err == nil && len(w.insert) >= n {
			err = insert(st, w.insert[:n])
			w.insert = w.insert[n:]
		}
		if err := errors.Join(err, st.Close()); err != nil {
			return err
		}
	}
	return nil
}
