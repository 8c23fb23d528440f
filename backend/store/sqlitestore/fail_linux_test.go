package sqlitestore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/internal/must"
)

// A database that cannot be made on a full disk has nothing in it, says so, and is made when there is room.
func TestDiskFullCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	for _, size := range []string{"4k", "40k", "256k"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
			t.Skipf("no file system of its own can be mounted here: %v", err)
		}
		if _, err := Open(t.Context(), path); err == nil || errors.Is(err, store.ErrUnusable) {
			t.Errorf("Open on a disk of %s: %v, want an error that may go away", size, err)
		}
		if _, err := OpenReadOnly(t.Context(), path); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
			t.Errorf("OpenReadOnly after that: %v", err)
		}
		must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
		s := must.Get(Open(t.Context(), path))(t)
		put(t, s, key("a"), 1)
		checkWhole(t, s)
		if err := errors.Join(s.Close(), syscall.Unmount(dir, 0)); err != nil {
			t.Error(err)
		}
	}
}

// On a disk with no room for the index of the log a database is read as it is. Who wants to write learns what to do.
func TestDiskFullOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size=1m"); err != nil {
		t.Skipf("no file system of its own can be mounted here: %v", err)
	}
	t.Cleanup(func() { // after every store is closed
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := newStore(t, path)
	put(t, s, key("a"), 1)
	must.Do(t, s.Close())
	fill, err := os.Create(filepath.Join(dir, "fill"))
	must.Do(t, err)
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	must.Do(t, fill.Close())
	if _, err := Open(t.Context(), path); err == nil || errors.Is(err, store.ErrUnusable) ||
		!strings.Contains(err.Error(), "free some space") {
		t.Errorf("Open: %v, want one that may go away and says what to do", err)
	}
	r, err := OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatalf("OpenReadOnly: %v", err)
	}
	if rows, _ := count(t, r, key("a")); rows != 1 {
		t.Errorf("%d rows, want 1", rows)
	}
	must.Do(t, errors.Join(r.Close(), os.Remove(fill.Name())))
	checkWhole(t, newStore(t, path))
}

// Access that is denied is nothing to wait for. Root is denied nothing, so that the test runs as somebody else then.
func TestDenied(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "denied"))(t)
	defer os.RemoveAll(dir)
	must.Do(t, os.Chmod(dir, 0o755))
	bin := os.Args[0]
	open := func(path string) string {
		t.Helper()
		cmd := exec.Command(bin)
		cmd.Env = append(os.Environ(), openEnv+"="+path)
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if os.Getuid() == 0 { // who may not read the folder of the test binary
		program := must.Get(os.ReadFile(bin))(t)
		bin = filepath.Join(dir, "program")
		must.Do(t, os.WriteFile(bin, program, 0o755))
	}
	theirs := filepath.Join(dir, "theirs")
	must.Do(t, os.Mkdir(theirs, 0o700))
	mine := filepath.Join(dir, "mine")
	must.Do(t, os.Mkdir(mine, 0o777))
	must.Do(t, os.Chmod(mine, 0o777))
	for name, mode := range map[string]os.FileMode{"unreadable.db": 0, "readable.db": 0o444} {
		path := filepath.Join(mine, name)
		s := newStore(t, path)
		put(t, s, key("a"), 1)
		must.Do(t, errors.Join(s.Close(), os.Chmod(path, mode)))
	}
	if os.Getuid() != 0 {
		must.Do(t, os.Chmod(theirs, 0))
		defer os.Chmod(theirs, 0o700) // so that it can be removed
	}
	for _, path := range []string{
		filepath.Join(theirs, "x.db"), filepath.Join(theirs, "deeper", "x.db"), filepath.Join(mine, "unreadable.db"),
		filepath.Join(mine, "readable.db"),
		filepath.Join(mine, "readable.db", "x.db"),
	} {
		if got := open(path); !strings.HasPrefix(got, "true ") {
			t.Errorf("Open(%s): %s, want ErrUnusable", path, got)
		}
	}
	if got := open(filepath.Join(mine, "new", "x.db")); got != "false <nil>\n" {
		t.Errorf("Open of a new file: %s", got)
	}
	readable := filepath.Join(mine, "readable.db") // as a copy in a folder of somebody else is
	must.Do(t, os.Chmod(mine, 0o555))
	defer os.Chmod(mine, 0o700)
	if got := open("read " + readable); got != "false <nil>\n" {
		t.Errorf("OpenReadOnly in a folder that cannot be written to: %s", got)
	}
}
