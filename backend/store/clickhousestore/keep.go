package clickhousestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// keepEvery is how often a store that is open for writing looks after what was left.
	keepEvery = 10 * time.Minute
	// leftFor is after how long a deletion counts as left by whoever began it.
	leftFor = 5 * time.Minute
)

// keep runs beside the methods until the store is closed. What fails is done the next time, by us or by another collector: it is all
// idempotent.
func (s *Store) keep() {
	for {
		_ = s.keepOnce(s.ctx)
		select {
		case <-time.After(keepEvery + rand.N(keepEvery/10)): // collectors that started together drift apart
		case <-s.ctx.Done():
			return
		}
	}
}

// keepOnce finishes deletions that were left half way, collects shared bodies, and drops what old servers do not drop by themselves.
func (s *Store) keepOnce(ctx context.Context) error {
	if err := s.lockDeletes(ctx); err != nil {
		return err
	}
	defer func() { s.deletes <- struct{}{} }()
	if err := s.finish(ctx, leftFor); err != nil {
		return err
	}
	var tenants []string
	for t, err := range each(ctx, s, "list tenants of shared bodies", "tenant", "FROM "+s.layout.of(&sharedTable)+" GROUP BY tenant", func(r *reader) string { return r.str() }) {
		if err != nil {
			return err
		}
		tenants = append(tenants, t)
	}
	for _, t := range tenants {
		if err := s.collect(ctx, t); err != nil {
			return err
		}
	}
	if s.layout.modern {
		return nil // TTL does the rest
	}
	where := map[*table]string{}
	for _, t := range tables {
		if t.keep > 0 {
			where[t] = fmt.Sprintf("at < toUInt64(%d)", s.now().Add(-t.keep).UnixNano())
			if t.keepIf != "" {
				where[t] += " AND " + t.keepIf
			}
		}
	}
	left, err := s.count(ctx, where)
	if err != nil {
		return err
	}
	some := map[*table]string{}
	for _, t := range left {
		some[t] = where[t]
	}
	if len(some) == 0 {
		return nil
	}
	return s.mutate(ctx, some)
}
