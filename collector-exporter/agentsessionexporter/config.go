package agentsessionexporter

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/store/sqlitestore"
)

// Config is the configuration of the agent_session exporter. README.md describes every key for
// users; the defaults are those of NewFactory's CreateDefaultConfig, and the zero Config is not
// valid. It must not be changed after the exporter was created from it.
type Config struct {
	// Storage says where sessions are kept: the path of a SQLite file, or "sqlite:PATH". It has
	// no default: where a collector runs decides where it may write. The file, mode 0600, and its
	// directory are made on start. Several collectors may write to one file.
	Storage string `mapstructure:"storage"`

	// TimeoutConfig bounds one attempt to write a batch ("timeout"). Default 5 s; 0 is no bound.
	TimeoutConfig exporterhelper.TimeoutConfig `mapstructure:",squash"`

	// RetryConfig says how often a write that failed because of the store is tried again. On by
	// default, with the Collector's usual intervals. Data that the store refuses is never retried.
	RetryConfig configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// QueueConfig is off by default: a Consume then returns after the commit, and what a
	// receiver acknowledged is in the store. A queue without its own storage extension gives
	// that promise up, and the exporter warns about it once at start.
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// prevent unkeyed literal initialization
	_ struct{}
}

var _ component.Config = (*Config)(nil)

// Validate reports every problem of the exporter's own keys at once; each error names the key,
// the value found and what is allowed. It touches no file. The Collector validates the nested
// sections with their own rules.
func (c *Config) Validate() error {
	var errs []error
	if c.Storage == "" {
		errs = append(errs, errors.New(`storage: got "": required; give the path of a SQLite file or sqlite:PATH`))
	} else if _, err := sqlitestore.ParseDSN(c.Storage); err != nil {
		// err names what was given and what is allowed, and leaves out what may be a password.
		errs = append(errs, fmt.Errorf("storage: %w", err))
	}
	return errors.Join(errs...)
}

// queueLosesData says whether the configuration acknowledges data before they are durable.
func (c *Config) queueLosesData() bool {
	q := c.QueueConfig.Get()
	return q != nil && q.StorageID == nil && !q.WaitForResult
}
