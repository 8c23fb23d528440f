package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// JSON that is printed on a terminal has no character on which it acts, and the same meaning.
func TestJSONIsSafeForTerminals(t *testing.T) {
	want := "\x1b[31m\x9b \u009b31m\x7f\u0085\u202eevil\u2066\u2028\U000e0041 é 😀\u200d"
	var b bytes.Buffer
	must(t, writeJSON(&b, []string{want, "plain"}))
	if i := strings.IndexAny(b.String(), "\x1b\u009b\x7f\u0085\u202e\u2066\u2028\U000e0041"); i >= 0 {
		t.Errorf("%q", b.String()[i:])
	}
	var got []string
	must(t, json.Unmarshal(b.Bytes(), &got))
	if want := strings.ToValidUTF8(want, "\ufffd"); got[0] != want || !strings.Contains(b.String(), "é 😀") {
		t.Errorf("%q, want %q", got[0], want)
	}
}

// A line of the log of `up` says why something was not stored, and is one clean line.
func TestLogHasReasons(t *testing.T) {
	var b bytes.Buffer
	w := &watcher{log: &b}
	log := zap.New(w.wrap(zapcore.NewNopCore()))
	log.Warn("not stored", zap.String("reason", "no_session"), zap.Int("count", 3), zap.String("empty", ""),
		zap.String("first_name", "a\x1b[31m\nname"), zap.Error(errors.New("why")))
	const want = `otelagent: warn: not stored reason=no_session count=3 first_name=`
	if got := b.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ": why\n") ||
		strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
