// Package copy takes sessions from one store into another, of any kind.
//
// It keeps no notes of how far it came. A session that the destination has already is read on both sides, and what differs
// is written: so that running it again after an interruption, or after more came to the source, is right, and writes
// nothing twice. It takes away nothing from either side, but for a session that was deleted from the source while it was
// being copied.
package copy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxRows and maxBytes bound a batch: whatever comes first, but one piece at least. Batches reach over sessions.
	maxRows, maxBytes = 5000, 8 << 20
	// maxSessions bounds how many sessions end in one batch: so that they are projected, and progress is told, now and then.
	maxSessions = 500
	// maxPasses bounds how often a source that is written to meanwhile is gone through.
	maxPasses = 4
)

// Options say what is copied. The zero value copies everything.
type Options struct {
	// Sessions are those to copy; nil: all that Tenants and Since select.
	Sessions []session.Key
	// Tenants are those whose sessions are copied; nil: all.
	Tenants []string
	// Since leaves out sessions of which nothing was seen since then, by their summaries; those whose summaries are behind are
	// copied. Zero: none is left out.
	Since time.Time
	// Verify compares both sides at the end: trees byte for byte, and every block.
	Verify bool
	// Progress is called now and then, from the goroutine of Run, which waits for it; nil: not.
	Progress func(Progress)
}

// Progress says how far a copy is.
type Progress struct {
	// Verifying says that sessions are being compared; before, they are being copied.
	Verifying bool
	// Done and Total count sessions. Total grows where a source is written to meanwhile.
	Done, Total int
	// Rows, Blocks and Bytes were written so far.
	Rows, Blocks, Bytes int64
}

// Result says what a copy did. All of it holds also beside an error.
type Result struct {
	// Sessions were looked at: Copied are those of which something was written, Same those of which the destination had everything.
	Sessions, Copied, Same int
	// Gone were deleted from the source meanwhile.
	Gone int
	// Rows and Blocks were written, with Bytes of rows and bodies before compression.
	Rows, Blocks, Bytes int64
	// Moving were still being written to at the end: what came to them last may not be copied.
	Moving []session.Key
	// Refused are sessions of which the destination has a part or nothing, because of errors that wrap store.ErrData: it did not take
	// them, or the source, whose file may be damaged, could not be read there.
	Refused []Difference
	// Verified were compared and are alike, Different are not.
	Verified  int
	Different []Difference
}

// Difference is a session that is not the same on both sides, and what about it is not. It holds no content.
type Difference struct {
	Session session.Key
	What    string
}

// Run copies sessions from src to dst, whose summaries are current afterwards. It holds no more than a batch, and of a session at hand
// its row keys and block ids (about 100 bytes each) where the destination has it already; projecting and comparing hold its
// rows, without bodies. Both stores may be read and written meanwhile: what comes to the source while Run is at work is
// copied too, in a few passes. An error ends it (that of ctx too); running it again goes on.
func Run(ctx context.Context, src, dst store.Store, o Options) (Result, error) {
	c := &copier{src: src, dst: dst, o: o, marks: map[session.Key]store.Mark{}, refused: map[session.Key]bool{}}
	if err := c.run(ctx); err != nil {
		return c.res, fmt.Errorf("copy: %w", err)
	}
	return c.res, nil
}

type copier struct {
	src, dst store.Store
	o        Options
	res      Result

	marks   map[session.Key]store.Mark // of the source, when what was copied of a session was read
	refused map[session.Key]bool
	total   int
	done    int

	batch   session.Batch
	batchNo int // how many there were before
	again   int // rows of the batch that were written before, for their blocks
	bytes   int
	ends    []end // sessions that the batch, or those before it, hold wholly
	buf     []byte
}

// end is a session that is to be read, or was read, wholly.
type end struct {
	key          session.Key
	mark         store.Mark // before it was read
	fresh, wrote bool       // the destination did not have it; something of it was to be written
}

func (c *copier) run(ctx context.Context) error {
	for pass := 0; ; pass++ {
		todo, err := c.moved(ctx)
		if err != nil {
			return err
		}
		if pass == maxPasses {
			for _, e := range todo {
				c.res.Moving = append(c.res.Moving, e.key)
			}
			break
		}
		if len(todo) == 0 {
			break
		}
		c.total += len(todo)
		c.tell(false)
		for _, e := range todo {
			if err := c.session(ctx, e); err != nil {
				return fmt.Errorf("session %q: %w", e.key.ID, err)
			}
		}
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	// Those that an interrupted run left without a summary.
	if err := project.Refresh(ctx, c.dst); err != nil {
		return err
	}
	c.res.Sessions = len(c.marks)
	c.res.Same = c.res.Sessions - c.res.Copied - len(c.res.Refused)
	if c.o.Verify {
		return c.verify(ctx)
	}
	return nil
}

// moved returns the sessions that are to be copied and were written to since they were, or never were, with their marks.
func (c *copier) moved(ctx context.Context) ([]end, error) {
	keys, err := c.selected(ctx)
	if err != nil {
		return nil, err
	}
	var out []end
	for _, k := range keys {
		mark, err := c.src.Mark(ctx, k)
		switch was, seen := c.marks[k]; {
		case errors.Is(err, store.ErrNotFound):
		case errors.Is(err, store.ErrData):
			c.refuse(k, err)
		case err != nil:
			return nil, err
		case (!seen || was != mark) && !c.refused[k]:
			out = append(out, end{key: k, mark: mark})
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

// session reads a session and adds what the destination lacks of it.
func (c *copier) session(ctx context.Context, e end) error {
	k := e.key
	have, err := c.index(ctx, k)
	if err != nil {
		return err
	}
	e.fresh = have == nil
	names := naming{}
	for row, err := range c.src.Rows(ctx, k) {
		if err != nil {
			return c.unread(e, err)
		}
		c.buf = row.AppendCanonical(c.buf[:0])
		if have != nil && have.rows[rowKey{row.Trace, row.Span}] == sha256.Sum256(c.buf) {
			names.note(row, -1)
			continue
		}
		names.note(row, c.batchNo)
		e.wrote = true
		c.batch.Rows = append(c.batch.Rows, row)
		if err := c.grown(ctx, len(c.buf)); err != nil {
			return err
		}
	}
	for b, err := range c.src.Blocks(ctx, k, nil) {
		if err != nil {
			return c.unread(e, err)
		}
		if have != nil {
			if size, ok := have.blocks[b.ID]; ok && (size == 0 || b.Size != 0 && b.Size <= size) {
				continue
			}
		}
		e.wrote = true
		if n := names[b.ID.Short()]; n != nil && n.batch != c.batchNo {
			n.batch = c.batchNo
			c.batch.Rows = append(c.batch.Rows, n.row)
			c.again++
		}
		c.batch.Blocks = append(c.batch.Blocks, b)
		if err := c.grown(ctx, len(b.Body)); err != nil {
			return err
		}
	}
	c.ends = append(c.ends, e)
	if len(c.ends) >= maxSessions {
		return c.flush(ctx)
	}
	return nil
}

// unread is told what ended the reading of a session. Where its data did, what was read of it stays, and the others are copied.
func (c *copier) unread(e end, err error) error {
	if !errors.Is(err, store.ErrData) {
		return err
	}
	c.refuse(e.key, err)
	c.done++
	return nil
}

// refuse notes a session that is not copied, or not wholly. It counts among those that were looked at.
func (c *copier) refuse(k session.Key, err error) {
	if !c.refused[k] {
		c.refused[k] = true
		c.marks[k] = 0
		c.res.Refused = append(c.res.Refused, Difference{k, err.Error()})
	}
}

// naming tells which rows of a session name the fixed parts of its requests. Stores keep such a part once for many sessions when it comes
// in one batch with a row that names it: where that went before, it goes again.
type naming map[spans.ShortID]*namingRow

type namingRow struct {
	row   session.Row
	batch int // that it was in last; -1: none
}

// maxNamed bounds how many parts a naming holds; what exceeds it is copied too, and takes its own room.
const maxNamed = 256

func (n naming) note(row session.Row, batch int) {
	var r *namingRow
	for i := range row.Lists {
		if row.Lists[i].Name != spans.ListParams {
			continue
		}
		for _, text := range row.Lists[i].Items {
			it, err := spans.ParseItem(text)
			if err != nil || n[it.Block] != nil || len(n) >= maxNamed {
				continue
			}
			if r == nil {
				r = &namingRow{row, batch}
			}
			n[it.Block] = r
		}
	}
}

type rowKey struct {
	trace session.TraceID
	span  session.SpanID
}

// contents is what a store has of a session: the hashes of rows, and the sizes of blocks, 0 of whole ones.
type contents struct {
	rows   map[rowKey][sha256.Size]byte
	blocks map[spans.BlockID]int64
}

// index returns what the destination has of a session; nil when it does not have it.
func (c *copier) index(ctx context.Context, k session.Key) (*contents, error) {
	if _, err := c.dst.Mark(ctx, k); errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	have := &contents{map[rowKey][sha256.Size]byte{}, map[spans.BlockID]int64{}}
	for row, err := range c.dst.Rows(ctx, k) {
		if err != nil {
			return nil, err
		}
		c.buf = row.AppendCanonical(c.buf[:0])
		have.rows[rowKey{row.Trace, row.Span}] = sha256.Sum256(c.buf)
	}
	for b, err := range c.dst.Blocks(ctx, k, nil) {
		if err != nil {
			return nil, err
		}
		have.blocks[b.ID] = b.Size
	}
	return have, nil
}

// grown is told of a piece that was added to the batch.
func (c *copier) grown(ctx context.Context, bytes int) error {
	c.bytes += bytes
	if c.bytes < maxBytes && len(c.batch.Rows)+len(c.batch.Blocks) < maxRows {
		return nil
	}
	return c.flush(ctx)
}

// flush writes the batch, and finishes the sessions that are wholly written then.
func (c *copier) flush(ctx context.Context) error {
	if err := c.put(ctx, c.batch); err != nil {
		return err
	}
	c.batch = session.Batch{Rows: c.batch.Rows[:0], Blocks: c.batch.Blocks[:0]}
	c.bytes, c.again = 0, 0
	c.batchNo++
	for _, e := range c.ends {
		if err := c.finish(ctx, e); err != nil {
			return fmt.Errorf("session %q: %w", e.key.ID, err)
		}
		c.done++
	}
	c.ends = c.ends[:0]
	c.tell(false)
	return nil
}

func (c *copier) finish(ctx context.Context, e end) error {
	if _, err := c.src.Mark(ctx, e.key); errors.Is(err, store.ErrNotFound) {
		c.res.Gone++
		if e.fresh { // what was erased there must not live on here
			return store.Delete(ctx, c.dst, e.key)
		}
		return nil
	} else if err != nil {
		return err
	}
	_, again := c.marks[e.key]
	c.marks[e.key] = e.mark
	if !e.wrote || c.refused[e.key] {
		return nil
	}
	if !again {
		c.res.Copied++
	}
	return project.Session(ctx, c.dst, e.key)
}

// put writes a batch. Where the destination refuses it for what is in it, its sessions are written one by one.
func (c *copier) put(ctx context.Context, b session.Batch) error {
	if len(b.Rows)+len(b.Blocks) == 0 {
		return ctx.Err()
	}
	err := c.dst.Put(ctx, b)
	switch {
	case err == nil:
		c.res.Rows += int64(len(b.Rows) - c.again)
		c.res.Blocks += int64(len(b.Blocks))
		c.res.Bytes += int64(c.bytes)
		return nil
	case !errors.Is(err, store.ErrData):
		return err
	}
	sessions := map[session.Key]session.Batch{}
	for _, row := range b.Rows {
		part := sessions[row.Session]
		part.Rows = append(part.Rows, row)
		sessions[row.Session] = part
	}
	for _, block := range b.Blocks {
		part := sessions[block.Session]
		part.Blocks = append(part.Blocks, block)
		sessions[block.Session] = part
	}
	for _, k := range slices.SortedFunc(maps.Keys(sessions), compareKeys) {
		part := sessions[k]
		switch err := c.dst.Put(ctx, part); {
		case errors.Is(err, store.ErrData):
			c.refuse(k, err)
		case err != nil:
			return err
		default:
			c.res.Rows += int64(len(part.Rows))
			c.res.Blocks += int64(len(part.Blocks))
			for _, b := range part.Blocks {
				c.res.Bytes += int64(len(b.Body))
			}
		}
	}
	return nil
}

func (c *copier) tell(verifying bool) {
	if c.o.Progress != nil {
		c.o.Progress(Progress{verifying, c.done, c.total, c.res.Rows, c.res.Blocks, c.res.Bytes})
	}
}

func compareKeys(a, b session.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
}
