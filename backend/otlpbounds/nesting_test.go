package otlpbounds_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/otelagent/otelagent/backend/otlpbounds"
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
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nest puts b into n fields, each written as field does.
func nest(b []byte, n int, field func(inner []byte) []byte) []byte {
	for range n {
		b = field(b)
	}
	return b
}

func plain(inner []byte) []byte { return protowire.AppendBytes([]byte{1<<3 | 2}, inner) }

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		deep bool
	}{
		"nothing":            {nil, false},
		"a span":             {traces(t, 1, 1, "x"), false},
		"80 lists":           {traces(t, 80, 0, "x"), false},
		"80 maps":            {traces(t, 0, 80, "x"), false},
		"150 lists":          {traces(t, 150, 0, "x"), true},
		"100 maps":           {traces(t, 0, 100, "x"), true},
		"long text":          {traces(t, 1, 1, strings.Repeat("\n\x02", 1<<20)), false},
		"the most":           {nest(nil, otlpbounds.Max-1, plain), false},
		"one more":           {nest(nil, otlpbounds.Max, plain), true},
		"rubbish in it":      {nest([]byte{0xff}, otlpbounds.Max, plain), true},
		"rubbish everywhere": {nest(nil, otlpbounds.Max, func(b []byte) []byte { return append(plain(b), 7) }), true},
		"behind other fields": {nest(nil, otlpbounds.Max, func(b []byte) []byte {
			return append([]byte{1 << 3, 0x80, 1, 2<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 3<<3 | 5, 1, 2, 3, 4, 4<<3 | 3, 4<<3 | 4, 5<<3 | 2, 1, 'x'}, plain(b)...)
		}), true},
		"lengths of ten bytes": {nest(nil, otlpbounds.Max, func(b []byte) []byte {
			head := protowire.AppendVarint([]byte{1<<3 | 2}, uint64(len(b)))
			for last := len(head) - 1; len(head) < 11; last = len(head) - 1 {
				head[last] |= 0x80
				head = append(head, 0)
			}
			head[10] = 0x7e // bits that have no place
			return append(head, b...)
		}), true},
		"field numbers that have no place": {nest(nil, otlpbounds.Max, func(b []byte) []byte {
			return protowire.AppendBytes(protowire.AppendVarint(nil, (1<<32+5)<<3|2), b)
		}), true},
	} {
		if err := otlpbounds.Check(c.b); errors.Is(err, otlpbounds.ErrTooDeep) != c.deep {
			t.Errorf("%s: %v", name, err)
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
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(traces(t, 10, 10, `text with " and [ in it`))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil || otlpbounds.CheckJSON(raw) != nil {
		t.Errorf("a span: %v, %v", err, otlpbounds.CheckJSON(raw))
	}
}

// What a decoder makes of a message that passes is never deep.
func FuzzCheck(f *testing.F) {
	f.Add(traces(f, 3, 3, "x"))
	f.Add(traces(f, 130, 0, "x"))
	f.Add(nest(nil, 300, plain))
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

func BenchmarkCheck(b *testing.B) {
	random := make([]byte, 4096)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	td := ptrace.NewTraces()
	list := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 100 {
		s := list.AppendEmpty()
		for i := range 30 {
			s.Attributes().PutInt("otelagent.attribute."+string(rune('a'+i)), int64(i))
		}
		bodies := s.Events().AppendEmpty().Attributes().PutEmptySlice("bodies")
		bodies.AppendEmpty().SetStr(strings.Repeat("words of a message ", 4096/19))
		bodies.AppendEmpty().SetEmptyBytes().FromRaw(random)
	}
	raw, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if otlpbounds.Check(raw) != nil {
			b.Fatal("too deep")
		}
	}
}
