package otelsetup

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// What OTLP adds at most: to a field that has a length, to an attribute or an element of a list, to a span with all its fixed
// fields and its scope, to an event and to a link with theirs.
const (
	fieldBytes = 6
	valueBytes = 4 * fieldBytes
	fixedBytes = 256
	eventBytes = 64
	linkBytes  = 96
)

// spanSize returns how many bytes a span takes as OTLP, estimated and never too low. Its scope is counted with it.
func spanSize(s sdktrace.ReadOnlySpan) int64 {
	n := fixedBytes + len(s.Name()) + len(s.Status().Description) + len(s.SpanContext().TraceState().String())
	scope := s.InstrumentationScope()
	n += len(scope.Name) + len(scope.Version) + len(scope.SchemaURL)
	for it := scope.Attributes.Iter(); it.Next(); {
		n += attributeSize(it.Attribute())
	}
	n += attributesSize(s.Attributes())
	for _, e := range s.Events() {
		n += eventBytes + len(e.Name) + attributesSize(e.Attributes)
	}
	for _, l := range s.Links() {
		n += linkBytes + len(l.SpanContext.TraceState().String()) + attributesSize(l.Attributes)
	}
	return int64(n)
}

// resourceSize is spanSize for what stands once in a request.
func resourceSize(r *resource.Resource) int64 {
	n := fixedBytes + len(r.SchemaURL())
	for it := r.Iter(); it.Next(); {
		n += attributeSize(it.Attribute())
	}
	return int64(n)
}

func attributesSize(list []attribute.KeyValue) int {
	n := 0
	for _, kv := range list {
		n += attributeSize(kv)
	}
	return n
}

func attributeSize(kv attribute.KeyValue) int { return valueBytes + len(kv.Key) + valueSize(kv.Value) }

func valueSize(v attribute.Value) int {
	n := valueBytes
	switch v.Type() {
	case attribute.STRING:
		n += len(v.AsString())
	case attribute.BYTESLICE:
		n += len(v.AsByteSlice())
	case attribute.STRINGSLICE:
		for _, s := range v.AsStringSlice() {
			n += valueBytes + len(s)
		}
	case attribute.BOOLSLICE:
		n += valueBytes * len(v.AsBoolSlice())
	case attribute.INT64SLICE:
		n += valueBytes * len(v.AsInt64Slice())
	case attribute.FLOAT64SLICE:
		n += valueBytes * len(v.AsFloat64Slice())
	case attribute.SLICE:
		for _, e := range v.AsSlice() {
			n += valueSize(e)
		}
	case attribute.MAP:
		n += attributesSize(v.AsMap())
	}
	return n
}
