package otelagent

import "strings"

// SpanNames says how spans are named. The attribute otelagent.kind holds the exact name either way.
type SpanNames uint8

// The ways to name spans.
const (
	// Exact names a span by its kind alone: tool.call.
	Exact SpanNames = iota
	// Detailed adds what distinguishes spans of one kind, if it is known: tool.call bash, permission.evaluate deny bash,
	// session.run coder, compaction.run summary. It adds names of tools and agents and values of the registry, never
	// numbers, ids or content.
	Detailed
)

// WithSpanNames sets how spans are named. Default, and with an unknown value: [Exact].
func WithSpanNames(n SpanNames) Option {
	return optionFunc(func(c config) config { c.detailed = n == Detailed; return c })
}

// spanName returns the name of a span of that kind. Empty details are left out.
func (t *Tracer) spanName(kind *spanKind, detail [2]string) string {
	if !t.config.detailed || detail == [2]string{} {
		return kind.name
	}
	name := kind.name
	for _, d := range detail {
		if d = strings.TrimSpace(cleanName(d)); d != "" {
			name += " " + d
		}
	}
	return name
}

// rename names an open span by what is known at its end.
func (h *handle) rename(kind *spanKind, detail [2]string) {
	if h.tracer.config.detailed {
		h.span.SetName(h.tracer.spanName(kind, detail))
	}
}
