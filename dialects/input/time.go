package input

import (
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Key is the key that any line of any dialect may have to say when its event happened: see Time.
const Key = "ts"

// Time reads a JSON value that says when something happened: a string in RFC 3339, or a number of nanoseconds,
// microseconds, milliseconds or seconds since 1970. The size of the number decides its unit (a time from 1973 to 2262
// in one unit is before 1973 in the next larger one). Seconds and milliseconds may have a fraction. The zero time
// stands for any other value, and for a time that nanoseconds since 1970 cannot hold.
func Time(value []byte) (t time.Time) {
	if value == nil {
		return t
	}
	if s, isText := rawjson.String(value); isText {
		if strings.IndexByte(s, ':') == len("2006-01-02T15") && !strings.Contains(s, ",") { // as Parse does not demand
			t, _ = time.Parse(time.RFC3339Nano, s)
		}
	} else if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		switch {
		case n <= 0:
		case n >= 1e17:
			t = time.Unix(0, n)
		case n >= 1e14:
			t = time.UnixMicro(n)
		case n >= 1e11:
			t = time.UnixMilli(n)
		default:
			t = time.Unix(n, 0)
		}
	} else if f, err := strconv.ParseFloat(string(value), 64); err == nil && f > 0 && f < 1e14 {
		micros := 1e6 // in a second, or a millisecond
		if f >= 1e11 {
			micros = 1e3
		}
		t = time.UnixMicro(int64(f * micros))
	}
	if t.Year() < 1678 || t.Year() >= 2262 {
		return time.Time{}
	}
	return t.UTC()
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
