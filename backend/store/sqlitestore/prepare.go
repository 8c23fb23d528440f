package sqlitestore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// prepared is what of a batch is made before the writing connection is taken: writers take turns with it, and encoding
// and compressing need no turn.
type prepared struct {
	packed *[]byte // rows, one behind the other
	rows   []preparedRow
	shared []bool // by block: whether others may have it too
	frames map[session.Key][]frame
}

// preparedRow is where a packed row ends, and how many bytes it was.
type preparedRow struct{ end, size int }

// frame is a stretch of bodies as a packer will make it if the session has none of them, and what it comes to.
type frame struct{ raw, body []byte }

// packedRows keeps buffers for packed rows, up to packedMost bytes each.
var packedRows = sync.Pool{New: func() any { return new([]byte) }}

const packedMost = 4 << 20

// prepare encodes rows and compresses bodies. It fails with store.ErrData for what cannot be kept. free must be called.
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
	return p, p.foresee(ctx, b)
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

// foresee compresses the stretches that a packer makes of bodies that a session has not got yet. Producers send a body
// once, so most often it has none of them.
func (p *prepared) foresee(ctx context.Context, b session.Batch) error {
	type seen struct {
		key session.Key
		id  spans.BlockID
	}
	had := map[seen]struct{}{}
	raw := map[session.Key][]byte{}
	end := func(k session.Key) {
		if p.frames == nil {
			p.frames = map[session.Key][]frame{}
		}
		p.frames[k] = append(p.frames[k], frame{raw[k], packEncoder().EncodeAll(raw[k], nil)})
		delete(raw, k)
	}
	for i := range b.Blocks {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := &b.Blocks[i]
		if p.shared[i] || k.Body == "" {
			continue
		}
		if _, ok := had[seen{k.Session, k.ID}]; ok {
			continue
		}
		had[seen{k.Session, k.ID}] = struct{}{}
		if o := raw[k.Session]; len(o) > 0 && len(o)+len(k.Body) > packSize {
			end(k.Session)
		}
		raw[k.Session] = append(raw[k.Session], k.Body...)
	}
	for k := range raw {
		end(k)
	}
	return nil
}

// framesOf returns what was foreseen of a session.
func (p *prepared) framesOf(k session.Key) []frame { return p.frames[k] }

// find returns the frame of raw among those that were foreseen.
func find(frames []frame, raw []byte) ([]byte, bool) {
	if i := slices.IndexFunc(frames, func(f frame) bool { return bytes.Equal(f.raw, raw) }); i >= 0 {
		return frames[i].body, true
	}
	return nil, false
}
