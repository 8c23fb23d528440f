package foreign

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestTrees holds the whole trees of all recordings.
func TestTrees(t *testing.T) {
	table := Default()
	for _, name := range slices.Sorted(maps.Keys(expectations(t))) {
		got := must.Get(json.MarshalIndent(assemble(table, entryRows(t, table, name)), "", " "))(t)
		file := filepath.Join("testdata", "trees", name+".json")
		if *update {
			must.Do(t, os.WriteFile(file, got, 0o644))
			continue
		}
		want := must.Get(os.ReadFile(file))(t)
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
