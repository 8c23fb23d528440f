// Package session is the Session tree and what it is rebuilt from.
//
// Spans arrive as Rows (backend/session/otlprow makes them), in any order and number, from any number of processes. Assemble is a
// pure function of the set of rows: the same set gives the same tree, byte for byte. What cannot be reconciled is said
// as a Defect and never guessed.
package session
