// Package copy takes sessions from one store into another, of any kind.
//
// It keeps no notes of how far it came. A session that the destination has already is read on both sides, and what
// differs is written: so that running it again after an interruption, or after more came to the source, is right, and
// writes nothing twice. It takes away nothing from either side, but for a session that was deleted from the source
// while it was being copied.
package copy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxRows and maxBytes bound a batch: whatever comes first, but one piece at least.
	maxRows, maxBytes = 5000, 8 << 20
	// maxPasses bounds how often a source that is written to meanwhile is gone through.
	maxPasses = 4
)

// Options say what is copied. The zero value copies everything.
type Options struct {
	// Sessions are those to copy; nil: all that Tenants and Since select.
	Sessions []session.Key
	// Tenants are those whose sessions are copied; nil: all.
	Tenants []string
	// Since excludes sessions whose summaries say that nothing was seen since then. Sessions whose summaries are behind
	// are copied. Zero excludes none.
	Since time.Time
}

// Result says what a copy did. All of it holds also when Run fails.
type Result struct {
	// Sessions were looked at: Copied are those of which something was written, Same those of which the destination had
	// everything.
	Sessions, Copied, Same int
	// Gone were deleted from the source meanwhile.
	Gone int
	// Rows and Blocks were written, with Bytes of rows and bodies before compression.
	Rows, Blocks, Bytes int64
	// Moving were still being written to at the end: what came to them last may not be copied.
	Moving []session.Key
	// Refused are sessions of which the destination has a part or nothing, because of errors that wrap store.ErrData:
	// it did not take them, or the source, whose file may be damaged, could not be read there.
	Refused []Refusal
}

// Refusal is a session that is not copied, or not wholly, and the reason, which holds no content.
type Refusal struct {
	Session session.Key
	Reason  string
}

// Run copies sessions from src to dst, whose summaries are current afterwards. It holds no more than a batch, and of a
// session at hand its row keys and block ids (about 100 bytes each) where the destination has it already; projecting
// holds its rows, without bodies. Both stores may be read and written meanwhile: what comes to the source
// while Run is at work is copied too, in a few passes. An error ends it (that of ctx too); running it again goes on.
func Run(ctx context.Context, src, dst store.Store, o Options) (Result, error) {
	c := &copier{src: src, dst: dst, o: o, marks: map[session.Key]store.Revision{}, made: map[session.Key]bool{},
		copied: map[session.Key]bool{}, refused: map[session.Key]bool{}}
	err := c.run(ctx)
	c.res.Sessions, c.res.Copied = len(c.marks), len(c.copied)
	c.res.Same = c.res.Sessions - c.res.Copied - len(c.res.Refused)
	if err != nil {
		return c.res, fmt.Errorf("copy: %w", err)
	}
	return c.res, nil
}

type copier struct {
	src, dst store.Store
	o        Options
	res      Result

	marks   map[session.Key]store.Revision // of the source, when what was copied of a session was read
	made    map[session.Key]bool           // that the destination did not have
	copied  map[session.Key]bool           // of which something was written, and that were not refused
	refused map[session.Key]bool
	buf     []byte
}

func (c *copier) run(ctx context.Context) error {
	for pass := 0; ; pass++ {
		todo, err := c.moved(ctx)
		if err != nil {
			return err
		}
		if pass == maxPasses {
			c.res.Moving = todo
			break
		}
		if len(todo) == 0 {
			break
		}
		for _, k := range todo {
			err := c.session(ctx, k)
			if errors.Is(err, store.ErrData) { // what was copied of it stays, and the others are copied
				c.refuse(k, err)
				err = nil
			}
			if err != nil {
				return fmt.Errorf("session %q: %w", k.ID, err)
			}
		}
	}
	// Also those that an interrupted run left without a summary.
	return project.Refresh(ctx, c.dst)
}

// moved returns the sessions that are to be copied and were written to since they were, or never were.
func (c *copier) moved(ctx context.Context) ([]session.Key, error) {
	keys, err := c.selected(ctx)
	if err != nil {
		return nil, err
	}
	var out []session.Key
	for _, k := range keys {
		mark, err := c.src.Revision(ctx, k)
		switch was, seen := c.marks[k]; {
		case errors.Is(err, store.ErrNotFound):
		case errors.Is(err, store.ErrData):
			c.refuse(k, err)
		case err != nil:
			return nil, err
		case (!seen || was != mark) && !c.refused[k]:
			out = append(out, k)
		}
	}
	return out, nil
}

// selected returns the sessions that the options select now.
func (c *copier) selected(ctx context.Context) ([]session.Key, error) {
	if c.o.Sessions != nil {
		return c.o.Sessions, nil
	}
	behind := map[session.Key]bool{}
	if !c.o.Since.IsZero() {
		stale, err := store.Stale(ctx, c.src)
		if err != nil {
			return nil, err
		}
		for _, k := range stale {
			behind[k] = true
		}
	}
	var out []session.Key
	for s, err := range c.src.Sessions(ctx, store.Query{AllTenants: true}) {
		if err != nil {
			return nil, err
		}
		if (c.o.Tenants == nil || slices.Contains(c.o.Tenants, s.Tenant)) && (!s.Last.Before(c.o.Since) || behind[s.Key]) {
			out = append(out, s.Key)
		}
	}
	return out, nil
}

// session copies what the destination lacks of a session.
func (c *copier) session(ctx context.Context, k session.Key) error {
	mark, err := c.src.Revision(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return c.gone(ctx, k)
	}
	if err != nil {
		return err
	}
	if _, err = c.dst.Revision(ctx, k); errors.Is(err, store.ErrNotFound) {
		c.made[k] = true
	} else if err != nil {
		return err
	}
	have, err := c.index(ctx, k)
	if err != nil {
		return err
	}
	w := writer{c: c}
	for row, err := range c.src.Rows(ctx, k) {
		if err != nil {
			return cmp.Or(w.flush(ctx), err)
		}
		c.buf = row.AppendCanonical(c.buf[:0])
		if have.rows[rowKey{row.Trace, row.Span}] == sha256.Sum256(c.buf) {
			continue
		}
		w.batch.Rows = append(w.batch.Rows, row)
		if err := w.grown(ctx, len(c.buf)); err != nil {
			return err
		}
	}
	for b, err := range c.src.Blocks(ctx, k) {
		if err != nil {
			return cmp.Or(w.flush(ctx), err)
		}
		if size, ok := have.blocks[b.ID]; ok && (size == 0 || b.Size != 0 && b.Size <= size) {
			continue
		}
		w.batch.Blocks = append(w.batch.Blocks, b)
		if err := w.grown(ctx, len(b.Body)); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return c.finish(ctx, k, mark, w.wrote)
}

// writer writes one session to the destination.
type writer struct {
	c     *copier
	batch session.Batch
	bytes int
	wrote bool
}

// grown writes the batch when it is large enough.
func (w *writer) grown(ctx context.Context, bytes int) error {
	if w.bytes += bytes; w.bytes < maxBytes && len(w.batch.Rows)+len(w.batch.Blocks) < maxRows {
		return nil
	}
	return w.flush(ctx)
}

func (w *writer) flush(ctx context.Context) error {
	if len(w.batch.Rows)+len(w.batch.Blocks) == 0 {
		return ctx.Err()
	}
	if err := w.c.dst.Put(ctx, w.batch); err != nil {
		return err
	}
	w.wrote = true
	w.c.res.Rows += int64(len(w.batch.Rows))
	w.c.res.Blocks += int64(len(w.batch.Blocks))
	w.c.res.Bytes += int64(w.bytes)
	w.batch, w.bytes = session.Batch{Rows: w.batch.Rows[:0], Blocks: w.batch.Blocks[:0]}, 0
	return nil
}

// refuse notes a session that is not copied, or not wholly. It counts among those that were looked at.
func (c *copier) refuse(k session.Key, err error) {
	if !c.refused[k] {
		c.refused[k] = true
		c.marks[k] = 0
		delete(c.copied, k)
		c.res.Refused = append(c.res.Refused, Refusal{k, err.Error()})
	}
}

type rowKey struct {
	trace session.TraceID
	span  session.SpanID
}

// contents is what the destination has of a session: the hashes of rows, and the Size of blocks.
type contents struct {
	rows   map[rowKey][sha256.Size]byte
	blocks map[spans.BlockID]int64
}

// index returns what the destination has of a session.
func (c *copier) index(ctx context.Context, k session.Key) (contents, error) {
	have := contents{map[rowKey][sha256.Size]byte{}, map[spans.BlockID]int64{}}
	for row, err := range c.dst.Rows(ctx, k) {
		if err != nil {
			return have, err
		}
		c.buf = row.AppendCanonical(c.buf[:0])
		have.rows[rowKey{row.Trace, row.Span}] = sha256.Sum256(c.buf)
	}
	for b, err := range c.dst.Blocks(ctx, k) {
		if err != nil {
			return have, err
		}
		have.blocks[b.ID] = b.Size
	}
	return have, nil
}

// finish counts a session that was copied. All are projected at the end.
func (c *copier) finish(ctx context.Context, k session.Key, mark store.Revision, wrote bool) error {
	if _, err := c.src.Revision(ctx, k); errors.Is(err, store.ErrNotFound) {
		return c.gone(ctx, k)
	} else if err != nil {
		return err
	}
	if c.marks[k] = mark; wrote {
		c.copied[k] = true
	}
	return nil
}

// gone counts a session that was erased from the source. It must not live on in the destination.
func (c *copier) gone(ctx context.Context, k session.Key) error {
	c.res.Gone++
	if !c.made[k] {
		return nil
	}
	delete(c.marks, k)
	delete(c.copied, k)
	return store.Delete(ctx, c.dst, k)
}
