package modules

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// adapterOnly is a program that imports the adapter and nothing else.
const adapterOnly = `package main

import (
	"context"

	"github.com/otelagent/otelagent/otelagent"
)

func main() {
	_, run := otelagent.NewTracer().StartRun(context.Background(), otelagent.RunInfo{Agent: "a"})
	run.End(otelagent.RunResult{})
}
`

// program writes a module of one file that uses the adapter of this clone, resolves and builds it, and returns its
// folder. Requirements are PATH@VERSION, and folders of other modules of this clone.
func program(t *testing.T, source string, requirements ...string) string {
	t.Helper()
	clone := must.Get(filepath.Abs(root))(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	goTool(t, dir, "mod", "init", "example.com/program")
	goTool(t, dir, "mod", "edit", "-require="+module+"@v0.0.0", "-replace="+module+"="+clone)
	for _, r := range requirements {
		if own := module + "/" + r; !strings.Contains(r, "@") {
			goTool(t, dir, "mod", "edit", "-require="+own+"@v0.0.0", "-replace="+own+"="+filepath.Join(clone, r))
			continue
		}
		goTool(t, dir, "mod", "edit", "-require="+r)
	}
	goTool(t, dir, "mod", "tidy", "-e")
	goTool(t, dir, "build", "-o", os.DevNull, ".")
	return dir
}

func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// A program that imports only the adapter gets the OpenTelemetry API and little else: at most 30 lines of go.sum, and
// no module in its build list that could change the versions of grpc, protobuf, SQLite or a compressor that the program
// uses.
func TestAdapterIsLight(t *testing.T) {
	dir := program(t, adapterOnly)
	sum := must.Get(os.ReadFile(filepath.Join(dir, "go.sum")))(t)
	if n := bytes.Count(sum, []byte("\n")); n > 30 {
		t.Errorf("go.sum has %d lines, want at most 30:\n%s", n, sum)
	}
	for m := range strings.Lines(goTool(t, dir, "list", "-m", "all")) {
		for _, refused := range []string{"google.golang.org/", "modernc.org/", "go.opentelemetry.io/collector/",
			"go.opentelemetry.io/proto/", "klauspost/compress"} {
			if strings.Contains(m, refused) {
				t.Errorf("the build list has %s", strings.TrimSpace(m))
			}
		}
	}
}

var frameworks = flag.Bool("frameworks", false, "build the adapter together with agent frameworks, which takes minutes")

// adk is the newest release of Google's Agent Development Kit that resolves. It uses names of otel/log that
// OpenTelemetry 1.47 no longer has, so it compiles only while the adapter does not require that release.
const adk = "google.golang.org/adk/v2@v2.2.0"

// The adapter, its integration and otelsetup can be used in a program with another agent framework, whose OpenTelemetry
// is older than the newest.
func TestAdapterFitsTheADK(t *testing.T) {
	if !*frameworks {
		t.Skip("make newest runs it: it compiles a large framework")
	}
	program(t, strings.Replace(adapterOnly, `"context"
`, `"context"

	_ "github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
	_ "github.com/otelagent/otelagent/otelagent/otelsetup"
	_ "google.golang.org/adk/v2/runner"
`, 1), adk, "otelagent/otelsetup", "instrumentation/google.golang.org/adk/v2/oteladk")
}
