package sqlitestore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/otelagent/otelagent/backend/store"
)

// allowed is what error texts about a DSN end with.
const allowed = "give the path of a SQLite file or sqlite:PATH"

// dsnError is a store.ErrUnusable whose text ends with what is allowed, so that a caller that knows more kinds of
// stores can append them.
type dsnError string

func (e dsnError) Error() string { return string(e) }

// Is makes it a store.ErrUnusable.
func (e dsnError) Is(target error) bool { return target == store.ErrUnusable }

// scheme has at least two letters, so that a drive letter is none.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)

// ParseDSN returns the path of the database file that dsn names: a path, or `sqlite:` and a path. It touches no file.
// Its errors wrap store.ErrUnusable and name the value, but only the scheme of a foreign one, which may hold a
// password.
func ParseDSN(dsn string) (path string, err error) {
	path, ours := strings.CutPrefix(dsn, "sqlite:")
	s := scheme.FindString(path)
	switch {
	case path == "":
		return "", dsnError(fmt.Sprintf("sqlitestore: store %q: no path: %s", dsn, allowed))
	case strings.ContainsRune(path, 0):
		return "", dsnError(fmt.Sprintf("sqlitestore: store %q: zero byte in a path: %s", dsn, allowed))
	case path == ":memory:":
		return "", dsnError(fmt.Sprintf("sqlitestore: store %q: databases in memory are not supported: %s", dsn, allowed))
	case ours && strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return "", dsnError(fmt.Sprintf("sqlitestore: store %q: sqlite: takes a path, not a host: %s", dsn, allowed))
	case !ours && s == "file:":
		return "", dsnError(fmt.Sprintf("sqlitestore: store %q: SQLite URIs are not supported: %s", dsn, allowed))
	case !ours && s != "":
		return "", dsnError(fmt.Sprintf("sqlitestore: store %s...: scheme %q is not in this build: %s", s,
			strings.TrimSuffix(s, ":"), allowed))
	}
	return path, nil
}
