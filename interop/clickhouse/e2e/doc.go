// Package e2e holds the tests that need a ring of real engines and the real otelagent program. Only run.sh runs them.
package e2e
