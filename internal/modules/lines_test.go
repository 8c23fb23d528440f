package modules

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// TestLines fails for a Go file of more than 600 lines, and for a line of more than 120 characters. Generated files may
// have both.
func TestLines(t *testing.T) {
	for _, path := range tracked(t, "*.go") {
		text := must(os.ReadFile(filepath.Join(root, filepath.FromSlash(path))))(t)
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
