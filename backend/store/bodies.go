package store

import (
	"context"
	"fmt"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Bodies reads blocks of one session by their short ids. It holds no body.
type Bodies struct {
	st    Store
	keys  []session.Key   // the session first, then others that hold blocks of it
	extra []session.Block // that the store does not have as blocks
}

// NewBodies returns the bodies of a session, and of those sessions that links names. It reads nothing yet.
func NewBodies(st Store, k session.Key, links *session.Links) *Bodies {
	return &Bodies{st: st, keys: links.Keys(k)}
}

// Add adds blocks that came with rows: session.LiveBlocks.
func (b *Bodies) Add(blocks []session.Block) { b.extra = append(b.extra, blocks...) }

// Load returns a set of what is there of all ids, and of what templates among them refer to. It passes all blocks of
// the session once, and once more where there are templates.
func (b *Bodies) Load(ctx context.Context, ids []spans.ShortID) (*session.BlockSet, error) {
	set := &session.BlockSet{}
	want, had := map[spans.ShortID]bool{}, map[spans.ShortID]bool{}
	for _, id := range ids {
		want[id] = true
	}
	for _, block := range b.extra {
		if want[block.ID.Short()] {
			set.Add(block)
		}
	}
	for range 2 { // what a template refers to is no template
		pieces := map[spans.ShortID]bool{}
		for id := range want {
			had[id] = true
		}
		for _, k := range b.keys {
			for block, err := range b.st.Blocks(ctx, k) {
				if err != nil {
					return nil, fmt.Errorf("store: blocks of session %q: %w", k.ID, err)
				}
				if !want[block.ID.Short()] {
					continue
				}
				set.Add(block)
				for id := range spans.Blocks(block.Body) {
					if !had[id] {
						pieces[id] = true
					}
				}
			}
		}
		if want = pieces; len(want) == 0 {
			break
		}
	}
	return set, nil
}
