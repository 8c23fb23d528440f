package writer

import (
	"cmp"
	"reflect"
	"testing"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelagent/otelagent/spans"
)

func TestConfig(t *testing.T) {
	type d struct{ Delivery }
	p, m := noop.NewTracerProvider(), metricnoop.NewMeterProvider()
	defaults := func(c Config) Config {
		c.TracerProvider, c.MeterProvider = p, m
		c.Capture = cmp.Or(c.Capture, spans.CaptureNone)
		if c.Profile == "" {
			c.Profile = spans.DefaultProfile
		}
		if c.MaxBlockIDs == 0 {
			c.MaxBlockIDs = 1 << 18
		}
		if c.MaxSpanBytes == 0 {
			c.MaxSpanBytes = 1 << 20
		}
		return c
	}
	for _, tt := range []struct {
		name      string
		got, want Config
	}{
		{"none", Config{}, Config{PreviewBytes: 1200}},
		{"content", Config{Capture: spans.CaptureContent}, Config{Capture: spans.CaptureContent, PreviewBytes: 1200}},
		{"a level that is not known", Config{Capture: "all"}, Config{PreviewBytes: 1200}},
		{"memory", Config{MaxBlockIDs: 7}, Config{MaxBlockIDs: 7, PreviewBytes: 1200}},
		{"bounds", Config{MaxSpanBytes: 1, PreviewBytes: 1}, Config{PreviewBytes: 320}},
		{"a Live that is a nil pointer", Config{Live: (*struct{ Live })(nil)}, Config{PreviewBytes: 1200}},
		{"no previews", Config{PreviewBytes: -1, MaxSpanBytes: 1 << 21}, Config{MaxSpanBytes: 1 << 21}},
		{"profile", Config{Profile: spans.Profile202610}, Config{Profile: spans.Profile202610, PreviewBytes: 1200}},
		{"a profile that is not known", Config{Profile: "x"}, Config{PreviewBytes: 1200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.got.TracerProvider, tt.got.MeterProvider = p, m
			if tt.got.complete(); !reflect.DeepEqual(tt.got, defaults(tt.want)) {
				t.Errorf("%+v, want %+v", tt.got, defaults(tt.want))
			}
		})
	}
	var c Config
	if c.complete(); c.TracerProvider == nil || c.MeterProvider == nil {
		t.Error("no global providers")
	}
	c = Config{TracerProvider: struct {
		noop.TracerProvider
		d
	}{p, d{}}}
	if c.complete(); c.Delivery == nil {
		t.Error("a provider's own Delivery is not found")
	}
}

// lossy is a provider that reports losses to those that register.
type lossy struct {
	noop.TracerProvider
	registered *int
}

func (p lossy) OnLost(func(string)) { *p.registered++ }

// A Tracer that is made before the global provider is installed learns of its losses too.
func TestGlobalProviderInstalledLater(t *testing.T) {
	tracer := NewTracer(Config{})
	own := NewTracer(Config{TracerProvider: noop.NewTracerProvider()})
	p := lossy{noop.NewTracerProvider(), new(int)}
	otel.SetTracerProvider(p)
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	for range 2 {
		tracer.StartRun(t.Context(), RunInfo{})
		own.StartRun(t.Context(), RunInfo{})
	}
	if *p.registered != 1 {
		t.Errorf("registered %d times, want once", *p.registered)
	}
}
