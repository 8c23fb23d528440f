package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/dialects/phi"
)

// demoEvents is a session recorded from the real phi-core crate: two sessions in fact, a main one and a sub-agent's.
//
//go:embed demo.ndjson
var demoEvents []byte

// demoSession is the id of the main session in demoEvents.
const demoSession = "0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11"

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play a recorded session through a real collector and show it",
		Long: `Play a recorded session through a real collector and show it.

It starts a collector on free ports of this machine, sends it the recording over
OTLP, prints the session as rebuilt from the spans, and ends. It sends nothing
to other machines.`,
		Args:        noArgs,
		Annotations: refuses("db tenant output"),
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
}

func (a *app) demo(ctx context.Context) error {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "otelagent-demo-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "sessions.db")

	fmt.Fprintln(a.stdout, "Starting a collector with the agent_session exporter on free ports of this machine.")
	c, err := startCollector(ctx, collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: path,
		Log: a.stderr})
	if err != nil {
		return err
	}
	defer func() { _ = c.stop() }()

	recorded := filepath.Join(dir, "demo.ndjson")
	if err := os.WriteFile(recorded, demoEvents, 0o600); err != nil {
		return err
	}
	s, err := a.deliver(ctx, sendOptions{
		Files: []string{recorded}, Now: true, From: phi.Dialect, Capture: "content",
		Endpoint: "http://" + c.addr("grpc"), Protocol: "grpc",
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Sent %d recorded events as %d spans of %d sessions to %s over OTLP/gRPC.\n", s.Events, s.Spans,
		len(s.Sessions), s.Target)
	if err := c.stop(); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "This is what the collector kept:\n\n")

	kept := *a
	kept.dbs = []string{path}
	if err := kept.show(ctx, &showOptions{}, []string{demoSession}); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, `
The database is %[2]s (SQLite). Look at it with

  %[1]s ls --db %[2]s
  %[1]s show last --db %[2]s
  %[1]s show %[3]s/@1/1 --db %[2]s
  %[1]s request %[3]s/@1/2 --provenance --db %[2]s
  %[1]s request %[3]s/@1/2 --diff %[3]s/@1/1 --db %[2]s
  %[1]s export last --format phi-core --db %[2]s

and keep sessions of your own with

  %[1]s up
`, inspect.ShellWords(os.Args[0]), inspect.ShellWords(path), demoSession[:8])
	return nil
}
