package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The command line stays small: few verbs, few flags. Each verb and each key of --config is documented.
func TestCommandLineIsSmall(t *testing.T) {
	const mostVerbs, mostFlags = 16, 115
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	must(t, err)
	root := (&app{}).root()
	verbs, flags := 0, 0
	count := func(f *pflag.Flag) {
		if flags++; f.Usage == "" {
			t.Errorf("--%s has no description", f.Name)
		}
	}
	root.PersistentFlags().VisitAll(count)
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		verbs++
		for line := range strings.Lines(c.Long) {
			if n := len(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("help of %s has a line of %d columns: %s", c.Name(), n, line)
			}
		}
		c.LocalNonPersistentFlags().VisitAll(count)
		if !strings.Contains(string(readme), "`"+c.Name()+"`") {
			t.Errorf("README.md does not name the verb %s", c.Name())
		}
	}
	if verbs > mostVerbs || flags > mostFlags {
		t.Errorf("%d verbs and %d flags, want at most %d and %d", verbs, flags, mostVerbs, mostFlags)
	}
	t.Logf("%d verbs, %d flags", verbs, flags)

	doc, err := os.ReadFile(filepath.Join(repository, "docs", "sending.md"))
	must(t, err)
	keys := reflect.TypeFor[tuning]()
	for i := range keys.NumField() {
		if key := keys.Field(i).Tag.Get("yaml"); !strings.Contains(string(doc), "| `"+key+"` |") {
			t.Errorf("docs/sending.md does not describe %s", key)
		}
	}
}
