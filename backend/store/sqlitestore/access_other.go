//go:build !unix

package sqlitestore

// writable cannot tell without opening the file, which would take away locks: writing tells.
func writable(string) error { return nil }
