// Package soak tests the real binary under what happens in operation: processes that are killed, disks that are full,
// stores that are locked, damaged or away, floods, and deleting while others write. It has no code but its tests.
//
// `go test` runs the short form, about a minute in all; `make soak` the long one, for SOAKTIME, and prints its figures.
// docs/reliability.md says what is promised and which test shows it.
package soak
