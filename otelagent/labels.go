package otelagent

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelagent/otelagent/spans"
)

const (
	// maxLabelValues is how many values of one label a Tracer lets through; models make up names of tools.
	maxLabelValues = 128
	// maxLabelSets bounds the sets of labels of one kind of thing that are kept ready; others are made for each sample.
	maxLabelSets = 1024
	// otherLabel stands for the values that are not let through.
	otherLabel = "_OTHER"
)

// labelValues are the values of labels that were let through. Safe for concurrent use.
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

// bound returns the value that stands for value: itself, or _OTHER, also for what cannot be the name of a tool. An empty one is none.
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

// maxToolName bounds the name of a tool that is let through, in bytes.
const maxToolName = 128

// toolName reports whether s looks like the name of a tool. Models write such names, and may write anything there.
func toolName(s string) bool {
	return len(s) <= maxToolName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-") == ""
}

// labels are the labels of a sample, in the two forms that instruments take.
type labels struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

// labelsOf returns the labels that a metric has, of those given. Nil keys give none.
func labelsOf(keys []attribute.Key, given ...attribute.KeyValue) labels {
	kv := make([]attribute.KeyValue, 0, len(keys))
	for _, key := range keys {
		for _, g := range given {
			if g.Key == key && g.Value.AsString() != "" {
				kv = append(kv, g)
			}
		}
	}
	if len(kv) == 0 {
		return labels{}
	}
	o := metric.WithAttributeSet(attribute.NewSet(kv...))
	return labels{[]metric.RecordOption{o}, []metric.AddOption{o}}
}

// labelSets keeps the labels of things that are alike, so that a sample allocates nothing. Safe for concurrent use.
type labelSets[K comparable, V any] struct {
	mu   sync.RWMutex
	sets map[K]*V
}

// of returns the labels of k, which build makes of it.
func (s *labelSets[K, V]) of(k K, build func(K) *V) *V {
	s.mu.RLock()
	v := s.sets[k]
	s.mu.RUnlock()
	if v != nil {
		return v
	}
	v = build(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets = make(map[K]*V)
	}
	if len(s.sets) < maxLabelSets {
		s.sets[k] = v
	}
	return v
}
