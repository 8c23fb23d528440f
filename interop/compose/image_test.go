//go:build linux

package compose

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/distribution/reference"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const dockerfile = "collector-exporter/distribution/Dockerfile"

// stages parses the Dockerfile as Docker's builder does; what that would warn of fails the test.
func stages(t *testing.T) (build, final instructions.Stage) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, at []parser.Range) { t.Errorf("%s: %s (%v)", rule, message, at) },
	}))
	if err != nil {
		t.Fatal(err)
	}
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
	if _, digested := ref.(reference.Digested); err != nil || !digested {
		t.Errorf("the first stage is from %q, %v: want a digest", build.BaseName, err)
	}
	if final.BaseName != "scratch" {
		t.Errorf("the image is from %q", final.BaseName)
	}
	var user string
	var health *instructions.HealthCheckCommand
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.HealthCheckCommand:
			health = c
		}
	}
	if id, _, _ := strings.Cut(user, ":"); id == "" || id == "0" || strings.Trim(id, "0123456789") != "" {
		t.Errorf("the image's user is %q, want a number that is not root's", user)
	}
	// Grafana reads the files of this user.
	if id, _, _ := strings.Cut(mustLoad(t, variantNamed("default")).Services["grafana"].User, ":"); !strings.HasPrefix(user, id+":") {
		t.Errorf("the image's user is %s, and Grafana's %s", user, id)
	}
	want := mustLoad(t, variantNamed("default")).Services["collector"].HealthCheck.Test
	if health == nil || !slices.Equal(health.Health.Test, want) {
		t.Errorf("the image's health check is %+v, and that of compose %q", health, want)
	}
}

// An image is what the Dockerfile comes to on this machine: its commands run in a copy of the context, and what it copies laid out
// in a folder. Programs run in it with chroot, as its user.
type image struct {
	root  string
	user  *syscall.Credential
	env   []string
	start []string // entry point and its arguments
}

func buildImage(t *testing.T) *image {
	build, final := stages(t)
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	here := func(path string) string { // a path of the first stage
		switch {
		case path == "/out" || strings.HasPrefix(path, "/out/"):
			return out + strings.TrimPrefix(path, "/out")
		case filepath.IsAbs(path):
			return path // of the image that it is from; the machine has it too
		}
		return filepath.Join(src, path)
	}
	env := os.Environ()
	for _, c := range build.Commands {
		switch c := c.(type) {
		case *instructions.WorkdirCommand:
			if c.Path != "/src" {
				t.Fatalf("the test knows the folder /src, not %s", c.Path)
			}
		case *instructions.CopyCommand:
			copyContext(t, src)
		case *instructions.EnvCommand:
			for _, kv := range c.Env {
				env = append(env, kv.Key+"="+kv.Value)
			}
		case *instructions.RunCommand:
			line := strings.ReplaceAll(strings.Join(c.CmdLine, " "), "/out", out)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
			cmd.Dir, cmd.Env = src, env
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, last(string(text), 4<<10))
			}
		default:
			t.Fatalf("the test does not know %s", c.Name())
		}
	}
	im := &image{root: filepath.Join(dir, "image")}
	if err := os.Mkdir(im.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			for _, from := range c.SourcePaths {
				if c.From == "" {
					from = filepath.Join(root, from)
				} else {
					from = here(from)
				}
				im.copy(t, from, c)
			}
		case *instructions.UserCommand:
			id, err := strconv.ParseUint(strings.Split(c.User, ":")[0], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			im.user = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
		case *instructions.EnvCommand:
			for _, kv := range c.Env {
				im.env = append(im.env, kv.Key+"="+kv.Value)
			}
		case *instructions.EntrypointCommand:
			im.start = append(slices.Clone(c.CmdLine), im.start...)
		case *instructions.CmdCommand:
			im.start = append(im.start, c.CmdLine...)
		case *instructions.VolumeCommand, *instructions.ExposeCommand, *instructions.HealthCheckCommand:
		default:
			t.Fatalf("the test does not know %s", c.Name())
		}
	}
	return im
}

// copyContext copies the files that Docker would be sent: those that neither .gitignore nor .dockerignore names.
func copyContext(t *testing.T, to string) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		skip, err := ignored.MatchesOrParentMatches(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(filepath.Join(root, name)); !skip && err == nil && info.Mode().IsRegular() {
			sent = append(sent, name)
		}
	}
	cmd := exec.Command("sh", "-c", `mkdir "$2" && tar -C "$1" --null -T - -cf - | tar -C "$2" -xf -`, "sh", root, to)
	cmd.Stdin = strings.NewReader(strings.Join(sent, "\x00"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// copy is one COPY of the Dockerfile: of a file, or of an empty folder.
func (im *image) copy(t *testing.T, from string, c *instructions.CopyCommand) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(im.root, c.DestPath)
	mode := cmp.Or(c.Chmod, fmt.Sprintf("%o", info.Mode().Perm()))
	uid, gid, _ := strings.Cut(cmp.Or(c.Chown, "0:0"), ":")
	args := []string{"-D", "-m", mode, "-o", uid, "-g", gid, "-T", from, to}
	if info.IsDir() {
		if entries, err := os.ReadDir(from); err != nil || len(entries) > 0 {
			t.Fatalf("the test copies empty folders only: %s has %d files, %v", from, len(entries), err)
		}
		args = []string{"-d", "-m", mode, "-o", uid, "-g", gid, to}
	} else if strings.HasSuffix(c.DestPath, "/") {
		args[len(args)-1] = filepath.Join(to, filepath.Base(from))
	}
	if out, err := exec.Command("install", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// run runs a program of the image to its end.
func (im *image) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env, cmd.Dir = im.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: im.root, Credential: im.user}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The image, as far as a machine without an engine can have it: what the Dockerfile builds starts among nothing but the files that
// the Dockerfile copies, as its user, becomes healthy, keeps a session, and shows it.
func TestImage(t *testing.T) {
	program(t, otelcol) // in CI, or when asked for
	rootOnly(t, "change its root folder")
	if testing.Short() {
		t.Skip("-short: builds everything anew")
	}
	im := buildImage(t)
	files := map[string]string{}
	err := filepath.WalkDir(im.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if rel := strings.TrimPrefix(path, im.root); !d.IsDir() || info.Sys().(*syscall.Stat_t).Uid != 0 {
			files[rel] = fmt.Sprintf("%v %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{
		"/otelcol-agent":                     "-rwxr-xr-x 0",
		"/otelagent":                         "-rwxr-xr-x 0",
		"/healthcheck":                       "-rwxr-xr-x 0",
		"/etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- 0",
		"/etc/otelcol-agent/config.yaml":     "-rw-r--r-- 0",
		"/var/lib/otelagent":                 "drwx------ 10001",
	}; !maps.Equal(files, want) {
		t.Errorf("the image has %v, want %v", files, want)
	}

	s := newStack(t, variantNamed("default"))
	im.env = append(im.env, s.collectorEnv()...)
	p := startIn(t, "image", im.root, im.user, im.env, im.start[0], im.start[1:]...)
	eventually(t, "the image becomes healthy", func() error {
		out, err := im.run(t, "/healthcheck", "http://"+s.collectorAddrs.health+"/")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}, p)
	s.send()
	out, err := im.run(t, "/otelagent", "ls", "--output", "json") // docker exec; which database is in the environment
	if err != nil || strings.Count(out, `"dialect": "phi-core"`) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	p.stop(t)
	if p.err != nil {
		t.Errorf("it ends with %v", p.err)
	}
	if out, err := im.run(t, "/healthcheck", "http://"+s.collectorAddrs.health+"/"); err == nil {
		t.Errorf("it is healthy after its end: %s", out)
	}
}
