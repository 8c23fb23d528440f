package agentsessionexporter

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, file, name string) (*Config, error) {
	t.Helper()
	cm, err := confmaptest.LoadConf(filepath.Join("testdata", file))
	require.NoError(t, err)
	sub, err := cm.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	return cfg, sub.Unmarshal(cfg)
}

func names(t *testing.T, file string) []string {
	t.Helper()
	cm, err := confmaptest.LoadConf(filepath.Join("testdata", file))
	require.NoError(t, err)
	var l []string
	for _, id := range slices.Sorted(maps.Keys(cm.ToStringMap())) {
		l = append(l, strings.TrimPrefix(strings.TrimPrefix(id, "agent_session"), "/"))
	}
	return l
}

// exported lets cmp look into the guards and optionals of the Collector's own sections.
var exported = cmp.Exporter(func(reflect.Type) bool { return true })

func TestConfig(t *testing.T) {
	with := func(change func(*Config)) *Config {
		cfg := &Config{
			Storage:       "sessions.db",
			Retention:     RetentionConfig{Families: true, Interval: 10 * time.Minute},
			Limits:        LimitsConfig{AttributeBytes: 1 << 20, BlockBytes: 64 << 20, TurnBytes: 256 << 20},
			Content:       "keep",
			TimeoutConfig: exporterhelper.TimeoutConfig{Timeout: 5 * time.Second},
			RetryConfig:   configretry.NewDefaultBackOffConfig(),
			QueueConfig:   configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
		}
		change(cfg)
		return cfg
	}
	queue := func(change func(*exporterhelper.QueueBatchConfig)) configoptional.Optional[exporterhelper.QueueBatchConfig] {
		q := exporterhelper.NewDefaultQueueConfig()
		change(&q)
		return configoptional.Some(q)
	}
	fileStorage := component.MustNewID("file_storage")
	tests := map[string]struct {
		want     *Config
		warnings []string // what each begins with
	}{
		"": {want: with(func(*Config) {})},
		"all": {want: &Config{
			Storage:    "sqlite:/var/lib/otelagent/sessions.db",
			Password:   "swordfish",
			Tenant:     "acme",
			ChatTables: true,
			Retention: RetentionConfig{
				MaxAge: 30 * 24 * time.Hour, MaxSessions: 100_000, MaxSizeMiB: 10_240, Families: false, Interval: time.Minute,
			},
			Limits: LimitsConfig{
				AttributeBytes: 64 << 10, BlockBytes: 1 << 20, TurnBytes: 4 << 20, SessionMiB: 256, StoreMiB: 20_480,
			},
			Sources: []any{map[string]any{"name": "acme", "title": "Acme Agent", "like": "genai",
				"scopes": []any{"acme.agent"}, "keys": map[string]any{"session": "acme.chat.id"}}},
			Content:       "drop",
			Redaction:     RedactionConfig{Enabled: true, Rules: "/etc/otelagent/redact.yaml"},
			TimeoutConfig: exporterhelper.TimeoutConfig{Timeout: 30 * time.Second},
			RetryConfig: configretry.BackOffConfig{
				Enabled: true, InitialInterval: time.Second, MaxInterval: 10 * time.Second, Multiplier: 2, RandomizationFactor: 0.1,
			},
			QueueConfig: queue(func(q *exporterhelper.QueueBatchConfig) {
				q.StorageID = &fileStorage
				q.Sizer = exporterhelper.RequestSizerTypeBytes
				q.QueueSize = 268435456
				q.NumConsumers = 2
				q.BlockOnOverflow = true
				batch := q.Batch.GetOrInsertDefault()
				batch.FlushTimeout = time.Second
				batch.Sizer = exporterhelper.RequestSizerTypeBytes
				batch.MinSize, batch.MaxSize = 1<<20, 4<<20
			}),
		}, warnings: []string{"sending_queue with block_on_overflow: true"}},
		"memory_queue": {
			want: with(func(c *Config) {
				c.QueueConfig = queue(
					func(q *exporterhelper.QueueBatchConfig) { q.QueueSize = 10 })
			}),
			warnings: []string{"sending_queue is kept in memory only",
				"sending_queue with retry_on_failure::max_elapsed_time: 5m0s"},
		},
		"memory_queue_no_retry": {
			want: with(func(c *Config) {
				c.QueueConfig = queue(func(q *exporterhelper.QueueBatchConfig) { q.QueueSize = 10 })
				c.RetryConfig.Enabled = false
			}),
			warnings: []string{"sending_queue is kept in memory only", "sending_queue with retry_on_failure::enabled: false"},
		},
		"queue_gives_up": {
			want: with(func(c *Config) {
				c.QueueConfig = queue(func(q *exporterhelper.QueueBatchConfig) { q.StorageID = &fileStorage })
			}),
			warnings: []string{"sending_queue with retry_on_failure::max_elapsed_time: 5m0s"},
		},
		"rules_off": {
			want:     with(func(c *Config) { c.Redaction.Rules = "default" }),
			warnings: []string{"redaction::rules without redaction::enabled: true"},
		},
		"queue_waits": {want: with(func(c *Config) {
			c.QueueConfig = queue(func(q *exporterhelper.QueueBatchConfig) { q.WaitForResult = true })
		})},
		"queue_off": {want: with(func(c *Config) {
			c.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
		})},
	}
	require.Equal(t, slices.Sorted(maps.Keys(tests)), names(t, "config.yaml"))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, "config.yaml", name)
			require.NoError(t, err)
			require.NoError(t, confmap.Validate(got))
			if diff := cmp.Diff(tt.want, got, exported); diff != "" {
				t.Error(diff)
			}
			warnings := got.warnings()
			require.Len(t, warnings, len(tt.warnings), "%q", warnings)
			for i, w := range tt.warnings {
				require.True(t, strings.HasPrefix(warnings[i], w), "%q", warnings[i])
			}
		})
	}
}

// keys returns the keys of a configuration, as errors spell them.
func keys(of reflect.Type, before string) (l []string) {
	for f := range of.Fields() {
		if !f.IsExported() {
			continue
		}
		key, opts, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		switch {
		case strings.Contains(opts, "squash"):
			l = append(l, keys(f.Type, before)...)
		case strings.HasPrefix(f.Type.String(), "configoptional.Optional["):
			get, _ := reflect.PointerTo(f.Type).MethodByName("Get")
			l = append(l, before+key)
			l = append(l, keys(get.Type.Out(0).Elem(), before+key+"::")...)
		case f.Type.Kind() == reflect.Struct && f.Type.NumField() > 1:
			l = append(l, keys(f.Type, before+key+"::")...)
		default:
			l = append(l, before+key)
		}
	}
	return l
}

// Every key is in the example that has all of them, and has a row in README.md.
func TestEveryKeyIsDocumented(t *testing.T) {
	cm, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	all, err := cm.Sub("agent_session/all")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	// Of the partitioner, which helps exporters that talk to many, there is nothing to say here.
	other := []string{"sending_queue::batch::partition::metadata_keys", "sending_queue::batch::partition"}
	found := keys(reflect.TypeFor[Config](), "")
	require.Greater(t, len(found), 30)
	for _, key := range found {
		if slices.ContainsFunc(other, func(o string) bool { return strings.HasPrefix(key, o) }) {
			continue
		}
		require.True(t, all.IsSet(key), "testdata/config.yaml: agent_session/all lacks %s", key)
		require.True(t, strings.Contains(string(readme), "| `"+key+"` |"), "README.md lacks a row of %s", key)
	}
}

// An error names each wrong key, its value and the allowed ones, all of them at once.
func TestConfigErrors(t *testing.T) {
	var b strings.Builder
	for _, name := range names(t, "invalid.yaml") {
		cfg, err := load(t, "invalid.yaml", name)
		if err == nil {
			err = confmap.Validate(cfg)
		}
		require.Error(t, err, name)
		fmt.Fprintf(&b, "-- %s --\n%s\n", name, err)
	}
	require.NotContains(t, b.String(), "hunter2")
	golden(t, "errors.golden", b.String())
}

// golden compares text with a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s, write it anew with -update:\n%s", path, diff)
	}
}

// A password is in no dump, log or error.
func TestPasswordIsOpaque(t *testing.T) {
	cfg, err := load(t, "config.yaml", "all")
	require.NoError(t, err)
	require.Equal(t, "swordfish", string(cfg.Password))
	dump := confmap.New()
	require.NoError(t, dump.Marshal(cfg))
	for _, text := range []string{fmt.Sprint(dump.ToStringMap()),
		fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.Password)} {
		require.NotContains(t, text, "swordfish")
		require.Contains(t, text, "[REDACTED]")
	}
}

// The promise "acknowledged is committed", and that nothing is deleted that nobody asked to, rest on these.
func TestDefaultsAreSafe(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, componenttest.CheckConfigStruct(cfg))
	require.False(t, cfg.QueueConfig.HasValue(), "sending_queue must be off unless the user writes it")
	require.True(t, cfg.RetryConfig.Enabled)
	require.Empty(t, cfg.Storage, "storage has no default")
	_, some := cfg.policy()
	require.False(t, some, "nothing is deleted unless the user says what")
	require.ErrorContains(t, confmap.Validate(cfg), "storage", "and nothing else is missing")
}
