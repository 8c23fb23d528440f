package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/project"
	"github.com/otelagent/otelagent/store/sqlitestore"
)

// dbFlags are what the verbs share that look into a database.
type dbFlags struct {
	db, tenant string
}

func (f *dbFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.db, "db", "", "database `DSN`: PATH or sqlite:PATH (default $OTELAGENT_DB, else a file per user)")
	c.Flags().StringVar(&f.tenant, "tenant", "", "`owner` of the sessions, where a database holds those of several")
}

// databaseToWrite returns the DSN to write to and the path of its file.
func databaseToWrite(flag string) (dsn, path string, err error) {
	dsn, err = chooseDSN(flag)
	if err != nil {
		return "", "", err
	}
	path, err = sqlitestore.ParseDSN(dsn)
	if err != nil {
		return "", "", usagef("--db: %w", err)
	}
	return dsn, path, nil
}

// database is an open database and whose sessions of it are looked at.
type database struct {
	store  store.Store
	path   string
	tenant string
}

// open opens a database to look into. It makes none. Writing it is for summaries only; where that is not allowed they may
// be behind.
func (f *dbFlags) open(ctx context.Context) (*database, error) {
	dsn, err := chooseDSN(f.db)
	if err != nil {
		return nil, err
	}
	path, err := sqlitestore.ParseDSN(dsn)
	if err != nil {
		return nil, usagef("--db: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, want the file of a database", path)
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no database %s\nRun 'otelagent up' and send spans to it, or 'otelagent send --db %s FILE', or name another one with --db", path, path)
	} else if err != nil {
		return nil, err
	} else if info.Size() == 0 { // which SQLite would make one of
		return nil, fmt.Errorf("%s is empty, want the file of a database", path)
	}
	db := &database{path: path, tenant: f.tenant}
	if st, err := sqlitestore.Open(ctx, dsn); err == nil {
		db.store = st
		return db, nil
	}
	st, err := sqlitestore.OpenReadOnly(ctx, dsn) // a file of somebody else's
	if err != nil {
		return nil, accessError(path, os.O_RDONLY, err)
	}
	db.store = st
	return db, nil
}

// accessError returns what the system says of a file, which is plainer than what SQLite makes of it; err if it says nothing.
func accessError(path string, flag int, err error) error {
	f, openErr := os.OpenFile(path, flag, 0)
	if openErr != nil {
		return openErr
	}
	_ = f.Close()
	return err
}

func (db *database) close() { _ = db.store.Close() }

// refresh brings summaries up to date, which lag behind what was sent: `last` and lists are made from them.
func (db *database) refresh(ctx context.Context) error {
	err := project.Refresh(ctx, db.store)
	if errors.Is(err, store.ErrReadOnly) {
		return nil
	}
	return err
}

// find returns the session that ref names.
func (db *database) find(ctx context.Context, ref string) (session.Key, error) {
	if err := db.refresh(ctx); err != nil {
		return session.Key{}, err
	}
	key, err := store.Resolve(ctx, db.store, db.tenant, ref)
	if errors.Is(err, store.ErrNotFound) {
		return key, fmt.Errorf("no session %q in %s; 'otelagent ls' lists what is there", ref, db.path)
	}
	if errors.Is(err, store.ErrAmbiguous) {
		return key, errors.New(strings.TrimPrefix(err.Error(), "store: "))
	}
	return key, err
}

// load returns a session's tree with its blocks, and with the defects that only these can tell.
func (db *database) load(ctx context.Context, key session.Key) (inspect.Tree, error) {
	t, err := db.read(ctx, key)
	if err == nil {
		t.CheckContent(t.Blocks)
	}
	return t, err
}

// tree returns a session's tree without its blocks.
func (db *database) tree(ctx context.Context, key session.Key) (*session.Session, error) {
	var rows []session.Row
	for row, err := range db.store.Rows(ctx, key) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return session.Assemble(rows), nil
}

// read returns a session's tree with its blocks.
func (db *database) read(ctx context.Context, key session.Key) (inspect.Tree, error) {
	s, err := db.tree(ctx, key)
	if err != nil {
		return inspect.Tree{}, err
	}
	blocks, err := session.NewBlockSet(db.store.Blocks(ctx, key, nil))
	if err != nil {
		return inspect.Tree{}, err
	}
	return inspect.Tree{Session: s, Blocks: blocks}, nil
}

// related returns the sessions that share a trace with t, and those that share one with them: sub-agents run in the
// trace of the run that spawned them.
func (db *database) related(ctx context.Context, t inspect.Tree) ([]inspect.Tree, error) {
	const most = 200 // sessions shown in place; whoever has more looks at them one by one
	seen := map[string]bool{t.ID: true}
	traces := map[string]bool{}
	var out []inspect.Tree
	for todo := []inspect.Tree{t}; len(todo) > 0 && len(out) < most; todo = todo[1:] {
		for id := range traceIDs(todo[0].Session) {
			if traces[id.String()] {
				continue
			}
			traces[id.String()] = true
			for s, err := range db.store.Sessions(ctx, store.Query{Tenant: db.tenant, Trace: id}) {
				if err != nil {
					return nil, err
				}
				if seen[s.ID] {
					continue
				}
				seen[s.ID] = true
				other, err := db.load(ctx, s.Key)
				if err != nil {
					return nil, err
				}
				out = append(out, other)
				todo = append(todo, other)
			}
		}
	}
	return out, nil
}

// traceIDs yields the traces of a session's runs.
func traceIDs(s *session.Session) iter.Seq[session.TraceID] {
	var ids []session.TraceID
	for _, run := range s.Runs {
		if id, err := parseTraceID(run.TraceID); err == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return slices.Values(ids)
}
