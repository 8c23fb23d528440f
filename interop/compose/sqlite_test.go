//go:build linux

package compose

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // the library of Grafana's plugin

	"github.com/otelagent/otelagent/internal/must"
)

// sqliteOptions are those of the data source (dashboards/provisioning/datasources/sqlite.yaml).
const sqliteOptions = "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)"

const readerEnv = "READER_OF"

func TestMain(m *testing.M) {
	if dir := os.Getenv(readerEnv); dir != "" {
		if err := read(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// read is Grafana: for every line of its input it counts the sessions of the file in dir, which it has mounted
// read-only over itself in a namespace of its own, and prints how many there are.
func read(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		return errors.New("the folder is not read-only")
	}
	// Who may ignore modes is not Grafana.
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return err
	}
	if err := syscall.Setresuid(10001, 10001, 10001); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n, err := count(filepath.Join(dir, "sessions.db"))
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(n)
	}
	return nil
}

func count(path string) (n int, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?"+sqliteOptions)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRow("SELECT count(*) FROM sessions").Scan(&n)
	return n, err
}

// Grafana reads the sessions while the collector writes them: as the same user, from a volume that it can only read, in
// files that nobody else may. Without the collector, whose -shm file SQLite wants, it gets an error and not an old
// state.
func TestReadOnlySessions(t *testing.T) {
	bin := program(t, otelcol)
	rootOnly(t, "mount")
	s := newStack(t, variantNamed("default"))
	dir := filepath.Join(s.data, "sessions")
	for _, d := range []string{filepath.Dir(s.data), s.data} {
		must.Do(t, os.Chmod(d, 0o711))
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Do(t, os.Chown(dir, 10001, 10001))
	// A copy where the image's user can read it.
	text := must.Get(os.ReadFile(bin))(t)
	own := filepath.Join(s.data, "otelcol")
	must.Do(t, os.WriteFile(own, text, 0o600))
	if err := os.Chmod(own, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	t.Setenv(otelcol, own)
	s.user = &syscall.Credential{Uid: 10001, Gid: 10001}
	collector := s.collector()

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), readerEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	answers := bufio.NewScanner(out)
	count := func() string {
		t.Helper()
		must.Get(fmt.Fprintln(in))(t)
		if !answers.Scan() {
			t.Fatalf("the reader has ended: %v", answers.Err())
		}
		return answers.Text()
	}
	if got := count(); got != "0" {
		t.Errorf("before anything is sent Grafana reads %s", got)
	}
	s.send()
	if got := count(); got != "1" {
		t.Errorf("after a session Grafana reads %s", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "sessions.db")); err != nil || info.Mode().Perm() != 0o600 ||
		info.Sys().(*syscall.Stat_t).Uid != 10001 {
		t.Errorf("the file is %v, %v", info, err)
	}
	collector.stop(t)
	got := count()
	t.Logf("without the collector: %s", got)
	if !strings.HasPrefix(got, "error: ") {
		t.Errorf("without the collector Grafana reads %s; compose/README.md says that it cannot", got)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
