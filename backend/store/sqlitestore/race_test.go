//go:build race

package sqlitestore

// raceEnabled says that the race detector makes everything ten times slower.
const raceEnabled = true
