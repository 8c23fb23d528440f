// Package sqlitestore keeps sessions in one SQLite file, without cgo.
//
// Several processes may have the file open, one of them or all for writing: the file must be on a local disk, because
// write-ahead logging needs shared memory. What Put acknowledged survives the death of the process at any moment.
// Should the machine lose power, the last transactions may be missing, never parts of one, and the file stays whole.
//
// Files are made with mode 0600, directories that are missing with 0700; what exists keeps its mode. What was deleted
// is overwritten in the file. A bare sqlite3 reads the tables; schema.sql in this package describes them.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/otelagent/otelagent/backend/store"
)

// Store is a store.Store in a SQLite file. Use Open or OpenReadOnly.
type Store struct {
	path       string
	file       os.FileInfo   // what path named when it was opened
	busy       time.Duration // how long a method waits for another process that writes
	openErase  time.Duration
	chatTables bool
	closed     atomic.Bool

	// readers opens as many connections as there are readers at once and keeps a few.
	readers *sql.DB

	// writer holds the one connection that writes, nil when the store is read-only. Whoever takes the token from turn
	// may use conn and statements.
	writer *sql.DB
	turn   chan struct{}
	conn   *sql.Conn
	stmts  statements
	eraser chan struct{} // holds one value while an erasure runs

	stopErase  context.CancelFunc // of the erasure in the background; nil: there is none
	background sync.WaitGroup

	counting sync.Mutex
	counts   store.Counts

	closing sync.Once
	err     error // of Close
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Counter = (*Store)(nil)
)

// Option is an option of Open and OpenReadOnly.
type Option func(*Store)

const (
	// busyTimeout is how long a method waits for another process that writes before it fails.
	busyTimeout = 5 * time.Second
	// openErase is how long Open erases what was left half way before it goes on with that in the background: 100 MB
	// take some 2 s, and a program may have been killed while it deleted many large sessions.
	openErase = 5 * time.Second
	// pageSize of new files: rows of 600 bytes and blocks of some KB waste less of it than of 4,096 bytes.
	pageSize = 8192
	// cacheKiB is the page cache of a connection: index leaf pages of the sessions being written stay in it.
	cacheKiB = 8 << 10
	// checkpointPages is how far the write-ahead log grows before it is copied into the file: 16 MiB.
	checkpointPages = 2048
	// busyStep is how long the writing connection waits for a lock before it looks whether it was cancelled.
	busyStep = 20 * time.Millisecond
	// idleReaders is how many connections are kept for the next reader.
	idleReaders = 4
)

// Open opens the database that dsn names (see ParseDSN) for reading and writing, and makes it when it is not there.
// Permanent errors wrap store.ErrUnusable: a DSN that makes no sense, no regular file, a database of
// another program, access that is denied, and with a *store.VersionError another schema version. Every other error may
// go away. A session whose deletion was left half way is erased first; after 5 s Open returns, and the store goes on
// with that in the background, until it is closed.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	return open(dsn, "open %q", opts, func(s *Store) error { return s.openWriter(ctx) })
}

// OpenReadOnly opens the database that dsn names for reading, also while another process writes it. It never writes to
// the database; methods that write fail with store.ErrReadOnly. A file that is not there fails with fs.ErrNotExist, an
// empty one with a *store.VersionError, and permanent errors wrap store.ErrUnusable, as of Open.
func OpenReadOnly(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	return open(dsn, "open %q for reading", opts, func(s *Store) error { return s.openReader(ctx) })
}

func open(dsn, what string, opts []Option, connect func(*Store) error) (*Store, error) {
	path, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s := &Store{busy: busyTimeout, openErase: openErase, stmts: statements{}}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	if s.path, err = filepath.Abs(path); err == nil {
		err = connect(s)
	}
	if err != nil {
		_ = s.close()
		return nil, fmt.Errorf("sqlitestore: "+what+": %w", path, unusable(err))
	}
	return s, nil
}

func (s *Store) openWriter(ctx context.Context) (err error) {
	if err := create(s.path); err != nil {
		return err
	}
	if err := writable(s.path); err != nil {
		return err
	}
	s.turn, s.eraser = make(chan struct{}, 1), make(chan struct{}, 1)
	if s.writer, err = sql.Open("sqlite", s.uri("rw")); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if s.conn, err = s.writer.Conn(ctx); err != nil {
		return err
	}
	// Refuse a database of another program before anything is changed in it.
	if _, err := empty(ctx, s.conn); err != nil {
		return err
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	pragmas := fmt.Sprintf("PRAGMA page_size=%d; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-%d; PRAGMA "+
		"wal_autocheckpoint=%d; PRAGMA temp_store=MEMORY; PRAGMA secure_delete=ON", pageSize, cacheKiB, checkpointPages)
	if err := run(ctx, s.conn, pragmas); err != nil {
		return err
	}
	if err := s.walMode(ctx); err != nil {
		return err
	}
	s.turn <- struct{}{}
	if err := s.makeTables(ctx); err != nil {
		return err
	}
	if s.chatTables {
		if err := run(ctx, s.conn, chatBehind); err != nil {
			return err
		}
	}
	if s.readers, err = sql.Open("sqlite", s.uri("ro")); err != nil {
		return err
	}
	s.readers.SetMaxIdleConns(idleReaders)
	step := fmt.Sprintf("PRAGMA busy_timeout=%d", min(s.busy, busyStep).Milliseconds())
	if err := run(ctx, s.conn, step); err != nil {
		return err
	}
	// What goes wrong here goes wrong for the next Delete as well, which returns it; a full disk or a damaged page must
	// not keep others out.
	brief, cancel := context.WithTimeout(ctx, s.openErase)
	defer cancel()
	if s.erase(brief, 0) == nil || ctx.Err() != nil || brief.Err() == nil {
		return ctx.Err()
	}
	ctx, s.stopErase = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(func() { _ = s.erase(ctx, 0) })
	return nil
}

// walMode switches to write-ahead logging. SQLite does not wait for a lock here.
func (s *Store) walMode(ctx context.Context) error {
	var mode string
	err := whileBusy(ctx, s.busy, func() error {
		return s.conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("journal mode is %q, want \"wal\": the file system may not support it", mode)
	}
	return err
}

// whileBusy calls f until another process does not hold the lock that it needs, for some time, and until ctx ends.
func whileBusy(ctx context.Context, busy time.Duration, f func() error) error {
	for deadline := time.Now().Add(busy); ; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f(); code(err) != sqlite3.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *Store) openReader(ctx context.Context) error {
	err := isFile(s.path)
	if err == nil {
		s.file, err = os.Stat(s.path)
	}
	if err != nil {
		return err
	}
	if s.readers, err = sql.Open("sqlite", s.uri("ro")); err != nil {
		return err
	}
	s.readers.SetMaxIdleConns(idleReaders)
	none, err := empty(ctx, s.readers)
	noRights := code(err) == sqlite3.SQLITE_CANTOPEN || code(err) == sqlite3.SQLITE_READONLY
	log, noLog := os.Stat(s.path + "-wal")
	if noLog != nil && noRights || noRoom(err) && (noLog != nil || log.Size() == 0) {
		// A directory that cannot be written to, or has no room for the index of the log, and no writer, which would have
		// made one: the file is all there is.
		_ = s.readers.Close()
		if s.readers, err = sql.Open("sqlite", s.uri("ro")+"&immutable=1"); err != nil {
			return err
		}
		none, err = empty(ctx, s.readers)
	}
	if err == nil && none {
		err = &store.VersionError{Have: 0, Want: Version}
	}
	return err
}

// uri returns what the driver opens. mode is that of SQLite URIs.
func (s *Store) uri(mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(s.path)}
	if u.Path[0] != '/' {
		u.Path = "/" + u.Path // C:/...
	}
	q := fmt.Sprintf("?mode=%s&_pragma=busy_timeout(%d)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)", mode,
		s.busy.Milliseconds())
	if mode == "ro" {
		q += "&_pragma=query_only(1)"
	}
	return u.String() + q
}

// create makes an empty file of mode 0600, and its directory, unless the file is there: SQLite would use the umask. It
// never opens a file that exists, since closing it would take away the locks that this process has on it.
func create(path string) error {
	switch err := isFile(path); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func isFile(path string) error {
	switch fi, err := os.Stat(path); {
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s: %w", fi.Mode().Type(), errNotRegular)
	}
	return nil
}

var errNotRegular = errors.New("want a regular file")

// there reports whether the path still names the file that was opened. SQLite would go on with one that was deleted or
// replaced, and what it acknowledges would be gone with the last program that has it open.
func (s *Store) there() error {
	fi, err := os.Stat(s.path)
	if err == nil && !os.SameFile(fi, s.file) {
		err = errReplaced
	}
	return err
}

var errReplaced = errors.New(
	"another file stands in the place of the one that was opened: close the store and open it again")

// Path returns the absolute path of the database file.
func (s *Store) Path() string { return s.path }

// Close implements store.Store. The last process to close the file removes its -wal and -shm.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		if s.stopErase != nil {
			s.stopErase()
		}
		if s.turn != nil {
			<-s.turn // never given back: those who wait for it fail with ErrClosed
			close(s.turn)
		}
		s.background.Wait()
		if err := s.close(); err != nil {
			s.err = fmt.Errorf("sqlitestore: close %q: %w", s.path, err)
		}
	})
	return s.err
}

func (s *Store) close() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	for _, stmt := range s.stmts {
		_ = stmt.Close() // the connection is closed next
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	return errors.Join(errs...)
}

// write runs f in a transaction of the writing connection, with a context that does not end: waiting for the
// transaction can be cancelled, the statements in it cost much less when they cannot. f looks at ctx itself when it
// takes long.
func (s *Store) write(ctx context.Context, what string, f func(ctx context.Context) error) error {
	err := s.transact(ctx, f)
	if err != nil {
		return fmt.Errorf("sqlitestore: %s: %w", what, classify(err))
	}
	return nil
}

func (s *Store) transact(ctx context.Context, f func(context.Context) error) (err error) {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.there(); err != nil {
		return err
	}
	// The wait inside SQLite does not end with ctx, so it is one of short steps. The statement runs with a context that
	// does not end: the driver reports a BEGIN that succeeded while its context ended as failed.
	inner := context.WithoutCancel(ctx)
	begin := func() error {
		_, err := s.exec(inner, "BEGIN IMMEDIATE")
		return err
	}
	if err := whileBusy(ctx, s.busy, begin); err != nil {
		return err
	}
	err = f(inner)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		_, err = s.exec(inner, "COMMIT")
	}
	if err != nil {
		_ = run(inner, s.conn, "ROLLBACK") // fails when SQLite rolled back by itself
	}
	return err
}

func run(ctx context.Context, c *sql.Conn, query string, args ...any) error {
	_, err := c.ExecContext(ctx, query, args...)
	return err
}

// all runs a query of the writing connection and returns what scan makes of each of its rows.
func all[T any](ctx context.Context, c *sql.Conn, query string, args []any,
	scan func(*sql.Rows) (T, error)) (out []T, err error) {
	rows, err := c.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (s *Store) lock(ctx context.Context) error {
	switch {
	case s.closed.Load():
		return store.ErrClosed
	case s.turn == nil:
		return store.ErrReadOnly
	case ctx.Err() != nil:
		return ctx.Err()
	}
	select {
	case _, ok := <-s.turn:
		if !ok {
			return store.ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) unlock() { s.turn <- struct{}{} }
