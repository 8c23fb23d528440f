package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes path through a temporary file in the same directory: readers see the old content or the new one,
// never a half. Only the user may read it. An existing path that is no file, such as /dev/stdout, is written to as it
// is.
func writeFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return write(f)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		var of *fs.PathError
		if errors.As(err, &of) { // nobody knows that file
			err = of.Err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // which is gone once it is renamed
	if err := firstError(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
