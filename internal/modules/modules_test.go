package modules

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
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
	text := must.Get(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" := "); ok {
			return strings.Fields(value)
		}
	}
	t.Fatalf("Makefile sets no %s", name)
	return nil
}

// instrumentation are the modules for frameworks, which the Makefile finds by itself.
const instrumentation = "instrumentation/"

func ofInstrumentation(dir string) bool { return strings.HasPrefix(dir, instrumentation) }

func TestMakefileKnowsEveryModule(t *testing.T) {
	listed := slices.Concat(makeVar(t, "MODULES"), makeVar(t, "E2E_MODULES"), makeVar(t, "TOOL_MODULES"),
		makeVar(t, "FRAMEWORK_EXAMPLES"))
	slices.Sort(listed)
	found := slices.DeleteFunc(goMods(t), ofInstrumentation)
	if !slices.Equal(listed, found) {
		t.Errorf("the Makefile lists %q, go.mod files are in %q", listed, found)
	}
	for _, dir := range found {
		if tool := strings.HasPrefix(dir, "internal/tools/"); tool != slices.Contains(makeVar(t, "TOOL_MODULES"), dir) {
			t.Errorf("%s: modules below internal/tools belong in TOOL_MODULES, and no others", dir)
		}
	}
}

var (
	scopeName  = regexp.MustCompile(`(?m)^(?:const |\t)ScopeName += "([^"]+)"$`)
	newestLine = regexp.MustCompile(`(?m)^.*\bv[^ ]+ // newest v[^ ]+$`)
)

// TestInstrumentation requires of each module below instrumentation that its scope is its path, that its go.mod names
// the newest version of the framework next to the oldest, and that docs/start-go.md names it. A module in a folder test
// has the tests of the one above, where those require more than it does.
func TestInstrumentation(t *testing.T) {
	guide := must.Get(os.ReadFile(filepath.Join(root, "docs/start-go.md")))(t)
	for _, dir := range slices.DeleteFunc(goMods(t), func(dir string) bool { return !ofInstrumentation(dir) }) {
		mod := must.Get(os.ReadFile(filepath.Join(root, dir, "go.mod")))(t)
		if !newestLine.Match(mod) {
			t.Errorf(`%s/go.mod: no requirement ends with "// newest VERSION"`, dir)
		}
		if path.Base(dir) == "test" {
			continue
		}
		if !strings.Contains(string(guide), dir) {
			t.Errorf("docs/start-go.md does not name %s", dir)
		}
		var scope string
		for _, file := range tracked(t, dir+"/*.go") {
			code := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
			if m := scopeName.FindSubmatch(code); m != nil && path.Dir(file) == dir {
				scope = string(m[1])
			}
		}
		if want := readMod(t, dir).Module.Path; scope != want {
			t.Errorf("%s: ScopeName is %q, want %q", dir, scope, want)
		}
	}
}

var (
	racedLine  = regexp.MustCompile(`\$\(call raced,([^,]+),([^)]+)\)`)
	concurrent = regexp.MustCompile(`(?m)^\s*(defer )?go [a-zA-Z]|sync\.(RW)?Mutex|\.Go\(func`)
)

// TestRaceCoversConcurrentCode requires that make race has every package of MODULES that starts goroutines or has a
// mutex. The target instrumentation always has the race detector.
func TestRaceCoversConcurrentCode(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	var raced []string
	for _, line := range racedLine.FindAllStringSubmatch(string(text), -1) {
		for pkg := range strings.FieldsSeq(line[2]) {
			raced = append(raced, path.Join(line[1], pkg))
		}
	}
	frameworks := slices.DeleteFunc(goMods(t), func(dir string) bool { return !ofInstrumentation(dir) })
	for _, file := range tracked(t, "*.go") {
		dir := path.Dir(file)
		skip := strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "interop/") ||
			strings.Contains(file, "/internal/metadata/") || // generated
			slices.ContainsFunc(frameworks, func(m string) bool { return match(m+"/...", dir) })
		if skip || slices.ContainsFunc(raced, func(r string) bool {
			parent, all := strings.CutSuffix(r, "/...")
			return dir == r || all && strings.HasPrefix(dir, parent)
		}) {
			continue
		}
		if code, err := os.ReadFile(filepath.Join(root, file)); err == nil && concurrent.Match(code) {
			t.Errorf("make race omits %s, but %s is concurrent", dir, file)
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
