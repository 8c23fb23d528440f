package clickhousestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
)

// Figures stand in two things each: a table whose name ends in _raw, to which projections add what is new and what is gone, and a view that
// shows what is there, with the columns that people query (docs/stats.md). A projection compares hashes of what is there with its own, so that
// one new turn of a long session is one row.

// figureKinds are the kinds of figures.
var (
	turnFigures       = newFigureKind(&store.TurnTable)
	toolCallFigures   = newFigureKind(&store.ToolCallTable)
	compactionFigures = newFigureKind(&store.CompactionTable)
	permissionFigures = newFigureKind(&store.PermissionTable)

	// figureTables are the tables of all kinds, and views what shows them.
	figureTables = []*table{turnFigures.raw, toolCallFigures.raw, compactionFigures.raw, permissionFigures.raw}
	figureViews  = []func(*Store) string{turnFigures.view, toolCallFigures.view, compactionFigures.view, permissionFigures.view}
)

type figureKind[T any] struct {
	of  *store.FigureTable[T]
	raw *table
}

func newFigureKind[T any](of *store.FigureTable[T]) *figureKind[T] {
	t := &table{
		name: of.Name + "_raw", version: "mark", partition: strings.ReplaceAll(rowPartition, "start_ns", of.Start), order: "tenant, session, " + of.Start + ", content",
		granularity: 8192, shard: bySession, ttl: true,
	}
	t.columns = append(t.columns, column{"tenant", "String", words}, column{"session", "String", "String" + zstd})
	for _, c := range of.Columns {
		t.columns = append(t.columns, columnOf(&c))
	}
	t.columns = append(t.columns, column{"content", "UInt64", ""}, // a hash of the columns before
		column{"removed", "UInt8", "UInt8" + zstd}, // 1: that is not there any more
		column{"mark", "UInt64", "UInt64" + zstd}, column{"at", "UInt64", "UInt64" + zstd})
	return &figureKind[T]{of, t}
}

func columnOf[T any](c *store.FigureColumn[T]) column {
	typ := ""
	switch c.Field(new(T)).(type) {
	case *string:
		switch {
		case c.Always:
			typ = "String"
		case c.Word:
			return column{c.Name, "Nullable(String)", "LowCardinality(Nullable(String))" + zstd}
		default:
			typ = "Nullable(String)"
		}
	case *int64:
		typ = "Int64"
	case *bool:
		typ = "UInt8"
	case *session.Opt[int64]:
		typ = "Nullable(Int64)"
	case *session.Opt[float64]:
		typ = "Nullable(Float64)"
	}
	return column{c.Name, typ, typ + zstd}
}

// view returns the statement that makes the view.
func (f *figureKind[T]) view(s *Store) string {
	names := []string{"tenant", "session"}
	for _, c := range f.of.Columns {
		names = append(names, "`"+c.Name+"`")
	}
	l := s.layout
	return fmt.Sprintf("CREATE VIEW IF NOT EXISTS `%s`.`%s`%s AS SELECT %s FROM %s FINAL WHERE removed = 0 AND (tenant, session) GLOBAL NOT IN (SELECT tenant, session FROM (%s) WHERE done = 0)",
		l.database, f.of.Name, l.onCluster(), strings.Join(names, ", "), l.of(f.raw), s.deletions(""))
}

// query returns what Turns and the like ask behind the columns.
func (f *figureKind[T]) query(database string, q *store.FigureQuery) string {
	rest := "FROM `" + database + "`.`" + f.of.Name + "` WHERE tenant = " + literal(q.Tenant)
	if q.Session != "" {
		rest += " AND session = " + literal(q.Session)
	}
	if !q.Since.IsZero() {
		rest += fmt.Sprintf(" AND %s >= toInt64('%d')", f.of.Start, q.Since.UnixNano())
	}
	if !q.Before.IsZero() {
		rest += fmt.Sprintf(" AND %s < toInt64('%d')", f.of.Start, q.Before.UnixNano())
	}
	names, values := f.of.Conditions(q)
	for i, name := range names {
		rest += " AND `" + name + "` = " + literal(values[i])
	}
	return rest
}

// list returns the columns that q asks for, the session's id before them.
func (f *figureKind[T]) list(q *store.FigureQuery) (string, []store.FigureColumn[T]) {
	columns, id := f.of.Chosen(q)
	names := []string{"''"}
	if id {
		names[0] = "session"
	}
	for _, c := range columns {
		names = append(names, "`"+c.Name+"`")
	}
	return strings.Join(names, ", "), columns
}

// FigureSQL returns the statement by which the figures of a table are read, with all values written out; empty for a table that there is not.
func (s *Store) FigureSQL(table string, q store.FigureQuery) string {
	for _, f := range []interface {
		sql(database, table string, q *store.FigureQuery) string
	}{turnFigures, toolCallFigures, compactionFigures, permissionFigures} {
		if text := f.sql(s.layout.database, table, &q); text != "" {
			return text
		}
	}
	return ""
}

func (f *figureKind[T]) sql(database, table string, q *store.FigureQuery) string {
	if table != f.of.Name {
		return ""
	}
	list, _ := f.list(q)
	return "SELECT " + list + "\n" + f.query(database, q)
}

func (f *figureKind[T]) read(ctx context.Context, s *Store, q store.FigureQuery) iter.Seq2[T, error] {
	list, columns := f.list(&q)
	return each(ctx, s, "read "+f.of.Name, list, f.query(s.layout.database, &q), func(r *reader) (v T) {
		*f.of.Session(&v) = r.str()
		for i := range columns {
			switch to := columns[i].Field(&v).(type) {
			case *string:
				if columns[i].Always || r.u8() == 0 {
					*to = r.str()
				}
			case *int64:
				*to = r.i64()
			case *bool:
				*to = r.u8() != 0
			case *session.Opt[int64]:
				if r.u8() == 0 {
					*to = session.Some(r.i64())
				}
			case *session.Opt[float64]:
				if r.u8() == 0 {
					*to = session.Some(math.Float64frombits(r.u64()))
				}
			}
		}
		return v
	})
}

// Turns implements store.Figures.
func (s *Store) Turns(ctx context.Context, q store.FigureQuery) iter.Seq2[session.TurnFigures, error] {
	return turnFigures.read(ctx, s, q)
}

// ToolCalls implements store.Figures.
func (s *Store) ToolCalls(ctx context.Context, q store.FigureQuery) iter.Seq2[session.ToolCallFigures, error] {
	return toolCallFigures.read(ctx, s, q)
}

// Compactions implements store.Figures.
func (s *Store) Compactions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.CompactionFigures, error] {
	return compactionFigures.read(ctx, s, q)
}

// Permissions implements store.Figures.
func (s *Store) Permissions(ctx context.Context, q store.FigureQuery) iter.Seq2[session.PermissionFigures, error] {
	return permissionFigures.read(ctx, s, q)
}

// encode appends the columns of a record.
func (f *figureKind[T]) encode(b []byte, v *T) []byte {
	known := func(ok bool) bool {
		if ok {
			b = append(b, 0)
		} else {
			b = append(b, 1)
		}
		return ok
	}
	for i := range f.of.Columns {
		c := &f.of.Columns[i]
		switch x := c.Field(v).(type) {
		case *string:
			if c.Always || known(*x != "") {
				b = appendString(b, *x)
			}
		case *int64:
			b = appendI64(b, *x)
		case *bool:
			if *x {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case *session.Opt[int64]:
			if known(x.OK) {
				b = appendI64(b, x.V)
			}
		case *session.Opt[float64]:
			if known(x.OK) {
				b = appendU64(b, math.Float64bits(x.V))
			}
		}
	}
	return b
}

// start returns the time at which the thing of a record began.
func (f *figureKind[T]) start(v *T) *int64 {
	i := slices.IndexFunc(f.of.Columns, func(c store.FigureColumn[T]) bool { return c.Name == f.of.Start })
	return f.of.Columns[i].Field(v).(*int64)
}

// projectAt is of which session and moment a projection is.
type projectAt struct {
	key      session.Key
	mark, at uint64
	dead     store.Mark // what was projected up to it is of a session that was deleted
}

// figureID names a record of a session.
type figureID struct {
	start   int64
	content uint64
}

// project brings the table up to date: one insert of what is new and what is gone, none where nothing changed. Two programs that project one
// session in the same moment may each leave what the other does not know to be gone; the next projection takes it away.
func (f *figureKind[T]) project(ctx context.Context, s *Store, p projectAt, want []T) error {
	have := map[figureID]bool{}
	type line struct {
		id      figureID
		removed bool
		mark    uint64
	}
	rest := fmt.Sprintf("FROM %s FINAL WHERE %s AND mark > toUInt64(%d)", s.layout.of(f.raw), of(p.key), p.dead)
	for l, err := range each(ctx, s, "read "+f.of.Name, f.of.Start+", content, removed, mark", rest, func(r *reader) line {
		return line{figureID{r.i64(), r.u64()}, r.u8() == 1, r.u64()}
	}) {
		switch {
		case err != nil:
			return err
		case l.mark > p.mark: // somebody projected a later state
			return nil
		case !l.removed:
			have[l.id] = true
		}
	}
	var rows, record []byte
	add := func(record []byte, content uint64, removed byte) {
		rows = append(appendString(appendString(rows, p.key.Tenant), p.key.ID), record...)
		rows = appendU64(appendU64(append(appendU64(rows, content), removed), p.mark), p.at)
	}
	times := make(map[figureID]uint64, len(want)) // how often the same record came
	for i := range want {
		record = f.encode(record[:0], &want[i])
		sum := sha256.Sum256(record)
		id := figureID{*f.start(&want[i]), binary.LittleEndian.Uint64(sum[:])}
		n := times[id]
		times[id]++
		id.content += n
		if have[id] {
			delete(have, id)
		} else {
			add(record, id.content, 0)
		}
	}
	for id := range have {
		var v T
		*f.start(&v) = id.start
		add(f.encode(record[:0], &v), id.content, 1)
	}
	if len(rows) == 0 {
		return nil
	}
	key := keyOf(p.key)
	return s.client.insert(ctx, s.layout.into(f.raw), rows, fmt.Sprintf("project-%s-%x-%d-%d", f.of.Name, key, p.mark, p.at))
}

// projectFigures brings all tables of figures up to date.
func (s *Store) projectFigures(ctx context.Context, p projectAt, f *session.Figures) error {
	errs := make(chan error, len(figureTables))
	go func() { errs <- turnFigures.project(ctx, s, p, f.Turns) }()
	go func() { errs <- toolCallFigures.project(ctx, s, p, f.ToolCalls) }()
	go func() { errs <- compactionFigures.project(ctx, s, p, f.Compactions) }()
	go func() { errs <- permissionFigures.project(ctx, s, p, f.Permissions) }()
	var first error
	for range figureTables {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
