package otlplimitsextension

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

// Type is what a configuration calls the extension.
var Type = component.MustNewType("otlp_limits")

// Config is the configuration of the extension.
type Config struct {
	// MaxRequestMiB bounds the memory of one request, decoded, by the estimate of package otlpbounds. The default, 160,
	// admits 64 MiB of content and 30,000 spans of 30 attributes.
	MaxRequestMiB int64 `mapstructure:"max_request_mib"`
	// MaxInFlightMiB bounds the memory of all requests at the same time: their bytes, unpacked, and their decoded form.
	// The default is 256. It must hold one request with its bytes.
	MaxInFlightMiB int64 `mapstructure:"max_in_flight_mib"`
}

// Validate implements xconfmap.Validator. It names every wrong key.
func (c *Config) Validate() error {
	var errs []error
	if c.MaxRequestMiB < 1 {
		errs = append(errs, fmt.Errorf("max_request_mib is %d: at least 1", c.MaxRequestMiB))
	}
	if c.MaxInFlightMiB < c.MaxRequestMiB {
		errs = append(errs, fmt.Errorf("max_in_flight_mib is %d: at least max_request_mib, %d",
			c.MaxInFlightMiB, c.MaxRequestMiB))
	}
	return errors.Join(errs...)
}

// NewFactory returns the factory of the extension. The first call also bounds how many gRPC messages are decompressed
// at the same time in the process, so call it before a gRPC server or client works.
func NewFactory() extension.Factory {
	limitDecompression()
	return extension.NewFactory(Type,
		func() component.Config { return &Config{MaxRequestMiB: 160, MaxInFlightMiB: 256} },
		func(_ context.Context, _ extension.Settings, c component.Config) (extension.Extension, error) {
			return newLimits(c.(*Config)), nil
		},
		component.StabilityLevelBeta)
}
