// Package writer writes what an agent loop did as spans and metrics. It is the implementation of package otelagent,
// whose handles are those of this package with the fields and methods that a Go loop needs. The recorder of
// dialects/event uses it directly, since events say more: where a time comes from, the position in an input, ends that
// no event reported, runs of saved sessions. docs/adr/0019-writer.md has the reasons.
package writer
