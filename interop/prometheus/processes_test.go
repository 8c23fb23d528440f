package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// collector is the one that collector.yaml builds; otelagent is the program of this project.
const collector = "bin/collector/otelcol-signal-to-metrics"

var otelagentProgram = filepath.Join(root, "bin", "otelagent")

// freePorts returns n ports of 127.0.0.1 on which nobody listens now.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close() // all of them are taken before the first is given back
		ports = append(ports, l.Addr().String())
	}
	return ports
}

// start runs a program until the test ends, and waits until url answers with 200 or, of a receiver, anything.
func start(t *testing.T, url string, env []string, name string, args ...string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), filepath.Base(name)+".log")
	out := must.Get(os.Create(log))(t)
	defer out.Close()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	ended := make(chan *os.ProcessState, 1)
	go func() {
		_ = cmd.Wait()
		ended <- cmd.ProcessState
	}()
	output := func() string {
		text, _ := os.ReadFile(log)
		return string(text[max(0, len(text)-3000):])
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		select {
		case <-ended: // by a signal, or as it likes
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			t.Errorf("%s did not end:\n%s", name, output())
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, output())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := get(t.Context(), url); err == nil {
			return
		}
		select {
		case state := <-ended:
			ended <- state
			t.Fatalf("%s ended: %v\n%s", name, state, output())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer:\n%s", name, output())
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}
