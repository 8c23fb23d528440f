// Package viewer drives the real viewer in a real browser: Debian's Chromium, headless. run.sh runs it, `go test` of
// the root does not.
package viewer
