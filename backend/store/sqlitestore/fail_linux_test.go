package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

// smallDisk mounts a file system of that size, or skips where that is not allowed; TestDiskFull has the same without a
// mount.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("no file system of its own can be mounted here (%v): see TestDiskFull", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A real file system that is full: what does not fit is refused wholly, everything else goes on, and so does writing
// when there is room again, without opening anew.
func TestDiskFullMount(t *testing.T) {
	dir := smallDisk(t, "6m")
	path := filepath.Join(dir, "x.db")
	s := newStore(t, path)
	batch := func(n int) session.Batch {
		k := key(fmt.Sprint("s", n))
		return session.Batch{Rows: []session.Row{storetest.Row(k, n)},
			Blocks: []session.Block{storetest.Block(k, noise(fmt.Sprint(n), 400_000))}}
	}
	kept := 0
	var full error
	for ; kept < 100 && full == nil; kept++ {
		full = s.Put(t.Context(), batch(kept))
	}
	kept--
	if full == nil || errors.Is(full, store.ErrData) {
		t.Fatalf("after %d batches: %v, want one that may go away", kept, full)
	}
	t.Logf("full after %d batches: %v", kept, full)
	if rows, blocks := count(t, s, key(fmt.Sprint("s", kept))); rows+blocks != 0 {
		t.Errorf("of the batch that failed %d rows and %d blocks are there", rows, blocks)
	}
	for n := range kept {
		if rows, blocks := count(t, s, key(fmt.Sprint("s", n))); rows != 1 || blocks != 1 {
			t.Errorf("session %d: %d rows, %d blocks", n, rows, blocks)
		}
	}
	// Another program may open it, or be told why not; it is not hopeless.
	if o, err := Open(t.Context(), path); err == nil {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	} else if errors.Is(err, store.ErrUnusable) {
		t.Errorf("Open on a full disk: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), batch(kept)); err != nil {
		t.Fatalf("Put when there is room again: %v", err)
	}
	if err := store.Delete(t.Context(), s, key("s0")); err != nil {
		t.Fatalf("Delete when there is room again: %v", err)
	}
	checkWhole(t, s)
}

// A database that cannot be made on a full disk has nothing in it, says so, and is made when there is room.
func TestDiskFullCreate(t *testing.T) {
	for _, size := range []string{"4k", "40k", "256k", "472k"} {
		dir := smallDisk(t, size)
		path := filepath.Join(dir, "x.db")
		if _, err := Open(t.Context(), path); err == nil || errors.Is(err, store.ErrUnusable) {
			t.Errorf("Open on a disk of %s: %v, want an error that may go away", size, err)
		}
		_, err := OpenReadOnly(t.Context(), path)
		if v := (*VersionError)(nil); !errors.As(err, &v) || v.Have != 0 ||
			!strings.Contains(err.Error(), "nothing was recorded") {
			t.Errorf("OpenReadOnly after that: %v", err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
		s := newStore(t, path)
		put(t, s, key("a"), 1)
		checkWhole(t, s)
	}
}

// A file system that becomes read-only, as one does after an error of the disk, and comes back.
func TestReadOnlyMount(t *testing.T) {
	dir := smallDisk(t, "16m")
	path := filepath.Join(dir, "x.db")
	s := newStore(t, path)
	put(t, s, key("a"), 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	for _, p := range []string{path, filepath.Join(dir, "new", "y.db")} {
		if _, err := Open(t.Context(), p); err == nil || errors.Is(err, store.ErrUnusable) {
			t.Errorf("Open(%s) on a file system that is read-only: %v, want one that may go away", p, err)
		}
	}
	if rows, _ := count(t, newReader(t, path), key("a")); rows != 1 {
		t.Errorf("%d rows are read", rows)
	}
	remount(0)
	s = newStore(t, path)
	put(t, s, key("a"), 2)
	checkWhole(t, s)
}

// Access that is denied is nothing to wait for. Root is denied nothing, so that the test runs as somebody else then.
func TestDenied(t *testing.T) {
	dir, err := os.MkdirTemp("", "denied")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
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
		program, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		bin = filepath.Join(dir, "program")
		if err := os.WriteFile(bin, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	theirs := filepath.Join(dir, "theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "mine")
	if err := os.Mkdir(mine, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mine, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"unreadable.db": 0, "readable.db": 0o444} {
		path := filepath.Join(mine, name)
		s := newStore(t, path)
		put(t, s, key("a"), 1)
		if err := errors.Join(s.Close(), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(theirs, 0); err != nil {
			t.Fatal(err)
		}
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
}
