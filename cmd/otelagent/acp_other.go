//go:build !unix

package main

import "os"

// passedOn are the signals that otelagent passes on to an agent.
var passedOn = []os.Signal{os.Interrupt}

// forwards reports whether a signal is to be passed on. The console sends Ctrl-C to all its processes.
func forwards(os.Signal) bool { return false }

// codeOf is the exit code that reports how a process ended.
func codeOf(p *os.ProcessState) int { return p.ExitCode() }
