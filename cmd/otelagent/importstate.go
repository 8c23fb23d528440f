package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/otelagent/otelagent/dialects/transcript"
)

// importState remembers, for each target, how the files were that were read.
type importState struct {
	Format  int                         `json:"format"` // 1
	Targets map[string]map[string]stamp `json:"targets"`

	path         string
	read, failed map[string]stamp // those of the target, and those that cannot be read now
}

// stamp is a file as it was found before it was read.
type stamp struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified_ns"`
}

func stampOf(f transcript.File) stamp { return stamp{f.Size, f.Modified.UnixNano()} }

// maxState bounds the file of the state.
const maxState = 256 << 20

// readImportState reads the file of --state. One that is damaged is an error, so that it is not replaced. Where the
// database is not there, nothing was read.
func readImportState(o *importOptions) (*importState, error) {
	s := &importState{Format: 1, Targets: map[string]map[string]stamp{}, path: o.state, failed: map[string]stamp{}}
	f, err := os.Open(s.path)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxState)).Decode(s)
		_ = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || s.Format != 1 || s.Targets == nil {
		return nil, fmt.Errorf("--state %s cannot be read: remove it, and everything is read again", s.path)
	}
	target := o.at.name
	if path, err := filepath.Abs(target); err == nil && o.at.file {
		target = path
	}
	target += " " + o.Capture + " " + o.Tenant
	_, err = os.Stat(o.at.name)
	if s.read = s.Targets[target]; s.read == nil || o.at.file && errors.Is(err, fs.ErrNotExist) {
		s.read = map[string]stamp{}
		s.Targets[target] = s.read
	}
	return s, nil
}

// has reports whether the family was read as it is now, or cannot be read, and notes when files that have grown were
// read before.
func (s *importState) has(f transcript.Family) bool {
	all := true
	for i, file := range f.Files {
		now, was := stampOf(file), s.read[file.Path]
		if all = all && (was == now || s.failed[file.Path] == now); was.Modified != 0 && was.Size <= now.Size {
			f.Files[i].Since = time.Unix(0, was.Modified)
		}
	}
	return all
}

// note remembers how the files of a family are.
func note(in map[string]stamp, f transcript.Family) {
	for _, file := range f.Files {
		in[file.Path] = stampOf(file)
	}
}

// save writes the file, whole or not at all.
func (s *importState) save() error {
	err := firstError(os.MkdirAll(filepath.Dir(s.path), 0o700),
		writeFile(s.path, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }))
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
