package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
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
		p.rows[i] = preparedRow{slices.Clone(packed), len(canonical)}
		nameFixed(fixed, r)
	}
	p.shared = make([]bool, len(b.Blocks))
	for i := range b.Blocks {
		p.shared[i] = shareable(fixed, &b.Blocks[i])
	}
	return p, nil
}

// Fixed parts of requests (system prompts, tool catalogues) are alike in many sessions, and kept once per tenant: a
// session's entry in blocks then has the negative number of a body in shared_bodies. docs/adr/0013-shared-blocks.md
// says why.

// sharedMin is from how many bytes on a body is shared: below, the reference and a frame of its own cost what is saved.
const sharedMin = 1 << 10

// blockRef names a block of a session as lists do.
type blockRef struct {
	session session.Key
	id      spans.ShortID
}

// nameFixed notes which blocks a row names as fixed parts of its request.
func nameFixed(fixed map[blockRef]struct{}, r *session.Row) {
	for i := range r.Lists {
		if r.Lists[i].Name != spans.ListParams {
			continue
		}
		for _, text := range r.Lists[i].Items {
			it, err := spans.ParseItem(text)
			if err != nil {
				continue // an item that cannot be read, which readers report
			}
			fixed[blockRef{r.Session, it.Block}] = struct{}{}
		}
	}
}

// shareable reports whether a block is one that others may have too: a whole body that a row of its batch names, and
// whose id is its SHA-256. That is computed here, so that no sender can give others a body that is not theirs, or get
// the body of others by its id.
func shareable(fixed map[blockRef]struct{}, b *session.Block) bool {
	if b.Size != 0 || len(b.Body) < sharedMin {
		return false
	}
	if _, ok := fixed[blockRef{b.Session, b.ID.Short()}]; !ok {
		return false
	}
	return spans.BlockOfString(b.Body) == b.ID
}

// share makes a session's block a reference to the body that its tenant shares, which is written where it is not there.
// A session that has the whole body already keeps it where it is.
func (w *putter) share(id int64, b *session.Block) (kept, wrote bool, err error) {
	var whole bool
	switch err := w.stmts.has.QueryRowContext(w.ctx, id, b.ID[:]).Scan(&whole); {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return false, false, err
	case whole:
		return false, false, nil
	}
	var shared int64
	err = w.stmts.shared.QueryRowContext(w.ctx, b.Session.Tenant, b.ID[:]).Scan(&shared)
	if errors.Is(err, sql.ErrNoRows) {
		wrote = true
		w.packs.body = packEncoder().EncodeAll([]byte(b.Body), w.packs.body[:0])
		err = w.stmts.share.QueryRowContext(w.ctx, b.Session.Tenant, b.ID[:], len(b.Body), w.packs.body).Scan(&shared)
	}
	if err != nil {
		return false, false, err
	}
	kept, err = w.packs.place(id, b, -shared, 0)
	return kept, wrote, err
}
