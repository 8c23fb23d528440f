package main

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
)

// upFlags are the flags of up.
type upFlags struct {
	collectorOptions
	readOnly     bool
	age, size    string
	viewer       viewerOptions
	viewerWanted bool // by the user: its address must be free
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a collector that keeps sessions, and the viewer",
		Long: `Run a collector that takes OTLP and keeps sessions, and a viewer for a browser:
the list of sessions, each with its timeline and conversation, requests,
differences and statistics, and a read-only API with the same JSON as the other
commands (docs/api.md).

Both listen on loopback by default. On another address every reader must send a
token: open the address with ?token=TOKEN once, or send it as Authorization:
Bearer TOKEN (docs/security.md). Acknowledged spans are on disk. Ctrl-C or
SIGTERM stops the command.

Sessions are kept for ever unless --max-age, --max-sessions or --max-size bound
them: then whole sessions are erased, the oldest first, sub-agents with the
session that spawned them, every few minutes. --redact removes content that no
sender should have sent (docs/redaction.md).

With --read-only it takes no OTLP and writes nothing but summaries that are
behind.

With --config it runs a Collector configuration instead of the built-in one, and
the viewer of --db where --db or --viewer is given. The configuration may name:
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
  otelagent up --read-only --db ./sessions.db --viewer 127.0.0.1:9000
  otelagent up --config collector.yaml --db ./sessions.db`,
		Args:        noArgs,
		Annotations: refuses("output"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkUp(&f, cmd.Flags()); err != nil {
				return err
			}
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			if f.readOnly {
				return a.view(ctx, &f)
			}
			return a.up(ctx, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.GRPC, "otlp-grpc", "127.0.0.1:4317", "`ADDRESS` to listen on for OTLP over gRPC")
	flags.StringVar(&f.HTTP, "otlp-http", "127.0.0.1:4318", "`ADDRESS` to listen on for OTLP over HTTP")
	flags.StringVar(&f.Config, "config", "", "Collector configuration to run instead: a `FILE` or URI")
	flags.StringVar(&f.Redact, "redact", "", "redact content that arrives by the rules in this `FILE` "+
		"(docs/redaction.md), or by the built-in set: default")
	flags.BoolVar(&f.readOnly, "read-only", false, "run the viewer alone")
	flags.StringVar(&f.age, "max-age", "",
		"erase sessions without an event for this `AGE`: 30d, 720h (default: never)")
	flags.Int64Var(&f.MaxSessions, "max-sessions", 0, "keep the newest `N` sessions of each owner (0: all)")
	flags.StringVar(&f.size, "max-size", "",
		"erase the oldest sessions until the database is no larger than this `SIZE`: "+
			"10GiB, 500MiB (default: no bound)")
	f.viewer.add(c)
	return c
}

// checkUp reads the flags, and names everything that is wrong with them.
func (a *app) checkUp(f *upFlags, flags *pflag.FlagSet) (err error) {
	var wrong wrongs
	collector := []string{"otlp-grpc", "otlp-http", "redact", "max-age", "max-sessions", "max-size"}
	excluded := func(flag string, others ...string) {
		others = slices.DeleteFunc(others, func(name string) bool { return !flags.Changed(name) })
		wrong.when(flags.Changed(flag) && len(others) > 0, "--%s excludes --%s", flag, strings.Join(others, ", --"))
	}
	excluded("config", append(slices.Clone(collector), "tenant", "read-only")...)
	excluded("read-only", collector...)
	wrong.when(!f.readOnly && flags.Changed("tenant") && a.tenant == "",
		"--tenant is given, but empty: each sender would name the owner")
	f.Tenant = a.tenant
	if f.Database, err = a.oneDatabase(); err != nil {
		return err
	}
	if f.age != "" {
		if f.MaxAge, err = store.ParseAge(f.age); err != nil || f.MaxAge < time.Minute {
			wrong.addf("--max-age %s: want at least 1m: 30d, 720h", f.age)
		}
	}
	wrong.when(f.MaxSessions < 0, "--max-sessions %d: want a number from 0", f.MaxSessions)
	if f.size != "" {
		n, err := humanize.ParseBytes(f.size)
		if f.MaxSizeMiB = int64(n >> 20); err != nil || n < 1<<20 || n > math.MaxInt64 {
			wrong.addf("--max-size %s: want at least 1MiB: 10GiB, 500MiB", f.size)
		}
	}
	for _, flag := range [][2]string{{"--otlp-grpc", f.GRPC}, {"--otlp-http", f.HTTP}} {
		if _, err := net.ResolveTCPAddr("tcp", flag[1]); err != nil {
			wrong.addf("%s %s: want HOST:PORT, such as 127.0.0.1:4317 (%v)", flag[0], flag[1], err)
		}
	}
	f.viewer.check(&wrong)
	f.viewerWanted = f.readOnly || flags.Changed("viewer")
	if f.Redact != "" && f.Redact != redactDefault {
		_, err := loadRules(f.Redact)
		wrong.note(err)
	}
	return wrong.err()
}

// memoryGoal is where the garbage collector begins to work more often: less than memory_limiter refuses at. GOMEMLIMIT
// replaces it.
const memoryGoal = 640 << 20

// up runs a collector and the viewer until ctx ends.
func (a *app) up(ctx context.Context, f *upFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, err := chooseDatabase(f.Database)
	if err != nil {
		return err
	}
	view := f.viewer.addr != viewerOff
	if f.Config == "" {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(memoryGoal)
		}
		f.Database, f.Password, f.Log = at.dsn, os.Getenv(envPassword), a.stderr
	} else {
		view = view && (f.viewerWanted || f.Database != "")
	}
	c, err := startCollector(ctx, f.collectorOptions)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was up
		}
		return err
	}
	for _, l := range c.listeners {
		a.say(map[string]string{"grpc": "OTLP over gRPC on %s", "http": "OTLP over HTTP on http://%s"}[l.Protocol], l.Addr)
	}
	if f.Config == "" {
		a.say("sessions are kept in %s", at.name)
	} else {
		a.say("running %s", f.Config)
	}
	viewed := make(chan error, 1)
	if view {
		err = a.startViewer(ctx, at, f, viewed)
	} else {
		viewed <- nil
	}
	if err != nil {
		return firstError(err, c.stop())
	}
	a.say("ready; Ctrl-C stops")
	if f.Config == "" {
		where := ""
		if defaulted, _ := chooseDatabase(""); at != defaulted { // that of commands without --db
			where = " --db " + inspect.ShellWords(at.name)
		}
		a.say("list and show sessions with 'otelagent ls%[1]s' and 'otelagent show last%[1]s'", where)
	}
	select {
	case <-ctx.Done():
	case <-c.done:
	}
	if ctx.Err() != nil { // the collector ends with ctx, too
		a.say("stopping")
	}
	cancel() // of the viewer
	return firstError(c.stop(), <-viewed)
}

// startViewer starts a viewer of the database that a collector writes to. It ends with ctx, and then sends its error to
// done. Where another program has the default address, the collector runs without a viewer.
func (a *app) startViewer(ctx context.Context, at location, f *upFlags, done chan<- error) error {
	db, err := a.openDatabase(ctx, at, true)
	if err != nil {
		return err
	}
	v, err := f.viewer.open(ctx, a, db, false)
	if err != nil {
		db.close()
		if !f.viewerWanted && errors.Is(err, syscall.EADDRINUSE) {
			a.say("no viewer: %s is already in use, perhaps by another one; --viewer 127.0.0.1:0 takes a free port",
				f.viewer.addr)
			done <- nil
			return nil
		}
		return err
	}
	a.say("the viewer is on %s", v.url())
	go func() {
		defer db.close()
		done <- v.handler.Serve(ctx, v.listener)
	}()
	return nil
}

// view runs the viewer of a database, or of recordings, until ctx ends.
func (a *app) view(ctx context.Context, f *upFlags) error {
	if f.viewer.addr == viewerOff {
		return usagef("--read-only and --viewer off exclude each other")
	}
	db, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	v, err := f.viewer.open(ctx, a, db, a.tenant != "")
	if err != nil {
		return err
	}
	a.say("the viewer of %s is on %s", db.at.name, v.url())
	a.say("ready; Ctrl-C stops")
	return v.handler.Serve(ctx, v.listener)
}
