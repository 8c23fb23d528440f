package compose

import (
	"cmp"
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

// What each way of starting it comes to, service by service.
func TestModel(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			got := render(mustLoad(t, v))
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

// The rules that every service keeps, in every way of starting it.
func TestRules(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			for _, broken := range check(mustLoad(t, v)) {
				t.Error(broken)
			}
		})
	}
}

// Each rule finds what breaks it, and nothing else in the same service.
func TestRulesFind(t *testing.T) {
	const good = `
    image: docker.io/library/x:1.2@sha256:46a886260e04002d8f45e213fc39063fa11a50446048fdaa64786fc0840cb9f8
    restart: unless-stopped
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    mem_limit: 1g
    cpus: 1
    pids_limit: 10
    logging: {driver: json-file, options: {max-size: 1m, max-file: "2"}}
    ports: ["127.0.0.1:1:1"]
    healthcheck: {test: [CMD, x]}
    volumes: ["./LICENSE:/x:ro", "v:/v"]
    environment: {A_PASSWORD: ""}
`
	for _, tt := range []struct {
		name, old, with string
		want            string // in what the rules say; empty: nothing is broken
	}{
		{"good", "", "", ""},
		{"latest", "x:1.2@sha256", "x:latest@sha256", "no version"},
		{"no tag", "x:1.2@sha256", "x@sha256", "no version"},
		{"no digest", "@sha256:46a886260e04002d8f45e213fc39063fa11a50446048fdaa64786fc0840cb9f8", "", "no digest"},
		{"any address", "127.0.0.1:1:1", "1:1", "beyond loopback"},
		{"another address", "127.0.0.1:1:1", "0.0.0.0:1:1", "beyond loopback"},
		{"any port", "127.0.0.1:1:1", "127.0.0.1::1", "no port of its own"},
		{"no health check", "healthcheck: {test: [CMD, x]}", "", "no health check"},
		{"health check off", "{test: [CMD, x]}", "{disable: true}", "no health check"},
		{"no such file", "./LICENSE", "./no-such-file", "no such file"},
		{"file may be written", "/x:ro", "/x", "may be written"},
		{"password", `A_PASSWORD: ""`, `A_PASSWORD: "secret"`, "A_PASSWORD has a value"},
		{"no bound of memory", "mem_limit: 1g", "", "mem_limit"},
		{"no bound of processors", "cpus: 1", "", "cpus"},
		{"no bound of processes", "pids_limit: 10", "", "pids_limit"},
		{"no bound of logs", `, options: {max-size: 1m, max-file: "2"}`, "", "logs without end"},
		{"no restart", "restart: unless-stopped", "", "restart"},
		{"file system may be written", "read_only: true", "", "read_only"},
		{"capabilities", "cap_drop: [ALL]", "", "cap_drop"},
		{"privileged", "cap_drop: [ALL]", "cap_drop: [ALL]\n    privileged: true", "privileged"},
		{"network of the host", "cap_drop: [ALL]", "cap_drop: [ALL]\n    network_mode: host", "network of the host"},
		{"new privileges", `security_opt: ["no-new-privileges:true"]`, "", "no-new-privileges"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.ReplaceAll(good, cmp.Or(tt.old, "nothing to replace"), tt.with)
			if tt.old != "" && text == good {
				t.Fatal("the text has no such part")
			}
			file := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(file, []byte("name: x\nservices:\n  s:"+text+"volumes: {v: }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got := check(mustLoad(t, variant{name: tt.name, files: []string{file}}))
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("broken: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("broken: %q, want one with %q", got, tt.want)
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

// Without a word of the user no account can be logged in to, and visitors only look.
func TestGrafanaIsForVisitors(t *testing.T) {
	env := mustLoad(t, variantNamed("default")).Services["grafana"].Environment
	got := map[string]string{}
	for k, v := range env {
		if v != nil && (strings.HasPrefix(k, "GF_AUTH_") || strings.HasPrefix(k, "GF_SECURITY_") || strings.HasPrefix(k, "GF_USERS_")) {
			got[k] = *v
		}
	}
	if diff := gocmp.Diff(map[string]string{
		"GF_AUTH_ANONYMOUS_ENABLED":                  "true",
		"GF_AUTH_ANONYMOUS_ORG_ROLE":                 "Viewer",
		"GF_AUTH_BASIC_ENABLED":                      "false",
		"GF_AUTH_DISABLE_LOGIN_FORM":                 "true",
		"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
		"GF_USERS_ALLOW_SIGN_UP":                     "false",
		"GF_USERS_VIEWERS_CAN_EDIT":                  "true",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A user's word stands nowhere in the files: each that is asked for comes from the user's environment, and from there only.
func TestPasswordsOfTheUser(t *testing.T) {
	for _, v := range variants {
		p := mustLoad(t, v)
		given := map[string]bool{}
		for _, e := range v.env {
			_, value, _ := strings.Cut(e, "=")
			given[value] = false
		}
		for _, s := range p.Services {
			for _, value := range s.Environment {
				if value == nil {
					continue
				}
				if _, ok := given[*value]; ok {
					given[*value] = true
				}
			}
		}
		for value, used := range given {
			if !used {
				t.Errorf("%s: no service is given %q", v.name, value)
			}
		}
	}
}

var (
	secretKey = regexp.MustCompile(`PASSWORD|SECRET|TOKEN|API_KEY`)
	// unlocked are services whose images need to write into themselves and to change users; docker-compose.yaml says why.
	unlocked = []string{"clickhouse"}
)

// check returns what of a project breaks the rules that docker-compose.yaml promises.
func check(p *types.Project) (broken []string) {
	if len(p.Services) == 0 {
		return []string{"no services"}
	}
	// What a user set is the user's; only what stands in the files can be a default.
	ofUser := map[string]bool{"": true}
	for k, v := range p.Environment {
		if secretKey.MatchString(k) {
			ofUser[v] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		say := func(format string, args ...any) { broken = append(broken, name+": "+fmt.Sprintf(format, args...)) }

		if s.Build == nil {
			ref, err := reference.ParseNormalizedNamed(s.Image)
			if err != nil {
				say("image %q: %v", s.Image, err)
			} else {
				if tag, ok := ref.(reference.Tagged); !ok || !regexp.MustCompile(`^v?\d+\.\d+`).MatchString(tag.Tag()) {
					say("image %s has no version", s.Image)
				}
				if _, ok := ref.(reference.Digested); !ok {
					say("image %s has no digest", s.Image)
				}
			}
		} else if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			say("%v", err)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				say("port %d is published beyond loopback", port.Target)
			}
			if port.Published == "" {
				say("port %d has no port of its own on the host", port.Target)
			}
		}
		if s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) < 2 {
			say("no health check")
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue // the loader refuses volumes that are not declared
			}
			if _, err := os.Stat(v.Source); err != nil {
				say("mounts %v", err)
			}
			if !v.ReadOnly {
				say("%s may be written", v.Source)
			}
		}
		for k, v := range s.Environment {
			if secretKey.MatchString(k) && v != nil && !ofUser[*v] {
				say("%s has a value in the file", k)
			}
		}
		if s.MemLimit == 0 {
			say("no mem_limit")
		}
		if s.CPUS == 0 {
			say("no cpus")
		}
		if s.PidsLimit == 0 {
			say("no pids_limit")
		}
		if s.Logging == nil || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			say("logs without end")
		}
		if s.Restart != types.RestartPolicyUnlessStopped {
			say("restart is %q", s.Restart)
		}
		if s.Privileged {
			say("privileged")
		}
		if s.NetworkMode == "host" {
			say("on the network of the host")
		}
		if !slices.Contains(unlocked, name) {
			if !s.ReadOnly {
				say("no read_only")
			}
			if !slices.Equal(s.CapDrop, []string{"ALL"}) {
				say("no cap_drop")
			}
			if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
				say("no no-new-privileges")
			}
		}
	}
	return broken
}

// render writes a project for people, without what is the same everywhere and without this machine's paths.
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
			mode := "rw"
			if v.ReadOnly {
				mode = "ro"
			}
			line("  %-11s %s -> %s (%s)", v.Type, v.Source, v.Target, mode)
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
