package copy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// verify compares what was copied.
func (c *copier) verify(ctx context.Context) error {
	moving := map[session.Key]bool{}
	for _, k := range c.res.Moving {
		moving[k] = true
	}
	c.done, c.total = 0, len(c.marks)
	for _, k := range slices.SortedFunc(maps.Keys(c.marks), compareKeys) {
		if !moving[k] && !c.refused[k] {
			if err := c.compare(ctx, k); err != nil {
				return fmt.Errorf("session %q: %w", k.ID, err)
			}
		}
		c.done++
		c.progress(true)
	}
	return nil
}

// compare compares a session as both sides have it. One that moves meanwhile on the source is no difference.
func (c *copier) compare(ctx context.Context, k session.Key) error {
	a, err := read(ctx, c.src, k)
	if err != nil {
		return err
	}
	b, err := read(ctx, c.dst, k)
	if err != nil {
		return err
	}
	what := a.differs(b)
	if what == "" {
		c.res.Verified++
		return nil
	}
	switch mark, err := c.src.Revision(ctx, k); {
	case errors.Is(err, store.ErrNotFound):
		c.res.Gone++
		return nil
	case err != nil:
		return err
	case mark != c.marks[k]:
		c.res.Moving = append(c.res.Moving, k)
		return nil
	}
	c.res.Different = append(c.res.Different, Difference{k, what})
	return nil
}

// side is what one store has of a session: its tree as JSON, and its blocks by the hash of their bodies.
type side struct {
	tree   []byte
	blocks map[spans.BlockID]block
}

type block struct {
	size int64
	body [sha256.Size]byte
}

func read(ctx context.Context, st store.Store, k session.Key) (side, error) {
	s := side{blocks: map[spans.BlockID]block{}}
	var rows []session.Row
	for row, err := range st.Rows(ctx, k) {
		if err != nil {
			return s, err
		}
		rows = append(rows, row)
	}
	for b, err := range st.Blocks(ctx, k, nil) {
		if err != nil {
			return s, err
		}
		s.blocks[b.ID] = block{b.Size, sha256.Sum256([]byte(b.Body))}
	}
	var err error
	s.tree, err = json.Marshal(session.Assemble(rows))
	return s, err
}

// differs says what is not the same; empty when all is.
func (s side) differs(o side) string {
	if !bytes.Equal(s.tree, o.tree) {
		return "the trees are not the same"
	}
	missing, different := 0, 0
	for id, b := range s.blocks {
		switch other, ok := o.blocks[id]; {
		case !ok:
			missing++
		case other != b:
			different++
		}
	}
	more := len(o.blocks) + missing - len(s.blocks)
	if missing+different+more == 0 {
		return ""
	}
	return fmt.Sprintf("of %d blocks %d are missing, %d differ, and %d are not from there", len(s.blocks), missing,
		different, more)
}
