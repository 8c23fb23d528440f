package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A copy that Ctrl-C ends says what reached the destination; run again it goes on, and both sides are the same.
func TestCopyInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "s.db"), filepath.Join(dir, "t.db")
	sessions := 12 // of 401 spans: more than one batch
	if testing.Short() {
		sessions = 4
	}
	for i := range sessions {
		events := strings.ReplaceAll(string(manyTurns(400)), "many", fmt.Sprintf("many%d", i))
		if code := run(t.Context(), []string{"send", "--db", src, "-", "--replay"}, strings.NewReader(events), io.Discard,
			io.Discard); code != exitOK {
			t.Fatalf("send: exit %d", code)
		}
	}
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		ctx, cancel := context.WithCancel(t.Context())
		if after == 0 {
			cancel()
		}
		timer := time.AfterFunc(after, cancel)
		var errs bytes.Buffer
		code := run(ctx, []string{"copy", src, dst}, strings.NewReader(""), io.Discard, &errs)
		timer.Stop()
		cancel()
		interrupted := code == exitFailed && strings.HasPrefix(errs.String(), "otelagent: interrupted") &&
			strings.Contains(errs.String(), "run it again to go on")
		if !interrupted && (code != exitOK || after == 0) {
			t.Errorf("after %v: exit %d: %s", after, code, &errs)
		}
	}

	if code, _, text := runWith(t, "copy", src, dst); code != exitOK {
		t.Errorf("exit %d: %s", code, text)
	}
	code, _, text := runWith(t, "copy", src, dst)
	if code != exitOK || !strings.Contains(text, fmt.Sprintf("has all of the %d sessions already", sessions)) {
		t.Errorf("again: exit %d: %s", code, text)
	}
}
