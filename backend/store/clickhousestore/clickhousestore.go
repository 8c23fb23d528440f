// Package clickhousestore keeps sessions in ClickHouse, on one server or in a replicated, sharded cluster, over its
// HTTP interface.
//
// Any number of collectors may write at once, in any order, without session affinity: the store never updates rows; the
// engine collapses them, and readers do so again. A row that Put acknowledged is in the table of the server, or of one
// replica (DSN.Quorum asks for more). Whether it survives a loss of power depends on the server's settings.
//
// ClickHouse has no transactions over tables. A Put writes bodies first, rows next, and last the row that makes the
// session visible. A Put that fails half way may add whole rows and blocks to a session that exists; sent again, as
// senders do without an acknowledgement, it is complete. CheckBatch runs before anything is sent.
//
// docs/adr/0012-clickhouse.md has the reasons.
package clickhousestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/backend/store"
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
	putters chan *putter  // those that are free
	deletes chan struct{} // holds one value while a deletion runs
}

var _ store.Store = (*Store)(nil)

// Option is an option of Open and OpenReadOnly.
type Option func(*config)

type config struct {
	password string
	tls      *tls.Config
	now      func() time.Time
}

// WithPassword sets the password of the DSN's user. The client sends it in a header of each request; without TLS the
// network can read it.
func WithPassword(p string) Option { return func(c *config) { c.password = p } }

// Open opens the database that dsn names (see ParseDSN) for reading and writing, and creates it and its tables where
// they are missing. Permanent errors wrap store.ErrUnusable; an unreachable server is not permanent.
//
// While a store is open for writing it also finishes interrupted deletions, every ten minutes.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	return open(ctx, dsn, false, opts)
}

// OpenReadOnly opens the database that dsn names for reading: methods that write fail with store.ErrReadOnly, and the
// store sends no statement that could write. A missing database fails with fs.ErrNotExist.
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
		dsn: d, client: newClient(d, cfg.password, cfg.tls), readOnly: readOnly, now: cfg.now,
		layout:  layout{database: d.Database, cluster: d.Cluster, ttl: d.TTL},
		putters: make(chan *putter, maxPuts), deletes: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for range maxPuts {
		s.putters <- &putter{writer: rand.Uint64()>>1 | 1<<62} // large, so that SQL has one type for all of them
	}
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

// Close implements store.Store. It interrupts a running deletion.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		for range maxPuts { // waits for the Puts that run
			<-s.putters
		}
		s.cancel()
		s.background.Wait()
		s.client.close()
	})
	return nil
}

// usable returns why a method must not begin or go on, nil if it may.
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

// failed returns the error of a method: that the store was closed or ctx ended, where that is the cause.
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

// grace is how long a write that has begun may go on after its caller gave up: cutting it would leave it half done.
const grace = 2 * time.Second

// writing returns a context for statements that are not to be cut: it ends some time after ctx.
func writing(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return out, func() { stop(); cancel() }
}
