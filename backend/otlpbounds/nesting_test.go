package otlpbounds_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/otelagent/otelagent/backend/otlpbounds"
	"github.com/otelagent/otelagent/internal/must"
)

// traces returns OTLP of a span with an attribute of that many lists, or maps, in each other, and other text.
func traces(t testing.TB, lists, maps int, other string) []byte {
	t.Helper()
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName(other)
	span.Attributes().PutStr("text", other)
	v := span.Attributes().PutEmpty("deep")
	for range lists {
		v = v.SetEmptySlice().AppendEmpty()
	}
	for range maps {
		v = v.SetEmptyMap().PutEmpty("")
	}
	b := must.Get((&ptrace.ProtoMarshaler{}).MarshalTraces(td))(t)
	return b
}

// TestCheck nests lists and maps in attributes: what is in text is no message.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		deep bool
	}{
		"nothing":       {nil, false},
		"a span":        {traces(t, 1, 1, "x"), false},
		"80 lists":      {traces(t, 80, 0, "x"), false},
		"80 maps":       {traces(t, 0, 80, "x"), false},
		"150 lists":     {traces(t, 150, 0, "x"), true},
		"100 maps":      {traces(t, 0, 100, "x"), true},
		"rubbish":       {append(traces(t, 150, 0, "x"), 7), true},
		"long text":     {traces(t, 1, 1, strings.Repeat("\n\x02", 1<<20)), false},
		"spans in text": {traces(t, 1, 1, string(traces(t, 150, 0, "x"))), false},
	} {
		if err := otlpbounds.Check(c.b); errors.Is(err, otlpbounds.ErrTooDeep) != c.deep {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of metrics, also where the signal is not known.
	value := in(nil, slices.Repeat([]protowire.Number{5, 1}, 150)...)
	for _, s := range []otlpbounds.Signal{otlpbounds.Metrics, otlpbounds.AnySignal} {
		m := otlpbounds.NewMeter(s, math.MaxInt64)
		if _, err := m.Write(in(value, 1, 2, 2, 5, 1, 7, 2)); !errors.Is(err, otlpbounds.ErrTooDeep) {
			t.Errorf("signal %d: %v", s, err)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	most := strings.Repeat("[", otlpbounds.Max)
	for text, deep := range map[string]bool{
		"":                                 false,
		most:                               false,
		most + "[":                         true,
		strings.Repeat(`{"a":`, 300):       true,
		`"` + most + `["`:                  false, // text
		`"\"` + most + `["`:                false,
		`"\\",` + most + `[`:               true,
		strings.Repeat("[]", 1000):         false,
		"]" + most + "[":                   false, // no JSON, which its decoder says at once
		`["` + strings.Repeat(`[\"`, 1000): false,
	} {
		if err := otlpbounds.CheckJSON([]byte(text)); errors.Is(err, otlpbounds.ErrTooDeep) != deep {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	td := must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(traces(t, 10, 10, `text with " and [ in it`)))(t)
	raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil || otlpbounds.CheckJSON(raw) != nil {
		t.Errorf("a span: %v, %v", err, otlpbounds.CheckJSON(raw))
	}
}

// FuzzCheck decodes messages that pass: none is deep.
func FuzzCheck(f *testing.F) {
	f.Add(traces(f, 3, 3, "x"))
	f.Add(traces(f, 130, 0, "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if otlpbounds.Check(b) != nil || len(b) > 1<<16 {
			return
		}
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			return
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					for _, v := range s.Attributes().All() {
						if d := depth(v); d > otlpbounds.Max/2 {
							t.Errorf("depth %d", d)
						}
					}
				}
			}
		}
	})
}

func depth(v pcommon.Value) int {
	d := 0
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			d = max(d, depth(e))
		}
	case pcommon.ValueTypeMap:
		for _, e := range v.Map().All() {
			d = max(d, depth(e))
		}
	}
	return d + 1
}
