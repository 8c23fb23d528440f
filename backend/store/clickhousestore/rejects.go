package clickhousestore

import (
	"context"
	"fmt"
	"iter"

	"github.com/otelagent/otelagent/backend/store"
)

// pruneEvery is after how many rejects that this program put those above store.MaxRejects are deleted.
const pruneEvery = 1000

// PutRejects implements store.Rejecter. The table may hold somewhat more than MaxRejects, until the engine has deleted them.
func (s *Store) PutRejects(ctx context.Context, l []store.Reject) error {
	return s.failed(ctx, "put rejects", s.putRejects(ctx, l))
}

func (s *Store) putRejects(ctx context.Context, l []store.Reject) error {
	if err := s.writable(ctx); err != nil || len(l) == 0 {
		return err
	}
	var b []byte
	first := uint64(0)
	for i := range l {
		r := &l[i]
		seq := s.clock()
		if i == 0 {
			first = seq
		}
		b = appendI64(appendU64(b, seq), nanos(r.Time))
		for _, t := range []string{r.Reason, r.Signal, r.Name, r.Service, r.Session.Tenant, r.Session.ID} {
			b = appendString(b, t)
		}
		b = append(append(b, r.Trace[:]...), r.Span[:]...)
	}
	wctx, stop := writing(ctx)
	defer stop()
	if err := s.client.insert(wctx, s.layout.into(&rejectTable), b, fmt.Sprintf("rejects-%d-%d", first, len(l))); err != nil {
		return err
	}
	s.mu.Lock()
	s.rejected += len(l)
	prune := s.rejected >= pruneEvery
	if prune {
		s.rejected = 0
	}
	s.mu.Unlock()
	if !prune {
		return nil
	}
	for seq, err := range each(wctx, s, "look for old rejects", "seq", fmt.Sprintf("FROM %s ORDER BY seq DESC LIMIT %d, 1", s.layout.of(&rejectTable), store.MaxRejects),
		func(r *reader) uint64 { return r.u64() }) {
		if err == nil { // not waited for
			err = s.client.exec(wctx, fmt.Sprintf("ALTER TABLE %s DELETE WHERE seq <= toUInt64(%d)", s.layout.local(&rejectTable), seq))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Rejects implements store.Rejecter.
func (s *Store) Rejects(ctx context.Context, limit int) iter.Seq2[store.Reject, error] {
	if limit <= 0 || limit > store.MaxRejects {
		limit = store.MaxRejects
	}
	// A deletion that is noted hides those of its session, as of then.
	hidden := "(tenant, session) GLOBAL NOT IN (SELECT tenant, session FROM (" + s.deletions("") + ") WHERE done = 0)"
	rest := fmt.Sprintf("FROM %s WHERE %s ORDER BY seq DESC LIMIT %d", s.layout.of(&rejectTable), hidden, limit)
	return each(ctx, s, "read rejects", "time_ns, reason, signal, name, service, tenant, session, trace, span", rest, func(r *reader) store.Reject {
		v := store.Reject{Time: instant(r.i64()), Reason: r.str(), Signal: r.str(), Name: r.str(), Service: r.str()}
		v.Session.Tenant, v.Session.ID = r.str(), r.str()
		r.full(v.Trace[:])
		r.full(v.Span[:])
		return v
	})
}
