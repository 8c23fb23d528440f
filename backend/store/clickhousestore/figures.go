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

// Figures stand in a table whose name ends in _raw, and a view shows what people query (backend/store/stats/README.md). A summary
// writes all figures of its session, each under its number: of two with one number merges keep that of the later
// revision. The view shows those that are not older than the session's summary, so it shows nothing that the session
// no longer has.

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
		for i, field := range f.New().Fields {
			typ := text // of a key
			if _, isText := field.(*string); !isText || !f.Columns[i].Key {
				typ = fieldType(field, true)
			}
			t.columns = append(t.columns, column{f.Columns[i].Name, typ})
		}
		out = append(out, t)
	}
	return out
}

// view returns the statement that makes the view.
func (l layout) view(f *store.FigureTable) string {
	names := "tenant, session"
	for _, c := range f.Columns {
		names += ", f.`" + c.Name + "` AS `" + c.Name + "`"
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
			r.field(record.Fields[i], !f.Columns[i].Key)
		}
		return record.Pointer
	})
}

// insertFigures inserts all figures of a summary.
func (s *Store) insertFigures(ctx context.Context, k session.Key, p *store.SummaryUpdate) error {
	at := s.clock()
	for i, f := range store.FigureTables {
		var b []byte
		number := uint32(0)
		for r := range f.Of(&p.Figures) {
			b = binary.LittleEndian.AppendUint32(appendString(appendString(b, k.Tenant), k.ID), number)
			b = appendU64(appendU64(b, uint64(p.Revision)), at)
			for c, field := range r.Fields {
				b = appendField(b, field, !f.Columns[c].Key)
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
