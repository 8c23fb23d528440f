package otelagent

import (
	"reflect"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelagent/otelagent/spans"
)

func TestOptions(t *testing.T) {
	p, m := noop.NewTracerProvider(), metricnoop.NewMeterProvider()
	for _, tt := range []struct {
		name string
		opts []Option
		want config
	}{
		{"none", nil, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200}},
		{"nil options and values", []Option{nil, WithTracerProvider(nil)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200}},
		{"provider", []Option{WithTracerProvider(p)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, provider: p}},
		{"content", []Option{WithCapture(CaptureContent)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, capture: CaptureContent}},
		{"a level that is not known", []Option{WithCapture(99)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200}},
		{"ids and roots", []Option{WithDerivedIDs(), WithNewRoot(), WithSessionTrace()},
			config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, derivedIDs: true, newRoot: true, sessionTrace: true}},
		{"memory", []Option{WithMaxBlockIDs(7)}, config{maxBlockIDs: 7, maxSpan: 1 << 20, preview: 1200}},
		{"digests", []Option{WithCapture(CaptureDigests)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, capture: CaptureDigests}},
		{"bounds", []Option{WithMaxBlockBytes(-1), WithMaxTurnBytes(5), WithMaxSpanBytes(1), WithPreviewBytes(1)},
			config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 320, maxTurn: 5}},
		{"no previews", []Option{WithPreviewBytes(0), WithBlockScope(BlockScopeRun), WithMaxSpanBytes(1 << 21)},
			config{maxBlockIDs: 1 << 18, maxSpan: 1 << 21, scope: BlockScopeRun}},
		{"metrics", []Option{WithMeterProvider(m), WithProfile(spans.Profile202610), WithReplayMetrics(), WithMeterProvider(nil), WithProfile("x")},
			config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, meters: m, profile: spans.Profile202610, measuring: measureReplays}},
		{"no metrics", []Option{WithoutMetrics()}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200, measuring: measureNothing}},
		{"no memory", []Option{WithMaxBlockIDs(0)}, config{maxBlockIDs: 1 << 18, maxSpan: 1 << 20, preview: 1200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := NewTracer(tt.opts...).config
			if tt.want.provider == nil {
				got.provider = nil // the global one
			}
			if tt.want.meters == nil {
				got.meters = nil
			}
			if tt.want.profile == "" {
				tt.want.profile = spans.DefaultProfile
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("config %+v, want %+v", got, tt.want)
			}
		})
	}
}
