package examples

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// otelagent returns the binary that OTELAGENT names, else one built here.
func otelagent(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("OTELAGENT"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "otelagent")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = filepath.Join("..", "cmd", "otelagent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build otelagent: %v\n%s", err, out)
	}
	return bin
}

// TestRun runs each example by the one command that the README names, and compares what a stranger sees. Those that
// need another toolchain run where EXAMPLES names them, which the interop steps of CI do (`make interop-phi-core` and
// others).
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and runs programs")
	}
	names := strings.Fields(os.Getenv("EXAMPLES"))
	if len(names) == 0 {
		mains, err := filepath.Glob("*/main.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, main := range mains {
			names = append(names, filepath.Dir(main))
		}
	}
	bin := otelagent(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "./run.sh", name)
			cmd.Env = append(os.Environ(), "OTELAGENT="+bin)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, &errs)
			}
			got := steady(string(out))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run.sh %s (-want +got):\n%s%s", name, diff, &errs)
			}
		})
	}
}

// steady takes out what differs from one run to the next: ids, times and durations.
func steady(s string) string {
	for _, r := range []struct{ pattern, by string }{
		{`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`, "UUID"},
		{`\b[A-Z2-7]{26}\b`, "ID"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( – (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)? UTC`, "TIME"},
		{` +~?\d+(\.\d+)?(ns|µs|ms|s)\b`, " TOOK"},
		{` +\n`, "\n"},
	} {
		s = regexp.MustCompile(r.pattern).ReplaceAllString(s, r.by)
	}
	return s
}
