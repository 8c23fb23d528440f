package sqlitestore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/otelagent/otelagent/store"
)

// allowed is what error texts about a DSN end with.
const allowed = "give the path of a SQLite file or sqlite:PATH"

// scheme has at least two letters, so that a drive letter is none.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)

// ParseDSN returns the path of the database file that dsn names: a path, or `sqlite:` and a path. It touches no file. Its
// errors wrap store.ErrUnusable and name the value, but only the scheme of a foreign one, which may hold a password.
func ParseDSN(dsn string) (path string, err error) {
	path, ours := strings.CutPrefix(dsn, "sqlite:")
	s := scheme.FindString(path)
	switch {
	case path == "":
		return "", fmt.Errorf("sqlitestore: store %q: no path: %s: %w", dsn, allowed, store.ErrUnusable)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("sqlitestore: store %q: zero byte in a path: %s: %w", dsn, allowed, store.ErrUnusable)
	case path == ":memory:":
		return "", fmt.Errorf("sqlitestore: store %q: databases in memory are not supported: %s: %w", dsn, allowed, store.ErrUnusable)
	case ours && strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return "", fmt.Errorf("sqlitestore: store %q: sqlite: takes a path, not a host: %s: %w", dsn, allowed, store.ErrUnusable)
	case !ours && s == "file:":
		return "", fmt.Errorf("sqlitestore: store %q: SQLite URIs are not supported: %s: %w", dsn, allowed, store.ErrUnusable)
	case !ours && s != "":
		return "", fmt.Errorf("sqlitestore: store %s...: scheme %q is not in this build: %s: %w", s, strings.TrimSuffix(s, ":"), allowed, store.ErrUnusable)
	}
	return path, nil
}
