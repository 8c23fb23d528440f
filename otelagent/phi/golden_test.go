package phi

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden reads whole streams and compares every event, field by field, with testdata/*.golden.
func TestGolden(t *testing.T) {
	for _, name := range []string{"sample-variants", "sample-session", "traps"} {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(strings.Join(collect(string(in)), "\n"))
			golden := filepath.Join("testdata", name+".golden")
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
