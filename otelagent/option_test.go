package otelagent

import (
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

func TestOptions(t *testing.T) {
	p := noop.NewTracerProvider()
	for _, tt := range []struct {
		name string
		opts []Option
		want config
	}{
		{"none", nil, config{maxBlockIDs: 65536}},
		{"nil options and values", []Option{nil, WithTracerProvider(nil)}, config{maxBlockIDs: 65536}},
		{"provider", []Option{WithTracerProvider(p)}, config{maxBlockIDs: 65536, provider: p}},
		{"content", []Option{WithCapture(CaptureContent)}, config{maxBlockIDs: 65536, capture: CaptureContent}},
		{"a level that is not known", []Option{WithCapture(99)}, config{maxBlockIDs: 65536}},
		{"ids and roots", []Option{WithDerivedIDs(), WithNewRoot(), WithSessionTrace()},
			config{maxBlockIDs: 65536, derivedIDs: true, newRoot: true, sessionTrace: true}},
		{"memory", []Option{WithMaxBlockIDs(7)}, config{maxBlockIDs: 7}},
		{"no memory", []Option{WithMaxBlockIDs(0)}, config{maxBlockIDs: 65536}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := NewTracer(tt.opts...).config
			if tt.want.provider == nil {
				got.provider = nil // the global one
			}
			if got != tt.want {
				t.Errorf("config %+v, want %+v", got, tt.want)
			}
		})
	}
}
