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

// An image is the result of the Dockerfile on this machine: its commands run in a copy of the context, and its files
// stand in a folder. Programs run in it with chroot, as its user.
type image struct {
	root  string
	user  *syscall.Credential
	env   []string
	start []string // entry point and its arguments
}

// buildImage runs the commands of the first stage, whose folder /out is one of the test, and copies the files of the
// second. Absolute paths of the first stage are those of this machine.
func buildImage(t *testing.T) *image {
	build, final := stages(t)
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(script string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-ec", script, "sh"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", script, args, err, last(string(text), 4<<10))
		}
	}
	// Docker gets the files that .dockerignore does not name, in a clone that has no others than those of git.
	sh(`mkdir src image; git -C "$1" ls-files -z --cached --others --exclude-standard | tar -C "$1" --anchored \
		--exclude-from="$1/.dockerignore" --null -T - -cf - | tar -C src -xf -`, root)
	for _, c := range build.Commands {
		if c, ok := c.(*instructions.RunCommand); ok {
			sh("cd src; " + strings.ReplaceAll(strings.Join(c.CmdLine, " "), "/out", dir+"/out"))
		}
	}
	im := &image{root: filepath.Join(dir, "image")}
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			for _, from := range c.SourcePaths {
				switch {
				case c.From == "":
					from = filepath.Join(root, from)
				case strings.HasPrefix(from, "/out/"):
					from = dir + from
				}
				to := im.root + c.DestPath
				if strings.HasSuffix(to, "/") {
					to += filepath.Base(from)
				}
				uid, gid, _ := strings.Cut(cmp.Or(c.Chown, "0:0"), ":")
				sh(`mode=${4:-$(stat -c %a "$1")}; if [ -d "$1" ]; then rmdir "$1"; install -d -m "$mode" -o "$2" -g "$3" "$5"
					else install -D -m "$mode" -o "$2" -g "$3" -T "$1" "$5"; fi`, from, uid, gid, c.Chmod, to)
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
		}
	}
	return im
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

// The image, as far as a machine without an engine can have it: what the Dockerfile builds starts among nothing but the
// files that the Dockerfile copies, as its user, becomes healthy, keeps a session, and shows it.
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
		out, err := im.run(t, "/healthcheck", "http://"+s.at["health"]+"/")
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
	if out, err := im.run(t, "/healthcheck", "http://"+s.at["health"]+"/"); err == nil {
		t.Errorf("it is healthy after its end: %s", out)
	}
}
