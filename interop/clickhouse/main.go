// Command clickhouse starts a ClickHouse engine, runs a command with its DSN in the environment
// (OTELAGENT_TEST_CLICKHOUSE), and stops the engine; see package ring.
//
//	clickhouse -home FOLDER COMMAND...
//
// It ends with the exit code of the command. When that fails, the folder with all logs stays, and is named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/otelagent/otelagent/interop/clickhouse/ring"
)

func main() {
	home := flag.String("home", ".", "the `folder` interop/clickhouse")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: clickhouse [-home FOLDER] COMMAND...")
	}
	flag.Parse()
	if flag.NArg() < 1 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(*home, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", err)
	}
	os.Exit(code)
}

func run(home string, command []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	r, err := ring.Start(ctx, home)
	if err != nil {
		return 1, err
	}
	defer r.Close()
	fmt.Fprintf(os.Stderr, "clickhouse: up after %.1f s\n", time.Since(begin).Seconds())

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "OTELAGENT_TEST_CLICKHOUSE="+r.DSN())
	if err = cmd.Run(); err == nil {
		return 0, nil
	}
	r.Keep()
	err = fmt.Errorf("%w; logs are in %s", err, r.Folder)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode(), err
	}
	return 1, err
}
