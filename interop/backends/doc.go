// Package backends holds the tests that need real trace backends, Jaeger and Phoenix, and the real otelagent program.
// Only run.sh runs them.
package backends
