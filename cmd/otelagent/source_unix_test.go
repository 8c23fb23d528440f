//go:build unix

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What follows a named pipe waits for its next writer: it does not grow, and is not cut.
func TestFollowNamedPipe(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(&follower{f: f, name: path, quit: t.Context().Done()})
	for range 2 {
		if !in.Scan() || in.Text() != "line" {
			t.Fatalf("%q, %v", in.Text(), in.Err())
		}
	}
}
