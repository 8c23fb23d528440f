package acp

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

var update = flag.Bool("update", false, "write the golden files anew")

// lines reads all of text and returns its events as otelagent's own lines, and its errors.
func lines(text string, opts ...input.Option) []string {
	var out []string
	for ev, err := range Events(strings.NewReader(text), opts...) {
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, string(ndjson.AppendEvent(nil, ev)))
	}
	return out
}

// TestGolden reads whole captures and compares every event with testdata/NAME.golden.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(strings.Join(lines(string(in)), "\n") + "\n")
			golden := strings.TrimSuffix(file, ".ndjson") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
				for i := range min(len(g), len(w)) {
					if g[i] != w[i] {
						t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(-update writes it anew)", golden, i+1, g[i], w[i])
					}
				}
				t.Fatalf("%s: got %d lines, want %d", golden, len(g), len(w))
			}
		})
	}
}
