package otlprow

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/otlpbounds"
	"github.com/otelagent/otelagent/internal/must"
)

// unknownSpans returns spans with 16 attributes that no source describes.
func unknownSpans(n int) ptrace.Traces {
	td := ptrace.NewTraces()
	ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	ss.Scope().SetName("io.opentelemetry.http")
	for range n {
		s := ss.Spans().AppendEmpty()
		s.SetName("GET /")
		s.SetSpanID([8]byte{1})
		s.SetTraceID([16]byte{1})
		for i := range 16 {
			s.Attributes().PutStr(fmt.Sprint("http.request.header.", i), "some value")
		}
	}
	return td
}

// A span that no source describes allocates nothing.
func TestSkipAllocatesNothing(t *testing.T) {
	allocs := func(n int) float64 {
		td := unknownSpans(n)
		return testing.AllocsPerRun(20, func() {
			if _, r := Decode(td); r.Foreign != n {
				t.Fatalf("%+v", r)
			}
		})
	}
	if one, many := allocs(1), allocs(1000); many > one {
		t.Errorf("%v allocations for a span, %v for 1000", one, many)
	}
}

// BenchmarkSkip measures such spans from OTLP on; floor only decodes them, as a receiver does that skips all.
func BenchmarkSkip(b *testing.B) {
	var m ptrace.ProtoMarshaler
	raw := must.Get(m.MarshalTraces(unknownSpans(512)))(b)
	b.Run("spans", func(b *testing.B) {
		for b.Loop() {
			if _, r, err := DecodeProto(raw); r.Foreign != 512 || err != nil {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		var u ptrace.ProtoUnmarshaler
		for b.Loop() {
			must.Do(b, otlpbounds.Check(raw))
			if _, err := u.UnmarshalTraces(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
