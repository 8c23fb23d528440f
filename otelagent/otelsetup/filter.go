package otelsetup

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// WithoutScopes does not send spans of instrumentation scopes with these names, and counts them nowhere. It is for
// frameworks that put content on spans of their own, whatever otelagent.WithCapture says, and cannot be switched off:
//
//	otelsetup.WithoutScopes("gcp.vertex.agent", "genkit-tracer") // Agent Development Kit, Genkit
//
// A span below one that is not sent keeps the id of that parent.
func WithoutScopes(names ...string) Option {
	return func(c *config) { c.without = append(c.without, names...) }
}

// WithoutGenAIUsage sends the usage of turns as otelagent.usage.* in place of gen_ai.usage.*. It is for programs whose
// framework has gen_ai.usage.* of the same model calls on spans of its own, which are sent too: backends that add up
// gen_ai.usage.* then count each call once. Session trees and metrics stay the same.
func WithoutGenAIUsage() Option { return func(c *config) { c.ownUsage = true } }

// drops reports whether a span is of a scope that is not sent.
func (e *Exporter) drops(s sdktrace.ReadOnlySpan) bool {
	return len(e.without) > 0 && slices.Contains(e.without, s.InstrumentationScope().Name)
}

// usageKeys are the keys of a turn's usage, and what WithoutGenAIUsage makes of them.
var usageKeys = map[attribute.Key]attribute.Key{
	spans.GenAIUsageInputKey:         spans.UsageInputKey,
	spans.GenAIUsageOutputKey:        spans.UsageOutputKey,
	spans.GenAIUsageReasoningKey:     spans.UsageReasoningKey,
	spans.GenAIUsageCacheReadKey:     spans.UsageCacheReadKey,
	spans.GenAIUsageCacheCreationKey: spans.UsageCacheWriteKey,
	spans.GenAIUsageCacheWriteKey:    spans.UsageCacheWriteKey,
}

// withUsage returns the spans as they are sent: with WithoutGenAIUsage turns have no gen_ai.usage.*.
func (e *Exporter) withUsage(part []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	if e.ownUsage {
		part = slices.Clone(part)
		for i, s := range part {
			if attributeOf(s, spans.KindKey).AsString() == spans.SpanTurn {
				part[i] = ownUsageSpan{s}
			}
		}
	}
	return part
}

type ownUsageSpan struct{ sdktrace.ReadOnlySpan }

func (s ownUsageSpan) Attributes() []attribute.KeyValue {
	all := slices.Clone(s.ReadOnlySpan.Attributes())
	for i, kv := range all {
		if own, ok := usageKeys[kv.Key]; ok {
			all[i].Key = own
		}
	}
	return all
}
