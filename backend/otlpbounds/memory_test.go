package otlpbounds_test

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/otelagent/otelagent/backend/otlpbounds"
	"github.com/otelagent/otelagent/internal/must"
)

// in puts b into the fields, the last one innermost.
func in(b []byte, fields ...protowire.Number) []byte {
	for i := len(fields) - 1; i >= 0; i-- {
		b = protowire.AppendBytes(protowire.AppendTag(nil, fields[i], protowire.BytesType), b)
	}
	return b
}

// hollow are requests of nothing but empty messages of each type.
var hollow = map[string]struct {
	signal otlpbounds.Signal
	outer  []protowire.Number // of the message that holds the empty ones
	inner  protowire.Number
}{
	"resource spans":         {otlpbounds.Traces, nil, 1},
	"scope spans":            {otlpbounds.Traces, []protowire.Number{1}, 2},
	"spans":                  {otlpbounds.Traces, []protowire.Number{1, 2}, 2},
	"attributes of a span":   {otlpbounds.Traces, []protowire.Number{1, 2, 2}, 9},
	"events":                 {otlpbounds.Traces, []protowire.Number{1, 2, 2}, 11},
	"links":                  {otlpbounds.Traces, []protowire.Number{1, 2, 2}, 13},
	"values of a list":       {otlpbounds.Traces, []protowire.Number{1, 2, 2, 9, 2, 5}, 1},
	"values of a map":        {otlpbounds.Traces, []protowire.Number{1, 2, 2, 9, 2, 6}, 1},
	"attributes of resource": {otlpbounds.Traces, []protowire.Number{1, 1}, 1},
	"attributes of scope":    {otlpbounds.Traces, []protowire.Number{1, 2, 1}, 3},
	"resource logs":          {otlpbounds.Logs, nil, 1},
	"scope logs":             {otlpbounds.Logs, []protowire.Number{1}, 2},
	"log records":            {otlpbounds.Logs, []protowire.Number{1, 2}, 2},
	"values of a body":       {otlpbounds.Logs, []protowire.Number{1, 2, 2, 5, 5}, 1},
	"attributes of a record": {otlpbounds.Logs, []protowire.Number{1, 2, 2}, 6},
	"resource metrics":       {otlpbounds.Metrics, nil, 1},
	"scope metrics":          {otlpbounds.Metrics, []protowire.Number{1}, 2},
	"metrics":                {otlpbounds.Metrics, []protowire.Number{1, 2}, 2},
	"metadata":               {otlpbounds.Metrics, []protowire.Number{1, 2, 2}, 12},
	"gauge points":           {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 5}, 1},
	"sum points":             {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 7}, 1},
	"histogram points":       {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 9}, 1},
	"exponential points":     {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 10}, 1},
	"summary points":         {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 11}, 1},
	"quantiles":              {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 11, 1}, 6},
	"exemplars":              {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 5, 1}, 5},
	"attributes of a point":  {otlpbounds.Metrics, []protowire.Number{1, 2, 2, 7, 1}, 7},
}

// decode returns the bytes that are live after b was decoded.
func decode(t *testing.T, b []byte, s otlpbounds.Signal) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var kept any
	var err error
	switch s {
	case otlpbounds.Traces:
		r := ptraceotlp.NewExportRequest()
		err, kept = r.UnmarshalProto(b), r
	case otlpbounds.Logs:
		r := plogotlp.NewExportRequest()
		err, kept = r.UnmarshalProto(b), r
	default:
		r := pmetricotlp.NewExportRequest()
		err, kept = r.UnmarshalProto(b), r
	}
	must.Do(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// memory returns the estimate for a whole request.
func memory(b []byte, s otlpbounds.Signal) int64 {
	m := otlpbounds.NewMeter(s, math.MaxInt64)
	_, _ = m.Write(b)
	return m.Used()
}

func TestMemoryEstimatesTheDecoder(t *testing.T) {
	const n = 100_000
	for name, c := range hollow {
		b := in(bytes.Repeat(in(nil, c.inner), n), c.outer...)
		got := memory(b, c.signal)
		took := decode(t, b, c.signal)
		if got < took*9/10 || got > 2*took {
			t.Errorf("%s: estimated %d bytes each, pdata takes %d", name, got/n, took/n)
		}
		if other := memory(b, otlpbounds.AnySignal); c.signal != otlpbounds.Metrics && other < got {
			t.Errorf("%s: of any signal %d, of its own %d", name, other, got)
		}
	}
}

// The limit is the same however the bytes are cut.
func TestMeterStopsAtTheLimit(t *testing.T) {
	spans := in(bytes.Repeat(in(nil, 2), 1<<16), 1, 2)
	objects := []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`{"a\"{":1},`, 1<<16) + `]}]}]}`)
	for name, c := range map[string]struct {
		b     []byte
		meter func(limit int64) *otlpbounds.Meter
	}{
		"protobuf": {spans, func(n int64) *otlpbounds.Meter { return otlpbounds.NewMeter(otlpbounds.Traces, n) }},
		"any":      {spans, func(n int64) *otlpbounds.Meter { return otlpbounds.NewMeter(otlpbounds.AnySignal, n) }},
		"JSON":     {objects, otlpbounds.NewJSONMeter},
	} {
		need := int64(len(c.b)) + 420<<16 + 320
		if name == "JSON" {
			need = int64(len(c.b)) + 420<<16 + 420*3
		}
		for _, piece := range []int{1, 7, 1 << 10, len(c.b)} {
			for limit, want := range map[int64]error{need: nil, need - 1: otlpbounds.ErrTooLarge} {
				m := c.meter(limit)
				var err error
				for i := 0; i < len(c.b) && err == nil; i += piece {
					_, err = m.Write(c.b[i:min(i+piece, len(c.b))])
				}
				if !errors.Is(err, want) {
					t.Errorf("%s in pieces of %d, limit %d: %v", name, piece, limit, err)
				}
			}
		}
	}
}

// Text counts once, whatever is in it.
func TestMemoryOfText(t *testing.T) {
	text := strings.Repeat("\n\x00{}", 1<<20)
	b := traces(t, 1, 1, text)
	if got := memory(b, otlpbounds.Traces); got > int64(len(b))+4<<10 {
		t.Errorf("%d for %d bytes", got, len(b))
	}
}

func FuzzMeter(f *testing.F) {
	f.Add(in(bytes.Repeat(in(nil, 2), 10), 1, 2), 3)
	f.Add(traces(f, 3, 3, "text"), 1)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		m, whole := otlpbounds.NewMeter(otlpbounds.Traces, 4096), memory(b, otlpbounds.Traces)
		var err error
		piece = max(piece&63, 1)
		for i := 0; i < len(b) && err == nil; i += piece {
			_, err = m.Write(b[i:min(i+piece, len(b))])
		}
		if (err == nil) != (whole <= 4096) {
			t.Errorf("%d bytes, but in pieces of %d: %v", whole, piece, err)
		}
	})
}
