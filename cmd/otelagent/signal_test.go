//go:build unix

package main

import (
	"path/filepath"
	"syscall"
	"testing"
)

// SIGTERM stops up as Ctrl-C does, in order and with exit code 0.
func TestTerminate(t *testing.T) {
	lines, wait := start(t.Context(), nil, "up", "--db", filepath.Join(t.TempDir(), "s.db"),
		"--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0")
	await(t, lines, "otelagent: ready")
	must(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	await(t, lines, "otelagent: stopping")
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}
