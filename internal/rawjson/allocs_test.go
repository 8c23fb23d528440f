//go:build !race

// Pools lose what they hold at random under the race detector, so allocations are counted without it: `make test` does.

package rawjson

import "testing"

func TestAppendCanonicalAllocatesNothing(t *testing.T) {
	raw := []byte(`{"content":[{"text":"hi","type":"text"}],"role":"user","timestamp":1}`)
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { dst, _, _ = AppendCanonical(dst[:0], raw, []string{"turnId"}) }); n != 0 {
		t.Errorf("a message without envelope, keys in order: %v allocations", n)
	}
}
