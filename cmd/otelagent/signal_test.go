//go:build unix

package main

import (
	"io"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
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

// interrupting is a terminal on which somebody answers what is printed first with Ctrl-C.
type interrupting struct{ sync.Once }

func (i *interrupting) Write(p []byte) (n int, err error) {
	i.Do(func() { err = syscall.Kill(syscall.Getpid(), syscall.SIGINT) })
	return len(p), err
}

// Ctrl-C at a question is a no, also where the command waits for signals already, as import does.
func TestInterruptAtAQuestion(t *testing.T) {
	ctx, stop := untilInterrupted(t.Context())
	defer stop()
	stdin, _ := io.Pipe()
	a := &app{stdin: stdin, stderr: &interrupting{}}
	answer := make(chan bool, 1)
	go func() { answer <- a.ask("Read? [Y/n] ", "y") }()
	select {
	case yes := <-answer:
		<-ctx.Done()
		if yes {
			t.Error("Ctrl-C is a yes")
		}
	case <-time.After(10 * time.Second):
		t.Error("the question waits for an answer still")
	}
}
