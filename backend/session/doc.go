// Package session holds the Session tree and the rows that it is rebuilt from.
//
// Spans arrive as Rows (package otlprow makes them), in any order and number, from any number of processes. Assemble
// is a pure function of the set of rows: the same set gives the same tree, byte for byte. It reports what it cannot
// reconcile as a Defect and never guesses.
package session
