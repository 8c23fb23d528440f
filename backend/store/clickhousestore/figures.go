package clickhousestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// Figures are in a table whose name ends in _raw, and a view shows what people query (backend/store/stats/README.md).
// A summary writes all figures of its session, each under its number: of two with one number merges keep that of the
// later revision. The view shows those that are not older than the session's summary, so it shows nothing that the
// session no longer has.

// figureTables are the tables of all kinds.
func figureTables() (out []*table) {
	for _, f := range store.FigureTables {
		t := &table{
			name: f.Name + "_raw", version: "mark", order: "tenant, session, number", granularity: 8192,
			shard: bySession, ttl: true,
			indexes: []string{"INDEX by_start " + f.Start + " TYPE minmax GRANULARITY 1"},
			columns: []column{
				{"tenant", words}, {"session", text}, {"number", "UInt32" + zstd}, {"mark", unsigned}, {"at", unsigned},
			},
		}
		_, fields := f.New()
		for i := 1; i < len(fields); i++ {
			typ := fieldType(fields[i], true)
			if _, isText := fields[i].(*string); isText && !f.Nullable(i) {
				typ = text // of a key
			}
			t.columns = append(t.columns, column{f.Columns[i], typ})
		}
		out = append(out, t)
	}
	return out
}

// view returns the statement that makes the view.
func (l layout) view(f *store.FigureTable) string {
	names := "tenant, session"
	for _, c := range f.Columns[1:] {
		names += ", f.`" + c + "` AS `" + c + "`"
	}
	return fmt.Sprintf("CREATE VIEW IF NOT EXISTS `%[1]s`.`%[2]s`%[3]s AS SELECT %[4]s "+
		"FROM (SELECT * FROM `%[1]s`.`%[2]s_raw` FINAL) AS f "+
		"GLOBAL INNER JOIN (SELECT tenant, session, mark FROM %[5]s FINAL WHERE (tenant, session) GLOBAL NOT IN "+
		"(SELECT tenant, session FROM %[6]s FINAL WHERE done = 0)) AS s USING (tenant, session) WHERE f.mark >= s.mark",
		l.database, f.Name, l.onCluster(), names, l.of(&summaryTable), l.of(&deletionTable))
}

// Figures implements store.Store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	f := q.From()
	columns, names := f.Chosen(&q), []string{"''"}
	for _, i := range columns {
		names = append(names, "`"+f.Columns[i]+"`")
	}
	rest := "FROM `" + s.layout.database + "`.`" + f.Name + "` WHERE tenant = " + literal(q.Tenant)
	if !q.Since.IsZero() {
		rest += fmt.Sprintf(" AND %s >= toInt64('%d')", f.Start, store.RankOf(q.Since))
	}
	for i, text := range f.Conditions(&q) {
		rest += " AND `" + f.Columns[i] + "` = " + literal(text)
	}
	return each(ctx, s, "read "+f.Name, strings.Join(names, ", "), rest, func(r *reader) any {
		record, fields := f.New()
		_ = r.str()
		for _, i := range columns {
			r.field(fields[i], f.Nullable(i))
		}
		return record
	})
}

// insertFigures inserts all figures of a summary.
func (s *Store) insertFigures(ctx context.Context, k session.Key, p *store.SummaryUpdate) error {
	at := s.clock()
	for i, f := range store.FigureTables {
		var b []byte
		number := uint32(0)
		for fields := range f.Of(&p.Figures) {
			b = binary.LittleEndian.AppendUint32(appendString(appendString(b, k.Tenant), k.ID), number)
			b = appendU64(appendU64(b, uint64(p.Revision)), at)
			for c := 1; c < len(fields); c++ {
				b = appendField(b, fields[c], f.Nullable(c))
			}
			number++
		}
		if len(b) == 0 {
			continue
		}
		token := fmt.Sprintf("figures-%s-%x-%d-%d", f.Name, keyOf(k), p.Revision, at)
		if err := s.client.insert(ctx, s.layout.into(derivedTables[1+i]), b, token); err != nil {
			return err
		}
	}
	return nil
}
