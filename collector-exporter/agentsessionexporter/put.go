package agentsessionexporter

import (
	"context"
	"errors"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// maxPuts bounds the writes that one batch may come to while its bad rows are looked for.
const maxPuts = 256

// putter writes a batch of which the store may refuse a part.
type putter struct {
	put    func(context.Context, session.Batch) error
	puts   int
	stored session.Batch
}

// all writes b, and adds to stored what the store has now and to r what it refused. An error says that the whole batch
// should come again.
//
// What the store refuses it would refuse again, so a batch that it refuses is tried in parts: first without what
// store.CheckBatch says is bad, which costs no write, then halved until what is bad stands alone. That finds k bad
// pieces in about 2k·log n writes; beyond maxPuts a part that is refused is not halved any more, since a batch that
// never gets done before the timeout would come again for ever.
func (p *putter) all(ctx context.Context, b session.Batch, r *refused) error {
	if len(b.Rows)+len(b.Blocks) == 0 {
		return nil
	}
	err := p.once(ctx, b)
	if !errors.Is(err, store.ErrData) {
		return err
	}
	good := checked(b, r)
	if len(good.Rows)+len(good.Blocks) == len(b.Rows)+len(b.Blocks) {
		return p.halves(ctx, b, err, r)
	}
	if len(good.Rows)+len(good.Blocks) == 0 {
		return nil
	}
	if err = p.once(ctx, good); errors.Is(err, store.ErrData) {
		return p.halves(ctx, good, err, r)
	}
	return err
}

// checked returns what store.CheckBatch has nothing against, and adds the rest to r.
func checked(b session.Batch, r *refused) session.Batch {
	var good session.Batch
	for i := range b.Rows {
		one := session.Batch{Rows: b.Rows[i : i+1]}
		if err := store.CheckBatch(one); err != nil {
			r.add(reasonStore, one, err)
			continue
		}
		good.Rows = append(good.Rows, b.Rows[i])
	}
	for i := range b.Blocks {
		one := session.Batch{Blocks: b.Blocks[i : i+1]}
		if err := store.CheckBatch(one); err != nil {
			r.add(reasonStore, one, err)
			continue
		}
		good.Blocks = append(good.Blocks, b.Blocks[i])
	}
	return good
}

// halves goes on with a batch that the store refused with err.
func (p *putter) halves(ctx context.Context, b session.Batch, err error, r *refused) error {
	if len(b.Rows)+len(b.Blocks) == 1 || p.puts >= maxPuts {
		r.add(reasonStore, b, err)
		return nil
	}
	left, right := halve(b)
	for _, half := range []session.Batch{left, right} {
		err := p.once(ctx, half)
		if errors.Is(err, store.ErrData) {
			err = p.halves(ctx, half, err, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *putter) once(ctx context.Context, b session.Batch) error {
	p.puts++
	err := p.put(ctx, b)
	if err == nil {
		p.stored.Rows = join(p.stored.Rows, b.Rows)
		p.stored.Blocks = join(p.stored.Blocks, b.Blocks)
	}
	return err
}

// join returns a and b, without a copy while one of them is empty.
func join[T any](a, b []T) []T {
	switch {
	case len(a) == 0:
		return slices.Clip(b)
	case len(b) == 0:
		return a
	}
	return append(a, b...)
}

// halve splits a batch of at least two pieces into two that are not empty. Blocks part from rows
// first: they refer to each other by id only.
func halve(b session.Batch) (left, right session.Batch) {
	switch r, k := len(b.Rows), len(b.Blocks); {
	case r > 0 && k > 0:
		return session.Batch{Rows: b.Rows}, session.Batch{Blocks: b.Blocks}
	case r > 0:
		return session.Batch{Rows: b.Rows[:r/2]}, session.Batch{Rows: b.Rows[r/2:]}
	default:
		return session.Batch{Blocks: b.Blocks[:k/2]}, session.Batch{Blocks: b.Blocks[k/2:]}
	}
}

// refused is what of a batch was not stored because of what it is.
type refused struct {
	rows   []refusedRow
	blocks map[string]int // by reason
	err    error          // the first cause
}

type refusedRow struct {
	session.Row
	reason string
}

func (r *refused) add(reason string, b session.Batch, cause error) {
	if len(b.Rows)+len(b.Blocks) == 0 {
		return
	}
	if r.err == nil {
		r.err = cause
	}
	for i := range b.Rows {
		r.rows = append(r.rows, refusedRow{b.Rows[i], reason})
	}
	if len(b.Blocks) == 0 {
		return
	}
	if r.blocks == nil {
		r.blocks = map[string]int{}
	}
	r.blocks[reason] += len(b.Blocks)
}

func (r *refused) blockCount() int {
	n := 0
	for _, k := range r.blocks {
		n += k
	}
	return n
}

func (r *refused) rowCounts() map[string]int {
	if len(r.rows) == 0 {
		return nil
	}
	n := map[string]int{}
	for i := range r.rows {
		n[r.rows[i].reason]++
	}
	return n
}

// outcome names how a write ended, for metrics.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrData):
		return "permanent"
	default:
		return "retryable"
	}
}

// failure names why the store did not take a batch, for metrics.
func failure(err error) string {
	switch {
	case errors.Is(err, errAway):
		return "away"
	case errors.Is(err, store.ErrFull):
		return "full"
	default:
		return "store"
	}
}
