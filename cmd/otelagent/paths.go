package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
)

const (
	// envDB names the variable that stands in for --db.
	envDB = "OTELAGENT_DB"
	// envPassword names the variable that holds the password of a database that wants one. It stands nowhere else: a DSN
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
		if openErr != nil {
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
		return fmt.Errorf("there is no database %[1]s\nRun 'otelagent up' and send spans to it, or 'otelagent send --db "+
			"%[1]s FILE', or name another one", l.name)
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
