package sqlitestore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// prepared is a batch with its rows encoded, before the writing connection is taken: writers take turns with it, and
// encoding needs no turn.
type prepared struct {
	rows   []preparedRow
	shared []bool // by block: whether others may have it too
}

// preparedRow is a packed row, and how many bytes it was before.
type preparedRow struct {
	packed []byte
	size   int
}

// prepare encodes rows. It fails with store.ErrData for rows that are too large.
func prepare(ctx context.Context, b session.Batch) (p prepared, err error) {
	var packed, canonical []byte
	p.rows = make([]preparedRow, len(b.Rows))
	fixed := map[blockRef]struct{}{}
	for i := range b.Rows {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return p, ctx.Err()
		}
		r := &b.Rows[i]
		canonical = r.AppendCanonical(canonical[:0])
		if len(canonical) > store.MaxValue {
			return p, fmt.Errorf("row %d: %d bytes, at most %d: %w", i, len(canonical), store.MaxValue, store.ErrData)
		}
		packed = packRow(packed[:0], canonical)
		p.rows[i] = preparedRow{bytes.Clone(packed), len(canonical)}
		nameFixed(fixed, r)
	}
	p.shared = make([]bool, len(b.Blocks))
	for i := range b.Blocks {
		p.shared[i] = shareable(fixed, &b.Blocks[i])
	}
	return p, nil
}
