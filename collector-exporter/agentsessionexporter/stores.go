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

// stores are the stores of one factory. The Collector makes an exporter for each signal of a configured one and gives
// all of them the same *Config; they share one store. It is there from the first start to the last shutdown: the
// exporter that stops last may still have a queue to write.
type stores struct {
	open   openFunc
	timing timing

	mu  sync.Mutex // held while a store starts or closes
	all map[*Config]*sharedStore
}

func newStores(open openFunc) *stores {
	return &stores{open: open, timing: defaultTiming, all: map[*Config]*sharedStore{}}
}

// acquire returns the store of cfg. It returns permanent errors only: a store that is away is opened later.
func (s *stores) acquire(ctx context.Context, cfg *Config, set exporter.Settings,
	host component.Host) (_ *sharedStore, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.all[cfg]
	if shared == nil {
		if shared, err = startStore(ctx, s.open, s.timing, cfg, set); err != nil {
			return nil, err
		}
		s.all[cfg] = shared
	}
	shared.addHost(host)
	shared.users++
	return shared, nil
}

// release closes the store when its last user lets go of it. Each acquire is released once.
func (s *stores) release(ctx context.Context, cfg *Config, shared *sharedStore) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	delete(s.all, cfg)
	return shared.close(ctx)
}

// sharedStore is the store of one configuration, whether it is open or not, with its background work.
type sharedStore struct {
	cfg       *Config
	open      openFunc
	timing    timing
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	id        attribute.KeyValue
	redact    *redactor // nil: off
	users     int       // started and not yet shut down; under stores.mu

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

func startStore(ctx context.Context, open openFunc, t timing, cfg *Config,
	set exporter.Settings) (*sharedStore, error) {
	red, err := newRedactor(&cfg.Redaction)
	if err != nil {
		return nil, err
	}
	s := &sharedStore{
		cfg: cfg, open: open, timing: t, logger: set.Logger, redact: red,
		id: attribute.String("exporter", set.ID.String()),
	}
	s.seenDirty.Store(-1)
	if s.telemetry, err = metadata.NewTelemetryBuilder(set.TelemetrySettings); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	if err := s.observe(); err != nil {
		s.telemetry.Shutdown()
		return nil, fmt.Errorf("create metrics: %w", err)
	}

	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	err = s.tryOpen(ctx, run)
	switch {
	case errors.Is(err, store.ErrUnusable):
		cancel()
		s.telemetry.Shutdown()
		return nil, fmt.Errorf("storage: %w", err)
	case err != nil:
		s.logger.Warn("the store is away; senders get a retryable error, and it is opened in the background", zap.Error(err))
		s.health(err)
		s.running.Go(func() { s.openLater(run) })
	}
	for _, w := range cfg.warnings() {
		s.logger.Warn(w)
	}
	return s, nil
}

// tryOpen opens the store once and starts what belongs to it, which runs until run ends.
func (s *sharedStore) tryOpen(ctx, run context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.openTimeout)
	defer cancel()
	st, err := s.open(ctx, s.cfg)
	if err != nil {
		return err
	}
	o := &openStore{Store: st, sizes: newSizes(st, s.cfg),
		worker: project.NewWorker(st, func(err error) {
			s.telemetry.ExporterAgentSessionProjectionFailures.Add(run, 1, metric.WithAttributes(s.id))
			s.logger.Warn("a session's summary could not be brought up to date; it is tried again", zap.Error(err))
		})}
	o.sweeper = s.retain(run, o)
	s.opened.Store(o)
	s.running.Go(func() { s.measure(run, o) })
	return nil
}

// openLater opens the store as soon as that is possible. It logs once when the store has become unusable, which an
// operator can mend without a restart.
func (s *sharedStore) openLater(run context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = s.timing.openRetry, s.timing.openRetryMax
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
		err := s.tryOpen(run, run)
		if err == nil {
			s.logger.Info("the store is open now")
			s.health(nil)
			return
		}
		s.health(err)
		if errors.Is(err, store.ErrUnusable) && !logged {
			logged = true
			s.logger.Error("the store cannot be used as it is; it is tried again all the same", zap.Error(err))
		}
	}
}

// use returns the open store.
func (s *sharedStore) use() (*openStore, error) {
	if o := s.opened.Load(); o != nil {
		return o, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	return nil, fmt.Errorf("%w: %w", errAway, s.failing)
}

func (s *sharedStore) addHost(h component.Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = append(s.hosts, h)
	if s.failing != nil {
		report(h, s.failing)
	}
}

// health reports to the Collector, whose health check may ask for it, when the store begins to fail and when it is well
// again.
func (s *sharedStore) health(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	changed := (err == nil) != (s.failing == nil)
	s.failing = err
	for _, h := range s.hosts {
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
func (s *sharedStore) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened.Load() != nil && s.failing == nil
}

// close ends what runs, lets the projections catch up as far as ctx allows, and closes the store.
func (s *sharedStore) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	defer s.telemetry.Shutdown()
	o := s.opened.Load()
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
