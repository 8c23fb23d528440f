package store

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// bodiesRoom is how many bytes of bodies Bodies.Load gives beyond those that are needed.
const bodiesRoom = 4 << 20

// Bodies reads the blocks of one session a stretch at a time: it keeps their ids and sizes, 48 bytes each, and no body.
// It is what package export calls so. Blocks that came after NewBodies are not seen. Not safe for concurrent use.
type Bodies struct {
	st   Store
	keys []session.Key // the session first, then others that hold blocks of it
	ids  []blockSize   // by id
	// extra are bodies that the store does not have as blocks.
	extra map[spans.ShortID]session.Block
}

type blockSize struct {
	id   spans.BlockID
	size int
	in   int // of keys
}

// NewBodies reads which blocks the session has, and those sessions that links names. It passes all of them once, one
// after the other.
func NewBodies(ctx context.Context, st Store, k session.Key, links *session.Links) (*Bodies, error) {
	b := &Bodies{st: st, keys: links.Keys(k)}
	for in, key := range b.keys {
		for block, err := range st.Blocks(ctx, key, nil) {
			if err != nil {
				return nil, fmt.Errorf("store: blocks of session %q: %w", key.ID, err)
			}
			b.ids = append(b.ids, blockSize{block.ID, len(block.Body), in})
		}
	}
	slices.SortFunc(b.ids, func(x, y blockSize) int { return bytes.Compare(x.id[:], y.id[:]) })
	b.ids = slices.Clip(b.ids)
	return b, nil
}

// Add adds blocks that came with rows: session.LiveBlocks.
func (b *Bodies) Add(blocks []session.Block) {
	if b.extra == nil {
		b.extra = map[spans.ShortID]session.Block{}
	}
	for _, block := range blocks {
		b.extra[block.ID.Short()] = block
	}
}

// Size returns the bytes of all blocks of the store.
func (b *Bodies) Size() (n int64) {
	for _, x := range b.ids {
		n += int64(x.size)
	}
	return n
}

// loadAtOnce is how many blocks Bodies.Load asks the store for at a time.
const loadAtOnce = 64

// Load implements export.Bodies: it returns a set of what is there of the first n of ids, at least of the first least
// and of further ones while they come to no more than about 4 MiB. What templates among them refer to is in it as well.
func (b *Bodies) Load(ctx context.Context, ids []spans.ShortID, least int) (*session.BlockSet, int, error) {
	set := &session.BlockSet{}
	asked := map[blockSize]struct{}{}
	n, room := 0, bodiesRoom
	for n < len(ids) && (n < least || room > 0) {
		var want []blockSize
		left := room
		for n < len(ids) && (n < least || left > 0 && len(want) < loadAtOnce) {
			if block, ok := b.extra[ids[n]]; ok {
				set.Add(block)
				left -= len(block.Body)
			}
			for _, x := range b.named(ids[n]) {
				left -= x.size
			}
			want = b.ask(want, asked, ids[n])
			n++
		}
		for len(want) > 0 {
			var more []blockSize
			for block, err := range b.blocks(ctx, want) {
				if err != nil {
					return nil, 0, fmt.Errorf("store: blocks of session %q: %w", b.keys[0].ID, err)
				}
				set.Add(block)
				room -= len(block.Body)
				for short := range spans.Blocks(block.Body) {
					more = b.ask(more, asked, short)
				}
			}
			want = more
		}
	}
	return set, n, nil
}

// blocks yields blocks from the sessions that hold them.
func (b *Bodies) blocks(ctx context.Context, want []blockSize) iter.Seq2[session.Block, error] {
	return func(yield func(session.Block, error) bool) {
		ids := map[int][]spans.BlockID{}
		for _, x := range want {
			ids[x.in] = append(ids[x.in], x.id)
		}
		for in, some := range ids {
			for block, err := range b.st.Blocks(ctx, b.keys[in], some) {
				if !yield(block, err) || err != nil {
					return
				}
			}
		}
	}
}

// ask appends the blocks of a short id that were not asked for yet.
func (b *Bodies) ask(want []blockSize, asked map[blockSize]struct{}, short spans.ShortID) []blockSize {
	for _, x := range b.named(short) {
		if _, ok := asked[x]; !ok {
			asked[x] = struct{}{}
			want = append(want, x)
		}
	}
	return want
}

// named returns the blocks of a short id.
func (b *Bodies) named(short spans.ShortID) []blockSize {
	from, _ := slices.BinarySearchFunc(b.ids, short, func(x blockSize,
		short spans.ShortID) int {
		return bytes.Compare(x.id[:len(short)], short[:])
	})
	to := from
	for to < len(b.ids) && b.ids[to].id.Short() == short {
		to++
	}
	return b.ids[from:to]
}
