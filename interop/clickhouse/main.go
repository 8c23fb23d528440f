// Command clickhouse starts a ring of ClickHouse engines, runs a command with the ring's DSN in its environment, and stops
// the ring; see package ring.
//
//	clickhouse -home FOLDER RING COMMAND...
//
// The command finds OTELAGENT_TEST_CLICKHOUSE (the DSN by the first server), OTELAGENT_TEST_CLICKHOUSE_ALL (by every
// server, spaces between) and OTELAGENT_TEST_CLICKHOUSE_RING (its name). Its exit code is ours. When it fails, the ring's
// folder with all logs stays, and we say where.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/otelagent/otelagent/interop/clickhouse/ring"
)

func main() {
	home := flag.String("home", ".", "the `folder` interop/clickhouse")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: clickhouse [-home FOLDER] {%s} COMMAND...\n", strings.Join(ring.Names, "|"))
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(*home, flag.Arg(0), flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", err)
	}
	os.Exit(code)
}

func run(home, name string, command []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	r, err := ring.Start(ctx, name, ring.Config{Home: home})
	if err != nil {
		return 1, err
	}
	defer r.Close()
	fmt.Fprintf(os.Stderr, "clickhouse: %s is up after %.1f s\n", name, time.Since(begin).Seconds())

	var all []string
	for i := range r.Servers {
		all = append(all, r.DSN(i))
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "OTELAGENT_TEST_CLICKHOUSE="+all[0], "OTELAGENT_TEST_CLICKHOUSE_ALL="+strings.Join(all, " "),
		"OTELAGENT_TEST_CLICKHOUSE_RING="+name)
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
