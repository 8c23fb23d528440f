package agentsessionexporter

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
)

func load(t *testing.T, name string) (*Config, error) {
	t.Helper()
	cm, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := cm.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	return cfg, sub.Unmarshal(cfg)
}

func TestConfig(t *testing.T) {
	with := func(change func(*Config)) *Config {
		cfg := &Config{
			Storage:       "sessions.db",
			TimeoutConfig: exporterhelper.TimeoutConfig{Timeout: 5 * time.Second},
			RetryConfig:   configretry.NewDefaultBackOffConfig(),
			QueueConfig:   configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
		}
		change(cfg)
		return cfg
	}
	fileStorage := component.MustNewID("file_storage")
	tests := []struct {
		name string
		want *Config
	}{
		{name: "", want: with(func(*Config) {})},
		{name: "scheme", want: with(func(c *Config) { c.Storage = "sqlite:/var/lib/otelagent/sessions.db" })},
		{name: "all", want: with(func(c *Config) {
			c.TimeoutConfig.Timeout = 30 * time.Second
			c.RetryConfig.InitialInterval = time.Second
			c.RetryConfig.MaxInterval = 10 * time.Second
			c.RetryConfig.MaxElapsedTime = 0
			q := exporterhelper.NewDefaultQueueConfig()
			q.StorageID = &fileStorage
			q.Sizer = exporterhelper.RequestSizerTypeBytes
			q.QueueSize = 268435456
			q.NumConsumers = 2
			q.BlockOnOverflow = true
			c.QueueConfig = configoptional.Some(q)
		})},
		{name: "memory_queue", want: with(func(c *Config) {
			q := exporterhelper.NewDefaultQueueConfig()
			q.QueueSize = 10
			c.QueueConfig = configoptional.Some(q)
		})},
		{name: "queue_off", want: with(func(c *Config) {
			c.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := load(t, tt.name)
			require.NoError(t, err)
			require.NoError(t, confmap.Validate(got))
			require.Equal(t, tt.want, got)
		})
	}
}

// The promise "acknowledged is committed" rests on these.
func TestDefaultsKeepThePromise(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.False(t, cfg.QueueConfig.HasValue(), "sending_queue must be off unless the user writes it")
	require.True(t, cfg.RetryConfig.Enabled)
	require.Empty(t, cfg.Storage, "storage has no default")
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		name string
		want []string
	}{
		{name: "no_storage", want: []string{`storage: got ""`, "required", "sqlite:PATH"}},
		{name: "other_database", want: []string{"storage: ", "postgres", "sqlite:PATH"}},
		{name: "typo", want: []string{"storages"}},
		// all of them at once
		{name: "several", want: []string{"storage: got", "timeout", "sending_queue: `queue_size` must be positive"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := load(t, tt.name)
			if err == nil {
				err = confmap.Validate(cfg)
			}
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestQueueLosesData(t *testing.T) {
	for name, want := range map[string]bool{"": false, "all": false, "memory_queue": true, "queue_off": false} {
		cfg, err := load(t, name)
		require.NoError(t, err)
		require.Equal(t, want, cfg.queueLosesData(), "agent_session/%s", name)
	}
}
