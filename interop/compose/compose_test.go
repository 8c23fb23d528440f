package compose

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/distribution/reference"
	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestModel compares the services of each way of starting the stack with its golden file, and checks the rules that
// docker-compose.yaml promises of every service.
func TestModel(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			p := mustLoad(t, v)
			for _, broken := range check(p) {
				t.Error(broken)
			}
			got := render(p)
			golden := filepath.Join("testdata", v.name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
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

var (
	secretKey = regexp.MustCompile(`PASSWORD|SECRET|TOKEN|API_KEY`)
	// unlocked are services whose images need to write into themselves and to change users; docker-compose.yaml says why.
	unlocked = []string{"clickhouse"}
)

// check returns the rules of docker-compose.yaml that a project breaks.
func check(p *types.Project) (broken []string) {
	ofUser := map[string]bool{"": true} // only values in the files can be defaults
	for k, v := range p.Environment {
		if secretKey.MatchString(k) {
			ofUser[v] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		holds := func(rule string, ok bool) {
			if !ok {
				broken = append(broken, name+": "+rule)
			}
		}
		if s.Build == nil {
			ref, err := reference.ParseNormalizedNamed(s.Image)
			tag, tagged := ref.(reference.Tagged)
			_, digested := ref.(reference.Digested)
			version := tagged && regexp.MustCompile(`^v?\d+\.\d+`).MatchString(tag.Tag())
			holds("the image has a version and a digest: "+s.Image, err == nil && version && digested)
		} else {
			_, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile))
			holds("it is built by a file that is there", err == nil)
		}
		for _, port := range s.Ports {
			holds(fmt.Sprintf("port %d is published on a port of loopback", port.Target), port.HostIP == "127.0.0.1" && port.Published != "")
		}
		for _, v := range s.Volumes { // the loader refuses volumes that are not declared
			_, err := os.Stat(v.Source)
			holds("a file that is mounted is there, read-only: "+v.Source, v.Type != types.VolumeTypeBind || err == nil && v.ReadOnly)
		}
		for k, v := range s.Environment {
			holds(k+" has no value in the file", !secretKey.MatchString(k) || v == nil || ofUser[*v])
		}
		holds("a health check", s.HealthCheck != nil && !s.HealthCheck.Disable && len(s.HealthCheck.Test) > 1)
		holds("bounds of memory, processors and processes", s.MemLimit > 0 && s.CPUS > 0 && s.PidsLimit > 0)
		holds("a bound of logs", s.Logging != nil && s.Logging.Options["max-size"] != "" && s.Logging.Options["max-file"] != "")
		holds("a restart", s.Restart == types.RestartPolicyUnlessStopped)
		holds("neither privileged nor on the network of the host", !s.Privileged && s.NetworkMode != "host")
		locked := s.ReadOnly && slices.Equal(s.CapDrop, []string{"ALL"}) && slices.Contains(s.SecurityOpt, "no-new-privileges:true")
		holds("read_only, cap_drop and no-new-privileges", locked || slices.Contains(unlocked, name))
	}
	return broken
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
