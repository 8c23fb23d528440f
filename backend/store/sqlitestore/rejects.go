package sqlitestore

import (
	"context"
	"database/sql"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

var _ store.Rejecter = (*Store)(nil)

// maxRejectText bounds each text of a reject, in bytes.
const maxRejectText = 256

// PutRejects implements store.Rejecter. Texts above 256 bytes are cut at a rune; of more than MaxRejects at once the last are kept.
func (s *Store) PutRejects(ctx context.Context, l []store.Reject) error {
	if len(l) == 0 {
		return nil
	}
	l = l[max(0, len(l)-store.MaxRejects):]
	return s.write(ctx, "put rejects", func(ctx context.Context) error {
		st, err := s.conn.PrepareContext(ctx, `INSERT INTO rejects (time_ns, reason, signal, name, service, tenant, id, trace, span) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		if err != nil {
			return err
		}
		defer closeAll(st)
		for i := range l {
			r := &l[i]
			var trace, span any
			if r.Trace != (session.TraceID{}) {
				trace = r.Trace[:]
			}
			if r.Span != (session.SpanID{}) {
				span = r.Span[:]
			}
			// The id of the session is not cut: Delete looks for it.
			if _, err := st.ExecContext(ctx, store.RankOf(r.Time), cut(r.Reason), cut(r.Signal), cut(r.Name), cut(r.Service),
				r.Session.Tenant, r.Session.ID, trace, span); err != nil {
				return err
			}
		}
		// Numbers have gaps where sessions were deleted, so that only counting tells which go; not every time.
		_, err = s.conn.ExecContext(ctx, `DELETE FROM rejects WHERE (SELECT max(reject) - min(reject) FROM rejects) >= ?1
			AND reject <= (SELECT reject FROM rejects ORDER BY reject DESC LIMIT 1 OFFSET ?1)`, store.MaxRejects)
		return err
	})
}

func cut(text string) string {
	if len(text) <= maxRejectText {
		return text
	}
	n := maxRejectText
	for n > maxRejectText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}

// Rejects implements store.Rejecter, by arrival.
func (s *Store) Rejects(ctx context.Context, limit int) iter.Seq2[store.Reject, error] {
	if limit <= 0 {
		limit = store.MaxRejects
	}
	const query = `SELECT time_ns, reason, signal, name, service, tenant, id, trace, span FROM rejects ORDER BY reject DESC LIMIT ?`
	return list(ctx, s, "list rejects", query, []any{limit}, func(rows *sql.Rows) (r store.Reject, err error) {
		var at int64
		var trace, span sql.RawBytes
		err = rows.Scan(&at, &r.Reason, &r.Signal, &r.Name, &r.Service, &r.Session.Tenant, &r.Session.ID, &trace, &span)
		if at != store.RankOf(time.Time{}) {
			r.Time = time.Unix(0, at).UTC()
		}
		copy(r.Trace[:], trace)
		copy(r.Span[:], span)
		return r, err
	})
}
