package spans

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// Class says who made a value and so whether the process may send it without capture.
type Class uint8

// The classes, safest first. Only ClassContent is withheld when nothing is captured.
const (
	// ClassID is an identifier made by a loop or by the tracer.
	ClassID Class = iota
	// ClassNumber is a count, time, size or amount.
	ClassNumber
	// ClassEnum is a value from a closed list of this registry.
	ClassEnum
	// ClassName is a value that a programmer or operator chose.
	ClassName
	// ClassContent is anything that a model, user, tool or provider wrote.
	ClassContent
)

// Attribute describes one key of the registry.
type Attribute struct {
	Key   attribute.Key
	Type  string // string, int, double, bool, bytes, string[] or int[]
	Class Class
	Brief string
	// Profiles that write it; nil means all.
	Profiles []Profile
}

// Attributes returns a copy of all keys in the order of registry.yaml.
func Attributes() []Attribute { return slices.Clone(attributes) }

var byKey = sync.OnceValue(func() map[attribute.Key]Attribute {
	m := make(map[attribute.Key]Attribute, len(attributes))
	for _, a := range attributes {
		m[a.Key] = a
	}
	return m
})

// Lookup returns what the registry says of key, and whether it knows it. Safe for concurrent use.
func Lookup(key attribute.Key) (Attribute, bool) {
	a, ok := byKey()[key]
	return a, ok
}

// Defect describes one defect code.
type Defect struct {
	Code        DefectCode
	Brief       string
	Observation bool // a fact about the source, not a fault of the recording
}

// Defects returns a copy of all defect codes in the order of registry.yaml.
func Defects() []Defect { return slices.Clone(defects) }
