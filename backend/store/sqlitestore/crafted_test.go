package sqlitestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/internal/must"
)

// A database in which SQLite would run what another program put there is refused, and nothing of it is run.
func TestCrafted(t *testing.T) {
	t.Parallel()
	const endless = `AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS session, '' AS tenant,
		'id' AS id, 1 AS mark, 1 AS projected, 1 AS last_ns, 1 AS bytes, x'00' AS canonical FROM n`
	edit := func(from, to string) string {
		return "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, '" + from + "', '" + to +
			"'); PRAGMA writable_schema=RESET"
	}
	var views strings.Builder
	for i := range maxObjects {
		fmt.Fprintf(&views, "CREATE VIEW v%d AS SELECT 1;", i)
	}
	for name, statements := range map[string]string{
		"view for sessions": "DROP TABLE sessions; CREATE VIEW sessions " + endless,
		"view for rows":     "DROP TABLE rows; CREATE VIEW rows " + endless,
		"trigger":           "CREATE TRIGGER own AFTER INSERT ON sessions BEGIN DELETE FROM rows; END",
		"sqlite_stat":       "CREATE TRIGGER \"own\" AFTER INSERT ON \"SESSIONS\" BEGIN DELETE FROM rows; END",
		"trigger is another": `DROP TRIGGER chat_prompts_deleted;
			CREATE TRIGGER chat_prompts_deleted AFTER DELETE ON chat_prompts BEGIN SELECT 1; END`,
		"index computes":  "CREATE INDEX own ON sessions (length(id || zeroblob(1000000)))",
		"computed column": "ALTER TABLE rows ADD COLUMN x BLOB AS (zeroblob(1000000000))",
		"no table":        "DROP TABLE blocks",
		"no index":        "DROP INDEX sessions_by_last",
		"virtual table":   "DROP TABLE sessions; CREATE VIRTUAL TABLE sessions USING fts5(session, tenant, id)",
		"check":           edit("id        TEXT NOT NULL,", "id TEXT NOT NULL CHECK (length(id) < 9),"),
		"behind a comment": edit("title        TEXT NOT NULL DEFAULT '''',",
			"title TEXT NOT NULL DEFAULT ''--'' CHECK (1), y TEXT DEFAULT ''\n'',"),
		"many objects": views.String(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			must.Do(t, newStore(t, path).Close())
			exec1(t, path, "PRAGMA journal_mode=DELETE;"+statements)
			before := must.Get(os.ReadFile(path))(t)
			for _, open := range []func(context.Context, string, ...Option) (*Store, error){Open, OpenReadOnly} {
				s, err := open(t.Context(), path)
				if !errors.Is(err, errSchema) || !errors.Is(err, store.ErrUnusable) {
					t.Errorf("%v, want %v", err, errSchema)
				}
				if err == nil {
					_ = s.Close()
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

// Users analyze their database, keep tables and views of their own in it, and have one of other comments.
func TestUsersOwnObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	fill(t, s)
	must.Do(t, s.Close())
	exec1(t, path, `ANALYZE; CREATE TABLE mine (x); CREATE INDEX mine_x ON mine (x);
		CREATE VIEW daily AS SELECT count(*) FROM turns;
		CREATE TRIGGER mine_deleted AFTER DELETE ON mine BEGIN SELECT 1; END;
		PRAGMA writable_schema=ON;
		UPDATE sqlite_schema SET sql = replace(sql, 'unknown', 'not'||char(10)||' -- known') WHERE name = 'summaries';
		PRAGMA writable_schema=RESET`)
	s = newStore(t, path)
	if _, err := s.Revision(t.Context(), goldenKey); err != nil {
		t.Error(err)
	}
}

// A list ends where an index repeats a page without end.
func TestEndlessIndex(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	put(t, s, goldenKey, 1)
	var root, size int
	err := s.readers.QueryRow(`SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size
		WHERE name = 'sessions_by_last'`).Scan(&root, &size)
	must.Do(t, errors.Join(err, s.Close()))
	file, err := os.ReadFile(path)
	must.Do(t, err)
	leaf := file[(root-1)*size : root*size]
	entry := leaf[binary.BigEndian.Uint16(leaf[8:]):]
	entry = bytes.Clone(entry[:1+entry[0]])
	file = append(file, leaf...)
	const levels, children = 5, 1000
	for level := range levels {
		below := uint32(len(file) / size)
		cell := append(binary.BigEndian.AppendUint32(nil, below), entry...)
		page := make([]byte, size)
		page[0] = 2 // inside of an index
		binary.BigEndian.PutUint16(page[3:], children)
		binary.BigEndian.PutUint16(page[5:], uint16(size-len(cell)))
		binary.BigEndian.PutUint32(page[8:], below)
		for i := range children { // all are one cell
			binary.BigEndian.PutUint16(page[12+2*i:], uint16(size-len(cell)))
		}
		copy(page[size-len(cell):], cell)
		if level < levels-1 {
			file = append(file, page...)
		} else {
			copy(file[(root-1)*size:], page)
		}
	}
	binary.BigEndian.PutUint32(file[28:], uint32(len(file)/size))
	must.Do(t, os.WriteFile(path, file, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err = OpenReadOnly(ctx, path)
	must.Do(t, err)
	defer s.Close()
	for _, e := range s.Sessions(ctx, store.Query{Tenant: goldenKey.Tenant}) {
		err = e
	}
	if !errors.Is(err, errManyRows) {
		t.Errorf("%v, want %v", err, errManyRows)
	}
}
