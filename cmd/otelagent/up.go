package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/redactfile"
)

// upFlags are the flags of up.
type upFlags struct {
	collectorOptions
	readOnly     bool
	age, size    string
	viewerWanted bool // by the user: its address must be free
	// addr is where the viewer listens, tokenFile holds the token of its readers.
	addr, tokenFile string
	jaeger, tempo   string
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
			return a.up(ctx, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.GRPC, "otlp-grpc", "127.0.0.1:4317", "`ADDRESS` to listen on for OTLP over gRPC")
	flags.StringVar(&f.HTTP, "otlp-http", "127.0.0.1:4318", "`ADDRESS` to listen on for OTLP over HTTP")
	flags.StringArrayVar(&f.Config, "config", nil,
		"Collector configuration to run instead: a `FILE` or URI; a second one overlays the first")
	flags.StringVar(&f.Redact, "redact", "", "redact content that arrives by the rules in this `FILE` "+
		"(docs/redaction.md), or by the built-in set: default")
	flags.BoolVar(&f.readOnly, "read-only", false, "run the viewer alone")
	flags.StringVar(&f.age, "max-age", "",
		"erase sessions without an event for this `AGE`: 30d, 720h (default: never)")
	flags.Int64Var(&f.MaxSessions, "max-sessions", 0, "keep the newest `N` sessions of each owner (0: all)")
	flags.StringVar(&f.size, "max-size", "",
		"erase the oldest sessions until the database is no larger than this `SIZE`: "+
			"10GiB, 500MiB (default: no bound)")
	flags.StringVar(&f.addr, "viewer", web.DefaultAddr, "`ADDRESS` of the viewer for a browser, or off")
	flags.StringVar(&f.jaeger, "link-jaeger", "",
		"`TEMPLATE` of links to Jaeger: http://127.0.0.1:16686/trace/{trace}")
	flags.StringVar(&f.tempo, "link-tempo", "",
		"`TEMPLATE` of links to Tempo or Grafana, with {trace} and, if wanted, {span} in it")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token that readers must send (default "+
		"$"+envToken+"); required where other machines reach the address")
	return c
}

// collecting are the flags of the built-in collector.
var collecting = []string{"otlp-grpc", "otlp-http", "redact", "max-age", "max-sessions", "max-size"}

// checkUp reads the flags, and names everything that is wrong with them.
func (a *app) checkUp(f *upFlags, flags *pflag.FlagSet) (err error) {
	var wrong wrongs
	exclusive := map[string][]string{"config": append(collecting, "tenant", "read-only"), "read-only": collecting}
	for flag, others := range exclusive {
		var given []string
		for _, other := range others {
			if flags.Changed(other) {
				given = append(given, other)
			}
		}
		wrong.when(flags.Changed(flag) && len(given) > 0, "--%s excludes --%s", flag, strings.Join(given, ", --"))
	}
	wrong.when(!f.readOnly && flags.Changed("tenant") && a.tenant == "",
		"--tenant is given, but empty: each sender would name the owner")
	wrong.when(f.readOnly && f.addr == viewerOff, "--read-only and --viewer off exclude each other")
	f.Tenant = a.tenant
	f.Database, err = a.oneDatabase()
	wrong.note(err)
	if f.age != "" {
		f.MaxAge, err = store.ParseAge(f.age)
		wrong.when(err != nil || f.MaxAge < time.Minute, "--max-age %s: want at least 1m: 30d, 720h", f.age)
	}
	wrong.when(f.MaxSessions < 0, "--max-sessions %d: want a number from 0", f.MaxSessions)
	if f.size != "" {
		n, err := humanize.ParseBytes(f.size)
		f.MaxSizeMiB = int64(n >> 20)
		wrong.when(err != nil || n < 1<<20 || n > math.MaxInt64, "--max-size %s: want at least 1MiB: 10GiB, 500MiB", f.size)
	}
	wrong.address("--otlp-grpc", f.GRPC, "127.0.0.1:4317")
	wrong.address("--otlp-http", f.HTTP, "127.0.0.1:4318")
	if f.addr != viewerOff {
		wrong.address("--viewer", f.addr, web.DefaultAddr)
	}
	for flag, link := range map[string]string{"--link-jaeger": f.jaeger, "--link-tempo": f.tempo} {
		err := web.CheckLink(link)
		wrong.when(link != "" && err != nil, "%s: %v", flag, err)
	}
	f.viewerWanted = f.readOnly || flags.Changed("viewer")
	_, err = redactfile.Load(f.Redact)
	wrong.when(err != nil, "--redact: %v", err)
	return wrong.err()
}

// address adds a line where a text is no address to listen on.
func (w *wrongs) address(flag, text, example string) {
	_, err := net.ResolveTCPAddr("tcp", text)
	w.when(err != nil, "%s %s: want HOST:PORT, such as %s (%v)", flag, text, example, err)
}

// memoryGoal is where the garbage collector begins to work more often: less than memory_limiter refuses at. GOMEMLIMIT
// replaces it.
const memoryGoal = 640 << 20

// up runs a collector, unless it only reads, and a viewer until ctx ends or one of them fails.
func (a *app) up(ctx context.Context, f *upFlags) error {
	g, ctx := errgroup.WithContext(ctx)
	at, err := chooseDatabase(f.Database)
	if err != nil {
		return err
	}
	builtin := len(f.Config) == 0 && !f.readOnly
	if builtin {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(memoryGoal)
		}
		f.Database, f.Log = at.dsn, a.stderr
	}
	var viewer errgroup.Group // it closes the database before the collector does, so that one file is left
	if !f.readOnly {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() {
			_ = viewer.Wait()
			stop()
		})
		c, err := startCollector(running, f.collectorOptions)
		if err != nil {
			if ctx.Err() != nil {
				return nil // stopped before it was up
			}
			return err
		}
		g.Go(c.wait)
		for _, l := range c.listeners {
			a.say(map[string]string{"grpc": "OTLP over gRPC on %s", "http": "OTLP over HTTP on http://%s"}[l.Protocol], l.Addr)
		}
		if builtin {
			a.say("sessions are kept in %s", at.name)
		} else {
			a.say("running %s", strings.Join(f.Config, ", "))
		}
	}
	if f.addr != viewerOff && (len(f.Config) == 0 || f.viewerWanted || len(a.dbs) > 0) {
		db, err := a.open(ctx)
		if err == nil {
			err = a.startViewer(ctx, &viewer, f, db)
			g.Go(viewer.Wait)
		}
		if err != nil {
			g.Go(func() error { return err }) // which stops the collector
			return g.Wait()
		}
	}
	a.say("ready; Ctrl-C stops")
	if builtin {
		where := ""
		if defaulted, _ := chooseDatabase(""); at != defaulted { // that of commands without --db
			where = " --db " + inspect.ShellWords(at.name)
		}
		a.say("list and show sessions with 'otelagent ls%[1]s' and 'otelagent show last%[1]s'", where)
	}
	g.Go(func() error {
		<-ctx.Done()
		a.say("stopping")
		return nil
	})
	return g.Wait()
}

// startViewer starts a viewer that ends with ctx, and then closes the database. Where another program has the default
// address, the collector runs without a viewer.
func (a *app) startViewer(ctx context.Context, g *errgroup.Group, f *upFlags, db *database) error {
	url, serve, err := f.listen(ctx, a, db)
	if err != nil {
		db.close()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && f.viewerWanted:
		return fmt.Errorf("%s is already in use, perhaps by another viewer; choose another address", f.addr)
	case errors.Is(err, syscall.EADDRINUSE):
		a.say("no viewer: %s is already in use, perhaps by another one; --viewer 127.0.0.1:0 takes a free port", f.addr)
		return nil
	case err != nil:
		return err
	case f.readOnly:
		a.say("the viewer of %s is on %s", db.at.name, url)
	default:
		a.say("the viewer is on %s", url)
	}
	g.Go(func() error {
		defer db.close()
		return serve()
	})
	return nil
}

const (
	// envToken names the variable that holds the token that readers must show.
	envToken = "OTELAGENT_TOKEN"
	// viewerOff in place of an address switches the viewer off.
	viewerOff = "off"
)

// token returns the token that readers must send; empty for none.
func (f *upFlags) token(a *app) (string, error) {
	const least = 16 // characters, so that nobody guesses it
	token, from := os.Getenv(envToken), "$"+envToken
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", err
		}
		if token, from = string(bytes.TrimSpace(text)), f.tokenFile; token == "" {
			return "", fmt.Errorf("%s is empty, want a token", from)
		}
		if at, err := os.Stat(from); err == nil && at.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			a.say("other users can read the token in %s: 'chmod 600' it", from)
		}
	}
	if token != "" && len(token) < least {
		return "", fmt.Errorf("the token of %s is too short: want at least %d characters, such as those of 'openssl rand "+
			"-hex 16'", from, least)
	}
	return token, nil
}

// listen listens, and returns the address for a browser and what serves it until ctx ends. Where the viewer listens on
// every address, that is the loopback one. Browsers may use the name of a host in --viewer.
func (f *upFlags) listen(ctx context.Context, a *app, db *database) (
	url string, serve func() error, err error) {
	token, err := f.token(a)
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.addr)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if web.NeedsToken(l.Addr()) && token == "" {
		return "", nil, fmt.Errorf("other machines reach %s, and whoever reaches it reads every session: "+
			"give a token with --token-file or $%s (docs/security.md)", f.addr, envToken)
	}
	vo := web.Options{
		Store: db.Store, Name: db.at.name, Version: versionText(), Tenant: db.Tenant, Refresh: db.refresh,
		Fixed: f.readOnly && a.tenant != "",
		Token: token, Links: map[string]string{"jaeger": f.jaeger, "tempo": f.tempo},
		Log: func(line string) { a.say("viewer: %s", line) },
	}
	maps.DeleteFunc(vo.Links, func(_, link string) bool { return link == "" })
	if host, _, err := net.SplitHostPort(f.addr); err == nil && host != "" && net.ParseIP(host) == nil {
		vo.Hosts = []string{host}
	}
	h, err := web.New(vo)
	if err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/", func() error { return h.Serve(ctx, l) }, err
}
