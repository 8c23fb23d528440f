package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) upCommand() *cobra.Command {
	o := collectorOptions{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a collector that keeps sessions",
		Long: `Run a collector that takes OTLP and keeps sessions.

It listens on loopback only unless told otherwise. What it acknowledged is on
disk. Ctrl-C or SIGTERM stops it. With --config it runs a Collector
configuration instead of the built-in one, made of these components:
  receiver    otlp
  processors  batch, memory_limiter
  exporters   agent_session, otlp_grpc, otlp_http, debug
  extensions  file_storage, health_check
With others, build a collector of your own with the agent_session exporter.`,
		Example: `  otelagent up
  otelagent up --db ./sessions.db --otlp-grpc 127.0.0.1:14317
  otelagent up --config collector.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config != "" {
				for _, name := range []string{"db", "otlp-grpc", "otlp-http"} {
					if cmd.Flags().Changed(name) {
						return usagef("--%s says what the configuration given with --config says itself", name)
					}
				}
			}
			return a.up(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.Database, "db", "", "database `DSN`: PATH or sqlite:PATH (default $OTELAGENT_DB, else a file per user)")
	c.Flags().StringVar(&o.GRPC, "otlp-grpc", "127.0.0.1:4317", "`address` to listen on for OTLP over gRPC")
	c.Flags().StringVar(&o.HTTP, "otlp-http", "127.0.0.1:4318", "`address` to listen on for OTLP over HTTP")
	c.Flags().StringVar(&o.Config, "config", "", "Collector configuration to run instead: a `file` or URI")
	return c
}

func (a *app) up(ctx context.Context, o collectorOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	path := ""
	defaulted, _ := chooseDSN("") // what the verbs look at that are given no --db
	if o.Config == "" {
		for _, flag := range [][2]string{{"--otlp-grpc", o.GRPC}, {"--otlp-http", o.HTTP}} {
			if _, err := net.ResolveTCPAddr("tcp", flag[1]); err != nil {
				return usagef("%s %s: want HOST:PORT, such as 127.0.0.1:4317 (%w)", flag[0], flag[1], err)
			}
		}
		var err error
		if o.Database, path, err = databaseToWrite(o.Database); err != nil {
			return err
		}
		o.Log = a.stderr
	}
	c, err := startCollector(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was up
		}
		return err
	}
	for _, l := range c.listeners {
		switch l.Protocol {
		case "grpc":
			a.say("OTLP over gRPC on %s", l.Addr)
		case "http":
			a.say("OTLP over HTTP on http://%s", l.Addr)
		}
	}
	if path != "" {
		a.say("sessions are kept in %s", path)
	} else {
		a.say("running %s", o.Config)
	}
	a.say("ready; Ctrl-C stops")
	if path != "" {
		where := ""
		if path != defaulted {
			where = " --db " + shellWord(path)
		}
		a.say("look at what comes with 'otelagent ls%[1]s' and 'otelagent show last%[1]s'", where)
	}

	select {
	case <-ctx.Done():
		stop() // a second Ctrl-C ends the process at once
		a.say("stopping")
	case <-c.done:
	}
	return c.stop()
}
