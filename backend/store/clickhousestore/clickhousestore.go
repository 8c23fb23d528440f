// Package clickhousestore keeps sessions in ClickHouse, on one server or in a replicated, sharded cluster, over its
// HTTP interface.
//
// Any number of collectors may write at once, in any order, without one session keeping to one of them: rows are never
// updated but collapsed, by the engine and again by whoever reads. What Put acknowledged is in the table of the server,
// or of one replica (DSN.Quorum asks for more); whether it survives a loss of power is the server's affair, as with
// everything it stores.
//
// ClickHouse has no transactions over tables. A Put writes bodies first, rows next, and last what makes the session
// show: until then a new session is not there. One that fails half way leaves rows and blocks of a session that exists
// already visible, each whole; sent again, as senders do with what was not acknowledged, it is whole. CheckBatch runs
// before anything is sent.
//
// docs/adr/0012-clickhouse.md has the reasons.
package clickhousestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// Store is a store.Store in ClickHouse. Use Open or OpenReadOnly.
type Store struct {
	dsn      DSN
	client   *client
	layout   layout
	readOnly bool
	now      func() time.Time

	closed     atomic.Bool
	ctx        context.Context //nolint:containedctx // ends with Close, for what runs in the background and for readers
	cancel     context.CancelFunc
	close      sync.Once
	background sync.WaitGroup

	last    atomic.Uint64 // of clock
	putters putters
	deletes chan struct{} // holds one: who takes it may delete

	mu     sync.Mutex
	counts store.Counts
	known  map[knownBlock]int64     // blocks that this program wrote, with their Size; see Counts
	shared map[sharedBody]time.Time // bodies that this program wrote, and when
}

type knownBlock struct {
	session session.Key
	id      spans.BlockID
}

type sharedBody struct {
	tenant string
	id     spans.BlockID
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Counter = (*Store)(nil)
)

// Option is an option of Open and OpenReadOnly.
type Option func(*config)

type config struct {
	password string
	tls      *tls.Config
	now      func() time.Time
}

// WithPassword gives the password of the DSN's user. It is sent in a header of each request and stands nowhere else;
// without TLS whoever reads along has it.
func WithPassword(p string) Option { return func(c *config) { c.password = p } }

// WithTLSConfig sets how the server's certificate is checked, and by what we show who we are, with clickhouses://. The
// system's authorities unless set. c is not changed and must not be afterwards.
func WithTLSConfig(c *tls.Config) Option { return func(o *config) { o.tls = c } }

// Open opens the database that dsn names (see ParseDSN) for reading and writing and makes it, and its tables, where
// they are not there. Errors that no waiting mends wrap store.ErrUnusable; a server that is away is none of them.
//
// A program that has a store open for writing also finishes deletions that another left half way, and takes away shared
// bodies that no session needs any more, every ten minutes.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	return open(ctx, dsn, false, opts)
}

// OpenReadOnly opens the database that dsn names for reading: methods that write fail with store.ErrReadOnly, and no
// statement is sent that could write. A database that is not there fails with fs.ErrNotExist.
func OpenReadOnly(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	return open(ctx, dsn, true, opts)
}

func open(ctx context.Context, dsn string, readOnly bool, opts []Option) (*Store, error) {
	d, err := ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	cfg := config{now: time.Now}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	s := &Store{
		dsn: d, client: newClient(d, cfg.password, cfg.tls), readOnly: readOnly, now: cfg.now, deletes: make(chan struct{}, 1),
		known: map[knownBlock]int64{}, shared: map[sharedBody]time.Time{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.putters.init()
	s.deletes <- struct{}{}
	if err = s.connect(ctx); err == nil {
		if readOnly {
			err = s.check(ctx)
		} else {
			err = s.create(ctx)
		}
	}
	if err != nil {
		s.cancel()
		s.client.close()
		return nil, fmt.Errorf("clickhousestore: open database %q at %s: %w", d.Database, d.Host, opening(err))
	}
	if !readOnly {
		s.background.Go(s.keep)
	}
	return s, nil
}

// Close implements store.Store. A deletion that is under way is left half way.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		s.putters.close()
		s.cancel()
		s.background.Wait()
		s.client.close()
	})
	return nil
}

// usable reports whether a method may begin or go on.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

func (s *Store) writable(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.readOnly {
		return store.ErrReadOnly
	}
	return nil
}

// failed says what a method failed with: that the store was closed or ctx ended, where it was that.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		err = store.ErrClosed
	case ctx.Err() != nil && !errors.Is(err, errSilent):
		err = ctx.Err()
	}
	return fmt.Errorf("clickhousestore: %s: %w", what, err)
}

// clock returns the time in unix nanoseconds; never the same or an earlier one twice.
func (s *Store) clock() uint64 {
	now := uint64(max(1, s.now().UnixNano()))
	for {
		last := s.last.Load()
		if now <= last {
			now = last + 1
		}
		if s.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// reading returns a context that also ends with the store.
func (s *Store) reading(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// grace is how long a write that has begun may still take when its caller has given up: cutting it would leave it half
// done.
const grace = 2 * time.Second

// writing returns a context for statements that are not to be cut: it ends some time after ctx.
func writing(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-late:
		}
	})
	return out, func() { stop(); close(late); cancel() }
}
