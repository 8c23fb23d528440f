package writer

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

const (
	// maxLabelValues is the number of values of one label that a Tracer records; models invent names of tools.
	maxLabelValues = 128
	// otherLabel replaces the values beyond that.
	otherLabel = "_OTHER"
)

// labelValues are the values of labels that were recorded. Safe for concurrent use.
type labelValues struct {
	mu    sync.RWMutex
	seen  map[labelValue]struct{}
	count map[attribute.Key]int
}

type labelValue struct {
	key   attribute.Key
	value string
}

func newLabelValues() *labelValues {
	return &labelValues{seen: make(map[labelValue]struct{}), count: make(map[attribute.Key]int)}
}

// bound returns value, or _OTHER for a value beyond the bound and for a tool name that does not look like one. Empty
// stays empty.
func (l *labelValues) bound(key attribute.Key, value string) string {
	if value == "" {
		return ""
	}
	if key == spans.ToolNameKey && !toolName(value) {
		return otherLabel
	}
	value = cleanName(value)
	v := labelValue{key, value}
	l.mu.RLock()
	_, seen := l.seen[v]
	full := l.count[key] >= maxLabelValues
	l.mu.RUnlock()
	if seen {
		return value
	}
	if full {
		return otherLabel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, seen = l.seen[v]; seen {
		return value
	}
	if l.count[key] >= maxLabelValues {
		return otherLabel
	}
	l.seen[v] = struct{}{}
	l.count[key]++
	return value
}

// maxToolName is the most bytes of a tool name that is recorded.
const maxToolName = 128

// toolName reports whether s looks like the name of a tool. Models write these names and may write anything.
func toolName(s string) bool {
	return len(s) <= maxToolName &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-") == ""
}
