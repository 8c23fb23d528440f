// Package store says what a place for session rows and blocks must do. storetest holds every implementation to it.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

var (
	// ErrData is wrapped by errors that the data caused: the same batch will fail again. Every other error of Put may
	// go away and the batch should be sent again.
	ErrData = errors.New("bad data")
	// ErrNotFound is wrapped by errors about a session that is not there.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous is wrapped by errors about a reference that several sessions answer to.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrClosed is wrapped by errors of every method of a store after its Close.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly is wrapped by errors of methods that write, of a store that was opened for reading.
	ErrReadOnly = errors.New("store is read-only")
	// ErrUnusable marks permanent errors of opening a store: a DSN that makes no sense, a file that is not an otelagent
	// database, a schema that this program does not know, access that is denied. Every other error of opening may go away.
	ErrUnusable = errors.New("store cannot be used")
	// ErrFull is wrapped by errors of Put of a store that has reached its limit. It may go away, by deleting.
	ErrFull = errors.New("store is full")
)

// VersionError says that a database has a schema that this program cannot use.
type VersionError struct {
	// Have is the version of the database, 0 of an empty one. Want is that of the program.
	Have, Want int
}

// Error says what to do.
func (e *VersionError) Error() string {
	do := "it was written before the first release and cannot be read: record into a new database"
	switch {
	case e.Have == 0:
		do = "it is empty: nothing was recorded into it yet"
	case e.Have > e.Want:
		do = "use a newer program"
	}
	return fmt.Sprintf("database has schema version %d, this program wants version %d: %s", e.Have, e.Want, do)
}

// Last is the reference that names the newest session.
const Last = "last"

// Store keeps rows and blocks by session, and what is derived of sessions. All methods are safe for concurrent use,
// also from several processes where the implementation documents it. An iterator is single-use, ends at the first
// error, and may be left early. The caller owns what it yields, and may call any method meanwhile. No method retries.
// ctx cancels waiting and reading; a Put that was cancelled has happened wholly or not at all.
type Store interface {
	// Put keeps a batch: durable when it returns nil, idempotent, all or nothing. For each row key (trace id, span id) of
	// a session it keeps the row that session.Supersedes prefers, or any of live rows that end together; the same key in
	// another session is another row, so that no tenant can replace a row of another. It keeps a block once per session
	// and id; of two with one id a whole one (Size 0), else the greater Size. The ID of a whole one must be that of its
	// body: a store may compute it anew. It reads nothing back and makes every session that it touches stale, also when it
	// changed nothing. A batch that CheckBatch refuses fails with ErrData. An empty batch does nothing.
	Put(ctx context.Context, b session.Batch) error
	// Rows yields all rows of a session as one moment saw them, in no particular order; none of a session that is not
	// there.
	Rows(ctx context.Context, s session.Key) iter.Seq2[session.Row, error]
	// Blocks yields all blocks of a session, each once, in no particular order.
	Blocks(ctx context.Context, s session.Key) iter.Seq2[session.Block, error]
	// Sessions yields sessions by their last summary, newest first by Summary.Last, then by id. A session without a
	// summary has only its Key and zero times and comes first. Query.Oldest reverses the order.
	Sessions(ctx context.Context, q Query) iter.Seq2[session.Summary, error]
	// Figures yields records of q.Table, in no order, as pointers to session.TurnFigures and the like; a pointer is
	// valid until the next step. They are those of the last summaries, and none of a deleted session. Callers use the
	// function Figures.
	Figures(ctx context.Context, q FigureQuery) iter.Seq2[any, error]
	// Tenants yields the tenants that have sessions, in order.
	Tenants(ctx context.Context) iter.Seq2[string, error]
	// Revision returns the session's revision. Who makes a summary takes it before reading rows. Fails with
	// ErrNotFound.
	Revision(ctx context.Context, s session.Key) (Revision, error)
	// SetSummary replaces what is derived of a session, in one transaction. The session is stale afterwards if it was
	// Put to after u.Revision was taken. An update that is older than the present one changes nothing. Fails with
	// ErrNotFound, also when the session was deleted meanwhile, and with ErrData for a revision that the store never
	// returned. A store that keeps new data in a quick form first brings the session into its small form here.
	SetSummary(ctx context.Context, s session.Key, u SummaryUpdate) error
	// Delete removes sessions with all rows, blocks, summaries and figures, and with what other tables hold that no
	// other session of the store needs. It returns those that it removed: not those that are not there, and those that
	// were Put to after their Deletion.Revision was taken. First no query finds any of them any more. Then it erases
	// them in small steps, between which others Put. When it returns nil all of it is gone from the disk, as far as the
	// implementation documents. With an error some may be removed and not erased: the next Delete, also one of no
	// session, or the next program that opens the store for writing finishes that. What is Put to the same key
	// meanwhile is a new session and stays. A store without transactions may remove one that is Put to in the same
	// moment.
	Delete(ctx context.Context, list ...Deletion) ([]session.Key, error)
	// Size returns about how many bytes a session takes: rows and bodies as they came, before compression; replaced
	// ones may count too. It is one quick look-up, and 0 for a session that is not there. For the zero Key it returns
	// the bytes that the whole store takes, with logs and indexes, without free space that it will use again.
	Size(ctx context.Context, s session.Key) (int64, error)
	// Close waits for writes that run. Afterwards every method and the next step of an iterator fail with ErrClosed.
	// Closing twice is harmless.
	Close() error
}

// Counts is what a store counted since it was opened, of blocks in Puts that it committed. Bytes are those of bodies
// before compression.
type Counts struct {
	// New blocks were written. Known blocks were in the store, or earlier in the batch, and were not written again.
	BlocksNew, BlocksKnown, BytesNew, BytesKnown int64
}

// Counter is an optional part of a Store. Counts does not block and reads nothing.
type Counter interface{ Counts() Counts }

// Deletion names a session to delete.
type Deletion struct {
	Key session.Key
	// Revision spares the session if it was Put to after that revision was taken. The zero Revision spares none.
	Revision Revision
}

// Delete deletes sessions whatever their revisions.
func Delete(ctx context.Context, st Store, keys ...session.Key) error {
	var list []Deletion
	for _, k := range keys {
		list = append(list, Deletion{Key: k})
	}
	_, err := st.Delete(ctx, list...)
	return err
}

// Revision is a session's state at one moment: it grows with each Put that touches the session, and no value is used
// again, also not after the session was deleted. The zero Revision is before every other.
type Revision int64

// SummaryUpdate is everything that is derived from a whole session.
type SummaryUpdate struct {
	Revision Revision
	// Summary is what Sessions yields. The store sets its Key; times are kept to the nanosecond and come back in UTC.
	Summary session.Summary
	// Figures replace all figures of the session. The store sets their Session.
	Figures session.Figures
}

// Query selects sessions. The zero value selects all of the empty tenant.
type Query struct {
	Tenant string
	// AllTenants selects sessions of all tenants, those with Summary.Part too, and ignores Tenant and After.
	AllTenants bool
	// Parts also selects sessions with Summary.Part.
	Parts bool
	// Stale selects sessions that were Put to since their last summary.
	Stale bool
	// Prefix selects ids that begin with it.
	Prefix string
	// NotMapped selects sessions whose Summary.Mapped is neither empty nor this; empty means any.
	NotMapped string
	// Traces and Span select sessions that hold a row of one of these traces and with that span id, in one row where
	// both are set; none and zero mean any.
	Traces []session.TraceID
	Span   session.SpanID
	// Parent selects sessions whose Summary.Parent it is: sub-agents of that session; empty means any.
	Parent string
	// ForkedFrom selects sessions whose Summary.ForkedFrom it is: forks of that session; empty means any.
	ForkedFrom string
	// Agent selects sessions whose Summary.Agent or AgentID it is, Model those whose Model it is; empty means any. From
	// here to Until no filter selects a session without a summary.
	Agent, Model string
	// Status selects sessions whose Summary.StatusAt(Now) is one of these; none means any.
	Status []spans.SessionStatus
	Now    time.Time
	// Errors and Denied select sessions that have any.
	Errors, Denied bool
	// MinCost selects sessions whose Summary.Cost is that much or more; zero or less means any.
	MinCost float64
	// Since and Until select sessions in which something happened meanwhile: whose Summary.Last is Since or later, and
	// Start before Until. Zero means no bound.
	Since, Until time.Time
	// Archived selects by Summary.Archived.
	Archived Archived
	// Search selects sessions that have the text in id, title, agent, agent id or model. Letters of ASCII match in
	// either case, other bytes are compared as they are; empty means any.
	Search string
	// After selects the sessions after that cursor in the order asked for; nil: all.
	After *Cursor
	// Oldest yields the oldest first: by Summary.Last, then by id, both as in Sessions but backwards.
	Oldest bool
	// Limit bounds how many are yielded; zero or less means no bound.
	Limit int
}

// ReadFirst reads all of seq before it yields the first value, so that a caller who takes its time with each holds
// nothing of the store open. Before each value usable says whether the store still answers. Stores use it for lists.
func ReadFirst[T any](seq iter.Seq2[T, error], usable func() error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		for v, err := range seq {
			if err != nil {
				yield(v, err)
				return
			}
			all = append(all, v)
		}
		for _, v := range all {
			if err := usable(); err != nil {
				yield(*new(T), err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
