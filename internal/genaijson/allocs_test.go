//go:build !race

// Pools lose what they hold at random under the race detector, so allocations are counted without it: `make test` does.

package genaijson

import "testing"

func TestAllocations(t *testing.T) {
	messages := benchmarkMessages()
	dst := make([]byte, 0, 1<<16)
	for _, max := range []int{0, 2000} {
		if n := testing.AllocsPerRun(100, func() { dst = AppendMessages(dst[:0], messages, max) }); n > 1 {
			t.Errorf("two messages, max %d: %v allocations", max, n)
		}
		if n := testing.AllocsPerRun(100, func() { dst = AppendValue(dst[:0], messages[0], max) }); n > 0 {
			t.Errorf("a value, max %d: %v allocations", max, n)
		}
	}
}
