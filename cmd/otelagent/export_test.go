package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "24h": now.Add(-24 * time.Hour), "7d": now.Add(-7 * 24 * time.Hour),
		"1.5d":                 now.Add(-36 * time.Hour),
		"2026-11-20T09:00:00Z": time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"soon":                 {}, "": {}, "-3h": {}, "d": {}, "2026-13-01": {},
	} {
		got, err := store.ParseTime(in, now)
		if (err != nil) != want.IsZero() || err == nil && !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
}

// No session gets out of the folder or takes the file of another.
func TestFileName(t *testing.T) {
	names := map[string]session.Key{}
	for _, key := range []session.Key{
		{ID: "plain-1.x"}, {ID: "../../etc/passwd"}, {ID: "..-..-etc-passwd"}, {ID: "a/b"}, {ID: "a_b"}, {ID: "a b"},
		{ID: ".hidden"}, {ID: "."}, {ID: ".."}, {ID: ""},
		{ID: strings.Repeat("x", 300)}, {ID: strings.Repeat("x", 299)}, {ID: "ünï"}, {ID: "unï"}, {ID: "b", Tenant: "a"},
		{ID: "a.b"}, {ID: "con\x00trol\n"},
		{ID: "-rf"}, {ID: "rf"}, {ID: "--"}, {ID: "-."},
		{ID: "Plain-1.x"}, {ID: "PLAIN-1.X"}, {ID: "A", Tenant: "t"}, {ID: "a", Tenant: "t"}, {ID: "a", Tenant: "T"},
		{ID: "con"}, {ID: "nul.x"},
	} {
		name := fileName(key, "json")
		if device.MatchString(name) {
			t.Errorf("%q becomes a device: %s", key, name)
		}
		if other, taken := names[strings.ToLower(name)]; taken { // also on a disk that ignores the case of letters
			t.Errorf("%q and %q are both %s", key, other, name)
		}
		names[strings.ToLower(name)] = key
		if strings.ContainsAny(name, "/\\\x00\n ") || strings.Contains(".-", name[:1]) || len(name) > 120 ||
			!strings.HasSuffix(name, ".json") {
			t.Errorf("%q becomes %q", key, name)
		}
	}
	if got := fileName(session.Key{ID: "plain-1.x"}, "csv"); got != "plain-1.x.csv" {
		t.Errorf("a plain id becomes %s", got)
	}
}

// An error of the temporary file names the file that the user wants.
func TestWriteFileErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	err := writeFile(t.Context(), path, func(w io.Writer) error {
		return fmt.Errorf("session: %w", &fs.PathError{Op: "write", Path: w.(*os.File).Name(), Err: syscall.ENOSPC})
	})
	if want := "write " + path + ": no space left on device"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An interrupted export writes no file, and removes the temporary one. The old file stays.
func TestWriteFileInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	err := writeFile(ctx, path, func(w io.Writer) error {
		stop()
		for {
			if _, err := w.Write([]byte("new")); err != nil {
				return err
			}
		}
	})
	if text, _ := os.ReadFile(path); !errors.Is(err, context.Canceled) || string(text) != "old" {
		t.Errorf("%v, the file has %q", err, text)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
