// Package viewer drives the real viewer in a real browser: Debian's Chromium, headless. Run by run.sh, not by `go test` of the root.
package viewer
