//go:build !unix

package sqlitestore

// denied tells whether this process may not write path; where that cannot be told without opening it, it may.
func denied(string) bool { return false }
