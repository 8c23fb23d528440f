package modules

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/must"
)

// TestFilesAreSmall fails for a tracked file of more than 2 MiB, such as a binary that a benchmark left.
func TestFilesAreSmall(t *testing.T) {
	for _, path := range tracked(t, "*") {
		if info := must.Get(os.Lstat(filepath.Join(root, filepath.FromSlash(path))))(t); info.Size() > 2<<20 {
			t.Errorf("%s: %d bytes, at most 2 MiB", path, info.Size())
		}
	}
}

// TestLines fails for a Go file of more than 600 lines, and for a line of more than 120 characters. Generated files may
// have both.
func TestLines(t *testing.T) {
	for _, path := range tracked(t, "*.go") {
		text := must.Get(os.ReadFile(filepath.Join(root, filepath.FromSlash(path))))(t)
		if bytes.Contains(text, []byte("\n// Code generated ")) || bytes.HasPrefix(text, []byte("// Code generated ")) {
			continue
		}
		lines := bytes.Split(text, []byte("\n"))
		if len(lines) > 601 {
			t.Errorf("%s: %d lines, at most 600", path, len(lines)-1)
		}
		for i, line := range lines {
			if n := utf8.RuneCount(line); n > 120 {
				t.Errorf("%s:%d: %d characters, at most 120", path, i+1, n)
			}
		}
	}
}
