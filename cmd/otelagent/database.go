package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/dialects/input"
)

// database is an open database, or a recording that was read into memory, and the tenant whose sessions are read.
type database struct {
	*reader.Reader
	app *app
	at  location
	// recording says that it is in memory, and does not change.
	recording bool
	// behind says that summaries are known to be behind.
	behind bool
}

// open opens the given database, or what --db names, to read: a database, or recordings. It makes none.
func (a *app) open(ctx context.Context, names ...string) (*database, error) {
	if len(names) == 0 {
		names = a.dbs
	}
	if len(names) > 1 || len(names) == 1 && isRecording(names[0]) {
		return a.openRecording(ctx, names, auto)
	}
	at, err := chooseDatabase(strings.Join(names, ""))
	if err != nil {
		return nil, err
	}
	return a.openDatabase(ctx, at, true)
}

// openDatabase opens a database that is there.
func (a *app) openDatabase(ctx context.Context, at location, readOnly bool) (*database, error) {
	if err := at.there(); err != nil {
		return nil, err
	}
	st, err := at.open(ctx, readOnly)
	if err != nil {
		return nil, err
	}
	return a.databaseOf(at, st), nil
}

func (a *app) databaseOf(at location, st store.Store) *database {
	db := &database{app: a, at: at}
	db.Reader = &reader.Reader{Store: st, Tenant: a.tenant, Name: at.name, Refresh: db.refresh}
	return db
}

// reads is the body of a verb that reads the database, or the recordings, of --db, with current summaries.
func (a *app) reads(body func(context.Context, *database, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		db, err := a.open(cmd.Context())
		if err != nil {
			return a.hint(args, err)
		}
		defer db.close()
		if err = db.refresh(cmd.Context()); err == nil {
			err = body(cmd.Context(), db, args)
		}
		return a.hint(args, err)
	}
}

// oneDatabase is the value of --db for a verb that writes; empty where it is not given.
func (a *app) oneDatabase() (string, error) {
	if len(a.dbs) > 1 {
		return "", usagef("--db is given %d times, want one database", len(a.dbs))
	}
	return strings.Join(a.dbs, ""), nil
}

// fileAndAddress splits FILE/ADDRESS, where there is that file. The names of any other argument are those of --db.
func (a *app) fileAndAddress(arg string) (names []string, ref string) {
	for i := len(arg); i > 0 && len(a.dbs) == 0; i-- {
		if (i == len(arg) || arg[i] == '/' && i < len(arg)-1) && isFile(arg[:i]) {
			return []string{arg[:i]}, strings.TrimPrefix(arg[i:], "/")
		}
	}
	return a.dbs, arg
}

// locate returns the session that an address names, and what of it; without an address the one session that there is.
func (db *database) locate(ctx context.Context, ref string) (key session.Key, addr reader.Address, err error) {
	if ref == "" {
		ref, err = db.only(ctx)
	}
	if err == nil {
		key, addr, err = db.Locate(ctx, ref)
		err = db.app.hint([]string{ref}, err)
	}
	return key, addr, err
}

func (db *database) close() { _ = db.Store.Close() }

// summaries returns the sessions of a query.
func (db *database) summaries(ctx context.Context, q store.Query) (list []session.Summary, err error) {
	for s, err := range db.Store.Sessions(ctx, q) {
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// refresh brings summaries up to date: `last` and lists are made from them. It opens the database for writing only
// where a summary is behind. Where it cannot write, summaries stay behind.
func (db *database) refresh(ctx context.Context) error {
	behind, err := db.summaries(ctx, store.Query{AllTenants: true, Stale: true, Limit: 1})
	if err != nil || len(behind) == 0 || db.recording {
		return err
	}
	st, err := db.at.open(ctx, false)
	if err != nil {
		return ctx.Err() // another user's file, or a full disk
	}
	defer st.Close()
	err = project.Refresh(ctx, st)
	if ctx.Err() != nil {
		return err
	}
	if err != nil && !db.behind {
		db.app.say("some summaries are behind: %v", err)
	}
	db.behind = err != nil
	return nil
}

// errSeveral says that a database holds several sessions and none was named.
var errSeveral = errors.New("holds several sessions")

// only returns the one session of a database, without the sub-agents that another session of it spawned.
func (db *database) only(ctx context.Context) (string, error) {
	if err := db.refresh(ctx); err != nil {
		return "", err
	}
	id := ""
	for s, err := range db.Store.Sessions(ctx, store.Query{Tenant: db.Tenant}) {
		if err != nil {
			return "", err
		}
		if s.Parent != "" && s.Parent != s.ID {
			if _, err := db.Store.Revision(ctx, session.Key{Tenant: db.Tenant, ID: s.Parent}); err == nil {
				continue
			}
		}
		if id != "" {
			return "", usagef("%s %w: name one of them, such as %s; 'otelagent ls' lists them", db.at.name, errSeveral, id)
		}
		id = s.ID
	}
	if id == "" {
		return "", fmt.Errorf("there is no session in %s", db.at.name)
	}
	return id, nil
}

// completeSession completes the ids of sessions in a shell.
func (a *app) completeSession(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	a.dbs = slices.Compact(a.dbs) // cobra parses the flags twice
	db, err := a.open(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer db.close()
	var ids []string
	list, _ := db.summaries(c.Context(), store.Query{Tenant: db.Tenant, Prefix: prefix, Limit: 50})
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, cobra.ShellCompDirectiveDefault
}

// isRecording reports whether a name is one of a file of events, and not of a database.
func isRecording(name string) bool {
	info, err := os.Stat(name)
	return name == "-" || err == nil && !info.IsDir() &&
		(!info.Mode().IsRegular() || info.Size() > 0 && !isDatabase(name))
}

// isDatabase reports whether a file is an SQLite database of otelagent, by its application id. One that live sessions
// of the agent guide are kept in has the same tables, and another id.
func isDatabase(path string) bool {
	const otag = 0x6f746167
	head := sqliteHead(path)
	id := 0
	if len(head) == 0 {
		return false
	}
	if id = int(binary.BigEndian.Uint32(head[68:])); id == 0 { // it is in the log still
		if db, err := input.OpenSQLite(path); err == nil {
			defer db.Close()
			_ = db.QueryRow("PRAGMA application_id").Scan(&id)
		}
	}
	return id == otag
}

func isSQLite(path string) bool { return len(sqliteHead(path)) > 0 }

// sqliteHead returns the head of an SQLite file, nil of any other.
func sqliteHead(path string) []byte {
	head := make([]byte, 100)
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.ReadAt(head, 0); err != nil || !input.IsSQLite(head) {
		return nil
	}
	return head
}

// isFile reports whether an argument is the path of a file, or standard input.
func isFile(arg string) bool {
	info, err := os.Stat(arg)
	return arg == "-" || err == nil && !info.IsDir()
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// hint adds to err, about arguments that name no session, whether the last of them is a file, or looks like one.
func (a *app) hint(args []string, err error) error {
	if err == nil || len(a.dbs) > 0 || len(args) == 0 || errors.As(err, new(*exitError)) {
		return err
	}
	arg := args[len(args)-1]
	info, statErr := os.Stat(arg)
	switch {
	case statErr == nil && info.IsDir():
		err = fmt.Errorf("%w\n%s is a directory: 'otelagent send' reads the sessions of agents in it", err, arg)
	case statErr == nil:
		err = fmt.Errorf("%w\n%s is a file: --db reads it", err, arg)
	case filepath.Ext(arg) != "" || filepath.IsAbs(arg) || strings.HasPrefix(arg, "."):
		err = fmt.Errorf("%w\nAnd there is no file %s", err, arg)
	}
	return err
}

const (
	// envDB names the variable that stands in for --db.
	envDB = "OTELAGENT_DB"
	// envPassword names the variable that holds the password of a database that wants one. It is nowhere else: a DSN
	// is seen by everybody who sees the list of processes.
	envPassword = "OTELAGENT_DB_PASSWORD"
)

// databaseHelp describes the DSN of --db.
const databaseHelp = "PATH, sqlite:PATH or clickhouse://HOST/DATABASE"

// location is where a database is.
type location struct {
	dsn string
	// name is what messages show: the path of a file, else the DSN, which holds no password.
	name string
	// file says that it is a file of this machine.
	file bool
}

// locate reads a DSN. What it comes from is named when it makes no sense.
func locate(from, text string) (location, error) {
	if err := dsn.Check(text); err != nil {
		return location{}, usagef("%s: %w", from, err)
	}
	if path, ok := dsn.File(text); ok {
		return location{text, path, true}, nil
	}
	return location{text, text, false}, nil
}

// open opens the database. One that is a file is made when it is not there, unless it is opened to read. Where it
// cannot be opened, the error says what the system says of the file, which is plainer than what SQLite makes of it.
func (l location) open(ctx context.Context, readOnly bool, opts ...dsn.Option) (store.Store, error) {
	flag := os.O_RDWR
	if readOnly {
		flag, opts = os.O_RDONLY, append(opts, dsn.WithReadOnly())
	}
	st, err := dsn.Open(ctx, l.dsn, append(opts, dsn.WithPassword(os.Getenv(envPassword)))...)
	if err != nil && l.file {
		f, openErr := os.OpenFile(l.name, flag, 0)
		if openErr != nil && !errors.Is(openErr, fs.ErrNotExist) { // one that is not made has a reason in err
			return nil, openErr
		}
		_ = f.Close()
	}
	return st, err
}

// there fails when the database is a file that does not exist, or that cannot be a database of otelagent.
func (l location) there() error {
	if !l.file {
		return nil
	}
	info, err := os.Stat(l.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no database %s\n'otelagent up', 'otelagent import' and 'otelagent send --db' make one; "+
			"--db names another one", l.name)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory, want the file of a database", l.name)
	case info.Size() == 0: // which SQLite would make one of
		return fmt.Errorf("%s is empty, want the file of a database", l.name)
	}
	return nil
}

// defaultPath is where sessions are kept by default: one file a user.
func defaultPath() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "otelagent", "sessions.db"), nil
	}
	var dir string
	var err error
	switch runtime.GOOS {
	case "windows", "darwin", "ios":
		dir, err = os.UserConfigDir()
	default:
		dir, err = os.UserHomeDir()
		dir = filepath.Join(dir, ".local", "share")
	}
	if err != nil {
		return "", fmt.Errorf("where to keep sessions is not known (%w): give --db PATH", err)
	}
	return filepath.Join(dir, "otelagent", "sessions.db"), nil
}

// chooseDatabase returns the database to use: the flag, else the environment, else the default.
func chooseDatabase(flag string) (location, error) {
	if flag != "" {
		return locate("--db", flag)
	}
	if env := os.Getenv(envDB); env != "" {
		return locate("$"+envDB, env)
	}
	path, err := defaultPath()
	if err != nil {
		return location{}, err
	}
	return locate("--db", path)
}

// writeFile writes path through a temporary file in the same directory: readers see the old content or the new one,
// never a half. Only the user may read it. An existing path that is no file, such as /dev/stdout, is written to as it
// is. When ctx ends, it writes no file.
func writeFile(ctx context.Context, path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return write(f)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err == nil {
		defer os.Remove(f.Name())                                // which is gone once it is renamed
		stop := context.AfterFunc(ctx, func() { _ = f.Close() }) // writing fails then
		err = cmp.Or(write(f), f.Sync())
		stop()
		err = cmp.Or(err, f.Close())
	}
	var of *fs.PathError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &of): // nobody knows that file
		return fmt.Errorf("write %s: %w", path, of.Err)
	case err != nil:
		return err
	}
	return os.Rename(f.Name(), path)
}
