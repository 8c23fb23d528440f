package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/dsn"
	"github.com/otelagent/otelagent/store/project"
)

// dbFlags are what the verbs share that look into a database.
type dbFlags struct {
	db, tenant string
}

func (f *dbFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.db, "db", "", "database `DSN`: "+databaseHelp+" (default $OTELAGENT_DB, else a file per user)")
	c.Flags().StringVar(&f.tenant, "tenant", "", "`owner` of the sessions, where a database holds those of several")
}

// database is an open database and whose sessions of it are looked at.
type database struct {
	app    *app
	at     location
	store  store.Store
	tenant string
}

// open opens a database to look into. It makes none, and nothing is written through it.
func (f *dbFlags) open(ctx context.Context, a *app) (*database, error) {
	at, err := chooseDatabase(f.db)
	if err != nil {
		return nil, err
	}
	return openToRead(ctx, a, at, f.tenant)
}

func openToRead(ctx context.Context, a *app, at location, tenant string) (*database, error) {
	if err := at.there(); err != nil {
		return nil, err
	}
	st, err := at.open(ctx, dsn.WithReadOnly())
	if have, want, older := dsn.Older(err); older {
		return nil, fmt.Errorf("%s was written by an older otelagent: it has schema version %d, this one reads %d\n"+
			"What writes brings it up to date when it opens it: 'otelagent up' or 'otelagent send --db'. Older programs cannot read it then (docs/upgrade.md)", at.name, have, want)
	}
	if err != nil {
		return nil, at.plainly(os.O_RDONLY, err)
	}
	return &database{a, at, st, tenant}, nil
}

// openToErase opens a database to take away from it. It makes none.
func (f *dbFlags) openToErase(ctx context.Context, a *app) (*database, error) {
	at, err := chooseDatabase(f.db)
	if err != nil {
		return nil, err
	}
	if err := at.there(); err != nil {
		return nil, err
	}
	st, err := at.open(ctx)
	if err != nil {
		return nil, at.plainly(os.O_RDWR, err)
	}
	return &database{a, at, st, f.tenant}, nil
}

func (db *database) close() { _ = db.store.Close() }

// refresh brings summaries up to date, which lag behind what was sent: `last` and lists are made from them. This alone
// opens the database for writing, and only where something is behind. Where it may not be written they stay behind.
func (db *database) refresh(ctx context.Context) error {
	behind, err := anyDirty(ctx, db.store)
	if err != nil || !behind {
		return err
	}
	st, err := db.at.open(ctx)
	if err != nil {
		return ctx.Err() // a file of somebody else's, or a full disk
	}
	defer st.Close()
	if err := project.Refresh(ctx, st); err != nil {
		if ctx.Err() != nil {
			return err
		}
		db.app.say("some summaries are behind: %v", err)
	}
	return nil
}

func anyDirty(ctx context.Context, st store.Store) (bool, error) {
	for _, err := range st.Dirty(ctx) {
		return err == nil, err
	}
	return false, nil
}

// find returns the session that ref names.
func (db *database) find(ctx context.Context, ref string) (session.Key, error) {
	if err := db.refresh(ctx); err != nil {
		return session.Key{}, err
	}
	return db.resolve(ctx, ref)
}

// resolve is find where summaries are current.
func (db *database) resolve(ctx context.Context, ref string) (session.Key, error) {
	key, err := store.Resolve(ctx, db.store, db.tenant, ref)
	if errors.Is(err, store.ErrNotFound) {
		whole := ""
		if strings.Contains(ref, "/") { // which ids may have too
			whole = ", and whole sessions are wanted here, without RUN and TURN"
		}
		return key, fmt.Errorf("no session %q in %s%s; 'otelagent ls' lists what is there", ref, db.at.name, whole)
	}
	if errors.Is(err, store.ErrAmbiguous) {
		return key, errors.New(strings.TrimPrefix(err.Error(), "store: "))
	}
	return key, err
}

// locate returns the session that SESSION[/RUN[/TURN]] names, and what of it. Ids may have slashes in them: what is the id of a session as
// it stands is that, before anything is taken for a RUN.
func (db *database) locate(ctx context.Context, text string) (session.Key, address, error) {
	id, rest := text, []string{"", ""}
	for range 3 {
		key := session.Key{Tenant: db.tenant, ID: id}
		switch _, err := db.store.Mark(ctx, key); {
		case err == nil:
			return key, address{id, rest[0], rest[1]}, db.refresh(ctx)
		case !errors.Is(err, store.ErrNotFound):
			return key, address{}, err
		}
		i := strings.LastIndexByte(id, '/')
		if i < 0 {
			break
		}
		id, rest = id[:i], []string{id[i+1:], rest[0]}
	}
	addr, err := parseAddress(text)
	if err != nil {
		return session.Key{}, addr, err
	}
	key, err := db.find(ctx, addr.session)
	return key, addr, err
}

// withSubAgents returns the sessions that refs name, and the sub-agents of them.
func (db *database) withSubAgents(ctx context.Context, refs []string, only bool) ([]session.Key, error) {
	if err := db.refresh(ctx); err != nil {
		return nil, err
	}
	var keys []session.Key
	var missing []string
	for _, ref := range refs {
		key, err := db.resolve(ctx, ref)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		if keys = append(keys, key); only {
			continue
		}
		below, err := store.Descendants(ctx, db.store, key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, below...)
	}
	if len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "\n"))
	}
	seen := map[session.Key]bool{}
	return slices.DeleteFunc(keys, func(k session.Key) bool {
		was := seen[k]
		seen[k] = true
		return was
	}), nil
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
