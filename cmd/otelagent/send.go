package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

const (
	// flushTime bounds how long the rest may take to be delivered once everything was read.
	flushTime = time.Minute
	// graceTime is how long the end of a pipe is waited for after Ctrl-C, which ends its writer as well.
	graceTime = 2 * time.Second
	// maxRejected bounds how many rejected lines are named one by one.
	maxRejected = 20
	// pipeQueue is how many spans of a pipe wait at most to be sent; a writer in a hurry makes thousands in a moment.
	pipeQueue = 65536
	// fileQueue is how many bytes of spans of a file wait at most to be sent: reading waits for them.
	fileQueue = 8 << 20
)

func (a *app) sendCommand() *cobra.Command {
	var o sendOptions
	c := &cobra.Command{
		Use:   "send [FILE... | FOLDER... | -]",
		Short: "Send an agent's events, from files or a pipe",
		Long: `Send an agent's events as spans over OTLP, or straight into a database (--db).

The input is the events of phi-core or clark-agent, a capture of ACP messages,
a saved session of phi-core or of the agent guide, a transcript or a folder of
transcripts of a coding agent, or lines of otelagent (dialects/README.md). The
command recognises the dialect from the beginning of the input and logs it;
--from names it instead. Spans and log records in a file, as OTLP or Jaeger
JSON, are sent as they are.

A pipe is sent as it comes, and the agent never waits for the network: spans
that wait too long for a collector are dropped and counted. Files are read as
fast as the receiver takes them. Sending the same input again, or more
of it, changes nothing that is there: ids follow from the input.

An event without a time happened when it arrived; in a file, when that was last
written. Sending such a file again when it has grown gives another run.

It sends no content without --capture content; --capture digests sends sizes and
hashes (docs/requests.md). The standard OTEL_* environment variables are
honored. With --live the session can be watched as it runs (docs/live.md). A
pipe also sends metrics to a collector that takes them (docs/metrics.md).
service.name is the agent, else the dialect, unless OTEL_SERVICE_NAME is set.

Exit codes: 0 everything was read and delivered, 1 not delivered or not read,
2 wrong usage, 3 files or lines were rejected and the rest was delivered.`,
		Example: `  my-agent | otelagent send -
  otelagent send --capture content events.ndjson
  otelagent send -F --session nightly --agent coder run.ndjson
  zcat events.ndjson.gz | otelagent send --replay -
  otelagent send --endpoint https://otlp.example.com --protocol http/protobuf a.ndjson
  otelagent send --db ./sessions.db --capture content events.ndjson
  my-agent | otelagent send --live --capture content -`,
		Args:        cobra.ArbitraryArgs,
		Annotations: refuses("output"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Files = args
			cmd.Flags().Visit(func(f *pflag.Flag) { o.given = append(o.given, f.Name) })
			if err := o.check(a); err != nil {
				return err
			}
			return a.send(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.From, "from", auto, "`DIALECT` of the input: "+auto+", "+strings.Join(dialects.Names(), ", "))
	f.BoolVarP(&o.Follow, "follow", "F", false, "wait for more at the end of a file, until Ctrl-C")
	f.BoolVar(&o.Now, "now", false, "move the times of files so that the last one is now, for tracing backends that drop "+
		"old spans; each time as a new recording")
	f.BoolVar(&o.Replay, "replay", false, "standard input is a recording, not an agent at work: nothing is dropped")
	o.addFlags(f)
	return c
}

// target is where spans go: the options of otelsetup for it, its name, and what is to be done at the end.
type target struct {
	name  string
	http  bool        // the protocol, where it is a collector
	store store.Store // nil: a collector
	file  bool        // of this machine: it is waited for, it is no network
	opts  []otelsetup.Option
	end   func(context.Context) error
}

// otlpEnv returns the value of a standard variable: the one of traces, else the general one.
func otlpEnv(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

func (o *sendOptions) target(ctx context.Context) (*target, error) {
	if o.DB == "" {
		t := &target{end: func(context.Context) error { return nil }}
		if r := o.into; r != nil {
			t.name, t.file = r.name, true
			t.opts = append(t.opts, otelsetup.WithExporter(otelsetup.NewFuncExporter(r.put)),
				otelsetup.WithSampler(sdktrace.AlwaysSample()))
			return t, nil
		}
		env := "OTEL_EXPORTER_OTLP_TRACES_"
		if os.Getenv(env+"ENDPOINT") == "" {
			env = "OTEL_EXPORTER_OTLP_"
		}
		t.http = cmp.Or(o.Protocol, otlpEnv("PROTOCOL")) == string(otelsetup.HTTP)
		if t.name = os.Getenv(env + "ENDPOINT"); o.Endpoint != "" || t.name == "" {
			t.name = cmp.Or(o.Endpoint, "http://127.0.0.1:4317")
			if o.Endpoint == "" && t.http {
				t.name = "http://127.0.0.1:4318"
			}
			t.opts = append(t.opts, otelsetup.WithEndpoint(t.name))
		} else if !strings.HasPrefix(t.name, "http://") && !strings.HasPrefix(t.name, "https://") {
			return nil, usagef("%sENDPOINT=%s: want http://HOST:PORT or https://HOST:PORT", env, t.name)
		}
		t.opts = append(t.opts, otelsetup.WithProtocol(otelsetup.Protocol(o.Protocol)))
		return t, nil
	}
	at, err := locate("--db", o.DB)
	if err != nil {
		return nil, err
	}
	st, err := at.open(ctx, false, dsn.WithChatTables())
	if err != nil {
		return nil, err
	}
	put := func(ctx context.Context, otlp []byte) error {
		batch, report, err := otlprow.DecodeProto(otlp)
		if err != nil {
			return err
		}
		if report.Stored != report.Spans {
			return fmt.Errorf("%d of %d spans cannot be stored: %v", report.Spans-report.Stored, report.Spans, report.Rejected)
		}
		return st.Put(ctx, batch)
	}
	return &target{
		name:  at.name,
		store: st,
		file:  at.file,
		opts:  []otelsetup.Option{otelsetup.WithExporter(otelsetup.NewFuncExporter(put))},
		end: func(ctx context.Context) error {
			return cmp.Or(project.RefreshSmall(ctx, st, cmp.Or(o.largest, math.MaxInt64)), st.Close())
		},
	}, nil
}

// sent says what became of an input.
type sent struct {
	Events, Spans, Rejected int64
	Lost                    int64 // events that belong to no run
	Sessions                map[string]bool
	Target, Dialect         string
	FirstRejected           string // when all were
	Unread                  bool   // files were left out
}

func (a *app) send(ctx context.Context, o sendOptions) error {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	if done, err := a.sendOTLP(ctx, &o); done {
		return err
	}
	s, err := a.deliver(ctx, o)
	if s == nil {
		return err
	}
	went := fmt.Sprintf("%s of %s", count(int(s.Spans), "span"), count(len(s.Sessions), "session"))
	switch {
	case err != nil:
		return fmt.Errorf("not delivered: %w\n%s read; %s reached %s", plainly(err, s.Target), count(int(s.Events), "event"),
			went, s.Target)
	case s.Events == 0 && s.Rejected > 0:
		return fmt.Errorf("nothing was sent: nothing in the input could be read as %s\n%s", s.Dialect, s.FirstRejected)
	case s.Events == 0:
		a.say("nothing was sent: the input is empty")
		return nil
	case s.Spans == 0 && s.Lost >= s.Events:
		return fmt.Errorf("nothing was sent: none of the %s belongs to a run; is this %s, from its beginning?",
			count(int(s.Events), "event"), s.Dialect)
	}
	rejected := ""
	if s.Rejected > 0 {
		rejected = fmt.Sprintf("; %s rejected", count(int(s.Rejected), "line"))
	}
	a.say("sent %s as %s to %s%s", count(int(s.Events), "event"), went, s.Target, rejected)
	if s.Rejected > 0 || s.Unread {
		return &exitError{Code: exitPartial}
	}
	return nil
}

// plainly says in plain words why nothing is delivered most often. Of these errors the text alone is kept by gRPC.
func plainly(err error, target string) error {
	text := err.Error()
	has := func(signs ...string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || has("connection refused"):
		return fmt.Errorf("nobody listens on %s; 'otelagent up' does, and --db FILE needs nobody", target)
	case has("produced zero addresses", "no such host"):
		return fmt.Errorf("the host of %s is not known", target)
	case has("first record does not look like a TLS handshake", "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s speaks no TLS: want http:// in place of https://", target)
	case has("looked like an HTTP/1.1 header"):
		return fmt.Errorf("%s does not speak gRPC: give --protocol http/protobuf, or the port for gRPC, mostly 4317", target)
	case has("malformed HTTP response", "use of closed network connection"):
		return fmt.Errorf("%s does not speak HTTP: give --protocol grpc, or the port for HTTP, mostly 4318", target)
	}
	return err
}

// noticeTime is how long a receiver may take before the command reports what it waits for.
const noticeTime = 2 * time.Second

// notice reports meanwhile, once, what would otherwise be known at the end only: that nobody answers, and that what a
// live agent sends gets lost. Where files are read it gives up what is queued, since nobody waits for the rest. It ends
// with ctx.
func (p *pump) notice(ctx context.Context, d *delivery) {
	tick := time.NewTicker(noticeTime / 4)
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, waiting := d.providers.Stats(), !p.in.live || p.read.Load() // for the receiver, with nothing else to do
		switch {
		case s.Failed > 0 && !waiting:
			p.app.say("spans are being lost: %v", plainly(s.LastError, d.target.name))
			return
		case s.Failed > 0 && !p.read.Load():
			d.gaveUp.Store(&s.LastError)
			over, cancel := context.WithCancel(ctx)
			cancel()
			_ = d.providers.Shutdown(over)
			return
		case waiting && s.Failed == 0 && s.Exported == 0 && s.Ended > 0:
			if silent++; silent == 4 {
				p.app.say("waiting for %s to answer; Ctrl-C twice gives up", d.target.name)
			}
		}
	}
}

// delivery is a recorder of events, and the exporters behind it.
type delivery struct {
	target    *target
	providers *otelsetup.Providers
	rec       *event.Recorder
	// recorder makes another recorder for the same target.
	recorder func() *event.Recorder
	// wantMetrics says that metrics were asked for: that they do not arrive is an error.
	wantMetrics bool
	// gaveUp is why what was queued is not sent.
	gaveUp atomic.Pointer[error]
}

// failure returns why spans did not arrive; nil when none failed.
func (d *delivery) failure() error {
	if err := d.gaveUp.Load(); err != nil {
		return *err
	}
	return d.providers.Stats().LastError
}

// delivery sets up a recorder and its exporters. Live says that an agent at work must not wait.
func (o *sendOptions) delivery(ctx context.Context, service string, live bool) (*delivery, error) {
	t, err := o.target(ctx)
	if err != nil {
		return nil, err
	}
	opts := append(t.opts, otelsetup.WithTenant(o.Tenant), otelsetup.WithoutGlobal())
	var recorder []event.Option
	if o.into != nil {
		recorder = append(recorder, event.WithIDs(o.into.ids))
	}
	if o.Metrics == metricsOn {
		recorder = append(recorder, event.WithReplayMetrics())
	} else if o.Metrics == metricsOff || !live || o.DB != "" {
		opts = append(opts, otelsetup.WithoutMetrics())
	}
	if o.Live {
		opts = append(opts, otelsetup.WithLive(cmp.Or(o.Heartbeat, otelsetup.DefaultHeartbeat)))
	}
	if o.into != nil || os.Getenv("OTEL_SERVICE_NAME") == "" &&
		!strings.Contains(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), "service.name=") {
		opts = append(opts, otelsetup.WithServiceName(service))
	}
	if live && !t.file {
		opts = append(opts, otelsetup.WithMaxQueue(pipeQueue, 0))
	} else {
		opts = append(opts, otelsetup.WithBlocking(), otelsetup.WithMaxQueue(0, fileQueue))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // reported once, at the end
	otel.SetLogger(logr.Discard())                              // the command reports errors itself
	p, err := otelsetup.Setup(ctx, opts...)
	if err != nil {
		_ = t.end(ctx)
		return nil, usagef("%w", err)
	}
	tr := otelagent.NewTracer(append(o.tracerOptions(), otelagent.WithLive(p.Live()),
		otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithMeterProvider(p.MeterProvider()))...)
	another := func() *event.Recorder { return event.NewRecorder(tr, recorder...) }
	return &delivery{target: t, providers: p, rec: another(), recorder: another, wantMetrics: o.Metrics == metricsOn}, nil
}

// end delivers the rest, and returns why spans, or metrics that were asked for, did not arrive.
func (d *delivery) end(ctx context.Context) error {
	d.rec.Close(ctx)
	shutErr := d.providers.Shutdown(ctx)
	endErr := d.target.end(ctx)
	stats := d.providers.Stats()
	var lost, metrics error
	if n := stats.Lost(); n > 0 && stats.LastError == nil && shutErr == nil {
		lost = fmt.Errorf("%s lost: %s does not take them as fast as they come; for a recording give --replay",
			count(int(n), "span"), d.target.name)
	}
	switch {
	case !d.wantMetrics:
	case !d.providers.HasMetrics():
		metrics = errors.New("metrics on: there are none; the environment switches them off (OTEL_METRICS_EXPORTER, " +
			"OTEL_SDK_DISABLED), names no protocol that is known, or the endpoint of spans and not that of metrics " +
			"(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT)")
	default:
		metrics = d.providers.MetricsError()
	}
	return cmp.Or(d.failure(), lost, shutErr, endErr, metrics)
}

// deliver reads, sends and waits until everything arrived. Its result is nil when it sent nothing. Its error says that
// something was not read or not delivered; rejected lines are none.
func (a *app) deliver(ctx context.Context, o sendOptions) (*sent, error) {
	sending, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	quit := make(chan struct{})
	p := &pump{app: a, o: &o, quit: quit, families: map[string]*family{}}
	result := make(chan error, 1)
	go func() { result <- p.deliver(sending) }()
	var readErr error
	select {
	case readErr = <-result:
	case <-ctx.Done():
		a.say("stopping; Ctrl-C again gives up the rest")
		close(quit)
		select {
		case readErr = <-result:
		case <-time.After(graceTime): // the reader blocks; its Recorder is closed under it
			readErr = errors.New("interrupted before the end of the input")
		}
	}
	d := p.to.Load()
	if d == nil {
		return nil, readErr
	}
	p.read.Store(true)

	// The rest is delivered also after Ctrl-C; a second one ends the process.
	if ctx.Err() == nil {
		defer context.AfterFunc(ctx, func() { a.say("stopping; Ctrl-C again gives up the rest") })()
	}
	flush, cancel := context.WithTimeout(sending, flushTime)
	defer cancel()
	endErr := d.end(flush)
	s := p.sum(d)
	if s.Lost > 0 && (s.Spans > 0 || s.Lost < s.Events) {
		a.say("%s belong to no run that was open; they are left out", count(int(s.Lost), "event"))
	}
	if n := s.Rejected - maxRejected; n > 0 && s.Events > 0 {
		a.say("and %s", count(int(n), "more rejected line"))
	}
	if d.providers.Stats().Ended == 0 && len(s.Sessions) > 0 && readErr == nil {
		readErr = errors.New("nothing was to be sent: the environment switches it off (OTEL_SDK_DISABLED, " +
			"OTEL_TRACES_EXPORTER or OTEL_TRACES_SAMPLER), or the traceparents of all runs are not sampled")
	}
	return s, cmp.Or(readErr, endErr)
}
