package otlprow

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
)

// valid returns s with each byte that is not UTF-8 replaced by U+FFFD.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// boundID returns an id as the adapter writes it: the hash replaces one over the bound.
func boundID(s string) string {
	if len(s) > maxID {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return valid(s)
}

// cut returns s as valid text of at most n bytes, cut at a rune. A cut string does not hold on to the long one.
func cut(s string, n int) string { return valid(session.Beginning(s, n)) }

// text returns a string attribute; empty if there is none.
func text(m pcommon.Map, key attribute.Key) string {
	if v, ok := get(m, string(key)); ok && v.Type() == pcommon.ValueTypeStr {
		return valid(v.Str())
	}
	return ""
}

// number returns an int attribute, in any spelling; 0 if there is none.
func number(m pcommon.Map, key attribute.Key) int64 {
	v, ok := get(m, string(key))
	if !ok {
		return 0
	}
	return scalar(v).IntOr(0)
}

// scalar returns a string, number or bool; absent for any other type.
func scalar(v pcommon.Value) session.Value {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return session.StringValue(v.Str())
	case pcommon.ValueTypeInt:
		return session.IntValue(v.Int())
	case pcommon.ValueTypeDouble:
		return session.DoubleValue(v.Double())
	case pcommon.ValueTypeBool:
		return session.BoolValue(v.Bool())
	}
	return session.Value{}
}

// get returns the last value of key.
func get(m pcommon.Map, key string) (found pcommon.Value, ok bool) {
	for k, v := range m.All() {
		if k == key {
			found, ok = v, true
		}
	}
	return found, ok
}

// deep reports whether a structured value is nested deeper than left.
func deep(v pcommon.Value, left int) bool {
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			if left == 0 || deep(e, left-1) {
				return true
			}
		}
	case pcommon.ValueTypeMap:
		for _, e := range v.Map().All() {
			if left == 0 || deep(e, left-1) {
				return true
			}
		}
	}
	return false
}
