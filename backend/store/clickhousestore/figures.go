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

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
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
		decode(r, columns, &v)
		return v
	})
}

// decode reads columns of a record.
func decode[T any](r *reader, columns []store.FigureColumn[T], v *T) {
	for i := range columns {
		switch to := columns[i].Field(v).(type) {
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

// projectAt is of which session and moment a projection is.
type projectAt struct {
	key      session.Key
	mark, at uint64
	dead     store.Mark // what was projected up to it is of a session that was deleted
	// settled is the mark of the summary before this projection. Who projected above it may still take back what it wrote.
	settled uint64
}

func (p *projectAt) unsettled(mark uint64) bool { return mark > p.settled && mark < p.mark }

// figureID names a record of a session.
type figureID struct {
	start   int64
	content uint64
}

// figureMark is what the last projection that wrote a record made of it.
type figureMark struct {
	removed bool
	mark    uint64
}

// figuresThere is what there is of a session: its figures in the order of figureTables, the mark of the summary, and the greatest mark of all.
type figuresThere struct {
	figures           [4]map[figureID]figureMark
	summary, greatest uint64
}

// figuresThere reads that.
func (s *Store) figuresThere(ctx context.Context, p *projectAt) (figuresThere, error) {
	where := fmt.Sprintf("WHERE %s AND mark > toUInt64(%d)", of(p.key), p.dead)
	from := []string{fmt.Sprintf("SELECT toUInt8(%d) AS i, toInt64(0) AS start, toUInt64(0) AS id, toUInt8(0) AS gone, mark AS m FROM %s %s",
		len(figureTables), s.layout.of(&summaryTable), where)}
	var there figuresThere
	for i, start := range []string{store.TurnTable.Start, store.ToolCallTable.Start, store.CompactionTable.Start, store.PermissionTable.Start} {
		from = append(from, fmt.Sprintf("SELECT toUInt8(%d) AS i, %s AS start, content AS id, removed AS gone, mark AS m FROM %s FINAL %s", i, start, s.layout.of(figureTables[i]), where))
		there.figures[i] = map[figureID]figureMark{}
	}
	type line struct {
		i uint8
		figureID
		figureMark
	}
	for l, err := range each(ctx, s, "read figures", "i, start, id, gone, m", "FROM ("+strings.Join(from, " UNION ALL ")+")", func(r *reader) line {
		return line{r.u8(), figureID{r.i64(), r.u64()}, figureMark{r.u8() == 1, r.u64()}}
	}) {
		if err != nil {
			return there, err
		}
		if int(l.i) < len(figureTables) {
			there.figures[l.i][l.figureID] = l.figureMark
		} else {
			there.summary = max(there.summary, l.mark)
		}
		there.greatest = max(there.greatest, l.mark)
	}
	return there, nil
}

// figureChange is what a projection changes in one table.
type figureChange interface {
	// change inserts what is new and what is gone, and tells whether that was anything.
	change(ctx context.Context, s *Store, p *projectAt, there map[figureID]figureMark) (bool, error)
	// restore takes back what change did and nobody changed since.
	restore(ctx context.Context, s *Store, p *projectAt, there map[figureID]figureMark) (bool, error)
}

// tableChange is that of one kind.
type tableChange[T any] struct {
	kind *figureKind[T]
	want []T
	// was is what records were before, removed ones with their columns.
	was map[figureID]formerFigure
}

type formerFigure struct {
	removed bool
	record  []byte
}

// figureChanges are those of all tables, in the order of figureTables.
func figureChanges(f *session.Figures) []figureChange {
	return []figureChange{
		&tableChange[session.TurnFigures]{turnFigures, f.Turns, map[figureID]formerFigure{}},
		&tableChange[session.ToolCallFigures]{toolCallFigures, f.ToolCalls, map[figureID]formerFigure{}},
		&tableChange[session.CompactionFigures]{compactionFigures, f.Compactions, map[figureID]formerFigure{}},
		&tableChange[session.PermissionFigures]{permissionFigures, f.Permissions, map[figureID]formerFigure{}},
	}
}

func (c *tableChange[T]) change(ctx context.Context, s *Store, p *projectAt, there map[figureID]figureMark) (bool, error) {
	f := c.kind
	var rows, record []byte
	write := func(id figureID, record []byte, removed bool) {
		rows = f.row(rows, p, id, record, removed)
		if _, ok := c.was[id]; !ok {
			now, ok := there[id]
			c.was[id] = formerFigure{removed: !ok || now.removed}
		}
	}
	wanted := make(map[figureID]struct{}, len(c.want))
	times := make(map[figureID]uint64, len(c.want)) // how often the same record came
	for i := range c.want {
		record = f.encode(record[:0], &c.want[i])
		sum := sha256.Sum256(record)
		id := figureID{*f.of.StartOf(&c.want[i]), binary.LittleEndian.Uint64(sum[:])}
		n := times[id]
		times[id]++
		id.content += n
		wanted[id] = struct{}{}
		if now, ok := there[id]; !ok || now.removed || p.unsettled(now.mark) {
			write(id, record, false)
		}
	}
	var gone []figureID
	for id, now := range there {
		if _, ok := wanted[id]; ok || now.removed && !p.unsettled(now.mark) {
			continue
		}
		write(id, f.empty(id), true)
		if !now.removed {
			gone = append(gone, id)
		}
	}
	for some := range slices.Chunk(gone, idsAtOnce) { // merges may take their columns away from now on
		if err := c.keep(ctx, s, p, some); err != nil {
			return false, err
		}
	}
	return len(rows) > 0, f.insert(ctx, s, p, rows)
}

// keep reads the columns of records that are to be removed.
func (c *tableChange[T]) keep(ctx context.Context, s *Store, p *projectAt, ids []figureID) error {
	f := c.kind
	var names, contents []string
	for i := range f.of.Columns {
		names = append(names, "`"+f.of.Columns[i].Name+"`")
	}
	for _, id := range ids {
		contents = append(contents, fmt.Sprintf("toUInt64(%d)", id.content))
	}
	rest := fmt.Sprintf("FROM %s FINAL WHERE %s AND mark > toUInt64(%d) AND removed = 0 AND content IN (%s)", s.layout.of(f.raw), of(p.key), p.dead, strings.Join(contents, ", "))
	type kept struct {
		content uint64
		v       T
	}
	for k, err := range each(ctx, s, "read "+f.of.Name, "content, "+strings.Join(names, ", "), rest, func(r *reader) (k kept) {
		k.content = r.u64()
		decode(r, f.of.Columns, &k.v)
		return k
	}) {
		if err != nil {
			return err
		}
		id := figureID{*f.of.StartOf(&k.v), k.content}
		if was, ok := c.was[id]; ok && !was.removed {
			was.record = f.encode(nil, &k.v)
			c.was[id] = was
		}
	}
	return nil
}

func (c *tableChange[T]) restore(ctx context.Context, s *Store, p *projectAt, there map[figureID]figureMark) (bool, error) {
	var rows []byte
	for id, was := range c.was {
		switch now := there[id]; {
		case now.mark != p.mark || now.removed == was.removed:
		case was.removed:
			rows = c.kind.row(rows, p, id, c.kind.empty(id), true)
		case was.record != nil:
			rows = c.kind.row(rows, p, id, was.record, false)
		}
	}
	return len(rows) > 0, c.kind.insert(ctx, s, p, rows)
}

// empty returns the columns of a record that is removed: those of its key.
func (f *figureKind[T]) empty(id figureID) []byte {
	var v T
	*f.of.StartOf(&v) = id.start
	return f.encode(nil, &v)
}

// row appends a row with the columns of a record.
func (f *figureKind[T]) row(b []byte, p *projectAt, id figureID, record []byte, removed bool) []byte {
	b = append(appendString(appendString(b, p.key.Tenant), p.key.ID), record...)
	flag := byte(0)
	if removed {
		flag = 1
	}
	return appendU64(appendU64(append(appendU64(b, id.content), flag), p.mark), p.at)
}

func (f *figureKind[T]) insert(ctx context.Context, s *Store, p *projectAt, rows []byte) error {
	if len(rows) == 0 {
		return nil
	}
	return s.client.insert(ctx, s.layout.into(f.raw), rows, fmt.Sprintf("project-%s-%x-%d-%d", f.of.Name, keyOf(p.key), p.mark, p.at))
}

// eachTable runs do for all tables at once, and tells whether one of them changed anything.
func (s *Store) eachTable(ctx context.Context, p projectAt, changes []figureChange, there *figuresThere,
	do func(figureChange, context.Context, *Store, *projectAt, map[figureID]figureMark) (bool, error),
) (changed bool, err error) {
	p.at = s.clock()
	type result struct {
		changed bool
		err     error
	}
	results := make(chan result, len(changes))
	for i, c := range changes {
		go func() {
			changed, err := do(c, ctx, s, &p, there.figures[i])
			results <- result{changed, err}
		}()
	}
	for range changes {
		r := <-results
		changed = changed || r.changed
		if err == nil {
			err = r.err
		}
	}
	return changed, err
}

// projectRounds bounds how often a projection looks whether another one came between.
const projectRounds = 3

// projectFigures brings the tables of figures up to date and then calls summarize, which takes the dirty mark away. Nothing locks a session, so
// two programs may project it in the same moment. Therefore each looks again after it wrote: of two, one sees the other. Who sees an older
// projection writes once more what that one may have changed, and may still take back; who sees a newer one takes back what it wrote. A third
// one in the same moment may leave what the next projection mends. Where a later state was projected before, nothing is done.
func (s *Store) projectFigures(ctx context.Context, p projectAt, f *session.Figures, summarize func() error) error {
	changes, summarized := figureChanges(f), false
	for round := range 1 + projectRounds {
		there, err := s.figuresThere(ctx, &p)
		if err != nil {
			return err
		}
		if round == 0 {
			p.settled = there.summary
		}
		if there.greatest > p.mark {
			if round > 0 {
				_, err = s.eachTable(ctx, p, changes, &there, figureChange.restore)
			}
			return err
		}
		if round == projectRounds {
			break
		}
		changed, err := s.eachTable(ctx, p, changes, &there, figureChange.change)
		if err != nil {
			return err
		}
		if changed {
			continue
		}
		if summarized {
			return nil
		}
		if err := summarize(); err != nil {
			return err
		}
		if summarized = true; round > 0 {
			return nil // what it wrote before was seen by others
		}
	}
	if summarized {
		return nil
	}
	return summarize()
}
