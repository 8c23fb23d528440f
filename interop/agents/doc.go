// Package agents runs real agents and frameworks against a model that plays a script, on loopback, and compares the
// sessions that otelagent rebuilds of their telemetry and transcripts with that script. run.sh runs it, `go test` of
// the root does not.
package agents
