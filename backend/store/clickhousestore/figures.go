package clickhousestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// Figures stand in a table whose name ends in _raw, and a view shows what people query (docs/stats.md). A projection
// writes all figures of its session, each under its number: of two with one number merges leave that of the later
// projection. The view shows those that are not older than the session's summary, so what a session has no more is not
// seen.

// figureTables are the tables of all kinds.
func figureTables() (out []*table) {
	for _, f := range store.FigureTables {
		t := &table{
			name: f.Name + "_raw", version: "mark", order: "tenant, session, number", granularity: 8192, shard: bySession, ttl: true,
			indexes: []string{"INDEX by_start " + f.Start + " TYPE minmax GRANULARITY 1"},
			columns: []column{{"tenant", words}, {"session", text}, {"number", "UInt32" + zstd}, {"mark", unsigned}, {"at", unsigned}},
		}
		for i, field := range f.New().Fields {
			t.columns = append(t.columns, column{f.Columns[i].Name, figureType(f.Columns[i], field)})
		}
		out = append(out, t)
	}
	return out
}

func figureType(c store.FigureColumn, field any) string {
	switch field.(type) {
	case *int64:
		return integer
	case *bool:
		return "UInt8" + zstd
	case *session.Opt[int64]:
		return "Nullable(Int64)" + zstd
	case *session.Opt[float64]:
		return "Nullable(Float64)" + zstd
	}
	if c.Key {
		return text
	}
	return "LowCardinality(Nullable(String))" + zstd
}

// view returns the statement that makes the view.
func (l layout) view(f *store.FigureTable) string {
	names := "tenant, session"
	for _, c := range f.Columns {
		names += ", f.`" + c.Name + "` AS `" + c.Name + "`"
	}
	return fmt.Sprintf("CREATE VIEW IF NOT EXISTS `%[1]s`.`%[2]s`%[3]s AS SELECT %[4]s FROM (SELECT * FROM `%[1]s`.`%[2]s_raw` FINAL) AS f "+
		"GLOBAL INNER JOIN (SELECT tenant, session, mark FROM %[5]s FINAL WHERE (tenant, session) GLOBAL NOT IN "+
		"(SELECT tenant, session FROM %[6]s FINAL WHERE done = 0)) AS s USING (tenant, session) WHERE f.mark >= s.mark",
		l.database, f.Name, l.onCluster(), names, l.of(&summaryTable), l.of(&deletionTable))
}

// Figures implements store.Store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	f := q.From()
	columns, id := f.Chosen(&q)
	names := []string{"''"}
	if id {
		names[0] = "session"
	}
	for _, i := range columns {
		names = append(names, "`"+f.Columns[i].Name+"`")
	}
	rest := "FROM `" + s.layout.database + "`.`" + f.Name + "` WHERE tenant = " + literal(q.Tenant)
	if q.Session != "" {
		rest += " AND session = " + literal(q.Session)
	}
	if !q.Since.IsZero() {
		rest += fmt.Sprintf(" AND %s >= toInt64('%d')", f.Start, q.Since.UnixNano())
	}
	for _, c := range f.Conditions(&q) {
		rest += " AND `" + f.Columns[c.Column].Name + "` = " + literal(c.Text)
	}
	record := f.New()
	return each(ctx, s, "read "+f.Name, strings.Join(names, ", "), rest, func(r *reader) any {
		record.Clear()
		*record.Session = r.str()
		for _, i := range columns {
			switch to := record.Fields[i].(type) {
			case *string:
				if f.Columns[i].Key || r.u8() == 0 {
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
		return record.Pointer
	})
}

// insertFigures inserts all figures of a projection.
func (s *Store) insertFigures(ctx context.Context, k session.Key, p *store.SummaryUpdate) error {
	at := s.clock()
	for i, f := range store.FigureTables {
		var b []byte
		number := uint32(0)
		for r := range f.Of(&p.Figures) {
			b = binary.LittleEndian.AppendUint32(appendString(appendString(b, k.Tenant), k.ID), number)
			b = appendU64(appendU64(b, uint64(p.Revision)), at)
			for c, field := range r.Fields {
				b = appendFigure(b, field, f.Columns[c].Key)
			}
			number++
		}
		if len(b) == 0 {
			continue
		}
		token := fmt.Sprintf("project-%s-%x-%d-%d", f.Name, keyOf(k), p.Revision, at)
		if err := s.client.insert(ctx, s.layout.into(derivedTables[1+i]), b, token); err != nil {
			return err
		}
	}
	return nil
}

// appendFigure appends a field; before one that may be NULL stands whether it is.
func appendFigure(b []byte, field any, key bool) []byte {
	known := func(ok bool) bool {
		b = appendBool(b, !ok)
		return ok
	}
	switch x := field.(type) {
	case *string:
		if key || known(*x != "") {
			b = appendString(b, *x)
		}
	case *int64:
		b = appendI64(b, *x)
	case *bool:
		b = appendBool(b, *x)
	case *session.Opt[int64]:
		if known(x.OK) {
			b = appendI64(b, x.V)
		}
	case *session.Opt[float64]:
		if known(x.OK) {
			b = appendU64(b, math.Float64bits(x.V))
		}
	}
	return b
}
