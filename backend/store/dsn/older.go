package dsn

import (
	"errors"

	"github.com/otelagent/otelagent/backend/store/clickhousestore"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
)

// Older tells whether err, of Open with WithReadOnly, says that the store has the schema of an older program, and which
// versions it has and should have: opening it for writing brings it up to date.
func Older(err error) (have, want int, ok bool) {
	var file *sqlitestore.VersionError
	var tables *clickhousestore.VersionError
	switch {
	case errors.As(err, &file):
		have, want = file.Have, file.Want
	case errors.As(err, &tables):
		have, want = tables.Have, tables.Want
	}
	if have >= want {
		return 0, 0, false
	}
	return have, want, true
}
