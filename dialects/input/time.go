package input

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Key is the key that any line of any dialect may have to say when its event happened: see Time.
const Key = "ts"

// Time reads a JSON value that says when something happened: a string in RFC 3339, or a number of nanoseconds,
// microseconds, milliseconds or seconds since 1970. The size of the number decides its unit (a time from 1973 to 2262
// in one unit is before 1973 in the next larger one). Seconds and milliseconds may have a fraction. Time reports
// whether value is such a time, and one that nanoseconds since 1970 can hold; the zero time stands for any other value.
func Time(value []byte) (time.Time, bool) {
	t, ok := anyTime(value)
	if !ok || t.Year() < 1678 || t.Year() >= 2262 {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// anyTime reads a time of any year.
func anyTime(value []byte) (time.Time, bool) {
	if len(value) == 0 {
		return time.Time{}, false
	}
	if value[0] == '"' {
		s, ok := rawjson.String(value)
		if !ok {
			return time.Time{}, false
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		return t, err == nil
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		switch {
		case n >= 1e17:
			return time.Unix(0, n), true
		case n >= 1e14:
			return time.UnixMicro(n), true
		case n >= 1e11:
			return time.UnixMilli(n), true
		}
		return time.Unix(n, 0), n > 0
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f > 0 && f < 1e14) {
		return time.Time{}, false
	}
	micros := 1e6 // in a second, or a millisecond
	if f >= 1e11 {
		micros = 1e3
	}
	return time.UnixMicro(int64(f * micros)), true
}
