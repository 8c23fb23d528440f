package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseAge reads how long something is kept: a duration that is not negative, as Go writes them (720h), or days of 24
// hours (30d, 1.5d), fewer than 100,000. The error names the text, at most 64 bytes of it, and what is allowed.
func ParseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e5 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.64q: want a duration, such as 30d or 720h", text)
}
