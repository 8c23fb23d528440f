package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// The tables of figures: schema.sql says what they are, store.FigureTable which columns they have.

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

// literal writes a text of SQL, so that a terminal can show it.
func literal(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return fmt.Sprintf("CAST(x'%x' AS TEXT)", s)
}

// FigureSQL returns the statement by which the figures of a table are read, with all values written out; empty for a table that there is not.
func (s *Store) FigureSQL(table string, q store.FigureQuery) string {
	switch table {
	case store.TurnTable.Name:
		return figuresSQL(&store.TurnTable, &q)
	case store.ToolCallTable.Name:
		return figuresSQL(&store.ToolCallTable, &q)
	case store.CompactionTable.Name:
		return figuresSQL(&store.CompactionTable, &q)
	case store.PermissionTable.Name:
		return figuresSQL(&store.PermissionTable, &q)
	}
	return ""
}

func figuresSQL[T any](table *store.FigureTable[T], q *store.FigureQuery) string {
	query, args, _ := figuresQuery(table, q)
	parts := strings.Split(query, "?") // which stands for values only
	for i, a := range args {
		value := fmt.Sprint(a)
		if t, ok := a.(string); ok {
			value = literal(t)
		}
		parts[i] += value
	}
	return strings.Join(parts, "")
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
	// write changes at most some records, in a transaction, and returns how many. It fails with errOthersProject when what is there is not what was
	// read. When the transaction is committed, wrote says so.
	write(ctx context.Context, c *sql.Conn, id int64, most int) (int, error)
	wrote()
	// left is how many records are still to be changed.
	left() int
}

// figuresAtOnce is how many records one transaction changes: it holds the write lock for 10 to 20 ms.
const figuresAtOnce = 1024

// writeFigures changes records in transactions of figuresAtOnce until so few are left that the last one, which takes the session's dirty mark
// away, can do it. Until then readers may see a part of a long session.
func (s *Store) writeFigures(ctx context.Context, changes []figureChange, check, claim func(context.Context) error, id int64) error {
	for left(changes) > figuresAtOnce {
		var began time.Time
		err := s.transact(ctx, func(ctx context.Context) error {
			began = time.Now()
			if err := check(ctx); err != nil {
				return err
			}
			if err := claim(ctx); err != nil {
				return err
			}
			return s.someFigures(ctx, changes, id)
		})
		if err != nil {
			return err
		}
		wrote(changes)
		if err := sleep(ctx, time.Since(began)); err != nil { // others have their turn
			return err
		}
	}
	return nil
}

// someFigures changes at most figuresAtOnce records, in a transaction.
func (s *Store) someFigures(ctx context.Context, changes []figureChange, id int64) error {
	most := figuresAtOnce
	for _, c := range changes {
		n, err := c.write(ctx, s.conn, id, most)
		if err != nil {
			return err
		}
		most -= n
	}
	return nil
}

func left(changes []figureChange) (n int) {
	for _, c := range changes {
		n += c.left()
	}
	return n
}

func wrote(changes []figureChange) {
	for _, c := range changes {
		c.wrote()
	}
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
	there  figuresThere
	insert []T
	remove []int64 // rowids
	// What the transaction at hand did of it.
	inserted, removed int
	after             figuresThere
}

// figuresThere tells whether somebody else changed what a session has in a table.
type figuresThere struct{ rows, last int64 }

func (w *tableChange[T]) left() int { return len(w.insert) + len(w.remove) }

func (w *tableChange[T]) wrote() {
	w.insert, w.remove, w.there = w.insert[w.inserted:], w.remove[w.removed:], w.after
	w.inserted, w.removed = 0, 0
}

func (w *tableChange[T]) compare(ctx context.Context, s *Store, id int64) error {
	scanner := newFigureScanner(w.table.Columns)
	have, rowids := make([]T, 0, len(w.want)), make([]int64, 0, len(w.want))
	w.there = figuresThere{}
	for v, err := range fetch(ctx, s, "SELECT rowid, "+quoted("", w.table.Columns)+" FROM "+w.table.Name+" WHERE session = ? ORDER BY rowid", []any{id}, scanner.scan) {
		if err != nil {
			return err
		}
		n, _ := scanner.first.(int64)
		have, rowids = append(have, v), append(rowids, n)
		w.there = figuresThere{w.there.rows + 1, n}
	}
	want := make([]T, len(w.want))
	for i, v := range w.want {
		*w.table.Session(&v) = "" // the number of the session stands for it
		want[i] = v
	}
	var gone []int
	w.insert, gone = store.Changes(have, want)
	w.remove, w.after = nil, w.there
	for _, i := range gone {
		w.remove = append(w.remove, rowids[i])
	}
	return nil
}

// insertFigures is how many records one statement inserts.
const insertFigures = 16

func (w *tableChange[T]) write(ctx context.Context, c *sql.Conn, id int64, most int) (int, error) {
	w.inserted, w.removed, w.after = 0, 0, w.there
	if most <= 0 || w.left() == 0 {
		return 0, nil
	}
	var now figuresThere
	if err := c.QueryRowContext(ctx, "SELECT count(*), ifnull(max(rowid), 0) FROM "+w.table.Name+" WHERE session = ?", id).Scan(&now.rows, &now.last); err != nil {
		return 0, err
	}
	if now != w.there {
		return 0, errOthersProject
	}
	w.removed = min(most, len(w.remove))
	if err := w.delete(ctx, c, id, w.remove[:w.removed]); err != nil {
		return 0, err
	}
	w.inserted = min(most-w.removed, len(w.insert))
	if err := w.put(ctx, c, id, w.insert[:w.inserted]); err != nil {
		return 0, err
	}
	w.after.rows = now.rows - int64(w.removed) + int64(w.inserted)
	err := c.QueryRowContext(ctx, "SELECT ifnull(max(rowid), 0) FROM "+w.table.Name+" WHERE session = ?", id).Scan(&w.after.last)
	return w.removed + w.inserted, err
}

// delete deletes records, all of which are there.
func (w *tableChange[T]) delete(ctx context.Context, c *sql.Conn, id int64, rowids []int64) error {
	if len(rowids) == 0 {
		return nil
	}
	st, err := c.PrepareContext(ctx, "DELETE FROM "+w.table.Name+" WHERE rowid = ? AND session = ?")
	if err != nil {
		return err
	}
	for _, n := range rowids {
		if _, err = st.ExecContext(ctx, n, id); err != nil {
			break
		}
	}
	return errors.Join(err, st.Close())
}

// put inserts records.
func (w *tableChange[T]) put(ctx context.Context, c *sql.Conn, id int64, list []T) error {
	one := "(?" + strings.Repeat(",?", len(w.table.Columns)) + ")"
	into := "INSERT INTO " + w.table.Name + " (session, " + quoted("", w.table.Columns) + ") VALUES "
	var args []any
	for _, n := range []int{insertFigures, 1} {
		if len(list) < n {
			continue
		}
		st, err := c.PrepareContext(ctx, into+one+strings.Repeat(", "+one, n-1))
		if err != nil {
			return err
		}
		for err == nil && len(list) >= n {
			args = args[:0]
			for i := range list[:n] {
				args = appendFigures(append(args, id), w.table.Columns, &list[i])
			}
			_, err = st.ExecContext(ctx, args...)
			list = list[n:]
		}
		if err := errors.Join(err, st.Close()); err != nil {
			return err
		}
	}
	return nil
}
