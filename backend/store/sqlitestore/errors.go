package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/otelagent/otelagent/backend/store"
)

var (
	errNotOurs = errors.New("not an otelagent database")
	errSchema  = errors.New("another program changed the database, or it is damaged")
)

// code returns the primary result code of an error of SQLite, else 0.
func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// classify wraps errors that the data caused in store.ErrData. Everything else (disk full, locked, input and output, a
// file that is damaged and may be restored) may go away.
func classify(err error) error {
	if errors.Is(err, store.ErrData) {
		return err
	}
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return fmt.Errorf("%w: %w", store.ErrData, err)
	}
	if noRoom(err) {
		return fmt.Errorf("%w: the disk is full: free some space first, which erasing sessions needs, too", err)
	}
	return err
}

// noRoom reports whether an error is that of a full disk. That of the index of the log has a code of its own.
func noRoom(err error) bool {
	e := (*sqlite.Error)(nil)
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE || code(err) == sqlite3.SQLITE_FULL)
}

// atRest is classify for what reads and for projections, which can be made again: where the file is damaged, trying
// again gives the same.
func atRest(err error) error {
	if errors.Is(err, store.ErrData) {
		return err
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", store.ErrData, err)
	}
	return classify(err)
}

// unusable wraps permanent errors of opening in store.ErrUnusable. A file system that is read-only as a
// whole, a full disk, a lock, a damaged file, an empty file that a program that writes fills: these may go away.
func unusable(err error) error {
	other := (*store.VersionError)(nil)
	hopeless := errors.Is(err, errNotOurs) || errors.Is(err, errSchema) || errors.Is(err, errNotRegular) ||
		errors.As(err, &other) && other.Have != 0 ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENAMETOOLONG)
	switch code(err) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		hopeless = true
	}
	if hopeless {
		return fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	return classify(err)
}
