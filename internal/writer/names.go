package writer

import "strings"

// spanName returns the name of a span of that kind. Empty details are left out.
func (t *Tracer) spanName(kind *spanKind, detail [2]string) string {
	name := kind.name
	if !t.config.Detailed {
		return name
	}
	for _, d := range detail {
		if d = strings.TrimSpace(cleanName(d)); d != "" {
			name += " " + d
		}
	}
	return name
}
