package main

import (
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the scripts print into the scripts")

func TestMain(m *testing.M) {
	if os.Getenv(testAgent) != "" {
		agentMain()
		return
	}
	if os.Getenv(testLiveAgent) != "" {
		liveAgentMain()
		return
	}
	testscript.Main(cleaning{m}, map[string]func(){"otelagent": main, "acp-agent": agentMain})
}

// cleaning removes what benchmarks share when all are done.
type cleaning struct{ *testing.M }

func (m cleaning) Run() int {
	code := m.M.Run()
	if manyPath != "" {
		_ = os.RemoveAll(filepath.Dir(manyPath))
	}
	return code
}

// freeAddr returns an address on which nobody listens.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// TestScripts runs the transcripts in testdata/script: one verb a file, as a user would type it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			for k, v := range map[string]string{
				"HOME": env.WorkDir, "XDG_DATA_HOME": filepath.Join(env.WorkDir, "data"), "TZ": "UTC", "TMPDIR": env.WorkDir,
				"GOCOVERDIR": os.Getenv("GOCOVERDIR"), "COLUMNS": "", "OTELAGENT_DB": "", "OTELAGENT_DB_PASSWORD": "",
			} {
				env.Setenv(k, v)
			}
			for _, name := range []string{"GRPC", "HTTP"} {
				addr, err := freeAddr()
				if err != nil {
					return err
				}
				env.Setenv(name, addr)
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "events.ndjson"), demoEvents, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// exits CODE PROGRAM ARGS...: like exec, for one exit code.
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				got := 0
				if err := ts.Exec(args[1], args[2:]...); err != nil {
					var exit *exec.ExitError
					if !errors.As(err, &exit) {
						ts.Fatalf("%v", err)
					}
					got = exit.ExitCode()
				}
				if got != want || neg {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
			// listening ADDR: waits until somebody does.
			"listening": func(ts *testscript.TestScript, _ bool, args []string) {
				for range 2000 {
					if c, err := net.Dial("tcp", args[0]); err == nil {
						c.Close()
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
				ts.Fatalf("nobody listens on %s", args[0])
			},
			// post URL FILE: sends a file of JSON, and wants a 200.
			"post": func(ts *testscript.TestScript, _ bool, args []string) {
				resp, err := http.Post(args[0], "application/json", strings.NewReader(ts.ReadFile(args[1])))
				ts.Check(err)
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					ts.Fatalf("%s", resp.Status)
				}
			},
			// mode FILE OCTAL: the permission bits of a file.
			"mode": func(ts *testscript.TestScript, _ bool, args []string) {
				info, err := os.Stat(ts.MkAbs(args[0]))
				ts.Check(err)
				if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[1] {
					ts.Fatalf("mode of %s is %s, want %s", args[0], got, args[1])
				}
			},
		},
	})
}

// must ends the test with an error that is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// demoFile is a file with the recording of the demo.
func demoFile(tb testing.TB) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "events.ndjson")
	must(tb, os.WriteFile(file, demoEvents, 0o600))
	return file
}
