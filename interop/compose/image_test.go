//go:build linux

package compose

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/otelagent/otelagent/internal/must"
)

const dockerfile = "collector-exporter/distribution/Dockerfile"

// stages parses the Dockerfile as Docker's builder does; what that would warn of fails the test.
func stages(t *testing.T) (build, final instructions.Stage) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, dockerfile)))(t)
	parsed, err := parser.Parse(bytes.NewReader(text))
	must.Do(t, err)
	all, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, at []parser.Range) { t.Errorf("%s: %s (%v)", rule, message, at) },
	}))
	must.Do(t, err)
	for _, w := range parsed.Warnings {
		t.Errorf("%s", w.Short)
	}
	if len(all) != 2 {
		t.Fatalf("%d stages, want two", len(all))
	}
	return all[0], all[1]
}

func TestDockerfile(t *testing.T) {
	build, final := stages(t)
	ref, err := reference.ParseNormalizedNamed(build.BaseName)
	if _, digested := ref.(reference.Digested); err != nil || !digested || final.BaseName != "scratch" {
		t.Errorf("the stages are from %q (want a digest, %v) and %q (want scratch)", build.BaseName, err, final.BaseName)
	}
	// Grafana reads the files of the user of the image, which is not root.
	services := mustLoad(t, variantNamed("default")).Services
	id, _, _ := strings.Cut(services["grafana"].User, ":")
	var user string
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.HealthCheckCommand:
			if want := services["collector"].HealthCheck.Test; !slices.Equal(c.Health.Test, want) {
				t.Errorf("the image's health check is %q, and that of compose %q", c.Health.Test, want)
			}
		}
	}
	if !strings.HasPrefix(user, id+":") || id == "0" {
		t.Errorf("the image's user is %s, and Grafana's %s", user, id)
	}
}
