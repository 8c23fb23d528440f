// Package dsn opens the store that a DSN names. It is the one place that knows all kinds of stores.
package dsn

import (
	"context"

	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/sqlitestore"
)

// Option is an option of Open. Options that a kind of store has no use for are ignored by it.
type Option func(*config)

type config struct {
	readOnly, chatTables bool
	password             string
}

// WithReadOnly opens a store for reading: methods that write fail with store.ErrReadOnly, and a store that is not there is not made.
func WithReadOnly() Option { return func(c *config) { c.readOnly = true } }

// WithChatTables makes a SQLite store keep the tables of the agent guide too; see sqlitestore.WithChatTables.
func WithChatTables() Option { return func(c *config) { c.chatTables = true } }

// WithPassword gives the password for a store that wants one; it never stands in a DSN.
func WithPassword(p string) Option { return func(c *config) { c.password = p } }

// Check tells whether dsn makes sense, without touching what it names. The error names the value, but nothing of it that may be a password,
// and says what is allowed.
func Check(dsn string) error {
	_, err := sqlitestore.ParseDSN(dsn)
	return err
}

// File returns the path of the file that dsn names; false for a store that is not one file.
func File(dsn string) (string, bool) {
	path, err := sqlitestore.ParseDSN(dsn)
	return path, err == nil
}

// Open opens the store that dsn names. Errors that no waiting mends wrap store.ErrUnusable.
func Open(ctx context.Context, dsn string, opts ...Option) (store.Store, error) {
	var c config
	for _, o := range opts {
		o(&c)
	}
	var so []sqlitestore.Option
	if c.chatTables {
		so = append(so, sqlitestore.WithChatTables())
	}
	open := sqlitestore.Open
	if c.readOnly {
		open = sqlitestore.OpenReadOnly
	}
	s, err := open(ctx, dsn, so...)
	if err != nil {
		return nil, err // not s: a nil pointer in a non-nil interface
	}
	return s, nil
}
