//go:build unix

package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestFollowNamedPipe follows a named pipe, which waits for its next writer: it does not grow, and is not cut.
func TestFollowNamedPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("this file system takes no named pipes: %v", err)
	}
	go func() {
		for range 2 {
			if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_, _ = w.WriteString("line\n")
				w.Close()
				time.Sleep(2 * pollTime)
			}
		}
	}()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	in := bufio.NewScanner(&follower{f: f, quit: t.Context().Done()})
	for range 2 {
		if !in.Scan() || in.Text() != "line" {
			t.Fatalf("%q, %v", in.Text(), in.Err())
		}
	}
}

// A named pipe without a writer does not keep send from ending.
func TestSendOfAPipeWithoutAWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("this file system takes no named pipes: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "send", "--db", filepath.Join(dir, "s.db"), pipe)
	time.AfterFunc(50*time.Millisecond, cancel)
	await(t, lines, "otelagent: interrupted before the end of the input")
	if code := wait(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // frees the goroutine that waits for a writer
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
