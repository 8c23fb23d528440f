//go:build unix

package sqlitestore

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// writable returns why this process cannot write path, or make files next to it. SQLite would open the file for reading
// instead. It opens nothing: closing a file would take away the locks that this process has on it.
func writable(path string) error {
	const read, write, search = 4, 2, 1
	if err := syscall.Access(path, read|write); err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := syscall.Access(filepath.Dir(path), write|search); err != nil {
		return &fs.PathError{Op: "write into", Path: filepath.Dir(path), Err: err}
	}
	return nil
}
