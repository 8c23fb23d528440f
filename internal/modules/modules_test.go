package modules

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// goMods returns the folders below root that hold a go.mod, as slash paths. The programs in interop have toolchains and
// checks of their own; what begins with a dot or an underscore is not source.
func goMods(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			switch {
			case rel == ".":
			case strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"),
				name == "testdata", name == "target", name == "node_modules", rel == "interop", rel == "bin":
				return fs.SkipDir
			}
			return nil
		}
		if d.Name() == "go.mod" {
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(dirs)
	return dirs
}

// makeVar returns the words of a variable that the Makefile sets on one line.
func makeVar(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" := "); ok {
			return strings.Fields(value)
		}
	}
	t.Fatalf("Makefile sets no %s", name)
	return nil
}

// TestMakefileKnowsEveryModule keeps a new module from being left out of the tests, and a removed one from breaking them.
func TestMakefileKnowsEveryModule(t *testing.T) {
	listed := slices.Concat(makeVar(t, "MODULES"), makeVar(t, "E2E_MODULES"), makeVar(t, "TOOL_MODULES"))
	slices.Sort(listed)
	found := goMods(t)
	for _, dir := range found {
		if !slices.Contains(listed, dir) {
			t.Errorf("%s has a go.mod and is in none of the Makefile's lists", dir)
		}
	}
	for i, dir := range listed {
		if !slices.Contains(found, dir) {
			t.Errorf("the Makefile lists %s, which has no go.mod", dir)
		}
		if i > 0 && listed[i-1] == dir {
			t.Errorf("the Makefile lists %s twice", dir)
		}
	}
	for _, dir := range found {
		if tool := strings.HasPrefix(dir, "internal/tools/"); tool != slices.Contains(makeVar(t, "TOOL_MODULES"), dir) {
			t.Errorf("%s: modules below internal/tools belong in TOOL_MODULES, and no others", dir)
		}
	}
}

type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path     string
		Version  string
		Indirect bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readMod(t *testing.T, dir string) goMod {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s/go.mod: %v", dir, err)
	}
	var m goMod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("read %s/go.mod: %v", dir, err)
	}
	return m
}

// TestNestedModules: their paths are where they are, and they replace nothing but modules of this repository by their
// folders.
func TestNestedModules(t *testing.T) {
	base := readMod(t, ".").Module.Path
	for _, dir := range goMods(t) {
		if dir == "." {
			continue
		}
		m := readMod(t, dir)
		if want := base + "/" + dir; m.Module.Path != want {
			t.Errorf("%s/go.mod names the module %s, want %s", dir, m.Module.Path, want)
		}
		for _, r := range m.Replace {
			target := filepath.Join(root, dir, r.New.Path)
			want, err := filepath.Rel(root, target)
			if err == nil {
				want = strings.TrimSuffix(base+"/"+filepath.ToSlash(want), "/.")
			}
			own := r.Old.Path == base || strings.HasPrefix(r.Old.Path, base+"/")
			if own && (err != nil || r.Old.Path != want) {
				t.Errorf("%s/go.mod replaces %s by %s, which is %s", dir, r.Old.Path, r.New.Path, want)
			}
			if !own && r.New.Version == "" {
				t.Errorf("%s/go.mod replaces %s by a folder", dir, r.Old.Path)
			}
		}
	}
}
