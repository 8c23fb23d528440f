package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// prepared is a batch with its rows encoded, before the writing connection is taken: writers take turns with it, and
// encoding needs no turn.
type prepared struct {
	packed *[]byte // rows, one after the other
	rows   []preparedRow
	shared []bool // by block: whether others may have it too
}

// preparedRow is where a packed row ends, and how many bytes it was.
type preparedRow struct{ end, size int }

// packedRows keeps buffers for packed rows, up to packedMost bytes each.
var packedRows = sync.Pool{New: func() any { return new([]byte) }}

const packedMost = 4 << 20

// prepare encodes rows. It fails with store.ErrData for rows that are too large. free must be called.
func prepare(ctx context.Context, b session.Batch) (p prepared, err error) {
	p.packed = packedRows.Get().(*[]byte)
	defer func() {
		if err != nil {
			p.free()
		}
	}()
	packed, canonical := (*p.packed)[:0], []byte(nil)
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
		packed = packRow(slices.Grow(packed, 2*len(canonical)+64), canonical)
		p.rows[i] = preparedRow{len(packed), len(canonical)}
		nameFixed(fixed, r)
	}
	*p.packed = packed
	p.shared = make([]bool, len(b.Blocks))
	for i := range b.Blocks {
		p.shared[i] = shareable(fixed, &b.Blocks[i])
	}
	return p, nil
}

// row returns the i-th packed row.
func (p *prepared) row(i int) []byte {
	from := 0
	if i > 0 {
		from = p.rows[i-1].end
	}
	return (*p.packed)[from:p.rows[i].end:p.rows[i].end]
}

func (p *prepared) free() {
	if p.packed != nil && cap(*p.packed) <= packedMost {
		packedRows.Put(p.packed)
	}
	p.packed = nil
}
