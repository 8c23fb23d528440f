package otlprow

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"

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
func cut(s string, n int) string {
	if len(s) <= n {
		return valid(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return valid(strings.Clone(s[:n]))
}

func str(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return valid(v.Str())
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

// appendJSON appends a structured value as JSON with sorted keys. It fails if the value is nested deeper than
// maxDepth or its text is longer than most.
func appendJSON(dst []byte, v pcommon.Value, depth, most int) ([]byte, bool) {
	if depth > maxDepth || len(dst) > most {
		return nil, false
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		dst = appendQuoted(dst, v.Str(), most)
	case pcommon.ValueTypeInt:
		dst = strconv.AppendInt(dst, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		if f := v.Double(); math.IsNaN(f) || math.IsInf(f, 0) {
			dst = appendQuoted(dst, strconv.FormatFloat(f, 'g', -1, 64), most)
		} else {
			dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
		}
	case pcommon.ValueTypeBool:
		dst = strconv.AppendBool(dst, v.Bool())
	case pcommon.ValueTypeBytes:
		if v.Bytes().Len() > most {
			return nil, false
		}
		dst = appendQuoted(dst, base64.StdEncoding.EncodeToString(v.Bytes().AsRaw()), 2*most)
	case pcommon.ValueTypeSlice:
		dst = append(dst, '[')
		for i, e := range v.Slice().All() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var ok bool
			if dst, ok = appendJSON(dst, e, depth+1, most); !ok {
				return nil, false
			}
		}
		dst = append(dst, ']')
	case pcommon.ValueTypeMap:
		return appendMap(dst, v.Map(), depth, most)
	default:
		dst = append(dst, "null"...)
	}
	return dst, len(dst) <= most
}

// appendMap appends a map as appendJSON does. Of equal keys the last counts.
func appendMap(dst []byte, m pcommon.Map, depth, most int) ([]byte, bool) {
	values := map[string]pcommon.Value{}
	for k, v := range m.All() {
		values[k] = v
	}
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst = appendQuoted(dst, k, most); len(dst) > most {
			return nil, false
		}
		var ok bool
		if dst, ok = appendJSON(append(dst, ':'), values[k], depth+1, most); !ok {
			return nil, false
		}
	}
	dst = append(dst, '}')
	return dst, len(dst) <= most
}

func appendQuoted(dst []byte, s string, most int) []byte {
	if len(s) > most {
		return append(dst, make([]byte, most+1)...) // the caller sees that it is too long
	}
	b, err := json.Marshal(valid(s))
	if err != nil { // cannot happen: s is a string
		return append(dst, `""`...)
	}
	return append(dst, b...)
}
