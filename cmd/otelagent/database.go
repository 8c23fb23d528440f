package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/dialects"
)

// dbFlags are what the verbs share that look into a database.
type dbFlags struct {
	db, tenant string
	// files are looked into instead of a database, and from is the dialect that they speak; empty is the one that is
	// recognised.
	files []string
	from  string
}

// add adds the flags of a verb that reads sessions: from a database, or straight from files.
func (f *dbFlags) add(c *cobra.Command) {
	f.addDatabase(c)
	c.Flags().StringArrayVar(&f.files, "file", nil, "look into this `FILE` of events in place of a database, as "+
		"'otelagent send' reads it; - is standard input; may be repeated")
	c.Flags().StringVar(&f.from, "from", auto, "`dialect` of the FILE: "+auto+", "+strings.Join(dialects.Names(), ", "))
}

// addDatabase adds those of a verb that wants a database.
func (f *dbFlags) addDatabase(c *cobra.Command) {
	c.Flags().StringVar(&f.db, "db", "", "database `DSN`: "+databaseHelp+" (default $OTELAGENT_DB, else a file per user)")
	c.Flags().StringVar(&f.tenant, "tenant", "", "`owner` of the sessions, where a database holds those of several")
}

// database is an open database and whose sessions of it are looked at.
type database struct {
	app    *app
	at     location
	store  store.Store
	tenant string
	show   showCommand
}

// open opens a database to look into, or the files given in place of one. It makes none, and nothing is written through
// it.
func (f *dbFlags) open(ctx context.Context, a *app) (*database, error) {
	if len(f.files) > 0 {
		if f.db != "" {
			return nil, usagef("--db and --file exclude each other")
		}
		return openRecording(ctx, a, f.files, f.source(), f.tenant)
	}
	at, err := chooseDatabase(f.db)
	if err != nil {
		return nil, err
	}
	db, err := openToRead(ctx, a, at, f.tenant)
	if err == nil {
		db.show.flag("--db", f.db)
		db.show.flag("--tenant", f.tenant)
	}
	return db, err
}

func openToRead(ctx context.Context, a *app, at location, tenant string) (*database, error) {
	if err := at.there(); err != nil {
		return nil, err
	}
	st, err := at.open(ctx, dsn.WithReadOnly())
	if err != nil {
		return nil, at.plainly(os.O_RDONLY, err)
	}
	return &database{app: a, at: at, store: st, tenant: tenant}, nil
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
	return &database{app: a, at: at, store: st, tenant: f.tenant}, nil
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
	for _, err := range st.Sessions(ctx, store.Query{AllTenants: true, Stale: true, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// reader reads the sessions of db by address. What follows is what verbs ask of it.
func (db *database) reader() *reader.Reader {
	return &reader.Reader{Store: db.store, Tenant: db.tenant, Name: db.at.name, Refresh: db.refresh}
}

func (db *database) find(ctx context.Context, ref string) (session.Key, error) {
	return db.reader().Find(ctx, ref)
}

func (db *database) resolve(ctx context.Context, ref string) (session.Key, error) {
	return db.reader().Resolve(ctx, ref)
}

func (db *database) locate(ctx context.Context, text string) (session.Key, address, error) {
	key, addr, err := db.reader().Locate(ctx, text)
	return key, address{addr}, err
}

func (db *database) withSubAgents(ctx context.Context, refs []string, only bool) ([]session.Key, error) {
	return db.reader().WithSubAgents(ctx, refs, only)
}

func (db *database) load(ctx context.Context, key session.Key) (session.Tree, error) {
	return db.reader().Load(ctx, key)
}

func (db *database) tree(ctx context.Context, key session.Key) (*session.Session, error) {
	return db.reader().Tree(ctx, key)
}

func (db *database) read(ctx context.Context, key session.Key) (session.Tree, error) {
	return db.reader().Read(ctx, key)
}

func (db *database) related(ctx context.Context, t session.Tree) ([]session.Tree, error) {
	return db.reader().Related(ctx, t.Session, db.load)
}

// address is what locate found besides a session.
type address struct{ reader.Address }

func (a address) pick(s *session.Session) (*session.Run, *session.Turn, error) { return a.Pick(s) }
