package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v7"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
)

// openFunc opens the store of a configuration.
type openFunc func(context.Context, *Config) (store.Store, error)

func openDSN(ctx context.Context, cfg *Config) (store.Store, error) {
	var opts []dsn.Option
	if cfg.ChatTables {
		opts = append(opts, dsn.WithChatTables())
	}
	if cfg.Password != "" {
		opts = append(opts, dsn.WithPassword(string(cfg.Password)))
	}
	return dsn.Open(ctx, cfg.Storage, opts...)
}

// timing is what tests shorten.
type timing struct {
	// openTimeout bounds one attempt to open the store; openRetry and openRetryMax are the first and the longest wait
	// between two.
	openTimeout, openRetry, openRetryMax time.Duration
	// measure is the time between two looks at the store's size and its unprojected sessions.
	measure time.Duration
}

var defaultTiming = timing{
	openTimeout: 10 * time.Second, openRetry: time.Second, openRetryMax: 30 * time.Second,
	measure: 30 * time.Second,
}

// stores are the exporters of one factory. The Collector makes an exporter for each signal of a configured one and
// gives all of them the same *Config; they share one sessionExporter.
type stores struct {
	open   openFunc
	timing timing

	mu  sync.Mutex // held while a store starts or closes
	all map[*Config]*sessionExporter
}

func newStores(open openFunc) *stores {
	return &stores{open: open, timing: defaultTiming, all: map[*Config]*sessionExporter{}}
}

// get returns the exporter of cfg.
func (s *stores) get(cfg *Config, set exporter.Settings) (*sessionExporter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.all[cfg]; e != nil {
		return e, nil
	}
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("agent_session: create metrics: %w", err)
	}
	e := &sessionExporter{cfg: cfg, stores: s, logger: set.Logger, telemetry: tb, decoding: cfg.decoding(),
		id: attribute.String("exporter", set.ID.String())}
	e.seenDirty.Store(-1)
	if err := e.observe(); err != nil {
		tb.Shutdown()
		return nil, fmt.Errorf("agent_session: create metrics: %w", err)
	}
	s.all[cfg] = e
	return e, nil
}

// sessionExporter is the exporter of all signals of one configuration, with the store, whether it is open or not, and
// its background work. The store is there from the first start to the last shutdown: the signal that stops last may
// still have a queue to write. push is called from many goroutines at once, but never before start returned. One that
// is late for shutdown fails as a closed store does.
type sessionExporter struct {
	cfg       *Config
	stores    *stores
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	id        attribute.KeyValue
	decoding  []otlprow.Option
	redact    *redactor // nil: off
	scopesMu  sync.Mutex
	scopes    map[string]bool // that were logged
	users     int             // signals that started and did not shut down; under stores.mu

	opened              atomic.Pointer[openStore] // nil until it is
	seenSize, seenDirty atomic.Int64              // measured last; 0 and -1: not yet

	mu      sync.Mutex
	hosts   []component.Host
	failing error // of the last opening or write; nil when that was good
	closed  bool

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// openStore is a store that is open.
type openStore struct {
	store.Store
	sizes   *sizes
	worker  *project.Worker
	sweeper *retention.Sweeper // nil: everything is kept
}

// errAway is wrapped by errors of writes while the store was never open.
var errAway = errors.New("the store is away; it is opened in the background")

// start opens the store with the first signal that starts. A permanent error stops the collector here, not at the first
// batch; a store that is away is opened later.
func (e *sessionExporter) start(ctx context.Context, host component.Host) error {
	e.stores.mu.Lock()
	defer e.stores.mu.Unlock()
	if e.users == 0 {
		if err := e.begin(ctx); err != nil {
			return fmt.Errorf("agent_session: %w", err)
		}
	}
	e.users++
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hosts = append(e.hosts, host)
	if e.failing != nil {
		report(host, e.failing)
	}
	return nil
}

func (e *sessionExporter) begin(ctx context.Context) (err error) {
	if e.redact, err = newRedactor(&e.cfg.Redaction); err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.Background())
	err = e.tryOpen(ctx, run)
	if errors.Is(err, store.ErrUnusable) {
		cancel()
		return fmt.Errorf("storage: %w", err)
	}
	if err != nil {
		e.logger.Warn("the store is away; senders get a retryable error, and it is opened in the background", zap.Error(err))
		e.health(err)
		e.running.Go(func() { e.openLater(run) })
	}
	e.cancel = cancel
	for _, w := range e.cfg.warnings() {
		e.logger.Warn(w)
	}
	return nil
}

// tryOpen opens the store once and starts what belongs to it, which runs until run ends.
func (e *sessionExporter) tryOpen(ctx, run context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.stores.timing.openTimeout)
	defer cancel()
	st, err := e.stores.open(ctx, e.cfg)
	if err != nil {
		return err
	}
	o := &openStore{Store: st, sizes: newSizes(st, e.cfg),
		worker: project.NewWorker(st, func(err error) {
			e.telemetry.ExporterAgentSessionProjectionFailures.Add(run, 1, metric.WithAttributes(e.id))
			e.logger.Warn("a session's summary could not be brought up to date; it is tried again", zap.Error(err))
		})}
	o.sweeper = e.retain(run, o)
	e.opened.Store(o)
	e.running.Go(func() { e.measure(run, o) })
	return nil
}

// openLater opens the store as soon as that is possible. It logs once when the store has become unusable, which an
// operator can mend without a restart.
func (e *sessionExporter) openLater(run context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = e.stores.timing.openRetry, e.stores.timing.openRetryMax
	wait.Reset()
	logged := false
	for {
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-run.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := e.tryOpen(run, run)
		if err == nil {
			e.logger.Info("the store is open now")
			e.health(nil)
			return
		}
		e.health(err)
		if errors.Is(err, store.ErrUnusable) && !logged {
			logged = true
			e.logger.Error("the store cannot be used as it is; it is tried again all the same", zap.Error(err))
		}
	}
}

// use returns the open store.
func (e *sessionExporter) use() (*openStore, error) {
	if o := e.opened.Load(); o != nil {
		return o, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	return nil, fmt.Errorf("%w: %w", errAway, e.failing)
}

// health reports to the Collector, whose health check may ask for it, when the store begins to fail and when it is well
// again.
func (e *sessionExporter) health(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	changed := (err == nil) != (e.failing == nil)
	e.failing = err
	for _, h := range e.hosts {
		if changed {
			report(h, err)
		}
	}
}

func report(h component.Host, err error) {
	event := componentstatus.NewEvent(componentstatus.StatusOK)
	if err != nil {
		event = componentstatus.NewEvent(componentstatus.StatusRecoverableError, componentstatus.WithError(err))
	}
	componentstatus.ReportStatus(h, event)
}

// well reports whether the store is open and took what was last written.
func (e *sessionExporter) well() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened.Load() != nil && e.failing == nil
}

// shutdown ends what runs when the last signal stops, lets the projections catch up as far as ctx allows, and closes
// the store. It is safe without start.
func (e *sessionExporter) shutdown(ctx context.Context) error {
	e.stores.mu.Lock()
	defer e.stores.mu.Unlock()
	if e.users--; e.users != 0 {
		e.users = max(e.users, 0)
		return nil
	}
	delete(e.stores.all, e.cfg)
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
	defer e.telemetry.Shutdown()
	o := e.opened.Load()
	if o == nil {
		return nil
	}
	failed := func(what string, err error) error {
		if err != nil {
			err = fmt.Errorf("agent_session: %s: %w", what, err)
		}
		return err
	}
	var swept error
	if o.sweeper != nil {
		swept = failed("stop retention", o.sweeper.Close(ctx))
	}
	return errors.Join(swept, failed("finish projections", o.worker.Close(ctx)), failed("close storage", o.Close()))
}
