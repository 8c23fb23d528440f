package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// iso and unix find the times of recordings: RFC 3339 in UTC, and milliseconds or nanoseconds since 1970 between 2023
// and 2033.
var (
	iso  = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	unix = regexp.MustCompile(`\b1[789]\d{8}(\d{3}|\d{9})\b`)
)

const (
	isoSeconds  = "2006-01-02T15:04:05"
	unixSeconds = 10 // digits
)

// move writes recordings into dir, each with all its times moved by the same number of seconds, so that its last one
// is end's.
func move(dir string, recordings []string, end time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range recordings {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), moved(text, end), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// moved is text with its times moved; as it is where it has none. What stands behind the seconds stays, and so do
// distances.
func moved(text []byte, end time.Time) []byte {
	var last int64
	replace := func(by func(seconds int64) int64) []byte {
		out := iso.ReplaceAllFunc(text, func(m []byte) []byte {
			t, err := time.Parse(isoSeconds, string(m[:len(isoSeconds)]))
			if err != nil {
				return m // no such day
			}
			return append(time.Unix(by(t.Unix()), 0).UTC().AppendFormat(nil, isoSeconds), m[len(isoSeconds):]...)
		})
		return unix.ReplaceAllFunc(out, func(m []byte) []byte {
			seconds, err := strconv.ParseInt(string(m[:unixSeconds]), 10, 64)
			if err != nil {
				return m
			}
			return append(strconv.AppendInt(nil, by(seconds), 10), m[unixSeconds:]...)
		})
	}
	replace(func(seconds int64) int64 { last = max(last, seconds); return seconds })
	return replace(func(seconds int64) int64 { return seconds + end.Unix() - last })
}
