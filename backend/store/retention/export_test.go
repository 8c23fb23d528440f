package retention

import "testing"

// SetMaxFamily makes families smaller for a test.
func SetMaxFamily(t *testing.T, n int) {
	old := maxFamily
	maxFamily = n
	t.Cleanup(func() { maxFamily = old })
}
