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

// importState remembers, for each target, what was read.
type importState struct {
	Format  int                          `json:"format"` // 1
	Targets map[string]map[string]*stamp `json:"targets"`

	path   string
	target string
	hidden bool // the target is new: nothing that was read is there
}

// stamp is a file as it was when it was read. The log of an SQLite file belongs to it.
type stamp struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified_ns"`
	Log      int64 `json:"log,omitempty"`
	Logged   int64 `json:"logged_ns,omitempty"`
}

// at is when the file was written last.
func (s stamp) at() time.Time { return time.Unix(0, max(s.Modified, s.Logged)) }

func stampOf(path string) (s stamp) {
	if info, err := os.Lstat(path); err == nil {
		s.Size, s.Modified = info.Size(), info.ModTime().UnixNano()
	}
	if filepath.Ext(path) == ".db" {
		if info, err := os.Lstat(path + "-wal"); err == nil {
			s.Log, s.Logged = info.Size(), info.ModTime().UnixNano()
		}
	}
	return s
}

// stampsOf returns how the files of a family are now.
func stampsOf(f transcript.Family) map[string]stamp {
	out := map[string]stamp{}
	for _, file := range f.Files {
		out[file.Path] = stampOf(file.Path)
	}
	return out
}

// maxState bounds the file of the state.
const maxState = 256 << 20

// readImportState reads the file of --state. One that is damaged is an error, so that it is not replaced.
func readImportState(o *importOptions) (*importState, error) {
	s := &importState{Format: 1, Targets: map[string]map[string]*stamp{}, path: o.state, target: o.Endpoint}
	if o.Endpoint == "" {
		at, err := locate("--db", o.DB)
		if err != nil {
			return nil, err
		}
		if s.target = at.name; at.file {
			if s.target, err = filepath.Abs(at.name); err != nil {
				return nil, err
			}
			_, err := os.Stat(at.name)
			s.hidden = errors.Is(err, fs.ErrNotExist)
		}
	}
	s.target += " " + o.Capture + " " + o.Tenant
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var text []byte
	if err == nil && info.Size() <= maxState {
		if text, err = os.ReadFile(s.path); err == nil {
			err = json.Unmarshal(text, s)
		}
	}
	if err != nil || s.Format != 1 || text == nil {
		return nil, fmt.Errorf("--state %s cannot be read: remove it, and everything is read again", s.path)
	}
	if s.Targets == nil {
		s.Targets = map[string]map[string]*stamp{}
	}
	if s.hidden {
		delete(s.Targets, s.target)
	}
	return s, nil
}

// has reports whether the family was read as it is now.
func (s *importState) has(f transcript.Family) bool {
	read := s.Targets[s.target]
	for _, file := range f.Files {
		if was := read[file.Path]; was == nil || *was != stampOf(file.Path) {
			return false
		}
	}
	return true
}

// note remembers files that were read.
func (s *importState) note(read map[string]stamp) {
	if s.Targets[s.target] == nil {
		s.Targets[s.target] = map[string]*stamp{}
	}
	for path, is := range read {
		s.Targets[s.target][path] = &is
	}
}

// save writes the file, whole or not at all.
func (s *importState) save() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	err = writeFile(s.path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
