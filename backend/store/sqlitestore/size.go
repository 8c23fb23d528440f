package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

var (
	_ store.Counter = (*Store)(nil)
	_ store.Sizer   = (*Store)(nil)
)

// counts is store.Counts that many add to.
type counts struct{ blocksNew, blocksKnown, bytesNew, bytesKnown atomic.Int64 }

func (c *counts) add(n store.Counts) {
	c.blocksNew.Add(n.BlocksNew)
	c.blocksKnown.Add(n.BlocksKnown)
	c.bytesNew.Add(n.BytesNew)
	c.bytesKnown.Add(n.BytesKnown)
}

// Counts implements store.Counter. A body that the tenant shares and another session brought counts as known.
func (s *Store) Counts() store.Counts {
	return store.Counts{
		BlocksNew: s.counts.blocksNew.Load(), BlocksKnown: s.counts.blocksKnown.Load(),
		BytesNew: s.counts.bytesNew.Load(), BytesKnown: s.counts.bytesKnown.Load(),
	}
}

// Size implements store.Sizer: the pages of the file that are in use, and the log and its index beside it.
func (s *Store) Size(ctx context.Context) (int64, error) {
	size := int64(0)
	for n, err := range each(ctx, s, "size", `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`, nil,
		scanInt) {
		if err != nil {
			return 0, err
		}
		size += n
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		switch fi, err := os.Stat(s.path + suffix); {
		case err == nil:
			size += fi.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, fmt.Errorf("sqlitestore: size: %w", err)
		}
	}
	return size, nil
}

// SessionSize implements store.Sizer. Where a row replaced another one, both count.
func (s *Store) SessionSize(ctx context.Context, k session.Key) (int64, error) {
	size := int64(0)
	for n, err := range each(ctx, s, "size of a session", `SELECT ifnull(bytes, 0) FROM sessions WHERE tenant = ? AND id = ?`, []any{k.Tenant, k.ID}, scanInt) {
		if err != nil {
			return 0, err
		}
		size = n
	}
	return size, nil
}

func scanInt(rows *sql.Rows) (n int64, err error) {
	err = rows.Scan(&n)
	return n, err
}
