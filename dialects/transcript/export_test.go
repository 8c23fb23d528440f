package transcript

// SetMaxFiles sets the bound of a Finder, and returns the one before.
func SetMaxFiles(n int) (before int) {
	before, maxFiles = maxFiles, n
	return before
}
