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

	path string
	read map[string]stamp // those of the target
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
	s := &importState{Format: 1, path: o.state, read: map[string]stamp{}}
	info, err := os.Stat(s.path)
	if !errors.Is(err, fs.ErrNotExist) {
		var text []byte
		if err == nil && info.Size() <= maxState {
			if text, err = os.ReadFile(s.path); err == nil {
				err = json.Unmarshal(text, s)
			}
		}
		if err != nil || s.Format != 1 || text == nil {
			return nil, fmt.Errorf("--state %s cannot be read: remove it, and everything is read again", s.path)
		}
	}
	target, there := o.Endpoint, true
	if o.Endpoint == "" {
		at, err := locate("--db", o.DB)
		if err != nil {
			return nil, err
		}
		if target = at.name; at.file {
			if target, err = filepath.Abs(at.name); err != nil {
				return nil, err
			}
			_, err = os.Stat(at.name)
			there = !errors.Is(err, fs.ErrNotExist)
		}
	}
	target += " " + o.Capture + " " + o.Tenant
	if s.Targets == nil {
		s.Targets = map[string]map[string]stamp{}
	}
	if read := s.Targets[target]; there && read != nil {
		s.read = read
	}
	s.Targets[target] = s.read
	return s, nil
}

// has reports whether the family was read as it is now.
func (s *importState) has(f transcript.Family) bool {
	for _, file := range f.Files {
		if was, ok := s.read[file.Path]; !ok || was != stampOf(file) {
			return false
		}
	}
	return true
}

// since notes when files that have grown were read before.
func (s *importState) since(f transcript.Family) {
	for i, file := range f.Files {
		if was, ok := s.read[file.Path]; ok && was.Size <= file.Size {
			f.Files[i].Since = time.Unix(0, was.Modified)
		}
	}
}

// note remembers that a family was read.
func (s *importState) note(f transcript.Family) {
	for _, file := range f.Files {
		s.read[file.Path] = stampOf(file)
	}
}

// save writes the file, whole or not at all.
func (s *importState) save() error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path), 0o700)
	}
	if err == nil {
		err = writeFile(s.path, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
