// Package store says what a place for session rows and blocks must do. storetest holds every implementation to it.
package store

import (
	"context"
	"errors"
	"iter"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// ErrData is wrapped by errors that the data caused: the same batch will fail again. Every other error of Put may go
// away and the batch should be sent again.
var ErrData = errors.New("bad data")

// ErrNotFound is wrapped by errors about a session that is not there.
var ErrNotFound = errors.New("not found")

// Store keeps rows and blocks, by session. All methods are safe for concurrent use, also from several processes where the
// implementation says so. Iterators are single-use, end at the first error, and may be left early; what they yield
// belongs to the caller. No method retries; ctx cancels waiting and reading, and a Put that was cancelled has either
// happened wholly or not at all.
type Store interface {
	// Put keeps a batch: durable when it returns nil, idempotent, all or nothing. For each row key (trace id, span id)
	// the row that session.Supersedes prefers stays; blocks are kept once per session and id. It reads nothing back and
	// marks every session that it touches as dirty.
	Put(ctx context.Context, b session.Batch) error
	// Rows yields all rows of a session, in no particular order. A session that is not there has none.
	Rows(ctx context.Context, s session.Key) iter.Seq2[session.Row, error]
	// Blocks yields those of the blocks named by ids that the session has, in no particular order; nil ids means all.
	Blocks(ctx context.Context, s session.Key, ids []spans.BlockID) iter.Seq2[session.Block, error]
	// Sessions yields sessions by their last projection, newest first by Summary.Last, then by key. A session that was
	// never projected has only its Key and zero times and comes first.
	Sessions(ctx context.Context, q Query) iter.Seq2[session.Summary, error]
	// Dirty yields the sessions that were Put to since their last projection.
	Dirty(ctx context.Context) iter.Seq2[session.Key, error]
	// Project replaces what is derived of a session, in one transaction, and takes away its dirty mark unless it was Put
	// to after p.Mark was taken.
	Project(ctx context.Context, s session.Key, p Projection) error
	// Mark returns the session's dirty mark, to be taken before the rows of a projection are read.
	Mark(ctx context.Context, s session.Key) (Mark, error)
	// Delete removes a session with all rows, blocks and projections. One that is not there is no error.
	Delete(ctx context.Context, s session.Key) error
	// Close waits for what is under way. Afterwards every method fails. Closing twice is harmless.
	Close() error
}

// Mark is a session's state at one moment: it grows with each Put that touches the session.
type Mark int64

// Projection is everything that is derived from a whole session.
type Projection struct {
	Mark    Mark
	Summary session.Summary
}

// Query selects sessions. The zero value selects all of the empty tenant.
type Query struct {
	Tenant string
	// Prefix selects ids that begin with it.
	Prefix string
	// Trace and Span select sessions that hold a row with that id; zero means any.
	Trace session.TraceID
	Span  session.SpanID
	// Limit bounds how many are yielded; zero means no bound.
	Limit int
}
