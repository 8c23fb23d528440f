package clickhousestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

const (
	// eraseAtOnce is how many deletions one statement does: a mutation rewrites whole parts however little of them
	// goes.
	eraseAtOnce = 64
	// rounds bounds how often a deletion looks for rows of Puts that ended meanwhile.
	rounds = 3
)

// A deletion is one that is noted and not done.
type deletion struct {
	key     session.Key
	state   state // deleted and dead
	version uint64
	at      uint64
}

// Delete implements store.Store.
//   - First it notes which Puts are deleted, and readers leave those out from that moment. A Put of another collector
//     between the look at the revision and the note goes with the session.
//   - Then the engine rewrites the parts that hold any of it, and Delete waits for that. The old parts are inactive at
//     once, and the server unlinks them after its old_parts_lifetime, by default 8 minutes.
//   - In a cluster all replicas have done so when Delete returns; it fails while one is away.
func (s *Store) Delete(ctx context.Context, list ...store.Deletion) (gone []session.Key, err error) {
	for _, d := range list {
		hidden, err := s.hide(ctx, d)
		if err != nil {
			return gone, s.failed(ctx, "delete", err)
		}
		if hidden {
			gone = append(gone, d.Key)
		}
	}
	return gone, s.failed(ctx, "delete", s.alone(ctx, func() error { return s.finish(ctx, 0) }))
}

// alone runs f while no other deletion of this store runs.
func (s *Store) alone(ctx context.Context, f func() error) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	select {
	case s.deletes <- struct{}{}:
		defer func() { <-s.deletes }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return store.ErrClosed
	}
}

// hide notes a deletion.
func (s *Store) hide(ctx context.Context, d store.Deletion) (hidden bool, err error) {
	if err := s.writable(ctx); err != nil {
		return false, err
	}
	if d.Revision != 0 {
		switch now, err := s.Revision(ctx, d.Key); {
		case errors.Is(err, store.ErrNotFound):
			return false, nil
		case err != nil || now != d.Revision:
			return false, err
		}
	}
	err = s.alone(ctx, func() error {
		hidden, err = s.note(ctx, d.Key)
		return err
	})
	return hidden, err
}

// note records that all there is of a session is deleted, the remains of a failed Put too, and reports
// whether the session is there.
func (s *Store) note(ctx context.Context, k session.Key) (bool, error) {
	deleted := map[uint64]uint64{0: 0} // so that the list is never empty
	seen, sum := false, uint64(0)
	var from []string
	for _, t := range sessionTables {
		from = append(from, "SELECT writer, max(n) AS m FROM "+s.layout.of(t)+" WHERE "+of(k)+" GROUP BY writer")
	}
	for p, err := range each(ctx, s, "look for what to delete", "writer, max(m) AS n", "FROM ("+
		strings.Join(from, " UNION ALL ")+") GROUP BY writer",
		func(r *reader) [2]uint64 { return [2]uint64{r.u64(), r.u64()} }) {
		if err != nil {
			return false, err
		}
		seen = seen || p[1] > 0
		if p[0] != 0 {
			deleted[p[0]] = p[1]
			sum += p[1]
		}
	}
	if !seen {
		return false, nil
	}
	st, err := s.state(ctx, k)
	if err != nil {
		return false, err
	}
	if st.pending { // nothing may be forgotten of it
		for w, n := range st.deleted {
			deleted[w] = max(deleted[w], n)
		}
	}
	// Above every mark that was given out of these Puts, those included that ended since we looked.
	mark, there := st.mark()
	mark = max(mark, store.Revision(s.clock())) + store.Revision(sum) + store.Revision(time.Second)
	wctx, stop := writing(ctx)
	defer stop()
	return there, s.writeDeletion(wctx, deletion{key: k, state: state{deleted: deleted, dead: mark},
		version: 2 * uint64(mark)}, false)
}

func (s *Store) writeDeletion(ctx context.Context, d deletion, done bool) error {
	key := keyOf(d.key)
	b := append(appendString(nil, d.key.Tenant), key[:]...)
	id, flag, version := d.key.ID, byte(0), d.version
	if done {
		id, flag, version = "", 1, d.version+1
	}
	b = appendU64(appendU64(b, version), uint64(d.state.dead))
	b = appendString(b, id)
	var writers, ns []uint64
	for w, n := range d.state.deleted {
		writers, ns = append(writers, w), append(ns, n)
	}
	b = append(appendU64s(appendU64s(b, writers), ns), flag)
	return s.client.insert(ctx, s.layout.into(&deletionTable), appendU64(b, s.clock()),
		fmt.Sprintf("delete-%x-%d", key, version))
}

// pending returns the deletions that are noted and not done, for at least age.
func (s *Store) pending(ctx context.Context, age time.Duration) ([]deletion, error) {
	before := uint64(max(0, s.now().Add(-age).UnixNano()))
	if age == 0 {
		before = 1<<64 - 1
	}
	var out []deletion
	for d, err := range each(ctx, s, "look for deletions", "tenant, session, version, mark, writers, ns, at",
		"FROM ("+s.deletions(fmt.Sprintf("WHERE done = 0 AND at <= toUInt64(%d)", before))+")",
		func(r *reader) (d deletion) {
			d.key.Tenant, d.key.ID, d.version = r.str(), r.str(), r.u64()
			d.state.dead = store.Revision(r.u64())
			d.state.deleted = map[uint64]uint64{}
			writers, ns := r.u64s(), r.u64s()
			for i := range min(len(writers), len(ns)) {
				d.state.deleted[writers[i]] = ns[i]
			}
			d.at = r.u64()
			return d
		}) {
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// finish does all deletions that are noted for at least age.
func (s *Store) finish(ctx context.Context, age time.Duration) error {
	list, err := s.pending(ctx, age)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(list, eraseAtOnce) {
		if err := s.eraseAll(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// gone is the condition that selects what is deleted.
func (d deletion) gone() string { return of(d.key) + " AND " + d.state.gone() }

// eraseAll does deletions.
func (s *Store) eraseAll(ctx context.Context, list []deletion) error {
	conditions := map[*table][]string{}
	for _, d := range list {
		gone := d.gone()
		for _, t := range sessionTables {
			conditions[t] = append(conditions[t], gone)
		}
		for _, t := range derivedTables {
			conditions[t] = append(conditions[t], of(d.key)+fmt.Sprintf(" AND mark <= toUInt64(%d)", d.state.dead))
		}
	}
	where := map[*table]string{}
	for t, l := range conditions {
		where[t] = "(" + strings.Join(l, ") OR (") + ")"
	}
	for range rounds {
		left, err := s.count(ctx, where)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		some := map[*table]string{}
		for _, t := range left {
			some[t] = where[t]
		}
		if err := s.alter(ctx, some); err != nil {
			return err
		}
	}
	// The ids of the sessions go last. This table is small.
	wctx, stop := writing(ctx)
	defer stop()
	var done []string
	for _, d := range list {
		if err := s.writeDeletion(wctx, d, true); err != nil {
			return err
		}
		key := keyOf(d.key)
		done = append(done, fmt.Sprintf("(tenant = %s AND key = %s AND version <= toUInt64(%d))", literal(d.key.Tenant),
			fixed(key[:]), d.version))
	}
	return s.alter(wctx, map[*table]string{&deletionTable: strings.Join(done, " OR ")})
}

// count returns the tables that hold rows of those conditions.
func (s *Store) count(ctx context.Context, where map[*table]string) ([]*table, error) {
	var from []string
	for i, t := range tables {
		if w := where[t]; w != "" {
			from = append(from, fmt.Sprintf("SELECT toUInt8(%d) AS i, count() AS c FROM %s WHERE %s", i, s.layout.of(t), w))
		}
	}
	var out []*table
	for i, err := range each(ctx, s, "count what is left", "i", "FROM ("+strings.Join(from, " UNION ALL ")+") WHERE c > 0",
		func(r *reader) uint8 { return r.u8() }) {
		if err != nil {
			return nil, err
		}
		if int(i) < len(tables) {
			out = append(out, tables[i])
		}
	}
	return out, nil
}

// alter deletes rows of those conditions and waits until the parts that held them are rewritten, on all replicas.
func (s *Store) alter(ctx context.Context, where map[*table]string) error {
	errs := make(chan error, len(where))
	for t, w := range where {
		go func() {
			// The conditions name sessions: a statement may be longer than servers take by default.
			_, err := s.client.text(ctx, "ALTER TABLE "+s.layout.local(t)+" DELETE WHERE "+w, nil, url.Values{
				"mutations_sync": {"2"}, "max_query_size": {"67108864"},
				"max_ast_elements": {"1000000"}, "max_expanded_ast_elements": {"1000000"},
			})
			if err != nil {
				err = fmt.Errorf("delete from %s: %w", t.name, err)
			}
			errs <- err
		}()
	}
	var first error
	for range where {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

const (
	// keepEvery is how often a store that is open for writing looks after what was left.
	keepEvery = 10 * time.Minute
	// leftFor is after how long a deletion counts as interrupted.
	leftFor = 5 * time.Minute
)

// keep runs in the background until the store is closed. What fails is done the next time, by us or by another
// collector: it is all idempotent.
func (s *Store) keep() {
	for {
		_ = s.alone(s.ctx, func() error { return s.finish(s.ctx, leftFor) })
		select {
		case <-time.After(keepEvery + rand.N(keepEvery/10)): // collectors that started together drift apart
		case <-s.ctx.Done():
			return
		}
	}
}
