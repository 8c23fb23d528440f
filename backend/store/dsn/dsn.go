// Package dsn opens the store that a DSN names. It is the one place that knows all kinds of stores.
package dsn

import (
	"context"
	"fmt"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/clickhousestore"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
)

// Option is an option of Open. Options that a kind of store has no use for are ignored by it.
type Option func(*config)

type config struct {
	readOnly, chatTables bool
	password             string
}

// WithReadOnly opens a store for reading: methods that write fail with store.ErrReadOnly, and a store that is not there
// is not made.
func WithReadOnly() Option { return func(c *config) { c.readOnly = true } }

// WithChatTables makes a SQLite store keep the tables of the agent guide too; see sqlitestore.WithChatTables.
func WithChatTables() Option { return func(c *config) { c.chatTables = true } }

// WithPassword gives the password for a store that wants one; it is never in a DSN.
func WithPassword(p string) Option { return func(c *config) { c.password = p } }

// Check reports whether dsn makes sense, without touching what it names. The error names the value, but nothing of it
// that may be a password, and says what is allowed.
func Check(dsn string) error {
	if clickhousestore.IsDSN(dsn) {
		_, err := clickhousestore.ParseDSN(dsn)
		return err
	}
	if _, err := sqlitestore.ParseDSN(dsn); err != nil {
		return fmt.Errorf("%w, or clickhouse://[USER@]HOST[:8123]/DATABASE", err)
	}
	return nil
}

// File returns the path of the file that dsn names; false for a store that is not one file.
func File(dsn string) (string, bool) {
	if clickhousestore.IsDSN(dsn) {
		return "", false
	}
	path, err := sqlitestore.ParseDSN(dsn)
	return path, err == nil
}

// Open opens the store that dsn names. Permanent errors wrap store.ErrUnusable.
func Open(ctx context.Context, dsn string, opts ...Option) (store.Store, error) {
	var c config
	for _, o := range opts {
		o(&c)
	}
	if err := Check(dsn); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	if clickhousestore.IsDSN(dsn) {
		open := clickhousestore.Open
		if c.readOnly {
			open = clickhousestore.OpenReadOnly
		}
		return opened(open(ctx, dsn, clickhousestore.WithPassword(c.password)))
	}
	var so []sqlitestore.Option
	if c.chatTables {
		so = append(so, sqlitestore.WithChatTables())
	}
	open := sqlitestore.Open
	if c.readOnly {
		open = sqlitestore.OpenReadOnly
	}
	return opened(open(ctx, dsn, so...))
}

func opened[T store.Store](s T, err error) (store.Store, error) {
	if err != nil {
		return nil, err // not s: a nil pointer in a non-nil interface
	}
	return s, nil
}
