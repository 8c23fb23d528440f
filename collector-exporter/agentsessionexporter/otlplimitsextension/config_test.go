package otlplimitsextension

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/component/componenttest"
)

func TestConfig(t *testing.T) {
	c := NewFactory().CreateDefaultConfig()
	if err := componenttest.CheckConfigStruct(c); err != nil {
		t.Error(err)
	}
	if err := c.(*Config).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	const want = "max_request_mib is 0: at least 1\nmax_in_flight_mib is -1: at least max_request_mib, 0"
	err := (&Config{MaxInFlightMiB: -1}).Validate()
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}
