package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

var _ store.Counter = (*Store)(nil)

// Counts implements store.Counter. A body that the tenant shares and another session brought counts as known.
func (s *Store) Counts() store.Counts {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.counts
}

// Size implements store.Store. Of the store it returns the pages of the file that are in use, and the log and its
// index; of a session rows that were replaced count too.
func (s *Store) Size(ctx context.Context, k session.Key) (size int64, err error) {
	query, args := `SELECT ifnull(bytes, 0) FROM sessions WHERE tenant = ? AND id = ?`, []any{k.Tenant, k.ID}
	whole := k == session.Key{}
	if whole {
		query,
			args = `SELECT (page_count - freelist_count) * page_size 
			FROM pragma_page_count, pragma_freelist_count, pragma_page_size`, nil
	}
	for n, err := range each(ctx, s, "size", query, args, scanOne[int64]) {
		if err != nil {
			return 0, err
		}
		size = n
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if !whole {
			break
		}
		switch fi, err := os.Stat(s.path + suffix); {
		case err == nil:
			size += fi.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, fmt.Errorf("sqlitestore: size: %w", err)
		}
	}
	return size, nil
}
