package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

func TestParseAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0s": 0, "0d": 0, "720h": 30 * day, "30d": 30 * day, "1.5d": 36 * time.Hour, "99999d": 99999 * day,
		"1h30m": 90 * time.Minute,
	} {
		if got, err := store.ParseAge(text); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "-5m", "NaNd", "Infd", "100000d", "1e300d", "30", "30 d", "30D", "1d12h",
		strings.Repeat("9", 100) + "h"} {
		if got, err := store.ParseAge(text); err == nil || !strings.Contains(err.Error(), "want a duration") ||
			len(err.Error()) > 130 {
			t.Errorf("%q: %s, %v, want an error", text, got, err)
		}
	}
}
