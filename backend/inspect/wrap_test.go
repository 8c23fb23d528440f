package inspect

import (
	"strings"
	"testing"
	"time"
)

// A long word is wrapped in a time that grows with its length: base64, Chinese, and nothing but combining characters.
func TestLongWords(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds with the race detector")
	}
	for name, part := range map[string]string{"base64": "QUJD", "Chinese": "漢", "combining": "\u0301"} {
		word := strings.Repeat(part, 1<<20/len(part))
		began := time.Now()
		lines := wrap("before "+word+" after", 66, 1<<30)
		if got := strings.Join(lines, ""); strings.ReplaceAll(got, " ", "") != "before"+word+"after" {
			t.Errorf("%s: %d bytes of %d in %d lines", name, len(got), len(word), len(lines))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: 1 MiB took %v", name, took)
		}
	}
}
