package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/web"
)

func (a *app) upCommand() *cobra.Command {
	var o collectorOptions
	var keep keepFlags
	var look viewerOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a collector that keeps sessions",
		Long: `Run a collector that takes OTLP and keeps sessions.

It listens on loopback only unless told otherwise. What it acknowledged is on
disk. Ctrl-C or SIGTERM stops it. What it keeps can be looked at with a browser
while it comes ('otelagent serve --help'); --viewer off does without.

Sessions are kept for ever unless --max-age, --max-sessions or --max-size say
otherwise: then whole ones go, the oldest first, sub-agents with the session
that spawned them, every few minutes. --redact takes out of what arrives what
no sender should have sent (docs/redaction.md). Who may send and read:
docs/security.md.

With --config it runs a Collector configuration instead of the built-in one,
which may name these components:
  receiver    otlp
  processors  batch, memory_limiter
  exporters   agent_session, otlp_grpc, otlp_http, debug
  extensions  file_storage, health_check, otlp_limits
Under service.telemetry it takes logs (level, encoding, output_paths) and
metrics. For other components, build a collector of your own with the
agent_session exporter.`,
		Example: `  otelagent up
  otelagent up --db ./sessions.db --otlp-grpc 127.0.0.1:14317
  otelagent up --max-age 30d --max-size 10GiB --redact default
  otelagent up --config collector.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config != "" {
				var given []string
				cmd.Flags().Visit(func(f *pflag.Flag) {
					if f.Name != "config" {
						given = append(given, "--"+f.Name)
					}
				})
				if len(given) > 0 {
					return usagef("%s: the configuration given with --config says it itself", strings.Join(given, ", "))
				}
			}
			if cmd.Flags().Changed("tenant") && o.Tenant == "" {
				return usagef("--tenant is given, but empty: the owner would be what each sender says")
			}
			if err := keep.into(&o); err != nil {
				return err
			}
			if look.addr == viewerOff {
				look = viewerOptions{}
			} else if err := look.check("--viewer"); err != nil {
				return err
			}
			return a.up(cmd.Context(), o, &look, cmd.Flags().Changed("viewer"))
		},
	}
	c.Flags().StringVar(&o.Database, "db", "",
		"database `DSN`: "+databaseHelp+" (default $OTELAGENT_DB, else a file per user)")
	c.Flags().StringVar(&o.GRPC, "otlp-grpc", "127.0.0.1:4317", "`address` to listen on for OTLP over gRPC")
	c.Flags().StringVar(&o.HTTP, "otlp-http", "127.0.0.1:4318", "`address` to listen on for OTLP over HTTP")
	c.Flags().StringVar(&o.Config, "config", "", "Collector configuration to run instead: a `file` or URI")
	c.Flags().StringVar(&o.Tenant, "tenant", "", "`owner` of what comes, whatever its sender says")
	c.Flags().StringVar(&o.Redact, "redact", "", "rules for what is taken out of content that arrives: a `file` "+
		"(docs/redaction.md), or default for the built-in set")
	c.Flags().StringVar(&look.addr, "viewer", web.DefaultAddr, "`address` where a browser can look at sessions, or off")
	look.add(c)
	keep.add(c)
	return c
}

// viewerOff in place of an address says that there is to be no viewer.
const viewerOff = "off"

// keepFlags say how much is kept.
type keepFlags struct {
	age, size string
	sessions  int64
}

func (f *keepFlags) add(c *cobra.Command) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.age, "max-age", "", "sessions go of which nothing was seen for this `time`: 30d, 720h (default: "+
		"never)")
	flags.Int64Var(&f.sessions, "max-sessions", 0, "of each owner the newest `n` are kept (0: all)")
	flags.StringVar(&f.size, "max-size", "", "the oldest sessions go until the database takes no more than this `size`: "+
		"10GiB, 500MiB (default: no bound)")
	addGroup(c, "Flags for how much is kept", flags)
}

// into puts what the flags say into o, and names everything that is wrong with them.
func (f *keepFlags) into(o *collectorOptions) error {
	var wrong []string
	var err error
	if f.age != "" {
		if o.MaxAge, err = store.ParseAge(f.age); err != nil || o.MaxAge < time.Minute {
			wrong = append(wrong, fmt.Sprintf("--max-age %s: want at least 1m: 30d, 720h", f.age))
		}
	}
	if o.MaxSessions = f.sessions; f.sessions < 0 {
		wrong = append(wrong, fmt.Sprintf("--max-sessions %d: want a number from 0", f.sessions))
	}
	if f.size != "" {
		if o.MaxSizeMiB, err = parseMiB(f.size); err != nil {
			wrong = append(wrong, fmt.Sprintf("--max-size %s: want at least 1MiB: 10GiB, 500MiB", f.size))
		}
	}
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// parseMiB reads a size, and returns it in whole MiB.
func parseMiB(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n < 1<<20 || n > math.MaxInt64 {
		return 0, errors.New("no size")
	}
	return int64(n >> 20), nil
}

// up runs a collector and, of the built-in configuration, a viewer next to it; look without an address is none. wanted
// says that the user asked for that address: then it must be free.
func (a *app) up(ctx context.Context, o collectorOptions, look *viewerOptions, wanted bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	var at location
	defaulted, _ := chooseDatabase("") // what the verbs look at that are given no --db
	if o.Config == "" {
		for _, flag := range [][2]string{{"--otlp-grpc", o.GRPC}, {"--otlp-http", o.HTTP}} {
			if _, err := net.ResolveTCPAddr("tcp", flag[1]); err != nil {
				return usagef("%s %s: want HOST:PORT, such as 127.0.0.1:4317 (%w)", flag[0], flag[1], err)
			}
		}
		var err error
		if at, err = chooseDatabase(o.Database); err != nil {
			return err
		}
		if o.Redact != "" && o.Redact != redactDefault {
			if _, err := loadRules(o.Redact); err != nil { // before anything listens
				return err
			}
		}
		o.Database, o.Password = at.dsn, os.Getenv(envPassword)
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
	viewed := func() error { return nil }
	if o.Config == "" {
		a.say("sessions are kept in %s", at.name)
		if look.addr != "" {
			if viewed, err = a.viewBeside(ctx, at, o.Tenant, look, wanted); err != nil {
				return firstError(err, c.stop())
			}
		}
	} else {
		a.say("running %s", o.Config)
	}
	a.say("ready; Ctrl-C stops")
	if o.Config == "" {
		where := ""
		if at != defaulted {
			where = " --db " + shellWord(at.name)
		}
		a.say("look at what comes with 'otelagent ls%[1]s' and 'otelagent show last%[1]s'", where)
	}

	select {
	case <-ctx.Done():
		stop() // a second Ctrl-C ends the process at once
		a.say("stopping")
	case <-c.done:
		stop()
	}
	return firstError(c.stop(), viewed())
}

// viewBeside starts a viewer of the database that a collector writes to. It ends with ctx; what it returns waits for
// that. Where the address is taken that nobody asked for, the collector runs without.
func (a *app) viewBeside(ctx context.Context, at location, tenant string, o *viewerOptions,
	wanted bool) (wait func() error, err error) {
	db, err := openToRead(ctx, a, at, tenant)
	if err != nil {
		return nil, err
	}
	v, err := o.open(ctx, a, db, false)
	if err != nil {
		db.close()
		if !wanted && errors.Is(err, syscall.EADDRINUSE) {
			a.say("no viewer: %s is already in use, perhaps by another one; --viewer 127.0.0.1:0 takes a free port", o.addr)
			return func() error { return nil }, nil
		}
		return nil, err
	}
	a.say("sessions can be looked at on %s", v.url())
	done := make(chan error, 1)
	go func() {
		defer db.close()
		done <- v.handler.Serve(ctx, v.listener)
	}()
	return func() error { return <-done }, nil
}
