//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that otelagent passes on to an agent. SIGPIPE is caught so that an editor that is gone ends
// the agent in order, and not otelagent before it.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGPIPE}

// forwards reports whether a signal is to be passed on. What the keys of a terminal send goes to its whole foreground
// group, so the agent has it already.
func forwards(s os.Signal) bool {
	switch s {
	case syscall.SIGPIPE:
		return false
	case syscall.SIGINT, syscall.SIGQUIT:
		return !foreground()
	}
	return true
}

// foreground reports whether we are in the foreground of a terminal.
func foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// codeOf is the exit code that reports how a process ended.
func codeOf(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
