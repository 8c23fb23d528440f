package agentsessionexporter

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/redactfile"
)

// Config is the configuration of the agent_session exporter. README.md describes every key for users; the defaults are
// those of NewFactory's CreateDefaultConfig, and the zero Config is not valid. It must not be changed after the
// exporter was created from it.
type Config struct {
	// Storage is the DSN of the store: the path of a SQLite file, sqlite:PATH, or what else package backend/store/dsn
	// knows. It has no default: where a collector runs decides where it may write. Several collectors may write to one
	// store.
	Storage string `mapstructure:"storage"`

	// Password is for a store that wants one. It is shown nowhere. Default none.
	Password configopaque.String `mapstructure:"password"`

	// Tenant is whose all sessions are, whatever a resource says. Empty, the default: the resource attribute
	// otelagent.tenant says.
	Tenant string `mapstructure:"tenant"`

	// ChatTables makes a SQLite store keep the tables of the agent guide too. Validate refuses it for any other store.
	// Default false.
	ChatTables bool `mapstructure:"chat_tables"`

	// Retention says which sessions are deleted. Default none.
	Retention RetentionConfig `mapstructure:"retention"`

	// Limits bound what one sender can make the store keep.
	Limits LimitsConfig `mapstructure:"limits"`

	// Sources are rules for spans and log records of other programs, in front of the built-in ones and in their format
	// (docs/agents.md). Default none.
	Sources []any `mapstructure:"sources"`

	// Content is "keep", the default, or "drop": nothing that is content is kept of records of other programs.
	Content string `mapstructure:"content"`

	// Redaction takes out what the producer did not. Default off.
	Redaction RedactionConfig `mapstructure:"redaction"`

	// TimeoutConfig bounds one attempt to write a batch ("timeout"). Default 5 s; 0 is no bound.
	TimeoutConfig exporterhelper.TimeoutConfig `mapstructure:",squash"`

	// RetryConfig says how often a write that failed because of the store is tried again. On by default, with the
	// Collector's usual intervals. Data that the store refuses is never retried.
	RetryConfig configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// QueueConfig is off by default: a Consume then returns after the commit, and what a receiver acknowledged is in the
	// store. A queue without its own storage extension gives that promise up, and the exporter warns about it once at
	// start.
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// RetentionConfig is the section "retention". Its zero bounds keep everything.
type RetentionConfig struct {
	// MaxAge deletes sessions whose last span is older. At least a minute.
	MaxAge time.Duration `mapstructure:"max_age"`
	// MaxSessions keeps the newest of each tenant.
	MaxSessions int64 `mapstructure:"max_sessions"`
	// MaxSizeMiB deletes the oldest sessions of all tenants until the store is smaller.
	MaxSizeMiB int64 `mapstructure:"max_size_mib"`
	// Families keeps sub-agents as long as their parents, and the other way round. Default true.
	Families bool `mapstructure:"families"`
	// Interval is the time from one sweep to the next. At least a second. Default 10 minutes.
	Interval time.Duration `mapstructure:"interval"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Unmarshal implements confmap.Unmarshaler: durations may be given in days, such as 30d, which Go's do not know.
func (r *RetentionConfig) Unmarshal(conf *confmap.Conf) error {
	var errs []error
	for _, pair := range [][2]string{{"interval", "10m or 1d"}, {"max_age", "30d or 720h"}} {
		key, example := pair[0], pair[1]
		text, ok := conf.Get(key).(string)
		if _, err := time.ParseDuration(text); !ok || err == nil {
			continue
		}
		d, err := store.ParseAge(text)
		if err != nil {
			err = fmt.Errorf("%s: got %.64q: want a duration, such as %s", key, text, example)
		} else {
			err = conf.Merge(confmap.NewFromStringMap(map[string]any{key: d.String()}))
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return conf.Unmarshal(r)
}

// LimitsConfig is the section "limits".
type LimitsConfig struct {
	// AttributeBytes bounds the value of an attribute; it is cut. 256 to 1 MiB, the default.
	AttributeBytes int `mapstructure:"attribute_bytes"`
	// BlockBytes bounds a body; one above it is kept with its size alone. 1 KiB to 64 MiB, the default.
	BlockBytes int `mapstructure:"block_bytes"`
	// TurnBytes bounds the bodies of one turn in one batch; those beyond are kept with their size alone. 1 KiB to 256 MiB,
	// the default.
	TurnBytes int `mapstructure:"turn_bytes"`
	// SessionMiB bounds a session: what comes to one above it is rejected. Default 0, no bound.
	SessionMiB int64 `mapstructure:"session_mib"`
	// StoreMiB bounds the store: above it every write fails, to be tried again. Default 0, no bound.
	StoreMiB int64 `mapstructure:"store_mib"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// RedactionConfig is the section "redaction".
type RedactionConfig struct {
	// Enabled switches it on. Default false.
	Enabled bool `mapstructure:"enabled"`
	// Rules is the path of a file of rules as docs/redaction.md describes it; empty or "default" is the built-in set
	// alone.
	Rules string `mapstructure:"rules"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of Content.
const (
	contentKeep = "keep"
	contentDrop = "drop"
)

const (
	mebi = 1 << 20

	minAttributeBytes, maxAttributeBytes = 256, 1 << 20
	minBlockBytes, maxBlockBytes         = 1 << 10, 64 << 20
	maxTurnBytes                         = 256 << 20
	maxMiB                               = math.MaxInt64 / mebi
	maxTenant                            = 256

	minTimeout  = 10 * time.Millisecond
	minMaxAge   = time.Minute
	minInterval = time.Second
)

var _ component.Config = (*Config)(nil)

// Validate reports every problem of the exporter's own keys at once; each error names the key, the value found and what
// is allowed. It touches no file. The Collector validates the nested sections that are its own with their own rules.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(bad bool, key, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(key+": "+format, args...))
		}
	}
	between := func(key string, got, least, most int) {
		wrong(got < least || got > most, key, "got %d: want %d to %d", got, least, most)
	}
	bound := func(key string, got, most int64) {
		wrong(got < 0 || got > most, key, "got %d: want 0 (no bound) to %d", got, most)
	}

	// The error names the given value and the allowed ones, and omits what may be a password.
	if err := dsn.Check(c.Storage); err != nil {
		wrong(c.Storage != "", "storage", "%w", err)
		wrong(c.Storage == "", "storage", "required: %w", err)
	}
	_, file := dsn.File(c.Storage)
	wrong(c.ChatTables && !file && dsn.Check(c.Storage) == nil, "chat_tables",
		"got true: want false, or a SQLite file as storage: no other store has these tables")
	wrong(len(c.Tenant) > maxTenant || !utf8.ValidString(c.Tenant) || strings.ContainsFunc(c.Tenant, unicode.IsControl),
		"tenant", "got %.64q: want at most %d bytes of UTF-8 without control characters, or nothing for what the "+
			"resource attribute otelagent.tenant says", c.Tenant, maxTenant)

	r := &c.Retention
	wrong(r.MaxAge != 0 && r.MaxAge < minMaxAge, "retention::max_age", "got %s: want 0s (no bound) or at least %s",
		r.MaxAge, minMaxAge)
	bound("retention::max_sessions", r.MaxSessions, math.MaxInt64)
	bound("retention::max_size_mib", r.MaxSizeMiB, maxMiB)
	wrong(r.Interval < minInterval, "retention::interval", "got %s: want at least %s", r.Interval, minInterval)

	l := &c.Limits
	between("limits::attribute_bytes", l.AttributeBytes, minAttributeBytes, maxAttributeBytes)
	between("limits::block_bytes", l.BlockBytes, minBlockBytes, maxBlockBytes)
	between("limits::turn_bytes", l.TurnBytes, minBlockBytes, maxTurnBytes)
	bound("limits::session_mib", l.SessionMiB, maxMiB)
	bound("limits::store_mib", l.StoreMiB, maxMiB)
	wrong(l.StoreMiB > 0 && r.MaxSizeMiB >= l.StoreMiB, "retention::max_size_mib", "got %d: want less than "+
		"limits::store_mib (%d), or the store fills up before anything is deleted", r.MaxSizeMiB, l.StoreMiB)

	wrong(c.Content != contentKeep && c.Content != contentDrop, "content", "got %.64q: want %q or %q",
		c.Content, contentKeep, contentDrop)
	if _, err := foreign.Default().With(c.Sources); err != nil {
		errs = append(errs, err) // it names each key by its path
	}
	// A number without a unit is nanoseconds, in which nothing was ever written. Less than nothing the Collector refuses.
	t := c.TimeoutConfig.Timeout
	wrong(t > 0 && t < minTimeout, "timeout", "got %s: want 0s (no bound) or at least %s", t, minTimeout)
	wrong(strings.ContainsRune(c.Redaction.Rules, 0), "redaction::rules",
		"got %.64q: want the path of a file of rules, or %q", c.Redaction.Rules, redactfile.Default)
	return errors.Join(errs...)
}

// warnings says what is legal and loses data, stops, or lets secrets pass all the same.
func (c *Config) warnings() (w []string) {
	if c.Redaction.Rules != "" && !c.Redaction.Enabled {
		w = append(w, "redaction::rules without redaction::enabled: true: no rule is applied")
	}
	q := c.QueueConfig.Get()
	if q == nil {
		return w
	}
	if q.StorageID == nil && !q.WaitForResult {
		w = append(w, "sending_queue is kept in memory only: the process loses it when it dies, although the "+
			"sender got a success; set sending_queue::storage to a storage extension, or remove sending_queue")
	}
	if q.BlockOnOverflow {
		w = append(w, "sending_queue with block_on_overflow: true: when requests give up while they wait for room, the "+
			"queue can stop for ever, with all that it holds (github.com/open-telemetry/opentelemetry-collector/issues/15700); "+
			"remove it, so that senders get a retryable error from a full queue")
	}
	switch {
	case q.WaitForResult: // the sender gets the failure
	case !c.RetryConfig.Enabled:
		w = append(w, "sending_queue with retry_on_failure::enabled: false: a batch whose first write fails is dropped, "+
			"although the sender got a success; keep retry_on_failure on")
	case c.RetryConfig.MaxElapsedTime > 0:
		w = append(w, fmt.Sprintf("sending_queue with retry_on_failure::max_elapsed_time: %s: a batch is dropped when the "+
			"store is away for longer, although the sender got a success; set it to 0s, which never gives up",
			c.RetryConfig.MaxElapsedTime))
	}
	return w
}

// policy returns what retention keeps, and whether anything is to be deleted at all.
func (c *Config) policy() (retention.Policy, bool) {
	r := &c.Retention
	return retention.Policy{MaxAge: r.MaxAge, MaxSessions: r.MaxSessions, MaxBytes: r.MaxSizeMiB * mebi,
			Families: r.Families},
		r.MaxAge > 0 || r.MaxSessions > 0 || r.MaxSizeMiB > 0
}

// decoding returns how spans and log records are read.
func (c *Config) decoding() []otlprow.Option {
	opts := []otlprow.Option{otlprow.WithLimits(otlprow.Limits{
		Attribute: c.Limits.AttributeBytes, Block: c.Limits.BlockBytes, Turn: c.Limits.TurnBytes,
	})}
	if c.Tenant != "" {
		opts = append(opts, otlprow.WithTenant(c.Tenant))
	}
	if c.Content == contentDrop {
		opts = append(opts, otlprow.WithoutContent())
	}
	if table, err := foreign.Default().With(c.Sources); err == nil { // Validate reports errors
		opts = append(opts, otlprow.WithSources(table))
	}
	return opts
}
