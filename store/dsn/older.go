package dsn

import (
	"errors"

	"github.com/otelagent/otelagent/store/sqlitestore"
)

// Older tells whether err, of Open with WithReadOnly, says that the store has the schema of an older program, and which
// versions it has and should have: opening it for writing brings it up to date.
func Older(err error) (have, want int, ok bool) {
	var v *sqlitestore.VersionError
	if !errors.As(err, &v) || v.Have >= v.Want {
		return 0, 0, false
	}
	return v.Have, v.Want, true
}
