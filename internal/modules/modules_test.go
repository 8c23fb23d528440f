package modules

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// tracked returns the files of the clone that match the patterns of git, as slash paths, also those not committed yet.
func tracked(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	args := append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)
	list := exec.Command("git", args...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("this is not a clone: ", err)
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil { // else deleted, and not committed yet
			files = append(files, file)
		}
	}
	return files
}

// goMods returns the folders with a go.mod, except in interop, whose programs have toolchains and checks of their own.
func goMods(t *testing.T) (dirs []string) {
	t.Helper()
	for _, file := range tracked(t, "go.mod", "*/go.mod") {
		if !strings.HasPrefix(file, "interop/") && !strings.Contains(file, "testdata/") {
			dirs = append(dirs, path.Dir(file))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// makeVar returns the fields of a variable that the Makefile sets on one line.
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

func TestMakefileKnowsEveryModule(t *testing.T) {
	listed := slices.Concat(makeVar(t, "MODULES"), makeVar(t, "E2E_MODULES"), makeVar(t, "TOOL_MODULES"))
	slices.Sort(listed)
	found := goMods(t)
	if !slices.Equal(listed, found) {
		t.Errorf("the Makefile lists %q, go.mod files are in %q", listed, found)
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

// TestRootModule: whoever imports the adapter gets no replace (such a module cannot be installed by version), nothing
// of the
// Collector, no exporter, and no module of this repository.
func TestRootModule(t *testing.T) {
	m := readMod(t, ".")
	if len(m.Replace) > 0 {
		t.Errorf("the root go.mod replaces %v; replace belongs in nested modules", m.Replace)
	}
	for _, r := range m.Require {
		for _, refused := range []string{
			"go.opentelemetry.io/collector", "go.opentelemetry.io/otel/exporters", "google.golang.org/grpc",
			"google.golang.org/protobuf",
			"modernc.org", module,
		} {
			if strings.HasPrefix(r.Path, refused) {
				t.Errorf("the root go.mod requires %s", r.Path)
			}
		}
	}
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
