package main

import (
	"testing"
	"time"
)

func TestMoved(t *testing.T) {
	const text = `{"timestamp":"2026-08-01T12:00:00.25Z","id":"1785585600"}
{"ts":1785585603000000001,"ms":1785585602500,"other":17855856030000,"day":"2026-13-01T12:00:00Z"}
`
	const want = `{"timestamp":"2026-11-21T08:59:57.25Z","id":"1785585600"}
{"ts":1795251600000000001,"ms":1795251599500,"other":17855856030000,"day":"2026-13-01T12:00:00Z"}
`
	if got := string(moved([]byte(text), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := string(moved([]byte("{}\n"), time.Now())); got != "{}\n" {
		t.Errorf("without times: %s", got)
	}
}
