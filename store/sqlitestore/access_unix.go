//go:build unix

package sqlitestore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// denied tells whether this process may not write path or not read the directory that it is in. It opens neither: closing a file
// would take away the locks that this process has on it.
func denied(path string) bool {
	const read, write, search = 4, 2, 1
	return errors.Is(syscall.Access(path, read|write), fs.ErrPermission) || errors.Is(syscall.Access(filepath.Dir(path), write|search), fs.ErrPermission)
}
