package compose

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestModel compares the services of each way of starting the stack with its golden file: ports on loopback, digests,
// health checks, bounds, mounts, passwords. The user of a variant gives its passwords; no other value is in the files.
func TestModel(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			p := mustLoad(t, v)
			got := render(p)
			golden := filepath.Join("testdata", v.name+".golden")
			if *update {
				must.Do(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want := must.Get(os.ReadFile(golden))(t)
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (go test -run TestModel -update writes it anew):\n%s", diff)
			}
		})
	}
}

// A setting that must not be forgotten stops the start.
func TestAdminNeedsPassword(t *testing.T) {
	v := variantNamed("grafana-admin")
	v.env = nil
	if _, err := load(t.Context(), v); err == nil || !strings.Contains(err.Error(), "GRAFANA_ADMIN_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
}

// render writes a project for people, without this machine's paths.
func render(p *types.Project) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), root+"/", "./") + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		line("%s", name)
		if s.Build != nil {
			line("  build       %s", s.Build.Dockerfile)
		} else {
			line("  image       %s", s.Image)
		}
		if s.User != "" {
			line("  user        %s", s.User)
		}
		for _, arg := range s.Command {
			line("  command     %s", arg)
		}
		for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
			if v := s.Environment[k]; v != nil {
				line("  environment %s=%s", k, *v)
			}
		}
		for _, port := range s.Ports {
			line("  port        %s:%s -> %d", port.HostIP, port.Published, port.Target)
		}
		for _, v := range s.Volumes {
			line("  %-11s %s -> %s (%s)", v.Type, v.Source, v.Target, map[bool]string{true: "ro", false: "rw"}[v.ReadOnly])
		}
		if s.HealthCheck != nil {
			line("  health      %s", strings.Join(s.HealthCheck.Test, " "))
		}
		locked := s.ReadOnly && slices.Equal(s.CapDrop, []string{"ALL"}) &&
			slices.Contains(s.SecurityOpt, "no-new-privileges:true")
		line("  locked      %v, privileged %v, network %q, restart %s", locked, s.Privileged, s.NetworkMode, s.Restart)
		if s.Logging != nil {
			line("  logs        %s, %s files", s.Logging.Options["max-size"], s.Logging.Options["max-file"])
		}
		for _, on := range slices.Sorted(maps.Keys(s.DependsOn)) {
			line("  after       %s (%s)", on, s.DependsOn[on].Condition)
		}
		line("  bounds      %d MiB, %g processors, %d processes", s.MemLimit>>20, s.CPUS, s.PidsLimit)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Volumes)) {
		line("volume %s", name)
	}
	return b.String()
}
