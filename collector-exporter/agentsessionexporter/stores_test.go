package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
)

// A run of the generated test by an older version may have left its database, which this one does not open.
func init() {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove("testdata/lifecycle.db" + suffix) // mostly it is not there
	}
}

var ignore = []metricdatatest.Option{metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars()}

// point is one point of a metric of the exporter under test.
func point(n int64, more ...attribute.KeyValue) []metricdata.DataPoint[int64] {
	return []metricdata.DataPoint[int64]{{Attributes: attribute.NewSet(append(more,
		attribute.String("exporter", "agent_session/test"))...), Value: n}}
}

// statusHost is a host that keeps what components report.
type statusHost struct {
	component.Host
	mu     sync.Mutex
	events []string
}

func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := e.Status().String()
	if e.Err() != nil {
		text += ": " + e.Err().Error()
	}
	h.events = append(h.events, text)
}

func (h *statusHost) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.events...)
}

// door is a store that can be away before it was ever open, and afterwards.
type door struct {
	mu    sync.Mutex
	away  error
	tries int
}

func (d *door) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = err
}

func (d *door) state() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries, d.away
}

func (d *door) open(ctx context.Context, cfg *Config) (store.Store, error) {
	d.mu.Lock()
	d.tries++
	err := d.away
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s, err := openDSN(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &hookStore{Store: s, rows: map[string]int{}, before: func(session.Batch) error {
		_, err := d.state()
		return err
	}}, nil
}

// A store that is away when the collector starts, comes, goes and comes back, without a restart and without a loss.
func TestStoreComesAndGoes(t *testing.T) {
	refused := errors.New("connection refused")
	d := &door{away: refused}
	all := newStores(d.open)
	all.timing = quickTiming
	f := newFactory(all)
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = filepath.Join(t.TempDir(), "s.db")
	cfg.RetryConfig.InitialInterval = time.Millisecond
	cfg.RetryConfig.MaxInterval = 10 * time.Millisecond
	cfg.TimeoutConfig.Timeout = time.Minute
	core, logs := observer.New(zapcore.InfoLevel)
	tel := componenttest.NewTelemetry()
	set := exportertest.NewNopSettings(metadata.Type)
	set.ID = component.MustNewIDWithName("agent_session", "test")
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	host, logHost := &statusHost{Host: componenttest.NewNopHost()}, &statusHost{Host: componenttest.NewNopHost()}
	exp, err := f.CreateTraces(t.Context(), set, cfg)
	require.NoError(t, err)
	logsExp, err := f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)

	require.NoError(t, exp.Start(t.Context(), host), "a store that is away stops no collector")
	require.NoError(t, logsExp.Start(t.Context(), logHost))
	metadatatest.AssertEqualExporterAgentSessionStoreOpen(t, tel, point(0), ignore...)

	// Data that nobody needs a store for are no reason to fail.
	foreign := traces()
	appendForeign(foreign)
	require.NoError(t, exp.ConsumeTraces(t.Context(), foreign))

	// Without retries, for which a context that has ended has no time, the sender gets a retryable failure.
	ended, cancel := context.WithTimeout(t.Context(), 0)
	err = exp.ConsumeTraces(ended, traces("early"))
	cancel()
	require.ErrorIs(t, err, errAway)
	require.ErrorIs(t, err, refused)
	require.False(t, consumererror.IsPermanent(err))

	// With them it waits, and gets a success once the store came.
	done := make(chan error, 1)
	go func() { done <- exp.ConsumeTraces(context.Background(), traces("waits")) }()
	require.Eventually(t, func() bool { n, _ := d.state(); return n > 3 }, 10*time.Second, time.Millisecond,
		"it is tried again")
	d.set(nil)
	require.NoError(t, <-done)
	require.NoError(t, logsExp.ConsumeLogs(t.Context(), records("waits")))
	metadatatest.AssertEqualExporterAgentSessionStoreOpen(t, tel, point(1), ignore...)
	opened, _ := d.state()

	// It goes: the same way.
	full := errors.New("disk full")
	d.set(full)
	go func() { done <- exp.ConsumeTraces(context.Background(), traces("goes")) }()
	require.Eventually(t, func() bool { return len(host.seen()) == 3 }, 10*time.Second, time.Millisecond)
	metadatatest.AssertEqualExporterAgentSessionStoreOpen(t, tel, point(0), ignore...)
	d.set(nil)
	require.NoError(t, <-done)
	metadatatest.AssertEqualExporterAgentSessionStoreOpen(t, tel, point(1), ignore...)
	failures, err := tel.GetMetric("otelcol_exporter_agent_session_write_failures")
	require.NoError(t, err)
	seen := map[string]int64{}
	for _, p := range failures.Data.(metricdata.Sum[int64]).DataPoints {
		why, _ := p.Attributes.Value("reason")
		seen[why.AsString()] += p.Value
	}
	require.Len(t, seen, 2, "%v", seen)
	require.Greater(t, seen["away"], int64(1), "each attempt counts")
	require.Positive(t, seen["store"])
	n, _ := d.state()
	require.Equal(t, opened, n, "it is opened once")

	require.Equal(t, 1, logs.FilterMessageSnippet("the store is away").Len(), "logged once")
	require.Equal(t, 1, logs.FilterMessageSnippet("the store is open now").Len(), "logged once")
	want := []string{"StatusRecoverableError: connection refused", "StatusOK", "StatusRecoverableError: disk full",
		"StatusOK"}
	require.Equal(t, want, host.seen())
	require.Equal(t, want, logHost.seen(), "both pipelines are ill when the store is")

	metadatatest.AssertEqualExporterAgentSessionSpansStored(t, tel, point(2), ignore...)
	metadatatest.AssertEqualExporterAgentSessionSessionsTouched(t, tel, point(3), ignore...)
	require.NoError(t, exp.Shutdown(t.Context()))
	require.NoError(t, logsExp.Shutdown(t.Context()))
	require.NoError(t, tel.Shutdown(t.Context()))
}

// A collector whose store never came stops at once, and refuses what it then gets with that reason.
func TestStopWhileAway(t *testing.T) {
	d := &door{away: errors.New("no route to host")}
	all := newStores(d.open)
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = "s.db"
	e, err := all.get(cfg, exportertest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.ErrorIs(t, e.pushTraces(t.Context(), traces("a")), errAway)
	begin := time.Now()
	require.NoError(t, e.shutdown(t.Context()))
	require.Less(t, time.Since(begin), 5*time.Second)
	require.ErrorIs(t, e.pushTraces(t.Context(), traces("a")), store.ErrClosed)
	require.Empty(t, all.all)
}

// A store that came and cannot be used after all is logged once, and taken when somebody has mended it.
func TestUnusableLater(t *testing.T) {
	d := &door{away: errors.New("connection refused")}
	all := newStores(d.open)
	all.timing = quickTiming
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = filepath.Join(t.TempDir(), "s.db")
	core, logs := observer.New(zapcore.InfoLevel)
	set := exportertest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	e, err := all.get(cfg, set)
	require.NoError(t, err)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	d.set(fmt.Errorf("schema 99: %w", store.ErrUnusable))
	before, _ := d.state()
	require.Eventually(t, func() bool { n, _ := d.state(); return n > before+3 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, logs.FilterMessageSnippet("cannot be used as it is").Len())
	d.set(nil)
	require.Eventually(t, func() bool { return e.pushTraces(t.Context(), traces("a")) == nil }, 10*time.Second,
		time.Millisecond)
	require.NoError(t, e.shutdown(t.Context()))
}

// A permanent error stops the collector, and names its cause.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"a folder": {func(c *Config) { c.Storage = dir }, []string{"agent_session: storage: ", dir}},
		"not our file": {func(c *Config) { c.Storage = file("letter.txt", strings.Repeat("Dear Sir, ", 1000)) },
			[]string{"agent_session: storage: ", "letter.txt"}},
		"another scheme": {func(c *Config) { c.Storage = "postgres://me:hunter2@host/db" },
			[]string{"agent_session: storage: ", "postgres", "sqlite:PATH"}},
		"no rules": {func(c *Config) {
			c.Redaction = RedactionConfig{Enabled: true,
				Rules: filepath.Join(dir, "none.yaml")}
		}, []string{"agent_session: redaction::rules: ", "none.yaml"}},
		"rules that fail": {func(c *Config) {
			c.Redaction = RedactionConfig{Enabled: true, Rules: file("rules.yaml", "rules:\n- nam: x\n")}
		}, []string{"agent_session: redaction::rules: ", "rules.yaml:2:", `"nam"`}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.Storage = filepath.Join(dir, "s.db")
			tt.change(cfg)
			exp, err := NewFactory().CreateTraces(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
			require.NoError(t, err)
			err = exp.Start(t.Context(), componenttest.NewNopHost())
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "hunter2")
			require.NoError(t, exp.Shutdown(t.Context()))
		})
	}
}

func where(w string) attribute.KeyValue  { return attribute.String("where", w) }
func reason(r string) attribute.KeyValue { return attribute.String("reason", r) }
